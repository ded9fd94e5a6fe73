"""How every line is drawn, in pictures and on the page: one table.

Colours are Okabe and Ito's, which the colour-blind can tell apart; every agent also has dashes of its own. The page has
colours of the same order for light and dark screens, `--c0`, `--c1`, ... in its style sheet.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import cycle

Dashes = tuple[float, ...]


@dataclass(frozen=True)
class Style:
    """The number of a colour in COLOURS, and lengths of dashes and gaps: in pictures, and on the page."""

    colour: int
    dashes: Dashes = ()
    page_dashes: Dashes = ()


COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#882255", "#555555")
"""The last one is for guides alone; the one before is Tol's wine, which the others leave room for."""

STYLES = {
    "Recommended": Style(7, (10, 1.5), (14, 3)),
    "PSConRL": Style(0),
    "ConRL": Style(1, (6, 2), (9, 4)),
    "C-UCRL": Style(2, (6, 2, 1.5, 2), (9, 3, 2, 3)),
    "UCRL-CMDP": Style(3, (1.5, 1.5), (2, 3)),
    "CMDP-PSRL": Style(4, (4, 1.5), (6, 3)),
    "PSConRL (explore)": Style(5, (3, 1, 1, 1, 1, 1), (5, 2, 1.5, 2, 1.5, 2)),
    "FHA": Style(6, (2, 1), (3.5, 2)),
    "TSDE": Style(3, (5, 3), (7, 5)),
    "Uniform": Style(4, (1, 3), (1.5, 6)),
    "Optimal": Style(6, (2, 1.5, 6, 1.5), (3, 3, 10, 3)),
}
"""By the label of an agent; what is not here gets the next style that is free."""

GUIDE = Style(len(COLOURS) - 1, (1, 1.5), (1, 3))
_SPARE = tuple(
    Style(colour, dashes, page)
    for dashes, page in (((8, 1.5), (12, 3)), ((1, 2), (1.5, 4)), ((4, 1, 1, 1), (6, 2, 1.5, 2)))
    for colour in (6, 5, 4, 0, 1, 2, 3)
)
_VARIANTS: tuple[tuple[Dashes, Dashes], ...] = (
    ((3, 1), (4, 2)),
    ((1, 1), (1.5, 2)),
    ((5, 1, 1, 1), (7, 2, 1.5, 2)),
    ((2, 3), (3, 5)),
)
"""Dashes of further lines of an agent: the same with other settings, or another of its limits."""


def styles(labels: Iterable[str]) -> dict[str, Style]:
    """A style for each label: that of its agent, or the next one not yet taken."""
    found: dict[str, Style] = {}
    spare = cycle(_SPARE)
    for label in dict.fromkeys(labels):
        known = STYLES.get(label.split(", ")[0])
        if label.startswith("slope"):
            found[label] = GUIDE
        elif known is None:
            found[label] = next(spare)
        elif known in found.values():
            more = sum(style.colour == known.colour for style in found.values()) - 1
            dashes, page_dashes = _VARIANTS[more % len(_VARIANTS)]
            found[label] = replace(known, dashes=dashes, page_dashes=page_dashes)
        else:
            found[label] = known
    return found
