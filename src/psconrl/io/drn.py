"""Models in DRN, the explicit text format of the model checker Storm.

Writing. Each cost is a reward model of the same name (blanks and special signs become _), with the mean costs
c_i(s, a) as action rewards. What the format has no place for stands in comments, which Storm skips: the facts of
`psconrl.io.explicit`, and the costs of moves. Storm can check the optimum: the file says how.

Reading. Models of the types MDP and DTMC; costs are state plus action rewards, the first reward model is minimised,
and each other one needs a limit: a comment such as

    // thresholds: {"energy": 0.5}

above @model, or `thresholds` when reading. A state has the actions that the file gives it; the others are not available
there.
"""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from psconrl._core import checks
from psconrl._core.checks import Floats
from psconrl.cmdp import CMDP
from psconrl.errors import ModelFileError
from psconrl.io import explicit, reading, writing
from psconrl.io.explicit import Choices

_STATE = re.compile(r"state\s+(\d+)\s*(?:\[([^]]*)\])?\s*([^!{\[]*)", re.ASCII)
_ACTION = re.compile(r"action\s+(\S+)\s*(?:\[([^]]*)\])?\s*", re.ASCII)
_MOVE = re.compile(r"(\d+)\s*:\s*(\S+)", re.ASCII)
_TYPES = {"@type": ("MDP", "DTMC"), "@value_type": ("", "double", "rational")}
MAX_DIGITS = 18
"""Digits of the number of a state."""


def write_drn(cmdp: CMDP, path: str | Path) -> None:
    """Write a model to a .drn or .drn.gz file."""
    path = checks.path(path)
    lines = (f"{line}\n".encode("utf-8", "backslashreplace") for line in _lines(cmdp, path.name))
    with writing.replacing(path) as file:
        if path.suffix == ".gz":
            with gzip.GzipFile(fileobj=file, mode="wb", mtime=0) as packed:
                packed.writelines(lines)
        else:
            file.writelines(lines)


def _lines(cmdp: CMDP, name: str) -> Iterator[str]:
    choices, start = Choices.of(cmdp)
    rewards = explicit.words(cmdp.cost_names)
    yield "// A constrained Markov decision process, written by psconrl. Storm finds its optimum with"
    yield f"// storm --explicit-drn {name} --prop '{_query(rewards, cmdp.thresholds)}'"
    for key, value in explicit.facts_of(cmdp, start).items():
        yield f"// {key}: {json.dumps(value, ensure_ascii=False)}"
    yield from ("@type: MDP", "@parameters", "", "@reward_models", " ".join(rewards))
    yield from ("@nr_states", str(choices.state[-1] + 1), "@nr_choices", str(len(choices.state)), "@model")
    before = -1
    for k, (state, label) in enumerate(zip(choices.state.tolist(), choices.labels, strict=True)):
        if state != before:
            yield f"state {state} init" if state == start else f"state {state}"
        before = state
        entries = slice(*choices.begin[k : k + 2])
        yield f"\taction {label} [{','.join(map(repr, choices.rewards[:, k].tolist()))}]"
        if choices.moves is not None:
            yield f"// moves: {json.dumps(choices.moves[:, entries].T.tolist())}"
        for x, p in zip(choices.targets[entries].tolist(), choices.p[entries].tolist(), strict=True):
            yield f"\t\t{x} : {p!r}"


def _query(rewards: Sequence[str], thresholds: Floats) -> str:
    least = f'R{{"{rewards[0]}"}}min=? [LRA]'
    limits = [f'R{{"{name}"}}<={tau!r} [LRA]' for name, tau in zip(rewards[1:], thresholds.tolist(), strict=True)]
    return f"multi({', '.join([least, *limits])})" if limits else least


def read_drn(
    path: str | Path,
    *,
    costs: Sequence[str] | None = None,
    thresholds: Mapping[str, float] | None = None,
) -> CMDP:
    """Read a model from a .drn or .drn.gz file.

    Args:
        path: the file.
        costs: the reward models to take as costs, main cost first; all of them by default.
        thresholds: limits by name of the cost; they add to those in the file's comments, and go before them.

    Raises:
        ModelFileError: a file with a mistake; the message names the line where it can.
    """
    path = checks.path(path)
    text = reading.read_text(path, ModelFileError)
    with reading.reraise_as(ModelFileError, path):
        found = _Reader(path, text)
        found.read()
        return explicit.model_of(
            found.choices(), found.states, found.start, found.rewards, found.facts, len(text), costs, thresholds
        )


class _Reader:
    """A file, read line by line; errors name the line.

    Attributes:
        rewards, states: names of the reward models, and number of states, as the header says. facts: in the comments.
        start: the start state, -1 while there is none.
    """

    def __init__(self, path: Path, text: str) -> None:
        self.path, self.line, self.lines = path, 0, iter(text.split("\n"))
        self.facts: dict[str, Any] = {}
        sections = self._header()
        for section, allowed in _TYPES.items():
            if sections.get(section, "") not in allowed:
                found = sections.get(section, "missing")
                raise ModelFileError(f"{path}: {section} is {found}; it must be {' or '.join(filter(None, allowed))}")
        if sections.get("@parameters"):
            raise ModelFileError(f"{path}: the model has parameters; give them values and export it again")
        self.rewards = sections.get("@reward_models", "").split()
        self.states = self._whole(sections.get("@nr_states", "missing"), "@nr_states")
        self.declared = sections.get("@nr_choices")
        self.start, self.here = -1, -1
        self.charged = np.zeros(len(self.rewards))
        self.state: list[int] = []
        self.labels: list[str] = []
        self.charges: list[Floats] = []
        self.begin: list[int] = []
        self.targets: list[int] = []
        self.p: list[float] = []
        self.moves: dict[int, Any] = {}

    def error(self, message: str) -> NoReturn:
        raise ModelFileError(f"{self.path}: line {self.line}: {message}")

    def _following(self) -> Iterator[str]:
        """The lines that are left, without blanks around them."""
        for line in self.lines:
            self.line += 1
            yield line.strip()

    def _header(self) -> dict[str, str]:
        """The sections above @model; comments become facts."""
        sections: dict[str, str] = {}
        for line in self._following():
            if line == "@model":
                return sections
            if line.startswith("//"):
                self._comment(line)
            elif line.startswith("@"):
                section, colon, value = line.partition(":")
                sections[section] = value.strip() if colon else next(self._following(), "")
            elif line:
                self.error(f"{line[:40]!r} is no section of a model; the first line must be @type: MDP")
        raise ModelFileError(f"{self.path}: the file ends before @model")

    def _comment(self, line: str) -> None:
        key, _, text = line[2:].partition(":")
        if key.strip() in explicit.FACTS:
            self.facts |= explicit.checked({key.strip(): self._json(text)}, f"{self.path}: line {self.line}: ")
        elif key.strip() == "moves" and self.state:
            self.moves[len(self.state) - 1] = self._json(text)

    def _json(self, text: str) -> Any:
        return reading.parse_json(text, ModelFileError, f"{self.path}: line {self.line}: ")

    def read(self) -> None:
        """The states with their choices, below @model."""
        for line in self._following():
            if match := _MOVE.fullmatch(line):
                self._move(match[1], match[2])
            elif match := _ACTION.fullmatch(line):
                self._action(match[1], match[2])
            elif match := _STATE.fullmatch(line):
                self._state(match[1], match[2], match[3])
            elif line.startswith("//"):
                self._comment(line)
            elif line:
                self.error(f"{line[:40]!r} is no state, no action and no move (next state : probability)")
        if self.here + 1 != self.states:
            self.error(f"the file ends after {self.here + 1} states; @nr_states says {self.states}")
        if self.declared not in (None, str(len(self.state))):
            self.error(f"there are {len(self.state)} choices; @nr_choices says {self.declared}")
        if self.start < 0 and "initial" not in self.facts:
            self.error('no state has the label init; a comment may give the start: // initial: {"0": 0.5, "1": 0.5}')

    def _state(self, number: str, rewards: str | None, labels: str) -> None:
        self.here += 1
        if self._whole(number, "a state") != self.here or self.here >= self.states:
            self.error(f"state {number} where state {self.here} of {self.states} must come")
        self.charged = self._rewards(rewards)
        if "init" in labels.replace('"', " ").split():
            if self.start >= 0:
                self.error("a second state with the label init")
            self.start = self.here

    def _action(self, label: str, rewards: str | None) -> None:
        if self.here < 0:
            self.error("an action before the first state")
        self.state.append(self.here)
        self.labels.append(label)
        self.begin.append(len(self.p))
        self.charges.append(self.charged + self._rewards(rewards))

    def _move(self, target: str, probability: str) -> None:
        if self.state[-1:] != [self.here]:
            self.error("a move before the action that it belongs to")
        self.targets.append(self._whole(target, "the next state"))
        self.p.append(self._number(probability, "a probability"))

    def choices(self) -> Choices:
        """What was read, as arrays."""
        found = Choices(
            np.array(self.state, dtype=np.int64),
            self.labels,
            np.array(self.charges).reshape(-1, len(self.rewards)).T,
            np.array([*self.begin, len(self.p)]),
            np.array(self.targets, dtype=np.int64),
            np.array(self.p),
            None,
        )
        if not self.moves:
            return found
        each = np.repeat(found.rewards, np.diff(found.begin), axis=1)
        for k, given in self.moves.items():
            entries = slice(*found.begin[k : k + 2])
            each[:, entries] = checks.numbers(given, f"moves of state {self.state[k]}").T
            apart = np.abs(each[:, entries] @ found.p[entries] - found.rewards[:, k])
            if (apart > 1e-9 * np.maximum(1.0, np.abs(each[:, entries]).max(axis=1))).any():
                raise ModelFileError(f"state {self.state[k]}: the mean of the moves is not the reward of their action")
        return found._replace(moves=each)

    def _rewards(self, text: str | None) -> Floats:
        """The rewards in brackets; zeros if there are none."""
        if text is None:
            return np.zeros(len(self.rewards))
        rewards = [self._number(value.strip(), "a reward") for value in text.split(",")]
        if len(rewards) != len(self.rewards):
            self.error(f"there are {len(rewards)} rewards here and {len(self.rewards)} names in @reward_models")
        return np.array(rewards)

    def _whole(self, text: str, what: str) -> int:
        if not (text.isascii() and text.isdecimal() and len(text) <= MAX_DIGITS):
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
