"""Learning algorithms behind one contract: one file each, named as its paper names it.

The names of this package are imported when first used; `__init__.pyi` lists them.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
