"""What a cell's runs came to at the horizon, as numbers that tables are made of."""

from __future__ import annotations

import numpy as np

from psconrl.analysis import Group, curves, mean_interval, number, worst_tenth
from reproduction import Document, Floats
from reproduction.measures import as_plotted


def summary(values: Floats) -> Document:
    """Mean, 95% interval, standard deviation and the mean of the worst tenth of runs; JSON values."""
    interval = mean_interval(values).as_json()
    deviation = float(values.std(ddof=1)) if len(values) > 1 else 0.0
    numbers = {**interval, "sd": deviation, "worst": worst_tenth(values)}
    return {name: rounded(x) for name, x in numbers.items()} | {"runs": len(values)}


def rounded(x: float | None) -> float | None:
    """Six significant digits: enough for every table, and the same on every machine that has the same runs."""
    return None if x is None or not np.isfinite(x) else float(f"{x:.6g}")


def final_values(group: Group, window: int | None = None, level: float | None = None) -> Document:
    """Signed regret and violation, [V]+ and L of a cell with one limit; with a window also what the paper plots.

    level: what the figure holds regret against, if it is not the optimum. charged: regret plus the price of the limit
    times [V]+. It is L without credit for unused allowance, so that staying on a safe policy has its price.
    """
    signed = group.signed[..., -1]
    positive = np.maximum(signed[:, 1], 0.0)
    values: Document = {
        "runs": group.runs,
        "horizon": group.horizon,
        "states": group.S,
        "regret": summary(signed[:, 0]),
        "violation": summary(signed[:, 1]),
        "positive_violation": summary(positive),
        "lagrangian": summary(group.lagrangian[:, -1]),
        "charged": summary(signed[:, 0] + group.multipliers[:, 0] * positive),
    }
    if window is not None and window <= group.horizon:
        plotted = as_plotted(group, window, level)[1][..., -1]
        average = curves.moving_average(group, window)[1][..., -1]
        values |= {
            "plotted_regret": summary(plotted[:, 0]),
            "plotted_violation": summary(plotted[:, 1]),
            "c_0": summary(average[:, 0]),
            "c_1": summary(average[:, 1]),
        }
    return values


def code_of(groups: list[Group]) -> str:
    """The code that made the runs; several are a mixture, and all are named."""
    return ", ".join(sorted({code for group in groups for code in group.codes})) or "-"


def precise(quantity: Document | None) -> str:
    """A mean of an average cost, with four digits."""
    return "-" if quantity is None or quantity["mean"] is None else number(round(quantity["mean"], 4))


def markdown_table(head: list[str], rows: list[list[str]]) -> str:
    """A table in Markdown."""
    return "".join(f"| {' | '.join(line)} |\n" for line in (head, ["---"] * len(head), *rows))
