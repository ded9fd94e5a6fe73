"""The authors' settings, and the way from them to ours."""

from dataclasses import fields
from itertools import pairwise
from typing import Any

import pytest

from psconrl import make
from psconrl.agents import find as find_agent
from psconrl.errors import UnknownNameError
from psconrl.experiments import Cell
from reproduction.agents import ALGORITHM, RELEASED
from reproduction.comparisons import FEWEST, Step, steps
from reproduction.gridworlds import PAPER, algorithms
from reproduction.presets import find
from reproduction.settings import cell_of, ours, released


def cells(name: str) -> list[tuple[Cell, int]]:
    found = find(name).experiment()
    assert found is not None
    return list(zip(found.cells, found.seeds, strict=True))


def test_authors_is_figure_1_with_other_settings() -> None:
    figure, theirs = cells("figure-1"), cells("authors")
    expected = [(c.env, RELEASED[c.agent], c.horizon, n) for c, n in figure]
    assert [(c.env, c.agent, c.horizon, n) for c, n in theirs] == expected
    assert all(n >= FEWEST for _, n in theirs)
    for cell, _ in theirs:
        assert cell.settings == released(ALGORITHM[cell.agent], cell.env)
        assert cell.env_options == ({"full": True} if cell.env == "box" else {})
    with pytest.raises(UnknownNameError, match="agent of Figure 1"):
        released("FHA", "box")
    with pytest.raises(UnknownNameError, match="environment of Figure 1"):
        released("PSConRL", "queue")


def differences(a: Step, b: Step) -> set[str]:
    """What differs between two agents, by their whole settings, or between their environments."""
    first, second = described(a), described(b)
    return {key for key in first | second if first.get(key) != second.get(key)}


def described(step: Step) -> dict[str, Any]:
    """All settings of an agent, with the algorithm's own for those it lacks, and its environment's options."""
    cell = step.cell
    agent = find_agent(cell.agent)(make(cell.env).problem("estimated"), **cell.settings)
    settings = {field.name: getattr(agent, field.name) for field in fields(agent) if field.name != "problem"}
    episodes = {"PSConRL": "tsde", "ConRL": "doubling"}.get(ALGORITHM.get(cell.agent, cell.agent))
    plain = {"off_support": "shortest_path", "floor": None, "episodes": episodes, "clip": True, "impute": "seen"}
    return plain | settings | dict(cell.env_options)


def test_the_way_from_the_authors_settings_to_ours_changes_one_thing_at_a_time() -> None:
    for paper in PAPER:
        for agent in algorithms(paper.env):
            path = [step for step in steps(paper, agent) if step.of == "path"]
            assert path[0].cell.settings == released(agent, paper.env)
            assert path[-1].cell == cell_of(paper.env, agent, paper.horizon)
            assert path[-1].cell.settings == ours(agent, paper.env)
            for before, after in pairwise(path):
                changed = differences(before, after)
                # A floor is there instead of a prior.
                assert changed in ({"floor", "prior"},) or len(changed) == 1, (agent, before.text, after.text, changed)
            for tried in steps(paper, agent)[len(path) :]:
                assert tried.of == "tried"
                assert 1 <= len(differences(path[0], tried)) <= 2
