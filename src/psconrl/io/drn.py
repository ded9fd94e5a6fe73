"""Models in DRN, the explicit format of the model checker Storm.

Writing. Each cost is a reward model of the same name (blanks and special signs become _), with the mean costs
c_i(s, a) as action rewards. What the format has no place for stands in comments, which Storm skips: limits, names, the
map of a gridworld, and the costs of moves. A start law that is not one state becomes one more state, the last, which is
left by the law at no cost; this changes no long-run average. So a file that is read again gives the same model, bit
for bit, and Storm can check its optimum: the file says how.

Reading. Models of the types MDP and DTMC; costs are state plus action rewards, the first reward model is minimised,
and each other one needs a limit: a comment such as

    // thresholds: {"energy": 0.5}

above @model, or `thresholds` when reading. A state has the actions that the file gives it; the others are not available
there. Rows may miss the sum 1 by 1e-6, as Storm allows; they are renormalised.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
from scipy import sparse

from psconrl._core import checks
from psconrl._core.checks import Floats, Ints
from psconrl.cmdp import CMDP, DENSE_STATES, Layout
from psconrl.errors import InvalidModelError, ModelFileError, UnknownNameError
from psconrl.io import reading, writing

COMMENTS = ("states", "actions", "costs", "thresholds", "initial", "start", "sparse", "layout")
"""What comments say about a model, each as `// name: JSON`."""

SUM_TOLERANCE = 1e-6
_UNLABELLED = "__NOLABEL__"
_SPARE_PAIRS = 65_536
"""Pairs (s, a) that a file may have, however small it is."""


def write_drn(cmdp: CMDP, path: str | Path) -> None:
    """Write a model to a .drn file."""
    path = checks.path(path)
    if cmdp.durations is not None:
        raise InvalidModelError("a .drn file has no durations; save cmdp.uniformized(), which has equal steps")
    lines = (f"{line}\n".encode("utf-8", "backslashreplace") for line in _lines(cmdp, path.name))
    with writing.replacing(path) as file:
        if path.suffix == ".gz":
            with gzip.GzipFile(fileobj=file, mode="wb", mtime=0) as packed:
                packed.writelines(lines)
        else:
            file.writelines(lines)


def _lines(cmdp: CMDP, name: str) -> Iterator[str]:
    rewards = _words(cmdp.cost_names)
    starts = np.flatnonzero(cmdp.initial)
    extra = bool(cmdp.initial[starts[0]] != 1.0)  # the law is no single state, if only by rounding
    yield "// A constrained Markov decision process, written by psconrl. Storm finds its optimum with"
    yield f"// storm --explicit-drn {name} --prop '{_query(rewards, cmdp.thresholds)}'"
    for key, value in _comments(cmdp, extra).items():
        yield f"// {key}: {json.dumps(value, ensure_ascii=False)}"
    yield from ("@type: MDP", "@parameters", "", "@reward_models", " ".join(rewards))
    yield from ("@nr_states", str(cmdp.S + extra), "@nr_choices", str(cmdp.pairs.K + extra), "@model")
    actions = _words(cmdp.action_names)
    matrix, moves = cmdp.matrix, cmdp.to_sparse().move_costs
    for s in range(cmdp.S):
        yield f"state {s} init" if not extra and s == starts[0] else f"state {s}"
        for a in np.flatnonzero(cmdp.available[s]).tolist():
            entries = slice(*matrix.indptr[s * cmdp.A + a : s * cmdp.A + a + 2])
            yield f"\taction {actions[a]} [{','.join(map(repr, cmdp.costs[:, s, a].tolist()))}]"
            if moves is not None:
                yield f"// moves: {json.dumps(moves[:, entries].T.tolist())}"
            yield from _targets(matrix.indices[entries], matrix.data[entries])
    if extra:
        yield f"state {cmdp.S} init"
        yield f"\taction start [{','.join(['0.0'] * len(rewards))}]"
        yield from _targets(starts, cmdp.initial[starts])


def _targets(states: Ints, probabilities: Floats) -> Iterator[str]:
    return (f"\t\t{x} : {p!r}" for x, p in zip(states.tolist(), probabilities.tolist(), strict=True))


def _comments(cmdp: CMDP, extra: bool) -> dict[str, Any]:
    said: dict[str, Any] = {"sparse": cmdp.is_sparse, "costs": cmdp.cost_names}
    said["thresholds"] = dict(zip(cmdp.cost_names[1:], cmdp.thresholds.tolist(), strict=True))
    if extra:
        said["start"] = cmdp.S
    for key, names in (("states", cmdp.state_names), ("actions", cmdp.action_names)):
        some = key == "actions" and not cmdp.pairs.every  # an action may be available nowhere
        if some or names != checks.names(None, len(names), key, ""):
            said[key] = names
    if cmdp.layout is not None:
        said["layout"] = cmdp.layout.as_json()
    return said


def _query(rewards: Sequence[str], thresholds: Floats) -> str:
    least = f'R{{"{rewards[0]}"}}min=? [LRA]'
    limits = [f'R{{"{name}"}}<={tau!r} [LRA]' for name, tau in zip(rewards[1:], thresholds.tolist(), strict=True)]
    return f"multi({', '.join([least, *limits])})" if limits else least


def _words(names: Sequence[str]) -> list[str]:
    """The names as distinct words of letters, digits and a few signs."""
    words = ["".join(c if c.isalnum() or c in "_-+.=<>" else "_" for c in name) for name in names]
    distinct = all(words) and len(set(words)) == len(words) and _UNLABELLED not in words
    return words if distinct else [f"{word}_{i}" for i, word in enumerate(words)]


def read_drn(
    path: str | Path,
    *,
    costs: Sequence[str] | None = None,
    thresholds: Mapping[str, float] | None = None,
) -> CMDP:
    """Read a model from a .drn file; ModelFileError says what is wrong with a bad one, and in which line.

    Args:
        path: the file.
        costs: the reward models to take as costs, main cost first; all of them by default.
        thresholds: limits by name of the cost; they add to those in the file's comments, and go before them.
    """
    path = checks.path(path)
    text = reading.read_text(path, ModelFileError)
    found = _File(path, len(text))
    with reading.reraise_as(ModelFileError, path):
        found.read(text)
        names = _cost_names(found)
        taken = names if costs is None else checks.texts(costs, "costs")
        limits = {} if thresholds is None else checks.limits(thresholds, names)
        return _model(found, names, taken, limits)


@dataclass
class _Choice:
    """One action of one state, as it stands in the file."""

    line: int
    state: int
    label: str
    rewards: list[float]
    targets: dict[int, float] = field(default_factory=dict)
    moves: Any = None


class _File:
    """What a file says, line by line."""

    def __init__(self, path: Path, size: int) -> None:
        self.path, self.size = path, size
        self.line = 0
        self.said: dict[str, Any] = {}
        self.said_at: dict[str, int] = {}
        self.rewards: list[str] = []
        self.states = 0
        self.declared_choices: int | None = None
        self.state_line = 0
        self.state_rewards: list[list[float]] = []
        self.choices: list[_Choice] = []
        self.initial: list[tuple[int, int]] = []

    def error(self, message: str, line: int | None = None) -> NoReturn:
        raise ModelFileError(f"{self.path}: line {self.line if line is None else line}: {message}")

    def read(self, text: str) -> None:
        lines = iter(enumerate(text.split("\n"), start=1))
        self._header(lines)
        for self.line, line in lines:
            words = line.split()
            if line.startswith("//"):
                self._moves(line)
            elif words and words[0] == "state":
                self._state(line.strip()[len("state") :].strip())
            elif words and words[0] == "action":
                self._action(line.strip()[len("action") :].strip())
            elif words:
                self._target(line)
        self._check_end()

    def _header(self, lines: Iterator[tuple[int, str]]) -> None:
        declared: dict[str, str] = {}

        def following() -> str:
            self.line, line = next(lines, (self.line, ""))
            return line.strip()

        for self.line, given in lines:
            line = given.strip()
            section = line.split(":")[0]
            if line.startswith("//"):
                self._comment(line)
            elif not line:
                continue
            elif section in declared:
                self.error(f"{section} stands here a second time")
            elif section in ("@type", "@value_type"):
                declared[section] = line.partition(":")[2].strip()
                self._check_kind(section, declared[section])
            elif section in ("@parameters", "@reward_models", "@nr_states", "@nr_choices"):
                declared[section] = following()
                if section == "@parameters" and declared[section]:
                    self.error("the model has parameters; give them values and export it again")
            elif section == "@model":
                break
            else:
                self.error(
                    f"{line[:40]!r} is no section of a model; the first lines must be @type: MDP, @nr_states, ..."
                )
        else:
            self.error("the file ends before @model")
        for section in ("@type", "@nr_states"):
            if section not in declared:
                self.error(f"{section} is missing before @model")
        self.rewards = declared.get("@reward_models", "").split()
        self.states = self._whole(declared["@nr_states"], "the number of states")
        if "@nr_choices" in declared:
            self.declared_choices = self._whole(declared["@nr_choices"], "the number of choices")

    def _check_kind(self, section: str, kind: str) -> None:
        allowed = {"@type": ("MDP", "DTMC"), "@value_type": ("double", "rational")}[section]
        if kind not in allowed:
            self.error(f"{section} is {kind!r}; only {' and '.join(allowed)} can be read")

    def _comment(self, line: str) -> None:
        key, colon, value = line[2:].partition(":")
        if colon and key.strip() in COMMENTS:
            self.said[key.strip()] = self._json(value, key.strip())
            self.said_at[key.strip()] = self.line

    def _moves(self, line: str) -> None:
        key, colon, value = line[2:].partition(":")
        if colon and key.strip() == "moves" and self.choices:
            self.choices[-1].moves = self._json(value, "moves")

    def _json(self, text: str, what: str) -> Any:
        return reading.parse_json(text, ModelFileError, f"{self.path}: line {self.line}: comment {what!r}: ")

    def _state(self, text: str) -> None:
        number, _, rest = text.partition(" ")
        state = self._whole(number, "a state")
        if state != len(self.state_rewards):
            self.error(f"state {state} where state {len(self.state_rewards)} must come; states stand in order from 0")
        if state >= self.states:
            self.error(f"state {state}, but @nr_states says that there are {self.states}")
        self._check_actions()
        self.state_line = self.line
        rewards, labels = self._rewards(rest.strip())
        if rest.strip().startswith(("!", "{")):
            self.error("exit rates and observations are not for models of this type")
        self.state_rewards.append(rewards)
        if "init" in labels.replace('"', " ").split():
            self.initial.append((state, self.line))

    def _check_actions(self) -> None:
        """Refuse a state without actions, once all lines of it are read."""
        state = len(self.state_rewards) - 1
        if state >= 0 and (not self.choices or self.choices[-1].state < state):
            self.error(f"state {state} has no action; give it at least one", self.state_line)

    def _action(self, text: str) -> None:
        if not self.state_rewards:
            self.error("an action before the first state")
        label, _, rest = text.partition(" ")
        rewards, _ = self._rewards(rest.strip())
        self.choices.append(_Choice(self.line, len(self.state_rewards) - 1, label, rewards))

    def _target(self, line: str) -> None:
        left, colon, right = line.partition(":")
        if not colon:
            self.error(f"{line.strip()[:40]!r} is no state, no action and no move (next state : probability)")
        if not self.choices or self.choices[-1].state != len(self.state_rewards) - 1:
            self.error("a move before the action that it belongs to")
        state = self._whole(left.strip(), "a state")
        if state >= self.states:
            self.error(f"the next state is {state}, but there are {self.states} states")
        targets = self.choices[-1].targets
        if state in targets:
            self.error(f"the next state {state} is listed twice")
        targets[state] = self._number(right.strip(), "a probability")

    def _rewards(self, text: str) -> tuple[list[float], str]:
        """The rewards in brackets, zeros if there are none, and what comes after them."""
        if not text.startswith("["):
            return [0.0] * len(self.rewards), text
        inside, bracket, rest = text[1:].partition("]")
        if not bracket:
            self.error("the rewards have no closing ]")
        rewards = [self._number(value.strip(), "a reward") for value in inside.split(",")]
        if len(rewards) != len(self.rewards):
            self.error(f"there are {len(rewards)} rewards here and {len(self.rewards)} names in @reward_models")
        return rewards, rest.strip()

    def _whole(self, text: str, what: str) -> int:
        if not (text.isascii() and text.isdecimal() and len(text) <= reading.MAX_DIGITS):
            self.error(f"{what} is {text[:40]!r}; it must be a whole number")
        return int(text)

    def _number(self, text: str, what: str) -> float:
        try:
            number = float(Fraction(text)) if "/" in text else float(text)
        except (ValueError, ZeroDivisionError, OverflowError):
            number = np.nan
        if not np.isfinite(number):
            self.error(f"{what} is {text[:40]!r}; it must be a finite number")
        return number

    def _check_end(self) -> None:
        if len(self.state_rewards) != self.states:
            self.error(f"the file ends after {len(self.state_rewards)} states; @nr_states says {self.states}")
        self._check_actions()
        if self.declared_choices not in (None, len(self.choices)):
            self.error(f"there are {len(self.choices)} choices; @nr_choices says {self.declared_choices}")
        for choice in self.choices:
            total = sum(choice.targets.values())
            if abs(total - 1) > SUM_TOLERANCE:
                self.error(f"the probabilities of this action sum to {total:.10g}; they must sum to 1", choice.line)


def _model(found: _File, names: list[str], taken: list[str], thresholds: dict[str, float]) -> CMDP:
    _drop_start(found)
    S, said = found.states, found.said
    for name in taken:
        if name not in names:
            raise UnknownNameError("cost", name, names)
    if not taken:
        raise InvalidModelError("there are no reward models; at least one is needed, to be minimised")
    limits = _limits(found, taken, thresholds)
    labels, by_pair = _choices_by_pair(found)
    A = len(labels)
    column = [names.index(name) for name in taken]
    per_move = any(choice.moves is not None for choice in found.choices)
    mean, available = np.zeros((len(taken), S, A)), np.zeros((S, A), dtype=np.bool_)
    rows: list[int] = []
    targets: list[int] = []
    p: list[float] = []
    moves: list[Floats] = []
    for (s, a), choice in by_pair.items():
        total = sum(choice.targets.values())
        scale = total if abs(total - 1) > checks.ROW_TOLERANCE else 1.0
        rows += [s * A + a] * len(choice.targets)
        targets += choice.targets
        p += [probability / scale for probability in choice.targets.values()]
        rewards = np.add(found.state_rewards[s], choice.rewards)
        mean[:, s, a], available[s, a] = rewards[column], True
        if per_move:
            moves.append(_move_costs(found, choice, rewards)[:, column])
    transitions = sparse.csr_array((p, (rows, targets)), shape=(S * A, S))
    charged: Any = mean
    if per_move:
        charged = [sparse.csr_array((c, (rows, targets)), shape=(S * A, S)) for c in np.concatenate(moves).T]
    model = CMDP(
        transitions,
        charged,
        limits,
        initial=_initial(found),
        state_names=_names(found, "states"),
        action_names=labels,
        cost_names=taken,
        layout=_layout(found),
        available=available,
    )
    # A model that says it is dense, but would need far more memory than its file, is read as a sparse one.
    large = S * A * S * 8 * (1 + len(taken) * per_move) > reading.allowance(found.size)
    return model if large or said.get("sparse", S > DENSE_STATES) else model.to_dense()


def _names(found: _File, key: str) -> list[str] | None:
    """The names in a comment; None if there is none."""
    if key not in found.said:
        return None
    names = found.said[key]
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        found.error(f"{key} must be a list of names", found.said_at[key])
    return names


def _layout(found: _File) -> Layout | None:
    if "layout" not in found.said:
        return None
    said = found.said["layout"]
    rows = said.get("rows") if isinstance(said, dict) else None
    if not isinstance(rows, list) or not all(isinstance(row, str) for row in rows) or "agent" not in said:
        found.error("layout must be a table of rows, lines of text, agent and perhaps box", found.said_at["layout"])
    return Layout.from_json(said)


def _drop_start(found: _File) -> None:
    """Take the extra state that stands for the start law out of the model."""
    if "start" not in found.said:
        return
    start = found.said["start"] if isinstance(found.said["start"], int) else -1
    if start != found.states - 1 or found.states < 2 or any(start in choice.targets for choice in found.choices):
        found.error(
            f"the start is {found.said['start']!r}; it must be the last state, and no move may lead to it",
            found.said_at["start"],
        )
    found.said["initial"] = found.choices.pop().targets
    if found.choices[-1].state == start:
        found.error("the start must have one action", found.said_at["start"])
    found.states -= 1
    found.state_rewards.pop()


def _initial(found: _File) -> Any:
    S = found.states
    if "initial" in found.said:
        names = _names(found, "states") or [str(s) for s in range(S)]
        number = {name: s for s, name in enumerate(names)} | {s: s for s in range(S)}
        law = np.zeros(S)
        given = found.said["initial"]
        for state, probability in given.items() if isinstance(given, dict) else [(None, 0.0)]:
            real = isinstance(probability, (int, float)) and not isinstance(probability, bool)
            if state not in number or number[state] >= S or not real:
                found.error(
                    'initial must be a table of states and probabilities, such as {"0": 0.5, "1": 0.5}',
                    found.said_at.get("initial"),
                )
            law[number[state]] = probability
        return law
    if len(found.initial) != 1:
        line = found.initial[1][1] if found.initial else None
        found.error(
            f"{len(found.initial)} states have the label init; one must have it, or a comment give the start law: "
            '// initial: {"0": 0.5, "1": 0.5}',
            line,
        )
    return found.initial[0][0]


def _cost_names(found: _File) -> list[str]:
    names = found.said.get("costs", found.rewards)
    if not isinstance(names, list) or len(names) != len(found.rewards):
        found.error(f"costs must name the {len(found.rewards)} reward models", found.said_at["costs"])
    return [str(name) for name in names]


def _limits(found: _File, taken: list[str], given: dict[str, float]) -> list[float]:
    said = found.said.get("thresholds", {})
    if not isinstance(said, dict):
        found.error('thresholds must be a table, for instance {"energy": 0.5}', found.said_at["thresholds"])
    for name, limit in said.items():
        if isinstance(limit, bool) or not isinstance(limit, (int, float)):
            found.error(f"the limit of {name!r} must be a number", found.said_at["thresholds"])
    limits = said | given
    missing = [name for name in taken[1:] if name not in limits]
    if missing:
        example = json.dumps(dict.fromkeys(missing, 0.5))
        raise ModelFileError(
            f"{found.path}: there is no limit for {', '.join(missing)}, and every cost but the first needs one: add "
            f"the line // thresholds: {example} above @model, or give thresholds, or choose the costs to read"
        )
    return [limits[name] for name in taken[1:]]


def _choices_by_pair(found: _File) -> tuple[list[str], dict[tuple[int, int], _Choice]]:
    """The names of the actions, and the choice that each action is in each state that has it.

    Choices go by their labels where these tell the choices of every state apart, else by their places.
    """
    by_state: list[list[_Choice]] = [[] for _ in range(found.states)]
    for choice in found.choices:
        by_state[choice.state].append(choice)
    most, room = max(map(len, by_state)), (_SPARE_PAIRS + found.size // 8) // found.states
    if most > room:
        found.error(
            f"one of the {found.states} states has {most} actions, and the model has room for as many in every state; "
            "one of that size cannot be read from a file of this size"
        )
    names = _names(found, "actions")
    labels = list(dict.fromkeys(choice.label for choice in found.choices)) if names is None else _words(names)
    known = {label: a for a, label in enumerate(labels)}
    apart = all(len({choice.label for choice in choices}) == len(choices) for choices in by_state)
    named = _UNLABELLED not in known and all(choice.label in known for choice in found.choices)
    if apart and named and len(labels) <= room:
        places = {(choice.state, known[choice.label]): choice for choice in found.choices}
    else:
        labels = [str(a) for a in range(most)]
        places = {(s, a): choice for s, choices in enumerate(by_state) for a, choice in enumerate(choices)}
    return labels if names is None else names, places


def _move_costs(found: _File, choice: _Choice, rewards: Floats) -> Floats:
    """Costs (targets, reward models) of the moves of a choice; where none are given, those of the choice."""
    n = len(choice.targets)
    if choice.moves is None:
        return np.tile(rewards, (n, 1))
    moves = checks.numbers(choice.moves, f"line {choice.line + 1}: moves")
    if moves.shape != (n, len(rewards)):
        found.error(f"moves must give {len(rewards)} costs for each of the {n} next states", choice.line + 1)
    apart = np.abs(list(choice.targets.values()) @ moves - rewards)
    if (apart > 1e-9 * np.maximum(1.0, np.abs(moves).max(axis=0))).any():
        found.error("the mean of the moves is not the reward of the action above", choice.line + 1)
    return moves
