"""The curves of the paper's figures: as published, in the authors' set-up, and as the algorithms are printed.

A published value is met if it differs from our mean by at most the 95% interval of the difference of two means,
1.96 sqrt(sd'^2 / R' + sd^2 / R), and a pixel; sd' is what the figure shades, or ours where that cannot be read. Every
number comes from stored runs, and is read as the figure was drawn: over the same windows, at the same rounds, against
the same levels (`published`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from psconrl.analysis import Group, Groups, format_mean_ci, short
from psconrl.experiments import Cell
from reproduction import Document
from reproduction.measures import as_plotted, code_of, final_values, markdown_table, precise, summary
from reproduction.published import APPENDIX, FIGURE_1, NOT_MET, PICTURES, PIXEL, Reading
from reproduction.references import levels
from reproduction.settings import (
    AUTHORS,
    HERO,
    OPTIMISTIC,
    OWN,
    RIVALS,
    TRIED,
    Setting,
    algorithms,
    everywhere,
    reachable,
    released_cell,
    settings_of,
)

COLUMNS = {
    "authors": "in the authors' set-up",
    "own": "as printed, bonuses of the rivals' papers",
    "scaled": "as printed, bonuses scaled",
}
"""Ways to run an algorithm, in the order of tables. PSConRL has no bonus: it stands under both of the last two."""

QUANTITIES = ("regret", "violation")


def cell(setting: Setting, agent: str, column: str) -> Cell | None:
    """The cell of an algorithm in a column; None if there is none: the authors had all of Box."""
    if column == "authors":
        whole = setting in settings_of(True) or setting in settings_of(False)
        return released_cell(setting, agent) if whole else None
    return setting.cell(agent, OWN if column == "own" and agent != "PSConRL" else None)


def document(groups: Groups) -> Document | None:
    """The numbers of all curves at the largest scale that has runs of the authors' set-up; None without any."""
    for quick in (False, True):
        worlds = [s for s in everywhere(quick) if any(c and c.id in groups for _, _, c in _cells(s))]
        rows = [_row(groups, setting, agent) for setting in worlds for agent in algorithms(setting.env)]
        if any(row["authors"] for row in rows):
            used = [groups[c.id] for s in worlds for _, _, c in _cells(s) if c and c.id in groups]
            best = {s.name: _values(groups, s, s.cell("Recommended")) for s in worlds}
            return {
                "code": code_of(used),
                "rows": rows,
                "recommended": best,
                "tried": _tried(groups, quick),
                "pictures": _pictures(groups, quick),
                "costs": _costs(groups, quick),
            }
    return None


def _cells(setting: Setting) -> Iterator[tuple[str, str, Cell | None]]:
    yield from (
        (agent, column, cell(setting, agent, column)) for agent in algorithms(setting.env) for column in COLUMNS
    )


def _values(groups: Groups, setting: Setting, wanted: Cell | None) -> Document | None:
    if wanted is None or wanted.id not in groups:
        return None
    return final_values(groups[wanted.id], setting.window, setting.level)


def _row(groups: Groups, setting: Setting, agent: str) -> Document:
    columns = {column: _values(groups, setting, cell(setting, agent, column)) for column in COLUMNS}
    reading = FIGURE_1[setting.env, agent] if columns["authors"] else None
    found = levels(setting.env)
    policies = {name: [float(f"{x:.6g}") for x in getattr(found, name)] for name in ("optimal", "fast", "safe")}
    return {
        "env": setting.env,
        "world": setting.name,
        "agent": agent,
        "published": {**reading._asdict(), "runs": setting.runs} if reading else None,
        **columns,
        "met": _met(reading, columns["authors"], setting.runs, PIXEL[setting.env]) if reading else None,
        **policies,
    }


def _met(reading: Reading, values: Document | None, published_runs: int, pixel: tuple[float, float]) -> dict[str, bool]:
    """Whether regret and violation are met."""
    curves = zip(QUANTITIES, (reading.regret, reading.violation), reading.sds, pixel, strict=True)
    return {
        name: _is_met(published, sd, (values or {}).get(f"plotted_{name}"), published_runs, error)
        for name, published, sd, error in curves
    }


def _is_met(
    published: float, published_sd: float | None, ours: Document | None, published_runs: int, pixel: float
) -> bool:
    if ours is None:
        return False
    theirs = ours["sd"] if published_sd is None else published_sd
    band = 1.96 * math.sqrt(theirs**2 / published_runs + ours["sd"] ** 2 / ours["runs"])
    return bool(abs(ours["mean"] - published) <= band + pixel)


def _tried(groups: Groups, quick: bool) -> list[Document]:
    """What else was tried, as far as it was run."""
    settings = {setting.env: setting for setting in settings_of(quick)}
    rows = []
    for one in TRIED:
        setting = settings[one.env]
        values = _values(groups, setting, released_cell(setting, one.agent, one.change))
        if values is not None:
            met = all(_met(FIGURE_1[one.env, one.agent], values, setting.runs, PIXEL[one.env]).values())
            rows.append({"env": one.env, "agent": one.agent, "text": one.text, "met": met, **values})
    return rows


def _pictures(groups: Groups, quick: bool) -> list[Document]:
    """PSConRL on Marsrover 8x8 with the floor that fits each picture, read as that picture was drawn."""
    setting, rows = settings_of(quick)[1], []
    for picture in PICTURES:
        group = groups.get(released_cell(setting, "PSConRL", {"floor": picture.floor}).id)
        if group is None or quick:
            continue
        values = _until(group, picture.window, picture.until)
        met = all(_met(picture.reading, values, setting.runs, picture.pixel).values())
        rows.append({**picture._asdict(), "reading": picture.reading._asdict(), "met": met, **values})
    return rows


def _costs(groups: Groups, quick: bool) -> list[Document]:
    """All algorithms with estimated and with known costs, bonuses scaled, and UCRL-CMDP with its own radius."""
    rows = [
        {
            "world": setting.name,
            "agent": f"{agent}, own radius" if extra else agent,
            "estimated": _values(groups, setting, setting.cell(agent, extra)),
            "known": _values(groups, setting, setting.cell(agent, extra, costs="known")),
        }
        for setting in reachable(quick)
        for agent, extra in (*((agent, None) for agent in (HERO, *RIVALS, OPTIMISTIC)), (OPTIMISTIC, OWN))
    ]
    return [row for row in rows if row["estimated"] and row["known"]]


def _until(group: Group, window: int, until: int) -> Document:
    times, plotted = as_plotted(group, window)
    last = plotted[..., int(np.searchsorted(times, until, side="right")) - 1]
    return {f"plotted_{name}": summary(last[:, i]) for i, name in enumerate(QUANTITIES)}


def _pair(values: Mapping[str, Any] | None, first: str, second: str) -> str:
    return f"{format_mean_ci(values.get(first))} \\| {format_mean_ci(values.get(second))}" if values else ""


def _plotted(values: Mapping[str, Any] | None) -> str:
    return _pair(values, "plotted_regret", "plotted_violation")


def _columns(row: Mapping[str, Any]) -> list[Document | None]:
    """The values of the columns; PSConRL has no bonus to scale, so they stand once."""
    once = row["agent"] == "PSConRL"
    return [None if once and column == "scaled" else row[column] for column in COLUMNS]


def _means(values: Mapping[str, Any] | None) -> str:
    return (
        f"{short(values['plotted_regret']['mean'])} \\| {short(values['plotted_violation']['mean'])}"
        if values and "plotted_regret" in values
        else ""
    )


def _reading(row: Mapping[str, Any]) -> str:
    read = row["published"]
    return f"{read['regret']:,} \\| {read['violation']:,}" if read else ""


def _reading_with_noise(row: Mapping[str, Any]) -> str:
    """What was published, with half the 95% interval that follows from the shading, where it can be read."""
    read = row["published"]
    halves = [None if sd is None else 1.96 * sd / math.sqrt(read["runs"]) for sd in read["sds"]]
    return " \\| ".join(
        f"{read[name]:,}" + (f" ± {short(half)}" if half else "") for name, half in zip(QUANTITIES, halves, strict=True)
    )


def _name(row: Mapping[str, Any]) -> str:
    return f"{row['world']}: {row['agent']}"


HEAD = ("", "published", "authors' set-up, here", "as printed", "as printed, bonus scaled")


def overview(found: Document) -> list[list[str]]:
    """Regret | violation of every curve in the measure of Figure 1, and of the recommended agent, under HEAD."""
    rows = []
    for world in dict.fromkeys(row["world"] for row in found["rows"]):
        here = [row for row in found["rows"] if row["world"] == world]
        rows += [[_name(row), _reading(row), *(_means(values) for values in _columns(row))] for row in here]
        rows.append([f"{world}: recommended", "", "", _means(found["recommended"].get(world)), ""])
    return [[cell.replace("\\|", "|") for cell in row] for row in rows]


def readme(found: Document) -> str:
    """That table for the README."""
    rows = [[cell.replace(" | ", "\u00a0\\|\u00a0") for cell in row] for row in overview(found)]
    return markdown_table(HEAD, rows)


def headline(found: Document) -> str:
    """One sentence for the README: what was met."""
    published = [row for row in found["rows"] if row["published"]]
    missed = [_name(row) for row in published if not all(row["met"].values())]
    met = len(published) - len(missed)
    return (
        f"{met} of the {len(published)} published curves are met within the noise of their runs "
        "by settings that the authors' code had at some time, all but "
        f"{', '.join(missed)} ([which settings, and why not those](docs/reproduction/index.md)).\n"
    )


def figure_1(found: Document) -> str:
    """The table of Figure 1 in Markdown: as plotted in all columns, then signed, then [V]+ and L."""
    rows = []
    for row in found["rows"]:
        columns = _columns(row)
        rows.append([f"**{_name(row)}**", "as plotted", _reading(row), *map(_plotted, columns)])
        for name, *pair in (("signed", "regret", "violation"), ("[V]+ \\| L", "positive_violation", "lagrangian")):
            rows.append(["", name, "", *(_pair(values, *pair) for values in columns)])
    return markdown_table(["", "", "published", *COLUMNS.values()], rows)


def provenance(found: Document) -> str:
    """Curve by curve: what was published, what came out in the authors' set-up, and where each setting stands."""
    rows = []
    for row in (row for row in found["rows"] if row["published"]):
        chosen = AUTHORS[row["env"], row["agent"]]
        where = "; ".join(f"{s.text} ({s.commit}, {s.date}, {s.file})" for s in chosen.sources)
        tried = 1 + sum((one.env, one.agent) == (row["env"], row["agent"]) for one in TRIED)
        met = "yes" if all(row["met"].values()) else " and ".join(n for n, ok in row["met"].items() if not ok) + " not"
        rows.append([_name(row), _reading_with_noise(row), _plotted(row["authors"]), met, where, str(tried)])
    return markdown_table(["", "published", "here", "met", "settings, and where they stand", "tried"], rows)


def tried(found: Document) -> str:
    """What else was tried, and why a curve is not met where that is known; Markdown."""
    names = {row["env"]: row["world"] for row in found["rows"] if row["published"]}
    rows = [
        [f"{names[r['env']]}: {r['agent']}", r["text"], _plotted(r), "yes" if r["met"] else "no", str(r["runs"])]
        for r in found["tried"]
    ]
    reasons = [
        f"**{_name(row)}.** {NOT_MET.get((row['env'], row['agent']), 'No reason is known.')}"
        for row in found["rows"]
        if row["published"] and not all(row["met"].values())
    ]
    return "\n".join([*reasons, "", markdown_table(["", "change", "as plotted", "met", "runs"], rows)]).lstrip()


def pictures(found: Document) -> str:
    """The four pictures of PSConRL on Marsrover 8x8, and the floor that fits each."""
    rows = [
        [
            f"{row['commit']}, {row['date']}",
            f"{row['window']:,}",
            f"{row['reading']['regret']:,} \\| {row['reading']['violation']:,}",
            f"{row['floor']:g}",
            _plotted(row),
            "yes" if row["met"] else "no",
        ]
        for row in found["pictures"]
    ]
    return markdown_table(["picture", "window", "published", "floor", "here", "met"], rows)


def appendix(found: Document) -> str:
    """The table of the appendix figure in Markdown: reward | consumption, moving averages at the right edge."""
    rows = []
    for row in (row for row in found["rows"] if row["published"]):
        read = APPENDIX[row["env"], row["agent"]]
        here = [f"-{precise(v.get('c_0'))} \\| {precise(v.get('c_1'))}" if v else "" for v in _columns(row)]
        exact = [f"-{row[name][0]:.4f} \\| {row[name][1]:.4f}" for name in ("optimal", "safe")]
        rows.append([_name(row), f"{read.reward:g} \\| {read.consumption:g}", *here, *exact])
    return markdown_table(["", "published", *COLUMNS.values(), "optimal policy", "safe policy"], rows)


def known_costs(found: Document) -> str:
    """The table of estimated and known costs in Markdown: signed regret | violation, and L."""
    rows = []
    for row in found["costs"]:
        both = (row["estimated"], row["known"])
        signed = [_pair(values, "regret", "violation") for values in both]
        rows.append([_name(row), *signed, *(format_mean_ci(values["lagrangian"]) for values in both)])
    return markdown_table(["", "estimated costs", "known costs", "L, estimated", "L, known"], rows)
