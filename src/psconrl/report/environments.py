"""The environments of a store, each with its agents, in the order and under the names of every part of a report."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from psconrl.agents import catalogue
from psconrl.analysis.groups import Group, Groups
from psconrl.environments import registry
from psconrl.experiments.record import RunRecord
from psconrl.experiments.store import Store
from psconrl.experiments.world import DESCRIBED

_LONG = 30
"""Characters of an option's value."""


@dataclass(frozen=True, eq=False)
class AgentRuns:
    """The runs of an agent, its name among those of its environment, and the run whose plans are shown."""

    label: str
    group: Group
    record: RunRecord


@dataclass(frozen=True, eq=False)
class EnvironmentRuns:
    """One model, with the agents that were run in it."""

    title: str
    agents: Sequence[AgentRuns]

    @property
    def groups(self) -> list[Group]:
        """The runs of each agent."""
        return [agent.group for agent in self.agents]

    @property
    def labels(self) -> list[str]:
        """The name of each agent."""
        return [agent.label for agent in self.agents]

    @property
    def record(self) -> RunRecord:
        """A run in this model."""
        return self.agents[0].record

    @property
    def model(self) -> dict[str, Any] | None:
        """What is stored about the model, see `psconrl.experiments.world`; None of large ones."""
        if self.record.states > DESCRIBED:
            return None
        return next((agent.record.world for agent in self.agents if agent.record.world), None)

    @property
    def shared(self) -> bool:
        """Whether all runs had this model."""
        return all(len(set(map(_key, group.env_options))) == 1 for group in self.groups)


def environments(store: Store, groups: Groups) -> list[EnvironmentRuns]:
    """The environments of a store, in the order in which psconrl lists them.

    Of an agent with several settings those come first that were asked for first.

    Args:
        store: the folder of the runs.
        groups: the runs of each cell.

    Returns:
        The environments, each with its agents.
    """
    experiments = sorted(store.experiments().items(), key=lambda item: len(item[0]))  # the first has the shortest name
    requested: dict[str, dict[str, Any]] = {}
    for _, document in experiments:
        for cell in document["cells"]:
            requested.setdefault(cell["id"], cell)
    place = {cell: k for k, cell in enumerate(requested)}

    def order(record: RunRecord) -> tuple[Any, ...]:
        options, settings = _key(record.env_options), _key(record.settings)
        return (
            *(_place(record.env, registry()), record.env, len(options), options),
            *(_place(record.agent, catalogue.registry()), place.get(record.cell, len(place)), settings, record.horizon),
        )

    found: dict[str, list[RunRecord]] = {}
    for record in sorted(_first_runs(store, groups), key=order):
        model = requested.get(record.cell, {}).get("model")
        found.setdefault(f"{record.env} {_key(record.env_options)} {model}", []).append(record)
    return [_environment(records, [groups[record.cell] for record in records]) for records in found.values()]


def title(env: str, states: int | None = None) -> str:
    """The name of an environment in headings.

    Args:
        env: its name. Those that come with psconrl are written as words; others, such as files, stay as they are.
        states: the number of its states, which tells the two versions of Box apart.

    Returns:
        For instance "Marsrover 4x4".
    """
    words = env.replace("-", " ").capitalize() if env in registry() else env
    return f"{words}, {states} states" if env == "box" and states else words


def agent_label(group: Group) -> str:
    """The name of an agent, with the setting that tells it from others of its kind.

    Args:
        group: its runs.

    Returns:
        For instance "PSConRL (explore)".
    """
    rule = group.settings.get("infeasible", "uniform")
    return group.agent if rule == "uniform" else f"{group.agent} ({rule})"


def distinct(groups: Sequence[Group]) -> list[str]:
    """A label for each group; settings and horizons are added where agents repeat and differ in them."""
    names = [agent_label(group) for group in groups]
    labels = []
    for name, group in zip(names, groups, strict=True):
        alike = [other for other, its in zip(groups, names, strict=True) if its == name]
        keys = sorted({key for other in alike for key in other.settings})
        details = {k: group.settings.get(k) for k in keys if _differ(other.settings.get(k) for other in alike)}
        words = [f"{key}={value}" for key, value in details.items() if key in group.settings]
        words += [f"T={group.horizon:,}"] if _differ(other.horizon for other in alike) else []
        words += [f"costs {group.costs}"] if _differ(other.costs for other in alike) else []
        labels.append(", ".join([name, *words]))
    return labels


def _first_runs(store: Store, groups: Groups) -> Iterator[RunRecord]:
    """The run with the first seed of each cell, made by the code that made most of the cell's runs."""
    files = store.files()
    missing = set(groups)
    for seed in sorted({file.seed for file in files}):
        for record in store.records({file.identity for file in files if file.seed == seed}):
            if record.cell in missing and record.code in groups[record.cell].codes:
                missing.remove(record.cell)
                yield record
        if not missing:
            return


def _environment(records: Sequence[RunRecord], groups: Sequence[Group]) -> EnvironmentRuns:
    agents = [AgentRuns(*entry) for entry in zip(distinct(groups), groups, records, strict=True)]
    first = groups[0]
    options = first.shared_options
    if first.env == "box":
        options.pop("full", None)  # the number of states says it
    values = {key: " ".join(str(value).split()) for key, value in options.items()}
    words = [f"{key} = {text if len(text) <= _LONG else text[:_LONG] + '…'}" for key, text in values.items()]
    return EnvironmentRuns(", ".join([title(first.env, first.S), *words]), agents)


def _place(name: str, names: Mapping[str, Any]) -> int:
    return list(names).index(name) if name in names else len(names)


def _differ(values: Iterator[Any]) -> bool:
    return len(set(map(json.dumps, values))) > 1


def _key(options: Mapping[str, Any]) -> str:
    return json.dumps(dict(options), sort_keys=True)
