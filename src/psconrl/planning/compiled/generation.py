"""Generation of columns (Dantzig and Wolfe): the best mixture of behaviours that can be found one at a time.

A column is a behaviour with averages J (m + 1,), for instance a deterministic policy. The master program (`master`)
mixes those found so far; its prices lambda of the limits ask for the column with the least average of
c_0 + sum_i lambda_i c_i, which a *pricing oracle* finds, with a bound that holds for all columns:

    L(lambda) = min over columns of  J_0 + sum_i lambda_i (J_i - tau_i)     <=   the optimum, for every lambda >= 0

Generation ends when the master is within `close` of the best bound. While the columns found cannot meet the limits
together, prices without c_0 look for a column that changes that, or prove that there is none.

This frame serves every planner. What differs is the pricing oracle: policies of a model evaluated by inverses
(`parametric`), by sparse factors (`psconrl.planning.sparse_pricing`), component by component
(`psconrl.planning.components`), policies and models within a confidence set (`optimistic`), or for a number of steps
(`finite_horizon`). An oracle is a named tuple (compiled) or an object (then the frame runs as plain Python) with the
averages J (room, m + 1) of its columns and how many are `known` (1,); with it comes the function that prices.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from psconrl._core.checks import Floats
from psconrl._core.njit import njit, njit_inline
from psconrl.planning.compiled.master import (
    MARGIN,
    REACH,
    VALUE,
    Limits,
    Master,
    first_basis,
    leave_out_violation,
    solve_master,
)
from psconrl.planning.tolerances import FEASIBLE, MAX_ROUNDS, MAX_STRETCH, SOLVED

OPTIMAL, INFEASIBLE, FAILED = 0, 1, 2


class PricingProblem(NamedTuple):
    """What an oracle is asked: the column with the least main * J_0 + sum_i prices_i J_i.

    tau (m,): the limits. enough: a bound of that sum, less sum_i prices_i tau_i, with which all ends. close: bounds
    this near are equal. gap: how far the bounds were apart before.
    """

    prices: Floats
    main: float
    tau: Floats
    enough: float
    close: float
    gap: float


class PricingResult(NamedTuple):
    """What an oracle answers, having added columns.

    fine: False if it failed. bound: L at `multipliers` (m,), which need not be the prices asked for. hinted: whether
    `hint` (m,) should be asked for next.
    """

    fine: bool
    bound: float
    multipliers: Floats
    hinted: bool
    hint: Floats


class Optimum(NamedTuple):
    """The best mixture: OPTIMAL if it is known whether, and INFEASIBLE if the limits cannot be met.

    objective: the value, or minus the margin (in units of d); bound: proven, with multipliers (m,). master: basis,
    weights and prices of the master program; its basis names columns.
    """

    status: int
    objective: float
    bound: float
    multipliers: Floats
    master: Master


Price = Callable[[Any, PricingProblem], PricingResult]
"""The function that asks an oracle; compiled, if the frame is."""


@njit_inline
def generate(
    price: Price, oracle: Any, limits: Limits, goal: int, guess: Floats, close: float, halfway: bool = False
) -> Optimum:
    """The best mixture of an oracle's columns: for VALUE of least J_0 within the limits, for MARGIN the safest one.

    guess (m,): multipliers to price first, unless columns are known already. With VALUE it ends as soon as
    limits are proven out of reach. halfway: whether to ask for prices halfway between those of the master program and
    the best ones so far: with several limits the former swing from side to side. A quarter of the columns is saved, for
    more questions that bring nothing.
    """
    m = len(guess)
    master = Master(np.zeros(m + 1, dtype=np.int64), np.zeros(m + 1), np.zeros(m + 1))
    last = Master(np.zeros(m + 1, dtype=np.int64), np.zeros(m + 1), np.zeros(m + 1))
    tau, proof, prices, near = np.empty(m), np.empty(m), np.empty(m), np.empty(m)
    for i in range(m):
        near[i] = guess[i]
        tau[i] = limits.tau[i]
        proof[i] = prices[i] = guess[i]
    if goal == MARGIN:
        total = 0.0
        for i in range(m):
            total += guess[i] * limits.d[i]
        for i in range(m):
            proof[i] = prices[i] = guess[i] / total if total > 0.0 else 1.0 / (m * limits.d[i])
    relaxed = Limits(tau, limits.d)
    status, stage, based = FAILED, goal, False
    main = 1.0 if goal == VALUE else 0.0
    objective, bound, out_of_reach = np.inf, -np.inf, -np.inf
    up = down = 1.0
    trial = True
    hint, hinted = np.empty(m), False
    for _ in range(MAX_ROUNDS):
        before = oracle.known[0]
        if before == 0 or based:
            goal_bound = bound if stage != REACH else out_of_reach
            asked_for = based and (main == 1.0) == (stage == VALUE)
            enough = objective - close if asked_for else np.inf
            gap = objective - goal_bound if asked_for else np.inf
            result = price(oracle, PricingProblem(prices, main, tau, enough, close, gap))
            if not result.fine:
                break
            hinted = result.hinted
            for i in range(m):
                hint[i] = result.hint[i]
            if main == 1.0 or goal == MARGIN:
                if result.bound > bound:
                    bound = result.bound
                    for i in range(m):
                        proof[i] = result.multipliers[i]
            else:
                out_of_reach = max(out_of_reach, result.bound)
                if out_of_reach > FEASIBLE:
                    for i in range(m):
                        proof[i] = result.multipliers[i]
                    status = INFEASIBLE
                    break
        known = oracle.known[0]
        if known == 0:
            break
        if not based:
            stage = REACH if first_basis(oracle.J, known, relaxed, goal, master.basis) and goal == VALUE else goal
            based = True
        before_it = objective
        _copy(master, last)
        objective, sound = solve_master(oracle.J, known, relaxed, stage, master)
        if not sound and stage == goal and before_it < np.inf:
            # Columns that are nearly the same are too much for a simplex method: what was best without the last one
            # stays, with what is proved.
            _copy(last, master)
            objective, status = before_it, OPTIMAL
            break
        if sound and stage == REACH and objective <= 0.0:
            _copy(master, last)
            objective, sound = _from_reach(oracle.J, known, relaxed, goal, master)
            if not sound:
                objective, status = _settle_for(oracle.J, last, master), OPTIMAL
                break
            stage = VALUE
        if not sound:
            break
        if stage == goal and objective - bound <= close:
            status = OPTIMAL
            break
        if known == before and not trial and not hinted:
            if stage == REACH and objective <= FEASIBLE:
                # The limits can just be met, but for rounding; where that is no basis, with a little more room.
                _copy(master, last)
                for i in range(m):
                    tau[i] += objective * limits.d[i]
                objective, sound = _from_reach(oracle.J, known, relaxed, goal, master)
                if not sound:
                    _copy(last, master)
                    for i in range(m):
                        tau[i] += SOLVED * limits.d[i]
                    objective, sound = solve_master(oracle.J, known, relaxed, REACH, master)
                    if sound and objective <= 0.0:
                        objective, sound = _from_reach(oracle.J, known, relaxed, goal, master)
                    else:
                        sound = False
                if not sound:
                    objective, status = _settle_for(oracle.J, last, master), OPTIMAL
                    break
                stage, bound = VALUE, -np.inf
            else:
                # Nothing new: rounding is all that separates the bounds.
                status = OPTIMAL if stage == goal else FAILED
                break
        unpriced = stage == VALUE
        for i in range(m):
            unpriced = unpriced and master.prices[i] <= 0.0
        guessed = False
        for i in range(m):
            guessed = guessed or near[i] > 0.0
        if not guessed and main == 1.0:
            for i in range(m):
                near[i] = prices[i]
                guessed = guessed or near[i] > 0.0
        asked, main, trial, times = main, 1.0 if goal == VALUE else 0.0, True, 0.0
        if hinted:
            main = asked
            for i in range(m):
                prices[i] = hint[i]
        # One-sided columns say little about the multipliers: look near the guess before going to extremes.
        elif stage == REACH and up < MAX_STRETCH and guessed:
            up *= 4.0
            times = up
        elif unpriced and down < MAX_STRETCH and guessed:
            down *= 4.0
            times = 1.0 / down
        else:
            main = 1.0 if stage == VALUE else 0.0
            trial = halfway and m > 1 and stage == goal and bound > -np.inf and known > before
            for i in range(m):
                prices[i] = max(master.prices[i], 0.0)
                if trial:
                    prices[i] = 0.5 * (prices[i] + proof[i])
        for i in range(m if times > 0.0 else 0):
            prices[i] = times * near[i]
    return Optimum(status, objective, bound, proof, master)


@njit
def _copy(master: Master, into: Master) -> None:
    for i in range(len(master.basis)):
        into.basis[i], into.weights[i], into.prices[i] = master.basis[i], master.weights[i], master.prices[i]


@njit
def _from_reach(J: Floats, known: int, limits: Limits, goal: int, master: Master) -> tuple[float, bool]:
    """From a basis that meets the limits to the best one, as `solve_master`."""
    if not leave_out_violation(J, known, limits, master.basis):
        return np.nan, False
    return solve_master(J, known, limits, goal, master)


@njit
def _settle_for(J: Floats, last: Master, master: Master) -> float:
    """Go back to a mixture that meets the limits, where no basis is an ordinary one; what it costs."""
    _copy(last, master)
    total = 0.0
    for b in range(len(master.basis)):
        if master.basis[b] >= 0:
            total += master.weights[b] * J[master.basis[b], 0]
    return total


def plain_generate(
    price: Price, oracle: Any, limits: Limits, goal: int, guess: Floats, close: float, halfway: bool = False
) -> Optimum:
    """The same frame, uncompiled, for oracles that are Python objects."""
    return generate.py_func(price, oracle, limits, goal, guess, close, halfway)


__all__ = [
    "FAILED",
    "INFEASIBLE",
    "MARGIN",
    "OPTIMAL",
    "VALUE",
    "Limits",
    "Optimum",
    "PricingProblem",
    "PricingResult",
    "generate",
]
