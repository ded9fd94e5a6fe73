"""Means over runs with 95% intervals, and how fast a mean grows.

Intervals are percentile bootstrap over runs: runs are drawn with replacement, the statistic is computed on each
resample, and the interval holds the middle 95% of them. For curves the interval is pointwise. The resamples come
from a fixed SeedSequence, so the same runs always have the same intervals, and curves of as many runs share them.
One run says nothing about its spread: its interval is the whole line, and its curve has no band.

The growth exponent of a curve is the slope of log(mean over runs) in log(time), by least squares over points evenly
spaced in log(time). A mean that is not positive everywhere there has no exponent: it counts as -inf.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike

from psconrl._core.checks import Floats, Ints
from psconrl._core.numbers import number
from psconrl.errors import InvalidArgumentError

LEVEL = 0.95
RESAMPLES = 2000
POINTS = 30
"""At how many times, evenly spaced in their logarithm, an exponent is fitted."""


@dataclass(frozen=True)
class Interval:
    """A number with its 95% interval."""

    mean: float
    low: float
    high: float

    def apart(self, other: Interval) -> bool:
        """Whether the two intervals do not meet."""
        return self.high < other.low or other.high < self.low

    def below(self, other: Interval) -> bool:
        """Whether this interval lies wholly below the other."""
        return self.high < other.low

    def as_json(self) -> dict[str, float | None]:
        """The three numbers; null where they are not finite, as JSON has no infinity."""
        return {name: _finite(getattr(self, name)) for name in ("mean", "low", "high")}

    def __str__(self) -> str:
        if np.isinf(self.low) and np.isinf(self.high) and np.isfinite(self.mean):
            return f"{number(self.mean)} (one run)"
        return f"{number(self.mean)} [{number(self.low)}, {number(self.high)}]"


@lru_cache(maxsize=32)
def weights(runs: int, resamples: int = RESAMPLES, seed: int = 0) -> Floats:
    """(B, R): how much of each resample's mean each run is."""
    rng = np.random.default_rng(np.random.SeedSequence(seed))
    drawn = rng.multinomial(runs, np.full(runs, 1 / runs), size=resamples) / runs
    drawn.setflags(write=False)
    return np.asarray(drawn)


def interval_of(value: float, resampled: Floats, runs: int, level: float = LEVEL) -> Interval:
    """The statistic of all runs with the middle `level` of its values on the resamples; of one run, the whole line."""
    if runs < 2:
        return Interval(float(value), -np.inf, np.inf)
    low, high = (1 - level) / 2, (1 + level) / 2
    return Interval(
        float(value),
        float(np.quantile(resampled, low, method="lower")),
        float(np.quantile(resampled, high, method="higher")),
    )


def mean_interval(values: ArrayLike) -> Interval:
    """The mean over runs (R,), with its interval."""
    x = np.asarray(values, dtype=np.float64)
    return interval_of(x.mean(), weights(len(x)) @ x, len(x))


def worst_tenth(values: ArrayLike) -> float:
    """What an unlucky user gets: the mean of the largest tenth of values, at least one of them.

    Args:
        values: (R,), one for each run; large is bad.

    Returns:
        The mean of the round(R / 10) largest.
    """
    x = np.sort(np.asarray(values, dtype=np.float64))
    return float(x[-max(1, round(len(x) / 10)) :].mean())


def difference_interval(values: ArrayLike, others: ArrayLike, level: float = LEVEL) -> Interval:
    """The difference of the means of two independent sets of runs, with its interval at a level."""
    x, y = (np.asarray(v, dtype=np.float64) for v in (values, others))
    resampled = weights(len(x)) @ x - weights(len(y), seed=1) @ y
    return interval_of(float(x.mean() - y.mean()), resampled, min(len(x), len(y)), level)


def ratio_interval(values: ArrayLike, others: ArrayLike) -> Interval:
    """The ratio of the means of two independent sets of runs, with its interval; others have a positive mean."""
    x, y = (np.asarray(v, dtype=np.float64) for v in (values, others))
    resampled = (weights(len(x)) @ x) / (weights(len(y), seed=1) @ y)
    return interval_of(float(x.mean() / y.mean()), resampled, min(len(x), len(y)))


def band(curves: Floats) -> tuple[Floats, Floats, Floats]:
    """Mean, low and high (G,) over runs of curves (R, G), pointwise."""
    resampled = curves.T @ weights(len(curves)).T
    resampled.sort(axis=1)  # faster than the search for a quantile
    return curves.mean(axis=0), *(_quantile(resampled, (1 + sign * LEVEL) / 2) for sign in (-1, 1))


def _quantile(sorted_rows: Floats, level: float) -> Floats:
    """The quantile of each row, between two of its entries on a straight line."""
    place = level * (sorted_rows.shape[1] - 1)
    first = min(int(place), sorted_rows.shape[1] - 2)
    low, high = sorted_rows[:, first], sorted_rows[:, first + 1]
    return np.asarray(low + (place - first) * (high - low))


def growth_exponent(times: Ints, curves: Floats, start: float = 0.1) -> Interval:
    """The exponent of the mean of curves (R, G) over times from `start` of the last one on."""
    chosen = _log_spaced(times, start)
    x = np.log(times[chosen])
    return interval_of(
        _slopes(x, curves[:, chosen].mean(axis=0, keepdims=True))[0],
        _slopes(x, weights(len(curves)) @ curves[:, chosen]),
        len(curves),
    )


def _log_spaced(times: Ints, start: float) -> Ints:
    """Indices of times about evenly spaced in their logarithm, from `start` of the last on; two at least."""
    last = times[-1]
    wanted = np.geomspace(max(start * last, times[0]), last, POINTS)
    chosen = np.unique(np.minimum(np.searchsorted(times, wanted * (1 - 1e-12)), len(times) - 1))
    if len(chosen) < 2:
        raise InvalidArgumentError("an exponent needs at least two checkpoints")
    return chosen


def _slopes(x: Floats, means: Floats) -> Floats:
    """Least-squares slopes (B,) of log(means) (B, n) in x (n,); -inf where a mean is not positive."""
    centred = x - x.mean()
    positive = np.asarray((means > 0).all(axis=1))
    y = np.log(np.where(positive[:, np.newaxis], means, 1.0))
    return np.where(positive, y @ centred / (centred @ centred), -np.inf)


def _finite(x: float) -> float | None:
    return float(x) if np.isfinite(x) else None
