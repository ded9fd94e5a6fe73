"""The paper's gridworlds: horizons, runs and windows of its figures, at its scale or at a fraction of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from psconrl.errors import UnknownNameError
from psconrl.experiments import Cell
from reproduction.settings import cell_of


@dataclass(frozen=True)
class Setting:
    """One gridworld of the paper's experiments: horizon, runs, and the window its figures smooth over, in rounds."""

    env: str
    horizon: int
    runs: int
    window: int


PAPER = (
    Setting("marsrover-4x4", 5_000, 100, 900),
    Setting("marsrover-8x8", 20_000, 30, 2_000),
    Setting("box", 500_000, 30, 9_000),
)
"""The three columns of the paper's figures."""

QUICK = (
    Setting("marsrover-4x4", 1_500, 5, 900),
    Setting("marsrover-8x8", 2_500, 1, 2_000),
    Setting("box", 10_000, 1, 9_000),
)

RIVALS = ("ConRL", "C-UCRL")
"""The rivals that the paper runs everywhere; UCRL-CMDP on the smallest grid alone."""

OPTIMISTIC = "UCRL-CMDP"
SMALLEST = "marsrover-4x4"


def settings_of(quick: bool) -> tuple[Setting, ...]:
    """The gridworlds at the paper's scale or at a fraction of it."""
    return QUICK if quick else PAPER


def window(env: str) -> int:
    """The rounds that the paper's figures smooth over in an environment."""
    windows = {setting.env: setting.window for setting in PAPER}
    if env not in windows:
        raise UnknownNameError("environment with a window", env, windows)
    return windows[env]


def algorithms(env: str) -> tuple[str, ...]:
    """The agents that the paper's Figure 1 shows in an environment."""
    return ("PSConRL", *RIVALS, *([OPTIMISTIC] if env == SMALLEST else []))


def gridworlds(quick: bool, **fields: Any) -> list[tuple[Cell, int]]:
    """All that Figure 1 shows, with its numbers of runs; fields: further ones of each cell."""
    return [
        (cell_of(setting.env, agent, setting.horizon, **fields), setting.runs)
        for setting in settings_of(quick)
        for agent in algorithms(setting.env)
    ]
