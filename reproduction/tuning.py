"""Fair sweeps: every agent with as many settings in every gridworld, with and without slip.

Settings are ranked by regret plus the price of the limit times [V]+ (`ends.ends`): by L alone staying on a safe policy
would be as good as the best.
"""

from __future__ import annotations

from psconrl.analysis import Groups, format_mean_ci, short
from psconrl.experiments import Experiment
from reproduction import Document
from reproduction.comparison import NAMES, winners
from reproduction.comparisons import SWEPT
from reproduction.final_values import code_of, final_values
from reproduction.presets import find
from reproduction.selection import Selected, select

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
        **final_values(found.group),
    }


def worlds(found: Document) -> list[tuple[str, float]]:
    """Environment and slip, in order."""
    return list(dict.fromkeys((row["env"], row["slip"]) for row in found["rows"]))


def heading(env: str, slip: float) -> str:
    """A world in words."""
    states = ", 60 states" if env == "box" else ""
    return f"{NAMES.get(env, env)}{states}" + (f", slip {slip:g}" if slip else "")


def chosen(found: Document, env: str, slip: float) -> list[Document]:
    """The best setting of each agent in a world, the best agent first."""
    here = [row for row in found["rows"] if (row["env"], row["slip"]) == (env, slip)]
    rows = [
        min((row for row in here if row["agent"] == agent), key=lambda row: row["charged"]["mean"])
        for agent in dict.fromkeys(row["agent"] for row in here)
    ]
    return sorted(rows, key=lambda row: row["charged"]["mean"])


def headline(found: Document) -> str:
    """Who wins where, in one sentence: the least regret plus price of [V]+, at the best of an agent's settings.

    Agents whose 95% interval meets that of the first are named with it.
    """
    best: dict[str, list[str]] = {}
    for env, slip in worlds(found):
        first, *others = chosen(found, env, slip)
        near = [row["agent"] for row in others if not _below(first["charged"], row["charged"])]
        where = heading(env, slip).replace(", slip", " with slip")
        best.setdefault(" or ".join([first["agent"], *near]), []).append(where)
    budget = len({(row["agent"], row["value"]) for row in found["rows"]}) // len({r["agent"] for r in found["rows"]})
    return (
        f"With each agent tuned over {budget} settings, the least regret plus price of [V]+ belongs to {winners(best)} "
        '("or" where 95% intervals meet).\n'
    )


def _below(first: Document, second: Document) -> bool:
    """Whether the interval of one mean is wholly below that of another; one run has none."""
    return None not in (first["high"], second["low"]) and bool(first["high"] < second["low"])


def best(found: Document) -> str:
    """The best setting of each agent in each world, the winner first. Markdown."""
    lines = [
        f"| | agent | setting | {' | '.join(_COLUMNS.values())} | worst tenth |",
        "|---" * (4 + len(_COLUMNS)) + "|",
    ]
    for env, slip in worlds(found):
        name = heading(env, slip)
        for row in chosen(found, env, slip):
            numbers = [format_mean_ci(row[key]) for key in _COLUMNS]
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
        counts = sorted({row["runs"] for row in here})
        runs = f"{counts[0]}" if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
        lines += [
            f"### {heading(env, slip)}, T = {here[0]['horizon']:,}, {runs} runs",
            "",
            f"| agent | setting | {' | '.join(_COLUMNS.values())} | worst tenth |",
            "|---" * (3 + len(_COLUMNS)) + "|",
        ]
        for row in here:
            numbers = [format_mean_ci(row[key]) for key in _COLUMNS]
            setting = f"{row['parameter']} {row['value']:g}"
            worst = short(row["charged"]["worst"])
            lines.append(f"| {row['agent']} | {setting} | {' | '.join(numbers)} | {worst} |")
        lines.append("")
    return "\n".join(lines)
