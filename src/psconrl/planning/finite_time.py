"""Expected averages of the first T steps of a chain, from every start, and how far they may be off.

With costs c, gains g and biases h of a chain P, all of them as computed, and what their equation misses,
r = c - g + P h - h, the sum of T costs is, for periodic and multichain chains too,

    sum_{t < T} P^t c  =  sum_{t < T} P^t g  +  h - P^T h  +  sum_{t < T} P^t r

P^t averages, so the last term is at most T max |r|: a bound that holds whatever the rounding in g and h. Biases cancel
where T is far below them, in a chain that nearly falls apart: there sums have to be taken. In small chains P^T comes
from squaring P, in large ones from steps; u is 2^-53, C half the range of the costs, H the size of the bias:

    method       how                                              the average is off by at most
    biases       small: P^2t = P^t P^t                            max |r| + (S + 3) u H
                 large: P^n h, for |P^T h| <= max |P^n h|         max |r| + ((k + 4) u H n + |P^n h|) / T
    sums         small: V_2t = V_t + P^t V_t                      (S + 3) u C (T + 2 log2 T + 2)
                 large: v <- c + P v, T times                     (k + 4) u C T / 2

k is the largest number of entries in a row. Sums of few steps are taken at once, else biases unless their bound is
neither good nor the least.

Averages of several classes: where the gains of transient states are off by d, the average of P^t g is off by 2 d.

All of it is about the chain as it is in floats, where the probability of staying is 1 minus the others.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from psconrl._core.checks import Floats
from psconrl.planning.compiled.averages import advance
from psconrl.planning.compiled.elimination import Chain, residuals
from psconrl.planning.tolerances import CHEAP_WORK, EPS, MAX_DENSE, MAX_WORK, NOISE


class Setting(NamedTuple):
    """A chain of S states with costs (n, S) in [0, 2), and what is known of them.

    gains, bias (n, S); drift (n,): what the gains of transient states may be off by.
    """

    chain: Chain
    costs: Floats
    gains: Floats
    bias: Floats
    drift: Floats


class Averages(NamedTuple):
    """Averages (n, S) of the first steps, and bounds (n,) on how far any of them is off."""

    values: Floats
    error: Floats


def first_steps(setting: Setting, T: int, good: float = NOISE) -> Averages:
    """The expected averages of the first T steps.

    Args:
        setting: the chain, its costs, gains and biases. T: how many steps.
        good: a bound with which to be content.

    Returns:
        The averages, with bounds.
    """
    n, S = setting.costs.shape
    C, work = float(np.ptp(setting.costs, axis=1).max()) / 2, float(T) * len(setting.chain.data) * n
    if S <= MAX_DENSE:
        by_sums = (S + 3) * EPS * C * (T + 2 * math.log2(T) + 2)
    else:
        by_sums = (_longest_row(setting.chain) + 4) * EPS * C * T / 2 if work <= MAX_WORK else np.inf
    if by_sums <= good / 100 and (S <= MAX_DENSE or work <= CHEAP_WORK):
        return _by_sums(setting, T, by_sums)
    found = _by_biases(setting, T, good)
    return found if found.error.max() <= max(good, by_sums) else _by_sums(setting, T, by_sums)


def _longest_row(chain: Chain) -> int:
    return int(np.diff(chain.indptr).max())


def _rounded(setting: Setting, values: Floats, error: Floats | float) -> Averages:
    """Averages within the range of their costs; a unit in the last place for what is done to them here."""
    low, high = setting.costs.min(axis=1), setting.costs.max(axis=1)
    bounds = np.minimum(np.asarray(error) + 8 * EPS, high - low + 8 * EPS)
    return Averages(np.clip(values, low[:, np.newaxis], high[:, np.newaxis]), bounds)


def _by_sums(setting: Setting, T: int, bound: float) -> Averages:
    """The sums of T costs, which are counted from the middle of their range."""
    middle = (setting.costs.max(axis=1) + setting.costs.min(axis=1))[:, np.newaxis] / 2
    costs, nothing = setting.costs - middle, np.zeros_like(setting.costs)
    if setting.costs.shape[1] <= MAX_DENSE:
        sums = _doubling(setting.chain, costs, nothing, T)
    else:
        sums = np.array([advance(setting.chain, c, np.zeros(len(c)), T) for c in costs])
    return _rounded(setting, sums / T + middle, bound)


def _doubling(chain: Chain, costs: Floats, values: Floats, T: int) -> Floats:
    """sum_{t < T} P^t c + P^T v for costs c and values v (n, S), by squaring P."""
    power, some, total = _dense(chain), costs.T, values.T
    while True:
        if T & 1:
            total = some + power @ total
        T >>= 1
        if not T or not (some.any() or total.any()):
            return total.T
        some = some + power @ some
        power = power @ power


def _dense(chain: Chain) -> Floats:
    """The chain as a matrix (S, S): what a row lacks to one is the probability of staying."""
    S = len(chain.indptr) - 1
    matrix = np.zeros((S, S))
    source = np.repeat(np.arange(S), np.diff(chain.indptr))
    away = chain.indices != source
    np.add.at(matrix, (source[away], chain.indices[away]), chain.data[away])
    for s in range(S):
        # Below zero by rounding, if at all; rows must sum to one, or mass is lost in 10^9 steps.
        matrix[s, s] = math.fsum([1.0, *(-matrix[s])])
    return matrix


def _by_biases(setting: Setting, T: int, good: float) -> Averages:
    """By T g + h - P^T h; the error says how well that does."""
    S, h = setting.costs.shape[1], setting.bias
    H = np.abs(h).max(axis=1)
    if not np.isfinite(H).all():
        return _rounded(setting, setting.gains, np.inf)
    failed = [
        np.add(*np.abs(residuals(setting.chain, c - g, 2.0, own))).max()
        for c, g, own in zip(setting.costs, setting.gains, h, strict=True)
    ]
    missed = np.array(failed) + 2 * setting.drift
    missed += 4 * EPS * H / T
    if S <= MAX_DENSE:
        after = _doubling(setting.chain, np.zeros_like(h), h, T)
        error = missed + (S + 3) * EPS * H * (1 + 2 * math.log2(T) / T)
    else:
        found = [_stepped(setting.chain, T, values, good * T / 4) for values in h]
        after = np.array([values for values, _ in found])
        error = missed + np.array([off for _, off in found]) / T
    return _rounded(setting, setting.gains + (h - after) / T, error)


def _stepped(chain: Chain, T: int, h: Floats, enough: float) -> tuple[Floats, float]:
    """P^T h by steps until nothing is left of h (S,), of mean zero in each class; and how far that may be off.

    enough: what it may be off by. It ends before that where it would not get there.
    """
    entries, nothing, values = len(chain.data), np.zeros(len(h)), h
    most = min(T, int(MAX_WORK / entries))
    per_step = (_longest_row(chain) + 4) * EPS
    done, block, rounding, size = 0, 64, 0.0, float(np.abs(h).max())
    while size > enough and done < most:
        steps = min(block, most - done)
        values = advance(chain, nothing, values, steps)
        rounding += steps * per_step * size
        done += steps
        block, before, size = 2 * block, size, float(np.abs(values).max())
        hopeless = steps * math.log(max(size / enough, 1.0)) > (most - done) * math.log(max(before / size, 1.0))
        if most < T and hopeless:
            break
    return (values, rounding) if done == T else (np.zeros(len(h)), size + rounding)
