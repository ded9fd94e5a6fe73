"""Costs in units of their own, and back."""

import numpy as np
import pytest

from psconrl.planning.units import Units


@pytest.mark.parametrize("seed", range(20))
def test_there_and_back(seed: int) -> None:
    rng = np.random.default_rng(seed)
    m = int(rng.integers(0, 4))
    size = 10.0 ** rng.uniform(-12, 12, (m + 1, 1))
    costs = size * (rng.random((m + 1, 9)) + rng.normal(size=(m + 1, 1)))
    tau = (costs[1:] @ rng.dirichlet(np.ones(9))).ravel()
    units = Units.of(costs, tau)
    assert units.costs.min(axis=1).tolist() == [0.0] * (m + 1)
    assert (units.costs.max(axis=1) <= 1.0).all()
    assert (units.costs.max(axis=1) > 0.5 - 1e-12).all()
    assert (np.frexp(units.unit)[0] == 0.5).all()  # powers of two
    np.testing.assert_allclose(units.averages(units.costs), costs, rtol=0, atol=1e-15 * np.abs(costs).max())
    np.testing.assert_allclose(units.averages(np.append(0.0, units.tau))[1:], tau, rtol=1e-12)
    # A multiplier is a price of cost 0 per cost i: lambda_i (c_i - tau_i) is the same in both, in the unit of cost 0.
    scaled = rng.random(m)
    own = units.multipliers(scaled) @ (costs[1:, 0] - tau)
    assert own == pytest.approx(units.unit[0] * float(scaled @ (units.costs[1:, 0] - units.tau)), rel=1e-9, abs=1e-300)


def test_powers_of_two_change_no_bit() -> None:
    rng = np.random.default_rng(1)
    costs, tau = rng.random((3, 8)), rng.random(2)
    plain, large = Units.of(costs, tau), Units.of(costs * 2.0**40, tau * 2.0**40)
    np.testing.assert_array_equal(plain.costs, large.costs)
    np.testing.assert_array_equal(plain.tau, large.tau)
    np.testing.assert_array_equal(plain.unit * 2.0**40, large.unit)


def test_constant_costs() -> None:
    """The unit of a constant cost is what its limit leaves, so that its limit is missed or met by about one."""
    units = Units.of(np.array([[3.0, 3.0], [5.0, 5.0], [7.0, 7.0]]), np.array([5.0 + 1e-9, 7.0]))
    np.testing.assert_array_equal(units.costs, 0.0)
    assert 0.5 < units.tau[0] <= 1.0
    assert units.tau[1] == 0.0
    np.testing.assert_array_equal(units.averages(np.zeros(3)), [3.0, 5.0, 7.0])


def test_limits_far_away_are_brought_near() -> None:
    units = Units.of(np.array([[0.0, 1.0], [0.0, 1.0], [0.0, 1.0]]), np.array([1e300, 0.5]))
    assert units.near.tolist() == [4.0, 0.5]
    assert units.tau[0] == 1e300
