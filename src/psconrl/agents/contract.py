"""The contract between an algorithm and the loops that run it.

An agent is a frozen value with one method, `plan(memory, rng) -> Plan`. The stopping rule is data in the plan,
not a call-back, so the compiled loop, its plain twin and the Gymnasium loop run the same algorithm:

    a plan ends after the step that makes its length == max_length,
    or N(s, a) > count_limit(s, a) for the pair just visited.

So is the rule that chooses between several policies of a plan, see `psconrl.planning.steered`.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from psconrl._core.checks import Floats, Ints, short_repr
from psconrl._core.lazy import lazy_import
from psconrl._core.pairs import Pairs
from psconrl.agents.counts import Counts
from psconrl.errors import InvalidTypeError
from psconrl.planning.steered import Steered
from psconrl.problem import Problem

if TYPE_CHECKING:
    from psconrl.agents import _counts_kernels as kernels
else:
    kernels = lazy_import("psconrl.agents._counts_kernels")

FOREVER = 2**62
"""A length or count that no run reaches."""

Carry = Mapping[str, NDArray[Any]]


@dataclass(eq=False)
class Memory:
    """What an agent may look at when it plans.

    Attributes:
        t: steps done so far, so that the next one is step t + 1 of the paper.
        horizon: T of this run, for the algorithms that need it.
        state: where the agent is now.
        episode: number of plans made before.
        last_length: steps of the plan before, T_{k-1}; T_0 = 1 before the first.
        observed: N(s, a, s') as chains of what was seen; `counts` is the same as an array. visits: N(s, a), (S, A).
            Where the agent `tells_moves_apart`, also what each move cost.
        cost_sums: (m + 1, S, A).
        carry: what the plan before left for this one; empty at the start of a run.
        pairs: the actions that each state has, as in the problem; all if left out.
        excess: (m,), sums of costs less their limits so far, as steering counts them: what it did not let sink below
            its band is missing.
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
        """N(s, a, s') as an array (S, A, S), made anew at each call."""
        return self.observed.dense()

    def mean_costs(self) -> Floats:
        """Empirical means (m + 1, S, A), 0 for pairs never visited."""
        means = np.empty(self.cost_sums.shape)
        kernels.mean_costs(self.cost_sums, self.visits, means)
        return means

    def mean_transitions(self) -> Floats:
        """p_hat (S, A, S), rows of zeros for pairs never visited."""
        return kernels.means(*self.observed.chains, self.visits)


@dataclass(frozen=True, eq=False, init=False)
class Plan:
    """What to do until the next plan.

    Attributes:
        policy: (L, S, A); L = 1 is stationary, else row l is for the l-th step of the plan. Actions that are not
            available have probability zero.
        steered: several policies to choose between as the excess of the limits asks for; then the policy, L = 1, is
            what mixes them by chance, and acts only where none of them comes. None: the policy acts.
        max_length, count_limit: the stopping rule, see the module's docstring; count_limit (S, A) or None.
        phase: "exploit", or "explore" for steps that are not taken to be optimal.
        feasible: whether the constraints could be met in the model planned with.
        value: the optimum of the model planned with; nan if there is none.
        connected: False if in some state no way into the optimal states was known, and it acts uniformly.
        solver: what found the policy, "compiled" or "highs"; "" for none of them.
        carry: plain arrays that the next plan may start from.
        multipliers: (m,), the shadow prices of the limits in the model planned with; None if it has none.
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
    ) -> None:
        # All at once: a frozen class sets its fields one by one, in three times the time.
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
        )


@dataclass(frozen=True, eq=False)
class Agent(ABC):
    """An algorithm with its parameters; `problem` is all it knows of the environment.

    A new agent derives from this class as a frozen dataclass, adds its parameters as fields with defaults, and
    implements `plan` as a pure function of (memory, rng).
    """

    sees_model: ClassVar[bool] = False
    """Whether it takes the true model, as the parameter `model`; agents that learn do not."""
    own_kernels: ClassVar[bool] = False
    """Whether most of what it computes are kernels that no other agent needs."""
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
        """The next plan."""

    @property
    def name(self) -> str:
        """The name in tables."""
        return type(self).__name__

    def with_problem(self, problem: Problem) -> Self:
        """This agent for the problem that it plans in: `Problem.normalized`, with costs in [0, 1] and the states "
        "seen."""
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
        """Whether it asks what each move cost, to be found in `memory.observed.spent`; else pairs are enough."""
        return False

    def costs(self, memory: Memory) -> Floats:
        """The costs to plan with: the known ones, else their empirical means."""
        return memory.mean_costs() if self.problem.costs is None else self.problem.costs

    def uniform_plan(self, **fields: Any) -> Plan:
        """The uniform policy over the actions that are available, as a plan."""
        return Plan(self.problem.uniform[np.newaxis], **({"phase": "explore"} | fields))
