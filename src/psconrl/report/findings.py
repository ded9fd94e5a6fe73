"""What a study found, in sentences and one table: which agents kept the limits, and who of them did best.

Agents are compared by their score, regret plus sum_i price_i [V_i]+ at the horizon: exceeding a limit costs its shadow
price, and what is left of one earns nothing. Only an agent that kept every limit can be best. A limit counts as kept
if the upper end of the 95% interval of the mean [V]+ is at most ALLOWANCE of the steps, in units of the range of the
cost, as broken if the lower end is above that, and as unclear otherwise.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from psconrl._core.checks import Floats
from psconrl._core.numbers import listed, number, plural, with_minus
from psconrl.analysis import curves
from psconrl.analysis.groups import REFERENCE_AGENTS, Group
from psconrl.analysis.statistics import Interval, mean_interval, worst_tenth

Verdict = Literal["kept", "unclear", "broken"]

MARKS: dict[Verdict, str] = {"kept": "✓", "unclear": "≈", "broken": "✗"}

ALLOWANCE = 0.01
"""Share of the steps that [V]+ may amount to."""
_ROUNDING = 1e-12
"""What rounding may leave of a sum, for each step."""
_NAMED = 5
"""Agents that a sentence lists; the table has them all."""
_RARE = 0.01
"""Share of steps without a feasible plan that needs no sentence."""


@dataclass(frozen=True)
class Use:
    """A limit as an agent used it: violation at the horizon, the average over the run, and whether it was kept."""

    name: str
    limit: float
    violation: Interval
    average: float
    verdict: Verdict


@dataclass(frozen=True)
class Finding:
    """An agent at its horizon.

    Attributes:
        label: its name. learns: whether it has a rank.
        regret: signed. average: of the main cost. score: None without an optimum; worst: the mean of its worst tenth.
        uses: the limits. horizon, runs: T and R.
        infeasible: the share of steps under plans whose model admitted no policy.
        conflict: the limits that could not hold together there, where the runs say so.
    """

    label: str
    learns: bool
    regret: Interval
    average: float
    score: Interval | None
    worst: float
    uses: tuple[Use, ...]
    horizon: int
    runs: int
    infeasible: float = 0.0
    conflict: tuple[str, ...] = ()

    @property
    def verdict(self) -> Verdict:
        """That of the limit it kept least."""
        verdicts = {use.verdict for use in self.uses}
        return "broken" if "broken" in verdicts else "unclear" if "unclear" in verdicts else "kept"


def finding(label: str, group: Group) -> Finding:
    """What became of one agent."""
    signed, excess = group.signed[..., -1], group.positive_violation[..., -1]
    averages = group.cumulative[..., -1].mean(axis=0) / group.horizon
    score = signed[:, 0] + (group.multipliers * excess).sum(axis=1)
    score[np.abs(score) <= _ROUNDING * group.horizon] = 0.0
    known = bool(np.isfinite(score).all())
    allowed = ALLOWANCE * group.horizon * group.spans
    uses = []
    for i, name in enumerate(group.cost_names[1:]):
        limits = set(group.thresholds[:, i].tolist())
        limit = limits.pop() if len(limits) == 1 else np.nan
        verdict = _verdict(excess[:, i], float(allowed[i + 1]))
        uses.append(Use(name, limit, mean_interval(signed[:, i + 1]), float(averages[i + 1]), verdict))
    return Finding(
        label=label,
        learns=group.agent not in REFERENCE_AGENTS,
        regret=mean_interval(signed[:, 0]) if known else Interval(np.nan, np.nan, np.nan),
        average=float(averages[0]),
        score=mean_interval(score) if known else None,
        worst=worst_tenth(score) if known else np.nan,
        uses=tuple(uses),
        horizon=group.horizon,
        runs=group.runs,
        infeasible=float(curves.infeasible_steps(group)[:, -1].mean() / group.horizon),
        conflict=curves.conflict(group),
    )


def _verdict(excess: Floats, allowed: float) -> Verdict:
    """Whether a limit was kept, of [V]+ (R,) at the horizon."""
    found = mean_interval(excess)
    low, high = (found.low, found.high) if np.isfinite(found.low) else (found.mean, found.mean)
    return "kept" if high <= allowed else "broken" if low > allowed else "unclear"


def sentences(found: Sequence[Finding]) -> list[str]:
    """What to say of the agents in one environment."""
    learners = [f for f in found if f.learns] or list(found)
    ranked = sorted((f for f in learners if f.score is not None), key=_score)
    said = [_scale(found)]
    if not ranked:
        said.append("No policy meets the limits, so there is no optimum to compare with.")
    elif len({f.horizon for f in ranked}) > 1:
        said.append("Their horizons differ, so they are not compared.")
    elif len(ranked) > 1:
        said.append(_best(ranked))
    if found[0].uses:
        said.append(_limits(ranked or learners))
    return [*said, *(_infeasible(f) for f in learners if f.infeasible > _RARE)]


def _score(found: Finding) -> float:
    return np.inf if found.score is None else found.score.mean


def _scale(found: Sequence[Finding]) -> str:
    steps, runs = (sorted({getattr(f, name) for f in found}) for name in ("horizon", "runs"))
    horizon = " to ".join(f"{T:,}" for T in dict.fromkeys((steps[0], steps[-1])))
    fewest = "" if len(runs) == 1 else f"{runs[0]} to "
    each = " each" if len(found) > 1 else ""
    return f"{plural(len(found), 'agent')}, {horizon} steps, {fewest}{plural(runs[-1], 'run')}{each}."


def _best(ranked: Sequence[Finding]) -> str:
    """Who has the best score of those that kept the limits; the others only as far as they scored better."""
    keeping = [f for f in ranked if f.verdict == "kept"]
    if not keeping:
        return "None is shown to have kept every limit, so none is called best."
    first, *others = keeping
    assert first.score is not None
    better = listed([f.label for f in ranked[: ranked.index(first)]][:_NAMED]) if ranked[0] is not first else ""
    among = " among those that kept the limits" if len(keeping) < len(ranked) else ""
    text = f"Best{among}: {first.label}, score {_text(first.score.mean)}"
    if others:
        second = others[0]
        assert second.score is not None
        text += f", then {second.label}, {_text(second.score.mean)}"
        if np.isfinite(first.score.high):
            apart = first.score.high < second.score.low
            text += " (the intervals are apart)" if apart else " (the intervals overlap)"
    return f"{text}." + (f" {better} scored better but did not clearly keep them." if better else "")


def _limits(agents: Sequence[Finding]) -> str:
    """Who kept the limits, who broke them, and of whom that cannot be said."""
    if all(f.verdict == "kept" for f in agents):
        return "It kept every limit." if len(agents) == 1 else "All kept every limit."
    said = []
    for verdict, words in (("kept", "Kept every limit"), ("unclear", "Unclear"), ("broken", "Broke a limit")):
        names = [f.label for f in agents if f.verdict == verdict]
        if names:
            said.append(f"{words}: {listed(names) if len(names) <= _NAMED else f'{len(names)} agents'}.")
    return " ".join(said)


def _infeasible(found: Finding) -> str:
    which = f"; in conflict: {listed(found.conflict)}" if found.conflict else ""
    return f"In {100 * found.infeasible:.2g}% of its steps {found.label} planned with limits out of reach{which}."


def _text(value: float) -> str:
    return with_minus(number(value))
