"""Gymnasium's small worlds as models: sizes, and optima known by hand or from brute force."""

from __future__ import annotations

import numpy as np
import pytest

from psconrl import InvalidArgumentError, make, solve


def test_the_dry_lake_is_crossed_in_six_steps() -> None:
    lake = make("frozen-lake", slippery=False, full=True)
    assert (lake.S, lake.A, lake.m) == (16, 4, 1)
    solution = solve(lake)
    assert solution.value == pytest.approx(5 / 6, abs=1e-9)
    assert solution.average_costs[1] == pytest.approx(0.0, abs=1e-9)


def test_on_slippery_ice_the_limit_binds() -> None:
    lake = make("frozen-lake")
    solution = solve(lake)
    assert solution.average_costs[1] == pytest.approx(0.005, abs=1e-8)
    assert solution.multipliers[0] > 0.5
    free = solve(lake.replace(thresholds=[1.0]))
    assert free.value < solution.value < 1.0


def test_the_cliff_is_walked_in_thirteen_steps() -> None:
    for slippery in (False, True):
        cliff = make("cliff-walking", slippery=slippery, full=True)
        assert (cliff.S, cliff.A, cliff.m) == (48, 4, 1)
        assert (solve(cliff).value == pytest.approx(12 / 13, abs=1e-9)) is not slippery


def test_the_taxi_pays_toll_up_to_its_limit() -> None:
    taxi = make("taxi", full=True)
    assert (taxi.S, taxi.A, taxi.m) == (500, 6, 1)
    assert taxi.action_names[-1] == "drop off"
    solution = solve(taxi)
    assert solution.average_costs[1] == pytest.approx(0.03, abs=1e-8)
    # Every way of a passenger has rewards of at most 20 for a delivery and at least -1 for a step before it.
    assert 0.6 < solution.value < 0.7
    np.testing.assert_allclose(solution.multipliers, [0.18320611], atol=1e-6)


def test_wrong_options() -> None:
    with pytest.raises(InvalidArgumentError, match="slippery is 1; it must be True or False"):
        make("frozen-lake", slippery=1)
    with pytest.raises(InvalidArgumentError, match="tau is 2; it must be a number from 0 to 1"):
        make("taxi", tau=2)


@pytest.mark.parametrize("name", ["frozen-lake", "cliff-walking", "taxi"])
def test_states_that_never_occur_change_nothing(name: str) -> None:
    some, every = make(name), make(name, full=True)
    assert some.S < every.S
    found, expected = solve(some), solve(every)
    assert found.value == pytest.approx(expected.value, abs=1e-8)
    np.testing.assert_allclose(found.multipliers, expected.multipliers, atol=1e-6)
