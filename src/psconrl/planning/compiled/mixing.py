"""Chains that forget their start within some hundred moves, however much elimination would fill in: plain iteration.

All of it on a chain that leaves every state half of the time, I + D (P - I) with D = diag(pace): it has no periods, no
states that hold on to what they have, and x' (I - P) = 0 for x = D y if y is its law. Masses are only added, so that
even small ones come out with a small relative error. Convergence is not believed until the equations of the
bias hold: a chain that nearly falls apart looks converged long before it is.
"""

import math
from typing import NamedTuple

import numpy as np

from psconrl._core.checks import Bools, Floats
from psconrl._core.njit import njit
from psconrl.planning.compiled.elimination import Chain

_STEPS = 3000
_GLANCE = 100
"""So often convergence is looked at: if it would take more than the steps that are left, all of them are saved."""
_EPS = 2.0**-53
_TINY = 1e-300


class Iterate(NamedTuple):
    """What an iteration came to (S,), and whether it converged."""

    values: Floats
    converged: bool


@njit
def pace(chain: Chain) -> Floats:
    """With what each state's moves are multiplied (S,), so that it is left half of the time."""
    S = len(chain.indptr) - 1
    result = np.empty(S)
    for s in range(S):
        left = 0.0
        for e in range(chain.indptr[s], chain.indptr[s + 1]):
            left += chain.data[e] if chain.indices[e] != s else 0.0
        result[s] = 0.5 / max(left, _TINY)
    return result


@njit
def _hopeless(step: int, change: float, before: float, least: float) -> bool:
    """Whether a change that was `before` at the last glance would not fall to `least` in the steps that are left."""
    if not change < before:
        return True
    return math.log(change / least) * _GLANCE > math.log(before / change) * (_STEPS - step)


@njit
def spread(chain: Chain, mass: Floats, counted: Bools) -> Iterate:
    """Where a mass (S,) is after a long time, moving at the pace of each state; only counted states must converge."""
    S = len(mass)
    now, then, paces = mass.copy(), np.empty(S), pace(chain)
    before = np.inf
    for step in range(1, _STEPS + 1):
        for s in range(S):
            then[s] = 0.0
        for s in range(S):
            if now[s] > 0.0:
                left = 0.0
                for e in range(chain.indptr[s], chain.indptr[s + 1]):
                    if chain.indices[e] != s:
                        flow = paces[s] * chain.data[e]
                        left += flow
                        then[chain.indices[e]] += now[s] * flow
                then[s] += now[s] * (1.0 - left)
        change = 0.0
        for s in range(S):
            if counted[s] and then[s] > 1e-30:
                change = max(change, abs(then[s] - now[s]) / then[s])
        now, then = then, now
        if change <= 16 * _EPS:
            return Iterate(now, True)
        if step % _GLANCE == 0:
            if _hopeless(step, change, before, 16 * _EPS):
                break
            before = change
    return Iterate(now, False)


@njit
def settle(chain: Chain, amounts: Floats, start: Floats) -> Iterate:
    """The fixed point h = amounts + P h (S,) that is reached from a start (S,)."""
    S = len(amounts)
    now, then, paces = start.copy(), np.empty(S), pace(chain)
    before = np.inf
    for step in range(1, _STEPS + 1):
        change, size = 0.0, 0.0
        for s in range(S):
            left, absolute = amounts[s], abs(amounts[s])
            for e in range(chain.indptr[s], chain.indptr[s + 1]):
                flow = chain.data[e] * (now[chain.indices[e]] - now[s])
                left += flow
                absolute += abs(flow)
            then[s] = now[s] + paces[s] * left
            change, size = max(change, paces[s] * abs(left)), max(size, paces[s] * absolute)
        now, then = then, now
        if change <= 4 * _EPS * size:
            return Iterate(now, True)
        if step % _GLANCE == 0:
            if _hopeless(step, change, before, 4 * _EPS * size):
                # What is left may be rounding already.
                return Iterate(now, change <= 64 * _EPS * size)
            before = change
    return Iterate(now, False)
