"""Pieces that several agents share: planning with a model they believe in, and estimates of unseen pairs."""

import math
from typing import TYPE_CHECKING

import numpy as np

from psconrl._checks import Floats, Ints
from psconrl._lazy import late
from psconrl.agents.contract import Memory, Plan
from psconrl.agents.schedules import Stop
from psconrl.planning.compiled.rows import Rows
from psconrl.planning.compiled.shortest_path import fastest_way
from psconrl.planning.for_agents import BestPolicy, plan_rows

if TYPE_CHECKING:
    from psconrl.agents import _counts_kernels as kernels
else:
    kernels = late("psconrl.agents._counts_kernels")


def plan_in(rows: Rows, costs: Floats, thresholds: Floats, memory: Memory, stop: Stop, warm: bool = True) -> BestPolicy:
    """The best policy in a believed model, if warm started from what the plan before left."""
    join = 1.0 / math.sqrt(max(stop["max_length"], 4))
    return plan_rows(rows, costs, thresholds, join=join, start=memory.carry if warm else None)


def exploit(best: BestPolicy, stop: Stop, memory: Memory) -> Plan:
    """The plan that executes a best policy; what an agent carries besides stays."""
    assert best.policy is not None
    return Plan(
        best.policy[np.newaxis],
        **stop,
        value=best.value,
        connected=best.connected,
        solver=best.method,
        carry={**memory.carry, **best.start},
    )


def empirical_transitions(memory: Memory) -> Rows:
    """p_hat by rows; pairs never visited lead uniformly to the states seen so far."""
    observed = memory.observed
    indptr, indices, data = kernels.empirical(*observed.chains, int(observed.used[0]), memory.visits, memory.state)
    return Rows(np.arange(0, observed.S * observed.A + 1, observed.A), indptr, indices, data)


def to_least_visited(rows: Rows, visits: Ints) -> tuple[Floats, bool]:
    """The fastest way to the least visited state, and there the least tried action: a policy (S, A).

    Also says whether there is such a way from every state; where there is none, it is uniform.
    """
    S, A = visits.shape
    target = int(np.argmin(visits.sum(axis=1)))
    targets = np.zeros(S, dtype=np.bool_)
    targets[target] = True
    pairs = fastest_way(rows, targets).pairs
    actions = np.where(pairs >= 0, pairs - rows.begin[:-1], -1)
    actions[target] = np.argmin(visits[target])
    policy = np.full((S, A), 1.0 / A)
    found = np.flatnonzero(actions >= 0)
    policy[found] = 0.0
    policy[found, actions[found]] = 1.0
    return policy, len(found) == S
