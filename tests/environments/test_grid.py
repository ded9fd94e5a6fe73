import time
from pathlib import Path

import numpy as np
import pytest

from psconrl._core import graph
from psconrl.cmdp import CMDP
from psconrl.environments import gridworld, make, random_map
from psconrl.errors import InvalidArgumentError, MapError
from tests.environments.reference import go, optimum

ARROWS = {"up": (-1, 0), "down": (1, 0), "left": (0, -1), "right": (0, 1)}


@pytest.mark.parametrize(
    ("name", "states", "value"),
    [("marsrover-4x4", 16, 0.775), ("marsrover-8x8", 64, 0.9380952380952381), ("box", 60, 0.845)],
)
def test_published_optima(name: str, states: int, value: float) -> None:
    cmdp = make(name)
    assert (cmdp.S, cmdp.A, cmdp.m, cmdp.is_sparse) == (states, 4, 1, False)
    assert graph.is_communicating(cmdp.matrix)
    assert optimum(cmdp)[0] == pytest.approx(value, abs=1e-9)
    assert optimum(make(name, tau=1.0))[0] < value  # the limit binds


def test_marsrover_moves() -> None:
    rover = make("marsrover-4x4")
    assert rover.action_names == ("up", "down", "left", "right")
    assert rover.cost_names == ("time", "risk")
    assert rover.thresholds.tolist() == [0.2]
    assert rover.state_names[int(np.argmax(rover.initial))] == "(4, 3)"
    assert go(rover, "(4, 3)", "up") == ({"(3, 3)": 1.0}, [1.0, 1.0])  # into risk
    assert go(rover, "(4, 3)", "down") == ({"(4, 3)": 1.0}, [1.0, 0.0])  # a bump
    assert go(rover, "(2, 4)", "right") == ({"(2, 4)": 1.0}, [1.0, 0.0])  # a bump on a risky cell
    assert go(rover, "(3, 3)", "up") == ({"(2, 3)": 1.0}, [1.0, 0.0])  # out of risk
    assert go(rover, "(2, 2)", "down") == ({"(3, 2)": 1.0}, [1.0, 1.0])  # from risk to risk
    for action in rover.action_names:
        assert go(rover, "(1, 3)", action) == ({"(4, 3)": 1.0}, [0.0, 0.0])


def test_box_moves() -> None:
    model = make("box")
    assert model.cost_names == ("time", "corner")
    start = "(1, 2) box (2, 2)"
    assert model.state_names[int(np.argmax(model.initial))] == start
    assert go(model, start, "down") == ({"(2, 2) box (3, 2)": 1.0}, [1.0, 1.0])
    assert go(model, start, "up") == ({start: 1.0}, [1.0, 0.0])
    assert go(model, "(2, 1) box (2, 2)", "right") == ({"(2, 2) box (2, 3)": 1.0}, [1.0, 0.0])
    # Stuck: the box cannot go further, the move fails, and the corner still costs.
    assert go(model, "(2, 2) box (3, 2)", "down") == ({"(2, 2) box (3, 2)": 1.0}, [1.0, 1.0])
    assert go(model, "(4, 4) box (3, 2)", "left") == ({start: 1.0}, [0.0, 0.0])


def test_the_whole_of_box() -> None:
    model = make("box", full=True)
    assert model.S == 11 * 11
    assert graph.strong_classes(graph.state_graph(model.matrix))[0] == 22
    assert optimum(model)[0] == pytest.approx(0.845, abs=1e-9)
    assert go(model, "(2, 2) box (2, 2)", "left")[0] == {"(2, 1) box (2, 2)": 1.0}


def brute_force(cmdp: CMDP, slip: float) -> None:
    """Follow the rules of a box-free map cell by cell, and compare."""
    assert cmdp.layout is not None
    rows = cmdp.layout.rows
    cells = [(r, c) for r, row in enumerate(rows) for c, letter in enumerate(row) if letter != "W"]
    starts = [(r, c) for r, c in cells if rows[r][c] == "S"]
    assert cmdp.state_names == tuple(f"({r}, {c})" for r, c in cells)
    p = np.zeros((cmdp.S, 4, cmdp.S))
    c = np.zeros((2, cmdp.S, 4))
    for s, (row, column) in enumerate(cells):
        for a in range(4):
            if rows[row][column] == "G":
                for start in starts:
                    p[s, a, cells.index(start)] += 1 / len(starts)
                continue
            c[0, s, a] = 1
            for b, (down, right) in enumerate(ARROWS.values()):
                share = slip / 4 + (1 - slip) * (a == b)
                target = (row + down, column + right)
                target = target if target in cells else (row, column)
                p[s, a, cells.index(target)] += share
                if target != (row, column) and rows[target[0]][target[1]] == "P":
                    c[1, s, a] += share
    np.testing.assert_allclose(cmdp.matrix.toarray().reshape(p.shape), p, atol=1e-15)
    np.testing.assert_allclose(cmdp.costs, c, atol=1e-15)


@pytest.mark.parametrize("slip", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("sparse", [False, True])
def test_moves_and_costs_against_brute_force(slip: float, sparse: bool) -> None:
    for name in ("marsrover-4x4", "marsrover-8x8"):
        brute_force(make(name, slip=slip, sparse=sparse), slip)
    brute_force(gridworld("S.PG\n.P.W\nG.PS", slip=slip, sparse=sparse), slip)


def test_slip_charges_the_move_that_happened() -> None:
    rover = make("marsrover-4x4", slip=0.2)
    assert rover.move_costs is not None
    s, risky, bump = (rover.state_names.index(name) for name in ("(4, 3)", "(3, 3)", "(4, 3)"))
    assert rover.move_costs[:, s, 2, risky].tolist() == [1.0, 1.0]
    assert rover.move_costs[:, s, 2, bump].tolist() == [1.0, 0.0]
    assert rover.costs[1, s, 2] == pytest.approx(0.05)
    assert make("marsrover-4x4").move_costs is None


def test_slip_in_box() -> None:
    model = make("box", slip=0.4)
    assert model.S == 60
    law, costs = go(model, "(1, 2) box (2, 2)", "left")
    assert law == pytest.approx({"(1, 1) box (2, 2)": 0.7, "(2, 2) box (3, 2)": 0.1, "(1, 2) box (2, 2)": 0.2})
    assert costs == pytest.approx([1.0, 0.1])


@pytest.mark.parametrize("slip", [-0.1, 1.1, float("nan"), "much", True])
def test_bad_slip(slip: object) -> None:
    with pytest.raises(InvalidArgumentError, match=r"slip is .*; it must be a number from 0 to 1"):
        make("marsrover-4x4", slip=slip)


def test_several_starts_and_goals() -> None:
    cmdp = gridworld(["S.G", ".P.", "G.S"])
    assert cmdp.initial.tolist() == [0.5, 0, 0, 0, 0, 0, 0, 0, 0.5]
    assert go(cmdp, "(0, 2)", "up") == ({"(0, 0)": 0.5, "(2, 2)": 0.5}, [0.0, 0.0])
    assert graph.is_communicating(cmdp.matrix)


def test_cells_behind_the_goal_are_left_out_unless_asked_for() -> None:
    assert gridworld("S.G..").state_names == ("(0, 0)", "(0, 1)", "(0, 2)")
    assert gridworld("S.G..", full=True).S == 5


def test_risk_and_box_on_one_map() -> None:
    cmdp = gridworld("....\nSXP.\n...G")
    assert cmdp.cost_names == ("time", "risk")
    # The box goes onto the risky cell; only the agent is at risk there.
    assert go(cmdp, "(1, 0) box (1, 1)", "right")[1] == [1.0, 0.0]
    assert go(cmdp, "(1, 1) box (1, 2)", "right") == ({"(1, 2) box (1, 3)": 1.0}, [1.0, 1.0])
    # Pushed up into the border with a wall on one side only: no corner.
    assert go(cmdp, "(2, 1) box (1, 1)", "up")[1] == [1.0, 0.0]
    assert go(cmdp, "(0, 2) box (0, 1)", "left") == ({"(0, 1) box (0, 0)": 1.0}, [1.0, 1.0])


def test_an_unreachable_goal_is_named_with_its_start() -> None:
    with pytest.raises(MapError, match=r"^line 3, column 5: no goal can be reached from this start"):
        gridworld("G . S\nW W W\nP . S\n")
    with pytest.raises(MapError, match="line 1, column 1: no goal"):
        gridworld("SXG")  # the box cannot be pushed out of the way


def test_maps_from_files(tmp_path: Path) -> None:
    path = tmp_path / "rover.txt"
    path.write_text("\n  S . P G\n", encoding="utf-8")
    for source in (path, str(path), "S.PG", ["S.PG"], "\n S.PG \n\n"):
        assert gridworld(source).S == 4
    assert make("gridworld", map=path) == gridworld("S.PG")
    assert make("gridworld") == make("marsrover-4x4")


def test_large_maps_are_sparse_and_quick() -> None:
    text = random_map(100, 100)
    begin = time.perf_counter()
    cmdp = gridworld(text, slip=0.1)
    assert time.perf_counter() - begin < 2
    assert cmdp.S == 10_000
    assert cmdp.is_sparse
    assert cmdp.matrix.nnz <= 16 * cmdp.S
    assert graph.is_communicating(cmdp.matrix)
    assert not make("grid", rows=20, columns=20).is_sparse
    assert make("grid", rows=20, columns=21).is_sparse
    assert not make("grid", rows=20, columns=21, sparse=False).is_sparse


@pytest.mark.parametrize("ending", ["npz", "json"])
@pytest.mark.parametrize("name", ["marsrover-4x4", "box"])
def test_layouts_survive_files(tmp_path: Path, name: str, ending: str) -> None:
    cmdp = make(name, slip=0.1)
    cmdp.save(tmp_path / f"model.{ending}")
    again = CMDP.load(tmp_path / f"model.{ending}")
    assert again == cmdp
    assert again.layout is not None
    assert cmdp.layout is not None
    assert again.layout.rows == cmdp.layout.rows
    np.testing.assert_array_equal(again.layout.agent, cmdp.layout.agent)
