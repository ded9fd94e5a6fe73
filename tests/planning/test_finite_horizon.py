"""Optimistic planning for H steps against the linear program in nu(s, a, h, s'), put together here."""

import numpy as np
import pytest
from scipy.optimize import linprog

from psconrl._core.checks import Floats
from psconrl.planning.compiled import confidence_sets as sets
from psconrl.planning.compiled import finite_horizon as kernels
from psconrl.planning.finite_horizon import solve_finite
from psconrl.planning.intervals import Intervals
from psconrl.planning.tolerances import TIE_BREAK


def least(intervals: Intervals, costs: Floats, budgets: Floats, H: int, start: int) -> tuple[float, float]:
    """(margin, value): the largest gamma with E sum c_i <= budgets_i - gamma, and min E sum c_0; nan if infeasible."""
    S, A, _ = intervals.lower.shape
    m, n = len(budgets), S * A * H * S

    def at(s: int, a: int, h: int, x: int) -> int:
        return ((s * A + a) * H + h) * S + x

    equal, right, below = [], [], []
    for h in range(H):
        for s in range(S):
            row = np.zeros(n + 1)
            for a, x in np.ndindex(A, S):
                row[at(s, a, h, x)] += 1.0  # out of s in step h
            if h > 0:
                for before, a in np.ndindex(S, A):
                    row[at(before, a, h - 1, s)] -= 1.0  # into s in the step before
            equal.append(row)
            right.append(float(h == 0 and s == start))
    for s, a, h, x in np.ndindex(S, A, H, S):
        for bound, sign in ((intervals.lower[s, a, x], -1.0), (intervals.upper[s, a, x], 1.0)):
            row = np.zeros(n + 1)  # sign nu(s, a, h, x) <= sign bound sum_y nu(s, a, h, y)
            row[at(s, a, h, 0) : at(s, a, h, S - 1) + 1] = -sign * bound
            row[at(s, a, h, x)] += sign
            below.append(row)
    limits = [0.0] * len(below)
    flat = [np.append(np.repeat(c.ravel(), H * S), 0.0) for c in costs]
    for c, budget in zip(flat[1:], budgets, strict=True):
        below.append(c + np.eye(1, n + 1, n)[0])
        limits.append(float(budget))
    bounds: list[tuple[float | None, float | None]] = [(0, None)] * n + [(None, None)]
    objective = -np.eye(1, n + 1, n)[0]
    tight = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}
    arrays = (np.array(below), limits, np.array(equal), right)
    margin = np.inf
    if m:
        margin = -linprog(objective, *arrays, bounds=bounds, method="highs-ds", options=tight).fun
        if margin < 0:
            return margin, np.nan
    bounds[-1] = (0, 0)
    return margin, float(linprog(flat[0], *arrays, bounds=bounds, method="highs-ds", options=tight).fun)


def case(seed: int) -> tuple[Intervals, Floats, Floats, int, int]:
    rng = np.random.default_rng(np.random.SeedSequence([12, seed]))
    S, A, H, m = int(rng.integers(2, 5)), int(rng.integers(1, 4)), int(rng.integers(1, 6)), seed % 3
    p_hat = rng.dirichlet(np.full(S, 0.7), (S, A))
    radius = rng.uniform(0.0, 0.4, (S, A, S)) * (rng.random((S, A, 1)) < 0.8)
    if rng.random() < 0.4:  # a pair never seen
        p_hat[0, 0], radius[0, 0] = 0.0, 1.0
    costs = rng.random((m + 1, S, A))
    return Intervals.around(p_hat, radius), costs, H * rng.uniform(0.15, 0.7, m), H, int(rng.integers(S))


def averages(intervals: Intervals, policy: Floats, costs: Floats, start: int) -> Floats:
    """The least expected sum (one cost) of a policy over all models of the set, by its own backward induction."""
    V = np.zeros(policy.shape[1])
    for pi in policy[::-1]:
        Q = np.empty_like(pi)
        order = np.argsort(V)
        for s, a in np.ndindex(*pi.shape):
            p, left = intervals.lower[s, a].copy(), 1 - intervals.lower[s, a].sum()
            for j in order:
                step = min(left, intervals.upper[s, a, j] - p[j])
                p[j] += step
                left -= step
            Q[s, a] = costs[s, a] + p @ V
        V = (pi * Q).sum(axis=1)
    return np.asarray(V[start])


SEEDS = range(45)


@pytest.mark.parametrize("seed", SEEDS)
def test_value_policy_and_feasibility(seed: int) -> None:
    intervals, costs, budgets, H, start = case(seed)
    margin, value = least(intervals, costs, budgets, H, start)
    found = solve_finite(intervals, costs, budgets, H, start)
    if abs(margin) > 1e-6:
        assert found.feasible == (margin > 0)
    assert found.policy.shape == (H, *costs.shape[1:])
    assert (found.policy >= 0).all()
    np.testing.assert_allclose(found.policy.sum(axis=2), 1.0, rtol=0, atol=1e-12)
    if not found.feasible:
        assert np.isnan(found.value)
        return
    assert found.value == pytest.approx(value, abs=1e-7)
    assert found.gap < 1e-7
    # In the models that suit each cost best, the policy spends no more than the program says.
    believed = [float(averages(intervals, found.policy, c, start)) for c in costs]
    assert believed[0] <= found.value + 1e-7
    assert all(spent <= budget + 1e-7 for spent, budget in zip(believed[1:], budgets, strict=True))
    if len(budgets) == 0:
        assert believed[0] == pytest.approx(found.value, abs=1e-9)


def test_both_answers_occur() -> None:
    feasible = [solve_finite(*case(seed)).feasible for seed in SEEDS if seed % 3]
    assert 5 <= sum(feasible) <= len(feasible) - 5


def test_prices_are_derivatives() -> None:
    for seed in SEEDS:
        intervals, costs, budgets, H, start = case(seed)
        found = solve_finite(intervals, costs, budgets, H, start)
        if not (len(budgets) and found.feasible and (found.multipliers > 1e-6).any()):
            continue
        step = 1e-6
        for i in range(len(budgets)):
            more = solve_finite(intervals, costs, budgets + step * np.eye(len(budgets))[i], H, start)
            less = solve_finite(intervals, costs, budgets - step * np.eye(len(budgets))[i], H, start)
            if less.feasible:
                slopes = sorted([(found.value - more.value) / step, (less.value - found.value) / step])
                assert slopes[0] - 1e-3 <= found.multipliers[i] <= slopes[1] + 1e-3


@pytest.mark.parametrize("seed", range(8))
def test_kernels_equal_their_plain_twins(seed: int) -> None:
    intervals, costs, _, H, start = case(seed)
    S, costs = costs.shape[1], costs.reshape(len(costs), -1)
    within = sets.between(intervals.lower.reshape(-1, S), intervals.upper.reshape(-1, S))
    results = []
    for backward, forward, averages in (
        (kernels.backward, kernels.forward, kernels.averages),
        (kernels.backward.py_func, kernels.forward.py_func, kernels.averages.py_func),
    ):
        actions, orders = np.zeros((H, S), dtype=np.int64), np.tile(np.arange(S), (H, 1))
        V = backward(within, costs[0], actions, orders)
        law = forward(within, actions, orders, start)
        J = np.empty(len(costs))
        averages(costs, actions, law, J)
        results.append((V, actions, orders, law, J))
    for one, other in zip(*results, strict=True):
        np.testing.assert_array_equal(one, other)
    V, _, _, law, J = results[0]
    np.testing.assert_allclose(law.sum(axis=1), 1.0, atol=1e-12)
    assert H * J[0] == pytest.approx(V[start], abs=1e-12)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_start_changes_nothing_in_the_value(seed: int) -> None:
    """Neither from its own columns nor from those of other costs and another start state."""
    intervals, costs, budgets, H, start = case(seed)
    found = solve_finite(intervals, costs, budgets, H, start)
    assert found.columns is not None
    other = solve_finite(intervals, costs[::-1].copy(), budgets, H, 0).columns
    for columns in (found.columns, other):
        warm = solve_finite(intervals, costs, budgets, H, start, columns=columns)
        assert warm.feasible == found.feasible
        assert warm.gap <= TIE_BREAK + 1e-10
        np.testing.assert_allclose(warm.value, found.value, atol=1e-8)


def test_a_known_answer() -> None:
    """Two states, "stay" or "switch", no doubt about either; two steps, one in the dear state is affordable."""
    p = np.zeros((2, 2, 2))
    p[0, 0, 0], p[0, 1, 1], p[1, 0, 1], p[1, 1, 0] = 1.0, 1.0, 1.0, 1.0
    costs = np.array([[[1.0, 1.0], [0.0, 0.0]], [[0.0, 0.0], [1.0, 1.0]]])
    intervals = Intervals.around(p, np.zeros((2, 2)))
    free = solve_finite(intervals, costs, np.array([2.0]), 3, 0)
    assert free.value == pytest.approx(1.0)  # switch at once, then stay
    half = solve_finite(intervals, costs, np.array([0.5]), 3, 0)
    assert half.value == pytest.approx(2.5)
    np.testing.assert_allclose(half.multipliers, [1.0], atol=1e-9)
    assert not solve_finite(intervals, costs, np.array([-0.1]), 3, 0).feasible
