"""The interaction of an agent with an environment.

`simulate` and `learn` run an agent in a model or a Gymnasium environment and give a `Run`; a `Learner` is one agent at
work, step by step; `Steering` runs a solution that is known; an `Estimate` is the model that was learned.

The names are imported when first used; `__init__.pyi` lists them.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
