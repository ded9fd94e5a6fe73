from .environments import agent_label as agent_label
from .environments import title as title
from .figures import draw as draw
from .figures import save as save
from .panels import Level as Level
from .panels import Line as Line
from .panels import Panel as Panel
from .panels import PanelRows as PanelRows
from .panels import line as line
from .panels import regret_column as regret_column
from .panels import runs_title as runs_title
from .sections import Section as Section
from .sections import Table as Table
from .writer import provenance as provenance
from .writer import write as write

__all__: list[str]
