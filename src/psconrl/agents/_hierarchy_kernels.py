"""The learned prior in compiled code: scoring what was seen since the last plan, and drawing a model.

Counts are chains of entries, see `_counts_kernels`. `counted` (used,) are the numbers of the entries that were scored
already, so what is new is what exceeds them. In the model that is drawn, state 0 stands for all states never seen, if
there is one, and the seen states follow in the order of their numbers.
"""

import math
from typing import NamedTuple

import numpy as np

from psconrl._core.checks import Bools, Floats, Ints
from psconrl._core.njit import njit, njit_inline
from psconrl.agents._posterior_kernels import STICKS_UP_TO, normalise
from psconrl.agents._random_kernels import State, exponential, gamma, mix, uniform
from psconrl.planning.compiled.rows import Rows, longer

FACTORS = 16
"""How many factors are multiplied before a logarithm is taken: each is above 1e-18 and below 1e18."""

GUESSES = 8
"""Next states that are drawn for a pair that leads anywhere: so many that none of them is all that it promises."""

LEAST = 1e-300
"""The least weight of a concentration: what was nearly excluded may come back."""


class Chains(NamedTuple):
    """Counts of moves, see `_counts_kernels`."""

    head: Ints
    link: Ints
    target: Ints
    number: Ints


class Apart(NamedTuple):
    """What was seen, if each pair is of its own kind: tried (R,), the pairs s * A + a that it is known of.

    weights (R, theta): the posterior of the theta of each; evidence: the logarithm of how likely all of it is.
    """

    tried: Ints
    weights: Floats
    evidence: float


@njit
def sound(evidence: Floats, apart: Apart, counted: Ints, chains: Chains, used: int, fresh: Bools) -> bool:
    """Whether evidence of both kinds and the numbers that it is of can be from the past of these counts.

    Marks in `fresh` (S * A,) the pairs of which something was counted since.
    """
    fine = len(counted) <= used and np.isfinite(apart.evidence)
    for entry in range(min(len(counted), used)):
        fine = fine and 1 <= counted[entry] <= chains.number[entry]
    for log in evidence.flat:
        fine = fine and np.isfinite(log)
    for r in range(len(apart.weights)):
        for g in range(apart.weights.shape[1]):  # without branches: this is most of what is looked at
            fine &= (apart.weights[r, g] > 0.0) & (apart.weights[r, g] <= 1.0)
    known = np.zeros(len(chains.head), dtype=np.bool_)
    for row in apart.tried:
        if not 0 <= row < len(known) or known[row]:
            return False
        known[row] = True
    for row in range(len(known)):
        counts = new = False
        entry = chains.head[row]
        while entry >= 0:
            counts = counts or entry < len(counted)
            new = new or entry >= len(counted) or chains.number[entry] > counted[entry]
            entry = chains.link[entry]
        fine = fine and known[row] == counts
        fresh[row] = new
    return fine


@njit
def look(seen: Bools, chains: Chains, used: int, state: int) -> int:
    """Mark the states left, entered, or that in which the agent is now in `seen` (S,); how many are seen."""
    S = len(seen)
    A = len(chains.head) // S
    seen[state] = True
    for entry in range(used):
        seen[chains.target[entry]] = True
    n = 0
    for s in range(S):
        for row in range(s * A, s * A + A):
            seen[s] = seen[s] or chains.head[row] >= 0
        n += seen[s]
    return n


class Product(NamedTuple):
    """Factors of a likelihood whose logarithm is not yet taken: above (theta, eps), below (theta,), how many (1,).

    alpha (theta, eps): the parameters of the next state that is looked at.
    """

    alpha: Floats
    above: Floats
    below: Floats
    factors: Ints


@njit
def score(
    evidence: Floats, theta: Floats, eps: Floats, chains: Chains, counted: Ints, fresh: Bools, seen: Bools, K: int
) -> None:
    """Add to evidence (theta, eps) the logarithm of how likely it made what is new, in the pairs `fresh` (S * A,).

    seen (S,), K: the states seen before, and the number of states that were thought possible. Supports of other
    actions are those before, too.
    """
    S = len(seen)
    A = len(chains.head) // S
    alpha, above, below = np.empty(evidence.shape), np.ones(evidence.shape), np.ones(len(theta))
    product = Product(alpha, above, below, np.zeros(1, dtype=np.int64))
    common, own = np.zeros(S, dtype=np.int64), np.zeros(A, dtype=np.int64)
    for s in range(S):
        news = False
        for row in range(s * A, s * A + A):
            news = news or fresh[row]
        if not news:
            continue
        total = 0
        for a in range(A):
            own[a] = 0
            entry = chains.head[s * A + a]
            while entry >= 0:
                if entry < len(counted):
                    common[chains.target[entry]] += 1
                    own[a] += 1
                entry = chains.link[entry]
            total += own[a]
        for a in range(A):
            if fresh[s * A + a]:
                others = total - own[a]
                _score_row(evidence, theta, eps, chains, counted, seen, K, s * A + a, common, others, product)
        for row in range(s * A, s * A + A):
            entry = chains.head[row]
            while entry >= 0:
                common[chains.target[entry]] = 0
                entry = chains.link[entry]
    _settle(evidence, product)


@njit_inline
def _score_row(
    evidence: Floats,
    theta: Floats,
    eps: Floats,
    chains: Chains,
    counted: Ints,
    seen: Bools,
    K: int,
    row: int,
    common: Ints,
    others: int,
    product: Product,
) -> None:
    """The same for one row; common (S,): how many actions of its state led to each state, others: of other actions."""
    alpha, above, below = product.alpha, product.above, product.below
    N = 0
    entry = chains.head[row]
    while entry >= 0:
        N += counted[entry] if entry < len(counted) else 0
        entry = chains.link[entry]
    entry = chains.head[row]
    while entry >= 0:
        n = counted[entry] if entry < len(counted) else 0
        x = chains.target[entry]
        shared = 1.0 / K
        if others > 0:
            shared = (common[x] - (n > 0)) / others if seen[x] else 0.0
        if n < chains.number[entry]:
            for e in range(len(eps)):
                base = (1.0 - eps[e]) * shared + eps[e] / K
                for g in range(len(theta)):
                    alpha[g, e] = theta[g] * base
        for _ in range(n, chains.number[entry]):
            for g in range(len(theta)):
                below[g] *= theta[g] + N
                for e in range(len(eps)):
                    above[g, e] *= alpha[g, e] + n
            n += 1
            N += 1
            product.factors[0] += 1
            if product.factors[0] == FACTORS:
                _settle(evidence, product)
        entry = chains.link[entry]


@njit
def _settle(evidence: Floats, product: Product) -> None:
    """Add the logarithms of the products to the evidence, and start them anew."""
    above, below = product.above, product.below
    for g in range(len(below)):
        for e in range(above.shape[1]):
            evidence[g, e] += math.log(above[g, e] / below[g])
            above[g, e] = 1.0
        below[g] = 1.0
    product.factors[0] = 0


@njit
def score_apart(apart: Apart, theta: Floats, chains: Chains, counted: Ints, fresh: Bools, K: int) -> Apart:
    """The same if each pair is of its own kind, with a theta of its own and nothing shared; `apart` stays as it is."""
    before = R = len(apart.tried)
    slot = np.full(len(fresh), -1)
    for r in range(before):
        slot[apart.tried[r]] = r
    for row in range(len(fresh)):
        if fresh[row] and slot[row] < 0:
            slot[row] = R
            R += 1
    tried, evidence = np.empty(R, dtype=np.int64), apart.evidence
    weights, alpha = np.empty((R, len(theta))), np.empty(len(theta))
    for r in range(R):
        for g in range(len(theta)):
            weights[r, g] = apart.weights[r, g] if r < before else 1.0 / len(theta)
    for r in range(before):
        tried[r] = apart.tried[r]
    for g in range(len(theta)):
        alpha[g] = theta[g] / K
    for row in range(len(fresh)):
        if not fresh[row]:
            continue
        tried[slot[row]] = row
        N = 0
        entry = chains.head[row]
        while entry >= 0:
            N += counted[entry] if entry < len(counted) else 0
            entry = chains.link[entry]
        own, factors = weights[slot[row]], 0
        entry = chains.head[row]
        while entry >= 0:
            for n in range(counted[entry] if entry < len(counted) else 0, chains.number[entry]):
                for g in range(len(theta)):
                    own[g] *= (alpha[g] + n) / (theta[g] + N)
                N += 1
                factors += 1
                if factors == FACTORS:
                    evidence += _normalised(own)
                    factors = 0
            entry = chains.link[entry]
        evidence += _normalised(own)
    return Apart(tried, weights, evidence)


@njit_inline
def _normalised(weights: Floats) -> float:
    """Make the sum of weights one, and none zero for ever; the logarithm of what it was."""
    total = weights.sum()
    for g in range(len(weights)):
        weights[g] = max(weights[g] / total, LEAST)
    return math.log(total)


@njit
def log_mean(evidence: Floats) -> float:
    """The logarithm of the mean of what these are the logarithms of."""
    largest = evidence.max()
    total = 0.0
    for log in evidence.flat:
        total += math.exp(log - largest)
    return largest + math.log(total / evidence.size)


@njit
def choose(evidence: Floats, state: State) -> int:
    """One of the hyperparameters (n,) with the probability that its evidence gives it, all alike before."""
    weights = np.exp(evidence - evidence.max())
    return _one_of(weights, state)


@njit
def _one_of(weights: Floats, state: State) -> int:
    """A place with the probability that its weight gives it."""
    left = weights.sum() * uniform(state)
    last = 0
    for k in range(len(weights)):
        if weights[k] > 0.0:
            last = k
            left -= weights[k]
            if left < 0.0:
                return last
    return last


@njit
def hyperparameters(
    evidence: Floats, apart: Apart, theta: Floats, eps: Floats, states: Ints, available: Bools, stream: State
) -> tuple[Floats, float]:
    """The theta (S * A,) of the pairs of `states`, and eps: the same for all, or each of its own kind, alike before."""
    A = available.shape[1]
    own = np.zeros(available.size)
    odds = apart.evidence - log_mean(evidence)
    if uniform(stream) * (1.0 + math.exp(max(min(-odds, 500.0), -500.0))) >= 1.0:
        g, e = divmod(choose(evidence.ravel(), stream), len(eps))
        own[:] = theta[g]
        return own, eps[e]
    for r in range(len(apart.tried)):
        own[apart.tried[r]] = theta[_one_of(apart.weights[r], stream)]
    for s in states:
        if s >= 0:
            for a in range(A):
                if available[s, a] and own[s * A + a] == 0.0:
                    own[s * A + a] = theta[int(uniform(stream) * len(theta))]
    return own, 1.0


@njit
def sample(
    evidence: Floats,
    apart: Apart,
    theta: Floats,
    eps: Floats,
    chains: Chains,
    used: int,
    counted: Ints,
    seen: Bools,
    state: int,
    available: Bools,
    endless: bool,
    free: bool,
    stream: State,
    cut: float,
) -> tuple[tuple[Ints, Ints, Ints, Floats], Ints, Ints, tuple[Ints, Floats, float]]:
    """Score what is new, mark what is seen, and draw hyperparameters and a model of the states seen.

    evidence and seen are brought up to date; if they are not from the past of these counts, they begin anew.
    available (S, A): the actions that there are. endless: there may be states beyond the S that are numbered.
    free: pairs that were never tried are thought to cost nothing; then they lead anywhere, in every other plan.

    Gives the model (`Rows`), the numbers of its states, -1 for the one that stands for all others, those of its pairs,
    s * A + a, and what is known now if each pair is of its own kind (`Apart`); all as plain tuples, which are faster.
    """
    mix(stream)
    S = len(seen)
    fresh = np.zeros(len(chains.head), dtype=np.bool_)
    if not sound(evidence, apart, counted, chains, used, fresh):
        apart = Apart(np.zeros(0, dtype=np.int64), np.zeros((0, len(theta))), 0.0)
        counted = np.zeros(0, dtype=np.int64)
        evidence[:], seen[:] = 0.0, False
        sound(evidence, apart, counted, chains, used, fresh)
    n = 0
    for s in range(S):
        n += seen[s]
    first = n == 0
    if first:
        n = look(seen, chains, used, state)
    possible = n + (endless or n < S)
    score(evidence, theta, eps, chains, counted, fresh, seen, possible)
    apart = score_apart(apart, theta, chains, counted, fresh, possible)
    if n < S:
        n = look(seen, chains, used, state)
    K = n + (endless or n < S)
    states = np.full(K, -1)
    for s in range(S - 1, -1, -1):
        if seen[s]:
            K -= 1
            states[K] = s
    own, shared = hyperparameters(evidence, apart, theta, eps, states, available, stream)
    if free and uniform(stream) < 0.5:
        for row in range(len(own)):
            own[row] = own[row] if chains.head[row] >= 0 else 0.0
    rows, pairs = draw_rows(own, shared, chains, states, available, stream, cut)
    model = rows.begin, rows.indptr, rows.indices, rows.data
    return model, states, pairs, (apart.tried, apart.weights, apart.evidence)


@njit
def draw_rows(
    thetas: Floats, eps: float, chains: Chains, states: Ints, available: Bools, stream: State, cut: float
) -> tuple[Rows, Ints]:
    """A model of `states` (K,), and its pairs, s * A + a; thetas (S * A,): their concentrations, 0: leads anywhere.

    State -1, if it is the first, stands for all others, and leads to each of the seen alike by its one action, -1.

    A row is Dirichlet(N + theta base): independent Gamma(N_i) for every next state i that was seen, and Gamma(theta)
    split by breaking sticks at states drawn from the base, as in `_posterior_kernels`; or, where nearly all states
    matter, one by one.
    """
    S, A = available.shape
    K = len(states)
    first = 1 if states[0] < 0 else 0
    place = np.full(S, -1)
    for i in range(first, K):
        place[states[i]] = i
    begin, indptr = np.zeros(K + 1, dtype=np.int64), np.zeros(K * A + 1, dtype=np.int64)
    pairs = np.empty(K * A, dtype=np.int64)
    indices = np.empty(K + K * A * 8, dtype=np.int64)
    data = np.empty(len(indices))
    size = pair = 0
    if first == 1:
        for i in range(1, K):
            indices[i - 1], data[i - 1] = i, 1.0 / (K - 1)
        size, pair = K - 1, 1
        begin[1], indptr[1], pairs[0] = pair, size, -1
    at, base = np.full(K, -1), np.zeros(K)
    support, limits = np.empty(A * K, dtype=np.int64), np.empty(A + 1, dtype=np.int64)
    for i in range(first, K):
        limits[0] = 0
        for a in range(A):
            end = limits[a]
            entry = chains.head[states[i] * A + a]
            while entry >= 0:
                support[end] = place[chains.target[entry]]
                end += 1
                entry = chains.link[entry]
            limits[a + 1] = end
        for a in range(A):
            if not available[states[i], a]:
                continue
            while size + K > len(indices):
                indices, data = longer(indices), longer(data)
            begun = size
            entry = chains.head[states[i] * A + a]
            while entry >= 0:
                x = place[chains.target[entry]]
                indices[size], data[size], at[x] = x, float(chains.number[entry]), size
                size += 1
                entry = chains.link[entry]
            own, after = limits[a], limits[a + 1]
            others = limits[A] - (after - own)
            theta = thetas[states[i] * A + a]
            if theta == 0.0:
                size = _anywhere(indices, data, size, at, stream)
            elif theta <= STICKS_UP_TO * K:
                size = _break_sticks(
                    indices, data, begun, size, theta, eps, support, own, after, others, at, stream, cut
                )
            else:
                for x in range(K):
                    base[x] = theta * (eps if others > 0 else 1.0) / K
                for k in range(limits[A]):
                    if k < own or k >= after:
                        base[support[k]] += theta * (1.0 - eps) / others
                size = _one_by_one(indices, data, begun, size, base, at, stream)
            for k in range(begun, size):
                at[indices[k]] = -1
            size = normalise(indices, data, begun, size, cut)
            pairs[pair] = states[i] * A + a
            pair += 1
            indptr[pair] = size
        begin[i + 1] = pair
    return Rows(begin, indptr[: pair + 1].copy(), indices[:size].copy(), data[:size].copy()), pairs[:pair].copy()


@njit_inline
def _break_sticks(
    indices: Ints,
    data: Floats,
    begun: int,
    size: int,
    theta: float,
    eps: float,
    support: Ints,
    own: int,
    after: int,
    others: int,
    at: Ints,
    stream: State,
    cut: float,
) -> int:
    """Turn numbers from `begun` on into weights, and append those that the prior adds; the new size.

    The support of the other actions is what lies in `support` outside of own, ..., after - 1.
    """
    total = 0.0
    for k in range(begun, size):
        data[k] = gamma(stream, data[k])
        total += data[k]
    left = 1.0
    if total > 0.0:
        # Gamma(a) = Gamma(1 + a) U^(1 / a); far below the range of floats it is nothing.
        left = gamma(stream, 1.0 + theta) * math.exp(-exponential(stream) / theta)
    enough = 0.5 * len(at) * cut * (total + left)
    while left > enough:
        if others > 0 and uniform(stream) >= eps:
            k = int(uniform(stream) * others)
            x = support[k if k < own else k + after - own]
        else:
            x = int(uniform(stream) * len(at))
        rest = left * math.exp(-exponential(stream) / theta)
        if at[x] < 0:
            at[x] = size
            indices[size] = x
            data[size] = left - rest
            size += 1
        else:
            data[at[x]] += left - rest
        left = rest
    return size


@njit
def _anywhere(indices: Ints, data: Floats, size: int, at: Ints, stream: State) -> int:
    """Append next states that are all alike: every state, or as many as are guessed; the new size."""
    K = len(at)
    for guess in range(min(K, GUESSES)):
        x = guess if K <= GUESSES else int(uniform(stream) * K)
        if at[x] < 0:
            at[x] = size
            indices[size], data[size] = x, 0.0
            size += 1
        data[at[x]] += 1.0
    return size


@njit
def _one_by_one(indices: Ints, data: Floats, begun: int, size: int, base: Floats, at: Ints, stream: State) -> int:
    """Turn numbers from `begun` on into weights, base added, and append those of all other states; the new size."""
    for x in range(len(at)):
        if at[x] < 0:
            at[x] = size
            indices[size] = x
            data[size] = 0.0
            size += 1
    largest = -np.inf
    for k in range(begun, size):
        shape = base[indices[k]] + data[k]
        logarithm = math.log(gamma(stream, 1.0 + shape)) - exponential(stream) / shape
        data[k] = logarithm
        largest = max(largest, logarithm)
    # Only ratios matter, and the largest must not vanish.
    for k in range(begun, size):
        data[k] = math.exp(data[k] - largest)
    return size
