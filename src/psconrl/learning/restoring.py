"""A learner brought into a state: each part is checked (`saved`), and held against the others."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from psconrl.agents.contract import Agent
from psconrl.learning import plans, saved
from psconrl.planning.steered import FREE

if TYPE_CHECKING:
    from psconrl.learning.learner import Learner

_PARTS = (
    *("agent", "states", "horizon", "seed", "streams", "counts", "spent", "visits", "cost_sums", "excess"),
    *("direction", "clock", "asked", "origin", "last_length", "carry", "rows", "episode", "snapshots", "plan"),
)
"""What a state has."""


def whole_state(state: Any, agent: Agent) -> Mapping[str, Any]:
    """A state that has all its parts, and belongs to the agent."""
    whole = saved.mapping(state, _PARTS)
    saved.belongs(whole["agent"], agent)
    return whole


def restore(learner: Learner, state: Mapping[str, Any]) -> None:
    """Bring a learner that has not begun into a state."""
    problem = learner.problem
    learner._discover(*saved.states(state["states"], problem.open))
    _streams(learner, state["streams"])
    _counts(learner, state)
    _clock(learner, state["clock"])
    S, A, m = len(learner.states), problem.A, problem.m
    learner.excess, learner.direction = (saved.finite(state[part], part, (m,)) for part in ("excess", "direction"))
    learner.origin = saved.integer(state["origin"], "origin", 0, max(S - 1, 0))
    learner.last_length = saved.integer(state["last_length"], "last_length", 1)
    learner.carry = saved.carry(state["carry"])
    learner.rows = saved.rows(state["rows"], m)
    learner.episode = saved.integer(state["episode"], "episode", len(learner.rows))
    learner.kept = saved.snapshots(state["snapshots"], S, A)
    if learner.kept:
        learner.newest = learner.kept.pop()
    _plan(learner, state["plan"])
    if state["asked"] is not None:
        learner.asked = _asked(learner, state["asked"])


def _streams(learner: Learner, given: Any) -> None:
    if not isinstance(given, (tuple, list)) or len(given) != 3:
        raise saved.refused("streams", "must be those of the environment, the actions and the planning")
    learner.environment.restore(given[0])
    learner.actions.restore(given[1])
    saved.generator(learner.planning, given[2])


def _counts(learner: Learner, state: Mapping[str, Any]) -> None:
    learner.visits = saved.array(state["visits"], "visits", np.int64, learner.pairs.available.shape)
    if learner.visits[~learner.pairs.available].any():
        raise saved.refused("visits", "has steps with actions that are not available")
    learner.cost_sums = saved.cost_sums(state["cost_sums"], learner.visits, learner.problem.m)
    known = learner.observed.spent.shape[1]
    learner.observed = saved.counts(state["counts"], learner.visits)
    learner.observed.spent = saved.spent(state["spent"], learner.observed, known)


def _clock(learner: Learner, given: Any) -> None:
    learner.clock = saved.array(given, "clock", np.int64, (5,))
    t, length, s, checkpoint, _ = learner.clock.tolist()
    if not (0 <= length <= t <= learner.horizon and 0 <= s < max(len(learner.states), 1) and checkpoint >= 0):
        raise saved.refused("clock", "does not fit the horizon and the states")
    if learner.visits.sum() > t:  # fewer where old steps are forgotten
        raise saved.refused("visits", f"adds up to more than the {t} steps done")


def _plan(learner: Learner, given: Any) -> None:
    """Take up the plan that was under way; where states were discovered since, it knows the first of them only."""
    plan, S = saved.plan(given), len(learner.states)
    ways = 0
    if plan is not None:
        shape: tuple[int, ...] = getattr(plan.policy, "shape", ())
        learner._adopt(plan, min(shape[1], S) if learner.problem.open and len(shape) == 3 else S)
        learner.orders = plans.extended(learner.orders, plan, learner.pairs)
        ways = 0 if plan.steered is None else len(plan.steered.ways)
    if not FREE <= learner.clock.item(4) < max(ways, FREE + 1):
        raise saved.refused("clock", "names a way of steering that the plan does not have")


def _asked(learner: Learner, pair: Any) -> tuple[int, int]:
    if learner.current is None or not isinstance(pair, (tuple, list)) or len(pair) != 2:
        raise saved.refused("asked", "must be a state and an action of a plan that is under way")
    s = saved.integer(pair[0], "asked", 0, len(learner.states) - 1)
    a = saved.integer(pair[1], "asked", 0, learner.problem.A - 1)
    learner._check_available(s, a)
    return s, a
