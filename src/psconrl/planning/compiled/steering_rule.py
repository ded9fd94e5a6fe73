"""The rule of steering, step by step; `psconrl.planning.steered` has the mathematics and the data."""

import math

import numpy as np

from psconrl._core.checks import Floats
from psconrl._core.njit import njit, njit_inline
from psconrl.planning.steered import FREE, Steered


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
def chosen(steered: Steered, excess: Floats, forced: int, s: int) -> int:
    """The action in state s; -1 where the stationary policy acts."""
    if forced >= 0:
        return int(steered.ways[forced, s])
    best, least = -1, np.inf
    for k in range(len(steered.actions)):
        a = steered.actions[k, s]
        if a >= 0:
            score = 0.0
            for i in range(len(excess)):
                if steered.binding[i] or excess[i] > 0.0:
                    score += excess[i] * steered.drifts[k, i]
            if score < least:
                best, least = a, score
    return best


@njit_inline
def settle(steered: Steered, excess: Floats, forced: int, t: int) -> int:
    """Raise the excess (m,) after t steps to its floor; the way to be forced from now on."""
    band = math.sqrt(steered.slope * t)
    for i in range(len(excess)):
        excess[i] = max(excess[i], -band)
    return heading(steered, excess, band, forced)


@njit
def take_over(steered: Steered, excess: Floats, direction: Floats, t: int) -> int:
    """The way that a new plan is to force after t steps: first the one that goes on most in a direction (m,)."""
    best, most = FREE, 0.0
    for f in range(len(steered.ways)):
        alike = 0.0
        for i in range(len(direction)):
            alike += direction[i] * steered.directions[f, i]
        if alike > most:
            best, most = f, alike
    return settle(steered, excess, best, t)


@njit
def act(steered: Steered, excess: Floats, forced: int, s: int) -> int:
    """`chosen`, for callers outside of compiled code."""
    return chosen(steered, excess, forced, s)


@njit
def after(steered: Steered, excess: Floats, forced: int, t: int) -> int:
    """`settle`, for callers outside of compiled code."""
    return settle(steered, excess, forced, t)


@njit
def sound(steered: Steered, A: int) -> bool:
    """Whether the numbers of a mixture make sense: actions below A, or -1, weights of one in all, all finite."""
    total, fine = 0.0, bool(0.0 <= steered.slope < np.inf) and len(steered.actions) > 0
    for k in range(len(steered.weights)):
        fine = fine and bool(steered.weights[k] >= 0.0)
        total += steered.weights[k]
    for actions in (steered.actions, steered.ways):
        for a in actions.flat:
            fine = fine and bool(-1 <= a < A)
    for numbers in (steered.drifts, steered.directions, steered.levels):
        for x in numbers.flat:
            fine = fine and bool(abs(x) < np.inf)
    for x in steered.limits:
        fine = fine and bool(abs(x) < np.inf)
    return bool(fine and abs(total - 1.0) < 1e-9)
