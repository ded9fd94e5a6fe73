"""What the learners are held against in a model: its optimal, fast and safe policies, and its structure.

optimal   least c_0 within the limits
fast      least c_0 without limits; among those, least auxiliary cost
safe      least c_0 among the policies with the least auxiliary costs (every limit lowered by the Slater margin)
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from psconrl import CMDP, structure
from psconrl.environments import make
from psconrl.planning import evaluate, solve
from reproduction import Floats

_SLACK = 1e-9
"""How far the limits stay above the least possible, so that rounding does not make them infeasible."""


Options = tuple[tuple[str, Any], ...]
"""Options of an environment as sorted pairs, so that models can be kept by them."""


@dataclass(frozen=True, eq=False)
class Levels:
    """Exact average costs (m + 1,) of the three policies, and the policies (S, A)."""

    optimal: Floats
    fast: Floats
    safe: Floats
    optimal_policy: Floats
    fast_policy: Floats
    safe_policy: Floats


@dataclass(frozen=True)
class Structure:
    """Sizes and times of a model: diameter D; hitting time and bound on the cover time of the uniform policy."""

    S: int
    A: int
    communicating: bool
    diameter: float
    uniform_hitting: float
    uniform_cover: float
    margin: float
    randomised: int
    binding: bool
    mixed_hitting: tuple[float, float]


MIXTURES = (1e-2, 1e-4)
"""Weights of the uniform policy beside the optimal one, for `Structure.mixed_hitting`."""


@lru_cache(maxsize=64)
def model(env: str, options: Options = ()) -> CMDP:
    """The environment with options given as sorted pairs."""
    return make(env, **dict(options))


@lru_cache(maxsize=64)
def levels(env: str, options: Options = ()) -> Levels:
    """The averages of the optimal, the fast and the safe policy."""
    cmdp = model(env, options)

    optimal = solve(cmdp)
    least = solve(cmdp.replace(costs=cmdp.costs[:1], thresholds=(), cost_names=None)).value
    # The fast policy that spends least: the auxiliary costs are minimised, c_0 is held at its least.
    swapped = cmdp.replace(
        costs=np.concatenate([cmdp.costs[1:].sum(axis=0, keepdims=True), cmdp.costs[:1]]),
        thresholds=[least + _SLACK],
        cost_names=None,
    )
    fast = solve(swapped)
    safe = solve(cmdp.replace(thresholds=cmdp.thresholds - optimal.margin + _SLACK))
    return Levels(
        optimal.average_costs,
        _averages(cmdp, fast.policy),
        safe.average_costs,
        optimal.policy,
        fast.policy,
        safe.policy,
    )


@lru_cache(maxsize=256)
def structure_of(env: str, options: Options = ()) -> Structure:
    """Sizes and times of a model."""
    cmdp = model(env, options)

    solution = solve(cmdp)
    uniform = cmdp.uniform
    visited = solution.occupancy.sum(axis=1) > 1e-9
    mixed = [(1 - e) * solution.policy + e * uniform for e in MIXTURES]
    return Structure(
        S=cmdp.S,
        A=cmdp.A,
        communicating=structure.communicating(cmdp),
        diameter=structure.diameter(cmdp),
        uniform_hitting=float(structure.hitting_times(cmdp, uniform).max()),
        uniform_cover=structure.cover_time_bound(cmdp, uniform),
        margin=float(solution.margin),
        randomised=int(((solution.policy > 1e-6).sum(axis=1) > 1)[visited].sum()),
        binding=bool((solution.multipliers > 1e-9).any()),
        mixed_hitting=tuple(float(structure.hitting_times(cmdp, pi).max()) for pi in mixed),  # type: ignore[arg-type]
    )


def _averages(cmdp: CMDP, policy: Floats) -> Floats:
    averages = evaluate(cmdp, policy).average_costs
    return np.asarray(averages @ cmdp.initial)
