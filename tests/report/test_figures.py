from importlib import resources
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from psconrl.analysis.groups import group
from psconrl.experiments import Cell
from psconrl.experiments.record import RunRecord
from psconrl.report import Level, Line, Panel, figures, panels
from psconrl.report.environments import AgentRuns, EnvironmentRuns, distinct
from psconrl.report.styles import COLORS, STYLES, styles
from tests.analysis.synthetic import episodes, record


def ink(path: Path) -> float:
    """The share of pixels that are not white."""
    from matplotlib.image import imread

    picture = imread(path)[..., :3]
    return float((picture < 0.98).any(axis=-1).mean())


def panel(*labels: str, logarithmic: str = "") -> Panel:
    x = np.arange(1.0, 11)
    lines = [Line(label, x, k + x, k + x - 1, k + x + 1) for k, label in enumerate(labels)]
    return Panel("title", "y", lines, [Level("here", 3.0, "optimal")], logarithmic=logarithmic)  # type: ignore[arg-type]


def world(*runs: RunRecord) -> EnvironmentRuns:
    """The environment of some runs, with an agent for each cell."""
    groups = list(group(runs).values())
    return EnvironmentRuns("title", [AgentRuns(*entry) for entry in zip(distinct(groups), groups, runs, strict=False)])


def test_a_figure_has_one_axes_for_each_panel_and_one_legend(tmp_path: Path) -> None:
    figure = figures.draw([[panel("PSConRL", "ConRL"), panel("PSConRL")], [panel("Other"), panel("ConRL")]])
    assert len(figure.axes) == 4
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == ["PSConRL", "ConRL", "Other"]
    paths = figures.save(figure, tmp_path, "name")
    assert [path.name for path in paths] == ["name.png", "name.pdf"]
    assert 0.01 < ink(paths[0]) < 0.9
    assert paths[1].read_bytes().startswith(b"%PDF")


def test_equal_figures_are_equal_files(tmp_path: Path) -> None:
    first, second = (figures.save(figures.draw([[panel("PSConRL")]]), tmp_path / name, "x") for name in ("a", "b"))
    assert [p.read_bytes() for p in first] == [p.read_bytes() for p in second]


def test_every_line_has_a_look_of_its_own() -> None:
    labels = [*STYLES, *(f"other {k}" for k in range(12)), "slope 1/2"]
    found = styles(labels)
    assert len({(style.color, style.dashes) for style in found.values()}) == len(labels)
    own = [style.color for agent, style in STYLES.items() if agent not in ("TSDE", "Uniform", "Optimal")]
    assert len(set(own)) == len(own), "who learns under limits has a colour of its own"
    assert found["ConRL"] == styles(["ConRL"])["ConRL"]


def test_the_page_has_a_colour_for_each_in_the_table() -> None:
    sheet = resources.files("psconrl.report").joinpath("templates", "report.css").read_text(encoding="utf-8")
    for number in range(len(COLORS)):
        assert f"--c{number}:" in sheet
    assert f"--c{len(COLORS)}:" not in sheet


def test_a_legend_wraps_before_it_is_cut() -> None:
    figure = figures.draw([[panel(*(f"a rather long label, number {k}" for k in range(6)))]])
    figure.canvas.draw()
    box = figure.legends[0].get_window_extent()
    assert box.x0 >= 0
    assert box.x1 <= figure.bbox.width


def test_long_numbers_on_an_axis_do_not_meet() -> None:
    x = np.linspace(1_000, 500_000, 500)
    figure = figures.draw([[Panel("", "y", [Line("PSConRL", x, x, x, x)]) for _ in range(3)]])
    figure.canvas.draw()
    for ax in figure.axes:
        shown = [label.get_window_extent() for label in ax.get_xticklabels() if label.get_text()]
        inside = [box for box in shown if ax.bbox.x0 - 40 <= box.x0 <= ax.bbox.x1]
        assert len(inside) >= 3
        assert all(left.x1 < right.x0 for left, right in pairwise(inside))


def test_nothing_to_draw() -> None:
    with pytest.raises(ValueError, match="nothing to draw"):
        figures.draw([])


def test_several_limits_have_a_panel_each_with_their_names() -> None:
    cell = Cell("queue", "PSConRL", 50, checkpoints=50)
    run = record(np.full((3, 50), 0.5), cell=cell, thresholds=(0.6, 0.25), cost_names=("length", "service", "flow"))
    (above,), (service,), (flow,) = panels.overview([world(run)])
    assert [[line.label for line in panel.lines] for panel in (above, service, flow)] == [["PSConRL"]] * 3
    assert (service.y_label, flow.y_label) == ("Violation of service\n(signed)", "Violation of flow\n(signed)")


def test_overview_tells_repeated_agents_apart() -> None:
    cells = [Cell("queue", "ConRL", 100, settings={"scale": s}) for s in (0.1, 1.0)]
    runs = [record(np.full((3, 100), 0.3), cell=cell, thresholds=(0.2, 0.3)) for cell in cells]
    rows = panels.overview([world(*runs)])
    assert len({line.label for line in rows[0][0].lines}) == 2
    assert [row[0].y_label for row in rows[1:]] == ["Violation of c1\n(signed)", "Violation of c2\n(signed)"]
    assert all(len(row[0].lines) == 2 for row in rows)


def test_limits_are_shown_with_their_use_and_price_one_panel_each() -> None:
    two = record(np.full((3, 100), 0.3), cell=Cell("queue", "ConRL", 100), thresholds=(0.2, 0.3))
    one = record(np.full((2, 100), 0.3), cell=Cell("toy", "ConRL", 100))
    rows = panels.averages([world(two), world(one)])
    assert [[panel.empty for panel in row] for row in rows] == [[False, False], [False, False], [False, True]]
    assert rows[1][0].levels[0].text == "limit 0.2"
    np.testing.assert_allclose(rows[1][0].lines[0].mean, 0.3)
    assert rows[0][0].lines[0].x[0] == 2
    figures.draw(rows)


def test_prices_over_time_one_panel_each_limit() -> None:
    table = episodes([0, 50], 100, m=2)
    table["multipliers"] = [[0.1, 0.2], [0.4, 0.6]]
    costs, cell = np.full((3, 100), 0.3), Cell("queue", "ConRL", 100)
    priced = record(costs, cell=cell, thresholds=(0.2, 0.3), table=table, multipliers=np.array([0.5, 0.7]))
    none = episodes([0], 100, m=2)
    none["multipliers"] = np.nan
    blind = record(costs, cell=Cell("queue", "Uniform", 100), thresholds=(0.2, 0.3), table=none)
    rows = panels.prices([world(priced, blind)])
    assert [row[0].y_label for row in rows] == ["Price of c1\n(in plans)", "Price of c2\n(in plans)"]
    assert [row[0].levels[0].text for row in rows] == ["true 0.5", "true 0.7"]
    assert [[line.label for line in row[0].lines] for row in rows] == [["ConRL"], ["ConRL"]]
    assert rows[1][0].lines[0].mean[-1] == 0.6
    assert panels.prices([world(blind)]) == []


def test_panels_of_one_world_stand_side_by_side_with_captions_that_fit() -> None:
    x = np.arange(1.0, 6)
    name = "complaints of patients who were sent away, in weeks with a public holiday"
    rows = [[Panel("", f"{name}\n(average so far)", [Line("PSConRL", x, x, x, x)])] for _ in range(3)]
    figure = figures.draw(rows)
    figure.canvas.draw()
    boxes = [ax.get_window_extent() for ax in figure.axes]
    assert all(left.x1 < right.x0 for left, right in pairwise(boxes))
    for ax, box in zip(figure.axes, boxes, strict=True):
        assert ax.yaxis.label.get_window_extent().height < 1.3 * box.height


def test_a_panel_on_the_page_names_its_lines_and_keeps_to_its_points() -> None:
    x = np.arange(1.0, 5_001)
    nothing = Line("ConRL", x, *np.full((3, 5_000), np.nan))
    some = Line("PSConRL & co, scale=0.00123", x, x, x - 5, x + 5)
    drawn = figures.svg(Panel("title", "y", [nothing, some]), styles(["ConRL", some.label]))
    assert drawn.count('data-label="PSConRL &amp; co, scale=0.00123"') == 2  # the line and its band
    assert 'ConRL"' not in drawn
    assert len(drawn) < 30_000
    assert figures.svg(Panel("title", "y", [nothing]), styles(["ConRL"])) == ""
    for logarithmic in (False, True):
        kept = figures.thinned(x, logarithmic)
        assert (kept[0], kept[-1]) == (0, 4_999)
        assert len(kept) <= 250
