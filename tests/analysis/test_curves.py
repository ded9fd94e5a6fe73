import numpy as np
import pytest

from psconrl.analysis import curves, group
from tests.analysis.synthetic import episodes, one_group, record


def random_costs(seed: int, T: int = 400) -> np.ndarray:
    return (np.random.default_rng(seed).random((2, T)) < [[0.6], [0.3]]).astype(np.float64)


def test_signed_sums_are_those_of_their_definition() -> None:
    runs = [random_costs(seed) for seed in range(3)]
    found = one_group([record(costs, seed=seed, spacing=10) for seed, costs in enumerate(runs)])
    for r, costs in enumerate(runs):
        for i, level in enumerate((0.5, 0.2)):
            for g, t in enumerate(found.grid):
                assert found.signed[r, i, g] == pytest.approx((costs[i, :t] - level).sum())
    assert np.array_equal(found.regret, found.signed[:, 0])
    assert np.array_equal(found.violation, found.signed[:, 1:])


def test_a_window_must_be_a_multiple_of_the_spacing_and_fit() -> None:
    found = one_group([record(random_costs(0), spacing=20)])
    with pytest.raises(ValueError, match="must be a multiple"):
        curves.moving_average(found, 50)
    with pytest.raises(ValueError, match="longer than the run"):
        curves.moving_average(found, 420)


def test_uneven_checkpoints_are_refused() -> None:
    costs = random_costs(0)
    uneven = record(costs, grid=np.array([10, 15, 400]), cumulative=np.zeros((2, 3)))
    with pytest.raises(ValueError, match="does not divide the horizon"):
        curves.moving_average(one_group([uneven]), 100)


def test_infeasible_steps() -> None:
    table = episodes([0, 10, 30, 60], 100, [True, False, True, False])
    found = one_group([record(np.zeros((2, 100)), spacing=5, table=table)])
    steps = dict(zip(found.grid.tolist(), curves.infeasible_steps(found)[0].tolist(), strict=True))
    assert (steps[10], steps[20], steps[30], steps[60], steps[100]) == (0, 10, 20, 20, 60)


def test_prices_are_means_over_the_second_half_of_the_steps_so_far() -> None:
    table = episodes([0, 10, 30, 60], 100, m=2)
    table["multipliers"] = [[1, 0], [2, 5], [np.nan, np.nan], [4, 1]]
    found = one_group([record(np.zeros((3, 100)), spacing=5, thresholds=(0.2, 0.3), table=table)])
    by_step = np.repeat(table["multipliers"], table["length"], axis=0)
    for g, t in enumerate(found.grid):
        prices = by_step[t // 2 : t]
        known = prices[np.isfinite(prices[:, 0])]
        expected = known.mean(axis=0) if len(known) else [np.nan, np.nan]
        np.testing.assert_allclose(curves.prices(found)[0, :, g], expected, atol=1e-12)


def test_pseudo_regret_of_two_policies() -> None:
    table = episodes([0, 40], 100, averages=[[0.7, 0.4], [0.5, 0.2]])
    found = one_group([record(np.zeros((2, 100)), spacing=20, table=table)])
    rate = 0.7 - 0.5 + 0.5 * (0.4 - 0.2)
    np.testing.assert_allclose(curves.pseudo_regret(found)[0], rate * np.array([20, 40, 40, 40, 40]))
    plain = one_group([record(np.zeros((2, 100)))])
    with pytest.raises(ValueError, match="evaluate_policies"):
        curves.pseudo_regret(plain)


def test_further_measures_are_the_sums_of_their_definitions() -> None:
    runs = [random_costs(seed, 100) for seed in range(3)]
    averages = [[0.7, 0.4], [0.5, 0.1]]
    table = episodes([0, 40], 100, averages=averages)
    found = one_group([record(costs, seed=seed, spacing=5, table=table) for seed, costs in enumerate(runs)])
    for r, costs in enumerate(runs):
        for g, t in enumerate(found.grid):
            regret, violation = (costs[:, :t] - [[0.5], [0.2]]).sum(axis=1)
            most = max(0.0, np.cumsum(costs[1, :t] - 0.2).max())
            assert found.positive_violation[r, 0, g] == pytest.approx(max(violation, 0))
            assert found.largest_violation[r, 0, g] == pytest.approx(most)
            assert found.lagrangian[r, g] == pytest.approx(regret + 0.5 * violation)
            assert found.policy_violation[r, 0, g] == pytest.approx(0.2 * min(t, 40))
    assert np.isnan(one_group([record(runs[0])]).policy_violation).all()
    assert np.isnan(one_group([record(runs[0], optimum=np.nan)]).lagrangian).all()


def test_of_several_versions_the_one_with_most_runs_counts() -> None:
    costs = np.zeros((2, 10))
    old = [record(costs, seed=0, code="old")]
    new = [record(costs + 1, seed=seed, code="new") for seed in (2, 0, 1)]
    found = one_group([*old, *new])
    assert found.seeds.tolist() == [0, 1, 2]
    assert found.codes == {"new"}
    assert found.cumulative[0, 0, -1] == 10


def test_timings_find_their_runs() -> None:
    runs = [record(np.zeros((2, 10)), seed=seed) for seed in range(2)]
    (found,) = group(runs, {runs[1].identity: 3.5}).values()
    assert np.isnan(found.seconds[0])
    assert found.seconds[1] == 3.5
