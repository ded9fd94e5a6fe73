"""A learner's state as a file: .npz, never pickled, with a checksum.

Three arrays of bytes: `document`, a JSON text, in which

    {"array": [kind, shape]}     stands for the next array of `data`, which holds them one after the other
    {"tuple": [...]}, {"table": {...}}, {"bytes": "00ff"}, {"whole": "-1f"}     for what JSON does not have

lists, text, numbers, true, false and null stand for themselves; and `checksum`, SHA-256 of both. What the state says is
checked as any state is (see `saved`).
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from psconrl._core import checks
from psconrl.errors import InvalidArgumentError, InvalidTypeError, LearnerFileError
from psconrl.io import reading, writing

FORMAT, VERSION = "psconrl.learner", 2
_DEEPEST = 12
"""Levels of containers in each other; each takes two in the document."""
_LARGE = 2**63
"""Whole numbers from here on are written as text: readers of JSON take them for floats."""
_KINDS = {"<i8", "<f8", "<i4", "<f4", "<u8", "<u4", "<i2", "<u2", "|i1", "|u1", "|b1"}


def save(state: dict[str, Any], path: str | Path) -> None:
    """Write a state in the place of a file."""
    file = _checked(path)
    document, data = pack(state)
    arrays = {name: np.frombuffer(part, dtype=np.uint8) for name, part in (("document", document), ("data", data))}
    arrays["checksum"] = np.frombuffer(_checksum(document, data), dtype=np.uint8)
    # What unpacks to too much for its size is refused when it is read, so large states are not packed.
    large = sum(array.nbytes for array in arrays.values()) > reading.allowance(0)
    with writing.replacing(file) as target:
        (np.savez if large else np.savez_compressed)(target, **arrays)  # type: ignore[arg-type]


def load(path: str | Path) -> Any:
    """The state in a file."""
    file = _checked(path)
    with reading.refusing(file, LearnerFileError):
        arrays = reading.read_arrays(file, LearnerFileError, ("document", "data", "checksum"))
        for name in ("document", "data", "checksum"):
            if name not in arrays or arrays[name].dtype != np.uint8 or arrays[name].ndim != 1:
                raise LearnerFileError(f"{file}: is not the file of a learner: it has no bytes {name!r}")
        document, data = arrays["document"].tobytes(), arrays["data"].tobytes()
        if arrays["checksum"].tobytes() != _checksum(document, data):
            raise LearnerFileError(f"{file}: is damaged: its checksum is that of another content")
        return unpack(document, data, f"{file}: ")


def pack(state: dict[str, Any]) -> tuple[bytes, bytes]:
    """A state as a document and the data of its arrays."""
    packer = _Packer()
    said = {"format": FORMAT, "version": VERSION, "state": packer.pack(state, 0)}
    return json.dumps(said).encode(), b"".join(packer.data)


def unpack(document: bytes, data: bytes, where: str) -> Any:
    """The inverse of `pack`."""
    said = reading.parse_json(document.decode(), LearnerFileError, where)
    if not isinstance(said, dict) or said.get("format") != FORMAT:
        raise LearnerFileError(f'{where}not a learner: its document must have "format": "{FORMAT}"')
    if said.get("version") != VERSION or said["version"] is True:
        raise LearnerFileError(f"{where}is of version {reading.shown(said.get('version'))}; only {VERSION} can be read")
    unpacker = _Unpacker(data)
    state = unpacker.unpack(said.get("state"))
    if unpacker.at != len(data):
        raise LearnerFileError(f"{where}has {len(data) - unpacker.at} bytes that belong to nothing")
    return state


def _checked(path: str | Path) -> Path:
    file = checks.path(path)
    if file.suffix.lower() != ".npz":
        raise LearnerFileError(f"{file}: a learner's file must end in .npz")
    return file


def _checksum(document: bytes, data: bytes) -> bytes:
    return hashlib.sha256(len(document).to_bytes(8, "big") + document + data).digest()


class _Packer:
    def __init__(self) -> None:
        self.data: list[bytes] = []

    def pack(self, value: Any, depth: int) -> Any:
        if depth > _DEEPEST:
            raise InvalidTypeError(f"a state is nested more than {_DEEPEST} levels deep; it cannot be saved")
        if isinstance(value, np.generic):
            value = value.item()
        kind = type(value)
        if value is None or kind in (bool, float, str):
            return value
        if kind is int:
            return value if -_LARGE <= value < _LARGE else {"whole": f"{value:x}"}
        if kind is bytes:
            return {"bytes": value.hex()}
        if kind is list:
            return [self.pack(item, depth + 1) for item in value]
        if isinstance(value, tuple):
            return {"tuple": [self.pack(item, depth + 1) for item in value]}
        if kind is dict and all(isinstance(key, str) for key in value):
            return {"table": {key: self.pack(item, depth + 1) for key, item in value.items()}}
        if isinstance(value, np.ndarray) and value.dtype.newbyteorder("<").str in _KINDS:
            little = np.ascontiguousarray(value, dtype=value.dtype.newbyteorder("<"))
            self.data.append(little.tobytes())
            return {"array": [little.dtype.str, list(value.shape)]}
        raise InvalidTypeError(
            f"{checks.short_repr(value)} cannot be saved; names of states may be text, numbers, True, False, None, "
            "bytes "
            "and tuples of these"
        )


class _Unpacker:
    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def unpack(self, value: Any) -> Any:
        if isinstance(value, list):
            return [self.unpack(item) for item in value]
        if not isinstance(value, dict):
            return value
        if len(value) != 1:
            raise InvalidArgumentError(f"{reading.shown(value)} stands for nothing")
        ((kind, content),) = value.items()
        readers: dict[str, Callable[[Any], Any]] = {
            "tuple": lambda items: tuple(self.unpack(item) for item in _of(list, items)),
            "table": lambda table: {key: self.unpack(item) for key, item in _of(dict, table).items()},
            "bytes": lambda text: bytes.fromhex(_of(str, text)),
            "whole": lambda text: int(_of(str, text), 16),
            "array": self._array,
        }
        if kind not in readers:
            raise InvalidArgumentError(f"{reading.shown(kind)} stands for nothing")
        return readers[kind](content)

    def _array(self, content: Any) -> NDArray[Any]:
        kind, shape = _of(list, content)
        if kind not in _KINDS or not all(type(n) is int and 0 <= n < 2**48 for n in _of(list, shape)):
            raise InvalidArgumentError(f"{reading.shown(content)} is not an array of numbers")
        size = math.prod(shape) * np.dtype(kind).itemsize
        if size > len(self.data) - self.at:
            raise InvalidArgumentError(f"{reading.shown(content)} is longer than the data")
        part = self.data[self.at : self.at + size]
        self.at += size
        return np.frombuffer(part, dtype=kind).reshape(shape).copy()


def _of(kind: type, value: Any) -> Any:
    if not isinstance(value, kind):
        raise InvalidArgumentError(f"{reading.shown(value)} stands where a {kind.__name__} must stand")
    return value
