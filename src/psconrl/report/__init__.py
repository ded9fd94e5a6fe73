"""Reports of stored runs: one HTML page and figures, with sections of your own.

`write` makes the report of a folder of runs. A `Section` adds text, tables and figures to it; a figure is made of rows
of panels, a `Panel` of lines and levels, which `line` makes of runs. `draw` and `save` make pictures of panels.
"""

from typing import TYPE_CHECKING

from psconrl._core.lazy import attributes

if TYPE_CHECKING:
    from psconrl.report.figures import draw as draw
    from psconrl.report.figures import gallery as gallery
    from psconrl.report.figures import save as save
    from psconrl.report.panels import Level as Level
    from psconrl.report.panels import Line as Line
    from psconrl.report.panels import Panel as Panel
    from psconrl.report.panels import agent_label as agent_label
    from psconrl.report.panels import line as line
    from psconrl.report.panels import regret_column as regret_column
    from psconrl.report.panels import runs_title as runs_title
    from psconrl.report.panels import title as title
    from psconrl.report.section import PanelRows as PanelRows
    from psconrl.report.section import Section as Section
    from psconrl.report.section import Table as Table
    from psconrl.report.writer import provenance as provenance
    from psconrl.report.writer import write as write

_HOME = {
    "Level": "panels",
    "Line": "panels",
    "Panel": "panels",
    "PanelRows": "section",
    "Section": "section",
    "Table": "section",
    "agent_label": "panels",
    "draw": "figures",
    "gallery": "figures",
    "line": "panels",
    "provenance": "writer",
    "regret_column": "panels",
    "runs_title": "panels",
    "save": "figures",
    "title": "panels",
    "write": "writer",
}

__all__ = list(_HOME)

__getattr__ = attributes(__name__, {name: f"{__name__}.{home}" for name, home in _HOME.items()})


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
