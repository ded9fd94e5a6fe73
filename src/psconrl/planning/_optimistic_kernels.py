"""Optimistic planning, compiled: policy iteration over actions and models inside a generation of columns.

For fixed prices lambda the cost c = c_0 + sum_i lambda_i c_i is least on average in an MDP whose actions are pairs of
an action and a member of its set. Given a bias h, the best member depends on the order of the states by h alone (see
`_set_kernels`). Hence a policy with its model, a *column*, is no more than actions (S,) and an order of the states
(S,), and the next plan can start from it in its own set. For a finite horizon of H steps, where backward induction
takes the place of policy iteration, it is actions and an order for every step.

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
from psconrl._numba import njit, njit_inline
from psconrl.planning._finite_kernels import averages, backward, forward
from psconrl.planning._master_kernels import REACH, VALUE, first_basis, leave_out_violation, master
from psconrl.planning._set_kernels import Set, add_member, copy, least_mean, sort

OPTIMAL = 0
INFEASIBLE = 1
FAILED = 2

FEASIBLE = 1e-9
"""A violation up to this counts as none: limits may be met exactly."""

_GAP = 1e-12  # distance from the proven bound, relative to the range of costs, at which the generation stops
_ROUNDS = 200


class Pool(NamedTuple):
    """The columns: actions and orders (n, L, S), averages J (n, m + 1), biases H (n, m + 1, S).

    L is 1 in the long run; for a finite horizon it is the number of steps, and there are no biases.
    """

    actions: Ints
    orders: Ints
    J: Floats
    H: Floats


class Work(NamedTuple):
    """Room for one evaluation: a chain (S, S), what is collected (S, m + 2), (S,) numbers of either kind."""

    P: Floats
    R: Floats
    ends: Ints
    out: Floats


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
def optimise(
    within: Set, costs: Floats, tau: Floats, start: Ints, goal: int, steps: int | None, origin: int
) -> Optimum:
    """The best mixture of columns: for VALUE of least cost within the limits, for MARGIN the safest one.

    costs (m + 1, S, A), start (n, 2, L, S): columns to start from, n may be 0. With VALUE and limits that cannot be
    met it ends as soon as that is proven. Averages are over a number of steps from a state `origin`, or, with None, for
    which the rest is not compiled, in the long run.
    """
    m, S, A = len(tau), costs.shape[1], costs.shape[2]
    room = len(start) + _ROUNDS * (m + 1)
    if steps is None:
        L, biases = 1, S
    else:
        L, biases = steps, 0
    pool = Pool(
        np.empty((room, L, S), dtype=np.int64),
        np.empty((room, L, S), dtype=np.int64),
        np.empty((room, m + 1)),
        np.empty((room, m + 1, biases)),
    )
    work = Work(np.empty((S, S)), np.empty((S, m + 2)), np.empty(S, dtype=np.int64), np.empty(S))
    known = int(np.int64(0))  # not 0, a constant, for which all that gets it would compile once more
    for k in range(max(len(start), 1)):
        if len(start) > 0:
            copy(start[k, 0], pool.actions[known])
            copy(start[k, 1], pool.orders[known])
        else:
            _first_column(costs[0], pool.actions[0], pool.orders[0])
        known += _evaluated(within, costs, pool, known, steps, origin, work)
    evaluations = known
    basis, weights, prices = np.zeros(m + 1, dtype=np.int64), np.zeros(m + 1), np.zeros(m + 1)
    limits, proof = np.empty(m), np.zeros(m)
    for i in range(m):
        limits[i] = tau[i]
    close = _GAP * max(1.0, _range(costs))
    stage = goal
    if known > 0 and first_basis(pool.J, known, limits, goal, basis) and goal == VALUE:
        stage = REACH
    bound, objective = -np.inf, np.inf
    c = np.empty((S, A))
    status = FAILED
    stuck = known == 0
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
        if steps is None:
            enough = objective - close + spent
            known, found = _price(within, costs, c, own, prices, enough, close, pool, known, work)
        else:
            known, found = _price_steps(within, costs, c, pool, known, steps, origin)
        evaluations += known - before
        if found - spent > bound:
            bound = found - spent
            for i in range(m):
                proof[i] = prices[i]
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
def used_columns(found: Optimum) -> Ints:
    """The columns (n, 2, L, S) of the final basis, for the next call to start from."""
    _, L, S = found.pool.actions.shape
    count = 0
    for b in range(len(found.basis)):
        count += found.basis[b] >= 0
    columns = np.empty((count, 2, L, S), dtype=np.int64)
    count = 0
    for b in range(len(found.basis)):
        if found.basis[b] >= 0:
            copy(found.pool.actions[found.basis[b]], columns[count, 0])
            copy(found.pool.orders[found.basis[b]], columns[count, 1])
            count += 1
    return columns


@njit
def _range(costs: Floats) -> float:
    least, largest = np.inf, -np.inf
    for i in range(costs.shape[0]):
        for s in range(costs.shape[1]):
            for a in range(costs.shape[2]):
                least, largest = min(least, costs[i, s, a]), max(largest, costs[i, s, a])
    return largest - least


@njit
def _first_column(cost: Floats, actions: Ints, orders: Ints) -> None:
    """The cheapest action everywhere, and the states in the order of what it costs; at every step."""
    S, A = cost.shape
    least = np.empty(S)
    for h in range(len(actions)):
        for s in range(S):
            actions[h, s], orders[h, s], least[s] = 0, s, cost[s, 0]
            for a in range(A):
                if cost[s, a] < least[s]:
                    actions[h, s], least[s] = a, cost[s, a]
        sort(orders[h], least)


@njit_inline
def _evaluated(within: Set, costs: Floats, pool: Pool, at: int, steps: int | None, origin: int, work: Work) -> bool:
    """Fill in the averages, and biases, of a column in the pool; False if that is not possible."""
    if steps is None:
        return evaluate(within, costs, pool.actions[at, 0], pool.orders[at, 0], work, pool.J[at], pool.H[at])
    law = forward(within, costs.shape[2], pool.actions[at], pool.orders[at], origin)
    averages(costs, pool.actions[at], law, pool.J[at])
    return True


@njit
def _price_steps(
    within: Set, costs: Floats, c: Floats, pool: Pool, known: int, steps: int, origin: int
) -> tuple[int, float]:
    """The best column for c over a number of steps, added if it is new; how many there are then, its average."""
    if known == len(pool.J):
        return known, -np.inf
    actions, orders = pool.actions[known], pool.orders[known]
    copy(pool.orders[known - 1], orders)
    V = backward(within, c, actions, orders)
    averages(costs, actions, forward(within, c.shape[1], actions, orders, origin), pool.J[known])
    for k in range(known):
        apart = 0.0
        for i in range(len(costs)):
            apart = max(apart, abs(pool.J[k, i] - pool.J[known, i]))
        if apart <= 1e-14:
            return known, V[origin] / steps
    return known + 1, V[origin] / steps


@njit_inline
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
    work: Work,
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
        actions, order = pool.actions[known, 0], pool.orders[known, 0]
        copy(pool.orders[at], pool.orders[known])
        sort(order, h)
        worst = 0.0
        for s in range(S):
            better = 0
            for a in range(A):
                advantage[a] = c[s, a] - g + least_mean(within, s * A + a, order, h, h[s])
                if advantage[a] < advantage[better]:
                    better = a
            worst = min(worst, advantage[better])
            keep = pool.actions[at, 0, s]
            actions[s] = keep if advantage[keep] <= advantage[better] + noise else better
        bound = max(bound, g + worst)
        if bound >= min(best - close, enough):
            break
        same = True
        for s in range(S):
            same = same and actions[s] == pool.actions[at, 0, s] and order[s] == pool.orders[at, 0, s]
        if same:
            break
        if not evaluate(within, costs, actions, order, work, pool.J[known], pool.H[known]):
            break
        at = known
        known += 1
    return known, bound


@njit
def evaluate(within: Set, costs: Floats, actions: Ints, order: Ints, work: Work, J: Floats, H: Floats) -> bool:
    """The averages J (m + 1,) and biases H (m + 1, S) of a column; False if not all leads to its first state.

    States are numbered by the order here. Afterwards work.P holds above the diagonal the visits to k per visit of i,
    as `_kernels.eliminate` leaves them.
    """
    P, R, ends, out = work
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
