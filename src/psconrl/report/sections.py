"""What a report shows in addition to what it says of every study: sections of text, figures and tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from psconrl.errors import InvalidArgumentError
from psconrl.report.panels import PanelRows


@dataclass(frozen=True)
class Table:
    """A table of a section.

    Args:
        head: the names of the columns.
        rows: the cells as texts, as many in each row as there are columns.
        caption: a line above the table.

    Raises:
        InvalidArgumentError: a row has more or fewer cells than the head.
    """

    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    caption: str = ""

    def __post_init__(self) -> None:
        for row in self.rows:
            if len(row) != len(self.head):
                raise InvalidArgumentError(
                    f"a row of the table has {len(row)} cells; it must have {len(self.head)}, as its head"
                )


@dataclass(frozen=True)
class Section:
    """A part of a report.

    Args:
        title: its heading.
        text: paragraphs, plain text.
        figures: rows of panels by file name; each is drawn on the page and saved as PNG and PDF.
        tables: below the figures.
        closed: whether it opens on demand only.
    """

    title: str
    text: Sequence[str] = ()
    figures: Mapping[str, PanelRows] = field(default_factory=dict)
    tables: Sequence[Table] = ()
    closed: bool = False
