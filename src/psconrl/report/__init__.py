"""Reports of stored runs: one HTML page and figures, with sections of your own.

`write` makes the report of a folder of runs. A `Section` adds text, tables and figures to it; a figure is made of rows
of panels, a `Panel` of lines and levels, which `line` makes of runs. `draw` and `save` make pictures of panels.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
