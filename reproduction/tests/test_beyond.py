"""The recommended agent beside others: equal budgets, the setting with the least score, and tables of known numbers."""

import json

import numpy as np
import pytest

from psconrl.agents import registry
from psconrl.analysis import Group, group, worst_tenth
from psconrl.environments import make
from psconrl.experiments import RunRecord
from reproduction import beyond
from reproduction.agents import ALGORITHM
from tests.analysis.synthetic import cell_records, episodes

WORLD = beyond.WORLDS[0]
REGRETS = {"Recommended": 0.01, "PSConRL": 0.02, "ConRL": 0.05, "Uniform": 0.2, "Optimal": 0.0}


def groups(seeds: int) -> dict[str, Group]:
    """Runs whose regret grows a little from cell to cell."""
    records: list[RunRecord] = []
    for cell in (cell for cell in beyond.cells(WORLD) if cell.agent in REGRETS):
        excess = 0.1 if cell.agent == "ConRL" else -0.1
        table = episodes([0], cell.horizon, averages=[[0.5, 0.2 + excess]])
        rate = 0.5 + REGRETS[cell.agent] + 0.01 * len(records) / 1000
        records += cell_records(
            cell, seeds, rate, 0.2 + excess, spread=1e-4, optimum=0.5, thresholds=(0.2,), table=table
        )
    return group(records)


def test_every_agent_has_at_most_five_settings_and_runs_where_it_can() -> None:
    library = set(registry()) - set(ALGORITHM)
    assert set(beyond.AGENTS) <= library
    assert all(1 <= len(settings) <= 5 for settings in beyond.AGENTS.values())
    for world in beyond.WORLDS:
        assert world.states == make(world.env, **world.options).S <= 512  # so that all policies are evaluated
        slow = set(beyond.SLOW) if world.states > 64 else set()
        assert {cell.agent for cell in beyond.cells(world)} == set(beyond.AGENTS) - slow


def test_scores_are_what_is_lost_and_what_is_exceeded() -> None:
    found = groups(2)
    for cell, score in beyond.scores(found).items():
        signed = found[cell].cumulative[:, :, -1] - np.array([0.5, 0.2]) * WORLD.horizon
        expected = signed[:, 0] + 0.5 * signed[:, 1] + np.maximum(signed[:, 1], 0)
        assert score == pytest.approx(expected.mean())


def test_the_worst_tenth() -> None:
    assert worst_tenth(np.arange(30.0)) == pytest.approx(28.0)
    assert worst_tenth(np.array([3.0, 1.0])) == 3.0


def test_the_recommended_agent_beside_the_published_one_and_the_best_rival() -> None:
    found = groups(beyond.TUNING + 4)
    document = json.loads(json.dumps(beyond.document(found)))
    (row,) = document["worlds"]
    assert row["seeds"] == 4
    assert row["ratio"]["mean"] == pytest.approx(row["own"]["L"]["mean"] / row["published"]["L"]["mean"])
    assert row["ratio"]["low"] <= row["ratio"]["mean"] <= row["ratio"]["high"]
    # Of the settings of PSConRL the first has the least regret; the published one is another.
    assert (row["rival"]["agent"], row["rival"]["setting"], row["rival"]["of"]) == ("PSConRL", "prior = 0.0001", 2)
    assert row["rival"]["L"]["mean"] < row["published"]["L"]["mean"]
    assert row["own"]["policies"] == row["own"]["violation"] == 0.0
    for table in (beyond.untuned_table, beyond.rivals_table, beyond.short_table):
        assert table(document).count("\n") == 3
    assert beyond.untuned_made(document) == "*`python benchmarks/recommended.py OUT`, code code*\n"


def test_runs_that_only_served_to_choose_are_not_reported() -> None:
    assert beyond.document(groups(beyond.TUNING)) is None
    found = groups(beyond.TUNING + 4)
    assert beyond.document({cell: g for cell, g in found.items() if cell != beyond.published(WORLD).id}) is None


def test_rivals_that_were_not_run_again_stay_with_the_code_that_made_them() -> None:
    found = groups(beyond.TUNING + 4)
    before = beyond.document(found)
    assert before is not None
    before["worlds"][0]["rival"]["code"] = "earlier"
    own = {cell: g for cell, g in found.items() if g.agent == "Recommended" or cell == beyond.published(WORLD).id}
    now = beyond.document(own)
    assert now is not None
    assert now["worlds"][0]["rival"] is None
    assert beyond.rivals_table(now).count("\n") == 2
    whole = beyond.completed(now, before)
    assert whole["worlds"] == before["worlds"]
    assert "rivals by code earlier*" in beyond.rivals_made(whole)
    assert whole["code"] == "code, earlier"
    assert beyond.completed(before, before) == beyond.completed(whole, before)
