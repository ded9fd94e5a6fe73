"""Optimistic planning, compiled: policy iteration over actions and models inside a generation of columns.

For fixed prices lambda the cost c = c_0 + sum_i lambda_i c_i is least on average in an MDP whose actions are pairs of
an action and a member of its set. Given a bias h, the best member puts as much as it may on the states with the least
h: start from l and hand out the rest in the order of h. Hence a policy with its model, a *column*, is no more than
actions (S,) and an order of the states (S,), and the next plan can start from it in its own set.

The chain of a column leads from everywhere to the first state of its order, unless nothing is left to hand out. So
one elimination without subtractions (see `_kernels`), the first state kept and the last of the order eliminated first,
gives the averages J_i and the biases h_i of all costs at once, and with them those of every c. Chains where that state
is not reached are not dealt with.

Bound: for every h and lambda >= 0, and with g the average of c, no policy and model that meets the limits has a value
below

    g + min_{s, a} min_{p in the set} [ c(s, a) - g + sum_s' p(s') (h(s') - h(s)) ] - sum_i lambda_i tau_i
"""

from typing import NamedTuple

import numpy as np

from psconrl._checks import Floats, Ints
from psconrl._numba import njit
from psconrl.planning._master_kernels import REACH, VALUE, first_basis, leave_out_violation, master

OPTIMAL = 0
INFEASIBLE = 1
FAILED = 2

FEASIBLE = 1e-9
"""A violation up to this counts as none: limits may be met exactly."""

_GAP = 1e-12  # distance from the proven bound, relative to the range of costs, at which the generation stops
_ROUNDS = 200


class Set(NamedTuple):
    """A confidence set: the lower ends that are not zero by rows, widths (S * A, S), what is left to one (S * A,)."""

    begin: Ints
    state: Ints
    value: Floats
    width: Floats
    rest: Floats


class Pool(NamedTuple):
    """The columns: actions and orders (n, S), averages J (n, m + 1), biases H (n, m + 1, S)."""

    actions: Ints
    orders: Ints
    J: Floats
    H: Floats


class Optimum(NamedTuple):
    """What `optimise` found.

    objective: the value, or minus the margin; gap: its distance from the proven bound. prices (m,); basis (m + 1,):
    numbers of columns in the pool, negative for slacks; weights (m + 1,) of the basis. evaluations: chains solved.
    """

    status: int
    objective: float
    gap: float
    prices: Floats
    basis: Ints
    weights: Floats
    evaluations: int
    pool: Pool


@njit
def confidence_set(lower: Floats, upper: Floats) -> Set:
    """The set of l <= p <= u, both (S * A, S)."""
    pairs, S = lower.shape
    begin = np.zeros(pairs + 1, dtype=np.int64)
    width = np.empty((pairs, S))
    rest = np.empty(pairs)
    filled = 0
    for k in range(pairs):
        for j in range(S):
            filled += lower[k, j] > 0.0
    index = np.empty(filled, dtype=np.int64)
    value = np.empty(filled)
    filled = 0
    for k in range(pairs):
        total = 0.0
        for j in range(S):
            width[k, j] = upper[k, j] - lower[k, j]
            if lower[k, j] > 0.0:
                total += lower[k, j]
                index[filled] = j
                value[filled] = lower[k, j]
                filled += 1
        begin[k + 1] = filled
        rest[k] = max(1.0 - total, 0.0)
    return Set(begin, index, value, width, rest)


@njit
def optimise(within: Set, costs: Floats, tau: Floats, start: Ints, goal: int) -> Optimum:
    """The best mixture of columns: for VALUE of least cost within the limits, for MARGIN the safest one.

    costs (m + 1, S, A), start (n, 2, S): columns to start from, n may be 0. With VALUE and limits that cannot be met
    it ends as soon as that is proven.
    """
    m, S, A = len(tau), costs.shape[1], costs.shape[2]
    room = len(start) + _ROUNDS * (m + 1)
    pool = Pool(
        np.empty((room, S), dtype=np.int64),
        np.empty((room, S), dtype=np.int64),
        np.empty((room, m + 1)),
        np.empty((room, m + 1, S)),
    )
    basis, weights, prices = np.zeros(m + 1, dtype=np.int64), np.zeros(m + 1), np.zeros(m + 1)
    P, R = np.empty((S, S)), np.empty((S, m + 2))
    limits = tau.copy()
    close = _GAP * max(1.0, costs.max() - costs.min())
    known = 0
    for k in range(max(len(start), 1)):
        if len(start) > 0:
            pool.actions[known], pool.orders[known] = start[k, 0], start[k, 1]
        else:
            _first_column(costs[0], pool.actions[0], pool.orders[0])
        if evaluate(within, costs, pool.actions[known], pool.orders[known], P, R, pool.J[known], pool.H[known]):
            known += 1
    evaluations = known
    stage = goal
    if known > 0 and first_basis(pool.J, known, limits, goal, basis) and goal == VALUE:
        stage = REACH
    bound, objective = -np.inf, np.inf
    proof = np.zeros(m)
    c = np.empty((S, A))
    stuck = known == 0
    status = FAILED
    while not stuck:
        objective, sound = master(pool.J, known, limits, stage, basis, weights, prices)
        if not sound:
            break
        if stage == REACH and objective <= 0.0:
            if not leave_out_violation(pool.J, known, basis, m):
                break
            stage, bound = VALUE, -np.inf
            continue
        spent = 0.0
        for i in range(m):
            prices[i] = max(prices[i], 0.0)
            spent += prices[i] * limits[i]
        own = 1.0 if stage == VALUE else 0.0
        for s in range(S):
            for a in range(A):
                total = own * costs[0, s, a]
                for i in range(m):
                    total += prices[i] * costs[i + 1, s, a]
                c[s, a] = total
        before = known
        known, found = _price(within, costs, c, own, prices, objective - close + spent, close, pool, known, P, R)
        evaluations += known - before
        if found - spent > bound:
            bound = found - spent
            proof[:] = prices[:m]
        if stage == REACH and bound > FEASIBLE:
            status = INFEASIBLE
            break
        stuck = known == before
        if objective - bound <= close or stuck:
            if stage == REACH and objective <= FEASIBLE:
                # The limits can just be met, but for rounding.
                for i in range(m):
                    limits[i] += objective
                if not leave_out_violation(pool.J, known, basis, m):
                    break
                stage, bound, stuck = VALUE, -np.inf, False
                continue
            status = OPTIMAL if stage == goal else FAILED
            break
    return Optimum(status, objective, objective - bound, proof, basis, weights, evaluations, pool)


@njit
def _first_column(cost: Floats, actions: Ints, orders: Ints) -> None:
    """The cheapest action everywhere, and the states in the order of what it costs."""
    for s in range(len(cost)):
        actions[s] = np.argmin(cost[s])
    h = np.empty(len(cost))
    for s in range(len(cost)):
        h[s], orders[s] = cost[s, actions[s]], s
    _sort(orders, h)


@njit
def _price(
    within: Set,
    costs: Floats,
    c: Floats,
    own: float,
    prices: Floats,
    enough: float,
    close: float,
    pool: Pool,
    known: int,
    P: Floats,
    R: Floats,
) -> tuple[int, float]:
    """Policy iteration for c from the best column known; columns on the way are added.

    Returns how many columns there are then, and a lower bound of the least average. It ends when the bound is
    `enough` to end the generation of columns too, or `close` to the least average found.
    """
    S, A = c.shape
    m = len(prices) - 1
    best, at = np.inf, 0
    for k in range(known):
        g = own * pool.J[k, 0]
        for i in range(m):
            g += prices[i] * pool.J[k, i + 1]
        # Of equals the latest: it has the best bias.
        if g <= best + 0.1 * close:
            at = k
        best = min(best, g)
    bound = -np.inf
    h = np.empty(S)
    advantage = np.empty(A)
    for _ in range(_ROUNDS):
        g = own * pool.J[at, 0]
        for i in range(m):
            g += prices[i] * pool.J[at, i + 1]
        best = min(best, g)
        lowest, highest = np.inf, -np.inf
        for s in range(S):
            h[s] = own * pool.H[at, 0, s]
            for i in range(m):
                h[s] += prices[i] * pool.H[at, i + 1, s]
            lowest, highest = min(lowest, h[s]), max(highest, h[s])
        noise = 1e-15 * (highest - lowest)
        if known == len(pool.J):
            break
        actions, order = pool.actions[known], pool.orders[known]
        order[:] = pool.orders[at]
        _sort(order, h)
        worst = 0.0
        for s in range(S):
            better = 0
            for a in range(A):
                advantage[a] = c[s, a] - g + _drift(within, s * A + a, s, order, h)
                if advantage[a] < advantage[better]:
                    better = a
            worst = min(worst, advantage[better])
            keep = pool.actions[at, s]
            actions[s] = keep if advantage[keep] <= advantage[better] + noise else better
        bound = max(bound, g + worst)
        if bound >= min(best - close, enough):
            break
        if (actions == pool.actions[at]).all() and (order == pool.orders[at]).all():
            break
        if not evaluate(within, costs, actions, order, P, R, pool.J[known], pool.H[known]):
            break
        at = known
        known += 1
    return known, bound


@njit
def _sort(order: Ints, h: Floats) -> None:
    """Sort the states by h, by insertion: the order before is nearly right, and stays among equals."""
    for k in range(1, len(order)):
        s = order[k]
        j = k - 1
        while j >= 0 and h[order[j]] > h[s]:
            order[j + 1] = order[j]
            j -= 1
        order[j + 1] = s


@njit
def _drift(within: Set, pair: int, s: int, order: Ints, h: Floats) -> float:
    """min over the members p of sum_s' p(s') (h(s') - h(s)); order: the states by increasing h."""
    total = 0.0
    for t in range(within.begin[pair], within.begin[pair + 1]):
        total += within.value[t] * (h[within.state[t]] - h[s])
    left = within.rest[pair]
    for k in range(len(order)):
        if left <= 0.0:
            break
        j = order[k]
        share = min(left, within.width[pair, j])
        total += share * (h[j] - h[s])
        left -= share
    return total


@njit
def evaluate(
    within: Set, costs: Floats, actions: Ints, order: Ints, P: Floats, R: Floats, J: Floats, H: Floats
) -> bool:
    """The averages J (m + 1,) and biases H (m + 1, S) of a column; False if not all leads to its first state.

    States are numbered by the order here. P (S, S) and R (S, m + 2) are room to work in; afterwards P holds above
    the diagonal the visits to k per visit of i, as `_kernels.eliminate` leaves them.
    """
    S, A = costs.shape[1], costs.shape[2]
    d = len(J)
    position = np.empty(S, dtype=np.int64)
    for k in range(S):
        position[order[k]] = k
    for k in range(S):
        s = order[k]
        a = actions[s]
        for j in range(S):
            P[k, j] = 0.0
        add_member(within, s * A + a, order, position, 1.0, P[k])
        for i in range(d):
            R[k, i] = costs[i, s, a]
        R[k, d] = 1.0
    ends = np.empty(S, dtype=np.int64)
    out = np.empty(S)
    for k in range(S - 1, 0, -1):
        total = 0.0
        filled = 0
        for j in range(k):
            if P[k, j] > 0.0:
                ends[filled] = j
                filled += 1
                total += P[k, j]
        if total <= 0.0:
            return False
        out[k] = total
        for i in range(k):
            if P[i, k] > 0.0:
                visits = P[i, k] / total
                P[i, k] = visits
                for t in range(filled):
                    P[i, ends[t]] += visits * P[k, ends[t]]
                for q in range(d + 1):
                    R[i, q] += visits * R[k, q]
    for i in range(d):
        J[i] = R[0, i] / R[0, d]
        H[i, order[0]] = 0.0
    for k in range(1, S):
        for i in range(d):
            R[k, i] -= J[i] * R[k, d]
        for j in range(1, k):
            if P[k, j] > 0.0:
                for i in range(d):
                    R[k, i] += P[k, j] * R[j, i]
        for i in range(d):
            R[k, i] /= out[k]
            H[i, order[k]] = R[k, i]
    return True


@njit
def add_member(within: Set, pair: int, order: Ints, position: Ints, weight: float, row: Floats) -> None:
    """Add weight times the member of a pair's set that is best for an order to a row, its states by position."""
    for t in range(within.begin[pair], within.begin[pair + 1]):
        row[position[within.state[t]]] += weight * within.value[t]
    left = within.rest[pair]
    for k in range(len(order)):
        if left <= 0.0:
            break
        share = min(left, within.width[pair, order[k]])
        row[position[order[k]]] += weight * share
        left -= share
