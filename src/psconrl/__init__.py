"""Planning and learning under long-run constraints.

The names of this package are imported when first used, so that `import psconrl` stays light; `__init__.pyi` lists them.
"""

import lazy_loader

from psconrl.gymnasium_ids import register_if_loaded

__version__ = "0.1.0"

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)

register_if_loaded()
