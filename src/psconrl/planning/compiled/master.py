"""The best mixture of a few columns: the master program, by the simplex method.

With averages J (m + 1,) of each column k, weights w_k >= 0, slacks, and a violation v with coefficients d_i > 0,

    min  sum_k w_k J_0   or   min v     s.t.   sum_k w_k J_i - d_i v + slack_i = tau_i  (i = 1..m),   sum_k w_k = 1

A basis has m + 1 variables, named by numbers: column k is k, slack i is -i, v is -(m + 1). Its inverse is made
afresh at every step; m is small.
"""

from typing import NamedTuple

import numpy as np

from psconrl._core.checks import Floats, Ints
from psconrl._core.njit import njit
from psconrl.planning.tolerances import (
    CLOSE,
    DOUBTFUL,
    MAX_REPAIRS,
    MAX_ROUNDS,
    MAX_SEARCH,
    PIVOT,
    ROUNDED,
    SOLVED,
    SUPPORT,
)

VALUE = 0
"""Least J_0; v is not used."""
REACH = 1
"""Least v >= 0: a mixture that meets the limits."""
MARGIN = 2
"""Least v of any sign: minus the margin."""


class Limits(NamedTuple):
    """The right-hand sides tau (m,) of the limits, and the coefficients d (m,) of the violation in them."""

    tau: Floats
    d: Floats


class Master(NamedTuple):
    """Room for a master program: basis, weights of the basic variables, prices, all (m + 1,).

    prices: of the limits, >= 0 at the optimum, and, last, the least priced average sum_i prices_i J_i (plus J_0 for
    VALUE) that a new column must undercut.
    """

    basis: Ints
    weights: Floats
    prices: Floats


@njit
def first_basis(J: Floats, known: int, limits: Limits, goal: int, basis: Ints) -> bool:
    """Fill in the basis of the column with the least largest violation; whether it needs v."""
    m = len(limits.tau)
    best, at, least = 0, 0, np.inf
    for k in range(known):
        worst, where = -np.inf, 0
        for i in range(m):
            violation = (J[k, i + 1] - limits.tau[i]) / limits.d[i]
            if violation > worst:
                worst, where = violation, i
        if worst < least:
            best, at, least = k, where, worst
    for i in range(m):
        basis[i] = -(i + 1)
    basis[m] = best
    if goal == MARGIN or least > 0.0:
        basis[at] = -(m + 1)
        return True
    return False


@njit
def solve_master(J: Floats, known: int, limits: Limits, goal: int, master: Master) -> tuple[float, bool]:
    """The least objective from a feasible basis, which is changed; False if the method broke down."""
    m = len(limits.tau)
    n = m + 1
    basis, weights, prices = master
    inverse = np.empty((n, n))
    column = np.empty(n)
    direction = np.empty(n)
    for step in range(MAX_ROUNDS):
        if not _invert(J, limits.d, basis, inverse):
            return np.nan, False
        whole = 0.0
        for r in range(n):
            total = inverse[r, m]
            for i in range(m):
                total += inverse[r, i] * limits.tau[i]
            weights[r] = total
            whole += total if basis[r] >= 0 else 0.0
        if abs(whole - 1.0) > SOLVED:
            whole = _refine(J, limits, basis, inverse, weights)
        objective, lost = 0.0, 0.0
        for r in range(n):
            if not (goal == MARGIN and basis[r] == -n):
                lost = max(lost, -weights[r])
                weights[r] = max(weights[r], 0.0)
            objective += _cost(J, basis[r], m, goal) * weights[r]
        for i in range(n):
            total = 0.0
            for r in range(n):
                total += _cost(J, basis[r], m, goal) * inverse[r, i]
            prices[i] = total if i == m else -total
        entering, least = known, -SUPPORT if step < MAX_SEARCH else -CLOSE
        for name in range(-n if goal != VALUE else -m, known):
            reduced = _cost(J, name, m, goal)
            size = abs(reduced)
            if name >= 0:
                reduced -= prices[m]
                for i in range(m):
                    reduced += prices[i] * J[name, i + 1]
                    size += abs(prices[i] * J[name, i + 1])
            elif name == -n:
                for i in range(m):
                    reduced -= prices[i] * limits.d[i]
            else:
                reduced += prices[-name - 1]
            # Where prices are large, rounding is, too.
            if reduced < min(least, -ROUNDED * size) and not _basic(basis, name):
                entering, least = name, reduced
                if step >= MAX_SEARCH:
                    break
        if entering == known:
            return objective, lost <= DOUBTFUL and abs(whole - 1.0) <= DOUBTFUL
        _column(J, limits.d, entering, column)
        leaving, ratio = -1, np.inf
        for r in range(n):
            direction[r] = 0.0
            for i in range(n):
                direction[r] += inverse[r, i] * column[i]
            if goal == MARGIN and basis[r] == -n:
                direction[r] = 0.0
            if direction[r] > PIVOT:
                at = weights[r] / direction[r]
                # Of equals v leaves first, then the lowest name.
                if at < ratio or (at == ratio and basis[r] < basis[leaving]):
                    leaving, ratio = r, at
        if leaving < 0:
            return np.nan, False
        if direction[leaving] < DOUBTFUL and step < MAX_SEARCH:
            leaving = _surest(weights, direction)
        basis[leaving] = entering
    return np.nan, False


@njit
def _refine(J: Floats, limits: Limits, basis: Ints, inverse: Floats, weights: Floats) -> float:
    """Let weights (m + 1,), in place, satisfy the equations of a basis whose inverse has few digits; their sum."""
    n = len(basis)
    m, whole = n - 1, 0.0
    left, column = np.empty(n), np.empty(n)
    for _ in range(MAX_REPAIRS):
        for i in range(n):
            left[i] = 1.0 if i == m else limits.tau[i]
        for r in range(n):
            _column(J, limits.d, basis[r], column)
            for i in range(n):
                left[i] -= column[i] * weights[r]
        whole = 0.0
        for r in range(n):
            for i in range(n):
                weights[r] += inverse[r, i] * left[i]
            whole += weights[r] if basis[r] >= 0 else 0.0
    return whole


@njit
def _surest(weights: Floats, direction: Floats) -> int:
    """Of the rows that may leave, if weights (m + 1,) a little below zero are none, that with the largest pivot."""
    most = np.inf
    for r in range(len(weights)):
        if direction[r] > PIVOT:
            most = min(most, (weights[r] + PIVOT) / direction[r])
    best = -1
    for r in range(len(weights)):
        allowed = direction[r] > PIVOT and weights[r] / direction[r] <= most
        if allowed and (best < 0 or direction[r] > direction[best]):
            best = r
    return best


@njit
def leave_out_violation(J: Floats, known: int, limits: Limits, basis: Ints) -> bool:
    """Take v, at value zero, out of the basis; whether that was possible."""
    n = len(basis)
    row = -1
    for r in range(n):
        if basis[r] == -n:
            row = r
    if row < 0:
        return True
    inverse = np.empty((n, n))
    column = np.empty(n)
    if not _invert(J, limits.d, basis, inverse):
        return False
    best, size = known, 1e-9
    for name in range(1 - n, known):
        _column(J, limits.d, name, column)
        pivot = 0.0
        for i in range(n):
            pivot += inverse[row, i] * column[i]
        if abs(pivot) > size and not _basic(basis, name):
            best, size = name, abs(pivot)
    if best == known:
        return False
    basis[row] = best
    return True


@njit
def _basic(basis: Ints, name: int) -> bool:
    found = False
    for r in range(len(basis)):
        found = found or basis[r] == name
    return found


@njit
def _cost(J: Floats, name: int, m: int, goal: int) -> float:
    if goal == VALUE:
        return J[name, 0] if name >= 0 else 0.0
    return 1.0 if name == -(m + 1) else 0.0


@njit
def _column(J: Floats, d: Floats, name: int, column: Floats) -> None:
    """The coefficients (m + 1,) of a variable."""
    m = len(d)
    for i in range(m):
        if name >= 0:
            column[i] = J[name, i + 1]
        elif name == -(m + 1):
            column[i] = -d[i]
        else:
            column[i] = 1.0 if i == -name - 1 else 0.0
    column[m] = 1.0 if name >= 0 else 0.0


@njit
def _invert(J: Floats, d: Floats, basis: Ints, inverse: Floats) -> bool:
    """The inverse of the basis by Gauss-Jordan elimination; False if it is singular."""
    n = len(basis)
    B = np.empty((n, n))
    column = np.empty(n)
    for r in range(n):
        _column(J, d, basis[r], column)
        for i in range(n):
            B[i, r] = column[i]
            inverse[i, r] = 1.0 if i == r else 0.0
    for k in range(n):
        pivot = k
        for i in range(k + 1, n):
            if abs(B[i, k]) > abs(B[pivot, k]):
                pivot = i
        if abs(B[pivot, k]) < 1e-15:
            return False
        for j in range(n):
            B[k, j], B[pivot, j] = B[pivot, j], B[k, j]
            inverse[k, j], inverse[pivot, j] = inverse[pivot, j], inverse[k, j]
        by = 1.0 / B[k, k]
        for j in range(n):
            B[k, j] *= by
            inverse[k, j] *= by
        for i in range(n):
            factor = B[i, k]
            if i != k and factor != 0.0:
                for j in range(n):
                    B[i, j] -= factor * B[k, j]
                    inverse[i, j] -= factor * inverse[k, j]
    return True
