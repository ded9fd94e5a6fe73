"""Any CMDP as a Gymnasium environment, and costs for any Gymnasium environment.

    env = gymnasium.make("psconrl/Marsrover4x4-v0", slip=0.1)
    observation, reward, terminated, truncated, info = env.step(action)

Observations and actions are numbers from 0. The reward is minus the main cost; info["main_cost"] is that cost and
info["cost"] the auxiliary ones: a number if there is one limit, else an array (m,). The task has no end: it never
terminates, and is truncated only if `gymnasium.make` is given max_episode_steps.

Where states have different actions, info["action_mask"] of reset and step says which the present one has, as
`env.action_space.sample(mask)` takes it; another one is refused.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from pathlib import Path
from typing import Any, SupportsFloat

import gymnasium
import numpy as np
from gymnasium.spaces import Discrete
from numpy.typing import NDArray

from psconrl._core import checks
from psconrl._core.checks import Floats, short_repr, whole
from psconrl.cmdp import CMDP
from psconrl.environments import find_model, frames
from psconrl.errors import InvalidArgumentError, InvalidTypeError, PsconrlError
from psconrl.gymnasium_ids import register_if_loaded
from psconrl.gymnasium_table import CostFunction, as_many_as_taken

Table = dict[int, dict[int, list[tuple[float, int, float, bool]]]]


class ResetNeededError(PsconrlError, gymnasium.error.ResetNeeded):
    """A step or a picture of an environment that was not reset."""


class CMDPEnv(gymnasium.Env[Any, Any]):
    """A CMDP as a Gymnasium environment.

    Args:
        model: a CMDP, the name of an environment, or a model file.
        render_mode: None, "ansi" (text) or "rgb_array" (pixels).
        options: of the named environment, as in `psconrl.make`.

    Attributes:
        cmdp: the model. thresholds: its limits (m,).
        P: the table P[s][a] = [(probability, next state, reward, False), ...] of Gymnasium's toy environments, made
            when first used, of the actions that are available. initial_state_distrib: the start law.
    """

    metadata: dict[str, Any] = {"render_modes": ["ansi", "rgb_array"], "render_fps": 4}  # noqa: RUF012 (as Gymnasium has it)

    def __init__(self, model: CMDP | str | Path, *, render_mode: str | None = None, **options: Any) -> None:
        if render_mode is not None and not (
            isinstance(render_mode, str) and render_mode in self.metadata["render_modes"]
        ):
            modes = ", ".join(map(repr, self.metadata["render_modes"]))
            raise InvalidArgumentError(f"render_mode is {short_repr(render_mode)}; it must be None or one of {modes}")
        self.cmdp = find_model(model, **options)
        self.render_mode = render_mode
        self.observation_space = Discrete(self.cmdp.S)
        self.action_space = Discrete(self.cmdp.A)
        self._move_costs = self.cmdp.to_sparse().move_costs
        self._start = _Row(_sums(self.cmdp.initial), list(range(self.cmdp.S)), [()] * self.cmdp.S)
        self._rows: dict[int, _Row] = {}
        self._state: int | None = None
        self._last: tuple[int, tuple[float, ...]] | None = None

    @property
    def thresholds(self) -> Floats:
        """The limits of the auxiliary costs, (m,)."""
        return self.cmdp.thresholds

    @property
    def initial_state_distrib(self) -> Floats:
        """The law of the first state, (S,)."""
        return self.cmdp.initial

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[int, dict[str, Any]]:
        """Start anew, from the model's start law."""
        super().reset(seed=None if seed is None else whole(seed, "seed", 0, most=None))
        self._state, _ = self._start.drawn(self.np_random)
        self._last = None
        return self._state, self._mask()

    def step(self, action: int) -> tuple[int, SupportsFloat, bool, bool, dict[str, Any]]:
        """Make one move; it never ends the task."""
        if self._state is None:
            raise ResetNeededError("call reset() before the first step()")
        if not self.action_space.contains(action):
            raise InvalidArgumentError(f"action is {short_repr(action)}; it must be one of 0, ..., {self.cmdp.A - 1}")
        s, a = self._state, int(action)
        if not self.cmdp.available[s, a]:
            names = self.cmdp.state_names[s], self.cmdp.action_names[a]
            raise InvalidArgumentError(f"{checks.unavailable(*names)}; take one of info['action_mask']")
        row = s * self.cmdp.A + a
        if row not in self._rows:
            self._rows[row] = _Row.of(self.cmdp, self._move_costs, row)
        self._state, costs = self._rows[row].drawn(self.np_random)
        self._last = a, costs
        main, *auxiliary = costs
        info = {"main_cost": main, "cost": auxiliary[0] if self.cmdp.m == 1 else np.array(auxiliary)}
        return self._state, 0.0 - main, False, False, info | self._mask()

    def _mask(self) -> dict[str, Any]:
        """What info says about the actions of the present state."""
        if self.cmdp.pairs.every:
            return {}
        return {"action_mask": self.cmdp.available[self._state].astype(np.int8)}

    def render(self) -> str | NDArray[np.uint8] | None:
        """The present state, as text or pixels."""
        if self.render_mode is None:
            gymnasium.logger.warn('render() needs a render_mode, "ansi" or "rgb_array", when the environment is made')
            return None
        if self._state is None:
            raise ResetNeededError("call reset() before render()")
        if self.render_mode == "ansi":
            return frames.text(self.cmdp, self._state, self._remark())
        return frames.pixels(self.cmdp, self._state)

    def _remark(self) -> str:
        """What happened last."""
        if self._last is None:
            return ""
        action, costs = self._last
        charged = ", ".join(f"{name} {c:g}" for name, c in zip(self.cmdp.cost_names, costs, strict=True))
        return f"after {self.cmdp.action_names[action]}: {charged}"

    @cached_property
    def P(self) -> Table:
        """The transitions as a table of lists; the reward is minus the main cost."""
        matrix, A = self.cmdp.matrix, self.cmdp.A
        table: Table = {s: {} for s in range(self.cmdp.S)}
        for row in self.cmdp.pairs.numbers.tolist():
            s, a = divmod(row, A)
            table[s][a] = [
                (
                    float(matrix.data[k]),
                    int(matrix.indices[k]),
                    0.0 - float(self.cmdp.costs[0, s, a] if self._move_costs is None else self._move_costs[0, k]),
                    False,
                )
                for k in range(matrix.indptr[row], matrix.indptr[row + 1])
            ]
        return table


@dataclass(frozen=True)
class _Row:
    """The moves of a pair (s, a) as lists, which are faster than arrays for one draw: running sums of the
    probabilities, next states and costs."""

    until: list[float]
    targets: list[int]
    costs: list[tuple[float, ...]]

    @staticmethod
    def of(cmdp: CMDP, move_costs: Floats | None, row: int) -> _Row:
        entries = slice(*cmdp.matrix.indptr[row : row + 2])
        targets = cmdp.matrix.indices[entries].tolist()
        if move_costs is None:
            costs = [tuple(cmdp.costs[:, row // cmdp.A, row % cmdp.A].tolist())] * len(targets)
        else:
            costs = [tuple(move) for move in move_costs[:, entries].T.tolist()]
        return _Row(_sums(cmdp.matrix.data[entries]), targets, costs)

    def drawn(self, rng: np.random.Generator) -> tuple[int, tuple[float, ...]]:
        """The next state of a random move, and its costs."""
        k = min(bisect_right(self.until, rng.random() * self.until[-1]), len(self.until) - 1)
        return self.targets[k], self.costs[k]


def _sums(law: Floats) -> list[float]:
    return list(accumulate(law.tolist()))


class AddCosts(gymnasium.Wrapper[Any, Any, Any, Any], gymnasium.utils.RecordConstructorArgs):
    """Puts info["cost"] into every step of an environment.

    Args:
        env: any environment.
        costs: costs(observation, action, next_observation, reward, terminated, info) -> a number, or m numbers; a
            function with fewer parameters gets the first of them.
        thresholds: the limits that go with the costs, for whoever asks `env.get_wrapper_attr("thresholds")`.

    >>> import gymnasium
    >>> lake = gymnasium.make("FrozenLake-v1", is_slippery=False)
    >>> env = AddCosts(lake, lambda s, a, x: x in (5, 7, 11, 12))  # a hole in the ice
    >>> _ = env.reset(seed=0)
    >>> [env.step(action)[4]["cost"] for action in (2, 1)]
    [0.0, 1.0]
    """

    adds_costs = True

    def __init__(self, env: gymnasium.Env[Any, Any], costs: CostFunction, thresholds: Any = ()) -> None:
        if not isinstance(env, gymnasium.Env):
            raise InvalidTypeError(f"env is {short_repr(env)}; it must be a Gymnasium environment")
        taken = as_many_as_taken(costs, 6)
        tau = checks.thresholds(np.atleast_1d(checks.numbers(thresholds, "thresholds")))
        gymnasium.utils.RecordConstructorArgs.__init__(self, costs=costs, thresholds=thresholds)
        super().__init__(env)
        self.costs, self.thresholds = taken, tau
        self._observation: Any = None

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Start anew; nothing is charged."""
        self._observation, info = self.env.reset(seed=seed, options=options)
        return self._observation, info

    def step(self, action: Any) -> tuple[Any, SupportsFloat, bool, bool, dict[str, Any]]:
        """Make one move and charge it."""
        before = self._observation
        self._observation, reward, terminated, truncated, info = self.env.step(action)
        info["cost"] = self.cost(before, action, self._observation, reward, terminated, info)
        return self._observation, reward, terminated, truncated, info

    def cost(self, *step: Any) -> float | Floats:
        """What a move costs: a number, or an array."""
        charged = checks.numbers(self.costs(*step), "costs(...)")
        return float(charged) if charged.ndim == 0 else charged


register_if_loaded()
