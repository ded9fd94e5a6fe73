"""Planning in one model of many states, compiled: the column generation of `_plan_kernels` without inverses.

Policies are evaluated by sparse factors (`_sparse_kernels`). Under one limit the next multiplier comes from the policy
that is best for the last one. With its bias h for c_0 + lambda c_1 and its bias h_1 for c_1 alone, the advantages of
all pairs are straight lines in the multiplier; where one falls below zero, that action takes over, and changes the
average of c_1 by about mu(s) times its slope. Following this until the limit is met (`stride`) gives the multiplier,
the actions that go with it and their bias, from which policy iteration goes on. At the optimum one change of action
leads from one side of the limit to the other.

A sampled model may have states from which the others cannot be reached. Policies with one closed class then exist in
a part only: the states that can reach a reference state with probability one, by actions that keep them there. Actions
that leave the part are never used again and again. What goes on outside has its own bound: its cheapest pair.
"""

import numpy as np

from psconrl._checks import Bools, Floats, Ints
from psconrl._numba import njit
from psconrl.planning._chain_kernels import lead, reroute
from psconrl.planning._plan_kernels import (
    FAILED,
    INFEASIBLE,
    add,
    advantages_of,
    copy,
    finish,
    go_on,
    improve,
    is_new,
    lean,
    master,
    price_tags,
)
from psconrl.planning._sparse_kernels import RARE, Factor, factorise, likely_state, refine
from psconrl.planning.compiled.shortest_path import almost_surely, moves_into
from psconrl.planning.rows import Rows

EXACT = 1e-9
"""Evaluations are exact to this in the end; a gap of ten times as much is a certificate."""
_GAP = 1e-8
_FIRST, _SHARE = 1e-3, 0.1
"""Before that, they are exact to a share of the improvement found last, and at first to 1e-3."""
_ROUGH = 15
"""So many policies are evaluated roughly; where a model nearly falls apart, that may lead round in circles."""
_EXACT_LAW = 1e-12
_FEASIBLE = 1e-9
"""Limits missed by less than this are left to a second opinion."""
_EVALUATIONS, _WORK = 100, 400
"""More policies are not evaluated for given multipliers, and in all."""
_COLUMNS = 100
_SWEEPS = 4
"""How often improvements are passed on before the next evaluation."""
_FLAT = 1e-9
"""Advantages that change less than this with the multiplier do not change."""
_FEW = 4
"""So few changes of actions on the way to the limit may be the last ones."""
_STRIDES = 12
"""After so many strides, multipliers are those of the small program."""
_STRETCH = 16.0
"""How far from the guess multipliers are tried before the extremes."""
_PROBES = 8
"""States that are tried as the reference of a model that falls apart."""


@njit
def part(r: int, A: int, indptr: Ints, indices: Ints, data: Floats) -> tuple[bool, int, Bools, Bools]:
    """The part of a model in which policies with one closed class exist: its states, and the pairs that stay in it.

    Whether there is one that matters, and a state that all in it can reach, r if that is one. States that lead to few
    others are no reference: they may be where the model ends.
    """
    S = (len(indptr) - 1) // A
    into = moves_into(Rows(indptr, indices, data, S), 0.0)
    targets = np.zeros(S, dtype=np.bool_)
    inside, allowed = targets, np.zeros(S * A, dtype=np.bool_)
    for probe in range(_PROBES):
        state = r if probe == 0 else (probe - 1) * S // (_PROBES - 1)
        if 2 * _reached(state, A, indptr, indices) < S:
            continue
        targets[state] = True
        inside, allowed = almost_surely(A, targets, into)
        targets[state] = False
        for a in range(A):
            if allowed[state * A + a]:
                return True, state, inside, allowed
    return False, r, inside, allowed


@njit
def _reached(state: int, A: int, indptr: Ints, indices: Ints) -> int:
    """How many states can be reached from one."""
    S = (len(indptr) - 1) // A
    seen, stack = np.zeros(S, dtype=np.bool_), np.empty(S, dtype=np.int64)
    seen[state] = True
    stack[0] = state
    size = total = 1
    while size > 0:
        size -= 1
        s = stack[size]
        for entry in range(indptr[s * A], indptr[s * A + A]):
            x = indices[entry]
            if not seen[x]:
                seen[x] = True
                stack[size] = x
                size += 1
                total += 1
    return total


@njit
def confined(
    inside: Bools, allowed: Bools, r: int, A: int, indptr: Ints, indices: Ints, data: Floats, costs: Floats
) -> tuple[Ints, Ints, Floats, Floats, Ints]:
    """The model with its part alone: pairs that leave it do what another one of the state does; the rest leads to r.

    Rows, costs, and the pair that stands in for each (S * A,).
    """
    S = len(inside)
    stand_in = np.arange(S * A)
    own_indptr = np.zeros(S * A + 1, dtype=np.int64)
    for s in range(S):
        first = s * A
        while first < s * A + A and not allowed[first]:
            first += 1
        for pair in range(s * A, s * A + A):
            if inside[s] and not allowed[pair]:
                stand_in[pair] = first
            size = indptr[stand_in[pair] + 1] - indptr[stand_in[pair]] if inside[s] else 1
            own_indptr[pair + 1] = own_indptr[pair] + size
    own_indices, own_data = np.empty(own_indptr[-1], dtype=np.int64), np.empty(own_indptr[-1])
    own_costs = np.empty(costs.shape)
    for pair in range(S * A):
        other = stand_in[pair]
        for i in range(len(costs)):
            own_costs[i, pair] = costs[i, other]
        for k in range(own_indptr[pair + 1] - own_indptr[pair]):
            if inside[pair // A]:
                own_indices[own_indptr[pair] + k] = indices[indptr[other] + k]
                own_data[own_indptr[pair] + k] = data[indptr[other] + k]
            else:
                own_indices[own_indptr[pair]], own_data[own_indptr[pair]] = r, 1.0
    return own_indptr, own_indices, own_data, own_costs, stand_in


@njit
def least_outside(
    inside: Bools,
    A: int,
    indptr: Ints,
    indices: Ints,
    costs: Floats,
    thresholds: Floats,
    main: bool,
    multipliers: Floats,
) -> float:
    """A bound of c_0 + sum_i lambda_i (c_i - tau_i) outside; without c_0, of the least excess of the last limit."""
    least = np.inf
    for pair in range(len(indptr) - 1):
        stays = not inside[pair // A]
        for entry in range(indptr[pair], indptr[pair + 1]):
            stays = stays and not inside[indices[entry]]
        if stays:
            total = costs[0, pair] if main else costs[-1, pair] - thresholds[-1]
            for i in range(len(thresholds) if main else 0):
                total += multipliers[i] * (costs[i + 1, pair] - thresholds[i])
            least = min(least, total)
    return least


@njit
def search(
    indptr: Ints,
    indices: Ints,
    data: Floats,
    costs: Floats,
    thresholds: Floats,
    start: Ints,
    guess: Floats,
    reference: Ints,
    last_bias: Floats,
) -> tuple[int, Floats, float, float, Floats, Ints, Ints, Floats]:
    """What `plan` does and gives, for a model of many states in which policies with one closed class suffice.

    The costs are (m + 1, S * A) here.
    """
    m, S, r = len(thresholds), start.shape[1], reference[0]
    A = costs.shape[1] // S
    rounds, work = 0, 0
    J, laws = np.empty((_COLUMNS, m + 1)), np.empty((_COLUMNS, S))
    policies = np.empty((_COLUMNS, S), dtype=np.int64)
    c, own, slope, h1 = np.empty(S * A), np.empty(S * A), np.empty(S * A), np.zeros(S)
    occupied, wanted = np.zeros(S), np.empty(S, dtype=np.int64)
    price_tags(c, costs, 1.0, 1.0, guess)
    start = start.copy()
    h = np.zeros(S)
    if len(last_bias) > 0:
        h = last_bias.copy()
        lean(start, h, r, A, indptr, indices, data, c)
    policy = start[-1].copy()
    first = n = int(np.int64(0))
    for k in range(len(start) if m > 1 else 0):
        copy(start[k], policy)
        fine, r = law_many(policy, occupied, r, A, indptr, indices, data, costs[0])
        if fine:
            add(policy, occupied, A, costs, J, laws, policies, n)
            n += 1
    bound, value, accuracy = -np.inf, np.inf, _FIRST
    g1 = 0.0
    up = down = 1.0
    low, high = 0.0, np.inf
    priced, main, trial = guess, 1.0, True
    feasible, weights, multipliers = False, np.zeros(0), guess
    while n < _COLUMNS - 1 and work < _WORK:
        rounds += 1
        price_tags(c, costs, main, 1.0, priced)
        fine, r, g, lower, evaluations, factor = price_many(policy, h, own, r, A, indptr, indices, data, c, accuracy)
        work += evaluations
        if not fine:
            break
        limit = 0.0
        for i in range(m):
            limit += priced[i] * thresholds[i]
        if main == 1.0:
            bound = max(bound, lower - limit)
        elif lower - limit > _FEASIBLE:
            return INFEASIBLE, np.zeros((S, A)), np.nan, np.inf, np.full(m, np.nan), start, reference, h
        fine = law_by(factor, policy, occupied, r, A, indptr, indices, data)
        if not fine:
            fine, r = law_many(policy, occupied, r, A, indptr, indices, data, costs[0])
        if not fine:
            break
        add(policy, occupied, A, costs, J, laws, policies, n)
        at = n
        new = is_new(policies, n)
        n += new
        feasible, weights, multipliers, value = master(J, first, n, thresholds)
        if feasible and value - bound <= _GAP:
            return finish(J, laws, policies, weights, multipliers, value, value - bound, h, first, n, A)
        if not new and not trial and accuracy <= EXACT:
            break
        if not new:
            accuracy = max(0.01 * accuracy, EXACT)
        elif feasible:
            accuracy = min(max(_SHARE * (value - bound), EXACT), accuracy)
        if m == 1 and main == 1.0:
            lam, excess = priced[0], J[at, 1] - thresholds[0]
            if excess > 0.0:
                low = max(low, lam)
            else:
                high = min(high, lam)
            g1, _ = bias_by(factor, policy, h1, g1, r, A, indptr, indices, data, costs[1], accuracy)
            advantages_of(slope, g1, h1, A, indptr, indices, data, costs[1])
            found, step, changes = stride(policy, wanted, own, slope, occupied, excess, lam, A)
            if found:
                copy(wanted, policy)
                lower = go_on(h, own, step, h1, slope)
                bound = max(bound, g + step * g1 + lower - (lam + step) * thresholds[0])
            if found and changes <= _FEW:
                work += 1
                fine, r = law_many(policy, occupied, r, A, indptr, indices, data, costs[0])
                if not fine:
                    break
                add(policy, occupied, A, costs, J, laws, policies, n)
                n += is_new(policies, n)
                feasible, weights, multipliers, value = master(J, first, n, thresholds)
                if feasible and value - bound <= _GAP:
                    return finish(J, laws, policies, weights, multipliers, value, value - bound, h, first, n, A)
            if found and rounds <= _STRIDES and low <= lam + step <= high:
                accuracy = min(max(_SHARE * abs(step * excess), EXACT), accuracy)
                priced, main, trial = np.full(1, lam + step), 1.0, True
                continue
        # One-sided columns say little about the multipliers: look near the guess before going to extremes.
        if not feasible and up < _STRETCH and guess.sum() > 0.0:
            up *= 4.0
            priced, main, trial = up * guess, 1.0, True
        elif feasible and multipliers.sum() == 0.0 and down < _STRETCH:
            down *= 4.0
            priced, main, trial = guess / down, 1.0, True
        else:
            priced, main, trial = multipliers, 1.0 if feasible else 0.0, False
    return FAILED, np.zeros((S, A)), np.nan, np.inf, np.full(m, np.nan), start, reference, h


@njit
def stride(
    policy: Ints, wanted: Ints, own: Floats, slope: Floats, mu: Floats, excess: float, multiplier: float, A: int
) -> tuple[bool, float, int]:
    """How far to move the multiplier, and the actions (`wanted`) that take over on the way to the limit.

    own, slope (S * A,): the advantages of all pairs and how they change with the multiplier; mu (S,): the stationary
    law of the policy, which exceeds the limit by `excess`. Whether the limit is met, step, changes of actions.
    """
    S = len(policy)
    sign, most = (-1.0, multiplier) if excess <= 0.0 else (1.0, np.inf)
    when, pairs = np.empty(S * A), np.empty(S * A, dtype=np.int64)
    count = 0
    for s in range(S):
        wanted[s] = policy[s]
        for pair in range(s * A, s * A + A):
            fall = -sign * slope[pair]
            if fall > _FLAT and pair - s * A != policy[s] and max(own[pair], 0.0) < most * fall:
                when[count], pairs[count] = max(own[pair], 0.0) / fall, pair
                count += 1
    changes = 0
    for k in np.argsort(when[:count]):
        pair = pairs[k]
        s = pair // A
        before = 0.0 if wanted[s] == policy[s] else slope[s * A + wanted[s]]
        if sign * (slope[pair] - before) < 0.0:
            wanted[s] = pair - s * A
            changes += 1
            excess += mu[s] * (slope[pair] - before)
            if sign * excess <= 0.0:
                return True, sign * when[k], changes
    return sign < 0.0, -multiplier, changes


@njit
def price_many(
    policy: Ints,
    h: Floats,
    advantages: Floats,
    r: int,
    A: int,
    indptr: Ints,
    indices: Ints,
    data: Floats,
    c: Floats,
    accuracy: float,
) -> tuple[bool, int, float, float, int, Factor]:
    """What `price` does, for many states: from a guess h of the bias, until no action is better by `accuracy`.

    The policy, h and the advantages of all pairs are changed in place.

    Whether it succeeded, reference state, gain, lower bound, evaluations made, factor of the policy.
    """
    wanted = policy.copy()
    g, left = 0.0, np.inf
    enough = max(_FIRST, 0.5 * accuracy)
    rare, first = RARE, r
    r = likely_state(policy, r, A, indptr, indices, data)
    fine, factor = factorise(policy, r, A, indptr, indices, data, rare)
    sound = False
    for evaluations in range(1, _EVALUATIONS):
        most = 0.0
        while fine:
            g, left = bias_by(factor, policy, h, g, r, A, indptr, indices, data, c, enough)
            fine = left <= enough
            if not fine:
                break
            tie = max(accuracy, 2.0 * left)
            order = factor[0][::-1]
            lower, _, most = improve(policy, wanted, g, h, advantages, A, indptr, indices, data, c, tie, order, _SWEEPS)
            if most > 0.0:
                break
            if tie <= accuracy:
                return True, r, g, g + lower, evaluations, factor
            enough = 0.5 * accuracy
        if fine:
            sound = True
            copy(wanted, policy)
            enough = min(max(_SHARE * most, 0.5 * accuracy), _FIRST)
            if evaluations >= _ROUGH:
                enough = 0.5 * EXACT
        else:
            for s in range(len(h)):
                h[s] = 0.0
            if rare > RARE / 50.0:
                rare /= 10.0
            else:
                rare = RARE
                if sound:
                    r, led = reroute(policy, A, indptr, indices, data, c)
                else:
                    r, led = first, lead_to(first, policy, A, indptr, indices, data)
                if not led:
                    break
        r = likely_state(policy, r, A, indptr, indices, data)
        fine, factor = factorise(policy, r, A, indptr, indices, data, rare)
    return False, r, g, -np.inf, _EVALUATIONS, factor


@njit
def lead_to(r: int, policy: Ints, A: int, indptr: Ints, indices: Ints, data: Floats) -> bool:
    """Let a policy, in place, lead all states to r; whether that is possible."""
    led = np.zeros(len(policy), dtype=np.bool_)
    led[r] = True
    return lead(policy, led, A, indptr, indices, data)


@njit
def bias_by(
    factor: Factor,
    policy: Ints,
    h: Floats,
    g: float,
    r: int,
    A: int,
    indptr: Ints,
    indices: Ints,
    data: Floats,
    c: Floats,
    enough: float,
) -> tuple[float, float]:
    """Gain and bias (in place, from a guess of both) for the costs c (S * A) by a policy's factor; gain and error."""
    S = len(policy)
    costs = np.empty(S)
    shift = h[r]
    for s in range(S):
        costs[s] = c[s * A + policy[s]]
        h[s] -= shift
    h[r] = g
    left = refine(factor, policy, r, A, indptr, indices, data, costs, h, False, enough)
    g = h[r]
    h[r] = 0.0
    return g, left


@njit
def law_by(factor: Factor, policy: Ints, mu: Floats, r: int, A: int, indptr: Ints, indices: Ints, data: Floats) -> bool:
    """The stationary law of a policy (in place, from a guess) by its factor; whether it is exact."""
    S = len(policy)
    one = np.zeros(S)
    one[r] = 1.0
    if not refine(factor, policy, r, A, indptr, indices, data, one, mu, True, _EXACT_LAW) <= _EXACT_LAW:
        for s in range(S):
            mu[s] = 0.0
        return False
    total = 0.0
    for s in range(S):
        mu[s] = max(mu[s], 0.0)
        total += mu[s]
    for s in range(S):
        mu[s] /= total
    return True


@njit
def law_many(
    policy: Ints, mu: Floats, r: int, A: int, indptr: Ints, indices: Ints, data: Floats, c: Floats
) -> tuple[bool, int]:
    """The stationary law from a guess mu, in place, for many states; the policy is rerouted if it has several."""
    rare = RARE
    for _ in range(6):
        r = likely_state(policy, r, A, indptr, indices, data)
        fine, factor = factorise(policy, r, A, indptr, indices, data, rare)
        if fine and law_by(factor, policy, mu, r, A, indptr, indices, data):
            return True, r
        if rare > RARE / 50.0:
            rare /= 10.0
        else:
            r, led = reroute(policy, A, indptr, indices, data, c)
            rare = RARE
            if not led:
                break
    return False, r
