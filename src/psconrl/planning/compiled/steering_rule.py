"""The rule of steering, step by step; `psconrl.planning.steered` has the mathematics and the data."""

import math

import numpy as np

from psconrl._core.checks import Floats
from psconrl._core.njit import njit, njit_inline
from psconrl.planning.steered import FREE, Steered
from psconrl.planning.tolerances import NOISE


@njit_inline
def correction(steered: Steered, f: int, excess: Floats) -> float:
    """By how much way f would correct the excess (m,)."""
    total = 0.0
    for i in range(len(excess)):
        if steered.binding[i] or excess[i] > 0.0:
            total -= excess[i] * steered.directions[f, i]
    return total


@njit_inline
def heading(steered: Steered, excess: Floats, band: float, forced: int) -> int:
    """The way to be forced from now on, FREE if there is none; `forced`: the one so far."""
    own = 0.0
    if forced >= 0:
        own = correction(steered, forced, excess)
        if own <= steered.levels[forced, 1] * band:
            forced, own = FREE, 0.0
    best, most = forced, own + band if forced >= 0 else 0.0
    for f in range(len(steered.ways)):
        corrected = correction(steered, f, excess)
        if corrected > most and corrected > steered.levels[f, 0] * band:
            best, most = f, corrected
    return best


@njit_inline
def best_column(steered: Steered, excess: Floats, s: int) -> int:
    """The column of least score, of those that come to state s, or of all if s is -1; FREE if there is none."""
    best, least = FREE, np.inf
    for k in range(len(steered.actions)):
        if s < 0 or steered.actions[k, s] >= 0:
            score = 0.0
            for i in range(len(excess)):
                if steered.binding[i] or excess[i] > 0.0:
                    score += excess[i] * steered.drifts[k, i]
            if score < least - NOISE:  # rounding decides nothing where excesses are zero
                best, least = k, score
    return best


@njit_inline
def chosen(steered: Steered, excess: Floats, acting: int, s: int) -> int:
    """The action in state s; -1 where the stationary policy acts."""
    count = len(steered.actions)
    if acting >= count:
        return int(steered.ways[acting - count, s])
    if acting < 0 or steered.actions[acting, s] < 0:
        acting = best_column(steered, excess, s)
    return int(steered.actions[acting, s]) if acting >= 0 else -1


@njit_inline
def settle(steered: Steered, excess: Floats, acting: int, t: int) -> int:
    """Raise the excess (m,) after t steps to its floor; the column or way that acts from now on."""
    band = math.sqrt(steered.slope * t)
    for i in range(len(excess)):
        excess[i] = max(excess[i], -band)
    count = len(steered.actions)
    way = heading(steered, excess, band, max(acting - count, FREE))
    if way != FREE:
        return count + way
    if len(excess) < 2:
        return FREE
    if 0 <= acting < count and _decisions(steered, t) == _decisions(steered, t - 1):
        return acting
    return best_column(steered, excess, -1)


@njit_inline
def _decisions(steered: Steered, t: int) -> int:
    """How many columns were chosen by step t: one in about sqrt(slope t) / k steps."""
    return int(2.0 * len(steered.actions) * math.sqrt(t / steered.slope))


@njit
def take_over(steered: Steered, excess: Floats, direction: Floats, t: int) -> int:
    """What is to act in a new plan after t steps: first the way that goes on most in a direction (m,)."""
    best, most = FREE, 0.0
    for f in range(len(steered.ways)):
        alike = 0.0
        for i in range(len(direction)):
            alike += direction[i] * steered.directions[f, i]
        if alike > most:
            best, most = len(steered.actions) + f, alike
    return settle(steered, excess, best, t)
