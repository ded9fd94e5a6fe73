"""Expected averages of the first T steps of a chain, from every start, and how far they may be off.

With costs c, gains g and biases h of a chain P, all of them as computed, and what their equation misses,
r = c - g + P h - h, the sum of T costs is, for periodic and multichain chains too,

    sum_{t < T} P^t c  =  sum_{t < T} P^t g  +  h - P^T h  +  sum_{t < T} P^t r

P^t averages, so the last term is at most T max |r|: a bound that holds whatever the rounding in g and h. Several
ways lead to the sum; u is 2^-53, C the size of the costs, counted from the middle of their range, H that of the bias.

    way          how                                                          the average is off by at most
    biases       P^T h: in small chains by squaring P                         max |r| + (S + 3) u H
                 in large ones by P^n h, for |P^T h| <= max |P^n h|           max |r| + ((k + 4) u H n + |P^n h|) / T
    steps        v <- c + P v, T times                                        (k + 4) u C T / 2
    doubling     V_2t = V_t + P^t V_t, with P^2t = P^t P^t                    (S + 3) u C (T + 2 log2 T + 2)

k is the largest number of entries in a row. Biases cancel where T is far below them, in a chain that nearly falls
apart: there sums have to be taken. The first way whose bound is good is taken, or else the one with the least.

Averages of several classes: g = P g fails by rounding d in transient states. After the expected number of steps N in
these, no more comes of it: the average of P^t g is off by at most min(2 N, T / 2) max |d|.

All of it is about the chain as it is in floats, where the probability of staying is 1 minus the others.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from psconrl._core.checks import Floats
from psconrl.planning.compiled.averages import advance
from psconrl.planning.compiled.elimination import Chain, residuals
from psconrl.planning.tolerances import CHEAP_WORK, EPS, MAX_DENSE, MAX_WORK, NOISE


class Setting(NamedTuple):
    """A chain of S states with costs (n, S) in [0, 2), and what is known of them.

    gains (n, S); parts (n, L, S) of the biases; drift, drifted (n,): by how much g = P g fails in a chain with several
    classes, and what that comes to in all.
    """

    chain: Chain
    costs: Floats
    gains: Floats
    parts: Floats
    drift: Floats
    drifted: Floats


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
    S = setting.costs.shape[1]
    size = float(np.ptp(setting.costs, axis=1).max()) / 2
    work = float(T) * len(setting.chain.data) * len(setting.costs)
    by_steps = (_longest_row(setting.chain) + 4) * EPS * size * T / 2
    if work <= CHEAP_WORK and by_steps <= good / 100:
        return _by_sums(setting, T, by_steps, _steps)
    found = _by_biases(setting, T, good)
    if (found.error <= good).all():
        return found
    by_doubling = (S + 3) * EPS * size * (T + 2 * math.log2(T) + 2)
    if S <= MAX_DENSE and by_doubling < found.error.max():
        return _by_sums(setting, T, by_doubling, _doubling)
    if S > MAX_DENSE and work <= MAX_WORK and by_steps < found.error.max():
        return _by_sums(setting, T, by_steps, _steps)
    return found


def _longest_row(chain: Chain) -> int:
    return int(np.diff(chain.indptr).max())


def _rounded(setting: Setting, values: Floats, error: Floats | float) -> Averages:
    """Averages within the range of their costs; a unit in the last place for what is done to them here."""
    low, high = setting.costs.min(axis=1), setting.costs.max(axis=1)
    bounds = np.minimum(np.asarray(error) + 8 * EPS, high - low + 8 * EPS)
    return Averages(np.clip(values, low[:, np.newaxis], high[:, np.newaxis]), bounds)


def _by_sums(setting: Setting, T: int, bound: float, way: Callable[[Chain, Floats, Floats, int], Floats]) -> Averages:
    """The sums of T costs, which are counted from the middle of their range."""
    middle = (setting.costs.max(axis=1) + setting.costs.min(axis=1))[:, np.newaxis] / 2
    sums = way(setting.chain, setting.costs - middle, np.zeros_like(setting.costs), T)
    return _rounded(setting, sums / T + middle, bound)


def _steps(chain: Chain, costs: Floats, values: Floats, T: int) -> Floats:
    """sum_{t < T} P^t c + P^T v for costs c and values v (n, S), step by step."""
    return np.array([advance(chain, c, v, T) for c, v in zip(costs, values, strict=True)])


def _doubling(chain: Chain, costs: Floats, values: Floats, T: int) -> Floats:
    """The same by squaring P."""
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
    """By T g + h - P^T h; the error says whether that was a good way."""
    n, S = setting.costs.shape
    missed, h = np.empty(n), setting.parts.sum(axis=1)
    H = np.abs(h).max(axis=1)
    for i in range(n):
        left, rounding, _ = residuals(setting.chain, setting.costs[i] - setting.gains[i], 2.0, setting.parts[i])
        missed[i] = (np.abs(left) + rounding).max()
    missed += np.minimum(2 * setting.drifted, T / 2 * setting.drift)
    if not np.isfinite(missed).all() or not np.isfinite(H).all():
        return _rounded(setting, setting.gains, np.inf)
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
