"""Drawings of maps, and of policies on them: text for terminals, SVG and PNG.

A policy is drawn as arrows; the longer and darker, the more likely the action. Probabilities are printed
where the policy randomises, on maps small enough to read them; those below half a percent are left out.
On a map with a box a policy depends on where the box stands: a drawing shows one position of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING
from xml.sax.saxutils import escape

import numpy as np
from numpy.typing import ArrayLike

from psconrl._core.checks import Floats, whole_numbers
from psconrl.cmdp import CMDP, require_model
from psconrl.environments.grid import ACTIONS
from psconrl.environments.text_map import LETTERS, MOVES
from psconrl.errors import InvalidModelError
from psconrl.io import writing

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ARROWS = "↑↓←→"
SHOWN = 0.005
"""Actions less likely than this are not drawn."""

LABELLED = 32
"""Probabilities are printed on maps with at most this many rows and columns."""

LISTED = 40
"""How many states that randomise are listed below a map drawn as text."""

COLORS = {
    "W": "#8c8c8c",
    "S": "#b8e3b0",
    "G": "#1b7837",
    "P": "#c2a5cf",
    "X": "#2f7ec0",
    ".": "#ffffff",
}
"""Fill of each kind of cell: green against purple, told apart by the colour-blind, too."""

_INK = "#1a1a1a"
_FAINT = "#d0d0d0"
_FONT = "Helvetica, Arial, 'DejaVu Sans', sans-serif"
_ANSI = {
    "W": "48;5;245;38;5;245",
    "S": "48;5;151;38;5;16",
    "G": "48;5;28;38;5;231",
    "P": "48;5;182;38;5;16",
    "X": "48;5;32;38;5;231",
    ".": "48;5;231;38;5;16",
}


def cells(cmdp: CMDP, box: tuple[int, int] | None = None) -> tuple[str, ...]:
    """The letters of the map, row by row, with the box where it stands."""
    return _scene(cmdp, None, box).rows


def ansi(cmdp: CMDP, policy: ArrayLike | None = None, *, box: tuple[int, int] | None = None, color: bool = True) -> str:
    """The map as text; with a policy, the likeliest action of each state.

    States where the policy randomises are marked *, and listed below with their probabilities.
    """
    scene = _scene(cmdp, policy, box)
    lines = []
    for r, row in enumerate(scene.rows):
        line = []
        for c, letter in enumerate(row):
            shares = scene.shares.get((r, c))
            mark = " " if letter == "." and shares is not None else letter
            arrow = " " if shares is None else ARROWS[int(np.argmax(shares))]
            star = "*" if shares is not None and _randomises(shares) else " "
            cell = f"{mark}{arrow}{star}" if scene.shares else f" {mark} "
            line.append(f"\x1b[{_ANSI[letter]}m{cell}\x1b[0m" if color else cell)
        lines.append("".join(line).rstrip())
    listed = [
        f"* ({r}, {c})  " + "  ".join(f"{ARROWS[a]} {p:.3f}" for a, p in enumerate(shares) if p >= SHOWN)
        for (r, c), shares in scene.shares.items()
        if _randomises(shares)
    ]
    if len(listed) > LISTED:
        listed[LISTED:] = [f"* and {len(listed) - LISTED} more states"]
    return "\n".join([*lines, *listed]) + "\n"


def svg(
    cmdp: CMDP,
    policy: ArrayLike | None = None,
    *,
    box: tuple[int, int] | None = None,
    title: str | None = None,
) -> str:
    """The map as a self-contained SVG picture."""
    scene = _scene(cmdp, policy, box)
    size, margin = 64, 12
    wide, high = scene.columns * size, len(scene.rows) * size
    zoom = max(1.0, max(wide, high) / 1200)
    legend, foot = _legend(scene, wide / zoom)
    width, height = wide + 2 * margin, high + 2 * margin + foot * zoom
    heading = title or scene.heading
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" viewBox="0 0 {width:g} {height:g}" '
        f'width="{width / zoom:g}" height="{height / zoom:g}" font-family="{_FONT}" fill="{_INK}">',
        f"<title>{escape(heading)}</title>",
        f"<desc>{escape(scene.description)}</desc>",
        f'<rect width="{width:g}" height="{height:g}" fill="#ffffff"/>',
        f'<g transform="translate({margin} {margin})">',
    ]
    for r, c, letter in scene.cells():
        stroke = COLORS["W"] if letter == "W" else _FAINT
        parts.append(
            f'<rect x="{c * size}" y="{r * size}" width="{size}" height="{size}" '
            f'fill="{COLORS[letter if letter != "X" else "."]}" stroke="{stroke}"/>'
        )
    parts += [
        f'<rect x="{c * size + 9}" y="{r * size + 9}" width="{size - 18}" height="{size - 18}" rx="5" '
        f'fill="{COLORS["X"]}"/>'
        for r, c, letter in scene.cells()
        if letter == "X"
    ]
    parts += [
        f'<text x="{c * size + 6}" y="{r * size + 15}" font-size="12" font-weight="bold" '
        f'fill="{_letter_ink(letter)}">{letter}</text>'
        for r, c, letter in scene.cells()
        if letter in "SG"
    ]
    parts += [_svg_arrow(arrow, size) for arrow in scene.arrows()]
    parts.append(f'</g><g transform="translate({margin} {high + 2 * margin}) scale({zoom:g})" font-size="13">')
    parts += [
        f'<rect x="{x}" y="{y}" width="14" height="14" rx="2" fill="{COLORS[letter]}" stroke="{_FAINT}"/>'
        f'<text x="{x + 20}" y="{y + 12}">{LETTERS[letter]}</text>'
        for letter, x, y in legend
    ]
    return "\n".join([*parts, "</g>", "</svg>"]) + "\n"


def png(
    cmdp: CMDP,
    path: str | Path,
    policy: ArrayLike | None = None,
    *,
    box: tuple[int, int] | None = None,
    title: str | None = None,
    dpi: int = 150,
) -> None:
    """Write the map as a PNG picture."""
    drawn, _ = figure(cmdp, policy, box=box, title=title)
    with writing.replacing(path) as file:
        drawn.savefig(file, format="png", dpi=dpi, facecolor="white")


@dataclass(frozen=True)
class Area:
    """Where the cells of a drawing lie: what is shown left of and above them, and its whole width and height.

    All in sides of a cell; `scaled` turns them into pixels.
    """

    left: float
    top: float
    width: float
    height: float
    pixels: tuple[float, float] = (1.0, 1.0)

    def scaled(self, rows: int, columns: int) -> Area:
        """The same area in a picture of so many pixels."""
        return replace(self, pixels=(rows / self.height, columns / self.width))

    def cell(self, r: int, c: int) -> tuple[int, int, int, int]:
        """Top, bottom, left and right of a cell in pixels."""
        high, wide = self.pixels
        top, left = (r + self.top) * high, (c + self.left) * wide
        return round(top), round(top + high), round(left), round(left + wide)


def figure(
    cmdp: CMDP,
    policy: ArrayLike | None = None,
    *,
    box: tuple[int, int] | None = None,
    title: str | None = None,
) -> tuple[Figure, Area]:
    """The map as a figure of matplotlib, and where its cells lie."""
    from matplotlib.collections import PolyCollection
    from matplotlib.colors import to_rgba
    from matplotlib.figure import Figure
    from matplotlib.patches import FancyBboxPatch, Rectangle

    scene = _scene(cmdp, policy, box)
    high, wide = len(scene.rows), scene.columns
    inches = min(0.8, 12 / max(high, wide))
    points = 72 * inches  # of a cell's side
    pixel = 0.8 / 64 / inches  # of the legend, in cells
    rim = 12 * pixel
    legend, foot = _legend(scene, wide / pixel)
    top = rim + (24 * pixel if title else 0)
    bottom = high + rim + foot * pixel
    size = ((wide + 2 * rim) * inches, (bottom + top) * inches)
    drawn = Figure(figsize=size, facecolor="white")
    axes = drawn.add_axes((0.0, 0.0, 1.0, 1.0))
    axes.set(xlim=(-rim, wide + rim), ylim=(bottom, -top))
    axes.set_axis_off()
    if title:
        axes.text(0, -rim, title, fontsize=11, fontweight="bold", color=_INK)
    for letter, x, y in legend:
        corner, side = (x * pixel, high + rim + y * pixel), 14 * pixel
        axes.add_patch(Rectangle(corner, side, side, facecolor=COLORS[letter], edgecolor=_FAINT))
        axes.text(
            corner[0] + 20 * pixel,
            corner[1] + side / 2,
            LETTERS[letter],
            va="center",
            fontsize=10,
            color=_INK,
        )
    for r, c, letter in scene.cells():
        edge = COLORS["W"] if letter == "W" else _FAINT
        fill = COLORS["." if letter == "X" else letter]
        axes.add_patch(Rectangle((c, r), 1, 1, facecolor=fill, edgecolor=edge, linewidth=0.015 * points))
    for r, c, letter in scene.cells():
        if letter == "X":
            shape = "round,pad=0,rounding_size=0.08"
            axes.add_patch(
                FancyBboxPatch((c + 0.14, r + 0.14), 0.72, 0.72, boxstyle=shape, facecolor=COLORS["X"], lw=0)
            )
        if letter in "SG":
            axes.text(
                c + 0.09,
                r + 0.07,
                letter,
                va="top",
                fontsize=0.19 * points,
                fontweight="bold",
                color=_letter_ink(letter),
            )
    arrows = list(scene.arrows())
    inks = [to_rgba(_INK, arrow.opacity) for arrow in arrows]
    axes.add_collection(
        PolyCollection([arrow.outline() for arrow in arrows], facecolors=inks, linewidths=0), autolim=False
    )
    for arrow in arrows:
        if arrow.label is not None:
            text = _decimals(arrow.share)
            axes.text(*arrow.label, text, ha="center", va="center", fontsize=0.17 * points, color=_INK)
    return drawn, Area(rim, top, wide + 2 * rim, bottom + top)


@dataclass(frozen=True)
class _Arrow:
    """One action of one state: lengths and places in units of a cell, rightwards and downwards."""

    tail: tuple[float, float]
    tip: tuple[float, float]
    toward: tuple[int, int]
    share: float
    label: tuple[float, float] | None

    @property
    def opacity(self) -> float:
        return 0.35 + 0.65 * self.share

    def outline(self) -> list[tuple[float, float]]:
        """The seven corners, from the tail to the tip and back."""
        (x0, y0), (x1, y1), (dx, dy) = self.tail, self.tip, self.toward
        bx, by = x1 - 0.16 * dx, y1 - 0.16 * dy
        half = [(x0, y0, 0.02), (bx, by, 0.02), (bx, by, 0.08)]
        there = [(x - dy * w, y + dx * w) for x, y, w in half]
        back = [(x + dy * w, y - dx * w) for x, y, w in reversed(half)]
        return [*there, (x1, y1), *back]


@dataclass(frozen=True)
class _Scene:
    """What is drawn: the map with the box where it stands, and the policy by cell of the agent."""

    rows: tuple[str, ...]
    shares: dict[tuple[int, int], Floats]
    heading: str

    @property
    def columns(self) -> int:
        return len(self.rows[0])

    @property
    def description(self) -> str:
        """The drawing in words."""
        text = f"A map of {len(self.rows)} rows and {self.columns} columns. "
        for letter in "SGX":
            places = [f"({r}, {c})" for r, c, found in self.cells() if found == letter]
            if places:
                text += f"{LETTERS[letter].capitalize()} at {', '.join(places)}. "
        if self.shares:
            text += "Arrows show the actions of the policy, longer and darker where they are likelier."
        return text.strip()

    def cells(self) -> Iterator[tuple[int, int, str]]:
        for r, row in enumerate(self.rows):
            for c, letter in enumerate(row):
                yield r, c, letter

    def arrows(self) -> Iterator[_Arrow]:
        legible = max(len(self.rows), self.columns) <= LABELLED
        for (r, c), shares in self.shares.items():
            x, y = c + 0.5, r + 0.5
            mixed = _randomises(shares)
            for p, (down, right) in zip(shares.tolist(), MOVES, strict=True):
                if p < SHOWN:
                    continue
                if not mixed:
                    tail, tip = (x - 0.24 * right, y - 0.24 * down), (x + 0.24 * right, y + 0.24 * down)
                    yield _Arrow(tail, tip, (right, down), p, None)
                    continue
                length = 0.24 + 0.18 * p
                tip = (x + length * right, y + length * down)
                # Each beside its shaft in a quadrant of its own, clockwise from it.
                label = (x + 0.33 * right - 0.21 * down, y + 0.33 * down + 0.15 * right)
                tail = (x + 0.04 * right, y + 0.04 * down)
                yield _Arrow(tail, tip, (right, down), p, label if legible else None)


def _scene(cmdp: CMDP, policy: ArrayLike | None, box: tuple[int, int] | None) -> _Scene:
    require_model(cmdp)
    layout = cmdp.layout
    if layout is None:
        raise InvalidModelError(
            "this model has no layout, so it cannot be drawn; only gridworlds know where their states lie"
        )
    rows = [list(row) for row in layout.rows]
    shown = np.ones(cmdp.S, dtype=np.bool_)
    heading = "Map"
    if layout.box is not None:
        place = layout.box[int(np.argmax(cmdp.initial))] if box is None else whole_numbers(box, "box")
        if place.shape != (2,):
            raise InvalidModelError(f"box is {box}; it must be a row and a column")
        shown = (layout.box == place).all(axis=1)
        if not shown.any():
            raise InvalidModelError(f"the box never stands at {box}; choose a row and column it can reach")
        shown &= (layout.agent != layout.box).any(axis=1)
        rows = [["." if letter == "X" else letter for letter in row] for row in rows]
        rows[int(place[0])][int(place[1])] = "X"
        heading += f" with the box at ({place[0]}, {place[1]})"
    elif box is not None:
        raise InvalidModelError("this map has no box; leave out box=")
    shares: dict[tuple[int, int], Floats] = {}
    if policy is not None:
        if cmdp.action_names != ACTIONS:
            raise InvalidModelError(f"a policy can be drawn only if the actions are {', '.join(ACTIONS)}")
        pi = cmdp.check_policy(policy)
        goals = {(r, c) for r, row in enumerate(layout.rows) for c, letter in enumerate(row) if letter == "G"}
        for s in np.flatnonzero(shown):
            at = (int(layout.agent[s, 0]), int(layout.agent[s, 1]))
            if at not in goals:  # there all actions are alike
                shares[at] = pi[s]
        heading += " and policy"
    return _Scene(tuple("".join(row) for row in rows), shares, heading)


def _randomises(shares: Floats) -> bool:
    return bool((shares >= SHOWN).sum() > 1)


def _decimals(share: float) -> str:
    """A probability short enough for a cell."""
    return f"{share:.2f}".lstrip("0") if share < 0.995 else "1"


def _letter_ink(letter: str) -> str:
    return "#ffffff" if letter == "G" else "#1b5e20"


def _legend(scene: _Scene, width: float) -> tuple[list[tuple[str, int, int]], int]:
    """Letter, x and y in pixels of each entry, broken where the picture ends; and the height of all."""
    present = {letter for _, _, letter in scene.cells()}
    places: list[tuple[str, int, int]] = []
    x, y = 0, 4
    for letter in "SGPXW":
        if letter not in present:
            continue
        need = 36 + 8 * len(LETTERS[letter])
        if x > 0 and x + need - 12 > width:
            x, y = 0, y + 22
        places.append((letter, x, y))
        x += need
    return places, y + 28


def _svg_arrow(arrow: _Arrow, size: int) -> str:
    corners = " ".join(f"{x * size:.1f},{y * size:.1f}" for x, y in arrow.outline())
    drawn = f'<polygon points="{corners}" opacity="{arrow.opacity:.2f}"/>'
    if arrow.label is None:
        return drawn
    x, y = arrow.label
    return (
        f'{drawn}<text x="{x * size:.1f}" y="{y * size + 4:.1f}" font-size="11" text-anchor="middle">'
        f"{_decimals(arrow.share)}</text>"
    )
