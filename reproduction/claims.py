"""The paper's claims, each with a test, what was measured, and verdicts computed from stored runs.

held                   the test holds; where the claim is about a figure, both as plotted and for the signed quantity
held only as plotted   it holds for the smoothed quantity of the paper's figures, not for the signed one
did not hold           it does not hold for what the paper plots; the note says what happened instead
not exercised          the stored runs cannot decide: they are missing or too few, or the claim's premise never arises

Claims about curves have two verdicts by the same test: on the algorithms as printed, and in the authors' set-up. Only
claims that the paper makes are here, each once, by the part of the paper: they are of different weight, and how many
held says nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from psconrl.analysis import Group, Groups, Interval
from reproduction.measures import markdown_table
from reproduction.presets import Selected, select

Verdict = Literal["held", "held only as plotted", "did not hold", "not exercised"]
MARKS: dict[str, str] = {"held": "✓", "held only as plotted": "◐", "did not hold": "✗", "not exercised": "–"}
VERDICTS: tuple[Verdict, ...] = ("held", "held only as plotted", "did not hold", "not exercised")
GROUPS = ("Figure 1", "Appendix", "Theory", "Computation")
"""Where claims belong, in the order in which they are shown."""

PRESETS = ("figure-1", "own-bonuses", "authors", "tractable", "bayesian", "feasibility")
"""The presets whose runs claims are tested on; without any of these nothing is said of the paper."""

FEWEST = 5
"""Fewer runs than this give no interval worth the name, so they decide nothing."""


@dataclass(frozen=True)
class Scale:
    """What a claim was tested on, in words; runs: how many the verdict rests on, None where it needs no interval."""

    text: str = ""
    runs: int | None = None


EXACT = Scale("exact")


@dataclass(frozen=True)
class Claim:
    """What the paper says, how it is tested, and what came out; not exercised until it is tested.

    Attributes:
        group: one of GROUPS. key: a stable name. text: what the paper says. where: in which part of it.
        test: what decides, with its threshold. measured: the numbers, for people. brief: the one that decides.
        numbers: the same as JSON values. scale: horizon and runs, and whether they are fewer than the paper's.
        verdict: on the algorithms as printed, or the only one. authors: in the authors' set-up, "" if it is not about
        that; authors_brief, authors_measured: the numbers there.
        note: what happened, where the claim failed or could not be decided.
    """

    group: str
    key: str
    text: str
    where: str
    test: str
    measured: str = "nothing"
    verdict: Verdict = "not exercised"
    note: str = ""
    scale: Scale = Scale()
    numbers: Mapping[str, Any] = field(default_factory=dict)
    brief: str = "-"
    authors: str = ""
    authors_brief: str = ""
    authors_measured: str = ""

    def tested(
        self,
        holds: bool,
        signed: bool | None = None,
        *,
        measured: str,
        brief: str,
        note: str = "",
        scale: Scale,
        numbers: Mapping[str, Any],
    ) -> Claim:
        """The claim after a test that held or not, as the paper has it and maybe for the signed quantity.

        note: what happened instead; left out where all tests held.
        """
        note = "" if holds and signed in (True, None) else note
        verdict = decide(holds, signed)
        return replace(self, verdict=verdict, measured=measured, brief=brief, note=note, scale=scale, numbers=numbers)

    def undecided(self, why: str = "there are no stored runs of it", **measured: Any) -> Claim:
        """The claim where there are no runs of it, or where its premise never arose in them."""
        return replace(self, note=why, **measured)

    def as_json(self) -> dict[str, Any]:
        """The claim as JSON values."""
        return vars(self) | {"scale": self.scale.text, "numbers": dict(self.numbers)}


def claims(groups: Groups) -> list[Claim]:
    """All claims, by group; none if there are no runs of the paper's experiments."""
    from reproduction import claims_experiments, claims_theory  # which need the classes of this module

    if not any(select(preset, groups) for preset in PRESETS):
        return []
    rows = [cautious(row) for row in (*claims_experiments.claims(groups), *claims_theory.claims(groups))]
    return sorted(rows, key=lambda row: GROUPS.index(row.group))


def cautious(row: Claim) -> Claim:
    """The row, undecided if it rests on too few runs."""
    runs = row.scale.runs
    if runs is None or runs >= FEWEST or row.verdict == "not exercised":
        return row
    note = f"Too few runs ({runs}; {FEWEST} would do). On these alone: {row.verdict}."
    return replace(row, verdict="not exercised", note=f"{note} {row.note}".strip())


def decide(holds: bool, signed: bool | None = None) -> Verdict:
    """The verdict on a claim, tested as the paper has it and, where that is a plotted quantity, on the signed one."""
    if not holds:
        return "did not hold"
    return "held only as plotted" if signed is False else "held"


def by_group(rows: Sequence[Claim]) -> dict[str, list[Claim]]:
    """The rows of each group that has some."""
    return {name: found for name in GROUPS if (found := [row for row in rows if row.group == name])}


def as_markdown(document: Mapping[str, Any]) -> str:
    """The claims of a JSON document as a page; above them when and with what they were made."""
    lines = [
        "# The paper's claims, tested",
        "",
        *(f"- {name}: {value}" for name, value in document["made"].items()),
        *([""] if document["made"] else []),
        "Numbers in brackets are 95% bootstrap intervals over runs. As plotted: positive part of the moving average's",
        "excess, summed in each run. Signed regret: sum_t (c_0 - J*); [V]+: positive part of sum_t (c_i - tau_i).",
        "Claims marked (reduced) were run at a fraction of the paper's scale; their verdicts are about that scale.",
        "Claims differ in weight, so verdicts are not counted.",
        "",
    ]
    return "\n".join(lines) + "\n" + as_cards(document)


def as_summary(document: Mapping[str, Any]) -> str:
    """Both verdicts of the claims of a JSON document, a line each; Markdown."""
    rows = [
        (row["text"], with_mark(row["authors"], row["authors_brief"]), with_mark(row["verdict"], row["brief"]))
        for row in document["claims"]
    ]
    escaped = ([cell.replace("|", "\\|") for cell in row] for row in rows)
    return markdown_table(("Claim", "In the authors' set-up", "As printed"), escaped)


def with_mark(verdict: str, brief: str) -> str:
    """A verdict with its mark and the number that decided; nothing if there is none."""
    return f"{MARKS[verdict]} {verdict}: {brief}" if verdict else ""


def as_cards(document: Mapping[str, Any]) -> str:
    """The claims of a JSON document: below each test, the claims that it decides with their verdicts; Markdown."""
    lines = []
    for name in GROUPS:
        found = [row for row in document["claims"] if row["group"] == name]
        lines += [f"## {name}", ""] if found else []
        for test in dict.fromkeys(row["test"] for row in found):
            lines += [f"*Test: {test}.*", ""]
            lines += [line for row in found if row["test"] == test for line in _card(row)]
    return "\n".join(lines).rstrip() + "\n"


def _card(row: Mapping[str, Any]) -> list[str]:
    """One claim: a term, and a definition for each verdict."""
    scale = f" ({row['scale']})" if row["scale"] else ""
    note = f" {row['note']}" if row["note"] else ""
    lines = [
        f"{row['text']} ({row['where']})",
        f": {'as printed ' if row['authors'] else ''}{MARKS[row['verdict']]} **{row['verdict']}**{scale}: "
        f"{row['measured']}.{note}",
    ]
    if row["authors"]:
        lines.append(
            f": in the authors' set-up {MARKS[row['authors']]} **{row['authors']}**: {row['authors_measured']}."
        )
    return [*lines, ""]


def as_made(document: Mapping[str, Any]) -> str:
    """When, where and by what the runs of a JSON document of claims were made; Markdown."""
    return markdown_table(("", ""), document["made"].items())


def as_document(rows: Sequence[Claim], made: Mapping[str, str] | None = None) -> dict[str, Any]:
    """The rows as JSON values."""
    return {"made": dict(made or {}), "claims": [row.as_json() for row in rows]}


def as_text(rows: Sequence[Claim], width: int = 80) -> str:
    """Verdict, claim and number of each row for a screen of so many columns, and what happened where it failed."""
    from textwrap import wrap

    first = max(map(len, VERDICTS)) + 2
    lines: list[str] = []
    for name, found in by_group(rows).items():
        lines += [*([""] if lines else []), name]
        for row in found:
            said = row.text if row.brief == "-" else f"{row.text}: {row.brief}"
            said += f". In the authors' set-up {row.authors}: {row.authors_brief}" if row.authors else ""
            if row.note and row.verdict != "not exercised":
                said += f". {row.note}"
            lines.append(row.verdict.ljust(first) + f"\n{' ' * first}".join(wrap(said, max(width - first, 30))))
    return "\n".join(lines)


def intervals_json(intervals: Mapping[str, Interval]) -> dict[str, Any]:
    """Intervals as JSON values."""
    return {name: interval.as_json() for name, interval in intervals.items()}


def scale_of(groups: Iterable[Group], horizon: int | None = None, runs: int | None = None) -> Scale:
    """Horizon and runs of the groups, and which Box; with the paper's, whether they are smaller."""
    found = list(groups)
    T, R = min(group.horizon for group in found), min(group.runs for group in found)
    boxes = "".join(f", Box with {S} states" for S in sorted({group.S for group in found if group.env == "box"}))
    text = f"T = {T:,}, {R} run{'s' if R > 1 else ''}{boxes}"
    reduced = (horizon is not None and horizon > T) or (runs is not None and runs > R)
    return Scale(text + (" (reduced)" if reduced else ""), R)


def scale_of_one(selected: Selected) -> Scale:
    """Horizon and runs of one cell, against those of its preset."""
    return scale_of([selected.group], selected.horizon, selected.runs)
