"""What an agent's state looks like: as text and as pixels, on the map or, without one, among the states."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from psconrl.cmdp import CMDP
from psconrl.environments import render

Pixels = NDArray[np.uint8]

AGENT = (214, 96, 20)
"""Colour of the disc that is the agent."""
_CELL = 48
"""Pixels of a cell's side on a small map."""
_LARGEST = 960
"""Pixels of a picture's side, unless cells would have fewer than four."""


def text(cmdp: CMDP, state: int, remark: str = "") -> str:
    """A state as text: the map with the agent as @, the state's name, and a remark."""
    name = f"state {cmdp.state_names[state]} ({state + 1} of {cmdp.S})" + (f", {remark}" if remark else "")
    if cmdp.layout is None:
        return name + "\n"
    rows = [list(row) for row in render.cells(cmdp, _box(cmdp, state))]
    r, c = cmdp.layout.agent[state]
    rows[r][c] = "@"
    return "\n".join([*(" ".join(row) for row in rows), name]) + "\n"


def pixels(cmdp: CMDP, state: int) -> Pixels:
    """A state as an array (height, width, 3): the map, or a cell for each state, with the agent as a disc."""
    if cmdp.layout is None:
        columns = cmdp.S if cmdp.S <= 8 else int(np.ceil(np.sqrt(cmdp.S)))
        rows = ["." * columns] * -(-cmdp.S // columns)
        r, c = divmod(state, columns)
    else:
        rows = list(render.cells(cmdp, _box(cmdp, state)))
        r, c = cmdp.layout.agent[state].tolist()
    side = max(4, min(_CELL, _LARGEST // max(len(rows), len(rows[0]))))
    colors = {letter: [int(color[k : k + 2], 16) for k in (1, 3, 5)] for letter, color in render.COLORS.items()}
    cells = np.array([[colors[letter] for letter in row] for row in rows], dtype=np.uint8)
    image = cells.repeat(side, axis=0).repeat(side, axis=1)
    image[::side] = image[:, ::side] = 208  # lines between cells
    y, x = np.ogrid[:side, :side]
    middle = (side - 1) / 2
    disc = np.hypot(y - middle, x - middle) <= 0.28 * side
    image[r * side : (r + 1) * side, c * side : (c + 1) * side][disc] = AGENT
    return image


def _box(cmdp: CMDP, state: int) -> tuple[int, int] | None:
    layout = cmdp.layout
    if layout is None or layout.box is None:
        return None
    r, c = layout.box[state].tolist()
    return r, c
