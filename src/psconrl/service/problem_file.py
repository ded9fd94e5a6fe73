"""The readable TOML file that says what a service learns; `psconrl init --service` writes one to start from.

title = "Ward 7"
actions = ["discharge none", "discharge one"]
states = ["empty", "busy"]            # or a number, or "discovered": whatever is asked for is a state

[costs.waiting_hours]                 # the first cost is minimised
range = [0, 24]
unit = "h"

[costs.overtime]                      # all others have limits on their long-run averages
range = [0, 1]
limit = 0.2

[available]                           # optional: the actions of some states; all others have all
empty = ["discharge none"]

[learner]                             # optional
agent = "recommended"
seed = 0
expires_after_hours = 168             # when an unanswered decision is reported
window = 50000                        # forget older steps; left out: nothing is forgotten
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from psconrl import agents
from psconrl._core.checks import path as checked_path
from psconrl._core.checks import short_repr
from psconrl.agents import Agent
from psconrl.errors import InvalidArgumentError, PsconrlError, did_you_mean
from psconrl.io.reading import read_toml
from psconrl.problem import Problem

_KEYS = ("title", "states", "actions", "costs", "available", "learner")
_COST_KEYS = ("range", "unit", "limit")
_LEARNER_KEYS = ("agent", "seed", "expires_after_hours", "window", "history", "horizon", "settings")


@dataclass(frozen=True)
class ServiceProblem:
    """What a problem file says.

    Attributes:
        title: for the page.
        agent: what learns, with its problem.
        units: of the costs, "" where none is given.
        settings: further arguments of `psconrl.Learner.open`.
    """

    title: str
    agent: Agent
    units: tuple[str, ...]
    settings: dict[str, Any]


def read_problem(path: str | Path) -> ServiceProblem:
    """What a problem file says.

    Args:
        path: of a TOML file.

    Returns:
        The agent with its problem, and how to open its learner.

    Raises:
        InvalidArgumentError: if the file cannot be read or understood; the message names the key and the rule.
    """
    file = checked_path(path)
    document = read_toml(file, InvalidArgumentError)
    try:
        return _problem(document)
    except PsconrlError as error:
        raise InvalidArgumentError(f"{file}: {error}") from error


def _problem(document: Mapping[str, Any]) -> ServiceProblem:
    _only(document, _KEYS, "")
    costs = _table(document, "costs")
    if not costs:
        raise InvalidArgumentError("there is no [costs.NAME]; give at least the cost that is to be minimised")
    ranges, units, limits = [], [], {}
    for i, (name, cost) in enumerate(costs.items()):
        where = f"costs.{name}"
        if not isinstance(cost, Mapping):
            raise InvalidArgumentError(f"{where} is {short_repr(cost)}; it must be a table with range, unit and limit")
        _only(cost, _COST_KEYS, where + ".")
        ranges.append(cost.get("range", [0, 1]))
        units.append(str(cost.get("unit", "")))
        if (i == 0) == ("limit" in cost):
            rule = "the first cost is minimised and has no limit" if i == 0 else "all costs but the first need a limit"
            raise InvalidArgumentError(f"{where}: {rule}")
        if i:
            limits[name] = cost["limit"]
    states = document.get("states", "discovered")
    if "actions" not in document:
        raise InvalidArgumentError('actions is missing; give their names, as in actions = ["wait", "serve"]')
    available = document.get("available")
    problem = Problem(
        None if states == "discovered" else states,
        document["actions"],
        limits,
        cost_ranges=ranges,
        cost_names=list(costs),
        available=None if available is None else _table(document, "available"),
    )
    learner = _table(document, "learner")
    _only(learner, _LEARNER_KEYS, "learner.")
    agent = agents.find(str(learner.get("agent", "recommended")))(problem, **_table(learner, "settings"))
    settings: dict[str, Any] = {key: learner[key] for key in ("seed", "window", "history", "horizon") if key in learner}
    if "expires_after_hours" in learner:
        hours = learner["expires_after_hours"]
        if isinstance(hours, bool) or not isinstance(hours, (int, float)):
            raise InvalidArgumentError(f"learner.expires_after_hours is {short_repr(hours)}; it must be a number")
        settings["expires_after"] = 3600.0 * hours
    return ServiceProblem(str(document.get("title", "psconrl")), agent, tuple(units), settings)


def _table(document: Mapping[str, Any], key: str) -> dict[str, Any]:
    table = document.get(key, {})
    if not isinstance(table, Mapping):
        raise InvalidArgumentError(f"{key} is {short_repr(table)}; it must be a table, [{key}]")
    return dict(table)


def _only(table: Mapping[str, Any], known: tuple[str, ...], where: str) -> None:
    for key in table:
        if key not in known:
            raise InvalidArgumentError(
                f"{where}{key} is not known{did_you_mean(key, known)}; known: {', '.join(known)}"
            )
