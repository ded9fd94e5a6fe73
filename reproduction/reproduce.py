"""From the name of a preset to its figures, tables and claims: run what is missing, then draw what is stored.

OUT/runs ...        the store; presets that need the same runs share them
OUT/report.html     all of it in one page, with the policies that were executed
OUT/figures/        PNG and PDF
OUT/claims.md       every claim of the paper with a test, numbers and a verdict, below the date and the machine. Only if
                    the folder has runs of the paper's presets
OUT/tables/         the numbers of the tables in README and documentation, as JSON; `write_docs` takes them
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from psconrl import report
from psconrl.analysis import Groups, group
from psconrl.experiments import Outcome, Store, code_identity, run_experiment
from psconrl.report import Section, Table
from reproduction import Document, claims, comparison, panels, proof, write_docs
from reproduction import agents as agents  # registers the agents of the released code
from reproduction.claims import Claim
from reproduction.pictures import draw_environments
from reproduction.presets import Figure, Preset, find, presets


@dataclass(frozen=True)
class Reproduction:
    """What came out: files written, claims, and what became of the runs."""

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
    run: Callable[..., Outcome] = run_experiment,
    **options: Any,
) -> Reproduction:
    """Run presets and write their figures, the claims and the tables.

    Args:
        names: presets; all if there are none.
        out: the folder of runs and results.
        quick: a fraction of the paper's scale.
        workers: processes; all cores by default.
        run: what runs experiments.
        **options: further arguments of it, such as progress.

    Returns:
        What came out.

    Raises:
        UnknownNameError: there is no preset of some name.
    """
    chosen = [find(name) for name in names] or list(presets().values())
    # Processes that run the agents of `reproduction.agents` must import it: they do, with `reproduction.__main__`.
    experiments = [experiment for preset in chosen if (experiment := preset.experiment(quick)) is not None]
    outcomes = [run(experiments, out, workers=workers, **options)] if experiments else []
    store = Store(out, create=True)
    if "theory" in [preset.name for preset in chosen]:
        _measure_proof(store.path, quick)
    written = write_results(out, [preset.name for preset in chosen])
    return Reproduction(written.paths, written.claims, tuple(outcomes))


def _measure_proof(folder: Path, quick: bool) -> None:
    """Write the numbers of the proof, unless those of this code are there."""
    path = folder / "tables" / "theory.json"
    try:
        before = json.loads(path.read_text(encoding="utf-8"))
        if (before["code"], before["quick"]) == (code_identity(), quick):
            return
    except (OSError, ValueError, KeyError, TypeError):
        pass  # not there, or no table: it is made
    path.parent.mkdir(exist_ok=True)
    path.write_text(write_docs.as_json(proof.measure(quick)), encoding="utf-8")


def write_results(store: str | Path, names: Sequence[str] = ()) -> Reproduction:
    """Write figures, claims, tables and the report of the runs in a folder.

    Args:
        store: the folder of runs.
        names: presets to draw in addition to those that the folder has runs of.

    Returns:
        What came out.
    """
    source = Store(store)
    rows, documents, sections = _contents(source, names)  # no runs are held any more: the report reads them again
    paths = report.write(source, source.path, sections, overview=not sections)
    if "environments" in names:
        paths += draw_environments(source.path / "figures")
    texts = {f"tables/{name}.json": write_docs.as_json(document) for name, document in documents.items()}
    if rows:
        texts["claims.md"] = claims.as_page(documents["claims"])
    for name, text in texts.items():
        path = source.path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
        paths.append(path)
    return Reproduction(tuple(paths), tuple(rows))


def _contents(source: Store, names: Sequence[str]) -> tuple[list[Claim], dict[str, Document], list[Section]]:
    """The claims, the numbers of the tables, and the sections of the report."""
    groups = group(source.records(), source.timings())
    rows, documents = claims.claims(groups), write_docs.documents(groups)
    if rows:
        documents["claims"] = claims.as_document(rows, report.provenance(source, groups))
    sections = [
        *_overview(documents.get("comparison")),
        *_figures(groups, names),
        *_table_1(documents.get("bounds")),
        *_claims(rows),
    ]
    return rows, documents, sections


def _figures(groups: Groups, names: Sequence[str]) -> list[Section]:
    """A section for each figure of the presets that have runs, and of the named ones."""
    chosen = [preset for preset in presets().values() if preset.name in names or _stored(preset, groups)]
    sections = []
    for figure in (figure for preset in chosen for figure in preset.figures):
        rows = _panels(figure, groups)
        if rows and rows[0]:
            sections.append(Section(figure.heading, (figure.text,), {figure.name: rows}, closed=figure.closed))
    return sections


def _stored(preset: Preset, groups: Groups) -> bool:
    """Whether most cells of a preset are there, at one of its scales; presets share some of their cells."""
    for quick in (False, True):
        experiment = preset.experiment(quick)
        if experiment is not None and 2 * sum(cell.id in groups for cell in experiment.cells) >= len(experiment.cells):
            return True
    return False


def _panels(figure: Figure, groups: Groups) -> report.PanelRows:
    rows: report.PanelRows = getattr(panels, figure.panels)(groups=groups, **figure.arguments)
    return rows


_MEASURE = (
    "Regret | violation at the right edge of Figure 1, as the figure measures them; means of the runs. On Box regret "
    "is held against 0.8479, as there."
)
_CLAIMS = (
    "Every claim has a test, which claims.md states, and its verdicts are computed from the stored runs. Claims about "
    "figures are tested on the plotted quantity first; held only as plotted: not for the signed one. Claims differ in "
    "weight, so verdicts are not counted."
)


def _overview(document: Document | None) -> list[Section]:
    """Figure 1 in one table."""
    if document is None:
        return []
    table = Table(comparison.HEAD, comparison.overview(document))
    return [Section("Figure 1 in one table", (_MEASURE,), tables=[table])]


def _table_1(document: Document | None) -> list[Section]:
    """The paper's table of bounds, and what was measured."""
    if document is None:
        return []
    tables = [Table(part["head"], part["rows"], caption=part["caption"]) for part in document["tables"]]
    return [Section("Table 1", tables=tables, closed=True)]


def _claims(rows: Sequence[Claim]) -> list[Section]:
    """The claims that the runs decide, and on demand those that they do not."""
    sections = []
    decided, left = ([row for row in rows if row.decided == wanted] for wanted in (True, False))
    if decided:
        sections.append(Section("The paper's claims", (_CLAIMS,), tables=_tables(decided)))
    if left:
        sections.append(Section("Claims that these runs cannot decide", tables=_tables(left), closed=True))
    return sections


def _tables(rows: Sequence[Claim]) -> list[Table]:
    found = claims.by_group(rows)
    return [Table(claims.HEAD, [row.line() for row in here], caption=name) for name, here in found.items()]
