"""The paper's claims, each with a test, what was measured, and a verdict computed from stored runs.

held                   the test holds, for signed quantities where the claim is about regret or violation
held only as plotted   it holds for the smoothed quantity of the paper's figures, not for the signed one
did not hold           it holds for neither; the note says what happened instead
not exercised          the stored runs cannot decide: they are missing or too few, or the claim's premise never arises
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from psconrl.analysis.records import Group, Groups
from psconrl.analysis.statistics import Interval

Verdict = Literal["held", "held only as plotted", "did not hold", "not exercised"]
VERDICTS: tuple[Verdict, ...] = ("held", "held only as plotted", "did not hold", "not exercised")
FEWEST = 5
"""Fewer runs than this give no interval worth the name, so they decide nothing."""

HEADER = ("Claim", "Where", "Test", "Measured", "Scale", "Verdict", "What happened")


@dataclass(frozen=True)
class Scale:
    """What a claim was tested on, in words; runs: how many the verdict rests on, None where it needs no interval."""

    text: str = ""
    runs: int | None = None


EXACT = Scale("exact")


@dataclass(frozen=True)
class Claim:
    """One row.

    Attributes:
        key: a stable name. text: what the paper says. where: in which part of it.
        test: what decides, with its threshold. measured: the numbers, for people. numbers: the same as JSON values.
        scale: horizon and runs, and whether they are fewer than the paper's.
        note: what happened, where the claim failed or could not be decided.
    """

    key: str
    text: str
    where: str
    test: str
    measured: str
    verdict: Verdict
    note: str = ""
    scale: Scale = Scale()
    numbers: Mapping[str, Any] = field(default_factory=dict)

    @property
    def row(self) -> tuple[str, ...]:
        """The cells of a table, in the order of HEADER."""
        return (self.text, self.where, self.test, self.measured, self.scale.text, self.verdict, self.note)

    def as_json(self) -> dict[str, Any]:
        """The row as JSON values."""
        names = ("key", "text", "where", "test", "measured", "verdict", "note")
        return {name: getattr(self, name) for name in names} | {
            "scale": self.scale.text,
            "numbers": dict(self.numbers),
        }


def claims(groups: Groups) -> list[Claim]:
    """All claims, in the order of the paper."""
    from psconrl.analysis import claims_experiments, claims_theory

    return [cautious(row) for row in (*claims_theory.claims(groups), *claims_experiments.claims(groups))]


def cautious(row: Claim) -> Claim:
    """The row, undecided if it rests on too few runs."""
    runs = row.scale.runs
    if runs is None or runs >= FEWEST or row.verdict == "not exercised":
        return row
    note = f"Too few runs ({runs}; {FEWEST} would do). On these alone: {row.verdict}."
    return replace(row, verdict="not exercised", note=f"{note} {row.note}".strip())


def counts(rows: Iterable[Claim]) -> dict[Verdict, int]:
    """How many rows have each verdict."""
    found = [row.verdict for row in rows]
    return {verdict: found.count(verdict) for verdict in VERDICTS}


def decide(signed: bool, plotted: bool | None = None) -> Verdict:
    """The verdict on a claim that was tested on the signed quantity and, maybe, on the plotted one."""
    if signed:
        return "held"
    return "held only as plotted" if plotted else "did not hold"


def missing(key: str, text: str, where: str, test: str, why: str = "there are no stored runs of it") -> Claim:
    """The row of a claim that cannot be decided."""
    return Claim(key, text, where, test, "nothing", "not exercised", why)


def as_markdown(rows: Sequence[Claim]) -> str:
    """The rows as a Markdown table, with the counts of verdicts above it."""
    summary = ", ".join(f"{n} {verdict}" for verdict, n in counts(rows).items())
    lines = [
        "# The paper's claims, tested",
        "",
        f"{len(rows)} claims: {summary}.",
        "",
        "Numbers in brackets are 95% bootstrap intervals over runs. Signed regret is sum_t (c_0 - J*), signed",
        "violation sum_t (c_i - tau_i). As plotted: positive part of the moving average's excess, summed in each run.",
        "Rows marked (reduced) were run at a fraction of the paper's scale; their verdicts are about that scale.",
        "",
        "| " + " | ".join(HEADER) + " |",
        "|" + "---|" * len(HEADER),
    ]
    lines += ["| " + " | ".join(_escaped(cell) for cell in row.row) + " |" for row in rows]
    return "\n".join(lines) + "\n"


def as_json(rows: Sequence[Claim]) -> str:
    """The rows as a JSON document."""
    document = {"counts": counts(rows), "claims": [row.as_json() for row in rows]}
    return json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def as_rows(rows: Sequence[Claim]) -> list[tuple[str, ...]]:
    """The cells of all rows, in the order of HEADER, for a table on the screen."""
    return [row.row for row in rows]


def intervals_json(intervals: Mapping[str, Interval]) -> dict[str, Any]:
    """Intervals as JSON values."""
    return {name: interval.as_json() for name, interval in intervals.items()}


def scale_of(groups: Iterable[Group], horizon: int | None = None, runs: int | None = None) -> Scale:
    """Horizon and runs of the groups; with the paper's, whether they are smaller."""
    found = list(groups)
    T, R = min(group.horizon for group in found), min(group.runs for group in found)
    text = f"T = {T:,}, {R} run{'s' if R > 1 else ''}"
    reduced = (horizon is not None and horizon > T) or (runs is not None and runs > R)
    return Scale(text + (" (reduced)" if reduced else ""), R)


def _escaped(cell: str) -> str:
    return cell.replace("|", "\\|").replace("\n", " ")
