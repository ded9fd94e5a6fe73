"""All deterministic policies of a small model, counted through: what is left where biases have no digits.

A policy stays in a closed class in the end, and of all policies that have it those differ only elsewhere. So each class
counts once, with the actions in it and its stationary law, by elimination without subtractions.
"""

import numpy as np

from psconrl._core.checks import Bools, Floats, Ints
from psconrl._core.njit import njit
from psconrl.planning.compiled.elimination import Chain, as_shares, eliminate, visits
from psconrl.planning.compiled.rows import Rows, closed_class, copy, end_of, moves_of


@njit
def closed_laws(rows: Rows, choices: Ints, begin: Ints) -> tuple[Ints, Floats]:
    """Policies (n, S) and laws (n, S), one for each closed class of the policies made of some pairs.

    choices: the pairs of state s are choices[begin[s] : begin[s + 1]]. Outside its class a policy has the first ones.
    """
    S = len(begin) - 1
    at, policy = np.zeros(S, dtype=np.int64), np.empty(S, dtype=np.int64)
    policies, laws = np.empty((64, S), dtype=np.int64), np.empty((64, S))
    inside, back = np.zeros(S, dtype=np.bool_), np.zeros(S, dtype=np.bool_)
    count, s = 0, 0
    while s < S:
        for x in range(S):
            policy[x] = choices[begin[x] + at[x]]
        for x in range(S):
            if _is_new(rows, policy, x, at, inside, back):
                if count == len(laws):
                    policies, laws = _longer(policies, laws)
                copy(policy, policies[count])
                _write_law(rows, policy, inside, laws[count])
                count += 1
        s = 0
        while s < S and at[s] == begin[s + 1] - begin[s] - 1:
            at[s] = 0
            s += 1
        if s < S:
            at[s] += 1
    return policies[:count], laws[:count]


@njit
def _is_new(rows: Rows, policy: Ints, x: int, at: Ints, inside: Bools, back: Bools) -> bool:
    """Whether x is the first state of a closed class, written to `inside`, and all others have their first choice."""
    closed_class(rows, policy, x, inside)
    for s in range(len(policy)):
        if inside[s]:
            if s < x:
                return False
            closed_class(rows, policy, s, back)
            if not back[x]:
                return False
        elif at[s] > 0:
            return False
    return True


@njit
def _write_law(rows: Rows, policy: Ints, inside: Bools, law: Floats) -> None:
    """The stationary law (S,) of a closed class of a policy."""
    S = len(policy)
    number, states = np.full(S, -1), np.empty(S, dtype=np.int64)
    n = moves = 0
    for s in range(S):
        law[s] = 0.0
        if inside[s]:
            number[s], states[n] = n, s
            n += 1
            moves += rows.indptr[policy[s] + 1] - rows.indptr[policy[s]]
    indptr, indices, data = np.zeros(n + 1, dtype=np.int64), np.empty(moves, dtype=np.int64), np.empty(moves)
    filled, start = 0, np.zeros(n)
    for i in range(n):
        for move in moves_of(rows, policy[states[i]]):
            if rows.data[move] > 0.0:
                indices[filled], data[filled] = number[end_of(rows, move)], rows.data[move]
                if i == n - 1 and indices[filled] < i:
                    start[indices[filled]] += data[filled]
                filled += 1
        indptr[i + 1] = filled
    every = np.arange(n)
    found = eliminate(Chain(indptr, indices[:filled], data[:filled]), every[: n - 1], every)
    m, x = visits(found, start, False)
    m[n - 1], x[n - 1] = 1.0, 0
    shares = as_shares(m, x, np.zeros(n, dtype=np.int64), 1)
    for i in range(n):
        law[states[i]] = shares[i]


@njit
def _longer(policies: Ints, laws: Floats) -> tuple[Ints, Floats]:
    n, S = laws.shape
    more, longer = np.empty((2 * n, S), dtype=np.int64), np.empty((2 * n, S))
    for k in range(n):
        for s in range(S):
            more[k, s], longer[k, s] = policies[k, s], laws[k, s]
    return more, longer
