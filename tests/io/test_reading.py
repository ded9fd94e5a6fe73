"""The reader: sizes are looked at before memory is asked for, and nothing but the caller's error comes out."""

from __future__ import annotations

import json
import os
import resource
import struct
import tracemalloc
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import psconrl
from psconrl.cmdp import CMDP
from psconrl.errors import ModelFileError
from psconrl.io import reading


def refused(path: Path, message: str, most: int = 300 * reading.MEBIBYTE) -> None:
    """Refused with this message, without much memory on the way."""
    tracemalloc.start()
    try:
        with pytest.raises(ModelFileError, match=message) as caught:
            CMDP.load(path)
        assert tracemalloc.get_traced_memory()[1] < most
    finally:
        tracemalloc.stop()
    assert str(path) in str(caught.value)


def npy(shape: str, kind: str = "'<f8'", content: bytes = b"") -> bytes:
    header = f"{{'descr': {kind}, 'fortran_order': False, 'shape': {shape}, }}\n".encode()
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + content


def archive(path: Path, **members: bytes) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        for name, content in members.items():
            file.writestr(f"{name}.npy", content)
    return path


@pytest.mark.parametrize(
    ("shape", "kind", "message"),
    [
        ("(100000, 100000)", "'<f8'", "is declared as .* truncated, or not what it says"),
        ("(True,)", "'<f8'", "has no proper shape"),
        ("(-1,)", "'<f8'", "has no proper shape"),
        ("(1.5,)", "'<f8'", "has no proper shape"),
        ("[1]", "'<f8'", "has no proper shape"),
        ("(1,) * 99", "'<f8'", "has a header that cannot be read"),
        ("(1,)", "'|O'", "holds Python objects or other things"),
        ("(1,)", "[('a', '<f8')]", "holds Python objects or other things"),
        ("(1,)", "'<M8[s]'", "holds Python objects or other things"),
        ("(" * 400, "'<f8'", "has a header that cannot be read"),
        ("1" * 2000, "'<f8'", "has a header of"),
    ],
)
def test_headers_of_arrays(tmp_path: Path, shape: str, kind: str, message: str) -> None:
    refused(archive(tmp_path / "model.npz", costs=npy(shape, kind, bytes(8))), message)


def test_archives_that_unfold(tmp_path: Path) -> None:
    """A megabyte that says, or turns out, to be a gigabyte."""
    path = tmp_path / "model.npz"
    with (
        zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as file,
        file.open("costs.npy", "w") as member,
    ):
        member.write(npy("(134217728,)"))
        for _ in range(16):
            member.write(bytes(2**26))
    refused(path, "unpacks to 1,024 MiB, too much for")
    # The same, with a lie about it in the directory.
    content = bytearray(path.read_bytes())
    entry = content.rindex(b"PK\x01\x02")
    content[entry + 24 : entry + 28] = struct.pack("<I", 1000)
    path.write_bytes(content)
    refused(path, "truncated|not what it says")


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_other_ways_to_compress(tmp_path: Path, method: int) -> None:
    with zipfile.ZipFile(tmp_path / "model.npz", "w", method) as file:
        file.writestr("costs.npy", npy("(1,)", content=bytes(8)))
    refused(tmp_path / "model.npz", "is compressed in a way that is not read")


def test_many_arrays_and_strange_ones(tmp_path: Path) -> None:
    refused(archive(tmp_path / "a.npz", **{f"x{k}": b"" for k in range(100)}), "has 100 arrays")
    refused(archive(tmp_path / "b.npz", colour=npy("(1,)", content=bytes(8))), "has an unknown array 'colour'")
    refused(archive(tmp_path / "c.npz", costs=b"no array"), "array 'costs' is not in numpy's format")
    refused(archive(tmp_path / "d.npz", state_names=npy("(1,)", "'<U1'", b"\xff" * 4)), "holds what is not text")


def test_places_that_are_none(tmp_path: Path) -> None:
    arrays: dict[str, Any] = psconrl.make("toy").to_sparse().to_arrays()
    for name in ("indices", "indptr"):
        np.savez(tmp_path / "model.npz", **(arrays | {name: np.full(3, 2**64 - 1, dtype=np.uint64)}))
        refused(tmp_path / "model.npz", "no places in a matrix")


def test_large_models_come_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What would be packed too tightly to be read again is not packed."""
    monkeypatch.setattr(reading, "allowance", lambda size: 1000 + 2 * size)
    cmdp = CMDP(np.eye(30)[:, np.newaxis], np.zeros((1, 30, 1)))
    cmdp.save(tmp_path / "model.npz")
    assert CMDP.load(tmp_path / "model.npz") == cmdp
    for ending in ("json", "drn"):
        cmdp.save(tmp_path / f"model.{ending}")
        assert CMDP.load(tmp_path / f"model.{ending}").to_dense() == cmdp


def test_pipes_and_devices_do_not_block(tmp_path: Path) -> None:
    for ending in ("npz", "json", "drn"):
        os.mkfifo(tmp_path / f"pipe.{ending}")
        refused(tmp_path / f"pipe.{ending}", "is not a regular file")
        (tmp_path / f"zero.{ending}").symlink_to("/dev/zero")
        refused(tmp_path / f"zero.{ending}", "is not a regular file")
    with pytest.raises(ModelFileError, match="is not the name of a file"):
        CMDP.load("a\0b.json")


def test_files_that_are_too_large(tmp_path: Path) -> None:
    with (tmp_path / "model.json").open("wb") as file:
        file.truncate(reading.MAX_TEXT + 1)
    refused(tmp_path / "model.json", "the most that is read is 128 MiB")


def test_a_file_that_grows_while_it_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "model.json"
    path.write_text("{}")
    status = path.stat()
    path.write_bytes(bytes(2000))
    monkeypatch.setattr(os, "fstat", lambda _: status)
    assert len(reading.read_bytes(path, ModelFileError, 1000)) == 3


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"a": 1, "a": 2}', "'a' stands twice in one table"),
        ("[" * 40 + "]" * 40, "nested too deeply: more than 32 levels"),
        ("[" * 100_000, "nested too deeply"),
        ('{"a": }', "no complete JSON: Expecting value at line 1, column 7"),
    ],
)
def test_json(text: str, message: str) -> None:
    with pytest.raises(ModelFileError, match=f"here: .*{message}"):
        reading.parse_json(text, ModelFileError, "here: ")


def test_long_numbers_in_json() -> None:
    assert reading.parse_json("[1, " + "9" * 400 + "]", ModelFileError, "") == [1, np.inf]
    assert reading.parse_json("9" * 5000, ModelFileError, "") == np.inf


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"colour": 1}, "unknown field 'colour'"),
        ({"states": ["a", True]}, "states must be a list of names"),
        ({"sparse": "yes"}, "sparse must be true or false"),
        ({"initial": {"a": True}}, "initial holds True where a number must stand"),
        ({"layout": {"rows": [1], "agent": [[0, 0]]}}, "layout.rows must be lines of text"),
        ({"layout": {"rows": ["S"], "agent": [[0, 0]], "colour": 1}}, "layout: unknown field 'colour'"),
        ({"version": True}, "is of version True"),
    ],
)
def test_fields_of_json(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    document = {"format": "psconrl.cmdp", "version": 1, "states": ["a"], "actions": ["b"], "costs": ["c"]}
    pair = {"state": "a", "action": "b", "to": {"a": 1}, "costs": {"c": 1}}
    (tmp_path / "model.json").write_text(json.dumps(document | {"transitions": [pair]} | change))
    refused(tmp_path / "model.json", message)


def test_a_chain_of_many_states_is_read_sparse(tmp_path: Path) -> None:
    """Twenty thousand states, said to be dense: three gigabytes, if they were."""
    S = 20_000
    pairs = [{"state": str(s), "action": "a", "to": {str((s + 1) % S): 1}, "costs": {"c": 0}} for s in range(S)]
    names = {"states": [str(s) for s in range(S)], "actions": ["a"], "costs": ["c"], "sparse": False}
    document = {"format": "psconrl.cmdp", "version": 1, **names, "transitions": pairs}
    (tmp_path / "model.json").write_text(json.dumps(document))
    assert CMDP.load(tmp_path / "model.json").is_sparse
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss < 2_000_000
