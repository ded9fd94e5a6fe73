from collections import Counter

import pytest

from psconrl import make, structure
from psconrl.agents import find as find_agent
from psconrl.errors import UnknownNameError
from psconrl.experiments import Cell, Experiment
from reproduction.agents import ALGORITHM, RELEASED
from reproduction.presets import find, presets
from reproduction.published import FIGURE_1
from reproduction.settings import AUTHORS, CLOSE, MANY, OWN, PAPER, TRIED, algorithms, everywhere, scaled


def experiment(name: str, quick: bool = False) -> Experiment:
    found = find(name).experiment(quick)
    assert found is not None
    return found


def test_presets_are_found_by_name() -> None:
    for name, preset in presets().items():
        assert find(name) is preset
        assert preset.name == name
        assert preset.description
    with pytest.raises(UnknownNameError, match="figure-1"):
        find("figure1")


def test_figure_1_has_the_papers_sizes() -> None:
    found = experiment("figure-1")
    cells = {(c.env, c.agent): (c.horizon, n) for c, n in zip(found.cells, found.seeds, strict=True)}
    expected = {
        (env, agent): (T, runs)
        for env, T, runs in (("marsrover-4x4", 5_900, 100), ("marsrover-8x8", 22_000, 30), ("box", 500_000, 30))
        for agent in ("PSConRL", "ConRL", "C-UCRL")
    }
    assert cells == expected | {("marsrover-4x4", "UCRL-CMDP"): (5_900, 100)}
    for cell in found.cells:
        assert cell.settings == scaled(cell.agent, cell.env)
        assert cell.costs == "estimated"
        assert not cell.env_options


def test_bayesian_draws_a_model_for_each_run() -> None:
    found = experiment("bayesian")
    (cell,) = found.cells
    assert found.seeds == (100,)
    assert cell.env_options["prior"] == cell.settings["prior"]
    assert cell.seed_option == "draw"
    assert cell.costs == "known"


def test_table_1_has_every_algorithm_of_the_paper() -> None:
    found = experiment("table-1")
    assert [cell.agent for cell in found.cells] == ["C-UCRL", "UCRL-CMDP", "FHA", "CMDP-PSRL", "PSConRL"]
    assert found.seeds == (100, 30, 30, 100, 100)


@pytest.mark.parametrize("name", [name for name, preset in presets().items() if preset.build is not None])
def test_quick_is_a_fraction(name: str) -> None:
    full, quick = experiment(name), experiment(name, quick=True)
    assert {(c.env, c.agent) for c in quick.cells} <= {(c.env, c.agent) for c in full.cells}
    assert {c.agent for c in quick.cells} == {c.agent for c in full.cells}
    steps = [sum(c.horizon * n for c, n in zip(e.cells, e.seeds, strict=True)) for e in (full, quick)]
    assert steps[1] * 5 < steps[0]


def test_fha_is_told_the_span_of_the_model() -> None:
    for setting in PAPER:
        span = structure.bias_span(make(setting.env))[1]
        assert scaled("FHA", setting.env)["span"] == pytest.approx(span, abs=1e-9)


def cells(name: str) -> list[tuple[Cell, int]]:
    return list(zip(experiment(name).cells, experiment(name).seeds, strict=True))


def test_authors_is_figure_1_with_other_agents_and_all_of_box() -> None:
    figure, theirs = cells("figure-1"), cells("authors")
    expected = [(c.env, RELEASED[c.agent], c.horizon, MANY if (c.env, c.agent) == CLOSE else n) for c, n in figure]
    assert [(c.env, c.agent, c.horizon, n) for c, n in theirs] == expected
    for cell, _ in theirs:
        assert cell.settings == AUTHORS[cell.env, ALGORITHM[cell.agent]].settings
        assert cell.env_options == ({"full": True} if cell.env == "box" else {})


def test_every_setting_of_the_authors_stands_somewhere() -> None:
    assert set(AUTHORS) == set(FIGURE_1)
    for (env, agent), found in AUTHORS.items():
        find_agent(RELEASED[agent])(make(env).problem("estimated"), **found.settings)
        assert found.sources


def test_what_was_tried_is_one_change() -> None:
    chosen = {cell.id for cell, _ in cells("authors")}
    found = cells("tried")
    assert len(found) == len(TRIED)
    assert not {cell.id for cell, _ in found} & chosen
    assert all(len(one.change) == 1 for one in TRIED)


def test_rivals_have_their_papers_bonuses_everywhere() -> None:
    found = cells("own-bonuses")
    assert all({key: cell.settings[key] for key in OWN} == OWN for cell, _ in found)
    assert Counter(cell.env for cell, _ in found) == {"marsrover-4x4": 3, "marsrover-8x8": 2, "box": 4}
    assert "PSConRL" not in {cell.agent for cell, _ in found}


@pytest.mark.parametrize("name", ["own-bonuses", "recommended"])
def test_box_has_both_sizes(name: str) -> None:
    options = [dict(cell.env_options) for cell, _ in cells(name) if cell.env == "box"]
    assert {} in options
    assert {"full": True} in options


def test_cells_of_a_setting_have_checkpoints_that_divide_its_window() -> None:
    for setting in everywhere(False):
        for agent in algorithms(setting.env):
            assert setting.window % (setting.horizon // setting.cell(agent).checkpoints) == 0
    assert [setting.horizon - setting.window for setting in PAPER] == [5_000, 20_000, 491_000]
