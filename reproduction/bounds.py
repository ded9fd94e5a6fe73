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

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from psconrl.analysis import Groups, growth_exponent, mean_interval
from reproduction import Document, Floats
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


def document(groups: Groups) -> Document | None:
    """Two tables, what the literature says and what was measured; None unless most of it was run."""
    found = by_agent("table-1", groups)
    if len(found) < len(BOUNDS) - 1:  # other presets share some of its cells
        return None
    used = [f.group for f in found.values()]
    said = {
        "caption": "What the paper's table says",
        "head": ["Algorithm", "Regret", "Violation", "Setting", "As published"],
        "rows": [[_name(b), b.regret, b.violation, b.setting, b.published] for b in BOUNDS],
    }
    measured = {
        "caption": f"Measured in {SMALLEST}, T = {used[0].horizon:,}; means with 95% bootstrap intervals over runs. "
        "The exponent is fitted from T / 10 to T; -∞ where the mean regret is not positive there.",
        "head": ["Algorithm", "Signed regret at T", "[V]+ at T", "L at T", "Exponent of the regret", "Runs"],
        "rows": [[_name(b), *_measured(found.get((SMALLEST, b.agent)))] for b in BOUNDS],
    }
    return {"code": code_of(used), "tables": [said, measured]}


def cards(found: Mapping[str, Any]) -> str:
    """The two tables in Markdown."""
    return "\n".join(f"{t['caption']}\n\n{markdown_table(t['head'], t['rows'])}" for t in found["tables"])


def _name(bound: Bound) -> str:
    return f"{bound.agent} ({bound.note})" if bound.note else bound.agent


def _measured(found: Selected | None) -> Sequence[str]:
    if found is None:
        return ["-"] * 5
    group = found.group
    ends = (group.regret[:, -1], group.positive_violation[:, 0, -1], group.lagrangian[:, -1])
    return [*map(str, map(mean_interval, ends)), str(growth_exponent(group.grid, group.regret)), str(group.runs)]
