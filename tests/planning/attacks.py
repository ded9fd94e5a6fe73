"""Families of small models that are hard for a planner, each a function of a random generator.

Few states (S <= 4) or few states with a choice, A <= 3, m <= 6, so that `oracle` can solve them exactly. New families
come last: the random numbers of a model depend on the place of its family.
"""

from collections.abc import Callable

import numpy as np

from psconrl._core.checks import Floats
from psconrl.cmdp import CMDP
from tests.planning.oracle import Oracle

Family = Callable[[np.random.Generator], CMDP]


def generator(family: str, number: int, entropy: int = 0) -> np.random.Generator:
    """The random numbers of one model of a family."""
    key = list(FAMILIES).index(family)
    return np.random.default_rng(np.random.SeedSequence(entropy, spawn_key=(key, number)))


def model(family: str, number: int, entropy: int = 0) -> CMDP:
    """One model of a family."""
    return FAMILIES[family](generator(family, number, entropy))


# Transitions


def ordinary(rng: np.random.Generator) -> CMDP:
    """Random rows, dense or sparse, probabilities above 1e-5."""
    S, A = _sizes(rng)
    return _limited(rng, _rows(rng, S, A))


def leaky(rng: np.random.Generator) -> CMDP:
    """A chain up to an end that is hard to reach: probabilities of 0.01, but many in a row; up to nine states.

    From each state it falls back to the first, or one step; the end keeps what reaches it, or leads back. In one to
    three states there is a choice.
    """
    S = int(rng.integers(3, 10))
    p = np.zeros((S, 3, S))
    leak = rng.choice([0.01, 0.02, 0.1, 0.5])
    back = rng.choice([-1, 0])
    for s in range(S):
        p[s, :, s if back else 0] += (1 - leak) / 2
        p[s, :, max(s - 1, 0) if back else 0] += (1 - leak) / 2
        p[s, :, min(s + 1, S - 1)] += leak
    if rng.random() < 0.5:  # nothing comes back
        p[-1] = np.eye(S)[-1]
    costs = _costs(rng, S, 1, _many(rng))
    costs = np.repeat(costs, 3, axis=2)
    for s in rng.choice(S, size=int(rng.integers(1, min(S, 3) + 1)), replace=False):
        for a in (1, 2):
            p[s, a] = np.eye(S)[s if rng.random() < 0.5 else int(rng.integers(S))]
            costs[:, s, a] = _costs(rng, 1, 1, len(costs) - 1)[:, 0, 0]
    order = rng.permutation(S)
    return _limited(rng, p[order][:, :, order], costs[:, order])


def nearly_decomposable(rng: np.random.Generator) -> CMDP:
    """Blocks that are ordinary inside, linked by probabilities of 1e-3 to 1e-14."""
    S, A = _sizes(rng, least=2)
    block = rng.integers(2, size=S)
    p = _rows(rng, S, A)
    across = block[:, np.newaxis, np.newaxis] != block
    p = np.where(across, p * 10.0 ** -rng.uniform(3, 14, size=p.shape), p)
    return _limited(rng, _stay(p))


def tiny(rng: np.random.Generator) -> CMDP:
    """Probabilities of leaving down to 1e-300; the rest stays."""
    S, A = _sizes(rng, least=2)
    deepest = rng.choice([12, 30, 300])
    p = 10.0 ** -rng.uniform(0, deepest, size=(S, A, S)) / S
    p[rng.random(p.shape) < 0.3] = 0.0
    ordinary_pairs = rng.random((S, A)) < 0.3
    p[ordinary_pairs] = _rows(rng, S, A)[ordinary_pairs]
    return _limited(rng, _stay(p))


def one_action(rng: np.random.Generator) -> CMDP:
    """Nothing to choose, not even states at times; limits that hold or not."""
    S = int(rng.integers(1, 5))
    p = _rows(rng, S, 1)
    if rng.random() < 0.5:
        p = _stay(p * 10.0 ** -rng.uniform(0, 9, size=p.shape))
    return _limited(rng, p, far=True)


def multichain(rng: np.random.Generator) -> CMDP:
    """Stay or go for ever: closed parts, absorbing states and ways between them that do not lead back."""
    S, A = _sizes(rng, least=2)
    p = np.zeros((S, A, S))
    for s in range(S):
        for a in range(A):
            ahead = np.arange(s if rng.random() < 0.8 else 0, S)
            ends = rng.choice(ahead, size=int(rng.integers(1, len(ahead) + 1)), replace=False)
            p[s, a, ends] = rng.dirichlet(np.ones(len(ends)))
        if rng.random() < 0.6:
            p[s, 0] = np.eye(S)[s]
    return _limited(rng, p)


def weakly_communicating(rng: np.random.Generator) -> CMDP:
    """One or two states that every policy leaves for good, the others communicating; starts anywhere."""
    S, A = _sizes(rng, least=3)
    gone = int(rng.integers(1, S - 1))
    p = np.zeros((S, A, S))
    p[gone:, :, gone:] = _rows(rng, S - gone, A)
    p[gone:, :, gone:] = 0.99 * p[gone:, :, gone:] + 0.01 / (S - gone)
    p[:gone] = _rows(rng, S, A)[:gone]
    leak = 10.0 ** -rng.uniform(0, 6)
    p[:gone] = (1 - leak) * p[:gone] + leak * np.eye(S)[-1]
    return _limited(rng, p)


def periodic(rng: np.random.Generator) -> CMDP:
    """Every move is certain: cycles, or with a little noise."""
    S, A = _sizes(rng)
    p = np.eye(S)[rng.integers(S, size=(S, A))]
    p[:, 0] = np.eye(S)[np.roll(np.arange(S), 1)]
    if rng.random() < 0.3:
        noise = 10.0 ** -rng.uniform(2, 12)
        p = _stay((1 - noise) * p + noise * _rows(rng, S, A))
    return _limited(rng, p)


def deep(rng: np.random.Generator) -> CMDP:
    """Five to eight states, three of them with a choice: three blocks that hardly meet, or moves down to 1e-300."""
    S, A, kind = int(rng.integers(5, 9)), int(rng.integers(2, 4)), rng.integers(3)
    p = 10.0 ** -rng.uniform(0, rng.choice([6, 12, 30, 300]), size=(S, A, S)) / S
    p[rng.random(p.shape) < 0.5] = 0.0
    if kind == 0:
        block, ordinary_rows = rng.integers(3, size=S), _rows(rng, S, A)
        across = block[:, np.newaxis, np.newaxis] != block
        p = np.where(across, ordinary_rows * 10.0 ** -rng.uniform(3, 14, size=p.shape), ordinary_rows)
    elif kind == 1:
        ordinary_pairs = rng.random((S, A)) < 0.5
        p[ordinary_pairs] = _rows(rng, S, A)[ordinary_pairs]
    p, costs = _stay(p), _costs(rng, S, A, _many(rng))
    fixed = np.delete(np.arange(S), rng.choice(S, size=3, replace=False))
    p[fixed, 1:] = p[fixed, :1]
    costs[:, fixed, 1:] = costs[:, fixed, :1]
    return _limited(rng, p, costs)


# Costs and limits


def scaled(rng: np.random.Generator) -> CMDP:
    """Each cost with its limit times a power of ten of its own, 1e-12 to 1e12."""
    cmdp = FAMILIES[str(rng.choice(PLAIN))](rng)
    factors = np.power(10.0, rng.integers(-12, 13, size=cmdp.m + 1), dtype=np.float64)
    return times(cmdp, factors)


def uneven(rng: np.random.Generator) -> CMDP:
    """Several limits of unequal scale and position, many of them in conflict."""
    S, A = _sizes(rng)
    p = _rows(rng, S, A)
    m = int(rng.integers(2, 7))
    costs = _costs(rng, S, A, m)
    costs = costs * 10.0 ** rng.uniform(-4, 4, size=(m + 1, 1, 1)) + rng.choice([0.0, 1.0, -3.0], size=(m + 1, 1, 1))
    return _limited(rng, p, costs)


def duplicates(rng: np.random.Generator) -> CMDP:
    """The same cost several times, at equal or other limits, also with its sign changed: an interval for it."""
    cmdp = FAMILIES[str(rng.choice(PLAIN))](rng)
    if cmdp.m == 0:
        return cmdp
    copies = rng.integers(1, cmdp.m + 1, size=int(rng.integers(1, 7 - min(cmdp.m, 6)) if cmdp.m < 6 else 0))
    costs, tau = list(cmdp.costs), list(cmdp.thresholds)
    for i in copies:
        sign = rng.choice([1.0, 1.0, -1.0])
        moved = rng.choice([0.0, 0.0, 1e-3, -1e-3, 0.1])
        costs.append(sign * cmdp.costs[i])
        tau.append(sign * cmdp.thresholds[i - 1] + moved * max(float(np.ptp(cmdp.costs[i])), 1e-3))
    return cmdp.replace(costs=np.array(costs), thresholds=np.array(tau), cost_names=None)


PLAIN = (
    "ordinary",
    "leaky",
    "nearly_decomposable",
    "tiny",
    "one_action",
    "multichain",
    "weakly_communicating",
    "periodic",
)

FAMILIES: dict[str, Family] = {
    function.__name__: function
    for function in (
        ordinary,
        leaky,
        nearly_decomposable,
        tiny,
        one_action,
        multichain,
        weakly_communicating,
        periodic,
        scaled,
        uneven,
        duplicates,
        deep,
    )
}


def larger(rng: np.random.Generator) -> CMDP:
    """Five to sixty states, too many for exact arithmetic, with ordinary probabilities; some fall into parts."""
    S, A, m = int(5 + 56 * rng.random() ** 2), int(rng.integers(1, 4)), _many(rng)
    p = rng.dirichlet(np.full(S, rng.choice([0.05, 0.3, 1.0])), size=(S, A))
    p = np.where(p < 1e-3 / S, 0.0, p)
    if rng.random() < 0.3:
        half = int(rng.integers(1, S))
        p[:half, :, half:] = 0.0
        if rng.random() < 0.5:
            p[half:, 0, :half] = 0.0
        p[np.arange(S), :, np.arange(S)] += p.sum(axis=2) == 0
    p /= p.sum(axis=2, keepdims=True)
    costs = _costs(rng, S, A, m)
    start = int(rng.integers(S)) if rng.random() < 0.7 else rng.dirichlet(np.ones(S))
    return CMDP(p, costs, rng.uniform(0.25, 0.65, size=m), initial=start)


def confidence_set(rng: np.random.Generator) -> tuple[Floats, Floats, Floats, Floats]:
    """p_hat (S, A, S), radius (S, A), costs and thresholds of a small optimistic problem; pairs never seen, certain
    moves and sets that hold nothing but p_hat among them."""
    S, A = ((2, int(rng.integers(1, 4))), (3, 1))[int(rng.random() < 0.3)]
    m = int(rng.integers(0, 4))
    p_hat = _rows(rng, S, A)
    sure = rng.random((S, A)) < 0.2
    p_hat[sure] = np.eye(S)[rng.integers(S, size=int(sure.sum()))]
    radius = rng.choice([0.0, 1e-9, 0.05, 0.3, 1.0]) * rng.random((S, A))
    unseen = rng.random((S, A)) < 0.2
    p_hat[unseen], radius[unseen] = 0.0, 1.0
    costs = _costs(rng, S, A, m)
    least, most = costs[1:].min(axis=(1, 2)), costs[1:].max(axis=(1, 2))
    return p_hat, radius, costs, least + rng.uniform(-0.05, 1.0, size=m) * (most - least)


def times(cmdp: CMDP, factors: Floats) -> CMDP:
    """The model with each cost and its limit times a factor."""
    return cmdp.replace(costs=cmdp.costs * factors[:, np.newaxis, np.newaxis], thresholds=cmdp.thresholds * factors[1:])


def _sizes(rng: np.random.Generator, least: int = 1) -> tuple[int, int]:
    return int(rng.integers(least, 5)), int(rng.integers(1, 4))


def _many(rng: np.random.Generator) -> int:
    """How many limits: mostly few, up to six."""
    return int(rng.choice(7, p=[0.1, 0.3, 0.2, 0.15, 0.1, 0.1, 0.05]))


def _rows(rng: np.random.Generator, S: int, A: int) -> Floats:
    """Random distributions (S, A, S) without entries below 1e-5."""
    p = rng.dirichlet(np.full(S, rng.choice([0.1, 0.5, 1.0])), size=(S, A))
    p = np.where(p < 1e-5, 0.0, p)
    return np.asarray(p / p.sum(axis=2, keepdims=True))


def _stay(p: Floats) -> Floats:
    """The same probabilities of leaving; the rest stays."""
    states = np.arange(len(p))
    p = p.copy()
    p[states, :, states] = 0.0
    out = p.sum(axis=2)
    p = p / np.maximum(out, 1.0)[:, :, np.newaxis]
    p[states, :, states] = (1.0 - p.sum(axis=2)).clip(0.0)
    return p


def _costs(rng: np.random.Generator, S: int, A: int, m: int) -> Floats:
    """Costs (m + 1, S, A) in [0, 1]: random, of few levels (ties), or zero and one."""
    costs = rng.random((m + 1, S, A))
    kind = rng.integers(4)
    return np.round(costs) if kind == 0 else np.round(4 * costs) / 4 if kind == 1 else costs


def _limited(rng: np.random.Generator, p: Floats, costs: Floats | None = None, far: bool = False) -> CMDP:
    """A model with limits of many kinds, told apart by what random policies cost.

    Exactly what a policy costs, between two policies, anywhere in the range, out of reach, never felt (very far if
    asked for).
    """
    S, A, _ = p.shape
    costs = _costs(rng, S, A, _many(rng)) if costs is None else costs
    m = len(costs) - 1
    start = np.eye(S)[rng.integers(S)] if rng.random() < 0.7 else rng.dirichlet(np.ones(S))
    cmdp = CMDP(p, costs, np.zeros(m), initial=start)
    if m == 0:
        return cmdp
    oracle = Oracle.of(cmdp)
    one, two = (np.array([float(x) for x in oracle.averages_at_start(rng.integers(A, size=S))])[1:] for _ in range(2))
    least, most = costs[1:].min(axis=(1, 2)), costs[1:].max(axis=(1, 2))
    share, width = rng.random(), most - least
    kinds = [
        one,
        share * one + (1 - share) * two,
        one + rng.choice([1e-3, 0.1]) * width,
        least + rng.random(m) * width,
        least - rng.choice([1e-3, 0.1]) * width - rng.choice([0.0, 1e-3]),
        most + rng.random(m) * width + (1e9 * (rng.random() < 0.3) if far else 0.0),
    ]
    which = rng.choice(6, size=m, p=[0.1, 0.35, 0.25, 0.15, 0.02, 0.13])
    return cmdp.replace(thresholds=np.array([kinds[k][i] for i, k in enumerate(which)]))
