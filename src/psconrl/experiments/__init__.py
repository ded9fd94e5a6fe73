"""Experiments: what to run, running it on many cores or machines, and the folder that holds the results."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
