"""Models from functions: the states that can be reached are found by asking for actions and moves.

From the start states on, every new state is asked for its actions, and every action for its moves, breadth first, so
that nothing is built but what can be reached.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from scipy import sparse

from psconrl._core import checks
from psconrl._core.checks import Floats
from psconrl.cmdp import CMDP
from psconrl.errors import InvalidArgumentError, InvalidModelError, InvalidTypeError
from psconrl.io.tables import dense_if_small

PROGRESS_EVERY = 1000
"""States after which progress is told again."""


def from_function(
    initial: Any,
    actions: Callable[[Any], Iterable[Hashable]],
    step: Callable[[Any, Any], Iterable[tuple[float, Hashable, Any]]],
    thresholds: Any,
    cost_names: Any,
    max_states: int,
    progress: Callable[[int, int], None] | None,
) -> CMDP:
    """The model of two functions; see `psconrl.CMDP.from_function`."""
    max_states = checks.whole(max_states, "max_states")
    for name, given in (("actions", actions), ("step", step), ("progress", progress)):
        if not callable(given) and not (name == "progress" and given is None):
            raise InvalidTypeError(f"{name} is {checks.short_repr(given)}; it must be a function")
    if cost_names is None and isinstance(thresholds, Mapping):
        cost_names = ["c0", *thresholds]
    tau = checks.thresholds(thresholds, cost_names)
    if isinstance(initial, Mapping):
        start = {checks.hashable(state, "initial"): p for state, p in initial.items()}
        if not start:
            raise InvalidArgumentError("initial is empty; give a state, or probabilities of at least one")
    else:
        start = {checks.hashable(initial, "initial"): 1.0}
    number: dict[Hashable, int] = {state: s for s, state in enumerate(start)}
    action_number: dict[Hashable, int] = {}
    states = list(start)
    entries: list[tuple[int, int, int]] = []
    p: list[float] = []
    costs: list[Floats] = []
    for s, state in enumerate(states):  # grows on the way
        if progress is not None and s % PROGRESS_EVERY == 0:
            progress(s, len(states))
        offered = actions(state)
        offered = list(offered) if np.iterable(offered) else offered
        offered = checks.hashables(offered, f"actions({checks.short_repr(state)})")
        for action in offered:
            a = action_number.setdefault(action, len(action_number))
            where = f"step({checks.short_repr(state)}, {checks.short_repr(action)})"
            moves: dict[int, tuple[float, Floats]] = {}
            for probability, target, cost in _triples(step(state, action), where):
                paid = _cost(cost, len(tau) + 1, where)
                t = number.setdefault(target, len(states))
                if t == len(states):
                    if t == max_states:
                        raise InvalidArgumentError(
                            f"more than max_states = {max_states:,} states can be reached, {checks.short_repr(target)} "
                            "among them; leave out of a state what does not matter, or raise max_states"
                        )
                    states.append(target)
                before, so_far = moves.get(t, (0.0, np.zeros(len(tau) + 1)))
                moves[t] = before + probability, so_far + probability * paid
            total = sum(probability for probability, _ in moves.values())
            if not abs(total - 1.0) <= checks.ROW_TOLERANCE:
                raise InvalidModelError(f"the probabilities of {where} sum to {total:.10g}; they must sum to 1")
            for t, (probability, paid) in moves.items():
                entries.append((s, a, t))
                p.append(probability)
                costs.append(paid / probability)
    return _model(states, list(action_number), entries, p, costs, tau, list(start.values()), cost_names)


def _model(
    states: list[Any],
    actions: list[Any],
    entries: list[tuple[int, int, int]],
    p: list[float],
    costs: list[Floats],
    tau: Floats,
    start: list[float],
    cost_names: Any,
) -> CMDP:
    S, A = len(states), len(actions)
    s, a, t = np.array(entries, dtype=np.int64).T
    order = np.lexsort((t, s * A + a))
    rows = (s * A + a)[order]
    matrix = sparse.csr_array((np.array(p)[order], (rows, t[order])), shape=(S * A, S))
    available = np.zeros((S, A), dtype=np.bool_)
    available[s, a] = True
    by_move = np.array(costs)[order].T
    # Where all moves of each pair cost the same, costs belong to pairs.
    first = np.searchsorted(rows, rows)
    shared = bool((by_move == by_move[:, first]).all())
    mean: Floats = np.zeros((len(by_move), S * A))
    mean[:, rows] = by_move
    initial = np.append(start, np.zeros(S - len(start)))
    return dense_if_small(
        CMDP(
            matrix,
            mean.reshape(-1, S, A) if shared else by_move,
            tau,
            initial=initial,
            state_names=distinct_texts(states),
            action_names=distinct_texts(actions),
            cost_names=cost_names,
            available=available,
        )
    )


def distinct_texts(names: Sequence[Any]) -> list[str]:
    """Names as texts, told apart as their values are."""
    texts = [str(name) for name in names]
    return texts if len(set(texts)) == len(texts) else [repr(name) for name in names]


def _triples(moves: Any, where: str) -> Iterable[tuple[float, Hashable, Any]]:
    try:
        listed = [(probability, target, cost) for probability, target, cost in moves]
    except (TypeError, ValueError):
        raise InvalidModelError(f"{where} must give (probability, next_state, costs) for each move") from None
    for probability, target, cost in listed:
        p = checks.real(probability, f"a probability of {where}", "at least 0", lambda x: x >= 0)
        if p > 0:
            yield p, checks.hashable(target, f"a next state of {where}"), cost


def _cost(cost: Any, n: int, where: str) -> Floats:
    paid = np.atleast_1d(checks.numbers(cost, f"the costs of {where}"))
    if paid.shape != (n,):
        raise InvalidModelError(
            f"{where} gives costs of shape {paid.shape}; with {n - 1} thresholds there must be {n} numbers, the main "
            "cost first"
        )
    checks.finite(paid, f"costs of {where}", "give every move finite costs")
    return paid
