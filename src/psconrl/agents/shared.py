"""Pieces that several agents share: planning with a model they believe in, and estimates of unseen pairs."""

import math
from typing import TYPE_CHECKING

import numpy as np

from psconrl._checks import Floats, Ints
from psconrl._lazy import late
from psconrl.agents.contract import FOREVER, Memory, Plan
from psconrl.agents.schedules import Stop
from psconrl.pairs import Pairs
from psconrl.planning.compiled.rows import Rows
from psconrl.planning.compiled.shortest_path import fastest_way
from psconrl.planning.for_agents import BestPolicy, plan_rows
from psconrl.planning.model_rows import with_pairs

if TYPE_CHECKING:
    from psconrl.agents import _counts_kernels as kernels
else:
    kernels = late("psconrl.agents._counts_kernels")


def plan_in(rows: Rows, costs: Floats, thresholds: Floats, memory: Memory, stop: Stop, warm: bool = True) -> BestPolicy:
    """The best policy in a believed model, if warm started from what the plan before left.

    rows: of the pairs that are available, or of all. costs (m + 1, S, A).
    """
    pairs, start = memory.pairs, memory.carry if warm else None
    join = 1.0 / math.sqrt(max(stop["max_length"], 4))
    if pairs.every:
        return plan_rows(rows, costs, thresholds, join=join, start=start)
    best = plan_rows(with_pairs(rows, pairs), pairs.taken(costs), thresholds, join=join, start=start)
    return best if best.policy is None else best._replace(policy=pairs.table(best.policy.ravel()))


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
    rows = Rows(np.arange(0, observed.S * observed.A + 1, observed.A), indptr, indices, data)
    return with_pairs(rows, memory.pairs)


def to_least_visited(rows: Rows, visits: Ints, pairs: Pairs | None = None) -> tuple[Floats, bool]:
    """The fastest way to the least visited state, and there the least tried action: a policy (S, A).

    Also says whether there is such a way from every state; where there is none, it is uniform. pairs: those that are
    available; all if left out.
    """
    S, A = visits.shape
    pairs = Pairs.all(S, A) if pairs is None else pairs
    target = int(np.argmin(visits.sum(axis=1)))
    targets = np.zeros(S, dtype=np.bool_)
    targets[target] = True
    way = fastest_way(with_pairs(rows, pairs), targets).pairs
    actions = np.where(way >= 0, pairs.actions(way), -1)
    actions[target] = np.argmin(np.where(pairs.available[target], visits[target], FOREVER))
    policy = pairs.uniform
    found = np.flatnonzero(actions >= 0)
    policy[found] = 0.0
    policy[found, actions[found]] = 1.0
    return policy, len(found) == S
