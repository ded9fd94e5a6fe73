"""Ranks in a world, against numbers that are chosen."""

from __future__ import annotations

import json

import numpy as np
import pytest

from psconrl.analysis import Group, group, worst_tenth
from psconrl.experiments import RunRecord
from reproduction import beyond, ranking
from tests.analysis.synthetic import cell_records, episodes

WORLD = beyond.worlds(True)[0]
REGRETS = {"Recommended": 0.01, "PSConRL": 0.02, "ConRL": 0.05, "Uniform": 0.2, "Optimal": 0.0}


def groups(seeds: int) -> dict[str, Group]:
    records: list[RunRecord] = []
    for cell in beyond.cells(WORLD):
        if cell.agent in REGRETS:
            excess = 0.1 if cell.agent == "ConRL" else -0.1
            table = episodes([0], cell.horizon, averages=[[0.5, 0.2 + excess]])
            rate = 0.5 + REGRETS[cell.agent] + 0.01 * len(records) / 1000
            records += cell_records(
                cell, seeds, rate, 0.2 + excess, spread=1e-4, optimum=0.5, thresholds=(0.2,), table=table
            )
    return group(records)


def test_scores_are_what_is_lost_and_what_is_exceeded() -> None:
    found = groups(2)
    for cell, score in ranking.scores(found).items():
        signed = found[cell].cumulative[:, :, -1] - np.array([0.5, 0.2]) * WORLD.horizon
        expected = signed[:, 0] + 0.5 * signed[:, 1] + np.maximum(signed[:, 1], 0)
        assert score == pytest.approx(expected.mean())


def test_agents_are_ranked_by_every_measure_on_fresh_seeds() -> None:
    found = groups(6)
    (ranked,) = ranking.ranking(found)
    assert ranked.world == WORLD.name
    assert [entry.agent for entry in ranked.entries[:3]] == ["Optimal", "Recommended", "PSConRL"]
    by_agent = {entry.agent: entry for entry in ranked.entries}
    assert all(entry.seeds == 6 - beyond.tuning_seeds(True) for entry in ranked.entries)
    assert [measured.rank for measured in by_agent["Recommended"].measures] == [1, 1, 1]
    assert [measured.rank for measured in by_agent["ConRL"].measures] == [3, 3, 3]
    assert [measured.rank for measured in by_agent["Uniform"].measures] == [None] * 3
    violation = by_agent["ConRL"].measures[2]
    assert violation.interval.mean == pytest.approx(0.1 * WORLD.horizon)
    assert ranking.mean_ranks([ranked])[0] == ("Recommended", (1.0, 1.0, 1.0), 1)
    text = ranking.as_markdown([ranked])
    assert f"## {WORLD.name}, T = {WORLD.horizon}" in text
    assert text.count("| Recommended |") == 2


def test_runs_that_only_served_to_choose_are_not_ranked() -> None:
    assert ranking.ranking(groups(beyond.tuning_seeds(True))) == []


def test_the_worst_tenth() -> None:
    assert worst_tenth(np.arange(30.0)) == pytest.approx(28.0)
    assert worst_tenth(np.array([3.0, 1.0])) == 3.0


def test_the_agent_without_settings_is_held_against_psconrl_as_published() -> None:
    found = groups(6)
    (ranked,) = ranking.ranking(found)
    versus = ranked.untuned
    assert versus is not None
    assert versus.published.settings == {"prior": 0.01}
    tuned = {entry.agent: entry for entry in ranked.entries}["PSConRL"]
    assert tuned.settings == {"prior": 0.0001}  # what regret there is grows with the number of the cell
    own, theirs = (entry.measures[0].interval.mean for entry in (versus.own, versus.published))
    assert versus.ratio.mean == pytest.approx(own / theirs)
    assert versus.ratio.low <= versus.ratio.mean <= versus.ratio.high
    document = json.loads(json.dumps(ranking.untuned([ranked])))
    (row,) = document["worlds"]
    assert row["ratio"]["mean"] == pytest.approx(own / theirs)
    assert (row["rival"]["agent"], row["rival"]["setting"], row["rival"]["of"]) == ("PSConRL", "prior = 0.0001", 2)
    assert ranking.untuned_table(document).count("\n") == 3
    assert ranking.rivals_table(document).count("\n") == 3
    assert ranking.untuned_made(document) == "*`python benchmarks/recommended.py OUT`, code code*\n"
    assert ranking.document(found) is None  # these are quick runs
    assert "## Without tuning" in ranking.as_markdown([ranked])
    published = beyond.published(WORLD).id
    (alone,) = ranking.ranking({cell: group for cell, group in found.items() if cell != published})
    assert alone.untuned is None
    assert "## Without tuning" not in ranking.as_markdown([alone])


def test_rivals_that_were_not_run_again_stay_with_the_code_that_made_them() -> None:
    found = groups(6)
    before = ranking.untuned(ranking.ranking(found))
    before["worlds"][0]["rival"]["code"] = "earlier"
    both = {cell: group for cell, group in found.items() if group.agent == "Recommended"}
    both[beyond.published(WORLD).id] = found[beyond.published(WORLD).id]
    now = ranking.untuned(ranking.ranking(both))
    assert now["worlds"][0]["rival"] is None
    assert ranking.rivals_table(now).count("\n") == 2
    whole = ranking.completed(now, before)
    assert whole["worlds"] == before["worlds"]
    assert "rivals by code earlier*" in ranking.rivals_made(whole)
    assert whole["code"] == "code, earlier"
    assert ranking.completed(before, before) == ranking.completed(whole, before)
