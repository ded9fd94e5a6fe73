"""Optimistic planning, compiled: policy iteration over actions and models inside a generation of columns.

For fixed prices lambda the cost c = c_0 + sum_i lambda_i c_i is least on average in an MDP whose actions are pairs of
an action and a member of its set. Given a bias h, the best member depends on the order of the states by h alone (see
`confidence_sets`). Hence a policy with its model, a *column*, is no more than actions (S,) and an order of the states
(S,), and the next plan can start from it in its own set. For a finite horizon of H steps, where backward induction
takes the place of policy iteration, it is actions and an order for every step.

The chain of a column leads from everywhere to the first state of its order, unless nothing is left to hand out. So
one elimination without subtractions, the first state kept and the last of the order eliminated first,
gives the averages J_i and the biases h_i of all costs at once, and with them those of every c. Chains where that state
is not reached are not dealt with.

Bound: for every h and lambda >= 0, and with g the average of c, no policy and model that meets the limits has a value
below

    g + min_{s, a} min_{p in the set} [ c(s, a) - g + sum_s' p(s') (h(s') - h(s)) ] - sum_i lambda_i tau_i
"""

from typing import Any, NamedTuple

import numpy as np

from psconrl._core.checks import Floats, Ints
from psconrl._core.njit import njit, njit_inline
from psconrl.planning.compiled.confidence_sets import Set, add_member, around, copy, least_mean, nearest, sort
from psconrl.planning.compiled.generation import (
    OPTIMAL,
    VALUE,
    Limits,
    Optimum,
    PricingProblem,
    PricingResult,
    generate,
)
from psconrl.planning.compiled.pricing import Columns, Mixture, decided, lagrangian_costs, mix, span_of
from psconrl.planning.compiled.rows import Rows
from psconrl.planning.tolerances import EPS, MAX_COLUMNS, PROVEN, SOLVED, SUPPORT


class Work(NamedTuple):
    """Room for one evaluation: a chain (S, S), what is collected (S, m + 2), (S,) numbers of either kind."""

    P: Floats
    R: Floats
    ends: Ints
    out: Floats


class Sets(NamedTuple):
    """A oracle of pricing: policies in models of a confidence set.

    costs (m + 1, S * A); columns: actions and orders (room, 1, S), averages J (room, m + 1), biases H (room, m + 1, S);
    `known` (1,) of them.
    """

    within: Set
    costs: Floats
    actions: Ints
    orders: Ints
    J: Floats
    H: Floats
    known: Ints
    work: Work


class Believed(NamedTuple):
    """What `optimise` found: the optimum, its columns, actions and orders (n, 2, 1, S), their `weights` (n,)."""

    optimum: Optimum
    columns: Ints
    weights: Floats


@njit
def plan_within(
    center: Floats, radius: Floats, costs: Floats, levels: Floats, tau: Floats, start: Ints
) -> tuple[int, float, float, Floats, Ints, bool, Any, Any]:
    """Plan within `radius` (S * A,) of a centre (S * A, S), costs (m + 1, S * A), limits tau (m,), as agents do.

    levels (S * A,): added to c_0 to decide between equals. start (n, 2, 1, S): first columns. Gives status, objective,
    bound and multipliers of the optimum, its columns, and whether it is proven; if so, also its `Mixture` and the
    `Rows` in which that is executed, as plain tuples (see `planned`).
    """
    m, S = len(tau), center.shape[1]
    within = around(center, radius)
    found = optimise(within, decided(costs, levels), Limits(tau, np.ones(m)), start, VALUE)
    optimum, n = found.optimum, len(found.weights)
    least = PROVEN * max(1.0, span_of(costs.ravel()))
    proven = optimum.status == OPTIMAL and optimum.objective - optimum.bound <= least
    J, distributions, policies, weights = (
        np.empty((n, m + 1)),
        np.empty((n, S)),
        np.empty((n, S), dtype=np.int64),
        np.empty(n),
    )
    nothing = np.empty(0, dtype=np.int64)
    rows, count = Rows(nothing, nothing, nothing, np.empty(0)), 0
    if proven:
        p = np.zeros(center.shape)
        used = believed(within, costs, found, p)
        rows = model_around(used, found.weights, p, within, center)
        count = mix(used, np.arange(n), found.weights, Mixture(J, distributions, policies, weights))
    mixture = J[:count], distributions[:count], policies[:count], weights[:count]
    model = rows.begin, rows.indptr, rows.indices, rows.data
    return optimum.status, optimum.objective, optimum.bound, optimum.multipliers, found.columns, proven, mixture, model


@njit_inline
def optimise(within: Set, costs: Floats, limits: Limits, start: Ints, goal: int) -> Believed:
    """The best mixture of policies in models of a set, for VALUE or MARGIN; start (n, 2, 1, S): first columns."""
    m, S = len(limits.tau), within.lower.shape[1]
    room = len(start) + MAX_COLUMNS * (m + 1)
    oracle = Sets(
        within,
        costs,
        np.empty((room, 1, S), dtype=np.int64),
        np.empty((room, 1, S), dtype=np.int64),
        np.empty((room, m + 1)),
        np.empty((room, m + 1, S)),
        np.zeros(1, dtype=np.int64),
        Work(np.empty((S, S)), np.empty((S, m + 2)), np.empty(S, dtype=np.int64), np.empty(S)),
    )
    for k in range(max(len(start), 1)):
        at = oracle.known[0]
        if len(start) > 0:
            copy(start[k, 0], oracle.actions[at])
            copy(start[k, 1], oracle.orders[at])
        else:
            first_column(costs[0], oracle.actions[0], oracle.orders[0])
        oracle.known[0] += evaluate(
            within, costs, oracle.actions[at, 0], oracle.orders[at, 0], oracle.work, oracle.J[at], oracle.H[at]
        )
    optimum = generate(_price, oracle, limits, goal, np.zeros(m), SOLVED * max(1.0, span_of(costs.ravel())))
    return Believed(optimum, *used_columns(optimum, oracle.actions, oracle.orders))


@njit
def used_columns(optimum: Optimum, actions: Ints, orders: Ints) -> tuple[Ints, Floats]:
    """The columns (n, 2, L, S) of the final basis that carry weight, and their weights."""
    _, L, S = actions.shape
    basis, basic = optimum.master.basis, optimum.master.weights
    count, total = 0, 0.0
    for b in range(len(basis)):
        if basis[b] >= 0 and basic[b] > SUPPORT:
            count += 1
            total += basic[b]
    columns, weights = np.empty((count, 2, L, S), dtype=np.int64), np.empty(count)
    count = 0
    for b in range(len(basis)):
        if basis[b] >= 0 and basic[b] > SUPPORT:
            copy(actions[basis[b]], columns[count, 0])
            copy(orders[basis[b]], columns[count, 1])
            weights[count] = basic[b] / total
            count += 1
    return columns, weights


@njit
def first_column(cost: Floats, actions: Ints, orders: Ints) -> None:
    """The cheapest action everywhere, and the states in the order of what it costs; at every step."""
    S = orders.shape[1]
    A, least = len(cost) // S, np.empty(S)
    for h in range(len(actions)):
        for s in range(S):
            actions[h, s], orders[h, s], least[s] = 0, s, cost[s * A]
            for a in range(A):
                if cost[s * A + a] < least[s]:
                    actions[h, s], least[s] = a, cost[s * A + a]
        sort(orders[h], least)


@njit
def _price(oracle: Sets, problem: PricingProblem) -> PricingResult:
    """Policy iteration over actions and members from the best column known; columns on the oracle are added.

    It ends when the bound is enough to end the generation of columns too, or close to the least average found.
    """
    within, costs, prices, own = oracle.within, oracle.costs, problem.prices, problem.main
    S, m, c = oracle.orders.shape[2], len(prices), np.empty(costs.shape[1])
    A, spent = len(c) // S, 0.0
    for i in range(m):
        spent += prices[i] * problem.tau[i]
    lagrangian_costs(c, costs, own, prices)
    best, at = np.inf, 0
    for k in range(oracle.known[0]):
        g = own * oracle.J[k, 0]
        for i in range(m):
            g += prices[i] * oracle.J[k, i + 1]
        # Of equals the latest: it has the best bias.
        if g <= best + 0.1 * problem.close:
            at = k
        best = min(best, g)
    bound, enough = -np.inf, problem.enough + spent
    h, advantage = np.empty(S), np.empty(A)
    for _ in range(MAX_COLUMNS):
        g = own * oracle.J[at, 0]
        for i in range(m):
            g += prices[i] * oracle.J[at, i + 1]
        best = min(best, g)
        lowest, highest = np.inf, -np.inf
        for s in range(S):
            h[s] = own * oracle.H[at, 0, s]
            for i in range(m):
                h[s] += prices[i] * oracle.H[at, i + 1, s]
            lowest, highest = min(lowest, h[s]), max(highest, h[s])
        noise = 1e-15 * (highest - lowest)
        known = oracle.known[0]
        if known == len(oracle.J):
            break
        actions, order = oracle.actions[known, 0], oracle.orders[known, 0]
        copy(oracle.orders[at], oracle.orders[known])
        sort(order, h)
        worst = 0.0
        for s in range(S):
            better = 0
            for a in range(A):
                advantage[a] = c[s * A + a] - g + least_mean(within, s * A + a, order, h, h[s])
                if advantage[a] < advantage[better]:
                    better = a
            worst = min(worst, advantage[better])
            keep = oracle.actions[at, 0, s]
            actions[s] = keep if advantage[keep] <= advantage[better] + noise else better
        bound = max(bound, g + worst - S * EPS * (highest - lowest + abs(g)))
        if bound >= min(best - problem.close, enough):
            break
        same = True
        for s in range(S):
            same = same and actions[s] == oracle.actions[at, 0, s] and order[s] == oracle.orders[at, 0, s]
        if same:
            break
        if not evaluate(within, costs, actions, order, oracle.work, oracle.J[known], oracle.H[known]):
            break
        at = known
        oracle.known[0] += 1
    return PricingResult(True, bound - spent, prices, False, prices)


@njit
def evaluate(within: Set, costs: Floats, actions: Ints, order: Ints, work: Work, J: Floats, H: Floats) -> bool:
    """The averages J (m + 1,) and biases H (m + 1, S) of a column; False if not all leads to its first state.

    States are numbered by the order here. Afterwards work.P holds above the diagonal the visits to k per visit of i,
    as elimination leaves them.
    """
    P, R, ends, out = work
    S, d = len(order), len(J)
    A = costs.shape[1] // S
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
            R[k, i] = costs[i, s * A + a]
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


@njit_inline
def believed(within: Set, costs: Floats, found: Believed, p: Floats) -> Columns:
    """The columns of an optimum in the one model that it believes in: the rows of p (S * A, S) in use are overwritten.

    A pair that several columns use gets the mean of their members, weighted by how often they use it. Distributions are
    those of each column in its own model, so only their mixture is an occupancy of the model believed in.
    """
    S, n = p.shape[1], len(found.weights)
    A = len(p) // S
    work = Work(np.empty((S, S)), np.empty((S, len(costs) + 1)), np.empty(S, dtype=np.int64), np.empty(S))
    J, H = np.empty((n, len(costs))), np.empty((len(costs), S))
    distributions, policies, known = np.zeros((n, S)), np.empty((n, S), dtype=np.int64), np.empty(1, dtype=np.int64)
    known[0] = n
    states, mu = np.empty(S, dtype=np.int64), np.zeros(S * A)
    for s in range(S):
        states[s] = s
    for k in range(n):
        actions, order = found.columns[k, 0, 0], found.columns[k, 1, 0]
        evaluate(within, costs, actions, order, work, J[k], H)
        total = 0.0
        for i in range(S):
            mass = 1.0 if i == 0 else 0.0
            for j in range(i):
                mass += distributions[k, order[j]] * work.P[j, i]
            distributions[k, order[i]] = mass
            total += mass
        for s in range(S):
            distributions[k, s] /= total
            policies[k, s] = s * A + actions[s]
            mu[s * A + actions[s]] += found.weights[k] * distributions[k, s]
    for pair in range(S * A):
        if mu[pair] <= SUPPORT:
            continue
        s = pair // A
        for j in range(S):
            p[pair, j] = 0.0
        for k in range(n):
            if distributions[k, s] > 0.0 and policies[k, s] == pair:
                add_member(
                    within,
                    pair,
                    found.columns[k, 1, 0],
                    states,
                    found.weights[k] * distributions[k, s] / mu[pair],
                    p[pair],
                )
        total = 0.0
        for j in range(S):
            p[pair, j] = min(max(p[pair, j], within.lower[pair, j]), within.upper[pair, j])
            total += p[pair, j]
        for j in range(S):
            p[pair, j] /= total
    return Columns(J, distributions, policies, known)


@njit_inline
def model_around(columns: Columns, weights: Floats, p: Floats, within: Set, center: Floats) -> Rows:
    """The model in which columns are executed: pairs in use have their rows of p (S * A, S), which is changed.

    States without mass have the members nearest to a centre (S * A, S), written to p; other pairs lead nowhere.
    """
    n, S = columns.distributions.shape
    pairs = len(p)
    A = pairs // S
    used, begin = np.zeros(pairs, dtype=np.bool_), np.empty(S + 1, dtype=np.int64)
    mass = np.zeros(S)
    for s in range(S):
        for k in range(n):
            mass[s] += weights[k] * columns.distributions[k, s]
            if weights[k] * columns.distributions[k, s] > SUPPORT:
                used[columns.policies[k, s]] = True
        begin[s] = s * A
    begin[S] = pairs
    indptr = np.zeros(pairs + 1, dtype=np.int64)
    for pair in range(pairs):
        if mass[pair // A] <= SUPPORT:
            nearest(center[pair], within.lower[pair], within.upper[pair], p[pair])
            used[pair] = True
        indptr[pair + 1] = indptr[pair]
        for j in range(S):
            indptr[pair + 1] += used[pair] and p[pair, j] > 0.0
    indices, data = np.empty(indptr[pairs], dtype=np.int64), np.empty(indptr[pairs])
    for pair in range(pairs):
        at = indptr[pair]
        for j in range(S):
            if used[pair] and p[pair, j] > 0.0:
                indices[at], data[at] = j, p[pair, j]
                at += 1
    return Rows(begin, indptr, indices, data)
