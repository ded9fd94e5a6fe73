"""What the page shows of each environment: its map, its optimal policy, and the plans of one run of every agent.

All of it is in the store: what a run says about its model is written with the run (`psconrl.experiments.world`).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from psconrl.agents import catalogue
from psconrl.analysis.groups import Group, Groups
from psconrl.environments import registry
from psconrl.experiments.record import RunRecord
from psconrl.experiments.store import Store
from psconrl.experiments.world import DESCRIBED, encoded, rounded
from psconrl.learning.run import Snapshot
from psconrl.report.panels import agent_label, title

ENTRIES = 40_000
"""Most states times snapshots kept of one run."""
_LONG = 30


@dataclass(frozen=True, eq=False)
class Agent:
    """One cell on the page: its label, its runs, and the run that is looked into."""

    label: str
    group: Group
    record: RunRecord


@dataclass(frozen=True, eq=False)
class World:
    """One model with the agents that were run in it."""

    title: str
    record: RunRecord
    agents: Sequence[Agent]

    @property
    def described(self) -> dict[str, Any] | None:
        """What is stored about the model, see `psconrl.experiments.world`."""
        if self.record.states > DESCRIBED:
            return None
        return next((agent.record.world for agent in self.agents if agent.record.world), None)

    @property
    def map(self) -> dict[str, Any] | None:
        """The map, if policies can be drawn on it."""
        return self.described["map"] if self.described else None

    @property
    def shared(self) -> bool:
        """Whether all runs had this model; else it is that of the run that is looked into."""
        return all(len({_key(o) for o in agent.group.env_options}) == 1 for agent in self.agents)


def worlds(store: Store, groups: Groups) -> list[World]:
    """The environments, each with one run of every agent, in the order in which psconrl lists them.

    Of an agent with several settings those come first that were asked for first.
    """
    experiments = sorted(store.experiments().items(), key=lambda item: len(item[0]))  # the first has the shortest name
    specified = {cell["id"]: cell for _, document in reversed(experiments) for cell in document["cells"]}
    asked = list(dict.fromkeys(cell["id"] for _, document in experiments for cell in document["cells"]))
    place = {cell: k for k, cell in enumerate(asked)}
    found: dict[str, list[RunRecord]] = {}
    for cell, record in sorted(representatives(store, groups).items(), key=lambda item: _order(item[1], place)):
        model = specified.get(cell, {}).get("model")
        found.setdefault(f"{record.env} {_key(record.env_options)} {model}", []).append(record)
    return [_world(records, groups) for records in found.values()]


def _order(record: RunRecord, place: Mapping[str, int]) -> tuple[Any, ...]:
    listed = [list(registry()), list(catalogue.registry())]
    places = [
        names.index(name) if name in names else len(names)
        for names, name in zip(listed, (record.env, record.agent), strict=True)
    ]
    options, settings = _key(record.env_options), _key(record.settings)
    asked = place.get(record.cell, len(place))
    return places[0], record.env, len(options), options, places[1], asked, settings, record.horizon


def representatives(store: Store, groups: Groups) -> dict[str, RunRecord]:
    """The run with the first seed of each cell, made by the code that made most of the cell's runs."""
    parts = store.parts()
    found: dict[str, RunRecord] = {}
    for seed in sorted({part.seed for part in parts}):
        for record in store.records({part.identity for part in parts if part.seed == seed}):
            group = groups.get(record.cell)
            if group is not None and record.code in group.codes:
                found.setdefault(record.cell, record)
        if len(found) == len(groups):
            break
    return {cell: found[cell] for cell in groups if cell in found}


def _world(records: Sequence[RunRecord], groups: Groups) -> World:
    first = records[0]
    agents = [
        Agent(label, groups[record.cell], record)
        for label, record in zip(distinct([groups[record.cell] for record in records]), records, strict=True)
    ]
    return World(_title(groups[first.cell]), first, agents)


def _title(group: Group) -> str:
    """The environment with the options that all runs share, long ones cut."""
    first = group.env_options[0]
    shared = [key for key in sorted(first) if all(options.get(key) == first[key] for options in group.env_options)]
    if group.env == "box" and "full" in shared:
        shared.remove("full")  # the number of states says it
    values = {key: " ".join(str(first[key]).split()) for key in shared}
    told = [f"{key} = {text if len(text) <= _LONG else text[:_LONG] + '…'}" for key, text in values.items()]
    return ", ".join([title(group.env, group.S), *told])


def distinct(groups: Sequence[Group]) -> list[str]:
    """A label for each group; settings and horizons are added where agents repeat and differ in them."""
    labels = [agent_label(group) for group in groups]
    told: list[str] = []
    for label, group in zip(labels, groups, strict=True):
        alike = [other for other, name in zip(groups, labels, strict=True) if name == label]
        keys = sorted({key for other in alike for key in other.settings})
        parts = [
            f"{k}={group.settings[k]}"
            for k in keys
            if k in group.settings and _differ(o.settings.get(k) for o in alike)
        ]
        parts += [f"T={group.horizon:,}"] if _differ(other.horizon for other in alike) else []
        parts += [f"costs {group.costs}"] if _differ(other.costs for other in alike) else []
        told.append(f"{label}, {', '.join(parts)}" if parts else label)
    return told


def _differ(values: Any) -> bool:
    return len({json.dumps(value) for value in values}) > 1


def _key(options: Mapping[str, Any]) -> str:
    return json.dumps(dict(options), sort_keys=True)


def document(world: World) -> dict[str, Any]:
    """The world as JSON values."""
    record, described = world.record, world.described
    return {
        "states": described["states"] if described else [str(s) for s in range(min(record.states, DESCRIBED))],
        "actions": described["actions"] if described else [str(a) for a in range(record.actions)],
        "available": described.get("available") if described else None,
        "costs": list(record.cost_names),
        "limits": [rounded(tau) for tau in record.thresholds],
        "optimum": rounded(record.optimum),
        "map": world.map,
        "optimal": described["optimal"] if described else None,
        "agents": [_agent(agent.record) for agent in world.agents],
    }


def kept(record: RunRecord) -> Sequence[Snapshot]:
    """The snapshots of a run that are shown: all of them, fewer if the model is large, none if it is not drawn."""
    if record.states > DESCRIBED:
        return ()
    most = max(2, ENTRIES // record.states)
    if len(record.snapshots) <= most:
        return record.snapshots
    chosen = np.linspace(0, len(record.snapshots) - 1, most).round().astype(np.int64)
    return [record.snapshots[k] for k in chosen]


def _agent(record: RunRecord) -> dict[str, Any]:
    starts = record.episodes["start"]
    described = record.world["averages"] if record.world else []
    averages = {snapshot.start: found for snapshot, found in zip(record.snapshots, described, strict=False)}
    snapshots = []
    for snapshot in kept(record):
        k = min(int(np.searchsorted(starts, snapshot.start)), len(starts) - 1)
        row = record.episodes[k]
        entry: dict[str, Any] = {
            "start": int(snapshot.start),
            "plan": k + 1,
            "length": int(row["length"]),
            "phase": str(row["phase"]),
            "feasible": bool(row["feasible"]),
            "policy": encoded(snapshot.policy[0]),
            "visits": snapshot.visits.sum(axis=1).tolist(),
        }
        if averages.get(snapshot.start):
            entry["averages"] = averages[snapshot.start]
        if len(snapshot.policy) > 1:
            entry["layers"] = len(snapshot.policy)
        snapshots.append(entry)
    return {"horizon": record.horizon, "plans": len(starts), "snapshots": snapshots}
