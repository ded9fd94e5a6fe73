import json
from typing import Any

import numpy as np
import pytest

from psconrl.analysis import references, theory_bounds
from psconrl.analysis.claims import (
    FEWEST,
    VERDICTS,
    Claim,
    Scale,
    as_json,
    as_markdown,
    as_short_markdown,
    as_text,
    cautious,
    claims,
    counts,
    decide,
)
from psconrl.analysis.claims_experiments import stuck_share
from psconrl.analysis.groups import Group, group
from psconrl.analysis.table import BOUNDS
from psconrl.analysis.table import as_markdown as table_markdown
from psconrl.analysis.table import rows as table_rows
from psconrl.experiments.presets import find
from psconrl.experiments.record import RunRecord
from psconrl.experiments.spec import Cell
from tests.analysis.synthetic import cell_records, checkpoints, curve_record, episodes, record

OPTIMA = {"marsrover-4x4": (0.775, 0.2), "marsrover-8x8": (0.938, 0.1), "box": (0.845, 0.6)}


def preset_cells(name: str, quick: bool = True) -> dict[tuple[str, str], Cell]:
    experiment = find(name).experiment(quick)
    assert experiment is not None
    return {(cell.env, cell.agent): cell for cell in experiment.cells}


def figure_1(rates: dict[tuple[str, str], tuple[float, float]], runs: int = 6) -> list[RunRecord]:
    """Quick runs of Figure 1 that are `rates` above optimum and threshold in every step."""
    found = []
    for (env, agent), cell in preset_cells("figure-1").items():
        J, tau = OPTIMA[env]
        extra = rates.get((env, agent), (0.01, 0.01))
        found += cell_records(cell, runs, J + extra[0], tau + extra[1], spread=1e-4, optimum=J, thresholds=[tau])
    return found


def verdicts(records: list[RunRecord], timings: dict[str, float] | None = None) -> dict[str, Claim]:
    rows = claims(group(records, timings))
    assert len({row.key for row in rows}) == len(rows)
    return {row.key: row for row in rows}


def test_decide() -> None:
    assert decide(True) == decide(True, False) == decide(True, True) == "held"
    assert decide(False, True) == "held only as plotted"
    assert decide(False) == decide(False, False) == "did not hold"


def test_without_runs_nothing_about_them_is_decided() -> None:
    rows = verdicts([])
    exact = ("assumption/", "environments/", "lemma/cover/")
    for key, row in rows.items():
        if not key.startswith(exact):
            assert row.verdict == "not exercised", key
            assert row.note
    assert rows["assumption/hitting"].verdict == "did not hold"
    assert rows["assumption/slater"].verdict == "held"
    assert rows["environments/mixture"].verdict == "held"
    assert rows["lemma/cover/box"].verdict == "held"


def test_orders_of_regret_and_violation() -> None:
    rows = verdicts(
        figure_1(
            {
                ("marsrover-8x8", "PSConRL"): (0.01, 0.02),
                ("marsrover-8x8", "ConRL"): (0.03, 0.02),
                ("marsrover-8x8", "C-UCRL"): (0.005, 0.5),
            }
        )
    )
    assert rows["order/regret/marsrover-8x8/ConRL"].verdict == "held"
    assert rows["order/violation/marsrover-8x8/ConRL"].verdict == "held"
    failed = rows["order/regret/marsrover-8x8/C-UCRL"]
    assert failed.verdict == "did not hold"
    assert "PSConRL is above C-UCRL" in failed.note
    assert rows["order/regret/marsrover-4x4/ConRL"].verdict == "held", "equal means cannot be told apart"
    assert rows["order/regret/marsrover-4x4/C-UCRL"].verdict == "did not hold"
    assert rows["comparable/marsrover-4x4/C-UCRL"].verdict == "held"
    assert rows["comparable/marsrover-8x8/C-UCRL"].verdict == "did not hold"


def test_held_only_as_plotted() -> None:
    """A rival that gains early and loses late: signed they are equal, but the plot forgets the gain."""
    rows_of = figure_1({("marsrover-8x8", "PSConRL"): (0.0, 0.0)})
    cell = preset_cells("figure-1")["marsrover-8x8", "ConRL"]
    kept = [r for r in rows_of if r.cell != cell.id]
    J, tau = OPTIMA["marsrover-8x8"]
    grid = checkpoints(cell)
    half = np.where(grid <= cell.horizon / 2, J - 0.05, J + 0.05) * grid[0]
    for seed in range(6):
        cumulative = np.stack([np.cumsum(half) + (seed - 2.5), tau * grid])
        kept.append(curve_record(cell, seed, cumulative, optimum=J, thresholds=[tau]))
    row = verdicts(kept)["order/regret/marsrover-8x8/ConRL"]
    assert row.verdict == "held only as plotted"
    assert "signed, PSConRL and ConRL cannot be told apart" in row.note


def test_box() -> None:
    safe = {("box", "ConRL"): (0.03, -0.6), ("box", "C-UCRL"): (0.1, -0.3), ("box", "PSConRL"): (0.0, 0.0)}
    rows = verdicts(figure_1(safe))
    assert rows["near-linear/box/ConRL"].verdict == "held"
    assert rows["stuck/box/ConRL"].verdict == "held"
    assert rows["stuck/box/C-UCRL"].verdict == "did not hold"
    assert "averages (0.945, 0.3)" in rows["stuck/box/C-UCRL"].note
    assert rows["converges/box/PSConRL"].verdict == "held"
    assert rows["feasible/box/PSConRL"].verdict == "held"
    assert rows["quickly/box/PSConRL"].verdict == "not exercised"
    assert "more than half" in rows["quickly/box/PSConRL"].note
    assert "(reduced)" in rows["stuck/box/ConRL"].scale.text


def test_stuck_is_less_than_half_of_the_way_from_safe_to_optimal_in_every_cost() -> None:
    levels = references.levels("box")
    way = levels.optimal - levels.safe
    shares = [0.0, 0.4, 0.6, 1.0]
    assert [stuck_share((levels.safe + x * way)[np.newaxis], levels) for x in shares] == [1, 1, 0, 0]
    # Who does nothing at all spends as little as the safe policy, but gets nowhere.
    assert stuck_share(np.array([[1.0, 0.0]]), levels) == 0


def test_convergence_and_feasibility_fail_beyond_their_margins() -> None:
    rows = verdicts(figure_1({("marsrover-4x4", "C-UCRL"): (0.02, 0.03)}))
    assert rows["converges/marsrover-4x4/C-UCRL"].verdict == "did not hold"
    assert rows["feasible/marsrover-4x4/C-UCRL"].verdict == "did not hold"
    assert "0.03 above the threshold" in rows["feasible/marsrover-4x4/C-UCRL"].note


def test_few_runs_decide_nothing() -> None:
    row = verdicts(figure_1({}, runs=FEWEST - 1))["converges/marsrover-4x4/PSConRL"]
    assert row.verdict == "not exercised"
    assert "On these alone: held" in row.note
    plain = Claim("k", "t", "w", "t", "m", "held", scale=Scale("exact"))
    assert cautious(plain) is plain


def test_feasibility_by_the_growth_of_infeasible_steps() -> None:
    cells = preset_cells("feasibility")
    T = cells["toy", "PSConRL"].horizon
    always = episodes([0, 10], T, [True, False])
    early = episodes([0, 10, 60], T, [True, False, True])
    rows = verdicts(
        cell_records(cells["toy", "PSConRL"], 6, 0.5, 0.5, optimum=0.47, thresholds=[0.5], table=always)
        + cell_records(cells["garnet", "PSConRL"], 6, 0.5, 0.5, optimum=0.47, thresholds=[0.5], table=early)
        + figure_1({})
    )
    assert rows["feasibility/toy"].verdict == "did not hold"
    assert rows["feasibility/garnet"].verdict == "held"
    assert rows["feasibility/garnet"].numbers["last"] == 60
    grids = rows["feasibility/box"]
    assert grids.verdict == "not exercised"
    assert "never needed" in grids.note


def test_infeasible_samples_that_come_late_are_no_success() -> None:
    cell = preset_cells("feasibility")["toy", "PSConRL"]
    late = episodes([0, cell.horizon // 2], cell.horizon, [True, False])
    row = verdicts(cell_records(cell, 6, 0.5, 0.5, optimum=0.47, thresholds=[0.5], table=late))["feasibility/toy"]
    assert row.verdict == "did not hold"


def test_the_number_of_episodes() -> None:
    cell = preset_cells("figure-1")["marsrover-4x4", "PSConRL"]
    many = episodes(list(range(cell.horizon)), cell.horizon)
    assert verdicts(figure_1({}))["lemma/episodes"].verdict == "held"
    failed = cell_records(cell, 6, 0.8, 0.2, optimum=0.775, thresholds=[0.2], table=many)
    assert verdicts(failed)["lemma/episodes"].verdict == "did not hold"


def bayesian(power: float) -> list[RunRecord]:
    """Draws whose pseudo-regret and violation grow like a power of time."""
    cell = preset_cells("bayesian")["dirichlet", "PSConRL"]
    grid = checkpoints(cell)
    found = []
    for seed in range(6):
        total = (1 + 0.1 * seed) * grid**power
        rate = np.diff(total, prepend=0) / grid[0]
        averages = np.stack([0.5 + rate, np.full(len(grid), 0.2)], axis=1)
        table = episodes([0, *grid[:-1].tolist()], cell.horizon, averages=averages)
        table["value"] = 0.5 + 0.01 * (-1) ** seed
        cumulative = np.stack([0.5 * grid + total, 0.2 * grid + total])
        changes = {"env_options": dict(cell.env_options) | {"draw": seed}, "states": 10, "actions": 3}
        excess = np.outer([0.2, 0.1], grid)
        found.append(curve_record(cell, seed, cumulative, excess, episodes=table, **changes))
    return found


@pytest.mark.parametrize(("power", "verdict"), [(0.5, "held"), (0.9, "did not hold")])
def test_theorem(power: float, verdict: str) -> None:
    rows = verdicts(bayesian(power))
    assert rows["theorem/signed/dirichlet"].verdict == verdict
    assert rows["theorem/printed/dirichlet"].verdict == "did not hold"
    assert rows["theorem/constants/dirichlet"].verdict == "not exercised"
    assert rows["lemma/posterior"].verdict == "held"
    fitted = rows["theorem/signed/dirichlet"].numbers["exponents"]["violation 1"]["mean"]
    assert fitted == pytest.approx(power, abs=1e-6)


def test_theorem_with_constants_where_the_bound_says_something(monkeypatch: pytest.MonkeyPatch) -> None:
    def small(S: int, A: int, T: Any, D: float) -> Any:
        return 3 * np.sqrt(np.asarray(T, dtype=np.float64))

    monkeypatch.setattr(theory_bounds, "theorem_bound", small)
    assert verdicts(bayesian(0.5))["theorem/constants/dirichlet"].verdict == "held"
    assert verdicts(bayesian(0.9))["theorem/constants/dirichlet"].verdict == "did not hold"


def test_tractable_by_seconds_per_plan_of_shorter_runs() -> None:
    runs, timings = [], {}
    for (env, _), cell in preset_cells("tractable").items():
        table = episodes(list(range(0, cell.horizon, 10)), cell.horizon)
        runs.append(record(np.full((2, cell.horizon), 0.5), cell=cell, table=table))
        timings[runs[-1].identity] = (0.1 if env == "box" else 1000.0) * len(table)
    rows = verdicts(runs, timings)
    assert rows["intractable/marsrover-8x8"].verdict == "held"
    failed = rows["intractable/box"]
    assert failed.verdict == "did not hold"
    assert "(reduced)" in failed.scale.text
    assert failed.brief.endswith("minutes per run")
    assert verdicts(runs)["intractable/box"].verdict == "not exercised"


def test_tractable_by_the_seconds_of_runs_of_the_papers_length() -> None:
    cell = preset_cells("tractable", quick=False)["marsrover-8x8", "UCRL-CMDP"]
    runs = cell_records(cell, 30, 0.95, 0.1, optimum=0.938, thresholds=[0.1])
    row = verdicts(runs, {run.identity: 7200.0 for run in runs})["intractable/marsrover-8x8"]
    assert row.verdict == "did not hold"
    assert row.measured.startswith("30 of 30 runs completed, 2 hours each")
    assert row.scale.text == "T = 20,000, 30 runs"
    row = verdicts(runs[:3], {run.identity: 200_000.0 for run in runs})["intractable/marsrover-8x8"]
    assert row.verdict == "held"
    assert row.measured.startswith("3 of 30 runs completed, 2.3 days each")


def test_outputs() -> None:
    rows = claims(group(figure_1({})))
    text = as_markdown(rows, {"Date": "today"})
    assert text.count("\n| ") == len(rows) + 1
    assert "- Date: today\n" in text
    assert as_short_markdown(rows).count("\n| ") == len(rows) + 1
    document = json.loads(as_json(rows))
    assert len(document["claims"]) == len(rows)
    assert document["counts"] == counts(rows)
    assert sum(counts(rows).values()) == len(rows)
    for width in (60, 120):
        lines = as_text(rows, width).splitlines()
        assert max(map(len, lines)) <= width
        assert sum(line.startswith(VERDICTS) for line in lines) == len(rows)


def test_table_1() -> None:
    cells = preset_cells("table-1")
    found: dict[str, Group] = group(
        [
            r
            for cell in cells.values()
            if cell.agent != "FHA"
            for r in cell_records(cell, 3, 0.8, 0.3, optimum=0.775, thresholds=[0.2])
        ]
    )
    rows = table_rows(found)
    assert len(rows) == len(BOUNDS)
    by_name = {row[0].split(" ")[0]: row for row in rows}
    horizon = cells["marsrover-4x4", "PSConRL"].horizon
    assert by_name["PSConRL"][5].startswith(f"{0.025 * horizon:g} [")
    assert by_name["FHA"][5:] == ("-", "-", "-", "-")
    assert "Õ(H S sqrt(A T))" in table_markdown(found)
