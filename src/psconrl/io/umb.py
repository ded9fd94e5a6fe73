"""Models in UMB, the binary format that PRISM, Storm and other tools exchange: a tar archive of JSON and flat arrays.

Each cost is a reward annotation: of choices, or of branches where costs belong to moves. What the format has no place
for, the facts of `psconrl.io.explicit`, stands as JSON in the comment of the model, which other tools skip.

Read are models in discrete time with at most one player; of other tools' files, the first reward annotation is
minimised, and each other one needs a limit, `thresholds` when reading.
"""

from __future__ import annotations

import gzip
import io
import json
import tarfile
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from psconrl._core import checks
from psconrl._core.checks import Floats, Ints
from psconrl.cmdp import CMDP
from psconrl.errors import ModelFileError
from psconrl.io import explicit, reading, writing
from psconrl.io.explicit import UNLABELLED, Choices

_DOUBLE = {"type": "double", "size": 64}
_BITS = 64
"""Arrays of bits are filled up to a multiple of this."""


def write_umb(cmdp: CMDP, path: str | Path) -> None:
    """Write a model to a .umb file."""
    path = checks.path(path)
    packed = io.BytesIO()
    with gzip.GzipFile(fileobj=packed, mode="wb", mtime=0) as file, tarfile.open(fileobj=file, mode="w") as archive:
        for name, content in _members_of(cmdp).items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    writing.write_bytes(path, packed.getvalue())


def _members_of(cmdp: CMDP) -> dict[str, bytes]:
    choices, start = Choices.of(cmdp)
    S = int(choices.state[-1]) + 1
    actions = list(dict.fromkeys(choices.labels))
    number = {label: a for a, label in enumerate(actions)}
    rewards = explicit.words(cmdp.cost_names)
    applies = "choices" if choices.moves is None else "branches"
    index = {
        "format-version": 0,
        "format-revision": 1,
        "model-data": {"comment": json.dumps(explicit.facts_of(cmdp, start))},
        "transition-system": {
            "time": "discrete",
            "#players": 1,
            "#states": S,
            "#initial-states": 1,
            "#choices": len(choices.state),
            "#choice-actions": len(actions),
            "#branches": len(choices.p),
            "#branch-actions": 0,
            "#observations": 0,
            "branch-probability-type": _DOUBLE,
        },
        "annotations": {
            "rewards": {name: {"applies-to": [applies], "type": _DOUBLE} for name in rewards},
        },
    }
    initial = np.zeros(-(-S // _BITS) * _BITS, dtype=np.bool_)
    initial[start] = True
    texts = [label.encode() for label in actions]
    members = {
        "index.json": json.dumps(index).encode(),
        "state-is-initial.bin": np.packbits(initial, bitorder="little").tobytes(),
        "state-to-choices.bin": _array(np.searchsorted(choices.state, np.arange(S + 1)), "<u8"),
        "choice-to-branches.bin": _array(choices.begin, "<u8"),
        "branch-to-target.bin": _array(choices.targets, "<u8"),
        "branch-to-probability.bin": _array(choices.p, "<f8"),
        "actions/choices/values.bin": _array([number[label] for label in choices.labels], "<u4"),
        "actions/choices/string-mapping.bin": _array(np.cumsum([0, *map(len, texts)]), "<u8"),
        "actions/choices/strings.bin": b"".join(texts),
    }
    for name, values in zip(rewards, choices.rewards if choices.moves is None else choices.moves, strict=True):
        members[f"annotations/rewards/{name}/{applies}/values.bin"] = _array(values, "<f8")
    return members


def _array(values: Any, kind: str) -> bytes:
    return np.asarray(values).astype(kind).tobytes()


def read_umb(
    path: str | Path, *, costs: Sequence[str] | None = None, thresholds: Mapping[str, float] | None = None
) -> CMDP:
    """Read a model from a .umb file.

    Args:
        path: the file.
        costs: the reward annotations to take as costs, main cost first; all of them by default.
        thresholds: limits by name of the cost; they add to those in the file, and go before them.

    Raises:
        ModelFileError: a file with a mistake.
    """
    path = checks.path(path)
    content = reading.read_bytes(path, ModelFileError)
    with reading.reraise_as(ModelFileError, path):
        archive = _Archive(path, content)
        system = archive.index["transition-system"]
        for key, allowed in (("time", ("discrete",)), ("#players", (0, 1)), ("#observations", (0,))):
            if system[key] not in allowed:
                raise ModelFileError(f"{key} is {system[key]!r}; only {' and '.join(map(repr, allowed))} can be read")
        for key in ("#states", "#choices", "#branches"):
            count = checks.whole(system[key], key, most=None)
            if 8 * count > reading.allowance(len(content)):
                raise ModelFileError(f"{key} is {count:,}, too many for a file of this size")
        choices, rewards = archive.choices(system)
        start = np.flatnonzero(archive.bits("state-is-initial.bin", system["#states"]))
        facts = archive.facts()
        if len(start) != 1:
            raise ModelFileError(f"there are {len(start)} initial states; there must be one")
        return explicit.model_of(
            choices, system["#states"], int(start[0]), rewards, facts, len(content), costs, thresholds
        )


class _Archive:
    """The files in an archive, as arrays; KeyError for one that is missing."""

    def __init__(self, path: Path, content: bytes) -> None:
        self.files: dict[str, bytes] = {}
        room = reading.allowance(len(content))
        try:
            with tarfile.open(fileobj=io.BytesIO(content), mode="r:*") as archive:
                for member in archive:
                    room -= member.size
                    if room < 0:
                        raise ModelFileError("unpacks to too much for its size")
                    file = archive.extractfile(member)
                    if file is not None:
                        self.files[member.name] = file.read()
        except (tarfile.TarError, EOFError, OSError, ValueError) as problem:
            raise ModelFileError(f"{path}: truncated or not a UMB archive ({problem})") from None
        self.index = reading.parse_json(self.files["index.json"].decode(), ModelFileError, f"{path}: index.json: ")

    def numbers(self, name: str, kind: Mapping[str, Any], count: int) -> Floats:
        """An array of numbers of a type of the format, as floats."""
        if kind["type"] == "rational":
            parts = self.array(name, "<i8", 2 * count).reshape(-1, 2).tolist()
            return np.array([above / (below % 2**64) for above, below in parts], dtype=np.float64)
        if kind["type"] not in _TYPES:
            raise ModelFileError(f"{name} holds {kind['type']}; only {', '.join(_TYPES)} and rational can be read")
        return self.array(name, _TYPES[kind["type"]], count).astype(np.float64)

    def array(self, name: str, kind: str, count: int) -> NDArray[Any]:
        """An array of a type of numpy."""
        array = np.frombuffer(self.files[name], kind)
        if len(array) != count:
            raise ModelFileError(f"{name} has {len(array)} numbers; index.json says that there are {count}")
        return array

    def whole(self, name: str, count: int, most: int, kind: str = "<u8") -> Ints:
        """An array of whole numbers from 0 to `most`."""
        array = self.array(name, kind, count)
        if count and array.max() > most:
            raise ModelFileError(f"{name} has {array.max()}; there are only {most}")
        return array.astype(np.int64)

    def bits(self, name: str, count: int) -> NDArray[Any]:
        """An array of bits."""
        return np.unpackbits(np.frombuffer(self.files[name], np.uint8), count=count, bitorder="little")

    def facts(self) -> dict[str, Any]:
        """What `write_umb` said in the comment; nothing for files of others."""
        try:
            facts = json.loads(self.index.get("model-data", {}).get("comment", ""))
        except ValueError:
            return {}
        ours = isinstance(facts, dict) and facts.keys() <= explicit.FACTS.keys()
        return explicit.checked(facts, "comment: ") if ours else {}

    def choices(self, system: Mapping[str, Any]) -> tuple[Choices, list[str]]:
        """The choices, and the names of the reward annotations."""
        S, n, entries = (system[key] for key in ("#states", "#choices", "#branches"))
        of_state = self._ranges("state-to-choices.bin", S, n)
        begin = self._ranges("choice-to-branches.bin", n, entries)
        state = np.repeat(np.arange(S), np.diff(of_state))
        p = np.ones(entries)
        if "branch-probability-type" in system:
            p = self.numbers("branch-to-probability.bin", system["branch-probability-type"], entries)
        rewards, moves, by_move = np.zeros((0, n)), np.zeros((0, entries)), False
        annotations = self.index.get("annotations", {}).get("rewards", {})
        sizes = {"states": S, "choices": n, "branches": entries}
        for name, annotation in annotations.items():
            path = f"annotations/rewards/{name}"
            found = {
                where: self.numbers(f"{path}/{where}/values.bin", annotation["type"], sizes[where])
                for where in annotation["applies-to"]
            }
            mean = found.get("choices", np.zeros(n)) + found.get("states", np.zeros(S))[state]
            move = found.get("branches", np.zeros(entries))
            by_move = by_move or "branches" in found
            rewards = np.vstack([rewards, mean + np.bincount(np.repeat(np.arange(n), np.diff(begin)), move * p, n)])
            moves = np.vstack([moves, np.repeat(mean, np.diff(begin)) + move])
        targets = self.whole("branch-to-target.bin", entries, S - 1)
        labels = self._labels(n, system["#choice-actions"])
        names = [annotation.get("alias") or name for name, annotation in annotations.items()]
        return Choices(state, labels, rewards, begin, targets, p, moves if by_move else None), names

    def _ranges(self, name: str, count: int, entries: int) -> Ints:
        """Where the entries of each thing begin and end; one for each where the file is left out."""
        begin = self.whole(name, count + 1, entries) if name in self.files else np.arange(count + 1)
        if begin[0] != 0 or begin[-1] != entries or (np.diff(begin) < 0).any():
            raise ModelFileError(f"{name} must rise from 0 to {entries}")
        return begin

    def _labels(self, n: int, actions: int) -> list[str]:
        """The name of the action of each choice."""
        folder = "actions/choices"
        if f"{folder}/strings.bin" not in self.files:
            return [UNLABELLED] * n
        text = self.files[f"{folder}/strings.bin"]
        ends = self._ranges(f"{folder}/string-mapping.bin", actions, len(text)).tolist()
        names = [text[a:b].decode() for a, b in pairwise(ends)]
        return [names[a] for a in self.whole(f"{folder}/values.bin", n, actions - 1, "<u4").tolist()]


_TYPES = {"double": "<f8", "int": "<i8", "uint": "<u8"}
