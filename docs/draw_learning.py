"""Draw the picture of README: `make pictures` writes it to docs/figures.

Real runs in the hospital ward: what agents paid per step so far, and by how much they have exceeded a limit in total.
"""

from __future__ import annotations

import sys
from pathlib import Path

from matplotlib import rc_context
from matplotlib.figure import Figure

import psconrl
from docs.draw_worlds import BLUE, FIGURES, FONTS, INK, ORANGE

NAME, STEPS, SEEDS = "learning", 20_000, 5


def picture() -> Figure:
    """Both panels, a line per run."""
    ward = psconrl.make("hospital")
    optimum = psconrl.solve(ward).value
    figure = Figure(figsize=(7.4, 2.9), layout="constrained")
    cost, excess = figure.subplots(1, 2)
    for agent, colour, label in (
        (psconrl.agents.recommended(ward.problem()), BLUE, "recommended agent"),
        (psconrl.agents.PSConRL(ward.problem()), ORANGE, "PSConRL, as published"),
    ):
        for seed in range(SEEDS):
            run = psconrl.simulate(agent, ward, STEPS, seed, checkpoints=200, optimum=optimum)
            style = {"color": colour, "lw": 1.0, "label": label if seed == 0 else None}
            cost.plot(run.grid, run.cumulative[0] / run.grid, **style)
            excess.plot(run.grid, run.violation[0], **style)
    cost.axhline(optimum, color=INK, lw=0.8, ls=(0, (4, 3)))
    cost.annotate("best possible", (STEPS, optimum), xytext=(0, -3), textcoords="offset points", ha="right", va="top")
    ticks = [0, STEPS // 2, STEPS]
    cost.set(xlabel="shift", ylim=(0, 4 * optimum), xlim=(0, STEPS), xticks=ticks)
    cost.set_title("Waiting per shift so far", loc="left")
    cost.legend()
    excess.axhline(0.0, color=INK, lw=0.8, ls=(0, (4, 3)))
    excess.set(xlabel="shift", xlim=(0, STEPS), xticks=ticks)
    excess.set_title("Shifts of overtime beyond the limit", loc="left")
    return figure


def main(folder: Path = FIGURES) -> None:
    """Write it."""
    with rc_context(FONTS):
        picture().savefig(folder / f"{NAME}.png", dpi=160, facecolor="white", metadata={"Software": None})


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
