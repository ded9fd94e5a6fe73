"""Models and costs from Gymnasium environments.

Costs come from a user's function costs(s, a, s_next, reward, info) -> (c_0, c_1, ..., c_m), or, without one, from the
environment: c_1, ... from info["cost"], and c_0 = (high - reward) / (high - low) with reward_range = (low, high), or
info["main_cost"] if there is no reward_range.
A function with fewer parameters gets the first of them: costs(s, a, s_next), for instance.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike

from psconrl._core import checks
from psconrl._core.checks import Floats
from psconrl.cmdp import CMDP
from psconrl.errors import InvalidArgumentError, InvalidModelError

CostFunction = Callable[..., ArrayLike]
MoveCosts = Callable[[Any, int, Any, float, Mapping[str, Any]], Floats]


def move_costs(
    costs: CostFunction | None, reward_range: tuple[float, float] | None, m: int | None, ranges: Floats | None = None
) -> MoveCosts:
    """How a step is charged: (s, a, s_next, reward, info) -> (m + 1,); m None: as many as there are, whatever they are.

    ranges: of the costs, if they are not [0, 1]; minus the reward is a main cost then, too.
    """
    if costs is not None:
        given = as_many_as_taken(costs, 5)

        def charge_given(*step: Any) -> Floats:
            return _checked(np.atleast_1d(checks.numbers(given(*step), "costs(...)")), m, ranges, "costs(...)")

        return charge_given
    if reward_range is None:
        return _costs_in_info(m, ranges)
    low, high = _range(reward_range)

    def charge(s: Any, a: int, x: Any, reward: float, info: Mapping[str, Any]) -> Floats:
        if not low <= reward <= high:
            raise InvalidArgumentError(f"the reward {reward} lies outside reward_range {reward_range}")
        return _with_auxiliary((high - reward) / (high - low), info, m, ranges)

    return charge


def _range(given: Any) -> tuple[float, float]:
    try:
        low, high = (float(bound) for bound in given)
    except (TypeError, ValueError):
        raise InvalidArgumentError(
            f"reward_range is {checks.short_repr(given)}; it must be two numbers, (low, high)"
        ) from None
    if not low < high:
        raise InvalidArgumentError(f"reward_range is {given}; its first number must be below its second")
    return low, high


def _costs_in_info(m: int | None, ranges: Floats | None) -> MoveCosts:
    def charge(s: Any, a: int, x: Any, reward: float, info: Mapping[str, Any]) -> Floats:
        if "main_cost" not in info and ranges is not None:
            return _with_auxiliary(-reward, info, m, ranges)
        if "main_cost" not in info:
            raise InvalidArgumentError(
                "give costs, a function of a step, or reward_range=(low, high) to scale -reward to [0, 1]"
            )
        return _with_auxiliary(float(info["main_cost"]), info, m, ranges)

    return charge


def _with_auxiliary(main: float, info: Mapping[str, Any], m: int | None, ranges: Floats | None) -> Floats:
    auxiliary = np.atleast_1d(checks.numbers(info.get("cost", ()), 'info["cost"]'))
    return _checked(np.append(main, auxiliary), m, ranges, 'info["cost"]')


def as_many_as_taken(function: Callable[..., Any], most: int) -> Callable[..., Any]:
    """The function, called with as many of its first `most` arguments as it has parameters for."""
    if not callable(function):
        raise InvalidArgumentError(f"costs is {checks.short_repr(function)}; it must be a function of a step")
    try:
        parameters = inspect.signature(function).parameters.values()
    except ValueError:  # some that are built in do not say
        raise InvalidArgumentError(
            f"costs is {checks.short_repr(function)}; give a function written in Python"
        ) from None
    positional = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    variadic = any(p.kind == p.VAR_POSITIONAL for p in parameters)
    taken = most if variadic else min(len(positional), most)
    return lambda *arguments: function(*arguments[:taken])


def _checked(costs: Floats, m: int | None, ranges: Floats | None, what: str) -> Floats:
    if m is None:
        return costs
    if costs.shape != (m + 1,):
        raise InvalidArgumentError(
            f"{what} gives {costs.size} costs in all, main cost included; with {m} thresholds there must be {m + 1}"
        )
    low, high = (0.0, 1.0) if ranges is None else ranges.T
    bad = ~((costs >= low) & (costs <= high))
    if bad.any():
        raise InvalidArgumentError(f"{what} gives {costs}; {checks.range_rule(ranges, int(np.argmax(bad)))}")
    return costs


def from_table(
    env: Any,
    costs: CostFunction | None = None,
    thresholds: ArrayLike | Mapping[str, float] = (),
    reward_range: tuple[float, float] | None = None,
) -> CMDP:
    """The CMDP of an environment with a table `env.unwrapped.P[s][a] = [(p, s_next, reward, terminated), ...]`."""
    inner = getattr(env, "unwrapped", env)
    names = ["c0", *thresholds] if isinstance(thresholds, Mapping) and thresholds else None
    tau = checks.thresholds(thresholds, names)
    added = _added_costs(env)
    model = getattr(inner, "cmdp", None)
    if isinstance(model, CMDP) and costs is None and reward_range is None and added is None:
        return model if len(tau) == 0 else model.replace(thresholds=thresholds)
    table, S, A = _table(inner, env)
    law = _start_law(inner, env, S)
    if costs is None and reward_range is None:
        rewards = [r for outcomes in table.values() for _, _, r, _ in outcomes]
        low, high = min(rewards), max(rewards)
        reward_range = (low, high if high > low else low + 1.0)
    charge = move_costs(costs, reward_range, None)
    p: Floats = np.zeros((S, A, S))
    spent: Floats | None = None
    available = np.zeros((S, A), dtype=np.bool_)
    for (s, a), outcomes in table.items():
        available[s, a] = True
        for probability, x, reward, terminated in outcomes:
            info = {} if added is None else {"cost": added(s, a, x, reward, terminated, {})}
            c = charge(s, a, x, reward, info)
            if spent is None:
                spent = np.zeros((len(c), S, A, S))
            if len(c) != len(spent):
                raise InvalidModelError(f"the costs of state {s}, action {a} are {len(c)} numbers, not {len(spent)}")
            to = probability * (law if terminated else np.eye(1, S, x)[0])
            p[s, a] += to
            spent[:, s, a] += c[:, np.newaxis] * to
    assert spent is not None
    # Outcomes that end in the same state but cost differently are charged their mean.
    per_move = np.divide(spent, p, out=np.zeros_like(spent), where=p > 0)
    if len(tau) == 0 and added is not None:
        tau = env.get_wrapper_attr("thresholds")
    return CMDP(p, per_move, tau, initial=law, cost_names=names, available=available)


def _added_costs(env: Any) -> Callable[..., Any] | None:
    """The costs of the outermost `AddCosts` around the environment, if there is one."""
    while hasattr(env, "env"):
        if getattr(env, "adds_costs", False):
            return cast(Callable[..., Any], env.cost)
        env = env.env
    return None


Outcome = tuple[float, int, float, bool]


def _table(inner: Any, env: Any) -> tuple[dict[tuple[int, int], list[Outcome]], int, int]:
    """The outcomes of each pair (s, a) that is there, all looked at, and the numbers of states and actions."""
    given = getattr(inner, "P", None)
    if given is None:
        raise InvalidModelError(
            f"{checks.short_repr(env)} has no table of transitions env.unwrapped.P; build the arrays and call "
            "CMDP(...), "
            "or use learn"
        )
    try:
        S = len(given)
        moves = [given[s] if isinstance(given[s], Mapping) else dict(enumerate(given[s])) for s in range(S)]
        A = max(len({a for own in moves for a in own}), int(getattr(getattr(inner, "action_space", None), "n", 0)))
        table = {(s, a): [_outcome(o) for o in moves[s][a]] for s in range(S) for a in range(A) if a in moves[s]}
    except (TypeError, LookupError, ValueError, OverflowError) as error:
        raise InvalidModelError(
            "the table env.unwrapped.P must give for each state 0, 1, ... and each action that it has a list of "
            f"(probability, next state, reward, terminated); it does not: {error!r}"
        ) from error
    if len(table) < sum(map(len, moves)):
        s, a = next((s, a) for s in range(S) for a in moves[s] if (s, a) not in table)
        raise InvalidModelError(
            f"env.unwrapped.P[{s}] has the action {checks.short_repr(a)}; there are 0, ..., {A - 1}"
        )
    for (s, a), outcomes in table.items():
        for _, x, _, _ in outcomes:
            if not 0 <= x < S:
                raise InvalidModelError(f"env.unwrapped.P[{s}][{a}] leads to state {x}; there are {S} states")
        if not outcomes:
            raise InvalidModelError(f"env.unwrapped.P[{s}][{a}] is empty; an action must lead somewhere")
    return table, S, A


def _outcome(given: Any) -> Outcome:
    probability, x, reward, terminated = given
    return float(probability), int(x), float(reward), bool(terminated)


def _start_law(inner: Any, env: Any, S: int) -> Floats:
    law = getattr(inner, "initial_state_distrib", None)
    if law is None:
        raise InvalidModelError(
            f"{checks.short_repr(env)} does not say where it starts (env.unwrapped.initial_state_distrib)"
        )
    start = checks.numbers(law, "initial_state_distrib")
    if start.shape != (S,) or not (start >= 0).all() or not 0 < start.sum() < np.inf:
        raise InvalidModelError(f"env.unwrapped.initial_state_distrib must be a distribution over the {S} states")
    return np.asarray(start / start.sum())
