"""Planning in one model, compiled: column generation over deterministic policies.

The occupancy program asks for weights w_j >= 0 of policies pi_j with one closed class and the averages J_i(pi_j):

    min sum_j w_j J_0(pi_j)   s.t.   sum_j w_j (J_i(pi_j) - tau_i) <= 0,   sum_j w_j = 1.

The small program over the policies found so far (`master`) gives multipliers lambda; policy iteration for the costs
c_0 + sum_i lambda_i c_i (`price`) finds the policy that improves it most, or proves that there is none: for any h

    min over all pairs of  c(s, a) + sum_x p(x | s, a) (h(x) - h(s))

bounds the average of c from below, for every policy from every state. Upper and lower bound make the certificate.
While the policies found cannot meet the limits together, `master` gives weights y of the limits that prove it, and
policy iteration for sum_i y_i c_i finds a policy that changes that, or proves that no policy does.

With one limit a few columns are all it takes: from the policy that is best for the multiplier of the plan before,
`walk` goes on to its neighbours, one action at a time, until the limit lies between two of them. `master` is for more
limits, and for policies on the way that fall apart.
"""

import numpy as np

from psconrl._checks import Floats, Ints
from psconrl._numba import njit, njit_inline
from psconrl.planning._chain_kernels import HUGE, LARGE, bias, invert, law, reroute, turn
from psconrl.planning._rows_kernels import one_class
from psconrl.planning.compiled.shortest_path import fastest
from psconrl.planning.rows import Rows

OPTIMAL, INFEASIBLE, FAILED = 0, 1, 2

_COLUMNS = 128
_ROUNDS = 100
_TIE = 1e-11
"""An action is better only by more than this, and more than rounding can feign."""
_CLOSE = 1e-10
"""Bounds this near to each other end the search."""
_GAP = 1e-8
"""Bounds further apart than this are no certificate."""
_FEASIBLE = 1e-9
"""Limits missed by less than this are left to a second opinion."""
_STRETCH = 16.0
"""How far from the guess multipliers are tried before the extremes."""
_SWEEPS = 2
"""How often improvements are passed on before the next evaluation."""

_LEAN = 2
"""How often `lean` goes through the states."""
_WALK = 40
"""How many actions `walk` changes at most."""
_FLAT = 1e-9
"""Advantages whose slope in the multiplier is below this do not cross zero."""


@njit
def master(J: Floats, first: int, n: int, thresholds: Floats) -> tuple[bool, Floats, Floats, float]:
    """The small program over n columns, the rows of J (.., m + 1) from the first one on, by the simplex method.

    Whether it is feasible; weights (n,), multipliers (m,), value. If infeasible: the weights of the limits in place of
    the multipliers, and their excess with the best column.
    """
    m = len(thresholds)
    width = n + m + 2
    artificial, right = n + m, n + m + 1
    T = np.zeros((m + 2, width))
    basis = np.empty(m + 1, dtype=np.int64)
    for i in range(m):
        for j in range(n):
            T[i, j] = J[first + j, i + 1] - thresholds[i]
        T[i, n + i] = 1.0
        basis[i] = n + i
    for j in range(n):
        T[m, j] = 1.0
    T[m, artificial] = T[m, right] = 1.0
    basis[m] = artificial
    weights, multipliers = np.zeros(n), np.zeros(m)
    for phase in range(2):
        for j in range(width):
            T[m + 1, j] = 0.0
        for j in range(n):
            T[m + 1, j] = -1.0 if phase == 0 else J[first + j, 0]
        if phase == 0:
            T[m + 1, right] = -1.0
        else:
            for i in range(m + 1):
                if basis[i] < n:
                    _subtract(T, m + 1, J[first + basis[i], 0], i)
        for step in range(50 * (m + 2)):
            enter, least = -1, -1e-13
            for j in range(n + m):
                if T[m + 1, j] < least:
                    enter, least = j, T[m + 1, j]
                    if step > 20 * (m + 2):  # the first one, lest it cycles
                        break
            if enter < 0:
                break
            leave, ratio = -1, np.inf
            for i in range(m + 1):
                if T[i, enter] > 1e-13:
                    step_size = T[i, right] / T[i, enter]
                    if step_size < ratio or (step_size == ratio and basis[i] > basis[leave]):
                        leave, ratio = i, step_size
            if leave < 0:
                break
            basis[leave] = enter
            pivot = T[leave, enter]
            for j in range(width):
                T[leave, j] /= pivot
            for i in range(m + 2):
                if i != leave:
                    _subtract(T, i, T[i, enter], leave)
        if phase == 0 and T[m + 1, right] < -0.5:  # all or nothing: the limits' right sides are zero
            total = 0.0
            for i in range(m):
                multipliers[i] = max(T[m + 1, n + i], 0.0)
                total += multipliers[i]
            for i in range(m):
                multipliers[i] /= total
            excess = np.inf
            for j in range(n):
                mixed = 0.0
                for i in range(m):
                    mixed += multipliers[i] * (J[first + j, i + 1] - thresholds[i])
                excess = min(excess, mixed)
            return False, weights, multipliers, excess
    value, total = 0.0, 0.0
    for i in range(m + 1):
        if basis[i] < n:
            weights[basis[i]] = max(T[i, right], 0.0)
            total += weights[basis[i]]
    for j in range(n):
        weights[j] /= total
        value += weights[j] * J[first + j, 0]
    for i in range(m):
        multipliers[i] = max(T[m + 1, n + i], 0.0)
    return True, weights, multipliers, value


@njit_inline
def _subtract(T: Floats, row: int, times: float, other: int) -> None:
    for j in range(T.shape[1]):
        T[row, j] -= times * T[other, j]


@njit
def _span(h: Floats) -> float:
    least = largest = h[0]
    for number in h:
        least, largest = min(least, number), max(largest, number)
    return float(largest - least)


@njit
def improve(
    policy: Ints,
    wanted: Ints,
    g: float,
    h: Floats,
    advantages: Floats,
    A: int,
    indptr: Ints,
    indices: Ints,
    data: Floats,
    c: Floats,
    tie: float,
    order: Ints,
    sweeps: int,
) -> tuple[float, float, float]:
    """Write the actions that are better than those of a policy with gain g and bias h into `wanted`; h follows.

    Improvements are passed on from state to state, in the given order, so many times before the next evaluation.

    The least advantage, how far the policy's own are from zero (both in the first sweep), the largest improvement.
    """
    lower, own, most = np.inf, 0.0, 0.0
    for s in range(len(policy)):
        wanted[s] = policy[s]
    for sweep in range(sweeps):
        improved = 0
        for s in order:
            best = -tie
            for a in range(A):
                pair = s * A + a
                advantage = c[pair] - g
                for entry in range(indptr[pair], indptr[pair + 1]):
                    advantage += data[entry] * (h[indices[entry]] - h[s])
                if sweep == 0:
                    advantages[pair] = advantage
                    lower = min(lower, advantage)
                    if a == policy[s]:
                        own = max(own, advantage) if improved else max(own, abs(advantage))
                if advantage < best:
                    best = advantage
                    wanted[s] = a
            if best < -tie:
                # Lowered at once, so that what lies behind it sees the improvement in the same sweep.
                h[s] += best
                improved += 1
                most = max(most, -best)
        if improved == 0:
            break
    return lower, own, most


@njit_inline
def price(
    policy: Ints,
    inverse: Floats,
    h: Floats,
    advantages: Floats,
    r: int,
    A: int,
    indptr: Ints,
    indices: Ints,
    data: Floats,
    c: Floats,
) -> tuple[bool, Floats, int, float, float]:
    """Policy iteration for the costs c (S * A), from a policy and its inverse; the policy is changed in place.

    The bias is written to h, the advantages of all pairs to `advantages` (S * A).

    Whether it succeeded, inverse, reference state, gain, a lower bound of the average from any state.
    """
    S = len(policy)
    fresh = False
    wanted, order = np.empty(S, dtype=np.int64), np.empty(S, dtype=np.int64)
    for s in range(S):
        order[s] = s
    for _ in range(1, _ROUNDS):
        g = bias(inverse, policy, h, r, A, indptr, indices, data, c)
        span = _span(h)
        if not (span < HUGE and abs(g) < HUGE):  # nan included
            return False, inverse, r, np.nan, -np.inf
        tie = max(_TIE, 1e-15 * span)
        lower, own, _ = improve(policy, wanted, g, h, advantages, A, indptr, indices, data, c, tie, order, _SWEEPS)
        changes = 0
        for s in range(S):
            if wanted[s] != policy[s]:
                changes += 1
        if not own <= tie:
            # Updates have worn the inverse out.
            if fresh or not np.isfinite(own):
                return False, inverse, r, np.nan, -np.inf
            likeliest = r
            for s in range(S):
                if inverse[r, s] > inverse[r, likeliest]:
                    likeliest = s
            fine, inverse, r = start_anew(policy, likeliest, A, indptr, indices, data, c)
            if not fine:
                return False, inverse, r, np.nan, -np.inf
            fresh = True
            continue
        if changes == 0:
            return True, inverse, r, g, g + lower
        fresh = turn(inverse, policy, wanted, r, A, indptr, indices, data, LARGE) >= 0
        if fresh:
            fine, inverse, r = start_anew(policy, r, A, indptr, indices, data, c)
            if not fine:
                return False, inverse, r, np.nan, -np.inf
    return False, inverse, r, np.nan, -np.inf


@njit
def plan(
    indptr: Ints,
    indices: Ints,
    data: Floats,
    all_costs: Floats,
    thresholds: Floats,
    start: Ints,
    guess: Floats,
    reference: Ints,
    last_bias: Floats,
) -> tuple[int, Floats, float, float, Floats, Ints, Ints, Floats]:
    """The best policy of a model by rows, costs (m + 1, S, A).

    It starts from policies (k, S), a guess of the multipliers (m,), a reference state (1,), and a guess of the bias
    (S,), or none (0,): then the policies are not leaned, and stay if they are optimal.

    Status; occupancy (S, A); value; certified gap; and what the next plan may start from: the policies that carry
    weight (k, S) after the multipliers (m,), the reference state (1,) and the bias (S,).
    """
    n, S, A = all_costs.shape
    m, r, h = n - 1, reference[0], np.zeros(S)
    costs = all_costs.reshape(n, S * A)
    J = np.empty((_COLUMNS, m + 1))
    laws = np.empty((_COLUMNS, S))
    policies = np.empty((_COLUMNS, S), dtype=np.int64)
    nothing = np.empty(m)
    for i in range(m):
        nothing[i] = np.nan
    c, own = np.empty(S * A), np.empty(S * A)
    start, policy, found = start.copy(), np.empty(S, dtype=np.int64), np.empty(S, dtype=np.int64)
    inverse = np.empty((0, 0))
    status, fine = FAILED, all_finite(costs, thresholds)
    if fine:
        price_tags(c, costs, 1.0, 1.0, guess)
        for s in range(len(last_bias)):
            h[s] = last_bias[s]
        if len(last_bias) > 0:
            lean(start, h, r, A, indptr, indices, data, c)
        copy(start[-1], policy)
        fine, inverse, r = start_anew(policy, r, A, indptr, indices, data, costs[0])
    first = n = int(np.int64(0))  # not 0, a constant, for which all that gets it would compile once more
    bound, value = -np.inf, np.inf
    up, down, rounds = 1.0, 1.0, 0
    feasible, weights, multipliers = False, nothing, guess
    while fine and n < _COLUMNS - 2 - len(start):
        # One-sided columns say little about the multipliers: look near the guess before going to extremes.
        trial = True
        priced, main, times = guess, 1.0, 1.0
        if n > 0:
            feasible, weights, multipliers, value = master(J, first, n, thresholds)
            unpriced = True
            for i in range(m):
                unpriced = unpriced and multipliers[i] == 0.0
            if not feasible and up < _STRETCH:
                up *= 4.0
                times = up
            elif feasible and unpriced and down < _STRETCH:
                down *= 4.0
                times = 1.0 / down
            else:
                priced, main, trial = multipliers, 1.0 if feasible else 0.0, False
        rounds += 1
        price_tags(c, costs, main, times, priced)
        limit = 0.0
        for i in range(m):
            limit += times * priced[i] * thresholds[i]
        fine, inverse, r, g, lower = price(policy, inverse, h, own, r, A, indptr, indices, data, c)
        if not fine:
            break
        if main == 1.0:
            bound = max(bound, lower - limit)
        elif lower - limit > _FEASIBLE:
            status = INFEASIBLE
            break
        if feasible and value - bound <= _CLOSE:
            status = OPTIMAL
            break
        copy(policy, found)
        if m == 1 and main == 1.0:
            count, lam, lower = walk(
                policy.copy(),
                inverse.copy(),
                g,
                h,
                own,
                r,
                A,
                indptr,
                indices,
                data,
                costs,
                thresholds[0],
                times * priced[0],
                J,
                laws,
                policies,
                n,
            )
            if count > 0:
                bound = max(bound, lower)
                feasible, weights, multipliers, value = master(J, n, count, thresholds)
                if feasible and value - bound <= _CLOSE:
                    multipliers[0] = lam
                    first, n, status = n, count, OPTIMAL
                    break
        # What was found, and at first the start policies, which keep their actions where they differ; where the last of
        # them cannot be evaluated, what was found again.
        others = len(start) if rounds == 1 else 0
        for s in range(S if others > 0 else 0):
            agree = True
            for k in range(others):
                agree = agree and start[k, s] == start[0, s]
            for k in range(others if agree else 0):
                start[k, s] = found[s]
        before = n
        for k in range(others + 2):
            if k > others and fine:
                break
            wanted = start[k - 1] if 0 < k <= others else found
            fine = fine and turn(inverse, policy, wanted, r, A, indptr, indices, data, LARGE) < 0
            if not fine:
                copy(wanted, policy)
                fine, inverse, r = start_anew(policy, r, A, indptr, indices, data, costs[0])
            if fine:
                add(policy, law(inverse, policy, r, A, indptr, indices, data), A, costs, J, laws, policies, n)
                n += is_new(policies, n)
        if n == before and not trial:
            # Nothing new: rounding is all that separates the bounds.
            if feasible and value - bound <= _GAP:
                status = OPTIMAL
            break
    if status == OPTIMAL:
        return finish(J, laws, policies, weights, multipliers, value, value - bound, h, first, n, A)
    return status, np.zeros((S, A)), np.nan, np.inf, nothing, start, reference, h


@njit_inline
def walk(
    policy: Ints,
    inverse: Floats,
    g: float,
    h: Floats,
    own: Floats,
    r: int,
    A: int,
    indptr: Ints,
    indices: Ints,
    data: Floats,
    costs: Floats,
    threshold: float,
    multiplier: float,
    J: Floats,
    laws: Floats,
    policies: Ints,
    n: int,
) -> tuple[int, float, float]:
    """From a policy that is best for a multiplier, one action after another, to the optimum; all is overwritten.

    The multiplier is lowered while the limit is kept, and raised while it is not, until an action becomes as good as
    the policy's; then this is taken. The optimum is where that leads from one side of the limit to the other, or where
    the multiplier is zero. One or two columns are written from n on.

    Columns written (0 if the optimum was not reached), multiplier, lower bound.
    """
    S = len(policy)
    slope, h1 = np.empty(S * A), np.empty(S)
    wanted = policy.copy()
    g1 = bias(inverse, policy, h1, r, A, indptr, indices, data, costs[1])
    for _ in range(_WALK):
        advantages_of(slope, g1, h1, A, indptr, indices, data, costs[1])
        excess = g1 - threshold
        sign = -1.0 if excess <= 0.0 else 1.0
        most, enter = multiplier if excess <= 0.0 else np.inf, -1
        for s in range(S):
            for a in range(A):
                pair = s * A + a
                fall = -sign * slope[pair]
                if fall > _FLAT and max(own[pair], 0.0) < fall * most and a != policy[s]:
                    most, enter = max(own[pair], 0.0) / fall, pair
        if not most < np.inf:
            return 0, multiplier, -np.inf
        step = sign * most
        multiplier += step
        g += step * g1
        lower = go_on(h, own, step, h1, slope)
        if enter >= 0:
            s = enter // A
            before, wanted[s] = policy[s], enter % A
            if turn(inverse, policy, wanted, r, A, indptr, indices, data, LARGE) >= 0:
                return 0, multiplier, -np.inf
            for x in range(S):
                h1[x] += slope[enter] * inverse[x, s]
            h1[r] = 0.0
            g1 += slope[enter] * inverse[r, s]
        if enter < 0 or excess * (g1 - threshold) <= 0.0:
            add(policy, law(inverse, policy, r, A, indptr, indices, data), A, costs, J, laws, policies, n)
            if enter >= 0:
                wanted[s] = before
                if turn(inverse, policy, wanted, r, A, indptr, indices, data, LARGE) >= 0:
                    return 0, multiplier, -np.inf
                add(policy, law(inverse, policy, r, A, indptr, indices, data), A, costs, J, laws, policies, n + 1)
            return 1 if enter < 0 else 2, multiplier, g + lower - multiplier * threshold
    return 0, multiplier, -np.inf


@njit
def go_on(h: Floats, own: Floats, step: float, h1: Floats, slope: Floats) -> float:
    """Move bias and advantages, in place, along their lines in the multiplier; the least advantage there."""
    for s in range(len(h)):
        h[s] += step * h1[s]
    least = np.inf
    for pair in range(len(own)):
        own[pair] += step * slope[pair]
        least = min(least, own[pair])
    return least


@njit
def advantages_of(
    advantages: Floats, g: float, h: Floats, A: int, indptr: Ints, indices: Ints, data: Floats, c: Floats
) -> None:
    """Of all pairs, for gain g and bias h."""
    for s in range(len(h)):
        for a in range(A):
            advantages[s * A + a] = _advantage(s, a, g, A, h, indptr, indices, data, c)


@njit
def all_finite(costs: Floats, thresholds: Floats) -> bool:
    finite = True
    for i in range(len(costs)):
        finite = finite and (i == 0 or np.isfinite(thresholds[i - 1]))
        for pair in range(costs.shape[1]):
            finite = finite and np.isfinite(costs[i, pair])
    return finite


@njit
def price_tags(c: Floats, costs: Floats, main: float, times: float, multipliers: Floats) -> None:
    """The costs (S * A) of policy iteration: the main ones and, so many times the multipliers, those of the limits."""
    for pair in range(len(c)):
        c[pair] = main * costs[0, pair]
        for i in range(len(multipliers)):
            c[pair] += times * multipliers[i] * costs[i + 1, pair]


@njit
def lean(policies: Ints, h: Floats, r: int, A: int, indptr: Ints, indices: Ints, data: Floats, c: Floats) -> None:
    """Where policies (k, S) agree, let them take the action that is best for a guess h of the bias.

    A model sampled anew differs most in states that were hardly ever seen; what to do there follows from where they
    lead.
    """
    S = len(h)
    g = np.inf
    for a in range(A):
        g = min(g, _advantage(r, a, 0.0, A, h, indptr, indices, data, c))
    for _ in range(_LEAN):
        for s in range(S):
            k = 1
            while k < len(policies) and policies[k, s] == policies[0, s]:
                k += 1
            if k < len(policies):
                continue
            own = best = policies[0, s]
            least = np.inf
            for a in range(A):
                advantage = _advantage(s, a, g, A, h, indptr, indices, data, c)
                if a == own:
                    advantage -= _TIE
                if advantage < least or (a == own and advantage == least):
                    best, least = a, advantage
            h[s] += least
            for k in range(len(policies)):
                policies[k, s] = best


@njit_inline
def _advantage(
    s: int, a: int, g: float, A: int, h: Floats, indptr: Ints, indices: Ints, data: Floats, c: Floats
) -> float:
    """Of a pair, for gain g and bias h."""
    pair = s * A + a
    total = c[pair] - g
    for entry in range(indptr[pair], indptr[pair + 1]):
        total += data[entry] * (h[indices[entry]] - h[s])
    return total


@njit
def start_anew(
    policy: Ints, r: int, A: int, indptr: Ints, indices: Ints, data: Floats, c: Floats
) -> tuple[bool, Floats, int]:
    """The inverse of a policy, which is rerouted if it has several classes; whether this succeeded, inverse, r."""
    lost, inverse = 0, np.empty((0, 0))
    for attempt in range(4):
        if attempt == 2:
            r, led = reroute(policy, A, indptr, indices, data, c)
            if not led:
                break
        elif attempt > 0:  # r was not in the class: take a state that is
            r = lost
        lost, inverse = invert(policy, r, A, indptr, indices, data, HUGE if attempt % 2 else LARGE)
        if lost < 0:
            break
    return lost < 0, inverse, r


@njit
def is_new(policies: Ints, n: int) -> int:
    """1 if policy n is none of those before, else 0."""
    for j in range(n):
        different = 0
        for s in range(policies.shape[1]):
            different += policies[j, s] != policies[n, s]
        if different == 0:
            return 0
    return 1


@njit
def copy(array: Ints, to: Ints) -> None:
    """Entry by entry: whole-array assignments take seconds to compile."""
    for i in range(len(array)):
        to[i] = array[i]


@njit
def add(policy: Ints, mu: Floats, A: int, costs: Floats, J: Floats, laws: Floats, policies: Ints, n: int) -> None:
    """Write a policy as column n: its averages, stationary law and actions."""
    for s in range(len(policy)):
        laws[n, s], policies[n, s] = mu[s], policy[s]
    for i in range(costs.shape[0]):
        total = 0.0
        for s in range(len(policy)):
            total += mu[s] * costs[i, s * A + policy[s]]
        J[n, i] = total


@njit
def finish(
    J: Floats,
    laws: Floats,
    policies: Ints,
    weights: Floats,
    multipliers: Floats,
    value: float,
    gap: float,
    h: Floats,
    first: int,
    n: int,
    A: int,
) -> tuple[int, Floats, float, float, Floats, Ints, Ints, Floats]:
    """The answer made of those of n columns that carry weight, the safest first, its reference the likeliest state."""
    S = laws.shape[1]
    mu = np.zeros((S, A))
    used = np.empty(n, dtype=np.int64)
    count = 0
    for j in range(n):
        if weights[j] > 0.0:
            at = count
            while at > 0 and J[used[at - 1], -1] > J[first + j, -1]:
                used[at] = used[at - 1]
                at -= 1
            used[at] = first + j
            count += 1
    chosen = np.empty((count, S), dtype=np.int64)
    for k in range(count):
        j = used[k]
        for s in range(S):
            mu[s, policies[j, s]] += weights[j - first] * laws[j, s]
            chosen[k, s] = policies[j, s]
    reference, most = np.zeros(1, dtype=np.int64), 0.0
    for s in range(S):
        mass = 0.0
        for a in range(A):
            mass += mu[s, a]
        if mass > most:
            reference[0], most = s, mass
    return OPTIMAL, mu, value, gap, multipliers, chosen, reference, h


@njit
def execute(
    mu: Floats, indptr: Ints, indices: Ints, data: Floats, way: Ints, support: float
) -> tuple[bool, bool, Floats, Ints]:
    """The policy (S, A) of an occupancy: its ratio, and the fastest way into its support from elsewhere.

    Whether the support is one class (else nothing is done), whether all states lead to it (those that do not play
    uniformly), the policy, and the actions of the way (S,), -1 on the support; it is looked for from `way`.
    """
    S, A = mu.shape
    clean = np.zeros((S, A))
    mass = np.zeros(S)
    inside, actions = np.zeros(S, dtype=np.bool_), np.empty(S, dtype=np.int64)
    missing = 0
    for s in range(S):
        actions[s] = -1
        for a in range(A):
            if mu[s, a] > support:
                clean[s, a] = mu[s, a]
                mass[s] += mu[s, a]
        inside[s] = mass[s] > 0.0
        missing += not inside[s]
    policy = np.zeros((S, A))
    if not one_class(clean, indptr, indices, data, support):
        return False, False, policy, way
    if missing > 0:
        actions = fastest(Rows(indptr, indices, data, S), inside, way, way[:0]).actions
    connected = True
    for s in range(S):
        for a in range(A):
            if inside[s]:
                policy[s, a] = clean[s, a] / mass[s]
            elif actions[s] >= 0:
                policy[s, a] = 1.0 if a == actions[s] else 0.0
            else:
                policy[s, a] = 1.0 / A
                connected = False
    return True, connected, policy, actions
