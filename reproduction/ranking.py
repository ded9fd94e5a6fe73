"""Agents ranked in every world of the preset "beyond": by L, by [V]+ and by the violation of their policies.

Of an agent with several limits the violations are summed over them. Only seeds count that were not used to choose its
setting. The worst tenth is the mean of the worst seeds, a tenth of them and at least one: what an unlucky user gets.

The agent that needs no tuning is also held against PSConRL as published, and against the best of the others, tuned.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from psconrl.analysis import (
    REFERENCE_AGENTS,
    Group,
    Groups,
    Interval,
    mean_interval,
    number,
    ratio_interval,
    worst_tenth,
)
from reproduction import Bools, Floats, beyond

MEASURES = ("L", "[V]+", "policy violation")


@dataclass(frozen=True)
class Measured:
    """One measure of an agent in a world: mean with interval, mean of the worst tenth of seeds, rank among learners."""

    interval: Interval
    worst: float
    rank: int | None = None


@dataclass(frozen=True)
class Entry:
    """An agent in a world, with the setting that was chosen for it and its measures, in the order of MEASURES.

    tuned: whether all its settings were tried.
    """

    agent: str
    settings: Mapping[str, object]
    seeds: int
    measures: tuple[Measured, ...]
    codes: frozenset[str]
    tuned: bool

    @property
    def setting(self) -> str:
        """The setting, for a table."""
        return ", ".join(f"{key} = {value}" for key, value in sorted(self.settings.items())) or "-"


@dataclass(frozen=True)
class Untuned:
    """The agent that needs no tuning beside PSConRL as published: L of both, and the ratio of its means."""

    own: Entry
    published: Entry
    ratio: Interval


@dataclass(frozen=True)
class Ranked:
    """The agents of a world, those with the least L first; untuned: None if one of the two was not run."""

    world: str
    horizon: int
    entries: tuple[Entry, ...]
    untuned: Untuned | None = None


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
    return {cell: float(at_horizon(group)[:, :2].sum(axis=1).mean()) for cell, group in groups.items()}


def ranking(groups: Groups) -> list[Ranked]:
    """Every world that the preset was run in: at full scale where there is any, else the quick runs."""
    for quick in (False, True):
        found = [_ranked(world, groups) for world in beyond.worlds(quick)]
        if any(ranked.entries for ranked in found):
            return [ranked for ranked in found if ranked.entries]
    return []


def _ranked(world: beyond.World, groups: Groups) -> Ranked:
    """The agents of a world, each with the setting that was run beyond the seeds for tuning."""
    chosen: dict[str, Group] = {}
    untried: set[str] = set()
    for cell in beyond.cells(world):
        group = groups.get(cell.id)
        if group is None or not np.isfinite(_score(group)):
            untried.add(cell.agent)
        if group is not None and len(_reported(group)):
            before = chosen.get(cell.agent)
            if before is None or _score(group) < _score(before):
                chosen[cell.agent] = group
    values = {agent: _reported(group) for agent, group in chosen.items()}
    means = np.array([found.mean(axis=0) for agent, found in values.items() if agent not in REFERENCE_AGENTS])
    entries = [_entry(chosen[agent], found, means, agent not in untried) for agent, found in values.items()]
    ordered = tuple(sorted(entries, key=lambda entry: entry.measures[0].interval.mean))
    return Ranked(world.name, world.horizon, ordered, _untuned(chosen, groups.get(beyond.published(world).id)))


def _entry(group: Group, values: Floats, means: Floats, tuned: bool = False) -> Entry:
    """An agent with its measures (R, 3), and its ranks among the means (agents, 3) of those that learn."""
    measures = tuple(_measured(group.agent, column, means[:, i]) for i, column in enumerate(values.T))
    return Entry(group.agent, group.settings, len(values), measures, group.codes, tuned)


def _untuned(chosen: Mapping[str, Group], published: Group | None) -> Untuned | None:
    own = chosen.get(beyond.UNTUNED)
    if own is None or published is None or not len(_reported(published)):
        return None
    pair = [_reported(group) for group in (own, published)]
    nobody = np.zeros((0, len(MEASURES)))
    mine, theirs = (_entry(group, found, nobody) for group, found in zip((own, published), pair, strict=True))
    return Untuned(mine, theirs, ratio_interval(pair[0][:, 0], pair[1][:, 0]))


def _reported(group: Group) -> Floats:
    """The ends of the seeds that did not serve to choose."""
    return at_horizon(group)[~_tuning(group)]


def _score(group: Group) -> float:
    """What its setting is chosen by; infinite if it was not run with the seeds for that."""
    found = at_horizon(group)[_tuning(group), :2].sum(axis=1)
    return float(found.mean()) if len(found) else np.inf


def _tuning(group: Group) -> Bools:
    return np.asarray(group.seeds < beyond.tuning_seeds(group.horizon == beyond.QUICK_HORIZON))


def _measured(agent: str, values: Floats, means: Floats) -> Measured:
    rank = None if agent in REFERENCE_AGENTS else 1 + int((means < values.mean()).sum())
    return Measured(mean_interval(values), worst_tenth(values), rank)


def mean_ranks(ranked: Sequence[Ranked]) -> list[tuple[str, tuple[float, ...], int]]:
    """Every agent with its mean rank over the worlds that it was run in, in each measure, and their number."""
    ranks: dict[str, list[list[int]]] = {}
    for world in ranked:
        for entry in world.entries:
            found = [measured.rank for measured in entry.measures]
            if None not in found:
                ranks.setdefault(entry.agent, []).append([r for r in found if r is not None])
    rows = [(agent, tuple(np.mean(found, axis=0).tolist()), len(found)) for agent, found in ranks.items()]
    return sorted(rows, key=lambda row: row[1])


def header() -> tuple[str, ...]:
    """Of the table of a world."""
    return ("Agent", "Setting", "Seeds", *(name for measure in MEASURES for name in (measure, "worst tenth", "rank")))


def row(entry: Entry) -> tuple[str, ...]:
    """An agent as a row of the table of its world."""
    told: list[str] = []
    for measured in entry.measures:
        told += [str(measured.interval), number(measured.worst), "-" if measured.rank is None else str(measured.rank)]
    return (entry.agent, entry.setting, str(entry.seeds), *told)


def document(groups: Groups) -> dict[str, Any] | None:
    """The numbers of the table of the agent that needs no tuning, from runs at full scale; None if there are none."""
    found = [world for world in ranking(groups) if world.untuned and world.horizon != beyond.QUICK_HORIZON]
    return untuned(found) if found else None


def untuned(ranked: Sequence[Ranked]) -> dict[str, Any]:
    """The same numbers from worlds that are ranked."""
    worlds: list[dict[str, Any]] = []
    for world in ranked:
        if world.untuned is None:
            continue
        own, published, ratio = world.untuned.own, world.untuned.published, world.untuned.ratio
        rivals = [
            entry for entry in world.entries if entry.tuned and entry.agent not in (*REFERENCE_AGENTS, beyond.UNTUNED)
        ]
        best = rivals[0] if rivals else None
        worlds.append(
            {
                "world": world.world,
                "horizon": world.horizon,
                "seeds": min(own.seeds, published.seeds),
                "own": _numbers(own),
                "published": _numbers(published),
                "ratio": ratio.as_json(),
                "rival": best and {"agent": best.agent, "setting": best.setting, "of": len(rivals)} | _numbers(best),
            }
        )
    return _coded(worlds)


def completed(found: Mapping[str, Any], before: Mapping[str, Any]) -> dict[str, Any]:
    """The same with rivals of earlier numbers in worlds that have none; each keeps the code that made it."""
    rivals = {world["world"]: world["rival"] for world in before["worlds"]}
    return _coded([world | {"rival": world["rival"] or rivals.get(world["world"])} for world in found["worlds"]])


def _coded(worlds: list[dict[str, Any]]) -> dict[str, Any]:
    return {"code": _codes(worlds, "own", "published", "rival"), "worlds": worlds}


def _codes(worlds: Sequence[Mapping[str, Any]], *whose: str) -> str:
    """The code that made the runs of some agents, in all worlds."""
    entries = [world[name] for world in worlds for name in whose if world[name]]
    return ", ".join(sorted({code for entry in entries for code in entry["code"].split(", ")}))


def _numbers(entry: Entry) -> dict[str, Any]:
    L, violation, policies = entry.measures
    return {
        "L": L.interval.as_json(),
        "worst": L.worst,
        "violation": violation.interval.mean,
        "policies": policies.interval.mean,
        "code": ", ".join(sorted(entry.codes)),
    }


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
    names = ("World", "T", "Seeds", *_COLUMNS, *(f"PSConRL: {name}" for name in _COLUMNS), "ratio of L")
    return "\n".join(_table(names, rows)) + "\n"


def short_table(found: Mapping[str, Any]) -> str:
    """L and [V]+ of the recommended agent, the published one and the best of the tuned ones, in Markdown.

    Of the variants of an environment, the first.
    """

    def cell(numbers: Mapping[str, Any] | None) -> str:
        return "" if numbers is None else f"{numbers['L']['mean']:,.0f} \\| {numbers['violation']:,.0f}"

    first = {world["world"].split()[0]: world for world in reversed(found["worlds"])}
    rows = []
    for world in (world for world in found["worlds"] if world in first.values()):
        rival = world["rival"]
        best = f"{cell(rival)} ({rival['agent']})" if rival else ""
        rows.append((world["world"], f"{world['horizon']:,}", cell(world["own"]), cell(world["published"]), best))
    return "\n".join(_table(("environment", "T", "recommended", "PSConRL", "best tuned agent"), rows)) + "\n"


def rivals_table(found: Mapping[str, Any]) -> str:
    """The same agent beside the best of those that were tuned for each world, in Markdown."""
    rows = []
    for world in found["worlds"]:
        rival = world["rival"]
        if rival is not None:
            best = f"{rival['agent']}, {rival['setting']} (of {rival['of']})"
            rows.append((world["world"], *_told(world["own"]), best, *_told(rival)))
    names = ("World", *_COLUMNS, "Best as tuned", *(f"its {name}" for name in _COLUMNS))
    return "\n".join(_table(names, rows)) + "\n"


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


_NOTE = (
    "The recommended agent has no settings. Beside it PSConRL with the paper's prior, 0.01, in all worlds; then, of "
    "all other agents whose settings were all tried, the one with the least mean L. The ratio is of the means of L."
)


def as_markdown(ranked: Sequence[Ranked]) -> str:
    """All tables in Markdown."""
    lines = [
        "# All agents in all worlds",
        "",
        f"Each agent with the one of at most five settings whose mean of L + [V]+ was least on {beyond.TUNING} seeds; "
        "reported are further seeds. Violations are summed over limits. Means with 95% bootstrap intervals; the worst "
        "tenth is the mean of the worst tenth of the seeds. Uniform and Optimal do not learn, and have no rank.",
        "",
        "## Mean ranks",
        "",
        *_table(
            ("Agent", *MEASURES, "Worlds"),
            [(agent, *(f"{r:.2f}" for r in ranks), str(n)) for agent, ranks, n in mean_ranks(ranked)],
        ),
    ]
    versus = untuned(ranked)
    if versus["worlds"]:
        lines += ["", "## Without tuning", "", _NOTE, "", untuned_table(versus), rivals_table(versus).rstrip()]
    for world in ranked:
        lines += [
            "",
            f"## {world.world}, T = {world.horizon:,}",
            "",
            *_table(header(), [row(e) for e in world.entries]),
        ]
    return "\n".join(lines) + "\n"


def _table(names: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    return [f"| {' | '.join(line)} |" for line in (names, ["---"] * len(names), *rows)]
