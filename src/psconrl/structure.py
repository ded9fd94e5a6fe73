"""The structure of a model: what can be reached, from where, and how long it takes.

communicating          every state can be reached from every other one, under some policy
weakly communicating   one closed class of states that communicate; all others transient under every policy
hitting time           E tau_{s s'}: expected number of moves of a policy from s until it is first in s'
diameter               the largest over s, s' of the smallest, over policies, hitting time
span of the bias       how much the start state matters, in total, to the optimal policy
"""

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from psconrl._core import graph
from psconrl._core.checks import Bools, Floats, Ints
from psconrl.cmdp import CMDP, require_model
from psconrl.errors import InvalidModelError
from psconrl.planning import evaluate, solve
from psconrl.planning.compiled.rows import Rows
from psconrl.planning.model_rows import rows_of
from psconrl.planning.shortest_paths import shortest_path_policy


def reachable(cmdp: CMDP) -> Bools:
    """The states (S,) that can be reached, under some policy, from the initial distribution."""
    require_model(cmdp)
    return graph.reachable(cmdp.matrix, cmdp.initial > 0)


def restrict(cmdp: CMDP, states: ArrayLike) -> CMDP:
    """The model on a closed set of states, given by a mask (S,) or by numbers; their order is kept.

    InvalidModelError names the first move that leaves the set, or the start state outside it.
    """
    require_model(cmdp)
    inside = _mask(cmdp, states)
    if not inside.any():
        raise InvalidModelError("there are no states to restrict the model to")
    kept = np.flatnonzero(inside)
    rows = np.flatnonzero(np.repeat(inside, cmdp.A))
    part = cmdp.matrix[rows]
    _check_closed(cmdp, kept, part, inside)
    outside = np.flatnonzero((cmdp.initial > 0) & ~inside)
    if len(outside):
        raise InvalidModelError(
            f"the model may start in state {cmdp.state_names[outside[0]]!r}, which is not among the states "
            "to restrict it to; add it, or change `initial` first"
        )
    if cmdp.move_costs is None:
        costs = cmdp.costs[:, kept]
    elif cmdp.is_sparse:
        costs = cmdp.move_costs[:, np.repeat(np.repeat(inside, cmdp.A), np.diff(cmdp.matrix.indptr))]
    else:
        costs = cmdp.move_costs[:, kept][..., kept]
    return cmdp.replace(
        transitions=part[:, kept] if cmdp.is_sparse else part[:, kept].toarray().reshape(len(kept), cmdp.A, -1),
        costs=costs,
        initial=cmdp.initial[kept],
        state_names=[cmdp.state_names[s] for s in kept],
        layout=None if cmdp.layout is None else cmdp.layout.restrict(kept),
        available=cmdp.available[kept],
    )


def restrict_to_reachable(cmdp: CMDP) -> CMDP:
    """The model on the states that can be reached from its initial distribution."""
    require_model(cmdp)
    states = reachable(cmdp)
    return cmdp if states.all() else restrict(cmdp, states)


def communicating(cmdp: CMDP) -> bool:
    """Whether every state can be reached from every other one, under some policy."""
    require_model(cmdp)
    return graph.is_communicating(cmdp.matrix)


def weakly_communicating(cmdp: CMDP) -> bool:
    """Whether one closed class of states communicates and all others are transient under every policy."""
    require_model(cmdp)
    return graph.is_weakly_communicating(cmdp.matrix)


def strong_classes(cmdp: CMDP) -> list[Ints]:
    """The classes of states that can be reached from each other, in the order of their smallest states."""
    require_model(cmdp)
    _, labels = graph.strong_classes(graph.state_graph(cmdp.matrix))
    return graph.groups(labels)


def recurrent_classes(cmdp: CMDP, policy: ArrayLike) -> list[Ints]:
    """The recurrent classes of a stationary policy (S, A), in the order of their smallest states."""
    require_model(cmdp)
    return graph.closed_classes(cmdp.policy_matrix(cmdp.check_policy(policy)))


def hitting_times(cmdp: CMDP, policy: ArrayLike, targets: ArrayLike | None = None) -> Floats:
    """E tau_{s s'} (S, n): expected number of moves from s until a policy is first in s', for n targets s'.

    targets: numbers of states, or a mask (S,); all states if left out. Zero on the target itself; inf where
    it is not reached with probability one, and where times exceed the range of floats. Nothing is subtracted on
    the way, so they are accurate to rounding however rarely the policy moves between parts of the model.
    """
    require_model(cmdp)
    chain = cmdp.policy_matrix(cmdp.check_policy(policy))
    wanted = np.arange(cmdp.S) if targets is None else _numbers(cmdp, targets)
    rows, states = Rows.from_sparse(chain), np.arange(cmdp.S)
    times = [shortest_path_policy(rows, states == target).times for target in wanted]
    return np.stack(times, axis=1) if times else np.zeros((cmdp.S, 0))


def cover_time_bound(cmdp: CMDP, policy: ArrayLike) -> float:
    """Matthews' bound on the expected time in which a policy visits all states, from the worst start.

    It is t_hit (1 + 1/2 + ... + 1/(S-1)), with t_hit the largest hitting time.
    """
    require_model(cmdp)
    if cmdp.S == 1:
        return 0.0
    return float(hitting_times(cmdp, policy).max() * (1 / np.arange(1, cmdp.S)).sum())


def diameter(cmdp: CMDP) -> float:
    """The largest over s, s' of the smallest expected time from s to s'; inf if not communicating.

    One stochastic shortest path problem for each s'.
    """
    require_model(cmdp)
    if not communicating(cmdp):
        return float("inf")
    states = np.arange(cmdp.S)
    rows = rows_of(cmdp)
    return max(float(shortest_path_policy(rows, states == s).times.max()) for s in states)


def bias_span(cmdp: CMDP) -> Floats:
    """The span max_s h_i(s) - min_s h_i(s) of the optimal policy's bias for each cost c_i, (m + 1,).

    The bias h_i(s) is the total of c_i above its average that starting in s brings. The largest entry is the
    sp(p) of regret bounds, there with biases shifted to min_s h_i(s) = 0. nan if the model is infeasible.
    """
    require_model(cmdp)
    solution = solve(cmdp)
    if solution.status == "infeasible":
        return np.full(cmdp.m + 1, np.nan)
    return np.asarray(np.ptp(evaluate(cmdp, solution.policy).bias, axis=1))


def _mask(cmdp: CMDP, states: ArrayLike) -> Bools:
    """A set of states as a mask."""
    mask = np.zeros(cmdp.S, dtype=np.bool_)
    mask[_numbers(cmdp, states)] = True
    return mask


def _numbers(cmdp: CMDP, states: ArrayLike) -> Ints:
    """States given by numbers or by a mask, as numbers."""
    try:
        given = np.atleast_1d(np.asarray(states))
    except ValueError:  # lists of unequal lengths
        given = np.array([None])
    if given.shape == (cmdp.S,) and given.dtype == np.bool_:
        return np.flatnonzero(given)
    if given.ndim != 1 or (given.size and given.dtype.kind not in "iu"):
        raise InvalidModelError(f"states must be given by numbers or by a mask of shape {(cmdp.S,)}")
    bad = np.flatnonzero((given < 0) | (given >= cmdp.S))
    if len(bad):
        raise InvalidModelError(f"there is no state {given[bad[0]]}; states are 0, ..., {cmdp.S - 1}")
    return given.astype(np.int64)


def _check_closed(cmdp: CMDP, kept: Ints, part: sparse.csr_array, inside: Bools) -> None:
    """Refuse a set of states that some action may leave; part: the rows of its pairs."""
    leaving = np.flatnonzero(~inside[part.indices])
    if not len(leaving):
        return
    row = int(np.searchsorted(part.indptr, leaving[0], side="right")) - 1
    source, action = cmdp.state_names[kept[row // cmdp.A]], cmdp.action_names[row % cmdp.A]
    end = cmdp.state_names[part.indices[leaving[0]]]
    raise InvalidModelError(
        f"the states are not closed: in {source!r}, action {action!r} may lead to {end!r}, which is not "
        "among them; add it, or take the states of `reachable`"
    )
