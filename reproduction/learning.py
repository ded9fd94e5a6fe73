"""Every agent in the paper's gridworlds: signed regret and violation, plans, and how near the end is to the optimum."""

from __future__ import annotations

import numpy as np

from psconrl.analysis import Group, Groups, mean_interval
from reproduction import Document, Floats
from reproduction.comparisons import EVERY_AGENT
from reproduction.final_values import code_of, rounded
from reproduction.gridworlds import SMALLEST, reachable

_ONLY_SMALLEST = ("FHA",)
_HEADER = "| agent | seeds | regret | violation | plans | infeasible | last fifth above J*, tau |"


def document(groups: Groups) -> Document | None:
    """The numbers of all agents; None unless the runs of all are there."""
    rows, used = [], []
    for setting in reachable(False):
        for agent in EVERY_AGENT:
            if agent in _ONLY_SMALLEST and setting.env != SMALLEST:
                continue
            group = groups.get(setting.cell(agent).id)
            if group is None:
                return None
            used.append(group)
            rows.append({"env": setting.env, "agent": agent, **_row(group)})
    return {"code": code_of(used), "rows": rows}


def _row(group: Group) -> Document:
    signed = group.signed
    late = int(np.searchsorted(group.grid, 0.8 * group.horizon))
    last = (signed[..., -1] - signed[..., late]).mean(axis=0) / (group.horizon - group.grid[late])
    return {
        "horizon": group.horizon,
        "runs": group.runs,
        "regret": _interval(signed[:, 0, -1]),
        "violation": _interval(signed[:, 1, -1]),
        "plans": rounded(float(np.mean([len(table) for table in group.episodes]))),
        "infeasible": rounded(float(np.mean([(~table["feasible"]).sum() for table in group.episodes]))),
        "last": [rounded(float(excess)) for excess in last],
    }


def _interval(values: Floats) -> Document:
    return {name: rounded(x) for name, x in mean_interval(values).as_json().items()}


def markdown(found: Document) -> str:
    """A table for each environment."""
    lines: list[str] = []
    for env in dict.fromkeys(row["env"] for row in found["rows"]):
        here = [row for row in found["rows"] if row["env"] == env]
        lines += [f"## {env}, T = {here[0]['horizon']:,}", "", _HEADER, "|" + "---|" * 7]
        for row in here:
            last = ", ".join(f"{excess:+.4f}" for excess in row["last"])
            numbers = [_told(row["regret"]), _told(row["violation"]), f"{row['plans']:.0f}", f"{row['infeasible']:.1f}"]
            lines.append(f"| {row['agent']} | {row['runs']} | {' | '.join(numbers)} | {last} |")
        lines.append("")
    return "\n".join(lines)


def _told(quantity: Document) -> str:
    mean, low, high = (_number(quantity[name]) for name in ("mean", "low", "high"))
    return f"{mean} [{low}, {high}]"


def _number(x: float) -> str:
    return f"{x:,.0f}" if abs(x) >= 1000 else f"{x:.1f}"
