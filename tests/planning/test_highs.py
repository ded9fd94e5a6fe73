"""The linear program runner: closed forms, purity, fallbacks."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from scipy import sparse

import psconrl
from psconrl.errors import SolverError
from psconrl.planning.for_agents import Method
from psconrl.planning.lp import highs
from psconrl.planning.lp.highs import LinearProgram, Vertex, run
from tests.planning.reference import fast_plan, program_of, random_cmdps


def small(limit: float = 4.0) -> LinearProgram:
    """min -x - 2 y, x + y <= limit, y <= 3, x, y >= 0: x = 1, y = 3 at limit 4."""
    return LinearProgram(
        cost=np.array([-1.0, -2.0]),
        matrix=sparse.csc_array(np.array([[1.0, 1.0], [0.0, 1.0]])),
        row_lower=np.full(2, -np.inf),
        row_upper=np.array([limit, 3.0]),
        col_lower=np.zeros(2),
        col_upper=np.full(2, np.inf),
    )


def programs(count: int = 12) -> list[LinearProgram]:
    return [program_of(cmdp).value for cmdp in random_cmdps(count, entropy=5) if cmdp.S > 3]


def bits(vertex: Vertex) -> tuple[bytes, ...]:
    return vertex.x.tobytes(), vertex.row_duals.tobytes(), vertex.basis.tobytes(), vertex.status.encode()


def failing(patch: pytest.MonkeyPatch, times: int) -> list[dict[str, Any]]:
    """Let the first attempts of each run fail; the list fills with the options of all attempts."""
    seen: list[dict[str, Any]] = []
    real = highs._attempt

    def attempt(program: LinearProgram, scale: float, basis: Any, options: Any) -> tuple[str, Vertex | None]:
        seen.append(options)
        return ("Unknown", None) if len(seen) <= times else real(program, scale, basis, options)

    patch.setattr(highs, "_attempt", attempt)
    return seen


def test_a_small_program() -> None:
    vertex = run(small())
    assert vertex.status == "optimal"
    np.testing.assert_allclose(vertex.x, [1.0, 3.0], rtol=1e-14)
    np.testing.assert_allclose(vertex.row_duals, [-1.0, -1.0], rtol=1e-14)
    assert vertex.objective == pytest.approx(-7.0, rel=1e-14)
    assert len(vertex.basis) == 4


def test_an_infeasible_program() -> None:
    vertex = run(small(limit=-1.0))
    assert vertex.status == "infeasible"
    assert np.isnan(vertex.x).all()


def test_the_same_bits_whatever_ran_before_and_in_any_thread() -> None:
    several = programs()
    bases = [run(program).basis for program in several]
    cases = [(p, b if len(b) and i % 2 else None) for i, (p, b) in enumerate(zip(several, bases, strict=True))]
    first = [bits(run(*case)) for case in cases]
    again = [bits(run(*case)) for case in reversed(cases)][::-1]
    assert first == again
    with ThreadPoolExecutor(2) as pool:
        assert list(pool.map(lambda case: bits(run(*case)), cases)) == first


@pytest.mark.parametrize("method", ["compiled", "components"])
def test_best_policy_is_pure(method: Method) -> None:
    cmdps = [cmdp for cmdp in random_cmdps(30, entropy=6) if cmdp.S > 3]

    def plan(cmdp: psconrl.CMDP) -> tuple[bytes, ...]:
        cold = fast_plan(cmdp, join=1e-3, method=method)
        warm = fast_plan(cmdp, join=1e-3, start=cold.start, method=method)
        return tuple(x.tobytes() for plan in (cold, warm) for x in (plan.policy, *plan.start.values()) if x is not None)

    first = [plan(cmdp) for cmdp in cmdps]
    assert [plan(cmdp) for cmdp in reversed(cmdps)][::-1] == first
    with ThreadPoolExecutor(2) as pool:
        assert list(pool.map(plan, cmdps)) == first


@pytest.mark.parametrize("times", [0, 1, 2])
def test_every_fallback_gives_the_same_optimum(times: int, monkeypatch: pytest.MonkeyPatch) -> None:
    cmdp = psconrl.make("queue")
    program = program_of(cmdp).value
    seen = failing(monkeypatch, times)
    vertex = run(program)
    assert len(seen) == times + 1
    assert vertex.objective == pytest.approx(0.1052523, abs=1e-7)
    # A vertex: at most one positive occupancy for each row of full rank.
    assert np.count_nonzero(vertex.x > 1e-12) <= cmdp.S + cmdp.m
    np.testing.assert_allclose(program.matrix[: cmdp.S] @ vertex.x, 0.0, atol=1e-12)


def test_numerical_failure_is_not_infeasibility(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = failing(monkeypatch, 10**9)
    with pytest.raises(SolverError, match="failed numerically"):
        run(program_of(psconrl.make("marsrover-4x4")).value)
    assert len(seen) == 3


def test_one_failure_does_not_change_the_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    failing(monkeypatch, 1)
    found = run(program_of(psconrl.make("marsrover-4x4")).value)
    assert found.objective == pytest.approx(0.775, abs=1e-9)


def test_known_models_are_planned_in_without_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """`solve` and agents do not need the linear program in ordinary models."""
    seen = failing(monkeypatch, 10**9)
    cmdp = psconrl.make("marsrover-4x4")
    assert psconrl.solve(cmdp).value == pytest.approx(0.775, abs=1e-9)
    assert fast_plan(cmdp, join=1e-3).method == "compiled"
    assert not seen
