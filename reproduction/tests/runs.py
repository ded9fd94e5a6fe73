"""Runs with known answers, of the cells of presets."""

from collections.abc import Iterable

import numpy as np

from psconrl.experiments import Cell, RunRecord
from reproduction.presets import find
from tests.analysis.synthetic import cell_records, checkpoints, curve_record, episodes

OPTIMA = {
    "marsrover-4x4": (0.775, 0.2),
    "marsrover-8x8": (0.938, 0.1),
    "box": (0.845, 0.6),
    "toy": (0.47, 0.5),
    "garnet": (0.47, 0.5),
}
"""Optimum and limit."""

Rates = dict[tuple[str, str], tuple[float, float]]


def cells(name: str, quick: bool = True) -> list[Cell]:
    """The cells of a preset."""
    experiment = find(name).experiment(quick)
    assert experiment is not None
    return list(experiment.cells)


def by_agent(name: str, quick: bool = True, whole: bool = False) -> dict[tuple[str, str], Cell]:
    """The same by environment and agent; of Box with all states, or with those that can be reached."""
    return {(c.env, c.agent): c for c in cells(name, quick) if c.env_options.get("full", False) == whole}


def runs_of(
    chosen: Iterable[Cell], runs: int = 6, regret: float = 0.01, violation: float = 0.02, spread: float = 1e-5
) -> list[RunRecord]:
    """Runs that are so far above optimum and limit in every step."""
    found = []
    for cell in chosen:
        J, tau = OPTIMA[cell.env]
        found += cell_records(cell, runs, J + regret, tau + violation, spread=spread, optimum=J, thresholds=[tau])
    return found


def figure_1(rates: Rates, runs: int = 6) -> list[RunRecord]:
    """Quick runs of Figure 1, whatever the bonus, with rates of regret and violation other than 0.01."""
    found = []
    for cell in [*cells("figure-1"), *by_agent("own-bonuses").values()]:
        regret, violation = rates.get((cell.env, cell.agent), (0.01, 0.01))
        found += runs_of([cell], runs, regret, violation, spread=1e-4)
    return found


def bayesian(power: float) -> list[RunRecord]:
    """Draws whose pseudo-regret and violation grow like a power of time."""
    (cell,) = cells("bayesian")
    grid = checkpoints(cell)
    found = []
    for seed in range(6):
        total = (1 + 0.1 * seed) * grid**power
        rate = np.diff(total, prepend=0) / grid[0]
        averages = np.stack([0.5 + rate, np.full(len(grid), 0.2)], axis=1)
        table = episodes([0, *grid[:-1].tolist()], cell.horizon, averages=averages)
        table["value"] = 0.5 + 0.01 * (-1) ** seed
        cumulative = np.stack([0.5 * grid + total, 0.2 * grid + total])
        changes = {"env_options": dict(cell.env_options) | {"draw": seed}, "states": 10, "actions": 3}
        excess = np.outer([0.2, 0.1], grid)
        found.append(curve_record(cell, seed, cumulative, excess, episodes=table, **changes))
    return found
