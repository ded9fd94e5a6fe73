"""Drawings of maps, and of policies on them: text for terminals, and pictures.

A policy is drawn as arrows; the longer and darker, the more likely the action. Probabilities are printed
where the policy randomises, on maps small enough to read them; those below half a percent are left out.
On a map with a box a policy depends on where the box stands: a drawing shows one position of it.
"""

from __future__ import annotations

import io
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

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


def figure(
    cmdp: CMDP, policy: ArrayLike | None = None, *, box: tuple[int, int] | None = None, title: str | None = None
) -> Figure:
    """The map as a figure of matplotlib.

    Args:
        cmdp: a gridworld.
        policy: (S, A), or an action for each state; the map alone if left out.
        box: row and column of the box; where it starts by default.
        title: a line above the map.

    Returns:
        The figure, without a display.

    Raises:
        InvalidModelError: the model has no map, the policy does not fit it, or the box never stands there.
    """
    from matplotlib.colors import to_rgb, to_rgba
    from matplotlib.figure import Figure
    from matplotlib.patches import Patch

    scene = _scene(cmdp, policy, box)
    high, wide = len(scene.rows), len(scene.rows[0])
    inches = min(0.8, 12 / max(high, wide))  # a cell's side
    drawn = Figure(figsize=(max(wide * inches, 3.0), high * inches + 0.6), facecolor="white", layout="constrained")
    axes = drawn.add_subplot()
    axes.imshow([[to_rgb(COLORS[letter]) for letter in row] for row in scene.rows])
    axes.set_xticks(np.arange(wide + 1) - 0.5, [])
    axes.set_yticks(np.arange(high + 1) - 0.5, [])
    axes.grid(color="#d0d0d0", linewidth=1.5 * inches)
    axes.tick_params(length=0)
    if title:
        axes.set_title(title, loc="left", fontsize=11, fontweight="bold")
    for r, row in enumerate(scene.rows):
        for c, letter in enumerate(row):
            if letter in "SG":
                ink = "#ffffff" if letter == "G" else "#1b5e20"
                axes.text(c - 0.42, r - 0.44, letter, va="top", fontsize=14 * inches, fontweight="bold", color=ink)
    arrows = [(r, c, a, p) for (r, c), shares in scene.shares.items() for a, p in enumerate(shares) if p >= SHOWN]
    if arrows:
        y, x, a, p = (np.array(column) for column in zip(*arrows, strict=True))
        down, right = np.array(MOVES)[a].T
        # An action that is taken for sure is drawn through the middle of the cell.
        alone = p > 1 - SHOWN
        tail, length = np.where(alone, -0.24, 0.04), np.where(alone, 0.48, 0.2 + 0.18 * p)
        axes.quiver(
            *(x + tail * right, y + tail * down, length * right, length * down),
            angles="xy",
            scale_units="xy",
            scale=1,
            units="xy",
            width=0.04,
            headaxislength=5,
            color=[to_rgba(_INK, 0.35 + 0.65 * share) for share in p],
        )
        for k in np.flatnonzero(~alone) if max(high, wide) <= LABELLED else ():
            # Each beside its shaft in a quadrant of its own, clockwise from it.
            place = x[k] + 0.33 * right[k] - 0.21 * down[k], y[k] + 0.33 * down[k] + 0.15 * right[k]
            axes.text(*place, f"{p[k]:.2f}".lstrip("0"), ha="center", va="center", fontsize=12 * inches, color=_INK)
    kinds = [letter for letter in "SGPXW" if any(letter in row for row in scene.rows)]
    handles = [Patch(facecolor=COLORS[letter], edgecolor="#d0d0d0", label=LETTERS[letter]) for letter in kinds]
    drawn.legend(handles=handles, loc="outside lower center", ncols=3, frameon=False)
    return drawn


def svg(
    cmdp: CMDP, policy: ArrayLike | None = None, *, box: tuple[int, int] | None = None, title: str | None = None
) -> str:
    """The map as a self-contained SVG picture; arguments and errors are those of `figure`."""
    from matplotlib import rc_context

    drawn, text = figure(cmdp, policy, box=box, title=title), io.StringIO()
    with rc_context({"svg.fonttype": "none", "svg.hashsalt": "map"}):
        drawn.savefig(text, format="svg", metadata={"Date": None, "Title": title or _scene(cmdp, policy, box).heading})
    return text.getvalue()


def png(
    cmdp: CMDP,
    path: str | Path,
    policy: ArrayLike | None = None,
    *,
    box: tuple[int, int] | None = None,
    title: str | None = None,
    dpi: int = 150,
) -> None:
    """Write the map as a PNG picture.

    Args:
        cmdp: a gridworld.
        path: the file.
        policy, box, title: as for `figure`, with its errors.
        dpi: pixels in an inch; the side of a cell is at most 0.8 inches.
    """
    drawn = figure(cmdp, policy, box=box, title=title)
    with writing.replacing(path) as file:
        drawn.savefig(file, format="png", dpi=dpi, facecolor="white")


@dataclass(frozen=True)
class _Scene:
    """What is drawn: the map with the box where it stands, the policy by cell of the agent, and a title."""

    rows: tuple[str, ...]
    shares: dict[tuple[int, int], Floats]
    heading: str


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
