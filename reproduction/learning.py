"""Every agent in the paper's gridworlds: signed regret and violation, plans, and how near the end is to the optimum."""

from __future__ import annotations

import numpy as np

from psconrl.analysis import Group, Groups, mean_interval
from reproduction import Document, Floats
from reproduction.measures import code_of, markdown_table, rounded
from reproduction.settings import OPTIMISTIC, SMALLEST, reachable

AGENTS = ("PSConRL", "ConRL", "C-UCRL", OPTIMISTIC, "CMDP-PSRL", "FHA", "TSDE", "Uniform", "Optimal")
"""In the order of tables."""

_ONLY_SMALLEST = ("FHA",)
_HEADER = (
    *("agent", "seeds", "regret", "violation", "known costs: regret", "violation"),
    *("plans", "infeasible", "last fifth above J*, tau"),
)


def document(groups: Groups) -> Document | None:
    """The numbers of all agents; None unless the runs of all are there."""
    rows, used = [], []
    for setting in reachable(False):
        for agent in AGENTS:
            if agent in _ONLY_SMALLEST and setting.env != SMALLEST:
                continue
            group = groups.get(setting.cell(agent).id)
            if group is None:
                return None
            used.append(group)
            known = groups.get(setting.cell(agent, costs="known").id)
            rows.append({"env": setting.env, "agent": agent, **_row(group), "known": known and _totals(known)})
    return {"code": code_of(used), "rows": rows}


def _row(group: Group) -> Document:
    signed = group.signed
    late = int(np.searchsorted(group.grid, 0.8 * group.horizon))
    last = (signed[..., -1] - signed[..., late]).mean(axis=0) / (group.horizon - group.grid[late])
    return {
        "horizon": group.horizon,
        "runs": group.runs,
        **_totals(group),
        "plans": rounded(float(np.mean([len(table) for table in group.episodes]))),
        "infeasible": rounded(float(np.mean([(~table["feasible"]).sum() for table in group.episodes]))),
        "last": [rounded(float(excess)) for excess in last],
    }


def _totals(group: Group) -> Document:
    return {name: _interval(group.signed[:, i, -1]) for i, name in enumerate(("regret", "violation"))}


def _interval(values: Floats) -> Document:
    return {name: rounded(x) for name, x in mean_interval(values).as_json().items()}


def markdown(found: Document) -> str:
    """A table for each environment."""
    texts = []
    for env in dict.fromkeys(row["env"] for row in found["rows"]):
        here = [row for row in found["rows"] if row["env"] == env]
        rows = [
            [
                row["agent"],
                str(row["runs"]),
                *(
                    _with_interval(totals[name]) if totals else ""
                    for totals in (row, row.get("known"))
                    for name in ("regret", "violation")
                ),
                f"{row['plans']:.0f}",
                f"{row['infeasible']:.1f}",
                ", ".join(f"{excess:+.4f}" for excess in row["last"]),
            ]
            for row in here
        ]
        texts.append(f"## {env}, T = {here[0]['horizon']:,}\n\n{markdown_table(_HEADER, rows)}")
    return "\n".join(texts)


def _with_interval(quantity: Document) -> str:
    mean, low, high = (_number(quantity[name]) for name in ("mean", "low", "high"))
    return f"{mean} [{low}, {high}]"


def _number(x: float) -> str:
    return f"{x:,.0f}" if abs(x) >= 1000 else f"{x:.1f}"
