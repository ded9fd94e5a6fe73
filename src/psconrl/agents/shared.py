"""Pieces that several agents share: planning with a model they believe in, and estimates of unseen pairs."""

import numpy as np
from scipy import sparse

from psconrl._checks import Bools, Floats, Ints
from psconrl.agents.contract import Memory, Plan
from psconrl.agents.schedules import Stop
from psconrl.planning.inner import BestPolicy, best_policy
from psconrl.planning.shortest import fastest_way


def plan_in(
    transitions: Floats, costs: Floats, thresholds: Floats, memory: Memory, stop: Stop, warm: bool = True
) -> BestPolicy:
    """The best policy in a believed model (S, A, S), if warm started from the basis of the plan before."""
    length = min(stop["max_length"], max(memory.horizon - memory.t, 1))
    return best_policy(
        transitions,
        costs,
        thresholds,
        join=1.0 / np.sqrt(max(length, 4)),
        basis=memory.carry.get("basis") if warm else None,
    )


def exploit(best: BestPolicy, stop: Stop) -> Plan:
    """The plan that executes a best policy."""
    assert best.policy is not None
    assert best.basis is not None
    return Plan(
        best.policy[np.newaxis],
        **stop,
        value=best.value,
        connected=best.connected,
        carry={"basis": best.basis},
    )


def keep_basis(memory: Memory) -> dict[str, Ints]:
    """The carry of a plan that made no basis of its own: the last one."""
    return {"basis": memory.carry["basis"]} if "basis" in memory.carry else {}


def empirical_transitions(memory: Memory) -> Floats:
    """p_hat (S, A, S); pairs never visited lead uniformly to the states seen so far."""
    p = memory.mean_transitions()
    seen: Bools = np.asarray(memory.counts.any(axis=(0, 1)) | memory.visits.any(axis=1))
    seen[memory.state] = True
    p[memory.visits == 0] = seen / seen.sum()
    return p


def to_least_visited(transitions: Floats, visits: Ints) -> tuple[Floats, bool]:
    """The fastest way to the least visited state, and there the least tried action: a policy (S, A).

    Also says whether there is such a way from every state; where there is none, it is uniform.
    """
    S, A = visits.shape
    target = int(np.argmin(visits.sum(axis=1)))
    targets = np.zeros(S, dtype=np.bool_)
    targets[target] = True
    _, actions = fastest_way(sparse.csr_array(transitions.reshape(S * A, S)), targets)
    actions[target] = np.argmin(visits[target])
    policy = np.full((S, A), 1.0 / A)
    found = np.flatnonzero(actions >= 0)
    policy[found] = 0.0
    policy[found, actions[found]] = 1.0
    return policy, len(found) == S
