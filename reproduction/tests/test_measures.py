import numpy as np
import pytest

from reproduction import measures
from reproduction.bounds import episodes_bound, feasibility_premise, good_event_bound, theorem_bound
from tests.analysis.synthetic import one_group, record


def random_costs(seed: int, T: int = 400) -> np.ndarray:
    return (np.random.default_rng(seed).random((2, T)) < [[0.6], [0.3]]).astype(np.float64)


@pytest.mark.parametrize("spacing", [1, 5, 20])
def test_as_plotted_agrees_with_sums_over_single_steps(spacing: int) -> None:
    window = 60
    runs = [random_costs(seed) for seed in range(2)]
    found = one_group([record(costs, seed=seed, spacing=spacing) for seed, costs in enumerate(runs)])
    times, values = measures.as_plotted(found, window)
    assert times[0] == window
    for r, costs in enumerate(runs):
        for i, level in enumerate((0.5, 0.2)):
            total, expected = 0.0, []
            for t in range(1, costs.shape[1] + 1):
                if t >= window and t % spacing == 0:
                    total += spacing * max(costs[i, t - window : t].mean() - level, 0)
                    expected.append(total)
            np.testing.assert_allclose(values[r, i], expected, atol=1e-9)


def test_settling_time_is_after_the_last_excursion() -> None:
    costs = np.full((2, 1000), 0.5)
    costs[0, :300] = 1.0
    found = one_group([record(costs, spacing=10, seed=seed) for seed in range(3)])
    settled = measures.settling_time(found, 100)
    # The window still holds 1% of excess while it holds more than one of the expensive steps.
    assert settled.mean == settled.low == settled.high == 400
    costs[0, -200:] = 1.0
    assert measures.settling_time(one_group([record(costs, spacing=10)]), 100).mean == np.inf


def test_late_average() -> None:
    costs = np.zeros((2, 100))
    costs[:, 80:] = [[0.25], [0.75]]
    np.testing.assert_allclose(measures.late_average(one_group([record(costs, spacing=10)]))[0], [0.25, 0.75])


def test_bounds() -> None:
    S, A, T, D = 3, 2, 64, 5.0
    K = np.sqrt(2 * 3 * 2 * 64 * 6)
    assert episodes_bound(S, A, T) == pytest.approx(K)
    good = 6 * K + 49 * 5 * 3 * np.sqrt(128 * np.log(128))
    assert good_event_bound(S, A, T, D) == pytest.approx(good)
    assert theorem_bound(S, A, T, D, 7.0) == pytest.approx(good + 7 * (np.log(3) + 2) * 8 + 1)
    assert feasibility_premise(S, A, T, D) == pytest.approx(5 * np.sqrt(14 * 3 * np.log(4 * 64**2) / 8))
    assert (np.diff(episodes_bound(S, A, np.arange(1, 100))) >= 0).all()
