"""From the name of a preset to its figures, tables and claims: run what is missing, then draw what is stored.

OUT/runs ...        the store; presets that need the same runs share them
OUT/report.html     all of it in one page, with the policies that were executed
OUT/figures/        PNG and PDF
OUT/claims.md       every claim of the paper with a test, numbers and a verdict, below the date and the machine; the
                    same in claims.json, and one line for each in claims-short.md. Only if the folder has runs of the
                    paper's presets
OUT/beyond.md       all agents in all worlds, ranked, if the folder has such runs
OUT/table-1.md      bounds, and what was measured
OUT/tables/         the numbers of the tables in README and documentation, as JSON; docs/write_results.py takes them
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from psconrl.analysis import proof, ranking, tables
from psconrl.analysis.claims import Claim, as_document, as_json, as_markdown, as_short_markdown, claims
from psconrl.analysis.groups import Groups, group
from psconrl.analysis.published_bounds import as_markdown as table_of_bounds
from psconrl.experiments.machine import describe, peak_memory
from psconrl.experiments.presets import Preset, find, presets
from psconrl.experiments.runner import Outcome
from psconrl.experiments.runner import run_together as run_locally
from psconrl.experiments.spec import Experiment, code_identity
from psconrl.experiments.store import Store
from psconrl.io import writing
from psconrl.io.text import printable
from psconrl.report import figures, panels
from psconrl.report.chart_data import Rows
from psconrl.report.html import render
from psconrl.report.pictures import draw_environments

Runner = Callable[..., Outcome]


@dataclass(frozen=True)
class Reproduction:
    """What came out: files written, claims, and what became of the runs, those that were chosen by others apart."""

    paths: tuple[Path, ...]
    claims: tuple[Claim, ...]
    outcomes: tuple[Outcome, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether no run failed."""
        return all(outcome.ok for outcome in self.outcomes)


def reproduce(
    names: Sequence[str],
    out: str | Path,
    quick: bool = False,
    workers: int | None = None,
    run: Runner = run_locally,
    **options: Any,
) -> Reproduction:
    """Run presets and write their figures, the claims and the table.

    Args:
        names: presets; those that are run by default if there are none. out: the folder of runs and results.
        quick: a fraction of the paper's scale. workers: processes.
        run: what runs experiments; options: further arguments of it, such as progress.
    """
    chosen = [find(name) for name in names] or [preset for preset in presets().values() if preset.by_default]
    first = [experiment for preset in chosen if (experiment := preset.experiment(quick)) is not None]
    outcomes = [run(first, out, workers=workers, **options)] if first else []
    second = [found for preset in chosen if (found := _second_stage(preset, quick, out)) is not None]
    if second:
        outcomes.append(run(second, out, workers=workers, **options))
    store = Store(out, create=True)
    if "theory" in [preset.name for preset in chosen]:
        _measure_proof(store.path, quick)
    written = write_results(out, [preset.name for preset in chosen])
    return Reproduction(written.paths, written.claims, tuple(outcomes))


def _second_stage(preset: Preset, quick: bool, out: str | Path) -> Experiment | None:
    """What is run after a preset's own experiment, given what came out of that."""
    experiment = preset.experiment(quick)
    if experiment is None or preset.second is None:
        return None
    tuned = {cell.identity(seed) for cell, seed in experiment.runs}
    return preset.second_stage(quick, ranking.scores(group(Store(out).records(tuned))))


def write_results(store: str | Path, names: Sequence[str] | None = None, out: str | Path | None = None) -> Reproduction:
    """Figures, claims and table from the runs in a folder, into it or into `out`.

    names: the presets to draw; by default all that the folder has runs of, and an overview if it has other runs.
    """
    source = Store(store)
    groups = group(source.records(), source.timings())
    folder = Path(store if out is None else out)
    folder.mkdir(parents=True, exist_ok=True)
    panels = _stored_panels(groups, names or ())
    paths = _figures(folder / "figures", panels, names)
    rows = claims(groups)
    made = _made(source, groups)
    texts: dict[str, str] = {}
    if rows:
        texts |= {
            "claims.md": as_markdown(rows, made),
            "claims-short.md": as_short_markdown(rows),
            "claims.json": as_json(rows, made),
        }
    documents = tables.documents(groups) | ({"claims": as_document(rows, made)} if rows else {})
    if "bounds" in documents if names is None else "table-1" in names:
        texts["table-1.md"] = table_of_bounds(groups)
    ranked = ranking.ranking(groups)
    if ranked:
        texts["beyond.md"] = ranking.as_markdown(ranked)
    texts |= {f"tables/{name}.json": tables.as_json(found) for name, found in documents.items()}
    # The page shows all that is stored, whatever was asked for now.
    shown = {name: figure for figures in panels.values() for name, figure in figures.items()}
    texts["report.html"] = render(source, groups, shown, rows, made, ranked)
    for name, text in texts.items():
        (folder / name).parent.mkdir(exist_ok=True)
        writing.write_text(folder / name, printable(text))
        paths.append(folder / name)
    return Reproduction(tuple(paths), tuple(rows))


def _measure_proof(folder: Path, quick: bool) -> None:
    """Write the numbers of the proof, unless those of this code are there."""
    path = folder / "tables" / "theory.json"
    try:
        there = json.loads(path.read_text(encoding="utf-8"))
        if (there["code"], there["quick"]) == (code_identity(), quick):
            return
    except (OSError, ValueError, KeyError, TypeError):
        pass  # not there, or no table: it is made
    path.parent.mkdir(exist_ok=True)
    writing.write_text(path, tables.as_json(proof.measure(quick)))


def _period(first: str, last: str) -> str:
    """Two times as the store writes them, as people do."""
    days, clocks = [first[:10], last[:10]], [time[11:16] for time in (first, last)]
    zone = " UTC" + (last[-5:] if last[-4:] != "0000" else "")
    if days[0] == days[1]:
        return f"on {days[0]}, {' to '.join(dict.fromkeys(clocks))}{zone}"
    return f"from {days[0]} {clocks[0]} to {days[1]} {clocks[1]}{zone}"


def _made(store: Store, groups: Groups) -> dict[str, str]:
    """When, on what machine and with what software the claims were tested; the runs' dates and code beside."""
    finished = store.finished()
    codes = sorted({code for group in groups.values() for code in group.codes})
    made = {"Date": time.strftime("%Y-%m-%d")} | describe()
    made["Runs"] = f"{sum(group.runs for group in groups.values()):,}"
    if finished is not None:
        made["Runs"] += f", finished {_period(*finished)}"
    memory = [held for held in (store.memory(), peak_memory()) if held is not None]
    if memory:
        made["Memory"] = f"at most {max(memory):,} MiB in one process"
    if codes and codes != [made["Code"]]:
        made["Code of the runs"] = ", ".join(codes)
    return made


def _figures(folder: Path, panels: Mapping[str, Mapping[str, Rows]], names: Sequence[str] | None) -> list[Path]:
    """Save the figures of the named presets, or all."""
    paths: list[Path] = []
    for preset in panels if names is None else names:
        for name, rows in panels.get(preset, {}).items():
            if rows and rows[0]:
                paths += figures.save(figures.draw(rows), folder, name)
    if names is not None and "environments" in names:
        paths += draw_environments(folder)
    return paths


def _stored_panels(groups: Groups, names: Sequence[str]) -> dict[str, dict[str, Rows]]:
    """For each preset that has runs, and the named ones, its figures by file name; then an overview of the rest."""
    stored = [preset.name for preset in presets().values() if _stored(preset, groups)]
    found = {preset: _panels(preset, groups) for preset in dict.fromkeys([*stored, *names])}
    others = set(groups) - {cell.id for preset in found for cell in _cells(find(preset))}
    if not any(found.values()):
        others = set(groups)  # presets without figures alone
    if others:
        left = {cell: groups[cell] for cell in groups if cell in others}
        found["overview"] = {
            "overview": panels.overview(left),
            "use": panels.uses(left),
            "prices": panels.prices(left),
        }
    return found


def _stored(preset: Preset, groups: Groups) -> bool:
    """Whether most cells of a preset are there, at one of its scales; presets share some of their cells."""
    for quick in (False, True):
        experiment = preset.experiment(quick)
        if experiment is not None:
            found = sum(cell.id in groups for cell in experiment.cells)
            if 2 * found >= len(experiment.cells):
                return True
    return False


def _panels(preset: str, groups: Groups) -> dict[str, Rows]:
    """The figures of a preset by file name."""
    found: dict[str, Rows] = {}
    for figure in find(preset).figures:
        draw = getattr(panels, figure.panels) if isinstance(figure.panels, str) else figure.panels
        found[figure.name] = draw(groups=groups, **dict(figure.arguments))
    return found


def _cells(preset: Preset) -> list[Any]:
    """The cells of a preset at both scales."""
    found = [preset.experiment(quick) for quick in (False, True)]
    return [cell for experiment in found if experiment is not None for cell in experiment.cells]
