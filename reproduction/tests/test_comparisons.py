"""The authors' set-up, what was tried beside it, and what is run with other bonuses and on all of Box."""

from collections import Counter

import pytest

from psconrl import make
from psconrl.agents import find as find_agent
from psconrl.experiments import Cell
from reproduction.agents import ALGORITHM, RELEASED
from reproduction.comparisons import TRIED
from reproduction.gridworlds import PAPER, algorithms, everywhere
from reproduction.presets import find
from reproduction.published import FIGURE_1
from reproduction.settings import AUTHORS, OWN


def cells(name: str) -> list[tuple[Cell, int]]:
    found = find(name).experiment()
    assert found is not None
    return list(zip(found.cells, found.seeds, strict=True))


def test_authors_is_figure_1_with_other_agents_and_all_of_box() -> None:
    figure, theirs = cells("figure-1"), cells("authors")
    expected = [(c.env, RELEASED[c.agent], c.horizon, n) for c, n in figure]
    assert [(c.env, c.agent, c.horizon, n) for c, n in theirs] == expected
    for cell, _ in theirs:
        assert cell.settings == AUTHORS[cell.env, ALGORITHM[cell.agent]].settings
        assert cell.env_options == ({"full": True} if cell.env == "box" else {})


def test_every_setting_of_the_authors_stands_somewhere() -> None:
    assert set(AUTHORS) == set(FIGURE_1)
    for (env, agent), found in AUTHORS.items():
        find_agent(RELEASED[agent])(make(env).problem("estimated"), **found.settings)
        assert found.sources
        tried = sum((one.env, one.agent) == (env, agent) for one in TRIED)
        assert found.tried == 1 + tried


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
