"""The recommended agent: its plans against linear programs of their own, and what it does where limits are too low."""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np
import pytest
from scipy.optimize import linprog

from psconrl import CMDP, Learner, Problem, agents, make, simulate, solve
from psconrl._core.checks import Floats
from psconrl.agents import Memory, Model
from psconrl.agents.sampled_model import SampledModel
from psconrl.agents.schedules import Stop
from psconrl.errors import LimitsOutOfReachWarning
from psconrl.planning.compiled.rows import Rows
from psconrl.planning.for_agents import BestPolicy
from tests.learning.walk import Recording

CALLS: list[tuple[Floats, bool]] = []


def complete(rows: Rows) -> Floats:
    """The transitions (K, S) of rows; what is missing to one stays."""
    p = rows.matrix().toarray()
    p[np.arange(rows.K), rows.source] += 1.0 - p.sum(axis=1)
    return np.asarray(p)


def plain(rows: Rows, costs: Floats, limits: Floats, margin: bool) -> float | None:
    """The optimum of the stateless program, or the largest margin of its limits; None if it is infeasible."""
    K, m = rows.K, len(limits)
    flow = np.zeros((rows.S + 1, K + 1))
    flow[rows.source, np.arange(K)] = 1.0
    flow[: rows.S, :K] -= complete(rows).T
    flow[rows.S, :K] = 1.0
    right = np.append(np.zeros(rows.S), 1.0)
    below = np.hstack([costs[1:], np.full((m, 1), float(margin))])
    objective = np.append(np.zeros(K), -1.0) if margin else np.append(costs[0], 0.0)
    bounds = [(0.0, None)] * K + [(None, None) if margin else (0.0, 0.0)]
    found = linprog(objective, below, limits, flow, right, bounds)
    return (-found.fun if margin else found.fun) if found.success else None


@dataclass(frozen=True, eq=False)
class Witness(agents.Recommended):
    """The recommended agent, its plans held against the twin's."""

    def best(self, model: Model, costs: Floats, limits: Floats, memory: Memory, stop: Stop) -> BestPolicy:
        found = super().best(model, costs, limits, memory, stop)
        assert isinstance(model, SampledModel)
        rows, own = model.planned, model.own_costs(costs)
        owed = np.minimum(np.maximum(memory.excess, 0.0) / max(memory.t, 1), limits / 2)
        value = plain(rows, own, limits - owed, margin=False)
        fits = value is not None
        if not fits:
            margin = plain(rows, own, limits, margin=True)
            assert margin is not None
            owed = np.minimum(owed, max(margin, 0.0) / 2)
            value = plain(rows, own, limits - owed, margin=False)
        assert found.feasible == (value is not None)
        if value is not None:
            np.testing.assert_allclose(found.value, value, atol=1e-7)
            assert found.steered is not None
            np.testing.assert_array_equal(found.steered.limits, limits)
            assert (found.steered.weights @ found.steered.drifts <= -owed + 1e-7).all()
        CALLS.append((owed, fits))
        return found


@pytest.mark.parametrize(("env", "options", "T"), [("hospital", {}, 200), ("garnet", {"m": 3, "margin": 0.01}, 300)])
def test_plans_keep_limits_that_are_lower_by_the_mean_excess(env: str, options: dict[str, float], T: int) -> None:
    cmdp = make(env, **options)
    CALLS.clear()
    simulate(Witness(cmdp.problem()), cmdp, T, 1)
    assert any(owed.any() for owed, _ in CALLS)


def test_what_learning_exceeded_is_paid_back() -> None:
    """In four runs in the ward, against the same agent that does not pay."""
    ward = make("hospital")
    kept, owing = (
        [simulate(agent, ward, 3_000, seed).cumulative[2, -1] - 3_000 * ward.thresholds[1] for seed in range(4)]
        for agent in (
            agents.recommended(ward.problem()),
            agents.PSConRL(ward.problem(), "learned", "nearest", execution="steered", restarts=True),
        )
    )
    assert np.mean(kept) < 0.85 * np.mean(owing)


@dataclass(frozen=True, eq=False)
class DiscountedWitness(agents.PSConRL):
    """PSConRL with restarts, its plans held against the discounted program from the current state."""

    def best(self, model: Model, costs: Floats, limits: Floats, memory: Memory, stop: Stop) -> BestPolicy:
        found = super().best(model, costs, limits, memory, stop)
        assert isinstance(model, SampledModel)
        rows, own = model.rows, model.own_costs(costs)
        discount = 1.0 - 1.0 / (10 * min(stop["max_length"], max(memory.t, 1)) + rows.S)
        flow = -discount * complete(rows).T
        flow[rows.source, np.arange(rows.K)] += 1.0
        start = np.where(model.states == memory.state, 1.0 - discount, 0.0)
        twin = linprog(own[0], own[1:], limits, flow, start, [(0.0, None)] * rows.K)
        assert twin.success == found.feasible
        if found.feasible:
            np.testing.assert_allclose(found.value, twin.fun, atol=1e-7)
        CALLS.append((limits, found.feasible))
        return found


@pytest.mark.parametrize("prior", [0.1, "learned"])
def test_restarts_plan_for_the_discounted_costs_of_the_next_steps(prior: float | str) -> None:
    cmdp = make("garnet", S=6, A=3, m=2, margin=0.05, seed=2)
    CALLS.clear()
    simulate(DiscountedWitness(cmdp.problem(), prior=prior, restarts=True), cmdp, 300, 0)
    assert sum(feasible for _, feasible in CALLS) > 20


def test_limits_that_cannot_be_met_are_missed_by_as_little_as_possible() -> None:
    """The toy's first limit cannot be met; the second, on the same cost, can, and is not given up."""
    toy = make("toy", tau=0.3)
    cmdp = CMDP(toy.transitions, np.concatenate([toy.costs, 1.0 - toy.costs[1:]]), [0.3, 0.6])
    least, T = -solve(cmdp).margin, 4_000
    agent = Recording(agents.recommended(cmdp.problem()))
    run = simulate(agent, cmdp, T, 0)
    assert (run.violation[:, -1].max() / T) <= 1.2 * least
    missed = [plan for _, plan in agent.plans if not plan.feasible]
    assert len(missed) > 0.9 * len(agent.plans)
    assert all(plan.phase == "exploit" and plan.nearest is not None for plan in missed)
    nearest = missed[-1].nearest
    assert nearest is not None
    assert nearest[0] == pytest.approx(0.3 + least, abs=0.02)
    assert nearest[1] == 0.6


def test_who_sets_limits_out_of_reach_is_told_what_can_be_met() -> None:
    toy = make("toy", tau=0.3)
    learner = Learner(None, problem=Problem(2, 2, {"waiting": 0.3}, cost_ranges=[(0, 1), (0, 1)]))
    rng, s, told = np.random.default_rng(np.random.SeedSequence(1)), 0, list[warnings.WarningMessage]()
    for _ in range(600):
        with warnings.catch_warnings(record=True, action="always") as caught:
            a = learner.act(s)
        told += caught
        after = int(rng.choice(2, p=toy.transitions[s, a]))
        learner.observe(s, a, toy.costs[:, s, a], after)
        s = after
    assert [w.category for w in told] == [LimitsOutOfReachWarning]
    assert "waiting" in str(told[0].message)
    status = simulate(agents.recommended(toy.problem()), toy, 600, 0).status()
    assert status["infeasible_plans"] > 0.8 * status["plans"]
    (nearest,) = status["nearest"].values()
    assert nearest == pytest.approx(1 / 1.9, abs=0.05)


def test_limits_of_zero_are_kept_together() -> None:
    """What lowers one limit may raise the other; both can be met, and nothing can be paid back."""
    ward = make("hospital").replace(thresholds=[0.0, 0.0])
    run = simulate(agents.recommended(ward.problem()), ward, 5_000, 0)
    assert (run.violation[:, -1] < 100).all()
