"""Hostile files: no code runs, sizes are checked before memory is asked for, and only the caller's error comes out."""

from __future__ import annotations

import io
import json
import os
import struct
import tracemalloc
import zipfile
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import psconrl
from psconrl.cmdp import CMDP
from psconrl.errors import ModelFileError
from psconrl.io import reading

TOY = psconrl.make("toy")


def assert_refused(path: Path, most: int = 300 * reading.MEBIBYTE) -> None:
    """Refused by name, without much memory on the way."""
    tracemalloc.start()
    try:
        with pytest.raises(ModelFileError) as caught:
            CMDP.load(path)
        assert tracemalloc.get_traced_memory()[1] < most
    finally:
        tracemalloc.stop()
    assert str(path) in str(caught.value)


def npy(shape: str, kind: str = "'<f8'", content: bytes = b"") -> bytes:
    header = f"{{'descr': {kind}, 'fortran_order': False, 'shape': {shape}, }}\n".encode()
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + content


class Exploit:
    """What would run if anything were unpickled."""

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, ("owned",)


def pickled() -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, np.array([Exploit()], dtype=object), allow_pickle=True)
    return buffer.getvalue()


ARRAYS = {
    "declared too large": npy("(100000, 100000)"),
    "negative": npy("(-1,)"),
    "not whole": npy("(1.5,)"),
    "pickled": pickled(),
    "objects": npy("(1,)", "'|O'", bytes(8)),
    "structured": npy("(1,)", "[('a', '<f8')]", bytes(8)),
    "dates": npy("(1,)", "'<M8[s]'", bytes(8)),
    "long header": npy("1" * 20_000),
    "no header": b"no array",
    "no text": npy("(1,)", "'<U1'", b"\xff" * 4),
}


@pytest.mark.parametrize("content", ARRAYS.values(), ids=ARRAYS)
def test_hostile_arrays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: bytes) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("costs", "state_names"):
        with zipfile.ZipFile(tmp_path / "model.npz", "w", zipfile.ZIP_DEFLATED) as file:
            file.writestr(f"{name}.npy", content)
        assert_refused(tmp_path / "model.npz")
    assert not (tmp_path / "owned").exists()


def test_archives_that_unpack_to_too_much(tmp_path: Path) -> None:
    """Half a megabyte that says, or turns out, to be half a gigabyte."""
    path = tmp_path / "model.npz"
    with (
        zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as file,
        file.open("costs.npy", "w") as member,
    ):
        member.write(npy("(67108864,)"))
        for _ in range(8):
            member.write(bytes(2**26))
    assert_refused(path)
    content = bytearray(path.read_bytes())  # the same, with a lie about it in the directory
    entry = content.rindex(b"PK\x01\x02")
    content[entry + 24 : entry + 28] = struct.pack("<I", 1000)
    path.write_bytes(content)
    assert_refused(path)


def test_unknown_arrays_and_indices_out_of_range(tmp_path: Path) -> None:
    arrays: dict[str, Any] = TOY.to_sparse().to_arrays()
    np.savez(tmp_path / "model.npz", **arrays, colour=np.zeros(1))
    with pytest.raises(ModelFileError, match="colour"):
        CMDP.load(tmp_path / "model.npz")
    for name in ("indices", "indptr"):
        np.savez(tmp_path / "model.npz", **(arrays | {name: np.full(3, 2**64 - 1, dtype=np.uint64)}))
        with pytest.raises(ModelFileError, match=name):
            CMDP.load(tmp_path / "model.npz")


@pytest.mark.parametrize("suffix", ["npz", "json", "drn"])
def test_truncated_and_damaged_files(tmp_path: Path, suffix: str) -> None:
    """Whatever bytes change, the file is read or refused; nothing else is raised."""
    rng = np.random.default_rng(np.random.SeedSequence(0))
    path = tmp_path / f"model.{suffix}"
    TOY.to_sparse().save(path)
    content = path.read_bytes()
    for share in (0.0, 0.3, 0.6, 0.97):
        path.write_bytes(content[: int(share * len(content))])
        assert_refused(path)
    for _ in range(60):
        damaged = bytearray(content)
        for at in rng.integers(len(content), size=3):
            damaged[at] = rng.integers(256)
        path.write_bytes(damaged)
        with suppress(ModelFileError):
            CMDP.load(path)


def test_large_models_come_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What would be compressed too tightly to be read again is not compressed."""
    monkeypatch.setattr(reading, "allowance", lambda size: 1000 + 2 * size)
    cmdp = CMDP(np.eye(30)[:, np.newaxis], np.zeros((1, 30, 1)))
    for suffix in ("npz", "json", "drn"):
        cmdp.save(tmp_path / f"model.{suffix}")
        assert CMDP.load(tmp_path / f"model.{suffix}").to_dense() == cmdp


@pytest.mark.parametrize("suffix", ["npz", "json", "drn"])
def test_pipes_devices_and_sizes(tmp_path: Path, suffix: str) -> None:
    os.mkfifo(tmp_path / f"pipe.{suffix}")
    (tmp_path / f"zero.{suffix}").symlink_to("/dev/zero")
    (tmp_path / f"folder.{suffix}").mkdir()
    with (tmp_path / f"large.{suffix}").open("wb") as file:
        file.truncate(reading.MAX_ARCHIVE + 1)
    for name in ("pipe", "zero", "folder", "large", "none"):
        assert_refused(tmp_path / f"{name}.{suffix}")
    with pytest.raises(ModelFileError):
        CMDP.load(f"a\0b.{suffix}")


@pytest.mark.parametrize("text", ['{"a": 1, "a": 2}', "[" * 40 + "]" * 40, "[" * 100_000, '{"a": }', ""])
def test_json_that_is_refused(text: str) -> None:
    with pytest.raises(ModelFileError, match="here"):
        reading.parse_json(text, ModelFileError, "here: ")


def test_long_numbers_in_json() -> None:
    assert reading.parse_json("[1, " + "9" * 400 + "]", ModelFileError, "") == [1, np.inf]
    assert reading.parse_json("9" * 5000, ModelFileError, "") == np.inf


def test_a_chain_of_many_states_is_read_sparse(tmp_path: Path) -> None:
    """Twenty thousand states, said to be dense: three gigabytes, if they were."""
    S = 20_000
    pairs = [{"state": str(s), "action": "a", "to": {str((s + 1) % S): 1}, "costs": {"c": 0}} for s in range(S)]
    names = {"states": [str(s) for s in range(S)], "actions": ["a"], "costs": ["c"], "sparse": False}
    document = {"format": "psconrl.cmdp", "version": 1, **names, "transitions": pairs}
    (tmp_path / "model.json").write_text(json.dumps(document))
    assert CMDP.load(tmp_path / "model.json").is_sparse
