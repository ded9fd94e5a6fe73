from pathlib import Path

import numpy as np
import pytest

from psconrl.analysis import group
from psconrl.experiments import Experiment, Outcome, Store
from psconrl.experiments.record import to_bytes, to_table
from reproduction import panels, references
from reproduction.pictures import draw_environments, first_push
from reproduction.reproduce import reproduce
from reproduction.tests.runs import bayesian, by_agent, cells, figure_1, runs_of
from tests.analysis.synthetic import cell_records, episodes, record


def test_panels_of_figure_1() -> None:
    groups = group(figure_1({}))
    quantities: tuple[panels.Quantity, ...] = ("signed", "plotted")
    for quantity in quantities:
        rows = panels.regret_and_violation("figure-1", groups, quantity)
        assert [p.title for p in rows[0]] == [
            "Marsrover 4x4 (6 runs)",
            "Marsrover 8x8 (6 runs)",
            "Box, 16 states (6 runs)",
        ]
        assert [line.label for line in rows[0][0].lines] == ["PSConRL", "ConRL", "C-UCRL", "UCRL-CMDP"]
        assert [len(p.lines) for p in rows[1]] == [4, 3, 3]
    signed = panels.regret_and_violation("figure-1", groups, "signed")[0][0].lines[0]
    np.testing.assert_allclose(signed.mean, 0.01 * signed.x)


def test_panels_of_the_appendix_hold_the_levels_of_the_model() -> None:
    above, below = panels.averages(group(runs_of(cells("authors"))))
    assert {level.label: round(level.value, 6) for level in above[0].levels} == {
        "optimal": -0.775,
        "fast": -0.75,
        "safe": -0.875,
    }
    assert below[0].levels[0].value == 0.2
    np.testing.assert_allclose(above[0].lines[0].mean, -0.785, atol=1e-4)


def test_panels_of_the_theorem_name_the_slope() -> None:
    ((regret, _),) = panels.bayesian(group(bayesian(0.5)))
    assert "slope 0.50 [0.50, 0.50]" in regret.title
    assert regret.lines[1].mean[-1] == pytest.approx(regret.lines[0].mean[-1])


def test_panels_of_the_counterexample() -> None:
    table = episodes([0, 300], 1_500, [False, True])
    toy = cells("counterexample")
    runs = [r for cell in toy for r in cell_records(cell, 2, 0.5, 0.5, optimum=0.4, thresholds=[0.5], table=table)]
    (row,) = panels.counterexample(group(runs))
    assert row[2].lines[0].mean[-1] == pytest.approx(300 / 1_500)
    assert [line.label for line in row[0].lines] == ["PSConRL", "PSConRL (explore)", "CMDP-PSRL"]


def test_panels_of_feasibility_and_of_ucrl_cmdp_beyond_the_smallest_grid() -> None:
    toy_cell, garnet_cell = cells("feasibility")
    T = toy_cell.horizon
    early, never = episodes([0, 60], T, [False, True]), episodes([0], T)
    runs = [
        *cell_records(toy_cell, 2, 0.5, 0.5, optimum=0.4, thresholds=[0.5], table=early),
        *cell_records(garnet_cell, 2, 0.5, 0.5, optimum=0.4, thresholds=[0.5], table=never),
    ]
    ((toy,),) = panels.feasibility(group(runs))
    assert toy.title == "Toy (2 runs), slope 0.00 [0.00, 0.00]"
    assert toy.lines[0].mean[-1] == 60
    tractable = [record(np.full((2, c.horizon), 0.5), cell=c) for c in cells("tractable")]
    above, below = panels.tractable(group([*figure_1({}), *tractable]))
    assert [p.title for p in above] == ["Marsrover 8x8 (1 to 6 runs)", "Box, 16 states (1 to 6 runs)"]
    assert [line.label for line in below[0].lines] == ["PSConRL", "UCRL-CMDP"]


def test_pictures_of_the_environments(tmp_path: Path) -> None:
    paths = draw_environments(tmp_path)
    names = [path.name for path in paths]
    assert {"environment-box-main.png", "environment-box-safe.png", "environment-box-fast.png"} <= set(names)
    assert names[-2:] == ["environments.png", "environments.pdf"]
    assert paths[-2].stat().st_size > 1_000


def test_the_box_is_pushed_right_by_the_safe_and_down_by_the_fast_policy() -> None:
    box, found = references.model("box"), references.levels("box")
    assert first_push(box, found.safe_policy) == (2, 3)
    assert first_push(box, found.fast_policy) == (3, 2)


def test_reproduce_runs_and_writes(tmp_path: Path) -> None:
    asked: list[Experiment] = []

    def fake(experiments: list[Experiment], out: Path, **options: object) -> Outcome:
        asked.extend(experiments)
        store = Store(out, create=True)
        for run in figure_1({}, runs=2):
            cell = by_agent("figure-1")[run.env, run.agent]
            store.write(cell, run.seed, to_bytes(to_table(run)))
        return Outcome(1, 0, 1, ())

    result = reproduce(["figure-1"], tmp_path, quick=True, workers=1, run=fake)
    assert [experiment.name for experiment in asked] == ["figure-1"]
    assert result.ok
    assert result.claims
    written = {path.relative_to(tmp_path).as_posix() for path in result.paths}
    assert {
        "figures/figure-1-signed.png",
        "figures/figure-1.pdf",
        "claims.md",
        "report.html",
    } <= written
    assert all(path.stat().st_size > 100 for path in result.paths)
