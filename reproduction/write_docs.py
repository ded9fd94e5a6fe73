"""The tables that README and documentation show: numbers from stored runs, how they read, and where they stand.

    python -m reproduction.write_docs results      take the numbers and figures of a folder of `python -m reproduction`
    python -m reproduction.write_docs              write the pages again from the numbers that are kept

A table's numbers are a JSON document with the code that made the runs, so that it can be made again, and compared,
without the runs: the paper's in docs/reproduction/results, what benchmarks measure (`--keep`) in docs/results, in one
form (benchmarks/kept.py). Pages have places for them,

    <!-- results: NAME -->
    <!-- end of results -->

and what stands between the two lines is written by this module alone; tests compare it with the numbers.
"""

from __future__ import annotations

import json
import re
import shutil
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from psconrl.analysis import Groups
from reproduction import Document, beyond, bounds, claims, comparison, proof
from reproduction.measures import markdown_table

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs" / "reproduction"
"""The pages about the paper."""

KEPT = DOCS / "results"
FOLDERS = (ROOT / "docs" / "results", KEPT)
"""Where numbers are kept."""

PLACE = re.compile(r"(<!-- results: (?P<name>[a-z0-9-]+) -->\n).*?(<!-- end of results -->)", re.DOTALL)

DOCUMENTS: Mapping[str, Callable[[Groups], Document | None]] = {
    "comparison": comparison.document,
    "bounds": bounds.document,
    "untuned": beyond.document,
}
"""Tables with the numbers of stored runs; None where runs are missing."""

TABLES: Mapping[str, Mapping[str, Callable[[Document], str]]] = {
    "comparison": {
        "readme": comparison.readme,
        "headline": comparison.headline,
        "figure-1": comparison.figure_1,
        "provenance": comparison.provenance,
        "tried": comparison.tried,
        "pictures": comparison.pictures,
        "appendix": comparison.appendix,
        "known-costs": comparison.known_costs,
    },
    "theory": {"theory-terms": proof.decomposed, "theory-lemmas": proof.lemmas, "theory-asked": proof.asked},
    "claims": {"claims": claims.as_cards, "verdicts": claims.as_summary, "made": claims.as_made},
    "bounds": {"bounds": bounds.cards},
    "untuned": {
        "readme-agents": beyond.short_table,
        "untuned": beyond.untuned_table,
        "untuned-made": beyond.untuned_made,
        "untuned-rivals": beyond.rivals_table,
        "untuned-rivals-made": beyond.rivals_made,
    },
}
"""How the numbers of each table read, by the name of a place in a page."""


def documents(groups: Groups) -> dict[str, Document]:
    """The numbers of all tables whose runs are there."""
    found = {name: make(groups) for name, make in DOCUMENTS.items()}
    return {name: document for name, document in found.items() if document is not None}


def as_json(document: Document) -> str:
    """The numbers of a table as a file."""
    return json.dumps(document, indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def parts(name: str, document: Document) -> dict[str, str]:
    """The texts of a table by the name of their place."""
    if name in TABLES:
        return {place: render(document) for place, render in TABLES[name].items()}
    made = document["made"]
    line = f"*`{made['Command']}`, {made['Date']}, {made['Machine']}, code {made['Code']}*\n"
    return {place: shown(part) for place, part in document["parts"].items()} | {f"{name}-made": line}


def shown(part: Document) -> str:
    """A part of what a benchmark measured, in Markdown: a text, or a table of a head and rows."""
    if "text" in part:
        return str(part["text"]) + "\n"
    return markdown_table(part["head"], part["rows"])


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
    """Keep the numbers of a folder of results, and the figures that the pages show."""
    KEPT.mkdir(exist_ok=True)
    for name in TABLES:
        path = folder / "tables" / f"{name}.json"
        if path.exists():
            (KEPT / path.name).write_text(as_json(json.loads(path.read_text(encoding="utf-8"))), encoding="utf-8")
    for kept in (DOCS / "figures").glob("*.png"):
        if (folder / "figures" / kept.name).exists():
            shutil.copyfile(folder / "figures" / kept.name, kept)


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
