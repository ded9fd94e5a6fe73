"""The agents as the authors' released code has them, under names of their own.

They differ from the papers' algorithms in

support     in states without occupancy the policy is uniform, so that several recurrent classes stay apart
floor       PSConRL draws from Dirichlet(max(N, floor)) instead of Dirichlet(prior + N)
impute      where pairs never visited lead in an estimated model: "self_loop", nowhere; "dirichlet", to a distribution
            drawn afresh from Dirichlet(1, ..., 1)
costs       with the bonus they may leave [0, 1]
episodes    those of PSConRL and ConRL end with the step that brings a pair to 3 (1 + N_k) plays
h           UCRL-CMDP in C-UCRL's episodes: k h steps, the first h of which are uniform

Importing this module registers them; every process that runs them must import it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

import numpy as np
from scipy import sparse
from scipy.sparse import csgraph

from psconrl.agents import (
    CUCRL,
    FOREVER,
    UCRLCMDP,
    ConRL,
    EstimatingAgent,
    LimitedAgent,
    Memory,
    Model,
    Plan,
    PSConRL,
    Stop,
    as_array,
    plan_in,
    register,
    schedules,
)
from psconrl.errors import InvalidArgumentError
from psconrl.planning import BestPolicy
from reproduction import Bools, Floats

Impute = Literal["self_loop", "dirichlet"]

RELEASED = {
    "PSConRL": "PSConRL-released",
    "ConRL": "ConRL-released",
    "C-UCRL": "C-UCRL-released",
    "UCRL-CMDP": "UCRL-CMDP-released",
}
"""The names of the agents of this module, by those of the algorithms."""

ALGORITHM = {released: name for name, released in RELEASED.items()}


def quadrupling(memory: Memory) -> Stop:
    """The schedule of the released code: until v_k(s, a) = 3 (1 + N_k(s, a)) for some pair, however long that takes."""
    return Stop(max_length=FOREVER, count_limit=4 * memory.visits + 2)


def plan_without_paths(
    model: Model, costs: Floats, limits: Floats, memory: Memory, stop: Stop, **how: Any
) -> BestPolicy:
    """`plan_in`, uniform in states without occupancy; how: further arguments of it."""
    best = plan_in(model, costs, limits, memory, stop, join=0.0, **how)
    if best.policy is None:
        return best
    available = memory.pairs.available
    uniform = available / available.sum(axis=1, keepdims=True)
    inside = on_support(as_array(model, memory), best, available)
    return best._replace(policy=np.where(inside[:, np.newaxis], best.policy, uniform))


def on_support(p: Floats, best: BestPolicy, available: Bools) -> Bools:
    """The states in which a best policy whose classes were not joined has occupancy: its recurrent classes."""
    policy = best.policy
    assert policy is not None
    # On a trip between classes that gets no share of time nothing is planned, and where no path is known the policy is
    # uniform: neither has occupancy, though no edge may lead out.
    planned = policy.sum(axis=1) > 0.5
    if not best.connected:
        planned &= (policy != available / available.sum(axis=1, keepdims=True)).any(axis=1)
    chain = sparse.csr_array(np.einsum("sa,sax->sx", policy, p))
    count, labels = csgraph.connected_components(chain, connection="strong")
    edges = chain.tocoo()
    recurrent = np.ones(count, dtype=np.bool_)
    recurrent[labels[edges.row[labels[edges.row] != labels[edges.col]]]] = False
    recurrent[labels[~planned]] = False
    return np.asarray(recurrent[labels])


@dataclass(frozen=True, eq=False)
class ReleasedAgent(LimitedAgent):
    """An agent that acts uniformly in states without occupancy."""

    def best(self, model: Model, costs: Floats, limits: Floats, memory: Memory, stop: Stop) -> BestPolicy:
        """The best policy in a believed model, uniform in states without occupancy."""
        return plan_without_paths(
            model, costs, limits, memory, stop, steer=self.steer(memory, stop), **self.planner_options
        )

    @property
    def planner_options(self) -> dict[str, Any]:
        """Further arguments of the planner."""
        return {}


@dataclass(frozen=True, eq=False)
class ReleasedPSConRL(ReleasedAgent, PSConRL):
    """PSConRL as its authors' code has it."""

    floor: float = 0.05

    def __post_init__(self) -> None:
        if not (isinstance(self.floor, (int, float)) and 0 < self.floor <= 1):
            raise InvalidArgumentError(f"floor is {self.floor!r}; it must be a number in (0, 1]")
        super().__post_init__()
        if self.parameters is None:
            raise InvalidArgumentError('prior is "learned"; the released code has none: give numbers')

    def sample(self, memory: Memory, rng: np.random.Generator) -> Any:
        """p_k from the posterior with the floor in place of the prior."""
        unseen = (memory.counts == 0).astype(np.float64)
        unseen[~unseen.any(axis=2)] = 1e-300  # a row must have some prior: this much adds nothing
        return PSConRL(self.problem, prior=self.floor * unseen).sample(memory, rng)

    def schedule(self, memory: Memory) -> Stop:
        """When the next plan ends."""
        return quadrupling(memory)


@dataclass(frozen=True, eq=False)
class ReleasedEstimator(ReleasedAgent, EstimatingAgent):
    """An agent with other estimates of pairs never visited, and costs that may leave [0, 1]."""

    impute: Impute = "dirichlet"

    def __post_init__(self) -> None:
        choices = get_args(Impute)
        if self.impute not in choices:
            raise InvalidArgumentError(f"impute is {self.impute!r}; it must be one of {', '.join(choices)}")
        super().__post_init__()

    @property
    def planner_options(self) -> dict[str, Any]:
        """Self-loops cut a model into many parts with few moves each, where the linear program is faster."""
        return {"method": "highs"} if self.impute == "self_loop" else {}

    def estimate(self, memory: Memory, rng: np.random.Generator) -> Model:
        """The transitions to plan with (S, A, S), with the rule for pairs never visited."""
        p = memory.mean_transitions()
        s, a = np.nonzero((memory.visits == 0) & memory.pairs.available)
        if self.impute == "self_loop":
            p[s, a, s] = 1.0
        else:
            drawn = rng.standard_exponential((len(s), len(p)))
            p[s, a] = drawn / drawn.sum(axis=1, keepdims=True)
        return p

    def clip_costs(self, costs: Floats) -> Floats:
        """The costs after the bonus, as they are."""
        return costs


@dataclass(frozen=True, eq=False)
class ReleasedConRL(ReleasedEstimator, ConRL):
    """ConRL as the code of PSConRL's authors has it."""

    def schedule(self, memory: Memory) -> Stop:
        """When the next plan ends."""
        return quadrupling(memory)


@dataclass(frozen=True, eq=False)
class ReleasedCUCRL(ReleasedEstimator, CUCRL):
    """C-UCRL as the code of PSConRL's authors has it."""

    impute: Impute = "self_loop"


@dataclass(frozen=True, eq=False)
class ReleasedUCRLCMDP(UCRLCMDP):
    """UCRL-CMDP in the episodes of C-UCRL; the authors solve a relaxation by SLSQP, this is the exact optimum."""

    h: int = 50

    def __post_init__(self) -> None:
        if not isinstance(self.h, int) or self.h < 1:
            raise InvalidArgumentError(f"h is {self.h!r}; it must be a whole number of at least 1")
        super().__post_init__()

    def schedule(self, memory: Memory) -> Stop:
        """When the planned phase ends."""
        return schedules.fixed((schedules.Position.of(memory).k - 1) * self.h)

    def plan(self, memory: Memory, rng: np.random.Generator) -> Plan:
        """The uniform policy for h steps, then the planned one for (k - 1) h, in turn."""
        at = schedules.Position.of(memory)
        if at.baseline_next:
            return self.uniform_plan(**schedules.fixed(self.h), carry={**memory.carry, **at.exploring(memory)})
        plan = super().plan(memory, rng)
        return replace(plan, carry={**plan.carry, **at.done()})


for _algorithm, _agent in (
    ("PSConRL", ReleasedPSConRL),
    ("ConRL", ReleasedConRL),
    ("C-UCRL", ReleasedCUCRL),
    ("UCRL-CMDP", ReleasedUCRLCMDP),
):
    register(_agent, RELEASED[_algorithm])
