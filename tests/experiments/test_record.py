"""One run as a row: everything comes back, and equal runs are equal bytes."""

from __future__ import annotations

import numpy as np
import pytest

import psconrl
from psconrl.agents import find
from psconrl.experiments import Cell, run_cell, run_one
from psconrl.experiments.record import from_bytes, to_bytes, to_table


@pytest.mark.parametrize("evaluate_policies", [False, True])
@pytest.mark.parametrize(("env", "agent"), [("toy", "psconrl"), ("queue", "uniform"), ("marsrover-4x4", "c-ucrl")])
def test_the_record_is_the_run(env: str, agent: str, evaluate_policies: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_one, "EVALUATED_STATES", 1)  # in smaller models all plans are evaluated anyway
    cell = Cell(env, agent, 300, checkpoints=60, evaluate_policies=evaluate_policies)
    record = from_bytes(to_bytes(run_cell(cell, 5)))
    cmdp = psconrl.make(env)
    solution = psconrl.solve(cmdp)
    run = psconrl.simulate(
        find(agent)(cmdp.problem()),
        cmdp,
        300,
        5,
        checkpoints=60,
        optimum=solution,
        evaluate_policies=evaluate_policies,
    )
    assert record.optimum == solution.value
    curves = ("grid", "cumulative", "cumulative_excess", "peaks", "thresholds", "regret", "violation")
    measures = ("multipliers", "lagrangian", "positive_violation", "largest_violation", "policy_violation")
    for name in (*curves, *measures):
        np.testing.assert_array_equal(getattr(record, name), getattr(run, name))
    assert record.episodes.dtype == run.episodes.dtype
    assert record.episodes.tobytes() == run.episodes.tobytes()
    assert len(record.snapshots) == len(run.snapshots)
    for mine, theirs in zip(record.snapshots, run.snapshots, strict=True):
        assert mine.start == theirs.start
        np.testing.assert_array_equal(mine.policy, theirs.policy)
        np.testing.assert_array_equal(mine.visits, theirs.visits)


def test_small_models_have_the_averages_of_all_plans() -> None:
    record = from_bytes(to_bytes(run_cell(Cell("toy", "psconrl", 50), 0)))
    assert record.episodes["average_costs"].shape == (len(record.episodes), 2)
    assert np.isfinite(record.policy_violation).all()


def test_equal_runs_are_equal_bytes() -> None:
    cell = Cell("toy", "psconrl", 200)
    content = to_bytes(run_cell(cell, 1))
    assert to_bytes(run_cell(cell, 1)) == content
    assert to_bytes(to_table(from_bytes(content))) == content
    assert to_bytes(run_cell(cell, 2)) != content


def test_a_model_for_each_seed() -> None:
    cell = Cell("garnet", "optimal", 50, seed_option="seed")
    records = [from_bytes(to_bytes(run_cell(cell, seed))) for seed in range(3)]
    assert [record.env_options for record in records] == [{"seed": seed} for seed in range(3)]
    assert len({record.optimum for record in records}) == 3
    assert len({record.cell for record in records}) == 1


def test_infeasible_models_have_no_optimum() -> None:
    record = from_bytes(to_bytes(run_cell(Cell("toy", "uniform", 50, env_options={"tau": 0.1}), 0)))
    assert np.isnan(record.optimum)
    assert np.isnan(record.regret).all()
    assert record.margin < 0
