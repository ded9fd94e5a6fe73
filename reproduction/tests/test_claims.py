import json
from typing import Any

import numpy as np
import pytest

from psconrl.analysis import group
from psconrl.experiments import Cell, RunRecord
from reproduction import bounds, references
from reproduction.bounds import BOUNDS, cards, document
from reproduction.claims import (
    FEWEST,
    GROUPS,
    HEAD,
    Claim,
    as_cards,
    as_document,
    as_page,
    as_summary,
    as_text,
    by_group,
    claims,
    decide,
)
from reproduction.claims_experiments import stuck_share
from reproduction.tests.runs import OPTIMA, Rates, bayesian, by_agent, cells, figure_1, runs_of
from tests.analysis.synthetic import cell_records, checkpoints, curve_record, episodes


def verdicts(records: list[RunRecord], timings: dict[str, float] | None = None) -> dict[str, Claim]:
    rows = claims(group(records, timings))
    assert len({row.key for row in rows}) == len(rows)
    return {row.key: row for row in rows}


def test_decide() -> None:
    assert decide(True) == decide(True, True) == "held"
    assert decide(True, False) == "held only as plotted"
    assert decide(False) == decide(False, True) == decide(False, False) == "did not hold"


def test_without_runs_of_the_papers_experiments_nothing_is_said_of_it() -> None:
    assert claims({}) == []
    other = Cell("toy", "PSConRL", 500, costs="known")
    assert claims(group(cell_records(other, 6, 0.5, 0.5, optimum=0.47, thresholds=[0.5]))) == []


def test_what_is_not_run_is_not_decided() -> None:
    rows = verdicts(runs_of(cells("feasibility")[:1]))
    exact = ("assumption/", "environments/", "lemma/cover")
    for key, row in rows.items():
        if not key.startswith((*exact, "feasibility", "lemma/episodes")):
            assert row.verdict == "not exercised", key
            assert row.note
    assert rows["assumption/hitting"].verdict == "did not hold"
    assert rows["assumption/slater"].verdict == "held"
    assert rows["environments/mixture"].verdict == "held"
    assert rows["lemma/cover"].verdict == "held"


def test_orders_of_regret() -> None:
    rows = verdicts(
        figure_1(
            {
                ("marsrover-8x8", "PSConRL"): (0.01, 0.02),
                ("marsrover-8x8", "ConRL"): (0.03, 0.02),
                ("marsrover-8x8", "C-UCRL"): (0.005, 0.5),
            }
        )
    )
    assert rows["order/marsrover-8x8/ConRL"].verdict == "held"
    failed = rows["order/marsrover-8x8/C-UCRL"]
    assert failed.verdict == "did not hold"
    assert failed.brief == "5.2 against 2.6"
    assert rows["order/marsrover-4x4/C-UCRL"].verdict == "did not hold"
    assert "order/marsrover-4x4/ConRL" not in rows, "the paper calls them indistinguishable"


@pytest.mark.parametrize(("extra", "verdict"), [(0.01, "held"), (0.0102, "held"), (0.013, "did not hold")])
def test_indistinguishable_is_within_a_tenth_of_the_larger_mean(extra: float, verdict: str) -> None:
    row = verdicts(figure_1({("marsrover-4x4", "ConRL"): (extra, 0.01)}))["same/marsrover-4x4/ConRL"]
    assert row.verdict == verdict


def test_few_noisy_runs_are_not_indistinguishable() -> None:
    """Intervals that meet prove nothing: the difference must be shown to be small."""
    both = [(by_agent("figure-1") | by_agent("own-bonuses"))["marsrover-4x4", agent] for agent in ("PSConRL", "ConRL")]
    assert verdicts(runs_of(both, regret=0.025, spread=5e-3))["same/marsrover-4x4/ConRL"].verdict == "did not hold"


@pytest.mark.parametrize(
    ("ours", "theirs", "verdict"),
    [(0.01, 0.02, "held"), (0.03, 0.02, "held"), (0.05, 0.02, "did not hold"), (0.0005, 0.0, "held")],
)
def test_comparable_is_one_sided(ours: float, theirs: float, verdict: str) -> None:
    rates = {("marsrover-8x8", "PSConRL"): (0.0, ours), ("marsrover-8x8", "C-UCRL"): (0.0, theirs)}
    assert verdicts(figure_1(rates))["comparable/marsrover-8x8/C-UCRL"].verdict == verdict


def test_held_only_as_plotted() -> None:
    """A rival that gains early and loses late: signed they are equal, but the plot forgets the gain."""
    rows_of = figure_1({("marsrover-8x8", "PSConRL"): (0.0, 0.0)})
    cell = by_agent("own-bonuses")["marsrover-8x8", "ConRL"]
    kept = [r for r in rows_of if r.cell != cell.id]
    J, tau = OPTIMA["marsrover-8x8"]
    grid = checkpoints(cell)
    half = np.where(grid <= cell.horizon / 2, J - 0.05, J + 0.05) * grid[0]
    for seed in range(6):
        cumulative = np.stack([np.cumsum(half) + (seed - 2.5), tau * grid])
        kept.append(curve_record(cell, seed, cumulative, optimum=J, thresholds=[tau]))
    row = verdicts(kept)["order/marsrover-8x8/ConRL"]
    assert row.verdict == "held only as plotted"


def test_box() -> None:
    safe = {("box", "ConRL"): (0.03, -0.6), ("box", "C-UCRL"): (0.1, -0.3), ("box", "PSConRL"): (0.0, 0.0)}
    rows = verdicts(figure_1(safe))
    assert rows["stuck/box/ConRL"].verdict == "held"
    assert rows["stuck/box/C-UCRL"].verdict == "did not hold"
    assert "c_0 0.945 " in rows["stuck/box/C-UCRL"].measured
    assert rows["quickly/box/PSConRL"].verdict == "not exercised"
    assert "more than half" in rows["quickly/box/PSConRL"].note
    assert "(reduced)" in rows["stuck/box/ConRL"].scale.text


@pytest.mark.parametrize(("late", "verdict"), [(0.03, "held"), (0.025, "held"), (0.02, "did not hold")])
def test_near_linear_is_regret_per_step_that_does_not_fall(late: float, verdict: str) -> None:
    """0.03 above the optimum until T / 2, then another rate: judged at the paper's scale, as plotted and signed."""
    cell = by_agent("own-bonuses", quick=False)["box", "ConRL"]
    J, tau = OPTIMA["box"]
    grid = checkpoints(cell)
    rate = np.where(grid <= cell.horizon / 2, J + 0.03, J + late) * grid[0]
    cumulative = np.stack([np.cumsum(rate), tau * grid])
    runs = [curve_record(cell, seed, cumulative, optimum=J, thresholds=[tau]) for seed in range(6)]
    row = verdicts(runs)["near-linear/box/ConRL"]
    assert row.verdict == verdict
    assert f"signed 0.03 per step, then {late:g};" in row.measured


def test_stuck_is_less_than_half_of_the_way_from_safe_to_optimal_in_every_cost() -> None:
    levels = references.levels("box")
    way = levels.optimal - levels.safe
    shares = [0.0, 0.4, 0.6, 1.0]
    assert [stuck_share((levels.safe + x * way)[np.newaxis], levels) for x in shares] == [1, 1, 0, 0]
    # Who does nothing at all spends as little as the safe policy, but gets nowhere.
    assert stuck_share(np.array([[1.0, 0.0]]), levels) == 0


def test_convergence_and_feasibility_fail_beyond_their_margins() -> None:
    near = {("marsrover-4x4", agent): (0.005, 0.005) for agent in ("PSConRL", "ConRL", "UCRL-CMDP")}
    near |= {("marsrover-8x8", agent): (0.0, 0.005) for agent in ("PSConRL", "ConRL", "C-UCRL")}
    rows = verdicts(figure_1(near | {("marsrover-4x4", "C-UCRL"): (0.02, 0.03)}))
    assert rows["converges/marsrover-4x4"].verdict == "did not hold"
    assert rows["feasible/marsrover-4x4"].verdict == "did not hold"
    assert rows["feasible/marsrover-4x4"].brief == "c_1 - tau at most 0.03 (C-UCRL)"
    assert rows["feasible/marsrover-8x8"].verdict == "held"


def test_few_runs_decide_nothing() -> None:
    row = verdicts(figure_1({}, runs=FEWEST - 1))["converges/marsrover-4x4"]
    assert row.verdict == "not exercised"
    assert "On these alone: held" in row.note


def test_the_authors_set_up_is_judged_by_the_same_test() -> None:
    runs = figure_1({("box", "ConRL"): (0.03, -0.6)})
    row = verdicts(runs)["stuck/box/ConRL"]
    assert (row.verdict, row.authors) == ("held", "")
    runs += runs_of(cells("authors"), regret=0.0, violation=0.0)
    row = verdicts(runs)["stuck/box/ConRL"]
    assert (row.verdict, row.authors, row.authors_brief) == ("held", "did not hold", "0% of runs")
    few = [run for run in runs if "released" not in run.agent or run.seed < FEWEST - 1]
    assert verdicts(few)["stuck/box/ConRL"].authors == ""


def test_box_with_all_states_stands_beside_the_states_that_can_be_reached() -> None:
    runs = figure_1({("marsrover-8x8", "PSConRL"): (0.05, 0.01)})
    assert "121" not in verdicts(runs)["costly"].measured
    row = verdicts(runs + runs_of([by_agent("box-121", whole=True)["box", "PSConRL"]], regret=0.1))["costly"]
    assert row.verdict == "did not hold"
    assert "with all 121 states of Box: held, " in row.brief


def test_claims_about_all_environments_at_once() -> None:
    best: Rates = {(env, "PSConRL"): (0.001, 0.01) for env in OPTIMA}
    rows = verdicts(figure_1(best))
    assert rows["consistently"].verdict == "held"
    assert verdicts(figure_1({**best, ("box", "PSConRL"): (0.02, 0.01)}))["consistently"].verdict == "did not hold"
    assert rows["costs"].verdict == "not exercised"
    runs = figure_1(best) + runs_of(cells("known-costs"), regret=0.0005)
    assert verdicts(runs)["costs"].verdict == "did not hold"


def test_feasibility_by_the_growth_of_infeasible_steps() -> None:
    toy, garnet = cells("feasibility")
    T = toy.horizon
    always = episodes([0, 10], T, [True, False])
    early = episodes([0, 10, 60], T, [True, False, True])
    rows = verdicts(
        cell_records(toy, 6, 0.5, 0.5, optimum=0.47, thresholds=[0.5], table=always)
        + cell_records(garnet, 6, 0.5, 0.5, optimum=0.47, thresholds=[0.5], table=early)
        + figure_1({})
    )
    assert rows["feasibility/toy"].verdict == "did not hold"
    assert rows["feasibility/garnet"].verdict == "held"
    assert "the last at step 60;" in rows["feasibility/garnet"].measured
    assert "feasibility/box" not in rows


def test_infeasible_samples_that_come_late_are_no_success() -> None:
    cell = cells("feasibility")[0]
    late = episodes([0, cell.horizon // 2], cell.horizon, [True, False])
    row = verdicts(cell_records(cell, 6, 0.5, 0.5, optimum=0.47, thresholds=[0.5], table=late))["feasibility/toy"]
    assert row.verdict == "did not hold"


def test_the_number_of_episodes() -> None:
    cell = by_agent("figure-1")["marsrover-4x4", "PSConRL"]
    many = episodes(list(range(cell.horizon)), cell.horizon)
    assert verdicts(figure_1({}))["lemma/episodes"].verdict == "held"
    failed = cell_records(cell, 6, 0.8, 0.2, optimum=0.775, thresholds=[0.2], table=many)
    assert verdicts(failed)["lemma/episodes"].verdict == "did not hold"


@pytest.mark.parametrize(("power", "verdict"), [(0.5, "held"), (0.9, "did not hold")])
def test_theorem(power: float, verdict: str) -> None:
    rows = verdicts(bayesian(power))
    assert rows["theorem/signed"].verdict == verdict
    assert rows["theorem/printed"].verdict == "did not hold"
    assert rows["theorem/constants"].verdict == "not exercised"
    assert rows["lemma/posterior"].verdict == "held"
    assert f", exponent {power:g} [" in rows["theorem/signed"].measured.split("violation 1")[1]


def test_theorem_with_constants_where_the_bound_says_something(monkeypatch: pytest.MonkeyPatch) -> None:
    def small(S: int, A: int, T: Any, D: float, uniform_hitting: float) -> Any:
        return 3 * np.sqrt(np.asarray(T, dtype=np.float64))

    monkeypatch.setattr(bounds, "theorem_bound", small)
    assert verdicts(bayesian(0.5))["theorem/constants"].verdict == "held"
    assert verdicts(bayesian(0.9))["theorem/constants"].verdict == "did not hold"


def timed(seconds: dict[str, float]) -> tuple[list[RunRecord], dict[str, float]]:
    """Runs of both agents on 8x8 at the paper's scale, a plan every ten steps, and how long each took."""
    found = by_agent("tractable", quick=False) | by_agent("figure-1", quick=False)
    runs: list[RunRecord] = []
    for agent in seconds:
        cell = found["marsrover-8x8", agent]
        table = episodes(list(range(0, cell.horizon, 10)), cell.horizon)
        runs += cell_records(cell, 6, 0.95, 0.1, optimum=0.938, thresholds=[0.1], table=table)
    return runs, {run.identity: seconds[run.agent] for run in runs}


def test_inefficient_by_the_seconds_of_runs() -> None:
    runs, timings = timed({"UCRL-CMDP": 7200.0, "PSConRL": 2.0})
    rows = verdicts(runs, timings)
    assert rows["inefficient/marsrover-8x8"].verdict == "held"
    assert rows["inefficient/marsrover-8x8"].measured == "7,200 s a run, 3.273 s a plan; PSConRL 2 s a run"
    assert rows["sampling"].verdict == "held"
    runs, timings = timed({"UCRL-CMDP": 3.0, "PSConRL": 2.0})
    assert verdicts(runs, timings)["inefficient/marsrover-8x8"].verdict == "did not hold"
    assert verdicts(runs)["inefficient/marsrover-8x8"].verdict == "not exercised"


def test_outputs() -> None:
    rows = claims(group(figure_1({})))
    assert list(by_group(rows)) == list(GROUPS)
    made = json.loads(json.dumps(as_document(rows, {"Date": "today"})))
    assert len(made["claims"]) == len(rows)
    text = as_page(made)
    assert "- Date: today\n" in text
    assert text.count("*Test: ") == as_cards(made).count("*Test: ") == len({(row.group, row.test) for row in rows})
    assert all(f"\n{row.text} ({row.where})\n: " in text for row in rows)
    assert as_summary(made).count("\n| ") == len(rows) + 1
    assert all(f"\n{row.text}\n" in as_text(rows) for row in rows)
    assert all(len(row.line()) == len(HEAD) for row in rows)


def test_table_1() -> None:
    chosen = {cell.agent: cell for cell in cells("table-1")}
    made = document(group(runs_of([cell for agent, cell in chosen.items() if agent != "FHA"], regret=0.025)))
    assert made is not None
    said, measured = made["tables"]
    assert len(said["rows"]) == len(measured["rows"]) == len(BOUNDS)
    by_name = {row[0].split(" ")[0]: row for row in measured["rows"]}
    assert by_name["PSConRL"][1].startswith(f"{0.025 * chosen['PSConRL'].horizon:g} [")
    assert by_name["FHA"][1:] == ["-"] * 5
    assert "Õ(H S sqrt(A T))" in cards(made)
