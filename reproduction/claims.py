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
from dataclasses import dataclass, replace
from textwrap import wrap
from typing import Any, Literal

from psconrl.analysis import Group, Groups
from reproduction.measures import markdown_table
from reproduction.presets import Selected, select

Verdict = Literal["held", "held only as plotted", "did not hold", "not exercised"]
MARKS: dict[str, str] = {"held": "✓", "held only as plotted": "◐", "did not hold": "✗", "not exercised": "–"}
GROUPS = ("Figure 1", "Appendix", "Theory", "Computation")
"""Where claims belong, in the order in which they are shown."""

HEAD = ("Claim", "In the authors' set-up", "As printed")

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
        test: what decides, with its threshold. measured: the numbers. brief: the one that decides.
        scale: horizon and runs, and whether they are fewer than the paper's.
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
    brief: str = "-"
    authors: str = ""
    authors_brief: str = ""
    authors_measured: str = ""

    def tested(
        self, holds: bool, signed: bool | None = None, *, measured: str, brief: str, note: str = "", scale: Scale
    ) -> Claim:
        """The claim after a test that held or not, as the paper has it and maybe for the signed quantity.

        note: what happened instead; left out where all tests held.
        """
        verdict, note = decide(holds, signed), "" if holds and signed in (True, None) else note
        if scale.runs is not None and scale.runs < FEWEST:
            few = f"Too few runs ({scale.runs}; {FEWEST} would do). On these alone: {verdict}."
            verdict, note = "not exercised", f"{few} {note}".strip()
        return replace(self, verdict=verdict, measured=measured, brief=brief, note=note, scale=scale)

    def undecided(self, why: str = "there are no stored runs of it", **measured: Any) -> Claim:
        """The claim where there are no runs of it, or where its premise never arose in them."""
        return replace(self, note=why, **measured)

    @property
    def decided(self) -> bool:
        """Whether the runs decide it."""
        return self.verdict != "not exercised"

    def line(self) -> tuple[str, str, str]:
        """The claim, and both verdicts, as under HEAD."""
        brief = self.brief if self.decided else self.note
        return self.text, _marked(self.authors, self.authors_brief), _marked(self.verdict, brief)

    def as_json(self) -> dict[str, Any]:
        """The claim as JSON values."""
        return vars(self) | {"scale": self.scale.text}


def claims(groups: Groups) -> list[Claim]:
    """All claims, by group; none if there are no runs of the paper's experiments."""
    from reproduction import claims_experiments, claims_theory  # which need the classes of this module

    if not any(select(preset, groups) for preset in PRESETS):
        return []
    rows = [*claims_experiments.claims(groups), *claims_theory.claims(groups)]
    return sorted(rows, key=lambda row: GROUPS.index(row.group))


def decide(holds: bool, signed: bool | None = None) -> Verdict:
    """The verdict on a claim, tested as the paper has it and, where that is a plotted quantity, on the signed one."""
    if not holds:
        return "did not hold"
    return "held only as plotted" if signed is False else "held"


def by_group(rows: Sequence[Claim]) -> dict[str, list[Claim]]:
    """The rows of each group that has some."""
    return {name: found for name in GROUPS if (found := [row for row in rows if row.group == name])}


def _marked(verdict: str, brief: str) -> str:
    """A verdict with its mark and the number that decided; nothing if there is none."""
    return f"{MARKS[verdict]} {verdict}: {brief}" if verdict else ""


def as_document(rows: Sequence[Claim], made: Mapping[str, str]) -> dict[str, Any]:
    """The rows as JSON values, with when and by what they were made."""
    return {"made": dict(made), "claims": [row.as_json() for row in rows]}


def as_page(document: Mapping[str, Any]) -> str:
    """The claims of a document as a page; above them when and with what they were made."""
    made = "".join(f"- {name}: {value}\n" for name, value in document["made"].items())
    return (
        f"# The paper's claims, tested\n\n{made}\n"
        "Numbers in brackets are 95% bootstrap intervals over runs. As plotted: positive part of the moving average's\n"
        "excess, summed in each run. Signed regret: sum_t (c_0 - J*); [V]+: positive part of sum_t (c_i - tau_i).\n"
        "Claims marked (reduced) were run at a fraction of the paper's scale; their verdicts are about that scale.\n\n"
    ) + as_cards(document)


def as_made(document: Mapping[str, Any]) -> str:
    """When, where and by what the runs of a document of claims were made; Markdown."""
    return markdown_table(("", ""), document["made"].items())


def as_summary(document: Mapping[str, Any]) -> str:
    """Both verdicts of the claims of a document, a line each; Markdown."""
    rows = [Claim(**(row | {"scale": Scale(row["scale"])})).line() for row in document["claims"]]
    return markdown_table(HEAD, ([cell.replace("|", "\\|") for cell in row] for row in rows))


def as_cards(document: Mapping[str, Any]) -> str:
    """The claims of a document: below each test, the claims that it decides with their verdicts; Markdown."""
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
    printed = f"{MARKS[row['verdict']]} **{row['verdict']}**{scale}: {row['measured']}.{note}"
    lines = [f"{row['text']} ({row['where']})", f": {'as printed ' if row['authors'] else ''}{printed}"]
    if row["authors"]:
        theirs = f"{MARKS[row['authors']]} **{row['authors']}**: {row['authors_measured']}."
        lines.append(f": in the authors' set-up {theirs}")
    return [*lines, ""]


def as_text(rows: Sequence[Claim], width: int = 80) -> str:
    """Both verdicts of each row for a screen of so many columns."""
    lines: list[str] = []
    for name, found in by_group(rows).items():
        lines += ["", name]
        for row in found:
            text, authors, printed = row.line()
            lines.append(text)
            for said in filter(None, (authors and f"in the authors' set-up {authors}", printed)):
                lines += wrap(said, max(width, 30), initial_indent="    ", subsequent_indent="        ")
    return "\n".join(lines[1:])


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
