"""Chains that forget their start within some hundred moves, however much elimination would fill in: plain iteration.

All of it on the lazy chain (I + P) / 2, which has the same law and averages and no periods. Masses are only added, so
that even small ones come out with a small relative error. Convergence is not believed until the equations of the
bias hold: a chain that nearly falls apart looks converged long before it is.
"""

from typing import NamedTuple

import numpy as np

from psconrl._core.checks import Floats
from psconrl._core.njit import njit
from psconrl.planning.compiled.elimination import Chain

_STEPS = 3000
_GLANCE = 100
"""So often convergence is looked at; progress by less than a factor of ten since then is too slow."""
_EPS = 2.0**-53


class Iterate(NamedTuple):
    """What an iteration came to (S,), and whether it converged."""

    values: Floats
    converged: bool


@njit
def spread(chain: Chain, mass: Floats) -> Iterate:
    """Where a mass (S,) is after a long time, on average."""
    S = len(mass)
    now, then = mass.copy(), np.empty(S)
    before = np.inf
    for step in range(1, _STEPS + 1):
        for s in range(S):
            then[s] = 0.0
        for s in range(S):
            if now[s] > 0.0:
                left = 0.0
                for e in range(chain.indptr[s], chain.indptr[s + 1]):
                    if chain.indices[e] != s:
                        left += chain.data[e]
                        then[chain.indices[e]] += 0.5 * now[s] * chain.data[e]
                then[s] += now[s] * (1.0 - 0.5 * left)
        change = 0.0
        for s in range(S):
            if then[s] > 1e-30:
                change = max(change, abs(then[s] - now[s]) / then[s])
        now, then = then, now
        if change <= 16 * _EPS:
            return Iterate(now, True)
        if step % _GLANCE == 0:
            if change > 0.1 * before:
                break
            before = change
    return Iterate(now, False)


@njit
def settle(chain: Chain, amounts: Floats, start: Floats) -> Iterate:
    """The fixed point h = amounts + P h (S,) that is reached from a start (S,)."""
    S = len(amounts)
    now, then = start.copy(), np.empty(S)
    before = np.inf
    for step in range(1, _STEPS + 1):
        change, size = 0.0, 0.0
        for s in range(S):
            left, absolute = amounts[s], abs(amounts[s])
            for e in range(chain.indptr[s], chain.indptr[s + 1]):
                flow = chain.data[e] * (now[chain.indices[e]] - now[s])
                left += flow
                absolute += abs(flow)
            then[s] = now[s] + 0.5 * left
            change, size = max(change, abs(left)), max(size, absolute)
        now, then = then, now
        if change <= 4 * _EPS * size:
            return Iterate(now, True)
        if step % _GLANCE == 0:
            if change > 0.1 * before:
                # What is left may be rounding already.
                return Iterate(now, change <= 64 * _EPS * size)
            before = change
    return Iterate(now, False)
