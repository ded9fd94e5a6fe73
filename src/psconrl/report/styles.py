"""How every line is drawn, in files and on the page: one table.

Colors are Okabe and Ito's, which color-blind readers can tell apart; every agent also has dashes of its own. The page
has colors of the same order for light and dark screens, `--c0`, `--c1`, ... in its style sheet.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import cycle


@dataclass(frozen=True)
class Style:
    """The number of a color in COLORS, and the lengths of dashes and gaps in widths of the line."""

    color: int
    dashes: tuple[float, ...] = ()


COLORS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000", "#882255", "#555555")
"""The last one is for guides alone; the one before is Tol's wine, which the others leave room for."""

STYLES = {
    "Recommended": Style(7, (10, 1.5)),
    "PSConRL": Style(0),
    "ConRL": Style(1, (6, 2)),
    "C-UCRL": Style(2, (6, 2, 1.5, 2)),
    "UCRL-CMDP": Style(3, (1.5, 1.5)),
    "CMDP-PSRL": Style(4, (4, 1.5)),
    "PSConRL (explore)": Style(5, (3, 1, 1, 1, 1, 1)),
    "FHA": Style(6, (2, 1)),
    "TSDE": Style(3, (5, 3)),
    "Uniform": Style(4, (1, 3)),
    "Optimal": Style(6, (2, 1.5, 6, 1.5)),
}
"""By the label of an agent; what is not here gets the next style that is free."""

GUIDE = Style(len(COLORS) - 1, (1, 1.5))
_SPARE = [Style(color, dashes) for dashes in ((8, 1.5), (1, 2), (4, 1, 1, 1)) for color in (6, 5, 4, 0, 1, 2, 3)]
_VARIANTS = ((3.0, 1.0), (1.0, 1.0), (5.0, 1.0, 1.0, 1.0), (2.0, 3.0))
"""Dashes of further lines of an agent: the same with other settings, or another of its limits."""


def styles(labels: Iterable[str]) -> dict[str, Style]:
    """A style for each label: that of its agent, or the next one not yet taken."""
    chosen: dict[str, Style] = {}
    spare = cycle(_SPARE)
    for label in dict.fromkeys(labels):
        style = GUIDE if label.startswith("slope") else STYLES.get(label.split(", ")[0]) or next(spare)
        if style in chosen.values() and style != GUIDE:
            repeats = sum(other.color == style.color for other in chosen.values()) - 1
            style = replace(style, dashes=_VARIANTS[repeats % len(_VARIANTS)])
        chosen[label] = style
    return chosen
