"""The tables of README and documentation, from runs with known answers."""

import json

import numpy as np
import pytest

from psconrl.analysis import Group, format_mean_ci, group, short
from psconrl.experiments import Cell, RunRecord
from reproduction import comparison, learning, tables
from reproduction.comparisons import EVERY_AGENT, steps
from reproduction.final_values import final_values, summary
from reproduction.gridworlds import PAPER, algorithms
from reproduction.presets import find
from reproduction.published import APPENDIX, FIGURE_1, REASONS, tolerance
from reproduction.settings import cell_of
from tests.analysis.synthetic import cell_records

LEVELS = {"marsrover-4x4": (0.775, 0.2), "marsrover-8x8": (0.938, 0.1), "box": (0.845, 0.6)}


def runs_of(cells: list[Cell], runs: int = 4, regret: float = 0.01, violation: float = 0.02) -> list[RunRecord]:
    found = []
    for cell in cells:
        J, tau = LEVELS[cell.env]
        found += cell_records(cell, runs, J + regret, tau + violation, spread=1e-5, optimum=J, thresholds=[tau])
    return found


def preset_cells(name: str, quick: bool = True) -> list[Cell]:
    experiment = find(name).experiment(quick)
    assert experiment is not None
    return list(experiment.cells)


def test_ends_of_a_cell() -> None:
    cell = preset_cells("figure-1", quick=False)[0]
    (found,) = group(runs_of([cell])).values()
    numbers = final_values(found, 900)
    T = cell.horizon
    expected = {
        "regret": 0.01 * T,
        "violation": 0.02 * T,
        "positive_violation": 0.02 * T,
        "lagrangian": (0.01 + 0.5 * 0.02) * T,  # the records' price is 0.5
        "charged": (0.01 + 0.5 * 0.02) * T,
        "plotted_regret": 0.01 * (T - 900 + found.spacing),
        "plotted_violation": 0.02 * (T - 900 + found.spacing),
        "reward": 1 - 0.785,
        "consumption": 0.22,
    }
    for name, value in expected.items():
        assert numbers[name]["mean"] == pytest.approx(value, rel=1e-5), name
    assert (numbers["runs"], numbers["horizon"], numbers["states"]) == (4, T, 16)
    earlier = final_values(found, 900, read=T - 100)
    assert earlier["plotted_regret"]["mean"] == pytest.approx(0.01 * (T - 1000 + found.spacing), rel=1e-5)
    assert earlier["regret"] == numbers["regret"]


def test_slack_earns_nothing_in_what_is_charged() -> None:
    (found,) = group(runs_of(preset_cells("figure-1")[:1], violation=-0.1)).values()
    numbers = final_values(found)
    assert numbers["lagrangian"]["mean"] < 0 < numbers["charged"]["mean"]
    assert numbers["charged"] == numbers["regret"]


def test_summaries_and_their_words() -> None:
    found = summary(np.arange(20.0))
    assert found["worst"] == 18.5
    assert found["sd"] == pytest.approx(np.arange(20.0).std(ddof=1), rel=1e-5)
    assert [short(x) for x in (1234.4, -0.2, 3.14159, 0.0001, None)] == ["1,234", "-0.2", "3.1", "0", "-"]
    assert format_mean_ci(summary(np.array([5.0]))) == "5", "one run has no interval"
    assert format_mean_ci(None) == "-"


def both(theirs: tuple[float, float], quick: bool = False) -> dict[str, Group]:
    """All of Figure 1 and of the authors' runs, theirs with given rates above the levels."""
    records = runs_of(preset_cells("figure-1", quick))
    return group(records + runs_of(preset_cells("authors", quick), regret=theirs[0], violation=theirs[1]))


def test_a_published_curve_is_met_within_the_noise_and_the_reading() -> None:
    plotted = 5_000 - 900 + 10
    reading = FIGURE_1["marsrover-4x4", "PSConRL"]
    near = comparison.document(both((reading.regret / plotted, reading.violation / plotted)))
    assert near is not None
    first = near["rows"][0]
    assert (first["env"], first["agent"]) == ("marsrover-4x4", "PSConRL")
    assert first["met"] == {"regret": True, "violation": True}
    assert "Marsrover 4x4, PSConRL;" in comparison.unmet(near).splitlines()[0] or first["agent"] in comparison.unmet(
        near
    )
    far = comparison.document(both((2 * reading.regret / plotted, reading.violation / plotted)))
    assert far is not None
    assert far["rows"][0]["met"] == {"regret": False, "violation": True}
    assert "**Marsrover 4x4, PSConRL** (regret). Reason not found." in comparison.unmet(far)


def test_three_columns_say_which_box_and_list_what_was_tried() -> None:
    groups = both((0.01, 0.02))
    tried = [step.cell for step in steps(PAPER[1], "PSConRL") if step.of == "tried"]
    document = comparison.document(groups | group(runs_of(tried)))
    assert document is not None
    assert len(document["rows"]) == len(FIGURE_1)
    row = next(r for r in document["rows"] if (r["env"], r["agent"]) == ("marsrover-8x8", "PSConRL"))
    assert [variant["text"] for variant in row["tried"]] == [s.text for s in steps(PAPER[1], "PSConRL")[-len(tried) :]]
    assert comparison.figure_1(document).count("\n|") == 3 * len(FIGURE_1) + 1
    assert comparison.appendix(document).count("\n|") == len(FIGURE_1) + 1
    assert comparison.readme(document).count("Box, 16 states") == 3
    assert "of the 10 published curves" in comparison.headline(document)
    assert comparison.document({}) is None


def test_every_curve_has_a_reading_a_text_and_a_reason() -> None:
    curves = {(setting.env, agent) for setting in PAPER for agent in algorithms(setting.env)}
    assert set(FIGURE_1) == set(APPENDIX) == set(REASONS) == curves
    assert tolerance(0) == 2
    assert tolerance(1000) == 50


def test_documents_survive_a_trip_through_json() -> None:
    found = tables.documents(both((0.01, 0.02), quick=True))
    assert set(found) == {"comparison"}
    for name, document in found.items():
        again = json.loads(tables.as_json(document))
        assert tables.parts(name, again) == tables.parts(name, document)


def test_all_agents_in_all_gridworlds() -> None:
    """A table only of all."""
    cells = [
        cell_of(setting.env, agent, setting.horizon)
        for setting in PAPER
        for agent in EVERY_AGENT
        if agent != "FHA" or setting.env == "marsrover-4x4"
    ]
    assert learning.document(group(runs_of(cells[:-1]))) is None
    document = learning.document(group(runs_of(cells)))
    assert document is not None
    assert [(row["env"], row["agent"]) for row in document["rows"]] == [(cell.env, cell.agent) for cell in cells]
    text = learning.markdown(document)
    assert text.count("## ") == len(PAPER)
    for agent in EVERY_AGENT:
        assert text.count(f"\n| {agent} | 4 | ") == (1 if agent == "FHA" else 3)
