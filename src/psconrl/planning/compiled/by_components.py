"""Pricing component by component, exact however nearly a model falls apart; `psconrl.planning.components` says why.

Policies are evaluated by elimination without subtractions, their biases held in parts, as `psconrl.planning.evaluation`
does, for models of some hundred states: states are eliminated in the order of their numbers.
"""

from typing import Any, NamedTuple

import numpy as np

from psconrl._core.checks import Bools, Floats, Ints
from psconrl._core.njit import njit, njit_inline
from psconrl.planning.compiled.elimination import (
    Chain,
    Elimination,
    as_shares,
    collect,
    correct,
    eliminate,
    likely_state,
    residuals,
    visits,
)
from psconrl.planning.compiled.end_components import split
from psconrl.planning.compiled.exact import bounded_advantages
from psconrl.planning.compiled.generation import FAILED, Limits, Question, Reply, generate
from psconrl.planning.compiled.inverses import closed_classes, reroute
from psconrl.planning.compiled.pricing import (
    Columns,
    Mixture,
    Start,
    add_column,
    all_finite,
    decided,
    lagrangian_costs,
    mix,
    room_for,
    sound,
)
from psconrl.planning.compiled.rows import Rows, copy, part_of
from psconrl.planning.tolerances import CLOSE, EPS

EXACT = 400
"""Models of more states are left to methods that choose a better order of elimination."""
_COLUMNS = 128
_ROUNDS = 60
_PARTS = 4
"""In so many parts of falling size a bias is held."""
_UNLIKELY = 1e-2
"""A kept state less likely than this share of the likeliest is exchanged for that one."""
_ROUNDING = 16.0
"""Equations of the bias that fail by more than this many times the bound on rounding are solved once more."""


class Exact(NamedTuple):
    """A way of pricing; J and known are those of the columns.

    costs (m + 1, K); label (S,) and stays (K,): see `end_components.split`; order: the components, the largest first;
    policy (S,): the best so far; c (K,): the costs asked for; start (k, S): policies to begin with; fresh (1,): 1 until
    they were added.
    """

    rows: Rows
    costs: Floats
    columns: Columns
    J: Floats
    known: Ints
    label: Ints
    stays: Bools
    order: Ints
    policy: Ints
    c: Floats
    start: Ints
    fresh: Ints


class Part(NamedTuple):
    """A component as a model of its own: `rows` numbers its states and pairs, ascending in the whole model, anew."""

    rows: Rows
    states: Ints
    pairs: Ints


class Solved(NamedTuple):
    """A chain, from which all states but the kept one were eliminated, and its stationary law (n,).

    fine: whether that could be done.
    """

    chain: Chain
    found: Elimination
    kept: int
    law: Floats
    fine: bool


@njit
def by_components(
    model: Any, true_costs: Floats, levels: Floats, bounds: Any, given: Any, goal: int, into: Any
) -> tuple[int, float, float, float, int]:
    """The best mixture of policies; `planned.Kernel` says what is taken and returned."""
    rows = Rows(model[0], model[1], model[2], model[3])
    limits, begun = Limits(bounds[0], bounds[1]), Start(given[0], given[1], given[2], given[3])
    multipliers, bias, found = into[0], into[1], Mixture(into[2], into[3], into[4], into[5])
    costs = decided(true_costs, levels)
    m, K, S = len(limits.tau), costs.shape[1], len(rows.begin) - 1
    label, stays = np.empty(S, dtype=np.int64), np.empty(K, dtype=np.bool_)
    count = split(rows, label, stays) if all_finite(costs, limits.tau) else 0
    if count == 0:
        return FAILED, np.nan, -np.inf, 0.0, 0
    given_start = sound(rows, begun)
    start, guess = np.empty((len(begun.policies) if given_start else 0, S), dtype=np.int64), np.zeros(m)
    for i in range(m if given_start else 0):
        guess[i] = begun.multipliers[i]
    policy = np.empty(S, dtype=np.int64)
    copy(rows.begin[:S], policy)
    for k in range(len(start)):
        copy(begun.policies[k], start[k])
        copy(begun.policies[k], policy)
    columns, fresh = room_for(_COLUMNS, m, S), np.ones(1, dtype=np.int64)
    order, c = _by_size(label, count), np.empty(K)
    way = Exact(rows, costs, columns, columns.J, columns.known, label, stays, order, policy, c, start, fresh)
    optimum = generate(_price, way, limits, goal, guess, CLOSE)
    for i in range(m):
        multipliers[i] = optimum.multipliers[i]
    used = 0 if optimum.status == FAILED else mix(columns, optimum.master.basis, optimum.master.weights, found)
    for s in range(S):
        bias[s] = 0.0
        for k in range(used):
            if found.policies[k, s] < 0:
                found.policies[k, s] = policy[s]
    return optimum.status, optimum.objective, optimum.bound, 0.0, used


@njit_inline
def _by_size(label: Ints, count: int) -> Ints:
    """The components, those of most states first."""
    size, order = np.zeros(count, dtype=np.int64), np.empty(count, dtype=np.int64)
    for s in range(len(label)):
        if label[s] >= 0:
            size[label[s]] += 1
    for k in range(count):
        at = k
        while at > 0 and size[order[at - 1]] < size[k]:
            order[at] = order[at - 1]
            at -= 1
        order[at] = k
    return order


@njit_inline
def _component(way: Exact, k: int) -> Part:
    """Component k of the model."""
    rows, S, n, count = way.rows, len(way.label), 0, 0
    states, pairs = np.empty(S, dtype=np.int64), np.empty(len(way.stays), dtype=np.int64)
    for s in range(S):
        if way.label[s] == k:
            states[n] = s
            n += 1
            for pair in range(rows.begin[s], rows.begin[s + 1]):
                if way.stays[pair]:
                    pairs[count] = pair
                    count += 1
    return Part(part_of(rows, states[:n], pairs[:count]), states[:n], pairs[:count])


@njit
def _inside(part: Part, policy: Ints) -> Ints:
    """A policy (S,) as pairs of a component, the first where it leaves."""
    own = np.empty(len(part.states), dtype=np.int64)
    for s in range(len(part.states)):
        own[s] = part.rows.begin[s]
        for pair in range(part.rows.begin[s], part.rows.begin[s + 1]):
            if part.pairs[pair] == policy[part.states[s]]:
                own[s] = pair
    return own


@njit
def _add(way: Exact, part: Part, own: Ints, law: Floats) -> None:
    """Add a policy (n,) of a component with its law (n,) as a column, pairs -1 elsewhere, unless it is one."""
    at, policy = way.known[0], np.full(len(way.label), -1)
    for s in range(len(policy)):
        way.columns.laws[at, s] = 0.0
    for s in range(len(own)):
        policy[part.states[s]] = part.pairs[own[s]]
        way.columns.laws[at, part.states[s]] = law[s]
    add_column(way.columns, way.costs, policy)


@njit
def _price(way: Exact, question: Question) -> Reply:
    """The best policy of every component in which a pair is cheap enough; the best of all as a column.

    At first the start policies, too, in the largest component.
    """
    prices, c = question.prices, way.c
    if way.known[0] >= _COLUMNS - 2 - len(way.start):
        return Reply(False, -np.inf, prices, False, prices)
    lagrangian_costs(c, way.costs, question.main, prices)
    least, bound = np.inf, np.inf
    best, policy, law = Part(way.rows, way.label, way.label), way.label, c
    for k in way.order:
        cheapest = np.inf
        for s in range(len(way.label)):
            for pair in range(way.rows.begin[s], way.rows.begin[s + 1]):
                if way.label[s] == k and way.stays[pair]:
                    cheapest = min(cheapest, c[pair])
        if cheapest >= least:
            bound = min(bound, cheapest)
            continue
        part = _component(way, k)
        own, tags = _inside(part, way.policy), np.empty(len(part.pairs))
        for pair in range(len(tags)):
            tags[pair] = c[part.pairs[pair]]
        for j in range(len(way.start) * way.fresh[0]):
            first = _inside(part, way.start[j])
            solved = _evaluated(part.rows, first, tags)
            if solved.fine:
                _add(way, part, first, solved.law)
        way.fresh[0] = 0
        gain, low, its_law = _iterate(part.rows, tags, own)
        if not gain < np.inf:
            return Reply(False, -np.inf, prices, False, prices)
        bound = min(bound, max(low, cheapest))
        for s in range(len(own)):
            way.policy[part.states[s]] = part.pairs[own[s]]
        if gain < least:
            least, best, policy, law = gain, part, own, its_law
    _add(way, best, policy, law)
    for i in range(len(prices)):
        bound -= prices[i] * question.tau[i]
    return Reply(True, bound, prices, False, prices)


@njit_inline
def _iterate(rows: Rows, c: Floats, policy: Ints) -> tuple[float, float, Floats]:
    """Policy iteration for the costs c (pairs,) in a component, from a policy, which is made the best.

    Its gain, inf if that failed, a lower bound of all gains, its law (n,).
    """
    S, amounts, scale = len(policy), np.empty(len(policy)), 0.0
    for pair in range(len(c)):
        scale = max(scale, 2 * abs(c[pair]))
    advantages, noise = np.empty(len(c)), np.empty(len(c))
    wanted, law, least, bound = policy.copy(), np.empty(S), np.inf, -np.inf
    for _ in range(_ROUNDS):
        solved = _evaluated(rows, wanted, c)
        if not solved.fine:
            break
        g = 0.0
        for s in range(S):
            g += solved.law[s] * c[wanted[s]]
        for s in range(S):
            amounts[s] = c[wanted[s]] - g
            if g < least:
                policy[s], law[s] = wanted[s], solved.law[s]
        least = min(least, g)
        bounded_advantages(rows, c, g, _bias_of(solved, amounts, scale), advantages, noise)
        low, changed = np.inf, False
        for s in range(S):
            best, pair_of = np.inf, wanted[s]
            for pair in range(rows.begin[s], rows.begin[s + 1]):
                if not noise[pair] < np.inf:
                    low = -np.inf
                    continue
                low = min(low, advantages[pair] - noise[pair])
                if advantages[pair] < best:
                    best, pair_of = advantages[pair], pair
            if best < -noise[pair_of]:
                changed = changed or wanted[s] != pair_of
                wanted[s] = pair_of
        bound = max(bound, g + low - 4 * EPS * abs(g))
        if not changed or least - bound <= 16 * EPS:
            break
    return least, bound, law


@njit
def _evaluated(rows: Rows, policy: Ints, c: Floats) -> Solved:
    """A policy's chain, with one state kept; a policy of several classes is led to the best for c (pairs,) before."""
    label, classes = closed_classes(rows, policy)
    if classes > 1:
        reroute(rows, policy, c)
        label, classes = closed_classes(rows, policy)
    first = 0
    while label[first] < 0:
        first += 1
    chain, S = _chain_of(rows, policy), len(policy)
    law = np.empty(S)
    for s in range(S):
        law[s] = s
    kept = likely_state(chain, first)
    found = _eliminated(chain, kept, law)
    for attempt in range(3):
        _write_law(chain, found, kept, law)
        likeliest = 0
        for s in range(S):
            likeliest = s if law[s] > law[likeliest] else likeliest
        if attempt == 2 or not law[kept] < _UNLIKELY * law[likeliest]:
            break
        kept = likeliest
        found = _eliminated(chain, kept, law)
    return Solved(chain, found, kept, law, found.fine and classes == 1)


@njit_inline
def _chain_of(rows: Rows, policy: Ints) -> Chain:
    """The chain of a policy (n,)."""
    S, size = len(policy), 0
    indptr = np.zeros(S + 1, dtype=np.int64)
    for s in range(S):
        size += rows.indptr[policy[s] + 1] - rows.indptr[policy[s]]
        indptr[s + 1] = size
    indices, data = np.empty(size, dtype=np.int64), np.empty(size)
    for s in range(S):
        shift = rows.indptr[policy[s]] - indptr[s]
        for entry in range(indptr[s], indptr[s + 1]):
            indices[entry], data[entry] = rows.indices[entry + shift], rows.data[entry + shift]
    return Chain(indptr, indices, data)


@njit
def _eliminated(chain: Chain, kept: int, rank: Floats) -> Elimination:
    """All states but one eliminated, those of low rank (n,) first."""
    S = len(rank)
    order, place = np.empty(S, dtype=np.int64), np.empty(S, dtype=np.int64)
    for s in range(S):
        at = s
        while at > 0 and s != kept and (order[at - 1] == kept or rank[order[at - 1]] > rank[s]):
            order[at] = order[at - 1]
            at -= 1
        order[at] = s
    for i in range(S):
        place[order[i]] = i
    return eliminate(chain, order[: S - 1], place)


@njit_inline
def _write_law(chain: Chain, found: Elimination, kept: int, law: Floats) -> None:
    """The stationary law (n,): expected visits on the way from the kept state back to it."""
    S, place = len(law), found.place
    start = np.zeros(S)
    for entry in range(chain.indptr[kept], chain.indptr[kept + 1]):
        if chain.indices[entry] != kept:
            start[place[chain.indices[entry]]] += chain.data[entry]
    m, x = visits(found, start, False)
    m[S - 1], x[S - 1] = 1.0, 0
    shares = as_shares(m, x, np.zeros(S, dtype=np.int64), 1)
    for s in range(S):
        law[s] = shares[place[s]]


@njit_inline
def _bias_of(solved: Solved, amounts: Floats, scale: float) -> Floats:
    """The bias of amounts (n,) of mean zero and some scale, in parts (_PARTS, n)."""
    chain, found, kept, law, _ = solved
    parts = _collected(chain, found, law, amounts, scale)
    if residuals(chain, amounts, scale, parts).worst > _ROUNDING:
        # A value is that of the likeliest state it leads to, and more: states must lead to likely ones.
        parts = _collected(chain, _eliminated(chain, kept, law), law, amounts, scale)
    return parts


@njit
def _collected(chain: Chain, found: Elimination, law: Floats, amounts: Floats, scale: float) -> Floats:
    """What is collected of amounts (n,) on the way to the kept state, after one step of refinement."""
    S = len(law)
    held, parts, own = np.zeros((_PARTS, S)), np.empty((_PARTS, S)), np.empty(S - 1)
    for i in range(S - 1):
        own[i] = amounts[found.order[i]]
    collect(found, own, held)
    for attempt in range(2):
        for s in range(S):
            for level in range(_PARTS):
                parts[level, s] = held[level, found.place[s]]
        if attempt == 1:
            break
        left, mean = residuals(chain, amounts, scale, parts).left, 0.0
        for s in range(S):
            mean += law[s] * left[s] if law[s] > 0.0 else 0.0
        for i in range(S - 1):
            # What the average is rounded by cannot be removed: recurrent states get the same of it.
            s = found.order[i]
            own[i] = left[s] - mean if law[s] > 0.0 else left[s]
        correct(found, own, held)
    return parts


@njit
def law_from(rows: Rows, policy: Floats, s: int, law: Floats) -> bool:
    """Fill in the stationary law (S,) of the closed class of a policy (K,) that a state is in; False if it is in none.

    policy: the probability of each pair, or any share of it.
    """
    S = len(law)
    number, states = np.full(S, -1), np.empty(S, dtype=np.int64)
    number[s], states[0], n = 0, s, 1
    room, looked = 0, 0
    while looked < n:
        for pair in range(rows.begin[states[looked]], rows.begin[states[looked] + 1]):
            if policy[pair] > 0.0:
                room += rows.indptr[pair + 1] - rows.indptr[pair]
                for move in range(rows.indptr[pair], rows.indptr[pair + 1]):
                    x = rows.indices[move]
                    if number[x] < 0 and rows.data[move] > 0.0:
                        number[x], states[n] = n, x
                        n += 1
        looked += 1
    indptr, indices, data = np.zeros(n + 1, dtype=np.int64), np.empty(room, dtype=np.int64), np.empty(room)
    size, rank = 0, np.empty(n)
    for i in range(n):
        rank[i] = states[i]
        for pair in range(rows.begin[states[i]], rows.begin[states[i] + 1]):
            for move in range(rows.indptr[pair], rows.indptr[pair + 1] if policy[pair] > 0.0 else 0):
                if rows.data[move] > 0.0:
                    indices[size], data[size] = number[rows.indices[move]], policy[pair] * rows.data[move]
                    size += 1
        indptr[i + 1] = size
    chain = Chain(indptr, indices[:size], data[:size])
    found = _eliminated(chain, 0, rank)
    if found.fine:
        _write_law(chain, found, 0, rank)
    for x in range(S):
        law[x] = rank[number[x]] if found.fine and number[x] >= 0 else 0.0
    return found.fine
