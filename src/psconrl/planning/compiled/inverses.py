"""Deterministic policies of a model by rows, evaluated one after another by an inverse.

With a reference state r, the gain g and the bias h (h(r) = 0) of a policy with one closed class solve

    h(s) - sum_x p(x | s, pi(s)) h(x) + g = c(s, pi(s))       for every s,

that is M y = c with y = h but y(r) = g, and M = I - P with ones in column r. Row r of the inverse of M is the
stationary distribution. Another action in one state changes one row of M, so the inverse follows by a rank-one update.
"""

from typing import NamedTuple

import numpy as np

from psconrl._core.checks import Floats, Ints
from psconrl._core.njit import njit, njit_inline
from psconrl.planning.compiled.attractor import attractor_policy
from psconrl.planning.compiled.rows import Rows, closed_class, end_of, moves_of, row_times
from psconrl.planning.tolerances import HUGE, LARGE, PIVOT

MOVES = 256
"""Steps: closed classes are compared by what is paid so many moves later."""


class Inverse(NamedTuple):
    """A policy (S,) of pairs, the inverse (S, S) of its M, and the reference state (1,)."""

    policy: Ints
    inverse: Floats
    reference: Ints


@njit_inline
def largest_size(v: Floats) -> float:
    """The largest absolute number, 0 of none: four at once, as `row_times`."""
    whole = len(v) - len(v) % 4
    a, b, c, d = 0.0, 0.0, 0.0, 0.0
    for j in range(0, whole, 4):
        a, b = max(a, abs(v[j])), max(b, abs(v[j + 1]))
        c, d = max(c, abs(v[j + 2])), max(d, abs(v[j + 3]))
    for j in range(whole, len(v)):
        a = max(a, abs(v[j]))
    return max(max(a, b), max(c, d))


@njit
def switch_policy(rows: Rows, chain: Inverse, wanted: Ints, limit: float = LARGE) -> int:
    """Make a policy another one, and its inverse that of the other; -1 if this succeeded.

    Else a state in which the new action cost the inverse its digits, or made numbers larger than the limit. Pair -1
    leads to the reference.
    """
    v = np.empty(len(wanted))
    lost = -1
    for s in range(len(wanted)):
        if chain.policy[s] != wanted[s]:
            old, chain.policy[s] = chain.policy[s], wanted[s]
            if lost < 0 and not _sherman_morrison(rows, chain, v, s, old, limit):
                lost = s
    return lost


@njit_inline
def _sherman_morrison(rows: Rows, chain: Inverse, v: Floats, s: int, old: int, limit: float) -> bool:
    """Update the inverse for another pair in state s; v (S,) is overwritten. False if that lost its digits."""
    inverse, r, new = chain.inverse, chain.reference[0], chain.policy[s]
    S = len(v)
    for j in range(S):
        v[j] = 0.0
    # The way out is summed: 1 - p(s | s) would lose digits where a state is hardly ever left.
    size, out = 0.0, 0.0
    if old < 0:
        size, out = 1.0, -1.0
    for turned in range(1 if old < 0 else 0, 2):
        pair = new if turned else old
        for move in moves_of(rows, pair):
            x = end_of(rows, move)
            if x != s:
                p = -rows.data[move] if turned else rows.data[move]
                size += rows.data[move]
                out -= p
                if x != r:  # column r holds ones and does not change
                    for j in range(S):
                        v[j] += p * inverse[x, j]
    if s != r:
        for j in range(S):
            v[j] += out * inverse[s, j]
    share = 1.0 + v[s]
    if not abs(share) > PIVOT * (1.0 + size):
        return False
    largest, most = largest_size(v), largest_size(inverse[:, s])
    if not largest * most < limit * abs(share):
        return False
    least = 1e-3 * PIVOT * abs(share) / largest if largest > 0.0 else np.inf
    for i in range(S):
        # Most states hardly ever lead to s, and rounding is corrected anyway.
        if abs(inverse[i, s]) > least:
            f = inverse[i, s] / share
            for j in range(S):
                inverse[i, j] -= f * v[j]
    return True


@njit_inline
def _invert(rows: Rows, chain: Inverse, nowhere: Ints, limit: float) -> int:
    """Fill in the inverse of M, from that of a chain in which all states lead to r; -1 if this succeeded.

    Else a state that completed a closed class without r. nowhere (S,) is overwritten.
    """
    S, r = len(nowhere), chain.reference[0]
    for s in range(S):
        for j in range(S):
            chain.inverse[s, j] = 0.0
        chain.inverse[s, s] = 1.0
        chain.inverse[s, r] = 1.0 if s == r else -1.0
        nowhere[s] = -1
    return switch_policy(rows, Inverse(nowhere, chain.inverse, chain.reference), chain.policy, limit)


@njit
def refactor(rows: Rows, chain: Inverse, c: Floats) -> bool:
    """Compute the inverse of a policy, made unichain for the costs c (K,) if need be; False if that failed."""
    lost, nowhere = 0, np.empty(len(chain.policy), dtype=np.int64)
    for attempt in range(4):
        if attempt == 2:
            member, attracted = make_unichain(rows, chain.policy, c)
            chain.reference[0] = member
            if not attracted:
                break
        elif attempt > 0:  # r was not in the class: take a state that is
            chain.reference[0] = lost
        lost = _invert(rows, chain, nowhere, HUGE if attempt % 2 else LARGE)
        if lost < 0:
            break
    return lost < 0


@njit
def stationary_of(rows: Rows, chain: Inverse, mu: Floats) -> None:
    """Fill in the stationary distribution (S,): row r of the inverse, corrected once, without rounding below zero."""
    S, r = len(mu), chain.reference[0]
    residual = np.zeros(S)
    total = 0.0
    for s in range(S):
        mu[s] = chain.inverse[r, s]
        total += mu[s]
    for s in range(S):
        pair = chain.policy[s]
        for move in moves_of(rows, pair):
            x = end_of(rows, move)
            if x != s:
                flow = mu[s] * rows.data[move]
                residual[s] -= flow
                residual[x] += flow
    residual[r] = 1.0 - total
    for s in range(S):
        left = residual[s]
        if left != 0.0:
            for j in range(S):
                mu[j] += left * chain.inverse[s, j]
    total = 0.0
    for s in range(S):
        mu[s] = max(mu[s], 0.0)
        total += mu[s]
    for s in range(S):
        mu[s] /= total


@njit
def bias_of(rows: Rows, chain: Inverse, c: Floats, h: Floats) -> float:
    """The gain of the policy for the costs c (K,), and its bias to h; corrected once if need be."""
    S = len(h)
    rhs = np.empty(S)
    for s in range(S):
        h[s] = 0.0
        rhs[s] = c[chain.policy[s]]
    g = _add_solution(chain.inverse, rhs, chain.reference[0], h)
    largest = 0.0
    for s in range(S):
        pair = chain.policy[s]
        left = c[pair] - g
        for move in moves_of(rows, pair):
            left += rows.data[move] * (h[end_of(rows, move)] - h[s])
        rhs[s] = left
        largest = max(largest, abs(left))
    if largest > PIVOT:
        g += _add_solution(chain.inverse, rhs, chain.reference[0], h)
    return g


@njit
def _add_solution(inverse: Floats, rhs: Floats, r: int, h: Floats) -> float:
    """Add the bias for a right-hand side to h; its gain."""
    S = len(rhs)
    g = 0.0
    for s in range(S):
        total = row_times(inverse, s, rhs)
        if s == r:
            g = total
        else:
            h[s] += total
    return g


@njit
def make_unichain(rows: Rows, policy: Ints, c: Floats) -> tuple[int, bool]:
    """Change a policy, in place, so that all states lead to a closed class where the costs c (K,) seem least.

    A state of the class, and whether all others are attracted to it. The class is one into which the policy leads from
    where a step costs least some hundred moves later; lazy moves, so that cycles mix.
    """
    S = len(policy)
    mean, after, inside = np.empty(S), np.empty(S), np.empty(S, dtype=np.bool_)
    for s in range(S):
        mean[s] = c[policy[s]]
    for _ in range(MOVES):
        for s in range(S):
            after[s] = mean[s]
            for move in moves_of(rows, policy[s]):
                after[s] += 0.5 * rows.data[move] * (mean[end_of(rows, move)] - mean[s])
        mean, after = after, mean
    best = 0
    for s in range(S):
        best = s if mean[s] < mean[best] else best
    member = closed_class(rows, policy, best, 0.0, inside)
    return member, attractor_policy(rows, policy, inside)
