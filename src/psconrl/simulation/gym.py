"""An agent in a Gymnasium environment with discrete observations and actions."""

from __future__ import annotations

from typing import Any

import numpy as np

from psconrl.agents.contract import Agent
from psconrl.gymnasium_table import CostFunction, move_costs
from psconrl.simulation.learner import REASONS, Learner
from psconrl.simulation.run import Run, episode_columns
from psconrl.simulation.tabular import one_thread, time_grid


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
    from gymnasium.spaces import Discrete

    spaces = {
        "observation": (env.observation_space, agent.problem.S),
        "action": (env.action_space, agent.problem.A),
    }
    for what, (space, size) in spaces.items():
        if not isinstance(space, Discrete):
            raise ValueError(f"the {what} space is {space}; learn needs discrete ones")
        if int(space.n) != size:
            raise ValueError(f"the {what} space has {space.n} elements, but the agent's problem has {size}")
    offsets = [int(getattr(space, "start", 0)) for space, _ in spaces.values()]
    problem = agent.problem
    charge = move_costs(costs, reward_range, problem.m)
    learner = Learner(agent, horizon, seed)
    J = np.nan if optimum is None else float(optimum)
    levels = np.append(J, problem.thresholds)
    grid = time_grid(horizon, checkpoints)
    curves, totals = np.full((2, problem.m + 1, len(grid)), np.nan), np.zeros((2, problem.m + 1))
    checkpoint = 0
    observation, _ = env.reset(seed=int(learner.environment.generator.integers(2**31)))
    s = int(observation) - offsets[0]
    # Two threads change the order of sums in linear algebra, and so the bits of the results.
    with one_thread():
        while learner.t < horizon:
            a = learner.act(s)
            observation, reward, terminated, truncated, info = env.step(a + offsets[1])
            x = int(observation) - offsets[0]
            c = charge(s, a, x, float(reward), info)
            after = x
            if terminated or truncated:
                observation, _ = env.reset()
                after = int(observation) - offsets[0]
            learner.observe(s, a, c, after if terminated else x)
            s = after
            totals += np.stack([c, np.where(c > levels, c - levels, 0.0)])
            if learner.t == grid[checkpoint]:
                curves[:, :, checkpoint] = totals
                checkpoint += 1
    rows = list(learner.rows)
    if learner.current is not None:
        rows.append(learner.row(REASONS.index("horizon")))
    if optimum is None:
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
