"""The paper's pictures of its gridworlds: maps with the optimal policies, Box in its three configurations.

Box is drawn at the start under the optimal policy, and after the first push of the box by the safe and by the fast
policy, each with its own arrows.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from matplotlib.image import imread

from psconrl import CMDP
from psconrl.environments import render
from psconrl.errors import InvalidArgumentError
from psconrl.report import save, title
from reproduction import Floats, references


def draw_environments(folder: str | Path) -> list[Path]:
    """One PNG for each picture, and all of them in environments.png and environments.pdf."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    box, pushed = references.model("box"), references.levels("box")
    rows = [[("marsrover-4x4", ""), ("marsrover-8x8", "")], [("box", "-main"), ("box", "-safe"), ("box", "-fast")]]
    words = {
        "": "",
        "-main": ", at the start",
        "-safe": ", pushed by the safe policy",
        "-fast": ", pushed by the fast policy",
    }
    policies = {"-safe": pushed.safe_policy, "-fast": pushed.fast_policy}
    drawn: list[list[tuple[str, Path]]] = []
    for row in rows:
        drawn.append([])
        for env, kind in row:
            path = folder / f"environment-{env}{kind}.png"
            policy = policies.get(kind, references.levels(env).optimal_policy)
            place = first_push(box, policy) if kind in policies else None
            render.png(references.model(env), path, policy, box=place)
            drawn[-1].append((title(env) + words[kind], path))
    return [path for row in drawn for _, path in row] + save(_gallery(drawn), folder, "environments")


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


def _gallery(rows: Sequence[Sequence[tuple[str, Path]]]) -> Figure:
    """Rows of pictures with their titles."""
    figure = Figure(figsize=(10.0, 7.0), layout="constrained")
    grid = figure.add_gridspec(len(rows), 1)
    for k, row in enumerate(rows):
        part = figure.add_subfigure(grid[k])
        pictures = [imread(path) for _, path in row]
        axes = part.subplots(1, len(row), width_ratios=[picture.shape[1] for picture in pictures])
        for ax, picture, (caption, _) in zip(axes, pictures, row, strict=True):
            ax.imshow(picture)
            ax.set_title(caption, fontsize=10)
            ax.set_axis_off()
    return figure
