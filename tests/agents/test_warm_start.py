"""What an agent's last plan left saves work; it changes nothing that matters."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from psconrl import agents, make, simulate, solve
from psconrl.agents import Memory, Plan, registry

STARTS = {"bias", "columns", "multipliers", "policies", "reference", "paths"}
"""What a carry holds for the planner to start from, and for nothing else."""
PLANNING = sorted(name for name, kind in registry().items() if kind.uses_planner and name != "Optimal")


def settings(name: str) -> dict[str, Any]:
    return {"bonus": "simple", "scale": 0.1} if name in ("ConRL", "C-UCRL", "UCRL-CMDP", "FHA") else {}


def cold(memory: Memory) -> Memory:
    """The same without anything to start from."""
    return replace(memory, carry={key: value for key, value in memory.carry.items() if key not in STARTS})


def without_starts(agent: type[agents.Agent]) -> type[agents.Agent]:
    """The agent, each of its plans made from nothing."""

    class Cold(agent):  # type: ignore[misc, valid-type]
        def plan(self, memory: Memory, rng: np.random.Generator) -> Plan:
            plan: Plan = super().plan(cold(memory), rng)
            return plan

    return Cold


@pytest.mark.parametrize("name", PLANNING)
def test_a_warm_start_does_not_keep_an_agent_from_learning(name: str) -> None:
    """With known costs nothing but what is believed of states off the plan leads an agent to what it never tried.

    Regret of the uniform policy is 1,000 here. Those who learn have 10 to 250; warm or not makes less than 60 in the
    mean of three runs.
    """
    cmdp = make("marsrover-4x4")
    optimum = solve(cmdp).value
    warm, fresh = (
        np.mean(
            [
                simulate(kind(cmdp.problem("known"), **settings(name)), cmdp, 5_000, seed, optimum=optimum).regret[-1]
                for seed in range(3)
            ]
        )
        for kind in (registry()[name], without_starts(registry()[name]))
    )
    assert abs(warm - fresh) < 60


@pytest.mark.parametrize("name", PLANNING)
def test_plans_act_alike_wherever_something_is_untried(name: str) -> None:
    """At every plan of a run, made from the last one and made from nothing with the same random numbers.

    Costs are random, so that hardly any two policies are equally good; what ties are left are below 1% of the states.
    """
    cmdp = make("garnet", S=20, A=3, seed=1)
    differ: list[np.ndarray] = []

    class Twice(registry()[name]):  # type: ignore[misc]
        def plan(self, memory: Memory, rng: np.random.Generator) -> Plan:
            twin = np.random.default_rng()
            twin.bit_generator.state = rng.bit_generator.state
            fresh = super().plan(cold(memory), twin)
            plan: Plan = super().plan(memory, rng)
            assert plan.value == pytest.approx(fresh.value, abs=1e-9, nan_ok=True)
            untried = (memory.visits < memory.pairs.available).any(axis=1)
            differ.append(np.abs(plan.policy - fresh.policy).max(axis=(0, 2))[untried] > 1e-6)
            return plan

    simulate(Twice(cmdp.problem("known"), **settings(name)), cmdp, 600, 0)
    assert np.concatenate(differ).mean() < 0.01
