"""What all pricing of deterministic policies shares: prices of pairs, better actions, columns, certificates."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from psconrl._core.checks import Floats, Ints
from psconrl._core.njit import njit, njit_inline
from psconrl.planning.compiled.rows import Rows, copy, end_of, moves_of
from psconrl.planning.tolerances import EPS, EVAL_TOL, FEW_SWEEPS, NOISE, SUPPORT


class Columns(NamedTuple):
    """`known` (1,) policies: averages J (room, m + 1), stationary distributions (room, S), pairs (room, S)."""

    J: Floats
    distributions: Floats
    policies: Ints
    known: Ints


class Mixture(NamedTuple):
    """Mixed policies: averages J (k, m + 1), stationary distributions (k, S), pairs (k, S), weights (k,) of sum one.

    The one that keeps the last limit best comes first.
    """

    J: Floats
    distributions: Floats
    policies: Ints
    weights: Floats

    def first(self, count: int) -> Mixture:
        """Its first columns."""
        J, distributions, policies, weights = self
        return Mixture(J[:count], distributions[:count], policies[:count], weights[:count])


class Start(NamedTuple):
    """What planning may start from: policies (k, S) of pairs, multipliers (m,), reference state (1,), bias (S,).

    An empty bias is none: then the policies stay if they are optimal.
    """

    policies: Ints
    multipliers: Floats
    reference: Ints
    bias: Floats


@njit
def room_for(count: int, m: int, S: int) -> Columns:
    """Room for so many columns."""
    policies = np.empty((count, S), dtype=np.int64)
    return Columns(np.empty((count, m + 1)), np.empty((count, S)), policies, np.zeros(1, dtype=np.int64))


@njit
def decided(costs: Floats, levels: Floats) -> Floats:
    """The costs (m + 1, K), with levels (K,), if there are any, added to c_0."""
    result = costs.copy()
    for pair in range(len(levels)):
        result[0, pair] += levels[pair]
    return result


@njit
def begin(rows: Rows, costs: Floats, start: Start, c: Floats, h: Floats) -> tuple[Ints, Floats, int]:
    """Policies (k, S), multipliers (m,) and reference state to begin with; c (K,): costs at these multipliers.

    They are those of the start, greedy for its bias, which is written to h; the first pairs, if it is not sound.
    """
    S, m = len(h), len(costs) - 1
    given = sound(rows, start)
    policies = np.empty((len(start.policies) if given else 1, S), dtype=np.int64)
    multipliers, r = np.zeros(m), start.reference[0] if given else 0
    for i in range(m if given else 0):
        multipliers[i] = start.multipliers[i]
    for k in range(len(policies)):
        for s in range(S):
            policies[k, s] = start.policies[k, s] if given else rows.begin[s]
    lagrangian_costs(c, costs, 1.0, multipliers)
    for s in range(S):
        h[s] = start.bias[s] if given and len(start.bias) > 0 else 0.0
    if len(start.bias) > 0:
        greedy_warm_start(rows, c, h, r, policies)
    return policies, multipliers, r


@njit
def sound(rows: Rows, start: Start) -> bool:
    """Whether a start belongs to a model of this size: pairs of their states, finite numbers, multipliers >= 0."""
    S = len(rows.begin) - 1
    if not 0 <= start.reference[0] < S or len(start.policies) == 0:
        return False
    for i in range(len(start.multipliers)):
        if not 0.0 <= start.multipliers[i] < np.inf:
            return False
    for s in range(len(start.bias)):
        if not np.isfinite(start.bias[s]):
            return False
    for k in range(len(start.policies)):
        for s in range(S):
            if not rows.begin[s] <= start.policies[k, s] < rows.begin[s + 1]:
                return False
    return True


@njit
def lagrangian_costs(c: Floats, costs: Floats, main: float, prices: Floats) -> None:
    """Fill in the costs c (K,) of policy iteration: the main ones, and those of the limits at their prices."""
    for pair in range(len(c)):
        c[pair] = main * costs[0, pair]
        for i in range(len(prices)):
            c[pair] += prices[i] * costs[i + 1, pair]


@njit_inline
def advantage_of(rows: Rows, c: Floats, g: float, h: Floats, s: int, pair: int) -> float:
    """What a pair of state s costs more than the policy with gain g and bias h, for the costs c (K,)."""
    total = c[pair] - g
    for move in moves_of(rows, pair):
        total += rows.data[move] * (h[end_of(rows, move)] - h[s])
    return total


@njit
def advantages_of(rows: Rows, c: Floats, g: float, h: Floats, advantages: Floats) -> None:
    """Fill in the advantages (K,) of all pairs."""
    for s in range(len(h)):
        for pair in range(rows.begin[s], rows.begin[s + 1]):
            advantages[pair] = advantage_of(rows, c, g, h, s, pair)


@njit
def improve(
    rows: Rows, c: Floats, g: float, h: Floats, policy: Ints, wanted: Ints, advantages: Floats, order: Ints, tie: float
) -> tuple[float, float, float]:
    """Write the pairs that are better than those of a policy with gain g and bias h into `wanted`; h follows.

    Improvements are passed on from state to state, in the given order: an order longer than the states passes them on
    more often. Of two arguments more than elsewhere: this is called for every policy.

    The least advantage, how far the policy's own are from zero (both of the first S states), the largest improvement.
    """
    S = len(policy)
    lower, own, most = np.inf, 0.0, 0.0
    for s in range(S):
        wanted[s] = policy[s]
    improved, before, ahead = 0, 0, S
    for k in range(len(order)):
        if ahead == 0:
            if improved == before:
                break
            before, ahead = improved, S
        ahead -= 1
        s = order[k]
        best, better = -tie, policy[s] if k < S else wanted[s]
        for pair in range(rows.begin[s], rows.begin[s + 1]):
            advantage = advantage_of(rows, c, g, h, s, pair)
            if k < S:
                advantages[pair] = advantage
                lower = min(lower, advantage)
            better = pair if advantage < best else better
            best = advantage if advantage < best else best
        if k < S:
            mine = advantages[policy[s]]
            own = max(own, mine) if improved else max(own, abs(mine))
        if best < -tie:
            # Lowered at once, so that what lies behind it sees the improvement in the same sweep.
            wanted[s] = better
            h[s] += best
            improved += 1
            most = max(most, -best)
    return lower, own, most


@njit
def move_along(h: Floats, own: Floats, step: float, h1: Floats, slope: Floats) -> float:
    """Move bias (S,) and advantages (K,), in place, along their lines in the multiplier; the least advantage there."""
    for s in range(len(h)):
        h[s] += step * h1[s]
    least = np.inf
    for pair in range(len(own)):
        own[pair] += step * slope[pair]
        least = min(least, own[pair])
    return least


@njit
def multiplier_step(
    rows: Rows, policy: Ints, mu: Floats, own: Floats, slope: Floats, excess: float, multiplier: float
) -> tuple[bool, float]:
    """How far to move the multiplier of one limit, and, written to the policy, the pairs that take over until then.

    Where a limit is exceeded the multiplier rises, else it falls, to zero at most.

    Args:
        rows: the model. policy: best for the multiplier (S,), with stationary distribution mu (S,).
        own: its advantages (K,); they change by `slope` (K,) times the step. excess: of its average over the limit.
        multiplier: where to step from.

    Returns:
        Whether the limit is met (else the policy stays), and the step.
    """
    S, K = len(mu), len(own)
    sign, most = (-1.0, multiplier) if excess <= 0.0 else (1.0, np.inf)
    when, pairs, states = np.empty(K), np.empty(K, dtype=np.int64), np.empty(K, dtype=np.int64)
    wanted = policy.copy()
    count = 0
    for s in range(S):
        for pair in range(rows.begin[s], rows.begin[s + 1]):
            fall = -sign * slope[pair]
            if fall > EVAL_TOL and pair != wanted[s] and max(own[pair], 0.0) < most * fall:
                when[count], pairs[count], states[count] = max(own[pair], 0.0) / fall, pair, s
                count += 1
    step, met, enough = -multiplier, sign < 0.0, np.inf
    for k in np.argsort(when[:count]):
        if when[k] > enough:  # what takes over at the same multiplier does so together
            break
        pair, s = pairs[k], states[k]
        before = 0.0 if wanted[s] == policy[s] else slope[wanted[s]]
        if sign * (slope[pair] - before) < 0.0:
            wanted[s] = pair
            excess += mu[s] * (slope[pair] - before)
            if enough == np.inf and sign * excess <= 0.0:
                step, met, enough = sign * when[k], True, when[k]
    if met:
        copy(wanted, policy)
    return met, step


@njit
def greedy_warm_start(rows: Rows, c: Floats, h: Floats, r: int, policies: Ints) -> None:
    """Where policies (k, S) agree, let them take the pair that is best for a guess h of the bias.

    A model sampled anew differs most in states that were hardly ever seen; what to do there follows from where they
    lead.
    """
    g = np.inf
    for pair in range(rows.begin[r], rows.begin[r + 1]):
        g = min(g, advantage_of(rows, c, 0.0, h, r, pair))
    for _ in range(FEW_SWEEPS):
        for s in range(len(h)):
            k = 1
            while k < len(policies) and policies[k, s] == policies[0, s]:
                k += 1
            if k < len(policies):
                continue
            own = best = policies[0, s]
            least = np.inf
            for pair in range(rows.begin[s], rows.begin[s + 1]):
                advantage = advantage_of(rows, c, g, h, s, pair)
                if pair == own:
                    advantage -= NOISE
                if advantage < least or (pair == own and advantage == least):
                    best, least = pair, advantage
            h[s] += least
            for k in range(len(policies)):
                policies[k, s] = best


@njit
def discounted_value_iteration(
    rows: Rows, c: Floats, rate: float, optimistic: bool, enough: float, sweeps: int
) -> tuple[Floats, Ints]:
    """What lies ahead of each state (S,) at the costs c (K,), at best, and the pairs (S,) that go there.

    All ends at a rate in every step. Without hope, at first the worst is expected everywhere: as soon as states are
    looked at in turn, from the first to the last and back, what is good is seen from afar. With hope, at first the best
    is expected, and only states where one can stay keep it. At most so many sweeps, until differences between states
    change by less than a share `enough` of the largest.
    """
    S = len(rows.begin) - 1
    ahead, policy = np.empty(S), np.empty(S, dtype=np.int64)
    extreme = c[0]
    for pair in range(len(c)):
        extreme = min(extreme, c[pair]) if optimistic else max(extreme, c[pair])
    for s in range(S):
        ahead[s] = extreme / rate
    for sweep in range(sweeps):
        low, high = np.inf, -np.inf
        for k in range(S):
            s = k if sweep % 2 == 0 else S - 1 - k
            least = np.inf
            for pair in range(rows.begin[s], rows.begin[s + 1]):
                total = 0.0
                for move in moves_of(rows, pair):
                    total += rows.data[move] * ahead[end_of(rows, move)]
                total = c[pair] + (1.0 - rate) * total
                if total < least - NOISE:
                    least, policy[s] = total, pair
            low, high = min(low, least - ahead[s]), max(high, least - ahead[s])
            ahead[s] = least
        if high - low <= enough * span_of(ahead):
            break
    return ahead, policy


@njit
def add_column(columns: Columns, costs: Floats, policy: Ints) -> bool:
    """Add a policy, whose distribution is at the end of `columns` already, unless it is known; whether it was new."""
    n, S = columns.known[0], len(policy)
    for i in range(costs.shape[0]):
        total = 0.0
        for s in range(S):
            total += columns.distributions[n, s] * costs[i, policy[s]]
        columns.J[n, i] = total
    for s in range(S):
        columns.policies[n, s] = policy[s]
    for j in range(n):
        different = 0
        for s in range(S):
            different += columns.policies[j, s] != policy[s]
        if different == 0:
            return False
    columns.known[0] += 1
    return True


@njit
def mix(columns: Columns, basis: Ints, basic: Floats, into: Mixture) -> int:
    """Fill in the columns that a basis names with weights `basic`; how many carry weight."""
    names, weights = np.empty(len(basis), dtype=np.int64), into.weights
    count, total = 0, 0.0
    for b in range(len(basis)):
        if basis[b] >= 0 and basic[b] > SUPPORT:
            at = count
            while at > 0 and columns.J[names[at - 1], -1] > columns.J[basis[b], -1]:
                names[at], weights[at] = names[at - 1], weights[at - 1]
                at -= 1
            names[at], weights[at] = basis[b], basic[b]
            count += 1
            total += basic[b]
    for k in range(count):
        weights[k] /= total
        for i in range(into.J.shape[1]):
            into.J[k, i] = columns.J[names[k], i]
        for s in range(into.distributions.shape[1]):
            into.distributions[k, s], into.policies[k, s] = (
                columns.distributions[names[k], s],
                columns.policies[names[k], s],
            )
    return count


@njit
def dual_lower_bound(rows: Rows, c: Floats, g: float, h: Floats) -> float:
    """A lower bound of the average of c (K,) over all policies from all states: g + the least advantage for h (S,).

    It holds for every g and h. What rounding may have done to an advantage is taken off it.
    """
    least = np.inf
    for s in range(len(h)):
        for pair in range(rows.begin[s], rows.begin[s + 1]):
            total, size = c[pair] - g, abs(c[pair]) + abs(g)
            for move in moves_of(rows, pair):
                flow = rows.data[move] * (h[end_of(rows, move)] - h[s])
                total += flow
                size += abs(flow)
            least = min(least, total - (rows.indptr[pair + 1] - rows.indptr[pair] + 4) * EPS * size)
    return g + least - EPS * (abs(g) + abs(least))


@njit
def span_of(h: Floats) -> float:
    """Largest minus least."""
    least = largest = h[0]
    for number in h:
        least, largest = min(least, number), max(largest, number)
    return float(largest - least)


@njit
def all_finite(costs: Floats, thresholds: Floats) -> bool:
    """Whether costs (m + 1, K) and thresholds (m,) are numbers."""
    for i in range(len(costs)):
        if i > 0 and not np.isfinite(thresholds[i - 1]):
            return False
        for pair in range(costs.shape[1]):
            if not np.isfinite(costs[i, pair]):
                return False
    return True


@njit
def gauss_seidel_sweep(indptr: Ints, indices: Ints, data: Floats, b: Floats) -> Floats:
    """One sweep of Gauss and Seidel from zero for a matrix (S, S); diagonals that are not positive count as one."""
    S = len(b)
    x = np.zeros(S)
    for s in range(S):
        total, own = b[s], 1.0
        for entry in range(indptr[s], indptr[s + 1]):
            if indices[entry] == s:
                own = data[entry] if data[entry] > 0.0 else 1.0
            elif indices[entry] < s:
                total -= data[entry] * x[indices[entry]]
        x[s] = total / own
    return x
