"""Models as model checkers keep them: a list of choices, each an action of a state with rewards and next states.

What their formats have no place for are facts: limits, names, the map of a gridworld. A start law that is not one state
becomes one more state, the last, which is left by the law at no cost; this changes no long-run average. So a file that
is read again gives the same model, bit for bit.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from psconrl._core import checks
from psconrl._core.checks import Floats, Ints
from psconrl.cmdp import CMDP, DENSE_STATES, Layout
from psconrl.errors import InvalidModelError, ModelFileError, UnknownNameError
from psconrl.io import reading

FACTS: dict[str, tuple[type, str]] = {
    "states": (list, "a list of names"),
    "actions": (list, "a list of names"),
    "costs": (list, "a list of names"),
    "thresholds": (dict, 'a table, for instance {"energy": 0.5}'),
    "initial": (dict, 'a table of states and probabilities, such as {"0": 0.5, "1": 0.5}'),
    "start": (int, "the number of the last state"),
    "sparse": (bool, "true or false"),
    "layout": (dict, "a table of rows, lines of text, agent and perhaps box"),
}
"""What a file may say about a model, as JSON values, and what messages call it."""

UNLABELLED = "__NOLABEL__"
_SPARE_PAIRS = 65_536
"""Labels count as names of actions while there are at most this many pairs (s, a), and a share of the file's size."""


class Choices(NamedTuple):
    """The choices (n,) of a model, in the order of their states, with their next states, entries [begin, begin + 1).

    state: of each choice. labels: of each choice, not distinct. rewards: (k, n), those of all reward models.
    begin: (n + 1,). targets, p: the next states and their probabilities. moves: (k, len(p)), or None where rewards do
    not depend on the next state.
    """

    state: Ints
    labels: list[str]
    rewards: Floats
    begin: Ints
    targets: Ints
    p: Floats
    moves: Floats | None

    @staticmethod
    def of(cmdp: CMDP) -> tuple[Choices, int]:
        """The choices of a model, with the extra state if it needs one, and the number of its start state."""
        if cmdp.durations is not None:
            raise InvalidModelError("the file has no durations; save cmdp.uniformized(), which has equal steps")
        pairs, labels, moves = cmdp.pairs.numbers, words(cmdp.action_names), cmdp.to_sparse().move_costs
        state, action = np.divmod(pairs, cmdp.A)
        found = Choices(
            state,
            [labels[a] for a in action.tolist()],
            cmdp.pairs.taken(cmdp.costs),
            np.append(cmdp.matrix.indptr[pairs], cmdp.matrix.nnz),
            cmdp.matrix.indices,
            cmdp.matrix.data,
            moves,
        )
        starts = np.flatnonzero(cmdp.initial)
        if cmdp.initial[starts[0]] == 1.0:
            return found, int(starts[0])
        none = np.zeros((cmdp.m + 1, len(starts)))
        return Choices(
            np.append(state, cmdp.S),
            [*found.labels, "start"],
            np.hstack([found.rewards, none[:, :1]]),
            np.append(found.begin, cmdp.matrix.nnz + len(starts)),
            np.append(found.targets, starts),
            np.append(found.p, cmdp.initial[starts]),
            None if moves is None else np.hstack([moves, none]),
        ), cmdp.S


def facts_of(cmdp: CMDP, start: int) -> dict[str, Any]:
    """What the formats have no place for; start: the number of the start state."""
    facts: dict[str, Any] = {"sparse": cmdp.is_sparse, "costs": cmdp.cost_names}
    facts["thresholds"] = dict(zip(cmdp.cost_names[1:], cmdp.thresholds.tolist(), strict=True))
    if start == cmdp.S:
        facts["start"] = start
    for key, names in (("states", cmdp.state_names), ("actions", cmdp.action_names)):
        some = key == "actions" and not cmdp.pairs.every  # an action may be available nowhere
        if some or names != checks.names(None, len(names), key, ""):
            facts[key] = names
    if cmdp.layout is not None:
        facts["layout"] = cmdp.layout.as_json()
    return facts


def checked(facts: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Facts that a file says, if they are of the right types."""
    for key, value in facts.items():
        kind, form = FACTS[key]
        if not isinstance(value, kind):
            raise ModelFileError(f"{where}{key} must be {form}")
    return dict(facts)


def words(names: Sequence[str]) -> list[str]:
    """The names as distinct words of letters, digits and a few signs."""
    found = ["".join(c if c.isalnum() or c in "_-+.=<>" else "_" for c in name) for name in names]
    distinct = all(found) and len(set(found)) == len(found) and UNLABELLED not in found
    return found if distinct else [f"{word}_{i}" for i, word in enumerate(found)]


def model_of(
    choices: Choices,
    S: int,
    start: int,
    rewards: Sequence[str],
    facts: Mapping[str, Any],
    size: int,
    costs: Sequence[str] | None = None,
    thresholds: Mapping[str, float] | None = None,
) -> CMDP:
    """The model of a file.

    Args:
        choices: all choices of S states.
        S: number of states.
        start: the start state.
        rewards: names of the reward models.
        facts: what else the file says, of the types in `FACTS`.
        size: of the file in bytes, which decides how large a model it may be.
        costs: the reward models to take as costs, main cost first; all of them by default.
        thresholds: limits by name of the cost; they add to those in the facts, and go before them.

    Raises:
        InvalidModelError: parts that do not fit.
    """
    _check_structure(choices, S, facts.get("states", ()))
    names = checks.texts(facts.get("costs", rewards), "costs")
    if len(names) != len(rewards):
        raise InvalidModelError(f"costs must name the {len(rewards)} reward models")
    taken = names if costs is None else checks.texts(costs, "costs")
    for name in taken:
        if name not in names:
            raise UnknownNameError("cost", name, names)
    if not taken:
        raise InvalidModelError("there are no reward models; at least one is needed, to be minimised")
    limits = _limits(taken, facts, {} if thresholds is None else checks.limits(thresholds, names))
    columns = [names.index(name) for name in taken]
    initial: Any = start
    if "start" in facts:
        choices, S, initial = _without_start(choices, S, facts["start"])
    elif "initial" in facts:
        initial = _law(facts["initial"], facts.get("states"), S)
    labels, action = _actions(choices, S, facts.get("actions"), _SPARE_PAIRS + size // 8)
    A = len(labels)
    if 8 * S * A * (2 + len(taken)) > reading.allowance(size):
        raise InvalidModelError(f"{S} states with up to {A} actions each are too many for a file of this size")
    pairs = choices.state * A + action
    rows = np.repeat(pairs, np.diff(choices.begin))
    transitions = sparse.csr_array((choices.p, (rows, choices.targets)), shape=(S * A, S))
    charged: Any = np.zeros((len(taken), S * A))
    charged[:, pairs] = choices.rewards[columns]
    charged = charged.reshape(-1, S, A)
    if choices.moves is not None:
        charged = [sparse.csr_array((c, (rows, choices.targets)), shape=(S * A, S)) for c in choices.moves[columns]]
    available = np.zeros(S * A, dtype=np.bool_)
    available[pairs] = True
    model = CMDP(
        transitions,
        charged,
        limits,
        initial=initial,
        state_names=facts.get("states"),
        action_names=labels,
        cost_names=taken,
        layout=_layout(facts.get("layout")),
        available=available.reshape(S, A),
    )
    # A model that says it is dense, but would need far more memory than its file, is read as a sparse one.
    large = S * A * S * 8 * (1 + len(taken) * (choices.moves is not None)) > reading.allowance(size)
    return model if large or facts.get("sparse", S > DENSE_STATES) else model.to_dense()


def _check_structure(choices: Choices, S: int, names: Sequence[str]) -> None:
    """Refuse states without choices, and next states that are none or listed twice."""
    without = np.setdiff1d(np.arange(S), choices.state)
    if len(without):
        name = repr(names[without[0]]) if len(names) == S else without[0]
        raise InvalidModelError(f"state {name} has no action; give it at least one")
    choice = np.repeat(np.arange(len(choices.state)), np.diff(choices.begin))
    order = np.lexsort((choices.targets, choice))
    twice = np.diff(choices.targets[order]) == 0
    wrong = order[np.append((np.diff(choice[order]) == 0) & twice, False)]
    wrong = np.append(wrong, np.flatnonzero((choices.targets < 0) | (choices.targets >= S)))
    if len(wrong):
        target = int(choices.targets[wrong[0]])
        fault = "is listed twice" if 0 <= target < S else f"is none of the {S} states"
        state, label = choices.state[choice[wrong[0]]], choices.labels[choice[wrong[0]]]
        raise InvalidModelError(f"state {state}, action {label}: the next state {target} {fault}")


def _limits(taken: list[str], facts: Mapping[str, Any], given: Mapping[str, float]) -> list[float]:
    limits = facts.get("thresholds", {}) | given
    missing = [name for name in taken[1:] if name not in limits]
    if missing:
        example = json.dumps(dict.fromkeys(missing, 0.5))
        raise ModelFileError(
            f"there is no limit for {', '.join(missing)}, and every cost but the first needs one: give thresholds, or "
            f"choose the costs to read; a .drn file may say // thresholds: {example} above @model"
        )
    return [limits[name] for name in taken[1:]]


def _without_start(choices: Choices, S: int, start: int) -> tuple[Choices, int, Floats]:
    """The choices without the extra state that stands for the start law, and the law."""
    last = len(choices.state) - 1
    begin = int(choices.begin[last])
    alone = start == S - 1 > 0 and choices.state[last] == start and np.count_nonzero(choices.state == start) == 1
    if not alone or (choices.targets == start).any():
        raise InvalidModelError(f"the start is {start}; it must be the last state, with one action, and no move to it")
    law: Floats = np.zeros(S - 1)
    law[choices.targets[begin:]] = choices.p[begin:]
    return (
        Choices(
            choices.state[:-1],
            choices.labels[:-1],
            choices.rewards[:, :-1],
            choices.begin[:-1],
            choices.targets[:begin],
            choices.p[:begin],
            None if choices.moves is None else choices.moves[:, :begin],
        ),
        S - 1,
        law,
    )


def _layout(given: dict[str, Any] | None) -> Layout | None:
    if given is None:
        return None
    unknown = given.keys() - {"rows", "agent", "box"}
    if unknown or not all(isinstance(row, str) for row in given["rows"]):
        raise InvalidModelError(f"layout.{unknown.pop() if unknown else 'rows'}: layout must be {FACTS['layout'][1]}")
    return Layout.from_json(given)


def _law(given: Mapping[str, Any], names: Sequence[str] | None, S: int) -> Floats:
    number = {str(name): s for s, name in enumerate(range(S) if names is None else names)}
    law: Floats = np.zeros(S)
    for name, probability in given.items():
        if name not in number:
            raise UnknownNameError("state", name, number)
        law[number[name]] = checks.real(probability, f"initial[{name!r}]", "a number", lambda x: True)
    return law


def _actions(choices: Choices, S: int, names: Sequence[str] | None, room: int) -> tuple[list[str], Ints]:
    """The names of the actions, and the action (n,) that each choice is.

    Choices go by their labels where these tell the choices of every state apart, else by their places.
    """
    known = dict.fromkeys(choices.labels) if names is None else words(names)
    number = {label: a for a, label in enumerate(known)}
    action = np.array([number.get(label, -1) for label in choices.labels], dtype=np.int64)
    distinct = len(np.unique(choices.state * len(number) + action)) == len(action)
    many = names is None and S * len(number) > room
    if not distinct or action.min() < 0 or UNLABELLED in number or many:
        action = np.arange(len(action)) - np.searchsorted(choices.state, choices.state)
        number = {str(a): a for a in range(int(action.max()) + 1)}
    return list(number) if names is None else checks.texts(names, "actions"), action
