"""Learning agents behind one contract: one file for each algorithm, and the pieces that agents of your own are made of.

Agents        `recommended`, and one class for each algorithm
Contract      `Agent`, `Memory`, `Plan`; `check_agent` checks an agent of your own, `register` gives it a name
Base classes  `LimitedAgent` plans with limits, `PosteriorAgent` samples models, `EstimatingAgent` estimates one
Planning      `plan_in` finds the best policy in a `Model`, such as a `SampledModel`; `exploit` makes a plan of it
Schedules     the module `schedules`: when a plan ends, as a `Stop`

The names are imported when first used; `__init__.pyi` lists them.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
