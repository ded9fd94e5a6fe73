"""Small Gymnasium environments for the tests."""

from typing import Any

import gymnasium
from gymnasium.spaces import Discrete


class Corridor(gymnasium.Env[Any, Any]):
    """States 0, 1, 2, 3: action 1 goes right, action 0 stays; 3 is terminal; a run is truncated after `limit` steps.

    Starts are 0, 1, 0, 1, ... The reward is -1, and 0 into the terminal state. info: what the test wants to see.
    """

    observation_space = Discrete(4)
    action_space = Discrete(2)

    def __init__(self, limit: int = 1000, info: dict[str, Any] | None = None) -> None:
        self.limit, self.info = limit, {} if info is None else info
        self.resets, self.now, self.steps = 0, 0, 0
        self.seeds: list[int | None] = []
        self.log: list[tuple[int, int, int, bool, bool]] = []

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[int, dict[str, Any]]:
        self.seeds.append(seed)
        self.now, self.steps = self.resets % 2, 0
        self.resets += 1
        return self.now, {}

    def step(self, action: int) -> tuple[int, float, bool, bool, dict[str, Any]]:
        before = self.now
        self.now += int(action)
        self.steps += 1
        terminated = self.now == 3
        truncated = self.steps >= self.limit
        self.log.append((before, int(action), self.now, terminated, truncated))
        return self.now, 0.0 if terminated else -1.0, terminated, truncated, dict(self.info)


class Shifted(Corridor):
    """The same, with observations 10, ..., 13 and actions 5, 6."""

    observation_space = Discrete(4, start=10)
    action_space = Discrete(2, start=5)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[int, dict[str, Any]]:
        observation, info = super().reset(seed=seed, options=options)
        return observation + 10, info

    def step(self, action: int) -> tuple[int, float, bool, bool, dict[str, Any]]:
        observation, reward, terminated, truncated, info = super().step(action - 5)
        return observation + 10, reward, terminated, truncated, info
