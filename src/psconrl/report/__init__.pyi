from .figures import draw as draw
from .figures import gallery as gallery
from .figures import save as save
from .panels import Level as Level
from .panels import Line as Line
from .panels import Panel as Panel
from .panels import agent_label as agent_label
from .panels import line as line
from .panels import regret_column as regret_column
from .panels import runs_title as runs_title
from .panels import title as title
from .section import PanelRows as PanelRows
from .section import Section as Section
from .section import Table as Table
from .writer import provenance as provenance
from .writer import write as write

__all__: list[str]
