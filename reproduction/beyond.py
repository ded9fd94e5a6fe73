"""All agents in all worlds, each as well as it can be tuned for as much work: what the paper's grids cannot show.

Two stages. Every setting of every agent is run with the same few seeds, and the one with the least

    L + sum_i [V_i]+,    mean over these seeds,

is the agent's in that world. Then that one is run with further seeds, which alone are reported. An agent has at most
five settings; those that have nothing to tune have one, and the same seeds count. PSConRL as in the paper is reported
whether it was chosen or not: what needs no tuning is held against it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from psconrl.experiments import Cell

TUNING = 5
"""Seeds for the choice of a setting; those after them are reported."""

REPORTED = 30
LARGEST = 64
"""States up to which the agents are run whose plans take long."""

PRIORS = (0.0001, 0.001, 0.01, 0.1, 1.0)
SCALES = (0.0, 0.01, 0.1, 0.5)
Settings = tuple[Mapping[str, Any], ...]
_POSTERIOR: Settings = tuple({"prior": prior} for prior in PRIORS)
_BONUS: Settings = ({"bonus": "original"}, *({"bonus": "simple", "scale": scale} for scale in SCALES))

AGENTS: Mapping[str, Settings] = {
    "Recommended": ({},),
    "PSConRL": _POSTERIOR,
    "CMDP-PSRL": _POSTERIOR,
    "TSDE": _POSTERIOR,
    "ConRL": _BONUS,
    "C-UCRL": _BONUS,
    "UCRL-CMDP": _BONUS,
    "FHA": _BONUS,
    "Uniform": ({},),
    "Optimal": ({},),
}
"""Every agent with its settings, at most five."""

UNTUNED, PUBLISHED = "Recommended", ("PSConRL", {"prior": 0.01})
"""The agent that needs no tuning, and the one with its settings that it is held against: the paper's."""

SLOW = ("UCRL-CMDP", "FHA")

LARGE = 121
"""Beyond so many states only priors are tried whose samples have few entries: others take minutes for each run."""

_SPARSE: Settings = ({"prior": 0.0001}, {"prior": 0.01})


@dataclass(frozen=True)
class World:
    """An environment with options, its number of states, and how long runs in it are."""

    env: str
    states: int
    horizon: int
    options: Mapping[str, Any] = field(default_factory=dict)
    seed_option: str | None = None

    @property
    def name(self) -> str:
        """The environment with its options."""
        return " ".join([self.env, *(f"{key}={value}" for key, value in sorted(self.options.items()))])


_SLIP = {"slip": 0.1}
WORLDS = (
    World("marsrover-4x4", 16, 5_000),
    World("marsrover-4x4", 16, 5_000, _SLIP),
    World("marsrover-8x8", 64, 20_000),
    World("marsrover-8x8", 64, 20_000, _SLIP),
    World("box", 60, 100_000),
    World("box", 60, 100_000, _SLIP),
    World("box", 121, 100_000, {"full": True}),
    World("frozen-lake", 16, 50_000, {"full": True}),
    World("frozen-lake", 16, 50_000, {"full": True, "slippery": False}),
    World("cliff-walking", 48, 20_000, {"full": True}),
    World("cliff-walking", 48, 50_000, {"full": True, "slippery": True}),
    World("taxi", 500, 20_000, {"full": True}),
    World("garnet", 5, 20_000, {"S": 5, "A": 2, "margin": 0.02}, "seed"),
    World("garnet", 20, 20_000, {"m": 3, "margin": 0.02}, "seed"),
    World("queue", 6, 20_000),
    World("riverswim", 6, 20_000),
    World("riverswim", 25, 100_000, {"S": 25}),
    World("media-streaming", 10, 20_000),
    World("inventory", 6, 20_000),
    World("access-control", 44, 50_000),
    World("hospital", 35, 50_000),
)

QUICK_HORIZON = 300
_QUICK = tuple(
    World(world.env, world.states, QUICK_HORIZON, world.options, world.seed_option)
    for world in WORLDS
    if world.states <= 16 and world.options.get("slippery", True)
)


def worlds(quick: bool) -> tuple[World, ...]:
    """The worlds; quick: the small ones, for a short time."""
    return _QUICK if quick else WORLDS


def cells(world: World) -> Iterator[Cell]:
    """Every agent with each of its settings in a world."""
    for agent, settings in AGENTS.items():
        if agent not in SLOW or world.states <= LARGEST:
            for chosen in _SPARSE if settings is _POSTERIOR and world.states > LARGE else settings:
                yield Cell(
                    world.env,
                    agent,
                    world.horizon,
                    env_options=world.options,
                    settings=chosen,
                    checkpoints=100,
                    seed_option=world.seed_option,
                )


def published(world: World) -> Cell:
    """The cell of the paper's agent with the paper's settings."""
    agent, settings = PUBLISHED
    return next(cell for cell in cells(world) if cell.agent == agent and dict(cell.settings) == settings)


def tuning_seeds(quick: bool) -> int:
    """How many seeds serve to choose."""
    return 2 if quick else TUNING


def tuning(quick: bool) -> list[tuple[Cell, int]]:
    """The first stage: all settings, few seeds."""
    return [(cell, tuning_seeds(quick)) for world in worlds(quick) for cell in cells(world)]


def chosen(quick: bool, scores: Mapping[str, float]) -> list[tuple[Cell, int]]:
    """The second stage: of each agent in each world the setting with the least score, by the id of its cell.

    Also the paper's agent as published, if it has a score.
    """
    found = []
    for world in worlds(quick):
        best: dict[str, Cell] = {}
        for cell in cells(world):
            if cell.id in scores and (cell.agent not in best or scores[cell.id] < scores[best[cell.agent].id]):
                best[cell.agent] = cell
        seeds = tuning_seeds(quick) + (2 if quick else REPORTED)
        kept = {cell.id: cell for cell in (*best.values(), published(world)) if cell.id in scores}
        found += [(cell, seeds) for cell in kept.values()]
    return found
