"""What the compiled loop reads and updates: a plan, the model's moves, random numbers, statistics and curves.

Whatever an agent or a saved state says about a plan, `compile_plan` lets through only what a loop can execute safely.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from psconrl._core.checks import Floats, Ints, short_repr, whole
from psconrl._core.lazy import lazy_import
from psconrl._core.pairs import Pairs
from psconrl.agents.contract import FOREVER, Plan
from psconrl.errors import InvalidArgumentError, InvalidTypeError
from psconrl.planning.steered import Steered

kernels = lazy_import("psconrl.learning._kernels")  # they need the types below

BLOCK = 4096
"""Random numbers drawn at once."""


class CompiledPlan(NamedTuple):
    """A plan as the loop reads it: policy (L, S * A), cumulative over the actions of each state, count_limit (S, A).

    limits (m,): what the excess is counted from. steered: None for a plan that is not.
    """

    policy: Floats
    max_length: int
    count_limit: Ints
    limits: Floats
    steered: Steered | None


class Moves(NamedTuple):
    """A model by rows s * A + a, probabilities cumulative; costs (m + 1, rows) or, per move, (m + 1, entries)."""

    indptr: Ints
    indices: Ints
    cumulative: Floats
    costs: Floats
    per_move: bool


class RandomBuffers(NamedTuple):
    """Random numbers of the environment and the actions, and the position (1,) in each, which moves on."""

    environment: Floats
    actions: Floats
    environment_at: Ints
    actions_at: Ints


class Statistics(NamedTuple):
    """What a learner has observed, updated in place: counts (see `agents.counts`), visits (S, A), cost_sums
    (m + 1, S, A).

    excess (m,): sums of costs less limits, for steering. spent (capacity, n): sums of the first n costs of each move.
    """

    head: Ints
    link: Ints
    target: Ints
    number: Ints
    used: Ints
    visits: Ints
    cost_sums: Floats
    excess: Floats
    spent: Floats


class Curves(NamedTuple):
    """Totals (3, m + 1): costs, their excesses over levels (m + 1,), and peaks, the largest that costs less levels have
    been in all so far; curves (3, m + 1, G): the same at the times of the grid (G,)."""

    totals: Floats
    levels: Floats
    grid: Ints
    curves: Floats


def as_tuples(data: Any) -> Any:
    """The same as plain tuples: named ones take half a microsecond each to be recognised, at every call."""
    return tuple([as_tuples(part) if isinstance(part, tuple) else part for part in data])


class RandomStream:
    """Uniform numbers of a generator, the same as its `random()` gives one by one.

    buffer (BLOCK,) and position (1,) are what compiled loops read and move on; `ready` refills the buffer when it is
    used up.
    """

    def __init__(self, generator: np.random.Generator) -> None:
        self.generator = generator
        self.buffer: Floats = np.empty(BLOCK)
        self.position: Ints = np.array([BLOCK])
        self._block_start = generator.bit_generator.state

    def ready(self) -> None:
        """Make sure that there is a number to read."""
        if self.position[0] == BLOCK:
            self._block_start = self.generator.bit_generator.state
            self.generator.random(out=self.buffer)
            self.position[0] = 0

    def random(self) -> float:
        """The next number."""
        self.ready()
        self.position[0] += 1
        return float(self.buffer[self.position[0] - 1])

    def state(self) -> dict[str, Any]:
        """Where the stream is, as plain values."""
        position = int(self.position[0])
        return {
            "generator": self.generator.bit_generator.state if position == BLOCK else self._block_start,
            "at": position,
        }

    def seek(self, position: int) -> None:
        """Go to a position in the block that begins, or, for BLOCK, ended, where the generator is."""
        self.position[0] = BLOCK
        if position < BLOCK:
            self.ready()
            self.position[0] = position


def random_streams(seed: int) -> tuple[RandomStream, RandomStream, np.random.Generator]:
    """The three streams of a run: environment, actions, planning."""
    environment, actions, planning = (np.random.default_rng(child) for child in np.random.SeedSequence(seed).spawn(3))
    return RandomStream(environment), RandomStream(actions), planning


def compile_plan(
    plan: Plan, shape: tuple[int, int], pairs: Pairs, limits: Floats, unavailable: Callable[[int, int], str]
) -> CompiledPlan:
    """A plan as loops read it.

    Args:
        plan: what an agent, or a saved state, gave.
        shape: (S, A), the states that the plan knows, and the actions.
        pairs: the available actions of these states.
        limits: (m,), what the excess is counted from if the plan is not steered.
        unavailable: says in words that a state does not have an action.

    Raises:
        InvalidArgumentError: if the plan breaks the contract of `psconrl.agents.Plan`.
    """
    if not isinstance(plan, Plan):
        raise InvalidTypeError(f"plan() gave {short_repr(plan)}; it must give a psconrl.agents.Plan")
    S, A = shape
    policy = plan.policy
    fits = isinstance(policy, np.ndarray) and policy.ndim == 3 and policy.shape[1:] == (S, A) and len(policy) > 0
    if not fits or policy.dtype != np.float64:
        raise _misfit("Plan.policy", policy, f"float64 (L, S, A) with (S, A) = {(S, A)}")
    whole(plan.max_length, "Plan.max_length")
    count_limit = np.full((S, A), FOREVER) if plan.count_limit is None else plan.count_limit
    _check_array(count_limit, "Plan.count_limit", np.dtype(np.int64), (S, A))
    cumulative = np.empty((len(policy), S * A))
    if not kernels.cumulate_policy(policy, cumulative):
        raise InvalidArgumentError("Plan.policy has a row that is not a distribution over the actions")
    for name, values in (("multipliers", plan.multipliers), ("nearest", plan.nearest)):
        if values is not None:
            _check_array(values, f"Plan.{name}", np.dtype(np.float64), (len(limits),))
    if not pairs.every:
        wrong = np.argwhere((policy > 0) & ~pairs.available)
        if len(wrong):
            raise InvalidArgumentError(f"Plan.policy is wrong: {unavailable(*wrong[0, 1:].tolist())}")
    steered = None if plan.steered is None else _checked_steered(plan, pairs, len(limits), unavailable)
    counted_from = limits if steered is None else steered.limits
    return CompiledPlan(cumulative, plan.max_length, count_limit.copy(), counted_from, steered)


def _check_array(array: Any, what: str, kind: np.dtype[Any], shape: tuple[int, ...]) -> None:
    if not isinstance(array, np.ndarray) or array.shape != shape or array.dtype != kind:
        raise _misfit(what, array, f"{kind} {shape}, or None")


def _misfit(what: str, value: Any, rule: str) -> InvalidArgumentError:
    described = f"{value.dtype} {value.shape}" if isinstance(value, np.ndarray) else short_repr(value)
    return InvalidArgumentError(f"{what} is {described}; it must be {rule}")


def _checked_steered(plan: Plan, pairs: Pairs, m: int, unavailable: Callable[[int, int], str]) -> Steered:
    """The mixture of a plan, if compiled code may read it."""
    steered, (S, A) = plan.steered, pairs.available.shape
    if not isinstance(steered, Steered):
        raise InvalidTypeError(f"Plan.steered is {short_repr(steered)}; it must be a Steered or None")
    if len(plan.policy) != 1:
        raise InvalidArgumentError(f"Plan.policy has {len(plan.policy)} steps; only stationary ones can be steered")
    misfit = steered.misfit(S, m)
    if misfit:
        raise _misfit(f"Plan.steered.{misfit}", getattr(steered, misfit), f"an array that fits S = {S} and m = {m}")
    if not all(array.flags.carray for array in steered[:-1]):
        copies: dict[str, Any] = {name: np.array(getattr(steered, name), order="C") for name in Steered._fields[:-1]}
        steered = steered._replace(**copies)
    if not steered.is_sound(A):
        raise InvalidArgumentError(
            "Plan.steered must have a column, weights that sum to one, actions below A or -1, and finite numbers"
        )
    if not pairs.every:
        for actions in (*steered.actions, *steered.transfers):
            for s in np.flatnonzero((actions >= 0) & ~pairs.available[np.arange(S), actions]):
                raise InvalidArgumentError(f"Plan.steered is wrong: {unavailable(int(s), int(actions[s]))}")
    return steered


def extended_plan(compiled: CompiledPlan, plan: Plan, pairs: Pairs) -> CompiledPlan:
    """The same in more states, those of `pairs`: there uniformly, and to the first visit if it ends by counts."""
    known, (S, A) = len(compiled.count_limit), pairs.available.shape
    zeros = np.zeros((S - known, A), dtype=np.int64)
    uniform = np.empty((1, (S - known) * A))
    kernels.cumulate_policy(pairs.uniform[np.newaxis, known:].copy(), uniform)
    rows = np.broadcast_to(uniform, (len(compiled.policy), uniform.shape[1]))
    return compiled._replace(
        policy=np.concatenate([compiled.policy, rows], axis=1),
        count_limit=np.concatenate([compiled.count_limit, zeros + (FOREVER if plan.count_limit is None else 0)]),
        steered=None if compiled.steered is None else compiled.steered.extended(S - known),
    )
