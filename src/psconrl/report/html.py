"""The report as one HTML file: works from disk, without a network, and holds all the numbers that it shows.

Figures and maps are drawn by the page's own scripts from JSON inside it; the tables are plain HTML. The page's
security policy allows its own scripts and style sheet, named by their checksums, and nothing else. Equal runs make
equal files.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping, Sequence
from importlib import resources
from typing import Any

import numpy as np

from psconrl._core.checks import Floats
from psconrl._core.numbers import number, with_minus
from psconrl.analysis import curves
from psconrl.analysis.groups import Group, Groups
from psconrl.analysis.statistics import Interval, mean_interval
from psconrl.environments.text_map import LETTERS
from psconrl.experiments.store import Store
from psconrl.report import chart_data, explorer_data, findings
from psconrl.report.explorer_data import World
from psconrl.report.panels import agent_label
from psconrl.report.rerun import recipes
from psconrl.report.section import Section

SCRIPTS = ("dom.js", "chart.js", "map.js", "page.js")
STYLE = "report.css"
PAGE = "report.html.jinja"

_UNNAMED = "run"
"""The name of experiments that were given on the command line."""

_LONG_NAME = 14
"""Letters of a state's name from which on drawings need more room."""
_FEW = 5
"""The policies of so many agents are shown until more are asked for."""
_MANY, _KINDS = 6, 3
"""Where there are more agents than that, of so many kinds, one of each kind leads and the others follow on demand; in
studies of fewer kinds the settings are what matters."""


def render(
    store: Store,
    groups: Groups,
    sections: Sequence[Section] = (),
    made: Mapping[str, str] | None = None,
) -> str:
    """The page of the runs in a store.

    Args:
        store: the folder of runs.
        groups: the runs of each cell.
        sections: figures, tables and texts, in their order.
        made: when and with what all this was made, for people.

    Returns:
        HTML.
    """
    from jinja2 import Environment, PackageLoader, StrictUndefined

    worlds = explorer_data.worlds(store, groups)
    figures = {name: rows for section in sections for name, rows in section.figures.items() if rows and rows[0]}
    drawn = {name: chart_data.figure(rows) for name, rows in figures.items()}
    data = {"figures": drawn, "worlds": [explorer_data.document(world) for world in worlds]}
    style = _template(STYLE)
    script = "(() => {\n'use strict';\n" + "".join(_template(name) for name in SCRIPTS) + "})();"
    environment = Environment(
        loader=PackageLoader("psconrl.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    # The first experiment of a folder has the shortest name.
    experiments = sorted(store.experiments().items(), key=lambda item: len(item[0]))
    return environment.get_template(PAGE).render(
        policy=_security_policy(script, style),
        style=style,
        script=script,
        data=embedded(data),
        made=made or {},
        heading=_heading([str(document["name"]) for _, document in experiments], [world.title for world in worlds]),
        runs=sum(group.runs for group in groups.values()),
        steps=sum(group.runs * group.horizon for group in groups.values()),
        failures=len(store.failures()),
        codes=sorted({code for group in groups.values() for code in group.codes}),
        agents=sorted({group.agent for group in groups.values()}),
        sections=[_section(k, section, drawn) for k, section in enumerate(sections)],
        worlds=[_world(k, world) for k, world in enumerate(worlds)],
        experiments=[_experiment(*item) for item in experiments],
    )


def _heading(names: Sequence[str], titles: Sequence[str]) -> str:
    """The studies by name; those that have none, by where they took place."""
    named = list(dict.fromkeys(name for name in names if name != _UNNAMED)) or list(titles)
    more = f" and {len(named) - 3} more" if len(named) > 3 else ""
    return ", ".join(named[:3]) + more or "Experiments"


def embedded(data: Any) -> str:
    """JSON that may stand inside a script element: nothing in it can end the element or open a comment."""
    text = json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


def _template(name: str) -> str:
    return resources.files("psconrl.report").joinpath("templates", name).read_text(encoding="utf-8")


def _security_policy(script: str, style: str) -> str:
    def checksum(text: str) -> str:
        return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()

    return (
        f"default-src 'none'; script-src 'sha256-{checksum(script)}'; style-src 'sha256-{checksum(style)}'; "
        "base-uri 'none'; form-action 'none'"
    )


def _section(k: int, section: Section, drawn: Mapping[str, dict[str, Any]]) -> dict[str, Any]:
    """A section as the template takes it; drawn: charts by name."""
    return {
        "id": f"section-{k}",
        "title": section.title,
        "paragraphs": list(section.text),
        "figures": [{"name": name, "strips": drawn[name]["strips"]} for name in section.figures if name in drawn],
        "tables": [
            {
                "head": list(table.head),
                "rows": [[with_minus(cell) for cell in row] for row in table.rows],
                "caption": table.caption,
            }
            for table in section.tables
        ],
        "closed": section.closed,
    }


def _world(k: int, world: World) -> dict[str, Any]:
    record = world.record
    leading = _leading(world)
    names = [agent_label(agent.group) for agent in world.agents]
    shown = [names.index(name) for name in dict.fromkeys(names)][:_FEW]
    unknown = [None] * len(record.cost_names)
    stored = world.described["optimal"]["averages"] if world.described else unknown
    averages = [np.nan if value is None else value for value in stored]
    return {
        "id": f"world-{k}",
        "title": world.title,
        "states": record.states,
        "actions": record.actions,
        "optimum": number(record.optimum),
        "main": record.cost_names[0],
        "margin": number(record.margin),
        "feasible": bool(np.isfinite(record.optimum)),
        "shared": world.shared,
        "seed": record.seed,
        "known": world.described is not None,
        "drawn": any(explorer_data.kept(agent.record) for agent in world.agents),
        "boxed": world.map is not None and world.map["box"] is not None,
        "size": _size(world),
        "limits": [
            {"name": name, "limit": number(tau), "use": number(use), "price": number(price)}
            for name, tau, use, price in zip(
                record.cost_names[1:], record.thresholds, averages[1:], record.multipliers, strict=True
            )
        ],
        "found": _findings(world),
        "key": _key(world),
        "agents": [
            _agent(agent.label, agent.group, agent.record.seed, len(explorer_data.kept(agent.record)))
            | {"index": j, "shown": j in shown, "leads": j in leading}
            for j, agent in enumerate(world.agents)
        ],
    }


def _leading(world: World) -> list[int]:
    """Which agents of a world lead: all, or of each kind the first, which has the settings that are usual there."""
    names = [agent_label(agent.group) for agent in world.agents]
    kinds = dict.fromkeys(names)
    if len(names) <= _MANY or len(kinds) < _KINDS:
        return list(range(len(names)))
    return [names.index(name) for name in kinds]


def _findings(world: World) -> dict[str, Any]:
    """What to say of a world first: sentences, and a row for each agent that leads, the best first; then the others."""
    leading = _leading(world)
    alone = len(leading) < len(world.agents)
    groups = [world.agents[j].group for j in leading]
    labels = [agent_label(world.agents[j].group) if alone else world.agents[j].label for j in leading]
    found = [findings.finding(label, group) for label, group in zip(labels, groups, strict=True)]
    others = [findings.finding(a.label, a.group) for j, a in enumerate(world.agents) if j not in leading]
    return {
        "sentences": findings.sentences(found, *findings.horizons(groups)),
        "limits": [
            f"{use.name} ≤ {number(use.limit)}" if np.isfinite(use.limit) else use.name for use in found[0].uses
        ],
        "rows": [_found(f) for f in sorted(found, key=_place)],
        "others": [_found(f) for f in sorted(others, key=_place)],
    }


def _place(found: findings.Finding) -> tuple[bool, float]:
    return not found.learns, np.inf if found.score is None else found.score.mean


def _found(found: findings.Finding) -> dict[str, Any]:
    return {
        "label": found.label,
        "regret": _shown(found.regret),
        "average": with_minus(number(found.average)),
        "score": _shown(found.score),
        "uses": [
            {
                "violation": _shown(use.violation),
                "average": with_minus(number(use.average)),
                "mark": findings.MARKS[use.verdict],
                "verdict": use.verdict,
                "kind": use.verdict.replace(" ", "-"),
            }
            for use in found.uses
        ],
    }


def _size(world: World) -> str:
    """How much room its drawings need."""
    if world.map is None:
        names = world.described["states"] if world.described else [""]
        return "wide" if world.record.actions > 6 else "named" if max(map(len, names)) > _LONG_NAME else ""
    return "large" if max(len(world.map["rows"]), len(world.map["rows"][0])) > 8 else ""


def _key(world: World) -> list[tuple[str, str]]:
    """The marks in the drawings of a world, with their meanings."""
    if world.map is None:
        return [("share", "probability of an action")]
    present = set("".join(world.map["rows"]))
    return [(name, name) for letter, name in LETTERS.items() if letter in present and letter != "."]


def _agent(label: str, group: Group, seed: int, snapshots: int) -> dict[str, Any]:
    ends = curves.signed(group)[..., -1]
    infeasible = curves.infeasible_steps(group)[:, -1] / group.horizon
    seconds = group.seconds[np.isfinite(group.seconds)]
    return {
        "label": label,
        "horizon": f"{group.horizon:,}",
        "runs": group.runs,
        "seed": seed,
        "snapshots": snapshots,
        "last": max(snapshots - 1, 0),
        "regret": _interval(ends[:, 0]),
        "lagrangian": _interval(curves.lagrangian(group)[:, -1]),
        "violations": [
            {
                "signed": _interval(ends[:, i + 1]),
                "positive": _interval(curves.positive_violation(group)[:, i, -1]),
                "largest": _interval(curves.largest_violation(group)[:, i, -1]),
                "policies": _interval(curves.policy_violation(group)[:, i, -1]),
            }
            for i in range(group.m)
        ],
        "episodes": f"{np.mean([len(table) for table in group.episodes]):,.0f}",
        "infeasible": f"{100 * infeasible.mean():.3g}%",
        "seconds": _seconds(float(seconds.mean())) if len(seconds) else "n/a",
        "mixture": len(group.codes) > 1,
    }


def _interval(values: Floats) -> tuple[str, str]:
    """The mean and its interval; of one run, the mean alone."""
    return _shown(mean_interval(values)) if np.isfinite(values).all() else ("n/a", "")


def _shown(found: Interval | None) -> tuple[str, str]:
    if found is None or not np.isfinite(found.mean):
        return "n/a", ""
    interval = f"[{number(found.low)}, {number(found.high)}]" if np.isfinite(found.low) else ""
    return with_minus(number(found.mean)), with_minus(interval)


def _seconds(value: float) -> str:
    return f"{value:.2g}" if value < 10 else f"{value:,.0f}"


def _experiment(source: str, document: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "name": document["name"],
        "title": "Given on the command line" if document["name"] == _UNNAMED else document["name"],
        "recipes": recipes(document, source),
        "cells": [
            cell | {"settings": _table(cell["settings"]), "env_options": _table(cell["env_options"])}
            for cell in document["cells"]
        ],
    }


def _table(values: Mapping[str, Any]) -> str:
    return ", ".join(f"{key} = {value}" for key, value in values.items()) or "–"
