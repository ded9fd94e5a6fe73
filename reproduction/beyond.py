"""The recommended agent beside PSConRL as published, and beside the best of the other agents, tuned where it runs.

Every setting of a rival is run with the same few seeds, and the one with the least

    L + sum_i [V_i]+,    mean over these seeds,

is the agent's in that environment; it is run with further seeds, which alone are reported. An agent has at most five
settings. Violations of several limits are summed. The worst tenth is the mean of the worst seeds, a tenth of them and
at least one. `benchmarks/recommended.py` runs it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from psconrl.analysis import REFERENCE_AGENTS, Group, Groups, mean_interval, ratio_interval, worst_tenth
from psconrl.experiments import Cell
from reproduction import Bools, Document, Floats
from reproduction.measures import markdown_table

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


def at_horizon(group: Group) -> Floats:
    """(R, 3): L, and the sums over limits of [V]+ and of the policy violation, at the horizon of each run."""
    return np.stack(
        [
            group.lagrangian[:, -1],
            group.positive_violation[..., -1].sum(axis=1),
            group.policy_violation[..., -1].sum(axis=1),
        ],
        axis=1,
    )


def scores(groups: Groups) -> dict[str, float]:
    """What settings are chosen by, for each cell: the mean of L + sum_i [V_i]+ over its seeds; the less the better."""
    return {cell: _score(group, np.ones(group.runs, dtype=np.bool_)) for cell, group in groups.items()}


def _score(group: Group, seeds: Bools) -> float:
    return float(at_horizon(group)[seeds, :2].sum(axis=1).mean())


def document(groups: Groups) -> Document | None:
    """The numbers of the tables, from the stored runs; None if there are none."""
    rows = [_versus(world, groups) for world in WORLDS]
    found = [row for row in rows if row is not None]
    return _coded(found) if found else None


def _versus(world: World, groups: Groups) -> Document | None:
    """The recommended agent, PSConRL as published, the ratio of their mean L, and the best rival as tuned."""
    here: dict[str, list[Group | None]] = {}
    for cell in cells(world):
        here.setdefault(cell.agent, []).append(groups.get(cell.id))
    (own,), theirs = here.pop(UNTUNED), groups.get(published(world).id)
    if own is None or theirs is None or not len(_reported(own)) or not len(_reported(theirs)):
        return None
    rivals = []
    for agent, tried in here.items():
        complete = [group for group in tried if group is not None and (group.seeds < TUNING).any()]
        reported = [group for group in complete if len(_reported(group))]
        if agent not in REFERENCE_AGENTS and len(complete) == len(tried) and reported:
            rivals.append(min(reported, key=lambda group: _score(group, group.seeds < TUNING)))
    best = min(rivals, key=lambda group: _reported(group)[:, 0].mean(), default=None)
    return {
        "world": world.name,
        "horizon": world.horizon,
        "seeds": min(len(_reported(group)) for group in (own, theirs)),
        "own": _numbers(own),
        "published": _numbers(theirs),
        "ratio": ratio_interval(_reported(own)[:, 0], _reported(theirs)[:, 0]).as_json(),
        "rival": best and {"agent": best.agent, "setting": _setting(best), "of": len(rivals)} | _numbers(best),
    }


def _numbers(group: Group) -> Document:
    """What the tables show of an agent."""
    values = _reported(group)
    L, violation, policies = map(mean_interval, values.T)
    return {
        "L": L.as_json(),
        "worst": worst_tenth(values[:, 0]),
        "violation": violation.mean,
        "policies": policies.mean,
        "code": ", ".join(sorted(group.codes)),
    }


def _setting(group: Group) -> str:
    return ", ".join(f"{key} = {value}" for key, value in sorted(group.settings.items())) or "-"


def _reported(group: Group) -> Floats:
    """The ends of the seeds that did not serve to choose."""
    return at_horizon(group)[group.seeds >= TUNING]


def completed(found: Mapping[str, Any], before: Mapping[str, Any]) -> Document:
    """The same with rivals of earlier numbers in worlds that have none; each keeps the code that made it."""
    rivals = {world["world"]: world["rival"] for world in before["worlds"]}
    return _coded([world | {"rival": world["rival"] or rivals.get(world["world"])} for world in found["worlds"]])


def _coded(worlds: list[Document]) -> Document:
    return {"code": _codes(worlds, "own", "published", "rival"), "worlds": worlds}


def _codes(worlds: Sequence[Mapping[str, Any]], *whose: str) -> str:
    """The code that made the runs of some agents, in all worlds."""
    entries = [world[name] for world in worlds for name in whose if world[name]]
    return ", ".join(sorted({code for entry in entries for code in entry["code"].split(", ")}))


_COLUMNS = ("L", "worst tenth", "[V]+", "by policies")


def untuned_table(found: Mapping[str, Any]) -> str:
    """The agent that needs no tuning beside the published one, in Markdown."""
    rows = [
        (
            *(world["world"], f"{world['horizon']:,}", str(world["seeds"])),
            *_told(world["own"]),
            *_told(world["published"]),
            _span(world["ratio"], 2),
        )
        for world in found["worlds"]
    ]
    names = ("environment", "T", "seeds", *_COLUMNS, *(f"PSConRL: {name}" for name in _COLUMNS), "ratio of L")
    return markdown_table(names, rows)


def short_table(found: Mapping[str, Any]) -> str:
    """L and [V]+ of the recommended agent, the published one and the best of the tuned ones, in Markdown.

    Of the variants of an environment, the first.
    """

    first = {world["world"].split()[0]: world for world in reversed(found["worlds"])}
    rows = []
    for world in (world for world in found["worlds"] if world in first.values()):
        agents = [world["own"], world["published"], world["rival"]]
        losses = ["" if agent is None else f"{agent['L']['mean']:,.0f}" for agent in agents]
        excesses = ["" if agent is None else f"{agent['violation']:,.0f}" for agent in agents]
        if world["rival"]:
            losses[-1] += f" ({world['rival']['agent']})"
        rows.append((world["world"], f"{world['horizon']:,}", *losses, *excesses))
    others = ("PSConRL", "tuned")
    return markdown_table(("environment", "T", "L: recommended", *others, "[V]+: recommended", *others), rows)


def rivals_table(found: Mapping[str, Any]) -> str:
    """The same agent beside the best of those that were tuned for each world, in Markdown."""
    rows = []
    for world in found["worlds"]:
        rival = world["rival"]
        if rival is not None:
            best = f"{rival['agent']}, {rival['setting']} (of {rival['of']})"
            rows.append((world["world"], *_told(world["own"]), best, *_told(rival)))
    names = ("environment", *_COLUMNS, "Least L as tuned", *(f"its {name}" for name in _COLUMNS))
    return markdown_table(names, rows)


def untuned_made(found: Mapping[str, Any]) -> str:
    """The code that made the runs of the two agents, in Markdown."""
    return f"*`python benchmarks/recommended.py OUT`, code {_codes(found['worlds'], 'own', 'published')}*\n"


def rivals_made(found: Mapping[str, Any]) -> str:
    """The code that made the runs of the rivals, in Markdown."""
    return f"*`python benchmarks/recommended.py OUT --agents ...`, rivals by code {_codes(found['worlds'], 'rival')}*\n"


def _told(numbers: Mapping[str, Any]) -> tuple[str, ...]:
    """L with its interval, its worst tenth, [V]+, and the violation of the policies."""
    return (_span(numbers["L"], 0), *(f"{numbers[name]:,.0f}" for name in ("worst", "violation", "policies")))


def _span(found: Mapping[str, float | None], digits: int) -> str:
    mean, low, high = (found[name] for name in ("mean", "low", "high"))
    if low is None or high is None:
        return f"{mean:,.{digits}f}"
    return f"{mean:,.{digits}f} [{low:,.{digits}f}, {high:,.{digits}f}]"
