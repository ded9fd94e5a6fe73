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
    """What each bootstrap resample is made of.

    Args:
        runs: R, the number of runs.
        resamples: B, the number of resamples.
        seed: of the resamples; independent sets of runs take different ones.

    Returns:
        (B, R), the share of each run in each resample; read-only.
    """
    rng = np.random.default_rng(np.random.SeedSequence(seed))
    drawn = rng.multinomial(runs, np.full(runs, 1 / runs), size=resamples) / runs
    drawn.setflags(write=False)
    return np.asarray(drawn)


def interval_of(value: float, resampled: Floats, runs: int, level: float = LEVEL) -> Interval:
    """A statistic with its percentile bootstrap interval.

    Args:
        value: the statistic of all runs.
        resampled: (B,), its values on the resamples.
        runs: the number of runs.
        level: the share of the resamples inside the interval.

    Returns:
        The interval; of one run, the whole line.
    """
    if runs < 2:
        return Interval(float(value), -np.inf, np.inf)
    low, high = (1 - level) / 2, (1 + level) / 2
    return Interval(
        float(value),
        float(np.quantile(resampled, low, method="lower")),
        float(np.quantile(resampled, high, method="higher")),
    )


def mean_interval(values: ArrayLike) -> Interval:
    """The mean over runs with its 95% interval.

    Args:
        values: (R,), one for each run.

    Returns:
        The interval; of one run, the whole line.
    """
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
    """The difference of the means of two independent sets of runs.

    Args:
        values: (R,), one for each run.
        others: (R',), what is subtracted.
        level: of the interval.

    Returns:
        mean(values) - mean(others) with its interval.
    """
    x, y = (np.asarray(v, dtype=np.float64) for v in (values, others))
    resampled = weights(len(x)) @ x - weights(len(y), seed=1) @ y
    return interval_of(float(x.mean() - y.mean()), resampled, min(len(x), len(y)), level)


def ratio_interval(values: ArrayLike, others: ArrayLike) -> Interval:
    """The ratio of the means of two independent sets of runs.

    Args:
        values: (R,), one for each run.
        others: (R',), the denominators, with a positive mean.

    Returns:
        mean(values) / mean(others) with its 95% interval.
    """
    x, y = (np.asarray(v, dtype=np.float64) for v in (values, others))
    resampled = (weights(len(x)) @ x) / (weights(len(y), seed=1) @ y)
    return interval_of(float(x.mean() / y.mean()), resampled, min(len(x), len(y)))


def band(curves: Floats) -> tuple[Floats, Floats, Floats]:
    """The mean of curves with its pointwise 95% interval.

    Args:
        curves: (R, G), one for each run.

    Returns:
        Mean, low and high, each (G,); of one run, three times its curve.
    """
    low, high = np.quantile(weights(len(curves)) @ curves, ((1 - LEVEL) / 2, (1 + LEVEL) / 2), axis=0)
    return curves.mean(axis=0), low, high


def growth_exponent(times: Ints, curves: Floats, start: float = 0.1) -> Interval:
    """How fast the mean of curves grows: its slope in log-log coordinates.

    Args:
        times: (G,), the checkpoints.
        curves: (R, G), one for each run.
        start: the share of the last time from which on the slope is fitted.

    Returns:
        The exponent with its 95% interval; -inf where the mean is not positive.

    Raises:
        InvalidArgumentError: fewer than two checkpoints lie in the range.
    """
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
