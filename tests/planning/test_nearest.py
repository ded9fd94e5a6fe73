"""The nearest limits that can be met: they can, and nothing below them can."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import psconrl
from psconrl import CMDP, nearest_limits, solve

STEP = 1e-5


def feasible(cmdp: CMDP, limits: Any) -> bool:
    return solve(cmdp.replace(thresholds=limits)).feasible


@pytest.mark.parametrize(
    ("service", "rejection", "moved"),
    [(0.1, 0.1, [True, False]), (0.3, 0.0, [False, True]), (0.1, 0.0, [True, True]), (0.6, 0.25, [False, False])],
)
def test_queue(service: float, rejection: float, moved: list[bool]) -> None:
    queue = psconrl.make("queue").replace(thresholds=[service, rejection])
    tau = queue.thresholds
    nearest = nearest_limits(queue)
    assert feasible(queue, nearest.together)
    assert (nearest.together > tau).tolist() == moved
    assert (nearest.together - tau).max() <= max(0.0, -solve(queue).margin) + STEP
    for i in range(2):
        if moved[i]:
            lower = nearest.together.copy()
            lower[i] -= STEP
            assert not feasible(queue, lower)
        changed = tau.copy()
        changed[i] = nearest.alone[i]
        if np.isfinite(nearest.alone[i]):
            assert feasible(queue, changed)
        else:
            changed[i] = 10.0
            assert not feasible(queue, changed)


@pytest.mark.parametrize("seed", range(4))
def test_limits_in_conflict_with_each_other(seed: int) -> None:
    """Each limit alone can be met, both cannot: what is saved on one is spent on the other."""
    rng = np.random.default_rng(seed)
    p = rng.dirichlet(np.ones(4), size=(4, 3))
    c = rng.random((4, 3))
    model = CMDP(p, [np.zeros((4, 3)), c, 1 - c], [0.4, 0.45])
    found = solve(model)
    assert found.conflict == (1, 2)
    nearest = nearest_limits(model, found)
    assert nearest.together - model.thresholds == pytest.approx([0.075, 0.075], abs=2e-6)
    assert nearest.alone == pytest.approx([0.55, 0.6], abs=2e-6)
    assert feasible(model, nearest.together)
    assert not feasible(model, nearest.together - [STEP, 0])
