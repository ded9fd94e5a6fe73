"""What the report says first."""

from dataclasses import replace

import numpy as np
import pytest

from psconrl.analysis.statistics import Interval
from psconrl.report.findings import Finding, Use, Verdict, sentences


def agent(label: str, score: Interval | None, *verdicts: Verdict, average: float = 0.25) -> Finding:
    uses = tuple(Use(f"cost {i}", 0.2, Interval(5.0, 1.0, 9.0), average, v) for i, v in enumerate(verdicts))
    return Finding(label, True, Interval(1.0, 0.0, 2.0), 0.5, score, uses)


def interval(mean: float, half: float) -> Interval:
    return Interval(mean, mean - half, mean + half)


@pytest.mark.parametrize(
    ("found", "said"),
    [
        ([agent("A", interval(10, 1), "kept"), agent("B", interval(5, 1), "kept")], "B did clearly best"),
        ([agent("A", interval(5, 9), "kept"), agent("B", interval(6, 9), "kept")], "though the intervals overlap"),
        ([agent("A", interval(5, 9), "kept"), agent("B", interval(6, 9), "kept")], "All of them kept the limit"),
        ([agent("A", interval(5, 9), "exceeded", "kept")], "It did not keep all limits"),
        ([agent("A", interval(5, 9), "exceeded")], "cost 0 was 0.25 on average instead of 0.2"),
        (
            [agent("A", interval(5, 9), "kept"), agent("B", interval(6, 9), "exceeded")],
            "A kept the limit, as far as the noise lets one say; the others did not.",
        ),
        ([agent("A", None, "exceeded")], "The limits cannot be met"),
    ],
)
def test_sentences(found: list[Finding], said: str) -> None:
    assert said in " ".join(sentences(found, "1,000", "in 3 runs each"))


def test_agents_that_did_not_act_for_as_long_are_not_compared() -> None:
    found = [replace(agent(name, interval(5, 1), "kept"), horizon=T) for name, T in (("A", 100), ("B", 1_000))]
    told = " ".join(sentences(found, "100 to 1,000", "in 3 runs each"))
    assert "so they are not compared" in told
    assert "best" not in told


def test_one_run_has_no_interval() -> None:
    nothing = Interval(5.0, np.nan, np.nan)
    (first, best, kept) = sentences([agent("A", nothing, "kept"), agent("B", nothing, "kept")], "10", "in one run each")
    assert first == "Two agents acted for 10 steps, in one run each."
    assert best == "A did best: its regret plus the price of what it exceeded is 5; B follows with 5."
    assert "kept" in kept
