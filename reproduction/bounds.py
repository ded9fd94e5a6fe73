"""Bounds on regret: those of the paper's proof with their constants, and its Table 1 beside what was measured.

episodes            K_T <= sqrt(2 S A T log2 T)                                   (Ouyang et al. 2017, Lemma 1)
good event          (D + 1) sqrt(2 S A T log2 T) + 49 D S sqrt(A T log(A T))      sampled models that are feasible
infeasible samples  h (log S + 2) sqrt(T) + 1, h the hitting time of the uniform policy, which is executed then
theorem             the sum of the last two
feasibility         gamma >= D sqrt(14 S log(2 A T^2) / sqrt(T)), the premise of the feasibility lemma

The paper has its bound H on the hitting times of all policies where these formulas have D and h. H is infinite
as soon as some stationary policy can be made to leave a part of the model arbitrarily seldom, as in all environments
here. The diameter D is what the later version of the paper uses; but it says nothing about the uniform policy, whose
hitting time can be exponentially larger, so that term keeps h.

In Table 1, sp: span of the optimal bias; T_M: the largest hitting time over all policies; C, rho: mixing constants.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from psconrl.analysis import Groups, growth_exponent, mean_interval
from reproduction import Floats
from reproduction.measures import code_of, markdown_table
from reproduction.presets import Selected, by_agent
from reproduction.settings import SMALLEST


def episodes_bound(S: int, A: int, T: ArrayLike) -> Floats:
    """The bound on the number of episodes until T."""
    t = np.maximum(np.asarray(T, dtype=np.float64), 2.0)
    return np.asarray(np.sqrt(2 * S * A * t * np.log2(t)))


def good_event_bound(S: int, A: int, T: ArrayLike, D: float) -> Floats:
    """The bound on the regret in episodes with a feasible sample, with the diameter for H."""
    t = np.maximum(np.asarray(T, dtype=np.float64), 2.0)
    return np.asarray((D + 1) * episodes_bound(S, A, t) + 49 * D * S * np.sqrt(A * t * np.log(A * t)))


def theorem_bound(S: int, A: int, T: ArrayLike, D: float, uniform_hitting: float) -> Floats:
    """The bound of Theorem 1 with the constants of its proof; see above for what stands for H."""
    t = np.maximum(np.asarray(T, dtype=np.float64), 2.0)
    return np.asarray(good_event_bound(S, A, t, D) + uniform_hitting * (np.log(S) + 2) * np.sqrt(t) + 1)


def feasibility_premise(S: int, A: int, T: int, D: float) -> float:
    """The least margin the feasibility lemma asks for, with the diameter for H."""
    return float(D * np.sqrt(14 * S * np.log(2 * A * T**2) / np.sqrt(T)))


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


def two_tables(found: Mapping[str, Any]) -> list[tuple[str, list[str], list[list[str]]]]:
    """Caption, head and rows of what the literature says, and of what was measured."""
    measured = f"Measured in {found['where']}; means with 95% bootstrap intervals over runs. The exponent is fitted "
    measured += "from T / 10 to T; -∞ where the mean regret is not positive there."
    sizes = {"What the paper's table says": range(1, 5), measured: range(5, len(HEADER))}
    return [
        (caption, _columns([found["header"]], columns)[0], _columns(found["rows"], columns))
        for caption, columns in sizes.items()
    ]


def cards(found: Mapping[str, Any]) -> str:
    """These two tables in Markdown."""
    return "\n".join(f"{caption}\n\n{markdown_table(head, rows)}" for caption, head, rows in two_tables(found))


def _columns(lines: Sequence[Sequence[str]], columns: Iterable[int]) -> list[list[str]]:
    """The first column of some lines, and others."""
    return [[line[k] for k in (0, *columns)] for line in lines]


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
