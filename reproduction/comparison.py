"""Three columns for each curve of the paper's two figures: published, with the authors' settings, and ours.

A published value is met if it lies within the 95% interval for a mean of as many runs, 1.96 sd sqrt(1/R' + 1/R) around
the mean of ours, widened by what a reading may be off. Every number comes from stored runs.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from psconrl.analysis import Group, Groups, format_mean_ci, listed, short
from reproduction import Document
from reproduction.comparisons import steps
from reproduction.final_values import code_of, final_values, precise
from reproduction.gridworlds import PAPER, algorithms
from reproduction.published import APPENDIX, FIGURE_1, READ, REASONS, tolerance
from reproduction.references import levels
from reproduction.selection import by_agent

NAMES = {"marsrover-4x4": "Marsrover 4x4", "marsrover-8x8": "Marsrover 8x8", "box": "Box"}


def document(groups: Groups) -> Document | None:
    """The numbers of the three columns; None unless both figures' runs are there."""
    theirs, ours = by_agent("authors", groups), by_agent("figure-1", groups)
    rows = []
    for setting in PAPER:
        for agent in algorithms(setting.env):
            key = setting.env, agent
            if key in theirs and key in ours:
                rows.append(_row(groups, setting.env, agent, theirs[key].group, ours[key].group, setting.window))
    if not rows:
        return None
    used = [found[key].group for found in (theirs, ours) for key in found]
    return {"code": code_of(used), "rows": rows}


def _row(groups: Groups, env: str, agent: str, theirs: Group, ours: Group, window: int) -> Document:
    setting = next(setting for setting in PAPER if setting.env == env)
    published = FIGURE_1[env, agent]._asdict()
    columns = {"authors": final_values(theirs, window, READ[env]), "ours": final_values(ours, window, READ[env])}
    met = {
        name: _met(published[name], columns["authors"].get(f"plotted_{name}"), theirs.runs, setting.runs)
        for name in published
    }
    scale = replace(setting, horizon=theirs.horizon)
    tried = [
        {"text": step.text, **final_values(groups[step.cell.id], window, READ[env])}
        for step in steps(scale, agent)
        if step.of == "tried" and step.cell.id in groups
    ]
    for variant in tried:
        variant["met"] = all(
            _met(published[name], variant.get(f"plotted_{name}"), variant["runs"], setting.runs) for name in published
        )
    found = levels(env)
    policies = {name: [float(f"{x:.6g}") for x in getattr(found, name)] for name in ("optimal", "fast", "safe")}
    return {"env": env, "agent": agent, "published": published, **columns, "met": met, "tried": tried, **policies}


def _met(reading: float, quantity: Document | None, runs: int, published_runs: int) -> bool:
    if quantity is None:
        return False
    spread = 1.96 * quantity["sd"] * math.sqrt(1 / runs + 1 / published_runs)
    return bool(abs(quantity["mean"] - reading) <= spread + tolerance(reading))


def where(env: str, numbers: Mapping[str, Any]) -> str:
    """The environment in words; of Box, which."""
    return f"Box, {numbers['states']} states" if env == "box" else NAMES.get(env, env)


def figure_1(found: Document) -> str:
    """The table of Figure 1 in Markdown: regret | violation as plotted in all columns, then the others."""
    lines = [
        "| | | published | authors' settings | ours |",
        "|---|---|---|---|---|",
    ]
    for row in found["rows"]:
        reading = f"{row['published']['regret']:,} \\| {row['published']['violation']:,}"
        cells = [_pair(row[column], "plotted_regret", "plotted_violation") for column in ("authors", "ours")]
        lines.append(f"| **{_name(row)}** | as plotted | {reading} | {cells[0]} | {cells[1]} |")
        for name, first, second in (
            ("signed", "regret", "violation"),
            ("[V]+ \\| L", "positive_violation", "lagrangian"),
        ):
            told_here = [_pair(row[column], first, second) for column in ("authors", "ours")]
            lines.append(f"| | {name} | | {told_here[0]} | {told_here[1]} |")
    return "\n".join(lines) + "\n"


def _name(row: Mapping[str, Any]) -> str:
    return f"{NAMES[row['env']]}, {row['agent']}"


def _pair(numbers: Document, first: str, second: str) -> str:
    return f"{format_mean_ci(numbers.get(first))} \\| {format_mean_ci(numbers.get(second))}"


def unmet(found: Document) -> str:
    """The published curves that the authors' settings do not meet: why, and what was tried; Markdown."""
    lines = []
    for row in found["rows"]:
        if all(row["met"].values()):
            continue
        missed = " and ".join(name for name, met in row["met"].items() if not met)
        lines.append(f"**{_name(row)}** ({missed}). {_one_line(REASONS[row['env'], row['agent']])}")
        lines.append("")
        lines += ["| tried | as plotted | met | runs |", "|---|---|---|---|"]
        reading = f"{row['published']['regret']:,} \\| {row['published']['violation']:,}"
        plotted = {column: _pair(row[column], "plotted_regret", "plotted_violation") for column in ("authors", "ours")}
        lines.append(f"| published | {reading} | | |")
        lines.append(f"| authors' settings | {plotted['authors']} | no | {row['authors']['runs']} |")
        for variant in row["tried"]:
            pair = _pair(variant, "plotted_regret", "plotted_violation")
            lines.append(f"| {variant['text']} | {pair} | {'yes' if variant['met'] else 'no'} | {variant['runs']} |")
        lines.append(f"| ours | {plotted['ours']} | | {row['ours']['runs']} |")
        lines += ["", _met_by(row["tried"]), ""]
    if not lines:
        return "Every published curve is met.\n"
    met = [_name(row) for row in found["rows"] if all(row["met"].values())]
    head = f"Met: {'; '.join(met) or 'none'}. Not met:"
    return "\n".join([head, "", *lines]).rstrip() + "\n"


def _met_by(tried: list[Document]) -> str:
    met = [variant["text"] for variant in tried if variant["met"]]
    if not tried:
        return "What else was tried is run by `python -m reproduction factors`."
    return f"Met with: {'; '.join(met)}." if met else "Nothing that was tried meets it."


def _one_line(text: str) -> str:
    return " ".join(text.split())


def appendix(found: Document) -> str:
    """The table of the appendix figure in Markdown: reward | consumption, moving averages at T."""
    lines = [
        "| | published (text; the curves are not readable) | authors' settings | ours | optimal | safe |",
        "|---|---|---|---|---|---|",
    ]
    for row in found["rows"]:
        pairs = [
            f"{precise(row[column].get('reward'))} \\| {precise(row[column].get('consumption'))}"
            for column in ("authors", "ours")
        ]
        policies = [f"{1 - row[name][0]:.4f} \\| {row[name][1]:.4f}" for name in ("optimal", "safe")]
        said = APPENDIX[row["env"], row["agent"]]
        lines.append(f"| {_name(row)} | {said} | {' | '.join([*pairs, *policies])} |")
    return "\n".join(lines) + "\n"


def readme(found: Document) -> str:
    """One table for the README: environment and agent, regret, [V]+, L of ours, and the published values."""
    lines = [
        "| | regret | [V]+ | L | regret \\| violation as plotted | published |",
        "|---|---|---|---|---|---|",
    ]
    for row in found["rows"]:
        ours = row["ours"]
        numbers = [format_mean_ci(ours[name]) for name in ("regret", "positive_violation", "lagrangian")]
        plotted = f"{short(_mean(ours, 'plotted_regret'))} \\| {short(_mean(ours, 'plotted_violation'))}"
        reading = f"{row['published']['regret']:,} \\| {row['published']['violation']:,}"
        name = f"{where(row['env'], ours)}: {row['agent']}"
        lines.append(f"| {name} | {' | '.join(numbers)} | {plotted} | {reading} |")
    return "\n".join(lines) + "\n"


def winners(places: Mapping[str, Sequence[str]]) -> str:
    """Agents with the places where they win, in words."""
    told = [f"{agent} on {listed(names)}" for agent, names in places.items()]
    return told[0] if len(told) == 1 else f"{', to '.join(told[:-1])}, and to {told[-1]}"


def headline(found: Document) -> str:
    """Two sentences for the README: what was met, and who is best where."""
    met = sum(all(row["met"].values()) for row in found["rows"])
    best: dict[str, list[str]] = {}
    for env in dict.fromkeys(row["env"] for row in found["rows"]):
        here = [row for row in found["rows"] if row["env"] == env]
        first = min(here, key=lambda row: row["ours"]["charged"]["mean"])
        best.setdefault(first["agent"], []).append(where(env, first["ours"]))
    return (
        f"With settings that the authors' code had at some time, chosen among about 40 that were tried, {met} of the "
        f"{len(found['rows'])} published curves are met within the noise of their runs. "
        "With the algorithms as their papers define them, the least regret plus price of [V]+ belongs to "
        f"{winners(best)}.\n"
    )


def _mean(numbers: Document, name: str) -> float | None:
    return numbers[name]["mean"] if name in numbers else None
