"""An agent in a Gymnasium environment with discrete actions."""

from __future__ import annotations

import operator
from collections.abc import Hashable, Mapping
from typing import Any

import numpy as np

from psconrl._core.checks import hashable, real, short_repr
from psconrl.agents.contract import Agent
from psconrl.cmdp import CMDP
from psconrl.errors import InvalidArgumentError, InvalidTypeError
from psconrl.gymnasium_table import CostFunction, move_costs
from psconrl.learning.learner import Learner
from psconrl.learning.run import Run, episode_table
from psconrl.learning.simulation import CurveRecorder, check_available, make_run, one_thread
from psconrl.planning.solution import Solution
from psconrl.problem import Problem


def learn(
    agent: Agent | None,
    env: Any,
    horizon: int,
    seed: int,
    *,
    costs: CostFunction | None = None,
    reward_range: tuple[float, float] | None = None,
    checkpoints: int | None = None,
    optimum: float | Solution | None = None,
    problem: Problem | None = None,
) -> Run:
    """Run an agent in an environment for `horizon` steps.

    A step into a terminal state is recorded as one to the next start state, so that the episodic task becomes a
    continuing one, as in `CMDP.from_gymnasium`. A truncated step is recorded as it is; the reset after it is not.

    Args:
        agent: the agent; its problem must have as many actions as the environment, and as many states, or unknown ones:
            `Problem(None, A, thresholds)` takes any observations, arrays as tuples, and numbers them as they appear.
            None: the recommended agent for `problem`, or, without one, for the environment's sizes and its attribute
            `thresholds`, if it has one.
        env: a Gymnasium environment with a Discrete action space.
        horizon: T, the number of steps.
        seed: of all random numbers of the run, the environment's too.
        costs: costs(s, a, s_next, reward, info) -> (c_0, ..., c_m) in [0, 1], or in the ranges that the problem
            declares; s_next is the terminal state, not the start. Without it: c_0 = (high - reward) / (high - low), or
            -reward if the problem declares the ranges of costs, and the others from info["cost"].
        reward_range: (low, high) of the rewards.
        checkpoints: as in `simulate`.
        optimum: as in `simulate`.
        problem: instead of an agent, what is known of the environment.

    Returns:
        The curves of the run and one row per plan.

    Raises:
        InvalidArgumentError: if the agent's problem does not fit the environment, or this breaks Gymnasium's rules.
        InvalidTypeError: if `env` is not a Gymnasium environment.
    """
    adapter = _EnvironmentAdapter(env)
    learner = Learner(agent, horizon, seed, problem=adapter.problem() if agent is None and problem is None else problem)
    problem = learner.problem
    adapter.fit(problem)
    charge = move_costs(costs, reward_range, problem.m, problem.cost_ranges)
    recorder = CurveRecorder(optimum, problem.thresholds, horizon, checkpoints, None)
    s = adapter.reset(seed=int(learner.environment.generator.integers(2**31)))
    # Two threads change the order of sums in linear algebra, and so the bits of the results.
    with one_thread():
        while learner.t < horizon:
            name = adapter.name(s)
            answer = learner.act(name)
            a = learner.action_labels.find(answer, "a").number
            x, reward, terminated, truncated, info = adapter.step(a)
            c = charge(s, a, x, reward, info)
            after = adapter.reset() if terminated or truncated else x
            learner.observe(name, answer, c, adapter.name(after if terminated else x))
            s = after
            recorder.add(np.asarray(c), learner.t)
    return make_run(
        learner,
        recorder,
        episode_table(learner.episode_rows(), problem.m),
        counts=learner.counts,
        snapshots=tuple(learner.snapshots),
        state_names=learner.state_names,
        action_names=problem.action_names,
        state={"totals": recorder.totals, "curves": recorder.curves},
        truth=optimum if isinstance(optimum, Solution) else None,
    )


class _EnvironmentAdapter:
    """An environment whose answers are checked: actions are numbers from 0, states are too, or hashable values."""

    def __init__(self, env: Any) -> None:
        from gymnasium.spaces import Discrete

        if not all(hasattr(env, name) for name in ("observation_space", "action_space", "reset", "step")):
            raise InvalidTypeError(
                f"env is {short_repr(env)}; it must be a Gymnasium environment, as gymnasium.make gives"
            )
        if not isinstance(env.action_space, Discrete):
            raise InvalidArgumentError(f"the action space is {short_repr(env.action_space)}; learn needs discrete ones")
        self.env, self.A, self.first_action = env, int(env.action_space.n), int(env.action_space.start)
        self.S: int | None = None  # None: any observations
        self.first_state = 0
        if isinstance(env.observation_space, Discrete):
            self.S, self.first_state = int(env.observation_space.n), int(env.observation_space.start)
        self.names: tuple[Hashable, ...] | None = None
        model = getattr(getattr(env, "unwrapped", env), "cmdp", None)
        self.model = model if isinstance(model, CMDP) else None

    def problem(self) -> Problem:
        """What is known of the environment: its sizes, and its limits if it has some."""
        find = getattr(self.env, "get_wrapper_attr", None)
        try:
            thresholds = () if find is None else find("thresholds")
        except AttributeError:
            thresholds = ()
        if self.model is None or self.S != self.model.S:
            return Problem(self.S, self.A, thresholds)
        names = {"state_names": self.model.state_names, "action_names": self.model.action_names}
        return Problem(self.S, self.A, thresholds, available=self.model.available, **names)

    def fit(self, problem: Problem) -> None:
        """Refuse a problem that is not this environment's."""
        if problem.A != self.A:
            self._misfit("action", self.A, problem.A)
        if self.model is not None and self.S == self.model.S:
            check_available(problem, self.model, range(self.S))
        if problem.open:
            self.S, self.first_state = None, 0
        elif self.S is None:
            raise InvalidArgumentError(
                f"the observation space is {short_repr(self.env.observation_space)}; learn needs discrete ones, or "
                "an agent "
                f"for Problem(None, {self.A}, thresholds), which discovers its states"
            )
        elif problem.S != self.S:
            self._misfit("observation", self.S, problem.S)
        self.names = problem.state_names

    def _misfit(self, what: str, found: int, wanted: int) -> None:
        raise InvalidArgumentError(
            f"the {what} space has {found} elements, but the agent's problem has {wanted}; make the agent for "
            f"Problem({self.S}, {self.A}, thresholds)"
        )

    def name(self, s: Any) -> Any:
        """What the learner calls a state."""
        return s if self.names is None else self.names[s]

    def reset(self, **options: Any) -> Any:
        """The state in which it starts anew."""
        answer = self.env.reset(**options)
        if not isinstance(answer, tuple) or len(answer) != 2:
            raise InvalidArgumentError(f"env.reset() gave {short_repr(answer)}; it must give (observation, info)")
        return self._state(answer[0], "reset")

    def step(self, a: int) -> tuple[Any, float, bool, bool, Mapping[str, Any]]:
        """Next state, reward, whether it is over, whether it was broken off, and what else there is to know."""
        answer = self.env.step(a + self.first_action)
        if not isinstance(answer, tuple) or len(answer) != 5:
            raise InvalidArgumentError(
                f"env.step() gave {short_repr(answer)}; it must give (observation, reward, terminated, truncated, info)"
            )
        observation, reward, terminated, truncated, info = answer
        number = real(reward, "the reward that env.step() gave", "a finite number", lambda x: True)
        if not isinstance(info, Mapping):
            raise InvalidArgumentError(f"env.step() gave info = {short_repr(info)}; it must be a dictionary")
        return self._state(observation, "step"), number, bool(terminated), bool(truncated), info

    def _state(self, observation: Any, call: str) -> Any:
        if self.S is None:
            return hashable(_frozen(observation), f"the observation that env.{call}() gave")
        try:
            s = operator.index(observation) - self.first_state
        except TypeError:
            s = -1
        if not 0 <= s < self.S:
            first = self.first_state
            raise InvalidArgumentError(
                f"env.{call}() gave the observation {short_repr(observation)}; it must be one of {first}, ..., "
                f"{first + self.S - 1}"
            )
        return s


def _frozen(observation: Any) -> Any:
    """An observation as something hashable: arrays and lists as tuples, tables as tuples of their items."""
    if isinstance(observation, np.ndarray):
        observation = observation.tolist()
    if isinstance(observation, (list, tuple)):
        return tuple(_frozen(part) for part in observation)
    if isinstance(observation, Mapping):
        return tuple((name, _frozen(part)) for name, part in observation.items())
    return observation
