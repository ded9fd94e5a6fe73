"""The paper's Table 1: every algorithm's bound as printed there and as its own paper has it, and what was measured.

sp: span of the optimal bias; T_M: the largest hitting time over all policies; C, rho: mixing constants; D: diameter.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from psconrl.analysis import Groups, growth_exponent, mean_interval
from reproduction.final_values import code_of
from reproduction.gridworlds import SMALLEST
from reproduction.selection import Selected, by_agent

HEADER = (
    "Algorithm",
    "Regret, as printed",
    "Violation, as printed",
    "Setting, as printed",
    "As published",
    "Signed regret at T",
    "[V]+ at T",
    "L at T",
    "Exponent of the regret",
    "Runs",
)


@dataclass(frozen=True)
class Bound:
    """What the literature says of one algorithm; note: what stands for it in the measurements, if it is another."""

    agent: str
    regret: str
    violation: str
    setting: str
    published: str
    note: str = ""


BOUNDS = (
    Bound(
        "C-UCRL",
        "Õ(m S A T^(3/4))",
        "0",
        "frequentist",
        "O(T^(3/4) sqrt(log(T/δ))), no violation with probability 1 - δ; known transitions and a safe baseline policy",
    ),
    Bound(
        "UCRL-CMDP",
        "Õ(D sqrt(S A) T^(2/3))",
        "Õ(D sqrt(S A) T^(2/3))",
        "frequentist",
        "Õ(T^(2/3)); known costs, every policy ergodic",
    ),
    Bound(
        "FHA",
        "Õ(sp S sqrt(A T))",
        "Õ(sp S sqrt(A T))",
        "frequentist",
        "the printed bound is that of an intractable algorithm of the same paper; "
        "FHA: Õ((1 + sp)(S² A)^(1/3) T^(2/3)); known span",
        "Chen et al.: their tractable algorithm, told the true span of the cost bias",
    ),
    Bound(
        "CMDP-PSRL",
        "Õ(H sqrt(S A T))",
        "Õ(H sqrt(S A T))",
        "unspecified",
        "O(T_M S sqrt(A T log(A T)) + C S² A log T / (1 - rho)); every policy ergodic",
    ),
    Bound(
        "PSConRL",
        "Õ(H S sqrt(A T))",
        "Õ(H S sqrt(A T))",
        "Bayesian",
        "the same; the later version has the diameter D for H",
    ),
)


def rows(groups: Groups) -> list[tuple[str, ...]]:
    """One row for each algorithm, in the order of HEADER; a dash where nothing was run."""
    found = by_agent("table-1", groups)
    return [_row(bound, found.get((SMALLEST, bound.agent))) for bound in BOUNDS]


def document(groups: Groups) -> dict[str, Any] | None:
    """The table as JSON values; None unless most of it was run: other presets share some of its cells."""
    found = [f.group for f in by_agent("table-1", groups).values()]
    if len(found) < len(BOUNDS) - 1:
        return None
    where = f"{SMALLEST}, T = {found[0].horizon:,}"
    return {"code": code_of(found), "where": where, "header": list(HEADER), "rows": [list(row) for row in rows(groups)]}


def _measured_in(where: str) -> str:
    return (
        f"Measured in {where}; means with 95% bootstrap intervals over runs. The exponent is fitted from T / 10 to T; "
        "-∞ where the mean regret is not positive there."
    )


def as_markdown(groups: Groups) -> str:
    """The table in Markdown."""
    found = document(groups)
    lines = [
        "# Bounds, and what was measured",
        "",
        _measured_in(found["where"] if found else "nothing was run"),
        "",
        "| " + " | ".join(HEADER) + " |",
        "|" + "---|" * len(HEADER),
    ]
    lines += ["| " + " | ".join(row) + " |" for row in rows(groups)]
    return "\n".join(lines) + "\n"


def cards(found: Mapping[str, Any]) -> str:
    """The table as two narrower ones, for a page: what the literature says, and what was measured."""
    sizes = {"What the paper's table says": range(1, 5), _measured_in(found["where"]): range(5, len(HEADER))}
    lines: list[str] = []
    for text, columns in sizes.items():
        header = [found["header"][k] for k in (0, *columns)]
        lines += [text, "", "| " + " | ".join(header) + " |", "|" + "---|" * len(header)]
        lines += ["| " + " | ".join(row[k] for k in (0, *columns)) + " |" for row in found["rows"]]
        lines.append("")
    return "\n".join(lines).rstrip() + "\n"


def _row(bound: Bound, found: Selected | None) -> tuple[str, ...]:
    name = f"{bound.agent} ({bound.note})" if bound.note else bound.agent
    stated = (name, bound.regret, bound.violation, bound.setting, bound.published)
    return (*stated, *(_measured(found) if found is not None else ("-",) * 5))


def _measured(found: Selected) -> Sequence[str]:
    group = found.group
    regret, violation = group.regret, group.positive_violation[:, 0]
    return (
        str(mean_interval(regret[:, -1])),
        str(mean_interval(violation[:, -1])),
        str(mean_interval(group.lagrangian[:, -1])),
        str(growth_exponent(group.grid, regret)),
        str(group.runs),
    )
