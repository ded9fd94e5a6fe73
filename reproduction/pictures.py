"""The paper's pictures of its gridworlds: maps with the optimal policies, Box in its three configurations.

Box is drawn at the start under the optimal policy, and after the first push of the box by the safe and by the fast
policy, each with its own arrows.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib import rc_context
from matplotlib.figure import Figure
from matplotlib.image import imread

from psconrl import CMDP
from psconrl.environments import render
from psconrl.errors import InvalidArgumentError
from psconrl.report import save, title
from reproduction import Floats, references
from reproduction.settings import PAPER

_WIDTH = 3.3
"""Inches of a picture in the widest row."""
_CAPTION = 0.35
"""Inches for the title of a picture."""


def draw_environments(folder: str | Path) -> list[Path]:
    """One PNG for each picture, and all of them in environments.png and environments.pdf."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    rows: dict[bool, list[tuple[str, Path]]] = {}
    for setting in PAPER:
        cmdp = references.model(setting.env)
        levels = references.levels(setting.env)
        shown: list[tuple[str, str, Floats, tuple[int, int] | None]] = [("", "", levels.optimal_policy, None)]
        has_box = cmdp.layout is not None and cmdp.layout.box is not None
        if has_box:
            shown = [
                ("-main", ", at the start", levels.optimal_policy, None),
                ("-safe", ", pushed by the safe policy", levels.safe_policy, first_push(cmdp, levels.safe_policy)),
                ("-fast", ", pushed by the fast policy", levels.fast_policy, first_push(cmdp, levels.fast_policy)),
            ]
        for kind, words, policy, box in shown:
            path = folder / f"environment-{setting.env}{kind}.png"
            render.png(cmdp, path, policy, box=box)
            rows.setdefault(has_box, []).append((f"{title(setting.env)}{words}", path))
    drawn = [path for row in rows.values() for _, path in row]
    return drawn + save(gallery(list(rows.values())), folder, "environments")


def first_push(cmdp: CMDP, policy: Floats) -> tuple[int, int]:
    """Where the box stands after a policy, taking its likeliest actions, has pushed it once."""
    assert cmdp.layout is not None
    assert cmdp.layout.box is not None
    s = int(np.argmax(cmdp.initial))
    start = tuple(cmdp.layout.box[s].tolist())
    for _ in range(cmdp.S):
        row = s * cmdp.A + int(np.argmax(policy[s]))
        s = int(np.argmax(cmdp.matrix[[row]].toarray()[0]))
        box = tuple(cmdp.layout.box[s].tolist())
        if box != start:
            return int(box[0]), int(box[1])
    raise InvalidArgumentError("the policy never pushes the box")


def gallery(rows: Sequence[Sequence[tuple[str, Path]]]) -> Figure:
    """Put pictures together, all at the same scale.

    Args:
        rows: for each row titles and PNG files; shorter rows stand in the middle.

    Returns:
        The figure.
    """
    pictures = [[imread(path) for _, path in row] for row in rows]
    widths = [sum(picture.shape[1] for picture in row) for row in pictures]
    heights = [max(picture.shape[0] for picture in row) for row in pictures]
    inches = _WIDTH * max(map(len, rows)) / max(widths)  # of a pixel
    width, height = max(widths) * inches, sum(heights) * inches + _CAPTION * len(rows)
    with rc_context({"axes.titlesize": 10.0}):
        figure = Figure(figsize=(width, height))
        top = height
        for row, images, across, high in zip(rows, pictures, widths, heights, strict=True):
            top -= _CAPTION
            left = (width - across * inches) / 2
            for (caption, _), image in zip(row, images, strict=True):
                wide, tall = image.shape[1] * inches, image.shape[0] * inches
                ax = figure.add_axes((left / width, (top - tall) / height, wide / width, tall / height))
                ax.set_axis_off()
                ax.imshow(image)
                ax.set_title(caption)
                left += wide
            top -= high * inches
        return figure
