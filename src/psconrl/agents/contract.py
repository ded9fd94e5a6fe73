"""The contract between an algorithm and the loops that run it.

An agent is a frozen value with one method, `plan(memory, rng) -> Plan`. The stopping rule is data in the plan,
not a callback, so the compiled loop and the Gymnasium loop run the same algorithm:

    a plan ends after the step that makes its length == max_length,
    or N(s, a) > count_limit(s, a) for the pair just visited.

The rule that chooses between several policies of a plan is data, too: see `psconrl.planning.steered`.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from psconrl._core.checks import Floats, Ints, short_repr
from psconrl._core.pairs import Pairs
from psconrl.agents import _counts_kernels as kernels
from psconrl.agents.counts import Counts
from psconrl.errors import InvalidTypeError
from psconrl.planning.steered import Steered
from psconrl.problem import Problem

FOREVER = 2**62
"""A length or count that no run reaches."""

Carry = Mapping[str, NDArray[Any]]


@dataclass(eq=False)
class Memory:
    """What an agent may look at when it plans.

    Attributes:
        t: steps so far; the next one is step t + 1.
        horizon: T of this run, for the algorithms that need it.
        state: the current state.
        episode: the number of plans so far.
        last_length: steps of the last plan, T_{k-1}; T_0 = 1 before the first.
        observed: N(s, a, s'), sparse; where the agent `tells_moves_apart`, also what each move cost.
        visits: N(s, a), (S, A).
        cost_sums: sums of the costs, (m + 1, S, A).
        carry: what the last plan left for this one; empty at the start of a run.
        pairs: the available actions of each state, as in the problem; `pairs.available` is the mask (S, A).
        excess: (m,), sums of costs less their limits so far, as steering counts them: what fell below the lower edge of
            its band is not included.
    """

    t: int
    horizon: int
    state: int
    episode: int
    last_length: int
    observed: Counts
    visits: Ints
    cost_sums: Floats
    carry: Carry
    pairs: Pairs = None  # type: ignore[assignment]  # __post_init__ fills it in
    excess: Floats = field(default_factory=lambda: np.zeros(0))

    def __post_init__(self) -> None:
        if self.pairs is None:
            self.pairs = Pairs.all(*self.visits.shape)

    @property
    def counts(self) -> Ints:
        """N(s, a, s') as an array (S, A, S), a new one at each call."""
        return self.observed.dense()

    def mean_costs(self) -> Floats:
        """Empirical means (m + 1, S, A), 0 for pairs never visited."""
        means = np.empty(self.cost_sums.shape)
        kernels.mean_costs(self.cost_sums, self.visits, means)
        return means

    def mean_transitions(self) -> Floats:
        """p_hat as an array (S, A, S), rows of zeros for pairs never visited."""
        return kernels.means(*self.observed.chains, self.visits)


@dataclass(frozen=True, eq=False, init=False)
class Plan:
    """What to do until the next plan.

    Args:
        policy: (L, S, A); L = 1 is stationary, else policy[l] is for step l of the plan. Actions that are not available
            have probability zero.
        max_length: the plan ends after so many steps.
        count_limit: (S, A): the plan ends after the step that makes N(s, a) exceed it; None for no such limit.
        phase: "exploit", or "explore" for steps that are not meant to be optimal.
        feasible: whether the limits could be met in the model planned with.
        value: the optimum of the model planned with; nan if there is none.
        connected: False if from some state no path into the optimal states is known, where the policy is uniform.
        solver: what found the policy, "compiled" or "highs"; "" for none of them.
        carry: plain arrays that the next plan may start from.
        steered: several policies, and the rule that chooses between them by the excess of the limits; the policy,
            L = 1, then mixes them at random, and acts only in states that none of them visits. None: the policy acts.
        multipliers: (m,), the shadow prices of the limits in the model planned with; None if there are none.
        nearest: (m,), the limits that the model planned with can meet, nearest to those that it cannot; None if it can
            meet them, or the plan was not made for them.
    """

    policy: Floats
    max_length: int = FOREVER
    count_limit: Ints | None = None
    phase: str = "exploit"
    feasible: bool = True
    value: float = np.nan
    connected: bool = True
    solver: str = ""
    carry: Carry = field(default_factory=dict)
    steered: Steered | None = None
    multipliers: Floats | None = None
    nearest: Floats | None = None

    def __init__(
        self,
        policy: Floats,
        max_length: int = FOREVER,
        count_limit: Ints | None = None,
        phase: str = "exploit",
        feasible: bool = True,
        value: float = np.nan,
        connected: bool = True,
        solver: str = "",
        carry: Carry | None = None,
        steered: Steered | None = None,
        multipliers: Floats | None = None,
        nearest: Floats | None = None,
    ) -> None:
        # A frozen dataclass sets its fields one by one, which takes three times as long.
        self.__dict__.update(
            policy=policy,
            max_length=max_length,
            count_limit=count_limit,
            phase=phase,
            feasible=feasible,
            value=value,
            connected=connected,
            solver=solver,
            carry={} if carry is None else carry,
            steered=steered,
            multipliers=multipliers,
            nearest=nearest,
        )


@dataclass(frozen=True, eq=False)
class Agent(ABC):
    """A learning algorithm with its parameters.

    A new agent derives from this class as a frozen dataclass, adds its parameters as fields with defaults, and
    implements `plan` as a pure function of (memory, rng).

    Args:
        problem: all that the agent knows of the environment.

    Raises:
        InvalidTypeError: if the problem is not a `psconrl.Problem`.
    """

    sees_model: ClassVar[bool] = False
    """Whether it takes the true model, as the parameter `model`; agents that learn do not."""
    own_kernels: ClassVar[bool] = False
    """Whether it needs compiled kernels that no other agent uses."""
    needs_horizon: ClassVar[bool] = False
    """Whether it must be told how many steps there will be."""
    uses_planner: ClassVar[bool] = True
    """Whether it plans in a model that it believes in."""

    problem: Problem

    def __post_init__(self) -> None:
        if not isinstance(self.problem, Problem):
            raise InvalidTypeError(
                f"problem is {short_repr(self.problem)}; it must be a Problem; cmdp.problem() gives a model's"
            )

    @abstractmethod
    def plan(self, memory: Memory, rng: np.random.Generator) -> Plan:
        """The next plan.

        Args:
            memory: what the agent knows; it must not be changed.
            rng: the random numbers of this plan.

        Returns:
            The policy to run, and when to plan again.
        """

    @property
    def name(self) -> str:
        """The name in tables."""
        return type(self).__name__

    def with_problem(self, problem: Problem) -> Self:
        """This agent for another problem.

        Args:
            problem: for instance `Problem.normalized`: costs in [0, 1] and the states seen so far.

        Raises:
            InvalidTypeError: if the class is not a dataclass.
        """
        if problem is self.problem:
            return self
        try:
            return replace(self, problem=problem)
        except TypeError as error:
            raise InvalidTypeError(
                f"{self.name} cannot be made for {problem}: {error}; make its class a frozen dataclass"
            ) from error

    @property
    def tells_moves_apart(self) -> bool:
        """Whether it needs the cost of each move, kept in `memory.observed.spent`; False: sums over pairs will do."""
        return False

    def costs(self, memory: Memory) -> Floats:
        """The costs (m + 1, S, A) to plan with: the known ones, else their empirical means."""
        return memory.mean_costs() if self.problem.costs is None else self.problem.costs

    def uniform_plan(self, **fields: Any) -> Plan:
        """The uniform policy over the available actions, as a plan.

        Args:
            fields: further fields of the plan, such as those of a stopping rule.
        """
        return Plan(self.problem.uniform[np.newaxis], **({"phase": "explore"} | fields))
