"""Random models: communicating, strictly feasible, and with constraints that bind.

Thresholds lie half-way between what the best unconstrained policy spends and what must be spent. With
u_i the averages of that policy and g the largest number such that some policy has J_i <= u_i - g for
all i, they are tau_i = u_i - g + max(g / 2, margin): the margin of the model is max(g / 2, margin), and
a constraint binds wherever g / 2 >= margin > 0.
"""

from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from psconrl import planning
from psconrl._core import checks, graph
from psconrl._core.checks import Floats
from psconrl._core.lazy import lazy_import
from psconrl.cmdp import CMDP, DENSE_STATES
from psconrl.errors import InvalidArgumentError, InvalidModelError

if TYPE_CHECKING:
    from psconrl.agents import hierarchy
else:
    hierarchy = lazy_import("psconrl.agents.hierarchy")

LARGEST = 10**6
"""The most states, actions, limits or draws."""

LIKELY = 0.01
"""Moves of models drawn from a hierarchical prior that are counted on."""

NEVER = 1e-9
"""Less likely ones are left out of them: no run sees them."""

MAX_DISCARDED = 1000
"""How many draws in a row may be discarded before the settings are called hopeless."""


def garnet(S: int = 20, A: int = 3, branching: int = 3, m: int = 1, margin: float = 0.05, seed: int = 0) -> CMDP:
    """A Garnet: each pair (s, a) leads to `branching` random states, with random probabilities.

    The probabilities are the gaps between uniform cut points of [0, 1], the costs are uniform in [0, 1].
    One random cycle through all states is laid first, each of its steps possible under some action, so
    the model is communicating. Thresholds: see this module; the Slater margin is at least `margin`.
    """
    S, A = checks.whole(S, "S", 1, LARGEST), checks.whole(A, "A", 1, LARGEST)
    branching = checks.whole(branching, "branching", 1, S)
    m = checks.whole(m, "m", 0, LARGEST)
    margin = checks.fraction(margin, "margin")
    rng = np.random.default_rng(checks.seed_sequence(seed))
    order = rng.permutation(S)
    successor = np.empty(S, dtype=np.int64)
    successor[order] = np.roll(order, -1)
    leading = rng.integers(A, size=S)

    targets = np.stack([rng.choice(S, size=branching, replace=False) for _ in range(S * A)])
    rows = np.arange(S) * A + leading
    missing = ~(targets[rows] == successor[:, np.newaxis]).any(axis=1)
    targets[rows[missing], 0] = successor[missing]
    cuts = np.sort(rng.random((S * A, branching - 1)), axis=1)
    p = np.diff(cuts, axis=1, prepend=0.0, append=1.0)
    matrix = sparse.csr_array((p.ravel(), (np.repeat(np.arange(S * A), branching), targets.ravel())), shape=(S * A, S))
    cmdp = _with_thresholds(matrix, rng.random((m + 1, S, A)), margin)
    return cmdp if S > DENSE_STATES else cmdp.to_dense()


def dirichlet(
    S: int = 10,
    A: int = 3,
    m: int = 1,
    prior: float | Literal["learned"] = 0.5,
    gamma: float = 0.01,
    seed: int = 0,
    draw: int = 0,
    thresholds: ArrayLike | None = None,
) -> CMDP:
    """A model p ~ Dirichlet(prior, ..., prior), for each pair, around fixed costs and thresholds.

    prior="learned": drawn from a hierarchical prior, like that of `psconrl.agents.hierarchy`. First theta and eps, from
    their grids; then, action by action, p(s, a) ~ Dirichlet(theta [(1 - eps) b + eps / S]) with b the mean of p(s, a')
    over the actions a' < a, uniform for the first.

    Costs, uniform in [0, 1], and thresholds depend on the seed alone; by default the thresholds are those
    of this module for the prior's mean, the model of uniform transitions. `draw` numbers the transitions
    that are drawn then; draws that are not communicating (with a learned prior: by moves of probability 0.01 or more,
    else hitting times have no bound), or whose margin is below gamma, are discarded and drawn again.
    """
    S, A = checks.whole(S, "S", 1, LARGEST), checks.whole(A, "A", 1, LARGEST)
    m, draw = checks.whole(m, "m", 0, LARGEST), checks.whole(draw, "draw", 0, LARGEST)
    if isinstance(prior, str) and prior != hierarchy.LEARNED:
        raise InvalidArgumentError(
            f'prior is {checks.short_repr(prior)}; it must be a number from 0.001 to 1000, or "learned"'
        )
    if not isinstance(prior, str):
        prior = checks.fraction(prior, "prior", 1e-3, 1e3)
    gamma = checks.fraction(gamma, "gamma")
    root = checks.seed_sequence(seed)
    costs = np.random.default_rng(_child(root, 0)).random((m + 1, S, A))
    if thresholds is None:
        thresholds = _with_thresholds(np.full((S, A, S), 1 / S), costs, gamma).thresholds
    rng = np.random.default_rng(_child(root, 1, draw))
    for _ in range(MAX_DISCARDED):
        p = hierarchical(rng, S, A)[0] if prior == hierarchy.LEARNED else rng.dirichlet(np.full(S, prior), size=(S, A))
        cmdp = CMDP(p, costs, thresholds)
        moves = cmdp.matrix >= LIKELY if prior == hierarchy.LEARNED else cmdp.matrix
        if graph.is_communicating(moves) and (cmdp.m == 0 or planning.solve(cmdp).margin >= gamma):
            return cmdp
    raise InvalidModelError(
        f"{MAX_DISCARDED} draws in a row had a margin below gamma = {gamma:g}; raise the thresholds, or lower gamma"
    )


def hierarchical(rng: np.random.Generator, S: int, A: int) -> tuple[Floats, int, int]:
    """p (S, A, S) from the hierarchical prior that `dirichlet` describes; where on their grids theta and eps lie."""
    g, e = rng.integers(len(hierarchy.THETA)), rng.integers(len(hierarchy.EPS))
    theta, eps = hierarchy.THETA[g], hierarchy.EPS[e]
    p = np.empty((S, A, S))
    for a in range(A):
        shared = p[:, :a].mean(axis=1) if a else np.full((S, S), 1.0 / S)
        alpha = theta * ((1.0 - eps) * shared + eps / S)
        # Gamma(alpha) = Gamma(1 + alpha) U^(1 / alpha), by logarithms: most are below the range of floats.
        p[:, a] = np.log(rng.standard_gamma(1.0 + alpha)) - rng.standard_exponential((S, S)) / alpha
        p[:, a] = np.exp(p[:, a] - p[:, a].max(axis=1, keepdims=True))
        p[:, a][p[:, a] < NEVER] = 0.0
        p[:, a] /= p[:, a].sum(axis=1, keepdims=True)
    return p, int(g), int(e)


def _with_thresholds(p: Floats | sparse.csr_array, costs: Floats, margin: float) -> CMDP:
    """The model with the thresholds that the docstring of this module defines."""
    m = len(costs) - 1
    if m == 0:
        return CMDP(p, costs)
    free = planning.solve(CMDP(p, costs[:1]))
    spent = planning.evaluate(CMDP(p, costs, np.zeros(m)), free.policy).average_costs[1:].max(axis=1)
    loose = CMDP(p, costs, spent)
    gap = max(planning.solve(loose).margin, 0.0)
    tau = spent - gap + max(gap / 2, margin)
    # Rounded up, the thresholds do not depend on the last bits of the solver.
    return loose.replace(thresholds=np.ceil(tau * 1e6) / 1e6)


def _child(root: np.random.SeedSequence, *key: int) -> np.random.SeedSequence:
    """What root.spawn gives as child number key[0], its child key[1], and so on."""
    return np.random.SeedSequence(root.entropy, spawn_key=key)
