"""The report as one HTML file: works from disk, without a network, and holds all the numbers that it shows.

Charts are drawings inside the page, tables are plain HTML; the page's own scripts hide and show lines and draw policies
from JSON inside it. The page's security policy allows its own scripts and style sheet, named by their checksums, and
nothing else. Equal runs make equal files.
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
from psconrl._core.numbers import number, plural, short, with_minus
from psconrl.agents import catalogue
from psconrl.analysis import curves
from psconrl.analysis.statistics import Interval, mean_interval
from psconrl.environments import registry
from psconrl.experiments.store import Store
from psconrl.report import figures, findings, policies
from psconrl.report.environments import AgentRuns, EnvironmentRuns, agent_label
from psconrl.report.panels import Line, Panel, PanelRows
from psconrl.report.sections import Section
from psconrl.report.styles import Style, styles

SCRIPTS = ("map.js", "page.js")
STYLE = "report.css"
PAGE = "report.html.jinja"

_UNNAMED = "run"
"""The name of experiments that were given on the command line."""
_FEW = 5
"""Agents whose policies are shown until more are asked for."""
_TABLE_ROWS = 11
"""Rows in the table of a chart's numbers."""


def render(
    store: Store,
    environments: Sequence[EnvironmentRuns],
    sections: Sequence[Section] = (),
    made: Mapping[str, str] | None = None,
    overview: bool = True,
) -> str:
    """The page of the runs in a store.

    Args:
        store: the folder of runs.
        environments: what was run.
        sections: text, figures and tables, in their order.
        made: when and with what all this was made, for people.
        overview: whether the summary and the policies of all runs are open, or open on demand.

    Returns:
        HTML.
    """
    from jinja2 import Environment as Templates
    from jinja2 import PackageLoader, StrictUndefined

    style = _template(STYLE)
    script = "(() => {\n'use strict';\n" + "".join(map(_template, SCRIPTS)) + "})();"
    templates = Templates(
        loader=PackageLoader("psconrl.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    templates.filters["plural"] = plural
    templates.filters["minus"] = with_minus
    # The first experiment of a folder has the shortest name.
    experiments = sorted(store.experiments().items(), key=lambda item: len(item[0]))
    groups = [group for env in environments for group in env.groups]
    return templates.get_template(PAGE).render(
        policy=_security_policy(script, style),
        style=style,
        script=script,
        data=embedded([policies.document(env) for env in environments]),
        made=made or {},
        overview=overview,
        heading=_heading([str(document["name"]) for _, document in experiments], [env.title for env in environments]),
        runs=sum(group.runs for group in groups),
        steps=sum(group.runs * group.horizon for group in groups),
        failures=len(store.failures()),
        codes={code for group in groups for code in group.codes},
        agents=sorted({group.agent for group in groups}),
        allowance=f"{findings.ALLOWANCE:.0%}",
        sections=[_section(section) for section in sections],
        environments=[_environment(env) for env in environments],
        experiments=[
            (file, document, document["name"] == _UNNAMED, _needs_import(document)) for file, document in experiments
        ],
    )


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


def _heading(names: Sequence[str], titles: Sequence[str]) -> str:
    """The studies by name; those that have none, by where they took place."""
    named = list(dict.fromkeys(name for name in names if name != _UNNAMED)) or list(titles)
    more = f" and {len(named) - 3} more" if len(named) > 3 else ""
    return ", ".join(named[:3]) + more or "Experiments"


def _needs_import(document: Mapping[str, Any]) -> bool:
    """Whether an experiment has agents or environments that psconrl does not have."""
    return any(
        cell["agent"] not in catalogue.registry() or (cell["model"] is None and cell["env"] not in registry())
        for cell in document["cells"]
    )


# Charts


def _section(section: Section) -> dict[str, Any]:
    """A section as the template takes it."""
    figures = {name: _strips(rows) for name, rows in section.figures.items() if rows and rows[0]}
    return {
        "title": section.title,
        "paragraphs": section.text,
        "figures": figures,
        "tables": section.tables,
        "closed": section.closed,
    }


def _strips(rows: PanelRows) -> list[dict[str, Any]]:
    """A figure as strips of panels that belong together, above all regret and violation in one environment."""
    stacked = len(rows) > 1
    columns = list(zip(*rows, strict=True)) if stacked else rows[:1]
    looks = styles(line.label for column in columns for panel in column for line in panel.lines)
    return [_strip([panel for panel in column if not panel.empty], looks, stacked) for column in columns]


def _strip(panels: Sequence[Panel], looks: Mapping[str, Style], stacked: bool) -> dict[str, Any]:
    """Panels that were stacked have one title above them all; the others each have their own."""
    labels = dict.fromkeys(line.label for panel in panels for line in panel.lines)
    return {
        "title": panels[0].title if stacked else "",
        "legend": [
            (label, looks[label].color, " ".join(f"{2 * d:g}" for d in looks[label].dashes)) for label in labels
        ],
        "panels": [
            {
                "title": _one_line(panel.y_label) if stacked else panel.title,
                "y_label": "" if stacked else _one_line(panel.y_label),
                "drawing": figures.svg(panel, looks),
                "x_label": panel.x_label,
                "numbers": _numbers(panel),
            }
            for panel in panels
        ],
    }


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _numbers(panel: Panel) -> list[list[str]]:
    """The numbers of a panel as a table: the labels, then a row for each of some places on the x axis."""
    if not panel.lines:
        return []
    texts = dict(panel.ticks)
    every = np.unique(np.concatenate([line.x for line in panel.lines]))
    places = every[figures.thinned(every, bool(panel.logarithmic), _TABLE_ROWS)]
    head = [panel.x_label, *(line.label for line in panel.lines)]
    return [head, *([texts.get(float(x), number(x)), *(_value(line, x) for line in panel.lines)] for x in places)]


def _value(line: Line, x: float) -> str:
    k = min(int(np.searchsorted(line.x, x * (1 - 1e-12))), len(line.x) - 1)
    if not np.isclose(line.x[k], x) and not line.x[0] < x < line.x[-1]:
        return ""
    return " ".join(_interval(Interval(line.mean[k], line.low[k], line.high[k])))


# Environments


def _environment(env: EnvironmentRuns) -> dict[str, Any]:
    record = env.record
    names = [agent_label(group) for group in env.groups]
    shown = [names.index(name) for name in dict.fromkeys(names)][:_FEW]  # one of each kind
    found = [findings.finding(agent.label, agent.group) for agent in env.agents]
    used = env.model["optimal"]["averages"][1:] if env.model else [None] * len(record.thresholds)
    return {
        "title": env.title,
        "states": record.states,
        "actions": record.actions,
        "optimum": number(record.optimum),
        "main": record.cost_names[0],
        "margin": number(abs(record.margin)),
        "feasible": bool(np.isfinite(record.optimum)),
        "shared": env.shared,
        "seed": record.seed,
        "known": env.model is not None,
        "map": bool(env.model and env.model["map"]),
        "box": bool(env.model and env.model["map"] and env.model["map"]["box"]),
        "room": policies.room(env),
        "legend": policies.legend(env),
        "limits": [
            (name, number(tau), None if use is None else number(use), number(price))
            for name, tau, use, price in zip(
                record.cost_names[1:], record.thresholds, used, record.multipliers, strict=True
            )
        ],
        "sentences": findings.sentences(found),
        "limits_in_words": [
            f"{use.name} ≤ {number(use.limit)}" if np.isfinite(use.limit) else use.name for use in found[0].uses
        ],
        "rows": [_row(entry) for entry in sorted(found, key=_rank)],
        "agents": [_measures(agent) | {"index": j, "shown": j in shown} for j, agent in enumerate(env.agents)],
    }


def _rank(found: findings.Finding) -> tuple[bool, bool, float]:
    """Who learns first, then who did not break a limit, then by score."""
    return not found.learns, found.verdict == "broken", np.inf if found.score is None else found.score.mean


def _row(found: findings.Finding) -> dict[str, Any]:
    return {
        "label": found.label,
        "regret": _interval(found.regret),
        "average": number(found.average),
        "score": _interval(found.score),
        "worst": number(found.worst) if found.score and found.runs > 1 else "",
        "uses": [
            (_interval(use.violation), number(use.average), findings.MARKS[use.verdict], use.verdict)
            for use in found.uses
        ],
    }


def _measures(agent: AgentRuns) -> dict[str, Any]:
    """All that is measured of an agent at its horizon."""
    group = agent.group
    infeasible = curves.infeasible_steps(group)[:, -1].mean() / group.horizon
    seconds = group.seconds[np.isfinite(group.seconds)]
    of_limits = [
        curve[..., -1]
        for curve in (group.violation, group.positive_violation, group.largest_violation, group.policy_violation)
    ]
    return {
        "label": agent.label,
        "seed": agent.record.seed,
        "snapshots": len(policies.snapshots(agent.record)),
        "mixture": len(group.codes) > 1,
        "sums": [
            _mean(group.regret[:, -1]),
            _mean(group.lagrangian[:, -1]),
            *(
                (text, "")
                for text in (
                    f"{group.horizon:,}",
                    f"{group.runs:,}",
                    f"{np.mean([len(table) for table in group.episodes]):,.0f}",
                    f"{100 * infeasible:.3g}%",
                    short(float(seconds.mean())) if len(seconds) else "n/a",
                )
            ),
        ],
        "limits": [[_mean(values[:, i]) for values in of_limits] for i in range(group.m)],
    }


def _mean(values: Floats) -> tuple[str, str]:
    """The mean and its interval; of one run, the mean alone."""
    return _interval(mean_interval(values) if np.isfinite(values).all() else None)


def _interval(found: Interval | None) -> tuple[str, str]:
    if found is None or not np.isfinite(found.mean):
        return "n/a", ""
    whole = np.isfinite(found.low) and found.low < found.high
    return number(found.mean), f"[{number(found.low)}, {number(found.high)}]" if whole else ""
