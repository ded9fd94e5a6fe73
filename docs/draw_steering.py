"""Draw the picture of docs/explanation/steering.md: `make pictures` writes it to docs/figures.

A real run: the two policies of RiverSwim's optimum, steered for some thousand steps. Above, the place in the river and
the policy that is run; below, the excess of the limit on swimming inside its band.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import NamedTuple

import numpy as np
from matplotlib import rc_context
from matplotlib.figure import Figure

import psconrl
from docs.draw_worlds import BLUE, FIGURES, FONTS, INK, ORANGE
from psconrl._core.checks import Floats, Ints

NAME, STEPS, SEED = "steering", 6000, 2


class Swim(NamedTuple):
    """A run: places, actions, excess and band of each step (T,)."""

    places: Ints
    actions: Ints
    excess: Floats
    band: Floats


def steered(steps: int, seed: int) -> Swim:
    """A run."""
    river = psconrl.make("riverswim")
    steering = psconrl.Steering(psconrl.solve(river), horizon=steps)
    rng, p, s = np.random.default_rng(seed), np.asarray(river.transitions), 0
    rows = []
    for _ in range(steps):
        a = steering.act(s)
        steering.observe(river.costs[:, s, a])
        rows.append((s, a, steering.excess[0], steering.band[0]))
        s = int(rng.choice(river.S, p=p[s, a]))
    places, actions, excess, band = np.array(rows).T
    return Swim(places.astype(int), actions.astype(int), excess, band)


def by_chance(steps: int, seed: int) -> Floats:
    """The excess (T,) in a run of the stationary policy."""
    river = psconrl.make("riverswim")
    agent = psconrl.agents.Optimal(river.problem(), model=river)
    return np.asarray(psconrl.simulate(agent, river, steps, seed, checkpoints=steps).violation[0])


def picture() -> Figure:
    """Both panels."""
    path = steered(STEPS, SEED)
    t = np.arange(1, STEPS + 1)
    figure = Figure(figsize=(7.4, 4.4), layout="constrained")
    top, bottom = figure.subplots(2, 1, height_ratios=(1, 1.5), sharex=True)
    for action, colour, label in ((0, BLUE, "left"), (1, ORANGE, "right")):
        here = path.actions == action
        top.scatter(t[here], path.places[here], s=2, color=colour, label=label, rasterized=True)
        bottom.scatter(t[here], path.excess[here], s=2, color=colour, rasterized=True, zorder=3)
    top.set(yticks=range(6), yticklabels=["0, left bank", 1, 2, 3, 4, "5, right bank"], ylim=(-0.4, 5.4))
    top.set_title("Where the swimmer is, and what it does", loc="left")
    top.legend(markerscale=4, loc="lower right", bbox_to_anchor=(1.0, 0.97), ncols=2, borderaxespad=0.0)
    bottom.fill_between(t, -path.band, path.band, color="#f0f0f0", lw=0)
    for sign in (-1, 1):
        bottom.plot(t, sign * path.band, color=INK, lw=0.8)
    bottom.axhline(0.0, color=INK, lw=0.6, ls=(0, (2, 2)))
    bottom.plot(t, by_chance(STEPS, SEED), color="#777777", lw=1.2)
    bottom.set_ylim(-1.15 * path.band[-1], 1.3 * path.band[-1])
    bottom.annotate(
        "a separate run of the stationary policy:\nit stays at the left bank",
        (path.band[-1] / 0.6, -path.band[-1]),
        xytext=(10, 0),
        textcoords="offset points",
        fontsize=8,
        color="#555555",
    )
    bottom.text(0.99 * STEPS, 1.03 * path.band[-1], r"$B = \sqrt{(1 + d)\,t}$", ha="right", va="bottom")
    bottom.set(xlabel="step", ylabel="excess V", xlim=(0, STEPS))
    bottom.set_title("The excess of the limit, in its band", loc="left")
    return figure


def main(folder: Path = FIGURES) -> None:
    """Write it."""
    with rc_context(FONTS):
        picture().savefig(folder / f"{NAME}.png", dpi=160, facecolor="white", metadata={"Software": None})


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
