"""The Dirichlet posterior of the transitions: Dirichlet(prior + counts) for each pair.

A Gamma(a) variable for a < 1 is drawn in logarithms, log G(a) = log G(1 + a) + log(U) / a, so that parameters
of 0.001 neither underflow to a row of zeros nor give NaN.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from psconrl import _checks
from psconrl._checks import Floats, Ints
from psconrl.agents.contract import Agent, Memory
from psconrl.errors import InvalidModelError
from psconrl.problem import Problem

DEFAULT = 0.01
"""The prior parameter of the paper's experiments, per next state."""


@dataclass(frozen=True, eq=False)
class PosteriorAgent(Agent):
    """An agent that samples models from the Dirichlet posterior.

    prior: see `prior_parameters`.
    """

    prior: ArrayLike = DEFAULT

    def __post_init__(self) -> None:
        super().__post_init__()
        self.alpha  # noqa: B018  the prior is checked at once

    @cached_property
    def alpha(self) -> Floats:
        """The prior's parameters (S, A, S)."""
        return prior_parameters(self.prior, self.problem)

    def sample(self, memory: Memory, rng: np.random.Generator) -> Floats:
        """p_k (S, A, S) from the posterior."""
        return draw(self.alpha, memory.counts, rng)


def prior_parameters(prior: ArrayLike, problem: Problem) -> Floats:
    """The prior as an array (S, A, S).

    prior: a number, an array (S, A) or (S, A, S) of them (zero: that move is known to be impossible), or a
    boolean (S, A, S) mask of the possible moves, each with the parameter 0.01.
    """
    S, A = problem.S, problem.A
    given: Any = np.asarray(prior)
    if given.dtype == np.bool_ and given.ndim == 3:
        given = DEFAULT * given
    alpha = _checks.numbers(given, "prior")
    if alpha.shape == (S, A):
        alpha = alpha[:, :, np.newaxis]
    if alpha.shape not in ((), (S, A, 1), (S, A, S)):
        raise InvalidModelError(f"prior has shape {alpha.shape}; it must be a number, (S, A) or (S, A, S)")
    if not ((alpha >= 0) & np.isfinite(alpha)).all():
        raise InvalidModelError("prior has a negative or infinite parameter; they must be >= 0")
    alpha = np.broadcast_to(alpha, (S, A, S))
    empty = ~(alpha > 0).any(axis=2)
    if empty.any():
        s, a = (int(i) for i in np.argwhere(empty)[0])
        raise InvalidModelError(f"prior[{s}, {a}] allows no move at all; give at least one next state mass")
    return np.ascontiguousarray(alpha)


def draw(alpha: Floats, counts: Ints, rng: np.random.Generator) -> Floats:
    """One model (S, A, S) from the posterior Dirichlet(alpha + counts)."""
    shape = alpha + counts
    possible = shape > 0
    safe = np.where(possible, shape, 1.0)
    small = safe < 1.0
    logs = np.log(rng.standard_gamma(np.where(small, safe + 1.0, safe)))
    # 1 - U lies in (0, 1], so its logarithm is finite.
    logs += np.where(small, np.log1p(-rng.random(safe.shape)) / safe, 0.0)
    logs[~possible] = -np.inf
    weights = np.exp(logs - logs.max(axis=2, keepdims=True))
    return np.asarray(weights / weights.sum(axis=2, keepdims=True))
