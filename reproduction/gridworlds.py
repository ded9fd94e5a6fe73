"""The paper's gridworlds: horizons, runs and windows of its figures, at its scale or at a fraction of it.

A figure's x-axis is the first round of the moving window, so its curves cover the rounds up to the last window's end:
900 and 2,000 rounds beyond the 5,000 and 20,000 of the axis, while on Box they end 9,000 rounds before the run does.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from psconrl.errors import UnknownNameError
from psconrl.experiments import Cell
from reproduction.settings import cell_of


@dataclass(frozen=True)
class Setting:
    """One gridworld of the paper's experiments; horizon, window and spacing of checkpoints in rounds.

    options: of the environment; the authors' Box has all 121 pairs of cells, of which 60 can be reached.
    level: the optimum that the figure holds regret against, if it is not the optimum.
    """

    env: str
    name: str
    horizon: int
    runs: int
    window: int
    spacing: int
    options: Mapping[str, Any] = field(default_factory=dict)
    level: float | None = None

    def cell(self, agent: str, extra: Mapping[str, Any] | None = None, **fields: Any) -> Cell:
        """An agent here with our settings, and others in addition or instead."""
        given: dict[str, Any] = {"checkpoints": self.horizon // self.spacing, "env_options": dict(self.options)}
        return cell_of(self.env, agent, self.horizon, extra, **(given | fields))


BOX_LEVEL = 0.8479
"""What the authors' plot script takes for the optimum of Box, which is 0.845."""

WHOLE: Mapping[str, Any] = {"full": True}

PAPER = (
    Setting("marsrover-4x4", "Marsrover 4x4", 5_900, 100, 900, 10),
    Setting("marsrover-8x8", "Marsrover 8x8", 22_000, 30, 2_000, 20),
    Setting("box", "Box, 121 states", 500_000, 30, 9_000, 1_000, WHOLE, BOX_LEVEL),
)
"""The three columns of the paper's figures."""

QUICK = (
    Setting("marsrover-4x4", "Marsrover 4x4", 1_500, 5, 900, 10),
    Setting("marsrover-8x8", "Marsrover 8x8", 2_500, 1, 2_000, 20),
    Setting("box", "Box, 121 states", 10_000, 1, 9_000, 1_000, WHOLE, BOX_LEVEL),
)

FEW = 10
"""Runs on Box of what no figure of the paper shows: they take longest."""

RIVALS = ("ConRL", "C-UCRL")
"""The rivals that the paper runs everywhere; UCRL-CMDP on the smallest grid alone."""

OPTIMISTIC = "UCRL-CMDP"
SMALLEST = "marsrover-4x4"


def settings_of(quick: bool) -> tuple[Setting, ...]:
    """The gridworlds as the authors had them, at the paper's scale or at a fraction of it."""
    return QUICK if quick else PAPER


def reachable(quick: bool) -> tuple[Setting, ...]:
    """The same, but Box with the 60 states that can be reached: there it is communicating, as the theory asks."""
    return tuple(
        Setting(s.env, "Box, 60 states", s.horizon, s.runs, s.window, s.spacing, level=s.level) if s.options else s
        for s in settings_of(quick)
    )


def everywhere(quick: bool) -> tuple[Setting, ...]:
    """The gridworlds, Box with all states and with those that can be reached."""
    return (*settings_of(quick), reachable(quick)[-1])


def window(env: str) -> int:
    """The rounds that the paper's figures smooth over in an environment."""
    windows = {setting.env: setting.window for setting in PAPER}
    if env not in windows:
        raise UnknownNameError("environment with a window", env, windows)
    return windows[env]


def algorithms(env: str) -> tuple[str, ...]:
    """The agents that the paper's Figure 1 shows in an environment."""
    return ("PSConRL", *RIVALS, *([OPTIMISTIC] if env == SMALLEST else []))


def gridworlds(quick: bool, extra: Mapping[str, Any] | None = None, **fields: Any) -> list[tuple[Cell, int]]:
    """All that Figure 1 shows, with its numbers of runs; fields: further ones of each cell."""
    return [
        (setting.cell(agent, extra, **fields), setting.runs)
        for setting in reachable(quick)
        for agent in algorithms(setting.env)
    ]


def fewer(cells: list[tuple[Cell, int]]) -> list[tuple[Cell, int]]:
    """The same with few runs on Box."""
    return [(cell, min(runs, FEW) if cell.env == "box" else runs) for cell, runs in cells]
