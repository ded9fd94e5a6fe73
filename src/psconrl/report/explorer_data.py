"""What the page shows of each environment: its map, its optimal policy, and the plans of one run of every agent.

A policy is written state by state: the number of an action that is taken for sure, or else the probabilities of all
actions in thousandths. Models too large to be looked at are described, not drawn.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from psconrl._checks import Floats
from psconrl.agents import catalogue
from psconrl.analysis.records import Group, Groups
from psconrl.cmdp import CMDP, Layout
from psconrl.environments import make, registry
from psconrl.environments.grid import ACTIONS
from psconrl.errors import PsconrlError
from psconrl.experiments.record import RunRecord
from psconrl.experiments.spec import file_checksum
from psconrl.experiments.store import Store
from psconrl.planning import evaluate, solve
from psconrl.planning.solution import Solution
from psconrl.report.panels import agent_label, title
from psconrl.report.rerun import usual_settings
from psconrl.simulation.run import Snapshot

DRAWN = 2500
"""Models with more states are not drawn."""
EVALUATED = 500
"""Executed policies are evaluated exactly in models with at most this many states."""
ENTRIES = 40_000
"""Most states times snapshots kept of one run."""
_SURE = 0.9995
_LONG = 30
_SAME = 1e-6
"""How far the optimum of a rebuilt model may lie from the stored one."""


@dataclass(frozen=True, eq=False)
class Agent:
    """One cell on the page: its label, its runs, and the run that is looked into."""

    label: str
    group: Group
    record: RunRecord


@dataclass(frozen=True, eq=False)
class World:
    """One model with the agents that were run in it; cmdp and solution are None where it cannot be rebuilt."""

    title: str
    record: RunRecord
    agents: Sequence[Agent]
    cmdp: CMDP | None
    solution: Solution | None

    @property
    def layout(self) -> Layout | None:
        """The map, if policies can be drawn on it."""
        return self.cmdp.layout if self.cmdp is not None and self.cmdp.action_names == ACTIONS else None

    @property
    def shared(self) -> bool:
        """Whether all runs had this model; else it is that of the run that is looked into."""
        return all(len({_key(o) for o in agent.group.env_options}) == 1 for agent in self.agents)


def worlds(store: Store, groups: Groups) -> list[World]:
    """The environments, each with one run of every agent, in the order in which psconrl lists them."""
    specified = {cell["id"]: cell for document in store.experiments().values() for cell in document["cells"]}
    found: dict[str, list[RunRecord]] = {}
    for cell, record in sorted(representatives(store, groups).items(), key=lambda item: _order(item[1])):
        model = specified.get(cell, {}).get("model")
        found.setdefault(f"{record.env} {_key(record.env_options)} {model}", []).append(record)
    return [_world(records, groups, specified.get(records[0].cell, {})) for records in found.values()]


def _order(record: RunRecord) -> tuple[Any, ...]:
    known = [list(registry()), list(catalogue.registry())]
    places = [
        names.index(name) if name in names else len(names)
        for names, name in zip(known, (record.env, record.agent), strict=True)
    ]
    options, settings = _key(record.env_options), _key(record.settings)
    usual = settings == _key(usual_settings(record.agent, record.env))
    return places[0], record.env, len(options), options, places[1], not usual, settings, record.horizon


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


def _world(records: Sequence[RunRecord], groups: Groups, specified: Mapping[str, Any]) -> World:
    first = records[0]
    agents = [
        Agent(label, groups[record.cell], record)
        for label, record in zip(distinct([groups[record.cell] for record in records]), records, strict=True)
    ]
    cmdp, solution = _rebuilt(first, specified)
    return World(_title(groups[first.cell]), first, agents, cmdp, solution)


def _title(group: Group) -> str:
    """The environment with the options that all runs share, long ones cut."""
    first = group.env_options[0]
    shared = [key for key in sorted(first) if all(options.get(key) == first[key] for options in group.env_options)]
    values = {key: " ".join(str(first[key]).split()) for key in shared}
    told = [f"{key} = {text if len(text) <= _LONG else text[:_LONG] + '…'}" for key, text in values.items()]
    return ", ".join([title(group.env), *told])


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


def _rebuilt(record: RunRecord, specified: Mapping[str, Any]) -> tuple[CMDP | None, Solution | None]:
    """The model of a run and its solution, unless it is too large or no longer what was run."""
    if record.states > DRAWN or not record.rebuildable:
        return None, None
    try:
        if specified.get("model"):
            path = specified["env"]
            cmdp = CMDP.load(path) if file_checksum(path) == specified["model"] else None
        else:
            cmdp = make(record.env, **record.env_options)
    except (PsconrlError, TypeError, ValueError, OSError, MemoryError):
        return None, None
    if cmdp is None or (cmdp.S, cmdp.A, cmdp.cost_names) != (record.states, record.actions, record.cost_names):
        return None, None
    solution = solve(cmdp)
    same = np.isclose(solution.value, record.optimum, rtol=0, atol=_SAME, equal_nan=True)
    return (cmdp, solution) if same else (None, None)


def document(world: World) -> dict[str, Any]:
    """The world as JSON values."""
    record, cmdp = world.record, world.cmdp
    content: dict[str, Any] = {
        "states": list(cmdp.state_names) if cmdp else [str(s) for s in range(min(record.states, DRAWN))],
        "actions": list(cmdp.action_names) if cmdp else [str(a) for a in range(record.actions)],
        "costs": list(record.cost_names),
        "limits": [_number(tau) for tau in record.thresholds],
        "optimum": _number(record.optimum),
        "map": _map(world.layout, cmdp.initial) if cmdp and world.layout else None,
        "optimal": None,
        "agents": [_agent(agent.record, cmdp) for agent in world.agents],
    }
    if cmdp and world.solution:
        share = evaluate(cmdp, world.solution.policy).stationary
        content["optimal"] = {
            "policy": encoded(world.solution.policy),
            "share": [round(float(x), 5) for x in share],
            "averages": [_number(x) for x in world.solution.average_costs],
        }
    return content


def _map(layout: Layout, initial: Floats) -> dict[str, Any]:
    content: dict[str, Any] = {"rows": list(layout.rows), "agent": layout.agent.tolist(), "box": None}
    if layout.box is not None:
        start = layout.box[int(np.argmax(initial))].tolist()
        places = [list(place) for place in dict.fromkeys(map(tuple, layout.box.tolist()))]
        places.sort(key=lambda place: (place != start, place))
        content |= {"box": layout.box.tolist(), "places": places}
    return content


def kept(record: RunRecord) -> Sequence[Snapshot]:
    """The snapshots of a run that are shown: all of them, fewer if the model is large, none if it is not drawn."""
    if record.states > DRAWN:
        return ()
    most = max(2, ENTRIES // record.states)
    if len(record.snapshots) <= most:
        return record.snapshots
    chosen = np.linspace(0, len(record.snapshots) - 1, most).round().astype(np.int64)
    return [record.snapshots[k] for k in chosen]


def _agent(record: RunRecord, cmdp: CMDP | None) -> dict[str, Any]:
    starts = record.episodes["start"]
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
        if cmdp and len(snapshot.policy) == 1 and cmdp.S <= EVALUATED:
            entry["averages"] = _averages(cmdp, snapshot.policy[0])
        if len(snapshot.policy) > 1:
            entry["layers"] = len(snapshot.policy)
        snapshots.append(entry)
    return {"horizon": record.horizon, "plans": len(starts), "snapshots": snapshots}


def _averages(cmdp: CMDP, policy: Floats) -> list[float | None]:
    """The policy's exact long-run averages in the true model."""
    return [_number(x) for x in evaluate(cmdp, policy).average_costs @ cmdp.initial]


def encoded(policy: Floats) -> list[int | list[int]]:
    """A policy (S, A), state by state."""
    sure = policy.max(axis=1) >= _SURE
    return [
        int(row.argmax()) if certain else [round(1000 * float(p)) for p in row]
        for row, certain in zip(policy, sure, strict=True)
    ]


def _number(value: float) -> float | None:
    return round(float(value), 6) if np.isfinite(value) else None
