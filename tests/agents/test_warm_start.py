"""What an agent's last plan left saves work; it changes nothing that matters."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from psconrl import agents, make, simulate, solve
from psconrl.agents import Memory, Plan, registry

STARTS = {"bias", "columns", "multipliers", "policies", "reference", "way"}
"""What a carry holds for the planner to start from, and for nothing else."""
PLANNING = [name for name, kind in registry().items() if kind.uses_planner]


def without_starts(agent: type[agents.Agent]) -> type[agents.Agent]:
    """The agent, each of its plans made from nothing."""

    class Cold(agent):  # type: ignore[misc, valid-type]
        def plan(self, memory: Memory, rng: np.random.Generator) -> Plan:
            kept = {key: value for key, value in memory.carry.items() if key not in STARTS}
            plan: Plan = super().plan(replace(memory, carry=kept), rng)
            return plan

    return Cold


@pytest.mark.parametrize("name", sorted(name for name in PLANNING if name != "Optimal"))
def test_a_warm_start_does_not_keep_an_agent_from_learning(name: str) -> None:
    """With known costs nothing but what is believed of states off the plan leads an agent to what it never tried.

    Regret of the uniform policy is 1,000 here. Those who learn have 10 to 250; warm or not makes less than 60 in the
    mean of three runs.
    """
    cmdp = make("marsrover-4x4")
    optimum = solve(cmdp).value
    settings: dict[str, Any] = (
        {"bonus": "simple", "scale": 0.1} if name in ("ConRL", "C-UCRL", "UCRL-CMDP", "FHA") else {}
    )
    warm, cold = (
        np.mean(
            [
                simulate(kind(cmdp.problem("known"), **settings), cmdp, 5_000, seed, optimum=optimum).regret[-1]
                for seed in range(3)
            ]
        )
        for kind in (registry()[name], without_starts(registry()[name]))
    )
    assert abs(warm - cold) < 60
