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
    twofold      the same in twofold arithmetic                               (S + 8)^2 2^-104 C (T + ...) + u C

k is the largest number of entries in a row. Biases cancel where T is far below them, in a chain that nearly falls
apart: there sums have to be taken. The first way whose bound is good is taken, or else the one with the least.

The slowest modes of a large chain, P phi = lambda phi but for what their equation misses, are split off: their part of
P^T h is known, and only the rest has to die out. Nothing but speed depends on how well they were found.

A class with period d has no limit of P^n h, but one for every n mod d: on each of its cyclic classes the mean of h over
the one that is n steps ahead. That part is split off, and followed exactly: transient states are led back in time from
T - n, where only those that have not left yet are unknown.

Averages of several classes: g = P g fails by rounding d in transient states. After the expected number of steps N in
these, no more comes of it: the average of P^t g is off by at most min(2 N, T / 2) max |d|.

All of it is about the chain as it is in floats, where the probability of staying is 1 minus the others.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from psconrl._core.checks import Floats, Ints
from psconrl._core.graph import phases
from psconrl.planning.compiled.elimination import Chain, residuals
from psconrl.planning.compiled.products import advance, twofold_product
from psconrl.planning.tolerances import EPS

Complexes = NDArray[np.complex128]

DENSE = 400
"""Chains up to this size are squared."""
TWOFOLD = 200
"""Chains up to this size are squared in twofold arithmetic."""
GOOD = 1e-11
"""A bound that is good enough, as a share of a cost's range."""
_FEW = 2e7
"""Steps that take no more multiplications than this are nothing."""
_PATIENCE = 2e8
"""Steps that take more than this are shortened by finding the slowest modes."""
_MANY = 5e10
"""Those of a minute; what cannot converge by then is told of by the bound."""
_BLOCK = 64


class Setting(NamedTuple):
    """A chain of S states with recurrent classes and their stationary laws (S,), costs (n, S) in [0, 2) and answers.

    gains (n, S); parts (n, L, S) of the biases; drift, drifted (n,): by how much g = P g fails in a chain with several
    classes, and what that comes to in all. modes: finds the slowest eigenvalues (k,) and eigenvectors (S, k).
    """

    chain: Chain
    classes: list[Ints]
    law: Floats
    costs: Floats
    gains: Floats
    parts: Floats
    drift: Floats
    drifted: Floats
    modes: Callable[[], tuple[Complexes, Complexes]]


class Averages(NamedTuple):
    """Averages (n, S) of the first steps, and bounds (n,) on how far any of them is off."""

    values: Floats
    error: Floats


def first_steps(setting: Setting, T: int, good: float = GOOD) -> Averages:
    """The expected averages of the first T steps."""
    middle = (setting.costs.max(axis=1) + setting.costs.min(axis=1)) / 2
    C = float(np.abs(setting.costs - middle[:, np.newaxis]).max())
    n, S = setting.costs.shape
    entries = len(setting.chain.data)
    k = int(np.diff(setting.chain.indptr).max())
    by_steps = (k + 4) * EPS * C * T / 2
    cheap = float(T) * entries * n <= _FEW
    if cheap and by_steps <= good / 100:
        return _by_steps(setting, T, by_steps)
    found = _by_biases(setting, T, good)
    if (found.error <= good).all():
        return found
    others = []
    if cheap or (S > DENSE and float(T) * entries * n <= _MANY):
        others.append((by_steps, _by_steps))
    if S <= DENSE:
        rounds = T + 2 * math.log2(T) + 2
        others.append(((S + 3) * EPS * C * rounds, _by_doubling))
        if S <= TWOFOLD:
            others.append(((S + 8) ** 2 * 2.0**-104 * C * rounds + EPS * C, _by_twofold))
    for bound, way in others:
        if bound <= good:
            return way(setting, T, bound)
    bound, way = min(others, key=lambda pair: pair[0], default=(np.inf, _by_steps))
    return way(setting, T, bound) if bound < found.error.max() else found


def _rounded(setting: Setting, values: Floats, error: Floats | float) -> Averages:
    """Averages within the range of their costs; a unit in the last place for what is done to them here."""
    low, high = setting.costs.min(axis=1), setting.costs.max(axis=1)
    bounds = np.minimum(np.asarray(error) + 8 * EPS, high - low + 8 * EPS)
    return Averages(np.clip(values, low[:, np.newaxis], high[:, np.newaxis]), bounds)


def _by_steps(setting: Setting, T: int, bound: float) -> Averages:
    middle = (setting.costs.max(axis=1) + setting.costs.min(axis=1)) / 2
    nothing = np.zeros(setting.costs.shape[1])
    sums = [advance(setting.chain, c - a, nothing, T) for c, a in zip(setting.costs, middle, strict=True)]
    return _rounded(setting, np.array(sums) / T + middle[:, np.newaxis], bound)


def _by_doubling(setting: Setting, T: int, bound: float) -> Averages:
    middle = (setting.costs.max(axis=1) + setting.costs.min(axis=1)) / 2
    power, _ = _dense(setting.chain)
    some = (setting.costs - middle[:, np.newaxis]).T
    total = np.zeros_like(some)
    left = T
    while True:
        if left & 1:
            total = some + power @ total
        left >>= 1
        if not left:
            return _rounded(setting, total.T / T + middle[:, np.newaxis], bound)
        some = some + power @ some
        power = power @ power


def _by_twofold(setting: Setting, T: int, bound: float) -> Averages:
    middle = (setting.costs.max(axis=1) + setting.costs.min(axis=1)) / 2
    power, power_low = _dense(setting.chain)
    some = np.ascontiguousarray((setting.costs - middle[:, np.newaxis]).T)
    some_low, total, total_low = (np.zeros_like(some) for _ in range(3))
    left = T
    while True:
        if left & 1:
            high, low = twofold_product(power, power_low, total, total_low)
            total, total_low = _twofold_sum(some, some_low, high, low)
        left >>= 1
        if not left:
            return _rounded(setting, total.T / T + middle[:, np.newaxis], bound)
        high, low = twofold_product(power, power_low, some, some_low)
        some, some_low = _twofold_sum(some, some_low, high, low)
        power, power_low = twofold_product(power, power_low, power, power_low)


def _twofold_sum(a: Floats, a_low: Floats, b: Floats, b_low: Floats) -> tuple[Floats, Floats]:
    total = a + b
    back = total - a
    low = (a - (total - back)) + (b - back) + a_low + b_low
    high = total + low
    return high, low - (high - total)


def _dense(chain: Chain) -> tuple[Floats, Floats]:
    """The chain as a matrix (S, S) of twofold numbers: what a row lacks to one is the probability of staying."""
    S = len(chain.indptr) - 1
    matrix, low = np.zeros((S, S)), np.zeros((S, S))
    for s in range(S):
        entries = slice(chain.indptr[s], chain.indptr[s + 1])
        away = chain.indices[entries] != s
        np.add.at(matrix[s], chain.indices[entries][away], chain.data[entries][away])
        others = (-chain.data[entries][away]).tolist()
        # Below zero by rounding, if at all; rows must sum to one exactly, or mass is lost in 10^9 steps.
        matrix[s, s] = math.fsum([1.0, *others])
        low[s, s] = math.fsum([1.0, -matrix[s, s], *others])
    return matrix, low


def _by_biases(setting: Setting, T: int, good: float) -> Averages:
    """By T g + h - P^T h; the error says whether that was a good way."""
    n, S = setting.costs.shape
    missed, h, H = np.empty(n), np.empty((n, S)), np.empty(n)
    for i in range(n):
        left, rounding, _ = residuals(setting.chain, setting.costs[i] - setting.gains[i], 2.0, setting.parts[i])
        missed[i] = (np.abs(left) + rounding).max()
        h[i] = setting.parts[i].sum(axis=0)
        H[i] = np.abs(h[i]).max()
    missed += np.minimum(2 * setting.drifted, T / 2 * setting.drift)
    if not np.isfinite(missed).all() or not np.isfinite(H).all():
        return _rounded(setting, setting.gains, np.inf)
    missed += 4 * EPS * H / T
    if S <= DENSE:
        after = _powered(setting.chain, T, h)
        error = missed + (S + 3) * EPS * H * (1 + 2 * math.log2(T) / T)
    else:
        modes = _Modes()
        found = [_stepped(setting, T, h[i], modes, good * T / 4) for i in range(n)]
        after = np.array([values for values, _ in found])
        error = missed + np.array([off for _, off in found]) / T
    return _rounded(setting, setting.gains + (h - after) / T, error)


def _powered(chain: Chain, T: int, h: Floats) -> Floats:
    """P^T h by squaring, h (n, S)."""
    power, _ = _dense(chain)
    values, left = h.T.copy(), T
    while True:
        if left & 1:
            values = power @ values
        left >>= 1
        if not left or np.abs(values).max() == 0.0:
            return values.T
        power = power @ power


def _stepped(setting: Setting, T: int, h: Floats, modes: _Modes, enough: float) -> tuple[Floats, float]:
    """P^T h by steps until it is where it stays, h (S,) of mean zero in each class; and how far that may be off.

    enough: what it may be off by.
    """
    chain, S, entries = setting.chain, len(h), len(setting.chain.data)
    per_step = (int(np.diff(chain.indptr).max()) + 4) * EPS
    graph = sparse.csr_array((chain.data, chain.indices, chain.indptr), shape=(S, S))
    cycles = [(states, *phases(graph, states)) for states in setting.classes]
    limit = _limits(setting.law, cycles, h, 0)
    largest, periodic = float(np.abs(limit).max()), any(d > 1 for _, d, _ in cycles)
    nothing, values, transient = np.zeros(S), h - limit, np.ones(S)
    transient[np.concatenate(setting.classes)] = 0.0
    led = periodic and bool(transient.any())
    most = min(T, int(_MANY / entries))
    done, rounding = 0, min(2.0, T * per_step) * largest
    looked, before = _BLOCK, np.inf
    while True:
        size = float(np.abs(values).max())
        after, left = modes.ahead(values, T - done)
        # The limits of aperiodic classes are zero, but for rounding.
        unknown = largest * float(transient.max()) if led else largest * (not periodic)
        if left + unknown <= enough or done == most:
            break
        if done == looked:
            ahead = done / 2 * math.log((left + unknown) / enough) / max(math.log(before / left), 1e-9)
            if done * entries > _PATIENCE and ahead * entries > _PATIENCE and not modes.known:
                modes.find(setting)
                after, left = modes.ahead(values, T - done)
            elif done + ahead > most and done * entries > _MANY / 8:
                break  # it will not get there
            looked, before = 2 * looked, left
        steps = min(_BLOCK, most - done)
        values = advance(chain, nothing, values, steps)
        if led:
            transient = advance(chain, nothing, transient, steps)
        rounding += steps * per_step * size
        done += steps
    if done == T:
        after, left = values, 0.0
    limit = _limits(setting.law, cycles, h, T - done if led else T)
    if led:
        limit = advance(chain, nothing, limit, done)
        rounding += done * per_step * largest
    return after + limit, left + unknown + rounding


class _Modes:
    """The slowest modes of a chain, P phi = lambda phi, found when steps alone would take too long.

    What values (S,) have of them is known at any time; only the rest has to die out.
    """

    def __init__(self) -> None:
        self.known = False
        self.factors = np.zeros(0, dtype=np.complex128)
        self.columns = np.zeros((0, 0))

    def find(self, setting: Setting) -> None:
        """Find them, where that succeeds."""
        self.known = True
        factors, vectors = setting.modes()
        upper = factors.imag >= 0
        self.factors, vectors = factors[upper], vectors[:, upper]
        vectors = vectors / np.abs(vectors).max(axis=0)
        chain = setting.chain
        nothing = np.zeros(len(vectors))
        real, imaginary = (np.ascontiguousarray(part.T) for part in (vectors.real, vectors.imag))
        stepped = np.array([advance(chain, nothing, part, 1) for part in (*real, *imaginary)])
        k = len(self.factors)
        self.missed = np.abs(stepped[:k].T + 1j * stepped[k:].T - vectors * self.factors).max(axis=0, initial=0.0)
        self.vectors, self.columns = vectors, np.column_stack([vectors.real, -vectors.imag])
        self.inverse = np.linalg.pinv(self.columns, rcond=1e-10)

    def ahead(self, values: Floats, steps: int) -> tuple[Floats, float]:
        """What becomes of the modes in values (S,) after so many steps, and how far P^steps values may be from that."""
        if not len(self.factors):
            return np.zeros(len(values)), float(np.abs(values).max())
        shares = self.inverse @ values
        k = len(self.factors)
        b = shares[:k] + 1j * shares[k:]
        lasting = np.minimum(steps, 1.0 / np.maximum(1.0 - np.abs(self.factors), 1.0 / steps))
        left = np.abs(values - self.columns @ shares).max() + np.abs(b) @ (self.missed * lasting)
        return (self.vectors @ (b * self.factors**steps)).real, float(left)


def _limits(law: Floats, cycles: list[tuple[Ints, int, Ints]], h: Floats, t: int) -> Floats:
    """What P^(t + n d) h tends to in recurrent states: the mean over the cyclic class that is t steps ahead."""
    limit = np.zeros(len(h))
    for states, d, phase in cycles:
        means = d * np.bincount(phase, law[states] * h[states], d)
        limit[states] = means[(phase + t) % d]
    return limit
