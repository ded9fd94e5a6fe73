"""Put kept numbers into README and documentation; every measured table there comes from here.

    python -m reproduction.write_docs results      take the numbers and figures of a folder of `python -m reproduction`
    python -m reproduction.write_docs              write the pages again from the numbers that are kept

Numbers are kept as JSON, one file for each table, with the code that made the runs: the paper's in
docs/reproduction/results, what benchmarks measure (`--keep`) in docs/results. Pages have places for them,

    <!-- results: NAME -->
    <!-- end of results -->

and what stands between the two lines is written by this module alone; tests compare it with the numbers.
"""

from __future__ import annotations

import json
import re
import shutil
import sys
from pathlib import Path

from reproduction.tables import TABLES, as_json, parts

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs" / "reproduction"
"""The pages about the paper."""

KEPT = DOCS / "results"
FOLDERS = (ROOT / "docs" / "results", KEPT)
"""Where numbers are kept."""

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
}
"""Figures of a folder of results that the paper's pages show, and their names there."""

TITLE_FIGURE = ROOT / "docs" / "figures" / "figure-1.png"
"""Where README and the first page of the documentation find theirs."""


def pages() -> list[Path]:
    """All pages that have places for results, README first."""
    found = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    return [path for path in found if "_build" not in path.parts and PLACE.search(path.read_text(encoding="utf-8"))]


def texts() -> dict[str, str]:
    """What stands in each place, from the numbers that are kept."""
    found: dict[str, str] = {}
    for path in (path for folder in FOLDERS for path in sorted(folder.glob("*.json"))):
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
    shutil.copyfile(DOCS / "figures" / "figure-1-authors.png", TITLE_FIGURE)


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
