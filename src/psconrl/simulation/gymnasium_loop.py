"""An agent in a Gymnasium environment with discrete observations and actions."""

from __future__ import annotations

import math
import operator
from collections.abc import Mapping
from typing import Any

import numpy as np

from psconrl._checks import real, shown
from psconrl.agents.contract import Agent
from psconrl.cmdp import CMDP
from psconrl.errors import InvalidArgumentError, InvalidTypeError
from psconrl.gymnasium_table import CostFunction, move_costs
from psconrl.problem import Problem
from psconrl.simulation.learner import REASONS, Learner
from psconrl.simulation.run import Run, episode_columns
from psconrl.simulation.tabular import check_available, one_thread, optimum_level, time_grid


def learn(
    agent: Agent,
    env: Any,
    horizon: int,
    seed: int,
    *,
    costs: CostFunction | None = None,
    reward_range: tuple[float, float] | None = None,
    checkpoints: int | None = None,
    optimum: float | None = None,
) -> Run:
    """Run an agent in an environment for `horizon` steps.

    A step into a terminal state is recorded as one to the next start state, so that the episodic task becomes one
    without end, as in `CMDP.from_gymnasium`. A truncated step is recorded as it is; the reset after it is not.

    Args:
        agent: what learns; its problem must have as many states and actions as the environment.
        env: a Gymnasium environment with Discrete observation and action spaces.
        horizon: T. seed: chooses all random numbers of the run, the environment's too.
        costs: costs(s, a, s_next, reward, info) -> (c_0, ..., c_m) in [0, 1]; s_next is the terminal state, not the
            start. Without it: c_0 = (high - reward) / (high - low) and the others from info["cost"].
        reward_range: (low, high) of the rewards.
    """
    learner = Learner(agent, horizon, seed)
    problem = agent.problem
    world = _World(env, problem)
    charge = move_costs(costs, reward_range, problem.m)
    J = optimum_level(optimum)
    levels = np.append(J, problem.thresholds)
    grid = time_grid(horizon, checkpoints)
    curves, totals = np.full((2, problem.m + 1, len(grid)), np.nan), np.zeros((2, problem.m + 1))
    checkpoint = 0
    s = world.reset(seed=int(learner.environment.generator.integers(2**31)))
    # Two threads change the order of sums in linear algebra, and so the bits of the results.
    with one_thread():
        while learner.t < horizon:
            a = learner.act(s)
            x, reward, terminated, truncated, info = world.step(a)
            c = charge(s, a, x, reward, info)
            after = world.reset() if terminated or truncated else x
            learner.observe(s, a, c, after if terminated else x)
            s = after
            totals += np.stack([c, np.where(c > levels, c - levels, 0.0)])
            if learner.t == grid[checkpoint]:
                curves[:, :, checkpoint] = totals
                checkpoint += 1
    rows = list(learner.rows)
    if learner.current is not None:
        rows.append(learner._row(REASONS.index("horizon")))
    if math.isnan(J):
        curves[1, 0] = np.nan
    return Run(
        agent=agent.name,
        horizon=horizon,
        seed=seed,
        thresholds=problem.thresholds,
        optimum=J,
        grid=grid,
        cumulative=curves[0],
        cumulative_excess=curves[1],
        episodes=np.array(rows, episode_columns()),
        counts=learner.counts,
        snapshots=tuple(learner.snapshots),
        state={"learner": learner.state(), "totals": totals, "curves": curves},
    )


class _World:
    """An environment whose answers are checked: states and actions are numbers from 0."""

    def __init__(self, env: Any, problem: Problem) -> None:
        from gymnasium.spaces import Discrete

        if not all(hasattr(env, name) for name in ("observation_space", "action_space", "reset", "step")):
            raise InvalidTypeError(f"env is {shown(env)}; it must be a Gymnasium environment, as gymnasium.make gives")
        for what, size in (("observation", problem.S), ("action", problem.A)):
            space = getattr(env, f"{what}_space")
            if not isinstance(space, Discrete):
                raise InvalidArgumentError(f"the {what} space is {shown(space)}; learn needs discrete ones")
            if int(space.n) != size:
                raise InvalidArgumentError(
                    f"the {what} space has {space.n} elements, but the agent's problem has {size}; make the agent for "
                    f"Problem({env.observation_space.n}, {env.action_space.n}, thresholds)"
                )
        model = getattr(getattr(env, "unwrapped", env), "cmdp", None)
        if isinstance(model, CMDP):
            check_available(problem, model)
        self.env, self.S = env, problem.S
        self.first_state, self.first_action = int(env.observation_space.start), int(env.action_space.start)

    def reset(self, **options: Any) -> int:
        """The state in which it starts anew."""
        answer = self.env.reset(**options)
        if not isinstance(answer, tuple) or len(answer) != 2:
            raise InvalidArgumentError(f"env.reset() gave {shown(answer)}; it must give (observation, info)")
        return self._state(answer[0], "reset")

    def step(self, a: int) -> tuple[int, float, bool, bool, Mapping[str, Any]]:
        """Next state, reward, whether it is over, whether it was broken off, and what else there is to know."""
        answer = self.env.step(a + self.first_action)
        if not isinstance(answer, tuple) or len(answer) != 5:
            raise InvalidArgumentError(
                f"env.step() gave {shown(answer)}; it must give (observation, reward, terminated, truncated, info)"
            )
        observation, reward, terminated, truncated, info = answer
        number = real(reward, "the reward that env.step() gave", "a finite number", lambda x: True)
        if not isinstance(info, Mapping):
            raise InvalidArgumentError(f"env.step() gave info = {shown(info)}; it must be a dictionary")
        return self._state(observation, "step"), number, bool(terminated), bool(truncated), info

    def _state(self, observation: Any, call: str) -> int:
        try:
            s = operator.index(observation) - self.first_state
        except TypeError:
            s = -1
        if not 0 <= s < self.S:
            first = self.first_state
            raise InvalidArgumentError(
                f"env.{call}() gave the observation {shown(observation)}; it must be one of {first}, ..., "
                f"{first + self.S - 1}"
            )
        return s
