"""What a study found, in sentences and one table: who did best, and whether the limits were kept.

Agents are compared by regret plus sum_i price_i [V_i]+ at the horizon: exceeding a limit costs its shadow price, and
what is left of one earns nothing. A limit counts as kept if the interval of the mean violation lies at or below zero,
as exceeded if it lies above, and as met within the noise otherwise.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from psconrl._core.numbers import listed, number, with_minus
from psconrl.analysis import curves
from psconrl.analysis.groups import REFERENCE_AGENTS, Group
from psconrl.analysis.statistics import Interval, mean_interval

Verdict = Literal["kept", "met within the noise", "exceeded"]

MARKS: dict[Verdict, str] = {"kept": "✓", "met within the noise": "≈", "exceeded": "✗"}

ROUNDING = 1e-12
"""What rounding may leave of a sum, for each step."""
_NAMED = 5
"""Agents that a sentence lists; the table below it has them all."""
_WORDS = ("No", "One", "Two", "Three", "Four", "Five", "Six", "Seven", "Eight", "Nine", "Ten", "Eleven", "Twelve")


@dataclass(frozen=True)
class Use:
    """A limit as an agent used it: its name, the mean violation at the horizon, and the average over the run."""

    name: str
    limit: float
    violation: Interval
    average: float
    verdict: Verdict


@dataclass(frozen=True)
class Finding:
    """An agent at its horizon: regret, score (None without an optimum), the average of the main cost, its limits."""

    label: str
    learns: bool
    regret: Interval
    average: float
    score: Interval | None
    uses: tuple[Use, ...]
    horizon: int = 0

    @property
    def keeps(self) -> bool:
        """Whether no limit is exceeded."""
        return all(use.verdict != "exceeded" for use in self.uses)


def finding(label: str, group: Group) -> Finding:
    """What became of one agent."""
    ends, averages = curves.signed(group)[..., -1], group.cumulative[..., -1].mean(axis=0) / group.horizon
    uses = []
    for i, name in enumerate(group.cost_names[1:]):
        taus = set(group.thresholds[:, i].tolist())
        violation = mean_interval(ends[:, i + 1])
        tau = taus.pop() if len(taus) == 1 else np.nan
        uses.append(Use(name, tau, violation, float(averages[i + 1]), _verdict(violation)))
    score = ends[:, 0] + (group.multipliers * np.maximum(ends[:, 1:], 0.0)).sum(axis=1)
    score[np.abs(score) <= ROUNDING * group.horizon] = 0.0
    scored = mean_interval(score) if np.isfinite(score).all() else None
    regret = mean_interval(ends[:, 0]) if np.isfinite(ends[:, 0]).all() else Interval(np.nan, np.nan, np.nan)
    learns = group.agent not in REFERENCE_AGENTS
    return Finding(label, learns, regret, float(averages[0]), scored, tuple(uses), group.horizon)


def _verdict(violation: Interval) -> Verdict:
    low, high = (violation.low, violation.high) if np.isfinite(violation.low) else (violation.mean, violation.mean)
    noise = 1e-9 * max(1.0, abs(violation.mean))
    return "kept" if high <= noise else "exceeded" if low > noise else "met within the noise"


def sentences(found: Sequence[Finding], horizon: str, runs: str) -> list[str]:
    """What to say of the agents of one world."""
    learners = [f for f in found if f.learns] or list(found)
    ranked = sorted((f for f in learners if f.score is not None), key=_score)
    told = [f"{_agents(len(found))} acted for {horizon} steps, {runs}."]
    if not ranked:
        told.append("The limits cannot be met, so there is no optimum to compare with.")
    elif len({f.horizon for f in ranked}) > 1:
        told.append("They did not all act for as long, so they are not compared.")
    elif len(ranked) > 1:
        told.append(_best(ranked))
    limits = len(found[0].uses) if found else 0
    if limits and (ranked or learners):
        told.append(_kept(ranked or learners, limits))
    return told


def _score(finding: Finding) -> float:
    assert finding.score is not None
    return finding.score.mean


def _best(ranked: Sequence[Finding]) -> str:
    first, second = ranked[0], ranked[1]
    assert first.score is not None
    assert second.score is not None
    apart = first.score.high < second.score.low
    clearly = "" if not np.isfinite(first.score.high) else (" clearly" if apart else ", though the intervals overlap")
    verb = f"did{clearly} best" if apart else "did best"
    behind = "" if apart else clearly
    return (
        f"{first.label} {verb}: its regret plus the price of what it exceeded is {_text(first.score.mean)}; "
        f"{second.label} follows with {_text(second.score.mean)}{behind}."
    )


def _kept(agents: Sequence[Finding], limits: int) -> str:
    what = "the limit" if limits == 1 else "all limits"
    keeping = [f.label for f in agents if f.keeps]
    if len(keeping) == len(agents):
        return f"{'It' if len(agents) == 1 else 'All of them'} kept {what}, as far as the noise lets one say."
    if keeping:
        who = listed(keeping) if len(keeping) <= _NAMED else f"{len(keeping)} of the {len(agents)}"
        return f"{who} kept {what}, as far as the noise lets one say; the others did not."
    nearest = min(agents, key=lambda f: max(_excess(use) for use in f.uses))
    worst = max(nearest.uses, key=_excess)
    how = f"{worst.name} was {_text(worst.average)} on average"
    limit = f" instead of {_text(worst.limit)}" if np.isfinite(worst.limit) else ""
    if len(agents) == 1:
        return f"It did not keep {what} while it learned: {how}{limit}."
    return f"None kept {what} while learning. {nearest.label} came nearest: {how}{limit}."


def _excess(use: Use) -> float:
    return use.violation.mean


def _agents(n: int) -> str:
    return "One agent" if n == 1 else f"{_WORDS[n] if n < len(_WORDS) else n} agents"


def _text(value: float) -> str:
    return with_minus(number(value))


def horizons(groups: Sequence[Group]) -> tuple[str, str]:
    """The steps and the runs of some groups, in words."""
    steps = sorted({group.horizon for group in groups})
    runs = sorted({group.runs for group in groups})
    said = f"{steps[0]:,}" if len(steps) == 1 else f"{steps[0]:,} to {steps[-1]:,}"
    each = "each" if len(groups) > 1 else "in all"
    if runs == [1]:
        return said, f"in one run {each}" if len(groups) > 1 else "in one run"
    return said, f"in {runs[0]} runs {each}" if len(runs) == 1 else f"in {runs[0]} to {runs[-1]} runs each"
