"""The tables that README and documentation show: numbers from stored runs, and how they read.

A table's numbers are a JSON document, so that it can be made again, and compared, without the runs. Benchmarks keep
theirs in documents of one form (benchmarks/kept.py), so that nothing is known of them here.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from psconrl.analysis import Groups
from reproduction import Document, beyond, bounds, claims, comparison, learning, proof
from reproduction.measures import markdown_table


@dataclass(frozen=True)
class Table:
    """document: the numbers, None where runs are missing; parts: how they read, by the name of a place in a page.

    A table without such a function has its numbers from elsewhere.
    """

    document: Callable[[Groups], Document | None] | None
    parts: Mapping[str, Callable[[Document], str]]


TABLES: Mapping[str, Table] = {
    "comparison": Table(
        comparison.document,
        {
            "readme": comparison.readme,
            "headline": comparison.headline,
            "figure-1": comparison.figure_1,
            "provenance": comparison.provenance,
            "tried": comparison.tried,
            "pictures": comparison.pictures,
            "appendix": comparison.appendix,
        },
    ),
    "theory": Table(
        None, {"theory-terms": proof.decomposed, "theory-lemmas": proof.lemmas, "theory-asked": proof.asked}
    ),
    "claims": Table(None, {"claims": claims.as_cards, "verdicts": claims.as_summary, "made": claims.as_made}),
    "bounds": Table(bounds.document, {"bounds": bounds.cards}),
    "learning": Table(learning.document, {"learning": learning.markdown}),
    "untuned": Table(
        beyond.document,
        {
            "readme-agents": beyond.short_table,
            "untuned": beyond.untuned_table,
            "untuned-made": beyond.untuned_made,
            "untuned-rivals": beyond.rivals_table,
            "untuned-rivals-made": beyond.rivals_made,
        },
    ),
}


def documents(groups: Groups) -> dict[str, Document]:
    """The numbers of all tables whose runs are there."""
    found = {name: table.document(groups) for name, table in TABLES.items() if table.document is not None}
    return {name: document for name, document in found.items() if document is not None}


def as_json(document: Document) -> str:
    """The numbers of a table as a file."""
    return json.dumps(document, indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def parts(name: str, document: Document) -> dict[str, str]:
    """The texts of a table by the name of their place."""
    if name in TABLES:
        return {place: render(document) for place, render in TABLES[name].parts.items()}
    made = document["made"]
    line = f"*`{made['Command']}`, {made['Date']}, {made['Machine']}, code {made['Code']}*\n"
    return {place: shown(part) for place, part in document["parts"].items()} | {f"{name}-made": line}


def shown(part: Document) -> str:
    """A part of what a benchmark measured, in Markdown: a text, or a table of a head and rows."""
    if "text" in part:
        return str(part["text"]) + "\n"
    return markdown_table(part["head"], part["rows"])
