"""What optimistic plans leave for the next one, looked at before compiled code sees it.

A carry may come from a file, from another problem, or from a time when fewer states were known; what does not fit is
left out.
"""

from __future__ import annotations

import numpy as np

from psconrl._core.checks import Ints
from psconrl._core.pairs import Pairs
from psconrl.agents.contract import Carry
from psconrl.planning.compiled import confidence_sets, execute


def columns(carry: Carry, steps: int, pairs: Pairs) -> Ints | None:
    """Columns (n, 2, steps, S), actions by their slots and orders of the states, if they are of such a problem."""
    found, S = _ints(carry, "columns", 4), len(pairs.available)
    if found is None or found.shape[1:] != (2, steps, S):
        return None
    columns = found if found.flags.carray else found.copy()
    return columns if confidence_sets.are_columns(columns, pairs.begin) else None


def paths(carry: Carry, pairs: Pairs) -> Ints | None:
    """Paths (S,), the pair to be taken in each state, or -1, if it is one of such a problem."""
    found = _ints(carry, "paths", 1)
    if found is None or len(found) != len(pairs.available):
        return None
    paths = found if found.flags.carray else found.copy()
    return paths if execute.are_paths(paths, pairs.begin) else None


def optimistic(carry: Carry, pairs: Pairs) -> dict[str, Ints]:
    """The start of `best_optimistic`: what there is of columns and paths."""
    found = {"columns": columns(carry, 1, pairs), "paths": paths(carry, pairs)}
    return {name: array for name, array in found.items() if array is not None}


def count(carry: Carry, name: str) -> Ints:
    """A number (1,) that is counted on from plan to plan."""
    found = _ints(carry, name, 1)
    return np.zeros(1, dtype=np.int64) if found is None or len(found) != 1 else found


def _ints(carry: Carry, name: str, axes: int) -> Ints | None:
    array = carry.get(name)
    return array if isinstance(array, np.ndarray) and array.dtype == np.int64 and array.ndim == axes else None
