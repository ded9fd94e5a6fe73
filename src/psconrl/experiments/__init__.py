"""Experiments: what to run, running it on many cores or machines, and the folder that holds the results."""

from typing import TYPE_CHECKING

from psconrl._core.lazy import attributes

if TYPE_CHECKING:
    from psconrl.experiments.progress import for_terminal as for_terminal
    from psconrl.experiments.record import RunRecord as RunRecord
    from psconrl.experiments.run_one import run_cell as run_cell
    from psconrl.experiments.runner import Outcome as Outcome
    from psconrl.experiments.runner import run_experiment as run_experiment
    from psconrl.experiments.runner import run_together as run_together
    from psconrl.experiments.spec import Cell as Cell
    from psconrl.experiments.spec import Experiment as Experiment
    from psconrl.experiments.spec import SpecError as SpecError
    from psconrl.experiments.spec import code_identity as code_identity
    from psconrl.experiments.spec import read_toml as read_toml
    from psconrl.experiments.store import Store as Store

_HOME = {
    "Cell": "spec",
    "Experiment": "spec",
    "SpecError": "spec",
    "code_identity": "spec",
    "read_toml": "spec",
    "RunRecord": "record",
    "run_cell": "run_one",
    "Store": "store",
    "Outcome": "runner",
    "run_experiment": "runner",
    "run_together": "runner",
    "for_terminal": "progress",
}

__all__ = list(_HOME)

__getattr__ = attributes(__name__, {name: f"{__name__}.{home}" for name, home in _HOME.items()})
