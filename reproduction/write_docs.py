"""Put the numbers of stored runs into README and documentation; every measured table there comes from here.

    python docs/write_results.py results      take the numbers and figures of a folder of `psconrl reproduce`
    python docs/write_results.py              write the pages again from the numbers kept here

The numbers are kept as JSON in docs/results, one file for each table, with the code that made the runs; what benchmarks
measure is kept there, too (`--keep`), with the command and the machine. Pages have places for them,

    <!-- results: NAME -->
    <!-- end of results -->

and what stands between the two lines is written by this file alone; tests compare it with the numbers.
"""

from __future__ import annotations

import json
import re
import shutil
import sys
from pathlib import Path

from reproduction.tables import TABLES, as_json, parts

DOCS = Path(__file__).parent
KEPT = DOCS / "results"
PLACE = re.compile(r"(<!-- results: (?P<name>[a-z0-9-]+) -->\n).*?(<!-- end of results -->)", re.DOTALL)
FIGURES = {
    "figure-1-as-plotted": "figure-1",
    "figure-1-signed": "figure-1-signed",
    "authors-as-plotted": "figure-1-authors",
    "figure-appendix": "figure-appendix",
    "environments": "environments",
    "stochastic-signed": "stochastic",
    "known-costs-signed": "known-costs",
    "counterexample": "counterexample",
    "bayesian": "bayesian",
    "bayesian-learned": "bayesian-learned",
    "feasibility": "feasibility",
    "bonus": "bonus",
    "tractable": "tractable",
    "sweeps": "sweeps",
}
"""Figures of a folder of results that pages show, and their names there."""


def pages() -> list[Path]:
    """All pages that have places for results, and the README."""
    found = [DOCS.parent / "README.md", *sorted(path for path in DOCS.rglob("*.md") if "_build" not in path.parts)]
    return [path for path in found if PLACE.search(path.read_text(encoding="utf-8"))]


def texts() -> dict[str, str]:
    """What stands in each place, from the numbers kept here."""
    found: dict[str, str] = {}
    for path in sorted(KEPT.glob("*.json")):
        found |= parts(path.stem, json.loads(path.read_text(encoding="utf-8")))
    return found


def written(page: str, found: dict[str, str]) -> str:
    """A page with the texts in their places; a place without numbers stays as it is."""

    def place(match: re.Match[str]) -> str:
        text = found.get(match["name"])
        return match[0] if text is None else f"{match[1]}\n{text}\n{match[3]}"

    return PLACE.sub(place, page)


def take(folder: Path) -> None:
    """Keep the numbers and figures of a folder of results."""
    KEPT.mkdir(exist_ok=True)
    for name in TABLES:
        path = folder / "tables" / f"{name}.json"
        if path.exists():
            (KEPT / path.name).write_text(as_json(json.loads(path.read_text(encoding="utf-8"))), encoding="utf-8")
    for name, there in FIGURES.items():
        path = folder / "figures" / f"{name}.png"
        if path.exists():
            shutil.copyfile(path, DOCS / "figures" / f"{there}.png")


def main(arguments: list[str]) -> int:
    """Take the results of a folder, if one is named, and write all pages."""
    if arguments:
        take(Path(arguments[0]))
    found = texts()
    for page in pages():
        text = page.read_text(encoding="utf-8")
        page.write_text(written(text, found), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
