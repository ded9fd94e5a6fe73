"""Which stored runs belong to a preset: those at the paper's scale where there are any, else the quick ones."""

from __future__ import annotations

from dataclasses import dataclass

from psconrl.analysis import Group, Groups
from psconrl.experiments import Cell
from reproduction.agents import ALGORITHM
from reproduction.presets import find


@dataclass(frozen=True, eq=False)
class Selected:
    """A cell of a preset, its runs, and the horizon and number of runs at the paper's scale."""

    cell: Cell
    group: Group
    horizon: int
    runs: int


def select(preset: str, groups: Groups) -> list[Selected]:
    """The stored cells of a preset, in its order; the scale is chosen for each environment as a whole."""
    asked = {quick: find(preset).experiment(quick) for quick in (False, True)}
    full, quick = asked[False], asked[True]
    if full is None or quick is None:
        return []
    paper = {(cell.env, cell.agent): (cell.horizon, n) for cell, n in zip(full.cells, full.seeds, strict=True)}
    chosen: list[Selected] = []
    for env in dict.fromkeys(cell.env for cell in full.cells):
        for experiment in (full, quick):
            found = [cell for cell in experiment.cells if cell.env == env and cell.id in groups]
            if found:
                chosen += [Selected(cell, groups[cell.id], *paper[cell.env, cell.agent]) for cell in found]
                break
    return chosen


def by_agent(preset: str, groups: Groups) -> dict[tuple[str, str], Selected]:
    """The stored cells of a preset by environment and algorithm."""
    return {(s.cell.env, ALGORITHM.get(s.cell.agent, s.cell.agent)): s for s in select(preset, groups)}
