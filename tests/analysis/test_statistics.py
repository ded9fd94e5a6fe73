import numpy as np
import pytest

from psconrl.analysis import (
    Interval,
    band,
    difference_interval,
    growth_exponent,
    mean_interval,
    number,
    ratio_interval,
)


@pytest.mark.parametrize("exponent", [0.5, 2 / 3, 1.0])
def test_the_exponent_of_a_power_is_exact(exponent: float) -> None:
    times = np.arange(10, 10_001, 10)
    curves = np.outer([1.0, 2.0, 5.0], times**exponent)
    fitted = growth_exponent(times, curves)
    assert fitted.mean == pytest.approx(exponent, abs=1e-12)
    assert fitted.low == pytest.approx(exponent, abs=1e-12)
    assert fitted.high == pytest.approx(exponent, abs=1e-12)


def test_a_curve_that_is_not_positive_has_no_exponent() -> None:
    times = np.arange(1, 101)
    assert growth_exponent(times, -np.ones((3, 100))).mean == -np.inf
    mixed = growth_exponent(times, np.stack([times, -0.5 * times, times]).astype(np.float64))
    assert mixed.mean == pytest.approx(1)
    assert mixed.low == -np.inf


def test_bootstrap_intervals_cover() -> None:
    rng = np.random.default_rng(np.random.SeedSequence(3))
    trials = [mean_interval(rng.exponential(size=50)) for _ in range(300)]
    covered = np.mean([x.low <= 1 <= x.high for x in trials])
    assert 0.88 <= covered <= 0.98


def test_intervals_do_not_change_from_call_to_call() -> None:
    values = np.random.default_rng(0).random(20)
    assert mean_interval(values) == mean_interval(values.copy())


def test_one_run_has_no_interval() -> None:
    x = mean_interval([3.0])
    assert (x.mean, x.low, x.high) == (3.0, -np.inf, np.inf)
    assert not x.apart(Interval(100, 99, 101))
    mean, low, high = band(np.array([[1.0, 2.0]]))
    assert mean.tolist() == low.tolist() == high.tolist() == [1, 2]


def test_band_holds_the_mean_and_shrinks_with_more_runs() -> None:
    rng = np.random.default_rng(1)
    few, many = rng.normal(size=(10, 5)), rng.normal(size=(1000, 5))
    for curves in (few, many):
        mean, low, high = band(curves)
        assert ((low <= mean) & (mean <= high)).all()
    assert (np.subtract(*band(many)[:0:-1]) < np.subtract(*band(few)[:0:-1]) / 5).all()


def test_order_of_intervals() -> None:
    a, b, c = Interval(1, 0, 2), Interval(3, 2.5, 4), Interval(2, 1, 3)
    assert a.below(b)
    assert a.apart(b)
    assert b.apart(a)
    assert not b.below(a)
    assert not a.apart(c)


def test_difference() -> None:
    """Of two large samples: the normal interval of Welch, at either level."""
    rng = np.random.default_rng(np.random.SeedSequence(5))
    x, y = rng.normal(3.0, 1.0, 400), rng.normal(1.0, 2.0, 500)
    error = np.sqrt(x.var() / 400 + y.var() / 500)
    for level, z in ((0.95, 1.96), (0.9, 1.645)):
        found = difference_interval(x, y, level)
        assert found.mean == pytest.approx(x.mean() - y.mean())
        assert found.high - found.low == pytest.approx(2 * z * error, rel=0.1)
    assert difference_interval([1.0], [0.0]).low == -np.inf


def test_a_ratio_of_means() -> None:
    """By the delta method the standard error of three times a ratio of two such means is 3 sqrt(2 / 200)."""
    rng = np.random.default_rng(np.random.SeedSequence(9))
    found = ratio_interval(3 * rng.exponential(size=200), rng.exponential(size=200))
    assert found.low < 3 < found.high
    assert found.high - found.low == pytest.approx(2 * 1.96 * 3 * np.sqrt(2 / 200), rel=0.25)
    assert ratio_interval([1.0], [2.0]) == Interval(0.5, -np.inf, np.inf)


def test_numbers_for_people_and_for_json() -> None:
    assert [number(x) for x in (1234567.8, 0.123456, np.inf, -np.inf, np.nan)] == [
        "1,234,568",
        "0.1235",
        "∞",
        "-∞",
        "n/a",
    ]
    assert Interval(1.0, -np.inf, 2.0).as_json() == {"mean": 1.0, "low": None, "high": 2.0}
