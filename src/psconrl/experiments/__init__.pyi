from .identity import code_identity as code_identity
from .plugins import import_module as import_module
from .progress import for_terminal as for_terminal
from .record import RunRecord as RunRecord
from .run_one import run_cell as run_cell
from .runner import Outcome as Outcome
from .runner import run_experiment as run_experiment
from .spec import Cell as Cell
from .spec import Experiment as Experiment
from .spec import notes as notes
from .spec import read_experiment as read_experiment
from .spec import read_toml as read_toml
from .store import Store as Store

__all__: list[str]
