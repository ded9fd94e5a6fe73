"""What stands beside the paper's algorithms: the authors' set-up, what else was tried, own bonuses, all of Box."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from psconrl.experiments import Cell
from reproduction.agents import RELEASED
from reproduction.gridworlds import (
    FEW,
    OPTIMISTIC,
    RIVALS,
    SMALLEST,
    Setting,
    algorithms,
    everywhere,
    fewer,
    reachable,
    settings_of,
)
from reproduction.settings import AUTHORS, OWN

EVERY_AGENT = ("PSConRL", "ConRL", "C-UCRL", OPTIMISTIC, "CMDP-PSRL", "FHA", "TSDE", "Uniform", "Optimal")
"""In the order of tables."""


def released_cell(setting: Setting, agent: str, change: Mapping[str, Any] | None = None) -> Cell:
    """An algorithm as the authors had it for Figure 1, and what is changed of it."""
    given = {**AUTHORS[setting.env, agent].settings, **(change or {})}
    plain = setting.cell(RELEASED[agent])
    return Cell(
        plain.env,
        plain.agent,
        plain.horizon,
        env_options=plain.env_options,
        settings=given,
        checkpoints=plain.checkpoints,
    )


def authors(quick: bool) -> list[tuple[Cell, int]]:
    """Figure 1 in the authors' set-up."""
    return [
        (released_cell(setting, agent), setting.runs)
        for setting in settings_of(quick)
        for agent in algorithms(setting.env)
    ]


def own_bonuses(quick: bool) -> list[tuple[Cell, int]]:
    """The rivals with the bonuses of their own papers."""
    return fewer(
        [
            (setting.cell(agent, OWN), setting.runs)
            for setting in everywhere(quick)
            for agent in algorithms(setting.env)
            if agent != "PSConRL"
        ]
    )


def all_states(quick: bool) -> list[tuple[Cell, int]]:
    """The algorithms as printed, bonuses scaled, on the authors' Box of 121 states."""
    box = settings_of(quick)[-1]
    return fewer([(box.cell(agent), box.runs) for agent in algorithms(box.env)])


def recommended(quick: bool) -> list[tuple[Cell, int]]:
    """The agent that needs no tuning, where Figure 1 shows the others."""
    return fewer([(setting.cell("Recommended"), setting.runs) for setting in everywhere(quick)])


def others(quick: bool) -> list[tuple[Cell, int]]:
    """The agents that no figure of the paper shows, where it shows the others."""
    agents = ("CMDP-PSRL", "TSDE", "Uniform", "Optimal")
    return fewer([(setting.cell(agent), setting.runs) for setting in reachable(quick) for agent in agents])


def known_costs(quick: bool) -> list[tuple[Cell, int]]:
    """Figure 1 with known costs, as the theory has it; UCRL-CMDP everywhere."""
    return fewer(
        [
            (setting.cell(agent, costs="known"), setting.runs)
            for setting in reachable(quick)
            for agent in ("PSConRL", *RIVALS, OPTIMISTIC)
        ]
    )


def tractable(quick: bool) -> list[tuple[Cell, int]]:
    """UCRL-CMDP beyond the smallest grid, where the paper does not run it."""
    larger = [setting for setting in reachable(quick) if setting.env != SMALLEST]
    return fewer([(setting.cell(OPTIMISTIC), setting.runs) for setting in larger])


class Tried(NamedTuple):
    """One change of the authors' set-up of a curve, in words."""

    env: str
    agent: str
    text: str
    change: Mapping[str, Any]


TRIED = (
    Tried("marsrover-4x4", "PSConRL", "floor 0.01", {"floor": 0.01}),
    Tried("marsrover-4x4", "PSConRL", "floor 0.05", {"floor": 0.05}),
    Tried("marsrover-4x4", "ConRL", "scale 0.1", {"scale": 0.1}),
    Tried("marsrover-4x4", "ConRL", "self-loops", {"impute": "self_loop"}),
    Tried("marsrover-4x4", "C-UCRL", "scale 0.1", {"scale": 0.1}),
    Tried("marsrover-4x4", "C-UCRL", "h = 50", {"h": 50}),
    Tried("marsrover-4x4", OPTIMISTIC, "h = 50", {"h": 50}),
    Tried("marsrover-4x4", OPTIMISTIC, "scale 0.1", {"scale": 0.1}),
    Tried("marsrover-4x4", OPTIMISTIC, "scale 0.5", {"scale": 0.5}),
    Tried("marsrover-4x4", OPTIMISTIC, "scale 1", {"scale": 1.0}),
    Tried("marsrover-8x8", "PSConRL", "floor 0.0005", {"floor": 0.0005}),
    Tried("marsrover-8x8", "PSConRL", "floor 0.01", {"floor": 0.01}),
    Tried("marsrover-8x8", "PSConRL", "floor 0.05", {"floor": 0.05}),
    Tried("marsrover-8x8", "ConRL", "Dirichlet(1)", {"impute": "dirichlet"}),
    Tried("marsrover-8x8", "ConRL", "scale 0.1", {"scale": 0.1}),
    Tried("marsrover-8x8", "C-UCRL", "h = 200", {"h": 200}),
    Tried("marsrover-8x8", "C-UCRL", "scale 0.1", {"scale": 0.1}),
    Tried("box", "PSConRL", "floor 0.001", {"floor": 0.001}),
    Tried("box", "ConRL", "self-loops", {"impute": "self_loop"}),
    Tried("box", "C-UCRL", "scale 0.5", {"scale": 0.5}),
)
"""What else was tried to meet the published curves, with few runs each; floors on 8x8 with all, as four pictures show
them."""


def tried(quick: bool) -> list[tuple[Cell, int]]:
    """What else was tried."""
    settings = {setting.env: setting for setting in settings_of(quick)}
    return [
        (
            released_cell(settings[one.env], one.agent, one.change),
            settings[one.env].runs if "floor" in one.change and one.env != "box" else min(settings[one.env].runs, FEW),
        )
        for one in TRIED
    ]
