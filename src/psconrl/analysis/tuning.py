"""Fair sweeps: every agent with as many settings in every gridworld, with and without slip.

Settings are ranked by regret plus the price of the limit times [V]+ (`ends.ends`): by L alone staying on a safe policy
would be as good as the best.
"""

from __future__ import annotations

from typing import Any

from psconrl.analysis.comparison import NAMES, winners
from psconrl.analysis.ends import code_of, ends, short, told
from psconrl.analysis.groups import Groups
from psconrl.analysis.selection import Selected, select
from psconrl.experiments.comparisons import SWEPT
from psconrl.experiments.presets import find
from psconrl.experiments.spec import Experiment

Document = dict[str, Any]
_COLUMNS = {"regret": "regret", "positive_violation": "[V]+", "lagrangian": "L", "charged": "regret + price of [V]+"}


def document(groups: Groups) -> Document | None:
    """The numbers of every setting in the worlds where all were run; None if there is no such world."""
    found = complete(groups)
    return {"code": code_of([f.group for f in found]), "rows": [_row(f) for f in found]} if found else None


def complete(groups: Groups) -> list[Selected]:
    """The cells of the sweeps in those environments in which all agents were run with all their settings.

    Other presets share some of the cells, and to compare a tuned agent with one that is not would be unfair.
    """
    found = select("sweeps", groups)
    there = {f.cell.id for f in found}
    whole: set[str] = set()
    for experiment in _scales():
        missing = {cell.env for cell in experiment.cells if cell.id not in there}
        whole |= {cell.id for cell in experiment.cells if cell.env not in missing}
    return [f for f in found if f.cell.id in whole]


def _scales() -> list[Experiment]:
    """The sweeps at the paper's scale and at a fraction of it."""
    return [found for quick in (False, True) if (found := find("sweeps").experiment(quick)) is not None]


def _row(found: Selected) -> Document:
    parameter = SWEPT[found.cell.agent][0]
    return {
        "env": found.cell.env,
        "slip": float(found.cell.env_options.get("slip", 0.0)),
        "agent": found.cell.agent,
        "parameter": parameter,
        "value": found.cell.settings[parameter],
        **ends(found.group),
    }


def worlds(found: Document) -> list[tuple[str, float]]:
    """Environment and slip, in order."""
    return list(dict.fromkeys((row["env"], row["slip"]) for row in found["rows"]))


def heading(env: str, slip: float) -> str:
    """A world in words."""
    states = ", 60 states" if env == "box" else ""
    return f"{NAMES.get(env, env)}{states}" + (f", slip {slip:g}" if slip else "")


def headline(found: Document) -> str:
    """Who wins where, in one sentence: the least regret plus price of [V]+, at the best of an agent's settings."""
    places: dict[str, list[str]] = {}
    for env, slip in worlds(found):
        here = [row for row in found["rows"] if (row["env"], row["slip"]) == (env, slip)]
        first = min(here, key=lambda row: row["charged"]["mean"])
        places.setdefault(first["agent"], []).append(heading(env, slip))
    budget = len({(row["agent"], row["value"]) for row in found["rows"]}) // len({r["agent"] for r in found["rows"]})
    return f"With {budget} settings to tune each, the least regret plus price of [V]+ belongs to {winners(places)}.\n"


def best(found: Document) -> str:
    """The best setting of each agent in each world, the winner first. Markdown."""
    lines = [
        f"| | agent | setting | {' | '.join(_COLUMNS.values())} | worst tenth |",
        "|---" * (4 + len(_COLUMNS)) + "|",
    ]
    for env, slip in worlds(found):
        here = [row for row in found["rows"] if (row["env"], row["slip"]) == (env, slip)]
        chosen = [
            min((row for row in here if row["agent"] == agent), key=lambda row: row["charged"]["mean"])
            for agent in dict.fromkeys(row["agent"] for row in here)
        ]
        name = heading(env, slip)
        for row in sorted(chosen, key=lambda row: row["charged"]["mean"]):
            numbers = [told(row[key]) for key in _COLUMNS]
            worst = short(row["charged"]["worst"])
            setting = f"{row['parameter']} {row['value']:g}"
            lines.append(f"| {name} | {row['agent']} | {setting} | {' | '.join(numbers)} | {worst} |")
            name = ""
    return "\n".join(lines) + "\n"


def markdown(found: Document) -> str:
    """All settings: a table for each world."""
    lines: list[str] = []
    for env, slip in worlds(found):
        here = [row for row in found["rows"] if (row["env"], row["slip"]) == (env, slip)]
        lines += [
            f"### {heading(env, slip)}, T = {here[0]['horizon']:,}, {here[0]['runs']} runs",
            "",
            f"| agent | setting | {' | '.join(_COLUMNS.values())} | worst tenth |",
            "|---" * (3 + len(_COLUMNS)) + "|",
        ]
        for row in here:
            numbers = [told(row[key]) for key in _COLUMNS]
            setting = f"{row['parameter']} {row['value']:g}"
            worst = short(row["charged"]["worst"])
            lines.append(f"| {row['agent']} | {setting} | {' | '.join(numbers)} | {worst} |")
        lines.append("")
    return "\n".join(lines)
