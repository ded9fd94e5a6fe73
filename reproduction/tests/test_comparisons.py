"""The authors' settings, the way from them to ours, and sweeps with equal budgets."""

from collections import Counter
from itertools import pairwise

import pytest
from psconrl.experiments.paper_settings import authors

from psconrl.agents import preset
from psconrl.errors import UnknownNameError
from psconrl.experiments import Cell
from reproduction.comparisons import FEWEST, SWEPT, Step, steps
from reproduction.gridworlds import PAPER, cell_of, shown
from reproduction.presets import find


def cells(name: str) -> list[tuple[Cell, int]]:
    found = find(name).experiment()
    assert found is not None
    return list(zip(found.cells, found.seeds, strict=True))


def test_authors_is_figure_1_with_other_settings() -> None:
    figure, theirs = cells("figure-1"), cells("authors")
    assert [(c.env, c.agent, c.horizon, n) for c, n in figure] == [(c.env, c.agent, c.horizon, n) for c, n in theirs]
    assert all(n >= FEWEST for _, n in theirs)
    for cell, _ in theirs:
        assert cell.settings == authors(cell.agent, cell.env)
        assert cell.env_options == ({"full": True} if cell.env == "box" else {})
    with pytest.raises(UnknownNameError, match="agent of Figure 1"):
        authors("FHA", "box")
    with pytest.raises(UnknownNameError, match="environment of Figure 1"):
        authors("PSConRL", "queue")


def differences(a: Step, b: Step) -> set[str]:
    """What differs between two cells; settings that are left out have their defaults."""
    defaults = {"elsewhere": "fastest way", "floor": None, "episodes": None, "clip": True, "impute": "seen", "h": None}
    first, second = ({**defaults, **step.cell.settings, **step.cell.env_options} for step in (a, b))
    if a.cell.agent in ("PSConRL", "ConRL"):
        usual = "tsde" if a.cell.agent == "PSConRL" else "doubling"
        first, second = ({**s, "episodes": s["episodes"] or usual} for s in (first, second))
    return {key for key in first | second if first.get(key) != second.get(key)}


def test_the_way_from_the_authors_settings_to_ours_changes_one_thing_at_a_time() -> None:
    for paper in PAPER:
        for agent in shown(paper.env):
            path = [step for step in steps(paper, agent) if step.of == "path"]
            assert path[0].cell.settings == authors(agent, paper.env)
            assert path[-1].cell == cell_of(paper.env, agent, paper.horizon)
            assert path[-1].cell.settings == preset(agent, paper.env)
            for before, after in pairwise(path):
                changed = differences(before, after)
                # A floor is there instead of a prior.
                assert changed in ({"floor", "prior"},) or len(changed) == 1, (agent, before.text, after.text, changed)
            for tried in steps(paper, agent)[len(path) :]:
                assert tried.of == "tried"
                assert 1 <= len(differences(path[0], tried)) <= 2


def test_factors_has_enough_runs() -> None:
    assert all(n >= FEWEST for _, n in cells("factors"))
    assert not find("factors").by_default


def test_sweeps_give_every_agent_the_same_budget() -> None:
    found = cells("sweeps")
    assert not find("sweeps").by_default
    budget = Counter((c.env, c.env_options.get("slip", 0), c.agent) for c, _ in found)
    assert len(budget) == 3 * 2 * len(SWEPT)
    assert set(budget.values()) == {5}
    assert {n for _, n in found} == {FEWEST}
    assert 0.0 in SWEPT["ConRL"][1], "certainty equivalence"
    assert (min(SWEPT["PSConRL"][1]), max(SWEPT["PSConRL"][1])) == (0.0001, 1.0)
