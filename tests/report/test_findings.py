"""What the report says first."""

import numpy as np
import pytest

from psconrl.analysis import Group
from psconrl.experiments import Cell
from psconrl.report.findings import ALLOWANCE, finding, sentences
from tests.analysis.synthetic import episodes, one_group, record

T = 1_000


def agent(
    name: str,
    regret: float,
    violations: list[float],
    *,
    runs: int = 20,
    spread: float = 0.0,
    horizon: int = T,
    optimum: float = 0.5,
    infeasible: int = 0,
) -> Group:
    """Runs with given sums at the horizon under limits of 0.2, those of the violation from run to run apart."""
    records = []
    cell = Cell("toy", name, horizon)
    for seed in range(runs):
        shift = spread * (seed - (runs - 1) / 2)
        costs = np.full((1 + len(violations), horizon), 0.2)
        costs[0] = 0.5 + regret / horizon
        costs[1:] += (np.array(violations)[:, np.newaxis] + shift) / horizon
        table = episodes([0, infeasible or 1], horizon, [not infeasible, True], m=len(violations))
        limits = [0.2] * len(violations)
        records.append(record(costs, seed=seed, cell=cell, thresholds=limits, table=table, optimum=optimum))
    return one_group(records)


def said(*agents: Group) -> str:
    return " ".join(sentences([finding(group.agent, group) for group in agents]))


def verdicts(group: Group) -> list[str]:
    return [use.verdict for use in finding("x", group).uses]


def test_a_limit_is_kept_broken_or_unclear_by_the_interval_of_what_it_is_exceeded_by() -> None:
    allowed = ALLOWANCE * T
    assert verdicts(agent("PSConRL", 0, [-50, 0.9 * allowed, 1.1 * allowed])) == ["kept", "kept", "broken"]
    assert verdicts(agent("PSConRL", 0, [allowed], spread=1.0)) == ["unclear"]
    assert verdicts(agent("PSConRL", 0, [0.0], spread=10.0)) == ["broken"], (
        "what one run saves does not pay for another"
    )


def test_who_broke_a_limit_is_never_called_best() -> None:
    greedy, careful, slow = agent("ConRL", -100, [50]), agent("PSConRL", 30, [5]), agent("TSDE", 40, [-50])
    text = said(greedy, careful, slow)
    assert "PSConRL, score 32.5" in text  # the price of the limit is 1/2
    assert "TSDE" in text.split("then")[1]
    assert "ConRL scored better" in text
    assert "none is called best" in said(greedy, agent("TSDE", 0, [10.0], spread=1.0))


def test_reference_agents_are_not_ranked() -> None:
    assert "Optimal" not in said(agent("PSConRL", 30, [0]), agent("ConRL", 40, [0]), agent("Optimal", 0, [0]))


def test_the_worst_tenth_is_the_mean_of_the_worst_seeds() -> None:
    found = finding("x", agent("PSConRL", 10, [100], spread=2.0))
    # Scores of the runs are 10 + (100 + 2 k) / 2 for k = -9.5, ..., 9.5.
    assert found.worst == pytest.approx(10 + 50 + (8.5 + 9.5) / 2)
    assert found.score is not None
    assert found.score.mean == pytest.approx(60)


def test_agents_with_other_horizons_are_not_compared() -> None:
    assert "best" not in said(agent("PSConRL", 30, [0]), agent("ConRL", 40, [0], horizon=100))


def test_without_an_optimum_there_is_no_score() -> None:
    group = agent("PSConRL", 30, [100], optimum=np.nan)
    assert finding("x", group).score is None
    assert "No policy meets the limits" in said(group)


def test_infeasible_plans_are_reported_with_the_limits_in_conflict_where_runs_have_them() -> None:
    group = agent("PSConRL", 0, [0, 0], infeasible=200)
    assert finding("x", group).infeasible == pytest.approx(0.2)
    assert "In 20% of its steps PSConRL" in said(group)
    assert finding("x", group).conflict == ()
    for table, limits in zip(group.episodes, group.thresholds, strict=True):
        table["nearest"][0] = [limits[0], limits[1] + 0.1]
    assert finding("x", group).conflict == ("c2",)


def test_one_run_has_no_interval() -> None:
    first, second = agent("PSConRL", 5, [0], runs=1), agent("ConRL", 6, [0], runs=1)
    assert "the intervals" not in said(first, second)
    assert "the intervals are apart" in said(agent("PSConRL", 5, [0]), agent("ConRL", 6, [0]))
