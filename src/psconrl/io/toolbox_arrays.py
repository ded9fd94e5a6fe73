"""Models from arrays in the layouts of MDP toolboxes, where the action comes first.

transitions     (A, S, S): transitions[a, s, s'] = p(s' | s, a), or A scipy sparse (S, S) matrices
a reward        (S,): r(s); (S, A): r(s, a); (A, S, S): r(s, a, s'), or A scipy sparse (S, S) matrices
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

from psconrl._core import checks
from psconrl._core.checks import Floats
from psconrl._core.lazy import lazy_import
from psconrl.errors import InvalidModelError

if TYPE_CHECKING:
    from psconrl import cmdp as models
    from psconrl.cmdp import CMDP
else:
    models = lazy_import("psconrl.cmdp")


def from_toolbox_arrays(transitions: Any, rewards: Any, costs: Any, thresholds: Any, names: dict[str, Any]) -> CMDP:
    """The CMDP of arrays; see `CMDP.from_arrays`."""
    p, S, A = _transitions(transitions)
    listed = _listed(costs)
    if rewards is None and not listed:
        raise InvalidModelError("there are neither rewards to maximise nor costs to minimise; give one of them")
    given = [] if rewards is None else [_quantity(rewards, "rewards", S, A, sign=-1.0)]
    given += [_quantity(cost, f"costs[{i}]", S, A) for i, cost in enumerate(listed)]
    if not any(isinstance(quantity, _PerMove) for quantity in given):
        return models.CMDP(p, np.stack([quantity.values for quantity in given]), thresholds, **names)
    by_move = [_by_move(quantity, p, S, A) for quantity in given]
    return models.CMDP(p, np.stack(by_move) if isinstance(p, np.ndarray) else by_move, thresholds, **names)


@dataclass(frozen=True)
class _PerPair:
    """One number per state and action, (S, A)."""

    values: Floats


@dataclass(frozen=True)
class _PerMove:
    """One number per move: an array or a sparse matrix (S * A, S)."""

    values: Any


def _transitions(given: Any) -> tuple[Any, int, int]:
    """Transitions in the layout of a CMDP, and the numbers of states and actions."""
    what = "transitions"
    if sparse.issparse(given):
        raise InvalidModelError(f"{what} are one sparse matrix; give a list of A matrices (S, S), or call CMDP(...)")
    if _sparse_matrices(given):
        shape = given[0].shape
        stacked = _stacked(given, what, shape[0], len(given))
        return stacked, shape[0], len(given)
    p = checks.numbers(given, what)
    if p.ndim != 3 or p.shape[1] != p.shape[2]:
        raise InvalidModelError(f"{what} have shape {p.shape}; they must be (A, S, S), or A sparse matrices (S, S)")
    return np.ascontiguousarray(p.transpose(1, 0, 2)), p.shape[1], p.shape[0]


def _quantity(given: Any, what: str, S: int, A: int, sign: float = 1.0) -> _PerPair | _PerMove:
    """A reward or cost in any of the layouts, times a sign."""
    if _sparse_matrices(given):
        return _PerMove(sign * _stacked(given, what, S, A))
    array = sign * checks.numbers(given, what)
    if array.shape == (S,):
        return _PerPair(np.repeat(array[:, np.newaxis], A, axis=1))
    if array.shape == (S, A):
        return _PerPair(array)
    if array.shape == (A, S, S):
        return _PerMove(array.transpose(1, 0, 2).reshape(S * A, S))
    raise InvalidModelError(
        f"{what} has shape {array.shape}; it must be (S,) = {(S,)}, (S, A) = {(S, A)}, (A, S, S) = {(A, S, S)}, "
        f"or {A} sparse matrices of shape {(S, S)}"
    )


def _stacked(matrices: Sequence[Any], what: str, S: int, A: int) -> sparse.csr_array:
    """A sparse (S, S) matrices, one per action, as one (S * A, S) with rows in state-major order."""
    if len(matrices) != A or any(matrix.shape != (S, S) for matrix in matrices):
        shapes = sorted({matrix.shape for matrix in matrices})
        raise InvalidModelError(
            f"{what} are {len(matrices)} sparse matrices of shape {', '.join(map(str, shapes))}; "
            f"there must be {A} of shape {(S, S)}"
        )
    by_action = sparse.vstack([sparse.csr_array(matrix) for matrix in matrices], format="csr")
    return sparse.csr_array(by_action[np.arange(S * A).reshape(A, S).T.ravel()])


def _by_move(quantity: _PerPair | _PerMove, p: Any, S: int, A: int) -> Any:
    """One number per move, in the layout that goes with the transitions."""
    values: Any = quantity.values
    if isinstance(quantity, _PerPair):
        pairs = values.reshape(S * A, 1)
        values = np.broadcast_to(pairs, (S * A, S)) if isinstance(p, np.ndarray) else (p != 0).multiply(pairs)
    if isinstance(p, np.ndarray):
        return (values.toarray() if sparse.issparse(values) else values).reshape(S, A, S)
    return sparse.csr_array(values)


def _sparse_matrices(given: Any) -> bool:
    return isinstance(given, (list, tuple)) and len(given) > 0 and all(sparse.issparse(matrix) for matrix in given)


def _listed(costs: Any) -> list[Any]:
    if isinstance(costs, str) or not np.iterable(costs) or sparse.issparse(costs):
        raise InvalidModelError("costs must be a list of arrays, one per cost")
    return list(costs)
