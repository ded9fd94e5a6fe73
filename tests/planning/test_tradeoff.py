"""The trade-off curve against single solves; shadow prices against its slopes."""

import numpy as np
import pytest

import psconrl
from psconrl.errors import InvalidArgumentError, InvalidModelError
from psconrl.planning import solve, threshold_sweep
from tests.planning.reference import random_cmdps


@pytest.mark.parametrize(
    ("name", "idle"), [("marsrover-4x4", 0.25), ("marsrover-8x8", None), ("box", 5 / 6), ("queue", None)]
)
def test_each_point_is_a_solve(name: str, idle: float | None) -> None:
    cmdp = psconrl.make(name)
    sweep = threshold_sweep(cmdp, points=9)
    for tau, value, multipliers in zip(sweep.thresholds, sweep.values, sweep.multipliers, strict=True):
        solution = solve(cmdp.replace(thresholds=[tau, *cmdp.thresholds[1:]]))
        assert solution.feasible
        assert value == pytest.approx(solution.value, abs=1e-9)
        assert (multipliers >= 0).all()
    assert sweep.thresholds[0] == sweep.least
    assert sweep.thresholds[-1] == sweep.idle
    assert (np.diff(sweep.values) <= 1e-12).all()
    below = solve(cmdp.replace(thresholds=[sweep.least - 1e-6, *cmdp.thresholds[1:]]))
    assert not below.feasible
    free = solve(cmdp.replace(thresholds=[sweep.idle + 1.0, *cmdp.thresholds[1:]])).value
    assert sweep.values[-1] == pytest.approx(free, abs=1e-9)
    assert threshold_sweep(cmdp, thresholds=[sweep.idle - 1e-3]).values[0] > free + 1e-6
    if idle is not None:
        assert sweep.least == pytest.approx(0.0, abs=1e-9)
        assert sweep.idle == pytest.approx(idle, abs=1e-9)
    assert f"least={sweep.least:.6g}" in repr(sweep)


def test_shadow_prices_lie_between_the_slopes() -> None:
    """-multiplier is a subgradient: between the left and the right difference quotient, to 1e-6."""
    h, checked = 1e-3, 0
    models = [psconrl.make(name) for name in ("marsrover-4x4", "marsrover-8x8", "box", "queue")]
    for cmdp in models + random_cmdps(40, entropy=9):
        if cmdp.m == 0 or solve(cmdp).margin < 2 * h:
            continue
        solution = solve(cmdp)
        for i, tau in enumerate(cmdp.thresholds):
            left, here, right = threshold_sweep(cmdp, i + 1, [tau - h, tau, tau + h]).values
            assert here == pytest.approx(solution.value, abs=1e-8)
            price = -solution.multipliers[i]
            assert (here - left) / h - 1e-6 * max(1.0, -price) <= price
            assert price <= (right - here) / h + 1e-6 * max(1.0, -price)
            checked += price < 0
    assert checked > 15


def test_infeasible_points_are_nan() -> None:
    sweep = threshold_sweep(psconrl.make("toy", theta=1.0), thresholds=[0.6, 0.4, 0.5])
    np.testing.assert_allclose(sweep.values, [0.4, np.nan, 0.5], atol=1e-9)
    assert np.isnan(sweep.multipliers[1]).all()
    assert sweep.least == pytest.approx(0.5, abs=1e-9)
    assert "2 feasible" in repr(sweep)


def test_bad_arguments() -> None:
    toy = psconrl.make("toy")
    with pytest.raises(InvalidModelError, match="has the constraints 1"):
        threshold_sweep(toy, 2)
    with pytest.raises(InvalidArgumentError, match="constraint is 0"):
        threshold_sweep(toy, 0)
    with pytest.raises(InvalidModelError, match="finite limits"):
        threshold_sweep(toy, thresholds=[0.5, np.nan])
    queue = psconrl.make("queue", service_limit=0.1)
    with pytest.raises(InvalidModelError, match="other than 2 cannot hold"):
        threshold_sweep(queue, 2)


@pytest.mark.parametrize("seed", range(12))
def test_the_smallest_limit_is_met(seed: int) -> None:
    sweep = threshold_sweep(psconrl.make("garnet", seed=seed), points=3)
    assert np.isfinite(sweep.values).all()


def test_one_point_is_no_sweep() -> None:
    with pytest.raises(ValueError, match="points is 1; it must be at least 2"):
        threshold_sweep(psconrl.make("toy"), points=1)
