"""From a store to its report: store -> groups -> environments -> page and figures."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

from psconrl.analysis.groups import Groups, group
from psconrl.experiments.machine import describe
from psconrl.experiments.store import Store
from psconrl.io import writing
from psconrl.io.text import printable
from psconrl.report import figures, panels
from psconrl.report.environments import EnvironmentRuns, environments
from psconrl.report.html import render
from psconrl.report.sections import Section

OVERVIEW = (
    (
        "overview",
        "Regret and violation",
        "Signed sums of (cost − optimum) and of (cost − limit), a panel for each limit: read them together. Lines are "
        "means over runs, bands pointwise 95% intervals; press a name to hide or show its lines.",
        panels.overview,
    ),
    (
        "averages",
        "Averages so far",
        "The average cost per step so far, against the optimum and the limits.",
        panels.averages,
    ),
    (
        "prices",
        "Shadow prices",
        "How much the main cost falls per unit that a limit is raised, in the models that agents planned with: means "
        "over the second half of the steps so far. An agent whose line has reached the true price knows what the limit "
        "costs.",
        panels.prices,
    ),
)
"""What every report shows of its runs: file name, heading, explanation, and what makes the panels."""


def write(
    store: Store | str | Path,
    out: str | Path | None = None,
    sections: Sequence[Section] = (),
    *,
    overview: bool = True,
) -> list[Path]:
    """Write report.html, and its figures as PNG and PDF, from stored runs.

    Args:
        store: the folder of runs.
        out: the folder to write to; that of the runs by default.
        sections: what to show in addition, after the overview.
        overview: whether to draw regret, averages and shadow prices of all runs; without, the page is about the
            sections, and its summary and policies open on demand.

    Returns:
        The files written.

    Raises:
        StoreError: the folder holds no runs of psconrl, or they cannot be read.
    """
    source = store if isinstance(store, Store) else Store(store)
    groups = group(source.records(), source.timings())
    folder = source.path if out is None else Path(out)
    folder.mkdir(parents=True, exist_ok=True)
    found = environments(source, groups)
    everything = [*(overview_sections(found) if overview else ()), *sections]
    paths: list[Path] = []
    for section in everything:
        for name, rows in section.figures.items():
            if rows and rows[0]:
                paths += figures.save(figures.draw(rows), folder / "figures", name)
    page = folder / "report.html"
    writing.write_text(page, printable(render(source, found, everything, provenance(source, groups), overview)))
    return [*paths, page]


def overview_sections(found: Sequence[EnvironmentRuns]) -> list[Section]:
    """What every report shows of its runs."""
    drawn = [(name, title, text, make(found)) for name, title, text, make in OVERVIEW]
    return [Section(title, (text,), {name: rows}) for name, title, text, rows in drawn if rows and rows[0]]


def provenance(store: Store, groups: Groups) -> dict[str, str]:
    """When, on which machine and with which software a report is made, and when and by which code its runs were.

    Args:
        store: the folder of the runs.
        groups: the runs of each cell, of `psconrl.analysis.group`.

    Returns:
        Names and values, for people.
    """
    finished = store.finished()
    codes = sorted({code for runs in groups.values() for code in runs.codes})
    made = {"Date": time.strftime("%Y-%m-%d")} | describe()
    made["Runs"] = f"{sum(runs.runs for runs in groups.values()):,}"
    if finished is not None:
        made["Runs"] += f", finished {_period(*finished)}"
    if codes and codes != [made["Code"]]:
        made["Code of the runs"] = ", ".join(codes)
    return made


def _period(first: str, last: str) -> str:
    """Two times as the store writes them, in words."""
    days, clocks = [first[:10], last[:10]], [time[11:16] for time in (first, last)]
    zone = " UTC" + (last[-5:] if last[-4:] != "0000" else "")
    if days[0] == days[1]:
        return f"on {days[0]}, {' to '.join(dict.fromkeys(clocks))}{zone}"
    return f"from {days[0]} {clocks[0]} to {days[1]} {clocks[1]}{zone}"
