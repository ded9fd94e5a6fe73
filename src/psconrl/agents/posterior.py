"""The Dirichlet posterior of the transitions: Dirichlet(prior + counts) for each pair.

Models are drawn by rows, at the cost of what was observed plus the few prior entries that matter; `_posterior_kernels`
has the method and how near it is to an exact draw.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from psconrl._core import checks
from psconrl._core.checks import Bools, Floats, Ints, short_repr
from psconrl._core.pairs import Pairs
from psconrl.agents import _posterior_kernels as kernels
from psconrl.agents import _random_kernels as random_kernels
from psconrl.agents import discovery, hierarchy, move_costs
from psconrl.agents.contract import Agent, Memory
from psconrl.agents.counts import Counts
from psconrl.agents.sampled_model import SampledModel
from psconrl.agents.schedules import Stop
from psconrl.errors import InvalidModelError
from psconrl.planning.compiled.rows import Rows
from psconrl.problem import Problem

DEFAULT = 0.01
"""The prior parameter of each next state (Provodin et al. 2023)."""

CUT = 5e-10
"""Entries, and ends of a row, below this are not drawn: each changes the row by at most 1e-9 in L1."""


@dataclass(frozen=True, eq=False)
class PosteriorAgent(Agent):
    """An agent that samples models from the Dirichlet posterior.

    Args:
        prior: a number, an array (S, A) or (S, A, S) of them (zero: that move is known to be impossible), or a boolean
            (S, A, S) mask of the possible moves, each with the parameter 0.01; the last two also as a sparse matrix
            (S * A, S). "learned": how random the moves are, and what the actions of a state have in common, is learned
            as well, and states never seen are treated as one; see `psconrl.agents.hierarchy`.
        restarts: plan in the sample for a limited time, see `within_time`; with a learned prior it is also learned how
            likely discoveries are, and what they are worth in this time, see `psconrl.agents.discovery`.

    Raises:
        InvalidModelError: a prior of another shape, with a negative parameter, or that allows no move for some pair.
    """

    prior: ArrayLike | sparse.csr_array = DEFAULT
    restarts: bool = field(default=False, kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        checks.flag(self.restarts, "restarts")
        self.parameters  # noqa: B018  the prior is checked at once

    @cached_property
    def parameters(self) -> Prior | None:
        """The prior, checked; None if it is learned."""
        if isinstance(self.prior, str) and self.prior == hierarchy.LEARNED:
            return None
        problem = self.problem
        if problem.open:
            problem = problem.normalized(1) if problem.S is None else problem
            if sparse.issparse(self.prior) or np.ndim(cast(Any, self.prior)) > 0:
                raise InvalidModelError(
                    "prior is an array, but the states are not known; it must be one number, or learned"
                )
        return Prior.of(self.prior, problem)

    @property
    def tells_moves_apart(self) -> bool:
        """Whether costs go with the sample: if prior and costs are learned."""
        return self.parameters is None and self.problem.costs is None

    def costs_in(self, model: Rows | SampledModel, memory: Memory) -> Floats:
        """The costs (m + 1, S, A) to plan with in a sampled model; with a learned prior those of its moves.

        See `psconrl.agents.move_costs`.
        """
        if isinstance(model, SampledModel) and self.tells_moves_apart:
            return move_costs.sampled_costs(model, memory)
        return self.costs(memory)

    def sample(self, memory: Memory, rng: np.random.Generator) -> SampledModel:
        """A model from the posterior, with the costs to plan with.

        Args:
            memory: what the agent knows.
            rng: the random numbers of this plan.

        Returns:
            The model; with a learned prior, or where states are discovered, that of the states seen so far.
        """
        if self.parameters is None:
            model = hierarchy.sample(self.problem, memory, rng, CUT)
        elif self.problem.open:
            model = draw_open(self.parameters, self.problem, memory.observed, rng)
        else:
            model = SampledModel.of_all_states(draw(self.parameters, memory.observed, rng), self.problem)
        return model._replace(costs=self.costs_in(model, memory))

    def within_time(self, model: SampledModel, memory: Memory, stop: Stop, rng: np.random.Generator) -> SampledModel:
        """A sampled model to plan in: with `restarts`, for about ten times as long as the plan may last.

        A plan is followed by others, which go on where it ends, so its own length T_k alone would make every longer way
        look useless; a state further away than there are states can hardly be. Hence L = 10 T_k + n for n states. Plans
        that end by counts alone last about as long as all that was before.

        Args:
            model: the sampled model.
            memory: what the agent knows.
            stop: when the plan ends.
            rng: the random numbers of this plan.
        """
        if not self.restarts:
            return model
        longest = min(stop["max_length"], max(memory.t, 1))
        return self.for_steps(model, memory, 10 * longest + len(model.states), rng)

    def for_steps(self, model: SampledModel, memory: Memory, steps: float, rng: np.random.Generator) -> SampledModel:
        """A sampled model to plan in for so many steps, with what may be discovered in them if that is learned."""
        if self.restarts and self.parameters is None:
            model = discovery.with_discoveries(model, memory, steps, rng)
        return model.with_restarts(memory.state, steps)


@dataclass(frozen=True, eq=False)
class Prior:
    """The parameters of a Dirichlet prior, compact; its rows are `pairs`, those that are available, None if all are.

    level (rows,): the parameter of every possible next state of a row, nan if they differ. Where some next states are
    impossible or parameters differ, allowed[support[row] : support[row + 1]] are the possible ones of each row, and
    `own` their parameters; otherwise the three are empty.
    """

    level: Floats
    support: Ints
    allowed: Ints
    own: Floats
    pairs: Pairs | None = None

    @staticmethod
    def of(prior: ArrayLike | sparse.csr_array, problem: Problem) -> Prior:
        """The prior of a problem.

        Args:
            prior: as in `PosteriorAgent`.
            problem: the problem.

        Raises:
            InvalidModelError: a prior of another shape, with a negative parameter, or that allows no move for a pair.
        """
        S, A = problem.S, problem.A
        if isinstance(prior, str):
            raise InvalidModelError(f'prior is {short_repr(prior)}; prior must be real numbers, or "learned"')
        if sparse.issparse(prior):
            matrix = cast(Any, prior)
            if matrix.shape != (S * A, S) or matrix.dtype.kind not in "biuf":
                raise InvalidModelError(f"prior has shape {matrix.shape}; as a sparse matrix it must be (S * A, S)")
            checks.sound_sparse(matrix, "prior")
            return Prior.by_rows(sparse.csr_array(matrix), problem.pairs)
        alpha = checks.numbers(prior, "prior")
        if alpha.ndim == 3 and np.asarray(prior).dtype == np.bool_:
            alpha = DEFAULT * alpha
        if alpha.shape not in ((), (S, A), (S, A, S)):
            raise InvalidModelError(f"prior has shape {alpha.shape}; it must be a number, (S, A) or (S, A, S)")
        if alpha.ndim == 3:
            return Prior.by_rows(sparse.csr_array(alpha.reshape(S * A, S)), problem.pairs)
        level = problem.pairs.taken(np.broadcast_to(alpha, (S, A)))
        _check(level, level == 0, problem.pairs)
        empty = np.zeros(0, dtype=np.int64)
        return Prior(level.astype(np.float64), empty, empty, np.zeros(0), _fewer(problem.pairs))

    @staticmethod
    def by_rows(matrix: sparse.csr_array, pairs: Pairs) -> Prior:
        """The prior with the parameters, or the mask, in a sparse matrix (S * A, S)."""
        alpha = matrix * DEFAULT if matrix.dtype == np.bool_ else matrix.astype(np.float64)
        if not pairs.every:
            alpha = alpha[pairs.numbers]
        alpha.sum_duplicates()
        alpha.eliminate_zeros()
        _check(alpha.data, np.diff(alpha.indptr) == 0, pairs)
        support, allowed = (np.asarray(array, dtype=np.int64) for array in (alpha.indptr, alpha.indices))
        first = support[:-1]
        least, largest = (np.asarray(end.reduceat(alpha.data, first)) for end in (np.minimum, np.maximum))
        return Prior(np.where(least == largest, largest, np.nan), support, allowed, alpha.data, _fewer(pairs))


def _fewer(pairs: Pairs) -> Pairs | None:
    return None if pairs.every else pairs


def _check(parameters: Floats, empty: Bools, pairs: Pairs) -> None:
    """Refuse parameters that are negative or infinite, and rows in which none is positive."""
    if not ((parameters >= 0) & np.isfinite(parameters)).all():
        raise InvalidModelError("prior has a negative or infinite parameter; they must be >= 0")
    if empty.any():
        s, a = divmod(int(pairs.numbers[np.argmax(empty)]), pairs.available.shape[1])
        raise InvalidModelError(f"prior[{s}, {a}] allows no move at all; give at least one next state mass")


def draw(prior: Prior, counts: Counts, rng: np.random.Generator, cut: float = CUT) -> Rows:
    """One model from the posterior Dirichlet(prior + counts), without entries below `cut`, by the rows of the prior."""
    chains, begin = counts.chains, counts.begin
    if prior.pairs is not None:
        chains, begin = (chains[0][prior.pairs.numbers], *chains[1:]), prior.pairs.begin
    return Rows(begin, *draw_rows(prior, chains, counts.S, random_kernels.seeded(rng), cut))


def draw_rows(
    prior: Prior, chains: tuple[Ints, Ints, Ints, Ints], S: int, seeded: random_kernels.State, cut: float
) -> tuple[Ints, Ints, Floats]:
    """Rows (indptr, indices, data) from the posterior of counts, the chains of each row; see `counts`."""
    n = len(chains[0])
    indptr, indices, data = np.empty(n + 1, np.int64), np.empty(8 * n + S, np.int64), np.empty(8 * n + S)
    parameters = prior.level, prior.support, prior.allowed, prior.own
    row = kernels.draw_rows(parameters, chains, S, seeded, cut, (indptr, indices, data), 0)
    while row < n:
        indices, data = np.concatenate([indices, indices]), np.concatenate([data, data])
        row = kernels.draw_rows(parameters, chains, S, seeded, cut, (indptr, indices, data), row)
    size = indptr.item(n)
    return indptr, indices[:size], data[:size]


def draw_open(
    prior: Prior, problem: Problem, counts: Counts, rng: np.random.Generator, cut: float = CUT
) -> SampledModel:
    """One model over the states seen so far and one that stands for all others.

    Every action there leads to a seen state, all equally likely, so that no plan relies on imaginary free states.
    """
    S, pairs, chains = counts.S, problem.pairs, counts.chains
    if not pairs.every:
        chains = chains[0][pairs.numbers], *chains[1:]
    indptr, indices, data = draw_rows(prior, chains, S + 1, random_kernels.seeded(rng), cut)
    rows = Rows(
        np.append(pairs.begin, pairs.K + 1),
        np.append(indptr, indptr[-1] + S),
        np.concatenate([indices, np.arange(S)]),
        np.concatenate([data, np.full(S, 1.0 / S)]),
    )
    return SampledModel(rows, np.append(np.arange(S), -1), np.append(pairs.numbers, -1), problem, {})
