"""What an agent's state looks like: as text and as pixels, on the map or, without one, among the states."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from psconrl.cmdp import CMDP
from psconrl.environments import render

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Pixels = NDArray[np.uint8]

AGENT = (214, 96, 20)
"""Colour of the disc that is the agent on a map."""

HERE = (255, 224, 130)
"""Colour of the present state where there is no map."""

NAMED = 100
"""Names are printed into the cells of models with at most this many states."""

_DPI = 80


class Frames:
    """Draws the states of one model; what does not change between frames is drawn once."""

    def __init__(self, cmdp: CMDP) -> None:
        self.cmdp = cmdp
        self._still: dict[Any, tuple[Pixels, render.Area]] = {}

    def text(self, state: int, remark: str = "") -> str:
        """The state as text: the map with the agent as @, the state's name, and a remark."""
        cmdp = self.cmdp
        name = f"state {cmdp.state_names[state]} ({state + 1} of {cmdp.S})" + (f", {remark}" if remark else "")
        if cmdp.layout is None:
            return name + "\n"
        rows = [list(row) for row in render.cells(cmdp, self._box(state))]
        r, c = cmdp.layout.agent[state]
        rows[r][c] = "@"
        return "\n".join([*(" ".join(row) for row in rows), name]) + "\n"

    def pixels(self, state: int) -> Pixels:
        """The state as an array (height, width, 3)."""
        layout = self.cmdp.layout
        if layout is None:
            columns = _columns(self.cmdp.S)
            image, area = self._base(None)
            _mark(image, area.cell(*divmod(state, columns)))
        else:
            image, area = self._base(self._box(state))
            _disc(image, area.cell(*layout.agent[state].tolist()))
        return image

    def _box(self, state: int) -> tuple[int, int] | None:
        layout = self.cmdp.layout
        if layout is None or layout.box is None:
            return None
        r, c = layout.box[state].tolist()
        return r, c

    def _base(self, box: tuple[int, int] | None) -> tuple[Pixels, render.Area]:
        if box not in self._still:
            figure, area = _states(self.cmdp) if self.cmdp.layout is None else render.figure(self.cmdp, box=box)
            image = _rasterised(figure)
            self._still[box] = image, area.scaled(image.shape[0], image.shape[1])
        image, area = self._still[box]
        return image.copy(), area


def _rasterised(figure: Figure) -> Pixels:
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    figure.set_dpi(_DPI)
    canvas: Any = FigureCanvasAgg(figure)
    canvas.draw()
    return np.asarray(canvas.buffer_rgba())[:, :, :3].copy()


def _columns(S: int) -> int:
    return S if S <= 8 else int(np.ceil(np.sqrt(S)))


def _states(cmdp: CMDP) -> tuple[Figure, render.Area]:
    """All states as cells, row by row."""
    from matplotlib.figure import Figure
    from matplotlib.patches import Rectangle

    columns = _columns(cmdp.S)
    rows = -(-cmdp.S // columns)
    side = min(1.0, 10 / max(rows, columns))
    figure = Figure(figsize=(columns * side, rows * side), facecolor="white")
    axes = figure.add_axes((0.0, 0.0, 1.0, 1.0))
    axes.set(xlim=(0, columns), ylim=(rows, 0))
    axes.set_axis_off()
    longest = max(map(len, cmdp.state_names))
    points = min(12.0, 72 * side / (0.62 * longest + 0.5))
    for s in range(cmdp.S):
        r, c = divmod(s, columns)
        axes.add_patch(Rectangle((c, r), 1, 1, facecolor="white", edgecolor="#808080", linewidth=1))
        if cmdp.S <= NAMED:
            axes.text(c + 0.5, r + 0.5, cmdp.state_names[s], ha="center", va="center", fontsize=points)
    return figure, render.Area(0.0, 0.0, columns, rows)


def _mark(image: Pixels, cell: tuple[int, int, int, int]) -> None:
    """Tint a cell; what is written in it stays."""
    top, bottom, left, right = cell
    part = image[top:bottom, left:right]
    np.minimum(part, np.array(HERE, dtype=np.uint8), out=part)


def _disc(image: Pixels, cell: tuple[int, int, int, int]) -> None:
    """Draw the agent into a cell."""
    top, bottom, left, right = cell
    y, x = np.ogrid[top:bottom, left:right]
    radius = 0.28 * min(bottom - top, right - left)
    inside = np.hypot(y - (top + bottom - 1) / 2, x - (left + right - 1) / 2) <= radius
    image[top:bottom, left:right][inside] = AGENT
