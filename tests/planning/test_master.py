"""The master program against scipy, by enumeration, and where it degenerates."""

import numpy as np
import pytest
from scipy.optimize import linprog

from psconrl._core.checks import Floats
from psconrl.planning.compiled.master import (
    MARGIN,
    REACH,
    VALUE,
    Limits,
    Master,
    first_basis,
    leave_out_violation,
    solve_master,
)


def room(m: int) -> Master:
    return Master(np.zeros(m + 1, dtype=np.int64), np.zeros(m + 1), np.zeros(m + 1))


def by_scipy(J: Floats, limits: Limits, goal: int) -> float:
    """Least J_0 (VALUE) or least v; nan if infeasible."""
    n, m = len(J), len(limits.tau)
    cost = np.append(J[:, 0], 0.0) if goal == VALUE else np.append(np.zeros(n), 1.0)
    last = {VALUE: (0, 0), REACH: (0, None), MARGIN: (None, None)}[goal]
    found = linprog(
        cost,
        A_ub=np.hstack([J[:, 1:].T, -limits.d[:, np.newaxis]]) if m else None,
        b_ub=limits.tau if m else None,
        A_eq=np.append(np.ones(n), 0.0)[np.newaxis],
        b_eq=[1.0],
        bounds=[(0, None)] * n + [last],
        method="highs-ds",
    )
    return float(found.fun) if found.status == 0 else np.nan


def least(J: Floats, limits: Limits, goal: int) -> tuple[float, Master]:
    """The value (nan if out of reach) or the least violation, by the stages that generation goes through."""
    master = room(len(limits.tau))
    violated = first_basis(J, len(J), limits, goal, master.basis)
    if goal != VALUE or not violated:
        objective, sound = solve_master(J, len(J), limits, goal, master)
        assert sound
        return objective, master
    objective, sound = solve_master(J, len(J), limits, REACH, master)
    assert sound
    if objective > 0.0:
        return np.nan, master
    assert leave_out_violation(J, len(J), limits, master.basis)
    objective, sound = solve_master(J, len(J), limits, VALUE, master)
    assert sound
    return objective, master


def check(J: Floats, limits: Limits, goal: int, objective: float, master: Master) -> None:
    """Weights and prices of an optimum: a mixture that costs what is said, and prices that prove it."""
    m, names, weights = len(limits.tau), master.basis, master.weights
    columns = names >= 0
    assert weights[columns].sum() == pytest.approx(1.0, abs=1e-10)
    assert (weights[(names != -(m + 1)) | (goal != MARGIN)] >= 0).all()
    averages = weights[columns] @ J[names[columns]]
    assert (averages[1:] - limits.tau <= (objective if goal != VALUE else 0.0) * limits.d + 1e-9).all()
    prices = master.prices[:m]
    assert (prices >= -1e-12).all()
    if goal == VALUE:
        assert averages[0] == pytest.approx(objective, abs=1e-10)
        bound = float((J[:, 0] + (J[:, 1:] - limits.tau) @ prices).min())
    else:
        assert prices @ limits.d == pytest.approx(1.0, abs=1e-9) or objective == 0.0
        bound = float(((J[:, 1:] - limits.tau) @ prices).min())
    assert bound == pytest.approx(objective, abs=1e-9)
    assert master.prices[m] == pytest.approx(objective + float(prices @ limits.tau), abs=1e-9)


@pytest.mark.parametrize(("m", "goal"), [(m, goal) for m in range(6) for goal in (VALUE, MARGIN) if m or goal == VALUE])
def test_random_programs(m: int, goal: int) -> None:
    rng = np.random.default_rng(np.random.SeedSequence([1, m, goal]))
    answers = []
    for _ in range(60):
        J = rng.random((int(rng.integers(1, 12)), m + 1))
        if rng.random() < 0.3:  # ties and degenerate vertices
            J = np.round(3 * J) / 3
        limits = Limits(rng.uniform(0.2, 0.8, m), 10.0 ** rng.uniform(-1, 1, m) if goal == MARGIN else np.ones(m))
        wanted = by_scipy(J, limits, goal)
        objective, master = least(J, limits, goal)
        assert objective == pytest.approx(wanted, abs=1e-9, nan_ok=True)
        answers.append(np.isfinite(objective))
        if np.isfinite(objective):
            check(J, limits, goal, objective, master)
    assert goal == MARGIN or m == 0 or 5 < sum(answers) < 60


def test_one_limit_by_enumeration() -> None:
    """min over mixtures of two columns: the lower hull at the limit."""
    rng = np.random.default_rng(np.random.SeedSequence(14))
    for _ in range(200):
        n = int(rng.integers(1, 8))
        J, tau = rng.random((n, 2)), rng.random(1)
        best = min(
            (
                float(J[i, 0] + (J[k, 0] - J[i, 0]) * t)
                for i in range(n)
                for k in range(n)
                if J[i, 1] <= tau[0]
                for t in [0.0, *([(tau[0] - J[i, 1]) / (J[k, 1] - J[i, 1])] if J[k, 1] > tau[0] else [])]
            ),
            default=np.nan,
        )
        assert least(J, Limits(tau, np.ones(1)), VALUE)[0] == pytest.approx(best, abs=1e-12, nan_ok=True)


def test_the_margin_is_signed() -> None:
    J = np.array([[0.0, 0.2, 0.9], [0.0, 0.8, 0.1]])
    for tau, margin in ((0.7, 0.2), (0.5, 0.0), (0.4, -0.1)):
        objective, _ = least(J, Limits(np.array([tau, tau]), np.ones(2)), MARGIN)
        assert -objective == pytest.approx(margin, abs=1e-12)


def test_limits_that_are_just_met_by_many_columns() -> None:
    """Equal columns on the limit: every basis is degenerate, and the method ends."""
    J = np.tile([0.3, 0.5, 0.5], (20, 1))
    J[:, 0] += np.arange(20)[::-1] / 100
    limits = Limits(np.array([0.5, 0.5]), np.ones(2))
    objective, master = least(J, limits, VALUE)
    assert objective == pytest.approx(0.3, abs=1e-14)
    check(J, limits, VALUE, objective, master)


def test_columns_beyond_the_known_ones_are_not_read() -> None:
    J = np.array([[0.4, 0.4], [np.nan, np.nan]])
    master = room(1)
    limits = Limits(np.array([0.5]), np.ones(1))
    assert not first_basis(J, 1, limits, VALUE, master.basis)
    assert solve_master(J, 1, limits, VALUE, master) == (0.4, True)
