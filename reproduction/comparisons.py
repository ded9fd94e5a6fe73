"""The paper's figures against other settings: the authors' own, and one change at a time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from psconrl.experiments import Cell
from reproduction import settings
from reproduction.gridworlds import OPTIMISTIC, Setting, algorithms, settings_of
from reproduction.settings import cell_of

ALL_STATES = {"box": {"full": True}}
"""The authors' Box has all 121 pairs of cells, ours the 60 that can be reached."""

BOXES = {False: "60 states", True: "121 states"}

FEWEST = 30
"""Runs of each cell that a table compares."""

FEW = {"box": 5}
"""Runs of each setting that was tried to come nearer to a published curve, if not ten."""


def options(env: str) -> dict[str, Any]:
    """The options of an environment as the authors had it."""
    return dict(ALL_STATES.get(env, {}))


def authors(quick: bool) -> list[tuple[Cell, int]]:
    """Figure 1 with the settings of the code that made it."""
    return [
        (
            settings.released_cell(
                setting.env, agent, setting.horizon, settings.released(agent, setting.env), options(setting.env)
            ),
            setting.runs,
        )
        for setting in settings_of(quick)
        for agent in algorithms(setting.env)
    ]


@dataclass(frozen=True)
class Step:
    """One change of settings, in words, and the cell after it; `of`: what it is compared with, "path" or "tried"."""

    text: str
    cell: Cell
    of: str = "path"


_SHORTEST = ("states without occupancy: the fastest way", {"off_support": "shortest_path"})
_SCALE = "bonus scale as in the last released code"
_PATHS: Mapping[str, tuple[tuple[str, Mapping[str, Any]], ...]] = {
    "PSConRL": (
        _SHORTEST,
        ("prior 0.01 instead of the floor 0.05", {"floor": None, "prior": 0.01}),
        ("episodes: TSDE instead of quadrupled counts", {"episodes": "tsde"}),
    ),
    "ConRL": (
        (_SCALE, {"scale": ...}),
        _SHORTEST,
        ("costs after the bonus clipped to [0, 1]", {"clip": True}),
        ("pairs never visited: uniform over seen states", {"impute": "seen"}),
        ("episodes: doubling instead of quadrupling", {"episodes": "doubling"}),
    ),
    "C-UCRL": (
        (_SCALE, {"scale": ...}),
        _SHORTEST,
        ("costs after the bonus clipped to [0, 1]", {"clip": True}),
        ("pairs never visited: uniform over seen states", {"impute": "seen"}),
    ),
    "UCRL-CMDP": (
        (_SCALE, {"scale": ...}),
        ("episodes of ceil(T^(1/3)) steps, no uniform phase", {"h": None}),
    ),
}
"""From the authors' settings to ours; ... stands for the value that ours has."""

_LOOPS = {"impute": "self_loop"}
_TRIED: Mapping[tuple[str, str], tuple[tuple[str, Mapping[str, Any]], ...]] = {
    ("marsrover-4x4", "PSConRL"): (("floor 0.01", {"floor": 0.01}),),
    ("marsrover-4x4", "ConRL"): (("pairs never visited: self-loop", _LOOPS),),
    ("marsrover-4x4", "C-UCRL"): (("h = 20", {"h": 20}),),
    ("marsrover-4x4", "UCRL-CMDP"): (
        ("h = 20", {"h": 20}),
        ("h = 100", {"h": 100}),
        ("bonus scale 0.5", {"scale": 0.5}),
        ("bonus scale 1", {"scale": 1.0}),
    ),
    ("marsrover-8x8", "PSConRL"): (
        ("floor 0.01", {"floor": 0.01}),
        ("floor 0.002", {"floor": 0.002}),
        ("floor 0.001", {"floor": 0.001}),
        ("floor 0.0005", {"floor": 0.0005}),
        ("prior 0.001 instead of a floor", {"floor": None, "prior": 0.001}),
        ("prior 0.0001 instead of a floor", {"floor": None, "prior": 0.0001}),
    ),
    ("marsrover-8x8", "ConRL"): (
        ("pairs never visited: self-loop", _LOOPS),
        ("bonus scale 0.03", {"scale": 0.03}),
        ("bonus scale 0.03, self-loop", {"scale": 0.03, **_LOOPS}),
        ("bonus scale 0.1, self-loop", {"scale": 0.1, **_LOOPS}),
        ("self-loop, costs after the bonus clipped", {"clip": True, **_LOOPS}),
        ("self-loop, the fastest way", {"off_support": "shortest_path", **_LOOPS}),
    ),
    ("marsrover-8x8", "C-UCRL"): (("h = 60", {"h": 60}), ("h = 200", {"h": 200})),
    ("box", "PSConRL"): (("floor 0.01", {"floor": 0.01}),),
    ("box", "ConRL"): (("bonus scale 0.01", {"scale": 0.01}), ("pairs never visited: self-loop", _LOOPS)),
    ("box", "C-UCRL"): (
        ("bonus scale 0.1", {"scale": 0.1}),
        ("bonus scale 0.01", {"scale": 0.01}),
        ("costs after the bonus clipped", {"clip": True}),
        ("h = 500", {"h": 500}),
        ("h = 500, bonus scale 0.1", {"h": 500, "scale": 0.1}),
    ),
}
"""What else was tried to come near to the published curves."""


def steps(setting: Setting, agent: str) -> list[Step]:
    """The authors' cell, then one change at a time until ours, then what else was tried."""
    env, T = setting.env, setting.horizon
    ours, chosen = settings.ours(agent, env), settings.released(agent, env)

    def cell(given: Mapping[str, Any], env_options: Mapping[str, Any]) -> Cell:
        return settings.released_cell(env, agent, T, given, env_options)

    path = [Step("the authors' settings", cell(chosen, options(env)))]
    tried = [Step(text, cell({**chosen, **change}, options(env)), "tried") for text, change in _TRIED[env, agent]]
    if agent != OPTIMISTIC:
        last = cell({**chosen, "off_support": "first_action"}, options(env))
        tried.append(Step("states without occupancy: action 0, as in the last released code", last, "tried"))
    for text, given in _PATHS[agent]:
        change = {key: ours[key] if value is ... else value for key, value in given.items()}
        if all(chosen.get(key) == value for key, value in change.items()):
            continue
        chosen = {**chosen, **change}
        path.append(Step(text, cell(chosen, options(env))))
    if options(env):
        path.append(Step(f"{BOXES[False]} instead of {BOXES[True]}", cell(chosen, {})))
    # With the last change it is what Figure 1 runs.
    path[-1] = Step(path[-1].text, cell_of(env, agent, T))
    return path + tried


EVERY_AGENT = ("PSConRL", "ConRL", "C-UCRL", OPTIMISTIC, "CMDP-PSRL", "FHA", "TSDE", "Uniform", "Optimal")
"""In the order of tables."""


def others(quick: bool) -> list[tuple[Cell, int]]:
    """The agents that no figure of the paper shows, where it shows the others."""
    return [
        (cell_of(setting.env, agent, setting.horizon), setting.runs)
        for setting in settings_of(quick)
        for agent in ("CMDP-PSRL", "TSDE", "Uniform", "Optimal")
    ]


UNMET = (
    ("marsrover-4x4", OPTIMISTIC),
    ("marsrover-8x8", "PSConRL"),
    ("marsrover-8x8", "ConRL"),
    ("box", "C-UCRL"),
)
"""The published curves that the authors' settings do not meet."""


def tried(quick: bool) -> list[tuple[Cell, int]]:
    """What else was tried to meet the published curves that the authors' settings do not meet."""
    return [
        (step.cell, min(setting.runs, FEW.get(setting.env, 10)))
        for setting in settings_of(quick)
        for env, agent in UNMET
        if env == setting.env
        for step in steps(setting, agent)
        if step.of == "tried"
    ]
