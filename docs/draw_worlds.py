"""Draw the pictures of docs/reference/environments.md: `make pictures` writes them to docs/figures.

Most show two policies side by side: the best one without limits, and the best one within them.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib import rc_context
from matplotlib.figure import Figure
from matplotlib.patches import Circle, FancyArrowPatch, Patch, Rectangle

import psconrl

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FIGURES = Path(__file__).parent / "figures"
BLUE, ORANGE, GREEN, PURPLE = "#0072B2", "#E69F00", "#009E73", "#CC79A7"
INK, FAINT = "#1a1a1a", "#d0d0d0"
FONTS: dict[Any, Any] = {
    "font.size": 9.0,
    "axes.titlesize": 9.5,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "legend.frameon": False,
}
PANELS = ("without the limit", "within the limit")


def riverswim() -> Figure:
    """The places and their moves, and where the optimal policy spends its time."""
    river = psconrl.make("riverswim")
    solution = psconrl.solve(river)
    time = solution.occupancy
    figure = Figure(figsize=(7.4, 3.9), layout="constrained")
    top, bottom = figure.subplots(2, 1, height_ratios=(1.15, 1), sharex=True)
    top.set(xlim=(-0.6, river.S - 0.4), ylim=(-0.8, 0.7))
    top.set_axis_off()
    top.scatter(range(river.S), np.zeros(river.S), s=480, facecolor="white", edgecolor=INK, zorder=3)
    for s in range(river.S):
        top.text(s, 0, str(s), ha="center", va="center", zorder=4)
        _arrow(top, (s - 0.07, 0.2), (s + 0.07, 0.2), -1.9, BLUE, gap=0)
        top.text(s, 0.5, {0: "0.6", river.S - 1: "0.95"}.get(s, "0.55"), ha="center", color=BLUE, fontsize=8)
        if s + 1 < river.S:
            _arrow(top, (s, 0), (s + 1, 0), -0.35, BLUE)
            top.text(s + 0.5, 0.3, "0.4", ha="center", color=BLUE, fontsize=8)
            _arrow(top, (s + 1, 0), (s, 0), 0.0, BLUE, width=0.8)
            top.text(s + 0.5, 0.03, "0.05", ha="center", color=BLUE, fontsize=7)
            _arrow(top, (s + 1, 0), (s, 0), -0.3, ORANGE)
    _arrow(top, (0.07, -0.2), (-0.07, -0.2), -1.9, ORANGE, gap=0)
    for x, side, colour, text in (
        (-0.4, "left", ORANGE, "left costs 0.995 at place 0"),
        ((river.S - 1) / 2, "center", INK, "all other moves cost 1"),
        (river.S - 0.6, "right", BLUE, f"right costs 0 at place {river.S - 1}"),
    ):
        top.text(x, -0.78, text, ha=side, color=colour)
    _stacks(bottom, time, (ORANGE, BLUE))
    bottom.set(ylabel="share of time", xlabel="place", ylim=(0, 0.65))
    for s in (0, river.S - 1):
        bottom.text(s, time[s].sum() + 0.015, f"{time[s].sum():.2f}", ha="center")
    names = ("left: one place to the left for sure", "right: effort 1, at most 0.6 of the time")
    _legend(figure, names, (ORANGE, BLUE))
    return figure


def media_streaming() -> Figure:
    """The share of time at each level of the buffer, by action."""
    figure = Figure(figsize=(7.4, 2.9), layout="constrained")
    all_axes = figure.subplots(1, 2, sharey=True)
    media = psconrl.make("media-streaming")
    for axes, panel, solution in zip(all_axes, PANELS, _both(media), strict=True):
        _stacks(axes, solution.occupancy, (ORANGE, BLUE))
        J = psconrl.evaluate(media, solution.policy).average_costs @ media.initial
        axes.set(xlabel="packets in the buffer", title=f"{panel}: frozen {J[0]:.2g}, fast {J[1]:.2g}")
    all_axes[0].set_ylabel("share of time")
    _legend(figure, ("slow service", "fast service"), (ORANGE, BLUE))
    return figure


def inventory() -> Figure:
    """The share of evenings with each stock, by order."""
    from matplotlib import colormaps

    shop = psconrl.make("inventory")
    shades = [FAINT, *colormaps["viridis_r"](np.linspace(0.08, 0.95, shop.A - 1))]
    figure = Figure(figsize=(7.4, 2.9), layout="constrained")
    all_axes = figure.subplots(1, 2, sharey=True)
    for axes, panel, solution in zip(all_axes, PANELS, _both(shop), strict=True):
        _stacks(axes, solution.occupancy, shades)
        J = psconrl.evaluate(shop, solution.policy).average_costs @ shop.initial
        title = f"{panel}: {(1 - J[0]) / 0.08:.2f} sold a day, expenses {J[1]:.2f}"
        axes.set(xlabel="items left in the evening", title=title)
    all_axes[0].set_ylabel("share of evenings")
    names = ("no order", *(f"order {a}" for a in range(1, shop.A)))
    _legend(figure, names, shades)
    return figure


def access_control() -> Figure:
    """Who is accepted, and how many of each class are rejected."""
    farm = psconrl.make("access-control")
    figure = Figure(figsize=(7.4, 4.6), layout="constrained")
    axes = figure.subplot_mosaic([["0", "1"], ["shares", "shares"]], height_ratios=(1, 0.95))
    priorities, limits = ("1", "2", "4", "8"), 4 * farm.thresholds
    bars = []
    for k, (panel, solution) in enumerate(zip(("without limits", "within the limits"), _both(farm), strict=True)):
        accepted = solution.policy[:, 1].reshape(11, 4).T
        ax = axes[str(k)]
        for (row, free), share in np.ndenumerate(accepted[:, 1:]):
            ax.add_patch(Rectangle((free + 0.5, row - 0.5), 1, 1, facecolor="white", edgecolor=FAINT))
            ax.add_patch(Rectangle((free + 0.5, row - 0.5), share, 1, facecolor=BLUE, edgecolor="none", alpha=0.85))
        ax.add_patch(Rectangle((-0.5, -0.5), 1, 4, facecolor="#eeeeee", edgecolor=FAINT))
        ax.text(0, 1.5, "all busy", rotation=90, ha="center", va="center", fontsize=8)
        ax.set(xlim=(-0.5, 10.5), ylim=(-0.5, 3.5), xticks=range(11), yticks=range(4), yticklabels=priorities)
        ax.set(xlabel="free servers", title=f"accepted {panel}")
        bars.append(4 * psconrl.evaluate(farm, solution.policy).average_costs[1:] @ farm.initial)
    axes["0"].set_ylabel("priority")
    ax, x = axes["shares"], np.arange(4)
    ax.bar(x - 0.2, bars[0], 0.36, color=FAINT, label="without limits")
    ax.bar(x + 0.2, bars[1], 0.36, color=ORANGE, label="within the limits")
    ax.hlines(limits, x - 0.42, x + 0.42, color=INK, linewidth=1.8, label="limit")
    ax.set(xticks=x, xticklabels=priorities, xlabel="priority", ylabel="share rejected", ylim=(0, 1.05))
    ax.legend(loc="upper right")
    return figure


def hospital() -> Figure:
    """What the ward does in each state, and how often it is there."""
    ward = psconrl.make("hospital")
    shades = ("#ffffff", BLUE, ORANGE, PURPLE)
    figure = Figure(figsize=(7.4, 3.7), layout="constrained")
    all_axes = figure.subplots(1, 2, sharey=True)
    for axes, panel, solution in zip(all_axes, ("without limits", "within the limits"), _both(ward), strict=True):
        time = psconrl.evaluate(ward, solution.policy).stationary
        for s, row in enumerate(solution.policy):
            b, w = divmod(s, 5)
            shares = row.copy()
            for alike in (2,) * (b == 0) + (3,) * (w == 0):  # what changes nothing there is "admit"
                shares[0] += shares[alike]
                shares[alike] = 0
            left = b - 0.5
            for share, shade in zip(shares, shades, strict=True):
                axes.add_patch(Rectangle((left, w - 0.5), share, 1, facecolor=shade, edgecolor="none", alpha=0.75))
                left += share
            axes.add_patch(Rectangle((b - 0.5, w - 0.5), 1, 1, facecolor="none", edgecolor="#909090", linewidth=0.6))
            axes.add_patch(Circle((b, w), 0.9 * np.sqrt(time[s]), facecolor=INK, edgecolor="none"))
        J = psconrl.evaluate(ward, solution.policy).average_costs @ ward.initial
        axes.set(xlim=(-0.5, 6.5), ylim=(-0.5, 4.5), aspect="equal", xlabel="beds taken", yticks=range(5))
        axes.set_title(f"{panel}: waiting {J[0]:.3f},\novertime {J[1]:.0%}, readmissions {J[2]:.1%} of shifts")
    all_axes[0].set_ylabel("patients waiting")
    _legend(figure, ("admit", "overtime", "discharge", "transfer"), shades, alpha=0.75)
    return figure


PICTURES = {
    "riverswim": riverswim,
    "media-streaming": media_streaming,
    "inventory": inventory,
    "access-control": access_control,
    "hospital": hospital,
}


def _both(cmdp: psconrl.CMDP) -> tuple[psconrl.Solution, psconrl.Solution]:
    """The optimum without limits, and within them."""
    free = cmdp.replace(thresholds=np.ones(cmdp.m))
    return psconrl.solve(free), psconrl.solve(cmdp)


def _stacks(axes: Axes, time: np.ndarray, shades: Sequence[Any]) -> None:
    """A bar per state, stacked by action."""
    states = np.arange(len(time))
    under = np.zeros(len(time))
    for shares, shade in zip(time.T, shades, strict=True):
        axes.bar(states, shares, 0.8, bottom=under, color=shade)
        under += shares
    axes.set_xticks(states)


def _legend(figure: Figure, names: Sequence[str], shades: Sequence[Any], alpha: float = 1.0) -> None:
    patches = [
        Patch(facecolor=shade, edgecolor="#909090", alpha=alpha, label=name)
        for name, shade in zip(names, shades, strict=True)
    ]
    figure.legend(handles=patches, loc="outside lower center", ncols=len(patches))


def _arrow(
    axes: Axes,
    start: tuple[float, float],
    end: tuple[float, float],
    bend: float,
    colour: str,
    width: float = 1.4,
    gap: float = 12,
) -> None:
    shape: dict[str, Any] = {"connectionstyle": f"arc3,rad={bend}", "arrowstyle": "-|>", "mutation_scale": 9}
    axes.add_patch(FancyArrowPatch(start, end, color=colour, lw=width, shrinkA=gap, shrinkB=gap, **shape))


def main(folder: Path = FIGURES) -> None:
    """Draw all of them."""
    with rc_context(FONTS):
        for name, draw in PICTURES.items():
            draw().savefig(folder / f"{name}.png", dpi=160, facecolor="white", metadata={"Software": None})


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
