"""Models from arrays in the layouts of MDP toolboxes, where the action comes first.

transitions     (A, S, S): transitions[a, s, s'] = p(s' | s, a), or A scipy sparse (S, S) matrices
a reward        (S,): r(s); (S, A): r(s, a); (A, S, S): r(s, a, s'), or A scipy sparse (S, S) matrices
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

from psconrl._core import checks
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
    if isinstance(costs, str) or not np.iterable(costs) or sparse.issparse(costs):
        raise InvalidModelError("costs must be a list of arrays, one per cost")
    quantities = [_quantity(cost, f"costs[{i}]", S, A) for i, cost in enumerate(costs)]
    if rewards is not None:
        quantities.insert(0, -_quantity(rewards, "rewards", S, A))
    if not quantities:
        raise InvalidModelError("there are neither rewards to maximise nor costs to minimise; give one of them")
    if any(sparse.issparse(quantity) or quantity.shape != (S, A) for quantity in quantities):
        quantities = [_by_move(quantity, p, S, A) for quantity in quantities]
    return models.CMDP(p, quantities if sparse.issparse(quantities[0]) else np.stack(quantities), thresholds, **names)


def _transitions(given: Any) -> tuple[Any, int, int]:
    """Transitions in the layout of a CMDP, and the numbers of states and actions."""
    if sparse.issparse(given):
        raise InvalidModelError(
            "transitions are one sparse matrix; give a list of A matrices (S, S), or call CMDP(...)"
        )
    if _sparse_matrices(given):
        S = given[0].shape[0]
        return _stacked(given, "transitions", S, len(given)), S, len(given)
    p = checks.numbers(given, "transitions")
    if p.ndim != 3 or p.shape[1] != p.shape[2]:
        raise InvalidModelError(
            f"transitions have shape {p.shape}; they must be (A, S, S), or A sparse matrices (S, S)"
        )
    return np.ascontiguousarray(p.transpose(1, 0, 2)), p.shape[1], p.shape[0]


def _quantity(given: Any, what: str, S: int, A: int) -> Any:
    """A reward or cost in any of the layouts: (S, A), or by move (S * A, S), an array or a sparse matrix."""
    if _sparse_matrices(given):
        return _stacked(given, what, S, A)
    array = checks.numbers(given, what)
    if array.shape == (S,):
        return np.repeat(array[:, np.newaxis], A, axis=1)
    if array.shape == (S, A):
        return array
    if array.shape == (A, S, S):
        return array.transpose(1, 0, 2).reshape(S * A, S)
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


def _by_move(values: Any, p: Any, S: int, A: int) -> Any:
    """A quantity by move, in the layout that goes with the transitions."""
    if not sparse.issparse(values) and values.shape == (S, A):
        pairs = values.reshape(S * A, 1)
        values = (p != 0).multiply(pairs) if sparse.issparse(p) else np.broadcast_to(pairs, (S * A, S))
    if sparse.issparse(p):
        return sparse.csr_array(values)
    return (values.toarray() if sparse.issparse(values) else values).reshape(S, A, S)


def _sparse_matrices(given: Any) -> bool:
    return isinstance(given, (list, tuple)) and len(given) > 0 and all(sparse.issparse(matrix) for matrix in given)
