"""Deterministic policies of a model by rows, evaluated one after another by an inverse.

With a reference state r, the gain g and the bias h (h(r) = 0) of a policy with one closed class solve

    h(s) - sum_x p(x | s, pi(s)) h(x) + g = c(s, pi(s))       for every s,

that is M y = c with y = h but y(r) = g, and M = I - P with ones in column r. Row r of the inverse of M is the
stationary law. Another action in one state changes one row of M, so the inverse follows by a rank-one update.
"""

from typing import NamedTuple

import numpy as np

from psconrl._core.checks import Bools, Floats, Ints
from psconrl._core.njit import njit, njit_inline
from psconrl.planning.compiled.rows import Rows, end_of, moves_of, row_times
from psconrl.planning.compiled.shortest_path import moves_into

HUGE = 1e11
"""Numbers above this in an inverse, or in a bias, come from a policy whose chain falls apart."""

_LARGE = 1e7
"""Numbers above this in an inverse may come from a bad reference state; then another one is tried."""

_NARROW = 1e-13
"""A rank-one update that shrinks the determinant below this share has no correct digits: invert anew."""

_RESIDUAL = 1e-13
"""Errors in the equations of the bias that are not worth a correction."""

_NOTHING = 1e-16
"""Updates of the inverse by less than this are left out."""

_ELIMINATED = 300
"""Closed classes up to this size are eliminated to compare their averages."""

MOVES = 256
"""Larger ones are compared after so many moves."""

_LIKELY = np.array([0.3, 1e-2, 1e-4, 1e-6, 0.0])
"""Rerouted states prefer moves at least this likely, the first that gives a way."""


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
def new_inverse(policy: Ints, r: int) -> Inverse:
    """Room for the inverse of a policy, which is not computed yet."""
    S = len(policy)
    reference = np.empty(1, dtype=np.int64)
    reference[0] = r
    return Inverse(policy, np.empty((S, S)), reference)


@njit
def copy_inverse(chain: Inverse) -> Inverse:
    """A copy that can be changed."""
    return Inverse(chain.policy.copy(), chain.inverse.copy(), chain.reference.copy())


@njit
def switch_policy(rows: Rows, chain: Inverse, wanted: Ints) -> int:
    """Make a policy another one, and its inverse that of the other; -1 if this succeeded.

    Else a state in which the new action cost the inverse its digits.
    """
    return _switch(rows, chain, wanted, _LARGE)


@njit
def _switch(rows: Rows, chain: Inverse, wanted: Ints, limit: float) -> int:
    """The same with a limit of the numbers in the inverse; pair -1 leads to the reference."""
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
    if not abs(share) > _NARROW * (1.0 + size):
        return False
    largest, most = largest_size(v), largest_size(inverse[:, s])
    if not largest * most < limit * abs(share):
        return False
    least = _NOTHING * abs(share) / largest if largest > 0.0 else np.inf
    for i in range(S):
        # Most states hardly ever attractor_policy to s, and rounding is corrected anyway.
        if abs(inverse[i, s]) > least:
            f = inverse[i, s] / share
            for j in range(S):
                inverse[i, j] -= f * v[j]
    return True


@njit_inline
def _invert(rows: Rows, chain: Inverse, nowhere: Ints, limit: float) -> int:
    """Fill in the inverse of M, from that of a chain in which all states attractor_policy to r; -1 if this succeeded.

    Else a state that completed a closed class without r. nowhere (S,) is overwritten.
    """
    S, r = len(nowhere), chain.reference[0]
    for s in range(S):
        for j in range(S):
            chain.inverse[s, j] = 0.0
        chain.inverse[s, s] = 1.0
        chain.inverse[s, r] = 1.0 if s == r else -1.0
        nowhere[s] = -1
    return _switch(rows, Inverse(nowhere, chain.inverse, chain.reference), chain.policy, limit)


@njit
def refactor(rows: Rows, chain: Inverse, c: Floats) -> bool:
    """Compute the inverse of a policy, which is rerouted for c (K,) if it has several classes; False if that failed."""
    lost, nowhere = 0, np.empty(len(chain.policy), dtype=np.int64)
    for attempt in range(4):
        if attempt == 2:
            member, attracted = make_unichain(rows, chain.policy, c)
            chain.reference[0] = member
            if not attracted:
                break
        elif attempt > 0:  # r was not in the class: take a state that is
            chain.reference[0] = lost
        lost = _invert(rows, chain, nowhere, HUGE if attempt % 2 else _LARGE)
        if lost < 0:
            break
    return lost < 0


@njit
def stationary_of(rows: Rows, chain: Inverse, mu: Floats) -> None:
    """Fill in the stationary law (S,): row r of the inverse, corrected once, without rounding below zero."""
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
    if largest > _RESIDUAL:
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
def closed_classes(rows: Rows, policy: Ints) -> tuple[Ints, int]:
    """For each state the number of its closed class, -1 if it is in none; and how many there are (Tarjan)."""
    S = len(policy)
    found = np.full(S, -1)
    low = np.zeros(S, dtype=np.int64)
    component = np.full(S, -1)
    leaves = np.zeros(S, dtype=np.bool_)
    stack = np.empty(S, dtype=np.int64)
    call = np.empty(S, dtype=np.int64)
    at = np.empty(S, dtype=np.int64)
    size, order, components, classes = 0, 0, 0, 0
    label = np.full(S, -1)
    for root in range(S):
        if found[root] >= 0:
            continue
        depth = -1
        enter = root
        while True:
            if enter >= 0:
                found[enter] = low[enter] = order
                order += 1
                stack[size] = enter
                size += 1
                at[enter] = rows.indptr[policy[enter]]
                depth += 1
                call[depth] = enter
                enter = -1
            s = call[depth]
            if at[s] < rows.indptr[policy[s] + 1]:
                x = rows.indices[at[s]]
                at[s] += 1
                if found[x] < 0:
                    enter = x
                elif component[x] < 0:
                    low[s] = min(low[s], found[x])
                else:
                    leaves[s] = True
                continue
            depth -= 1
            if low[s] == found[s]:
                first = size
                leaving = False
                while True:
                    first -= 1
                    component[stack[first]] = components
                    leaving = leaving or leaves[stack[first]]
                    if stack[first] == s:
                        break
                if not leaving:
                    for i in range(first, size):
                        label[stack[i]] = classes
                    classes += 1
                size = first
                components += 1
                if depth >= 0:
                    leaves[call[depth]] = True
            elif depth >= 0:
                low[call[depth]] = min(low[call[depth]], low[s])
            if depth < 0:
                break
    return label, classes


@njit
def make_unichain(rows: Rows, policy: Ints, c: Floats) -> tuple[int, bool]:
    """Make a policy's closed class that seems best for c (K,) its only one, by leading the rest to it.

    Changes the policy in place; a state of the class, and whether all others can be attracted to it.
    """
    S = len(policy)
    label, classes = closed_classes(rows, policy)
    best, least = 0, np.inf
    for k in range(classes):
        average = _class_average(rows, policy, k, label, c)
        if average < least:
            best, least = k, average
    attracted = np.zeros(S, dtype=np.bool_)
    member = 0
    for s in range(S):
        attracted[s] = label[s] == best
        if attracted[s]:
            member = s
    return member, attractor_policy(rows, policy, attracted)


@njit
def attractor_policy(rows: Rows, policy: Ints, attracted: Bools) -> bool:
    """Change a policy, in place, so that all states lead to those attracted already; whether that is possible.

    States are attracted along likely moves, and by the pair that they take already if that will do.
    """
    S = len(policy)
    into = moves_into(rows, 0.0)
    likely, queue = np.zeros(len(rows.indptr) - 1), np.empty(S, dtype=np.int64)
    size = 0
    for s in range(S):
        if attracted[s]:
            queue[size] = s
            size += 1
    looked = 0
    for level in range(len(_LIKELY)):
        if level > 0:
            # What was too unlikely before may do now.
            for s in range(S):
                for pair in range(rows.begin[s], rows.begin[s + 1]):
                    if not attracted[s] and likely[pair] > _LIKELY[level]:
                        policy[s] = policy[s] if likely[policy[s]] > _LIKELY[level] else pair
                        attracted[s] = True
                        queue[size] = s
                        size += 1
        while looked < size:
            x = queue[looked]
            looked += 1
            for k in range(into.begin[x], into.begin[x + 1]):
                pair = into.pair_of[into.move[k]]
                s = into.state_of[pair]
                likely[pair] += rows.data[into.move[k]]
                if not attracted[s] and likely[pair] > _LIKELY[level]:
                    policy[s] = policy[s] if likely[policy[s]] > _LIKELY[level] else pair
                    attracted[s] = True
                    queue[size] = s
                    size += 1
    return size == S


@njit
def _class_average(rows: Rows, policy: Ints, k: int, label: Ints, c: Floats) -> float:
    """The average of c on the closed class k, by elimination without subtractions; roughly, if the class is large."""
    S = len(policy)
    place, size = np.empty(S, dtype=np.int64), 0
    for s in range(S):
        if label[s] == k:
            place[s] = size
            size += 1
    if size > _ELIMINATED:
        return _rough_average(rows, policy, k, label, c)
    P, collected, time = np.zeros((size, size)), np.empty(size), np.ones(size)
    for s in range(S):
        if label[s] == k:
            pair = policy[s]
            collected[place[s]] = c[pair]
            for move in moves_of(rows, pair):
                P[place[s], place[end_of(rows, move)]] += rows.data[move]
    for last in range(size - 1, 0, -1):
        out = 0.0
        for j in range(last):
            out += P[last, j]
        for i in range(last):
            if P[i, last] > 0.0:
                visits = P[i, last] / out
                for j in range(last):
                    P[i, j] += visits * P[last, j]
                collected[i] += visits * collected[last]
                time[i] += visits * time[last]
    return collected[0] / time[0]


@njit
def _rough_average(rows: Rows, policy: Ints, k: int, label: Ints, c: Floats) -> float:
    """The average of c on the closed class k after some hundred moves from anywhere: enough to choose a class by."""
    later = expected_costs_later(rows, policy, c, label, k)
    total, size = 0.0, 0
    for s in range(len(policy)):
        if label[s] == k:
            total += later[s]
            size += 1
    return total / size


@njit
def expected_costs_later(rows: Rows, policy: Ints, c: Floats, label: Ints, k: int) -> Floats:
    """What a step of a policy costs (S,), by c (K,), some hundred moves after each state; lazy ones, so cycles mix.

    Of states with the label k (S,) alone, which do not leave it.
    """
    S = len(policy)
    mean, after = np.empty(S), np.empty(S)
    for s in range(S):
        mean[s] = c[policy[s]]
    for _ in range(MOVES):
        for s in range(S):
            if label[s] == k:
                after[s] = mean[s]
                for move in moves_of(rows, policy[s]):
                    after[s] += 0.5 * rows.data[move] * (mean[end_of(rows, move)] - mean[s])
        mean, after = after, mean
    return mean
