"""Stores that were damaged or forged: every odd file is named in one line, and the rest can be used."""

from __future__ import annotations

import dataclasses
import io
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from psconrl import report
from psconrl.analysis import group
from psconrl.environments import catalogue
from psconrl.experiments import Store, run_cell, run_experiment
from psconrl.experiments import record as recording
from psconrl.experiments.record import SCHEMA
from psconrl.experiments.store import _checksum
from tests.experiments.sweeps import sweep

EXPERIMENT = sweep(seeds=3, horizon=30, agents=("uniform", "optimal"), checkpoints=3)
RUNS = 6
Damage = Callable[[Path], Path]
"""Does harm in a folder of results, and says which file must be named."""


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("sound") / "out"
    run_experiment(EXPERIMENT, out, workers=1)
    return out


@pytest.fixture(scope="module")
def table() -> pa.Table:
    return run_cell(EXPERIMENT.cells[0], 1)


def the_part(out: Path) -> Path:
    return next((out / "runs" / "toy" / "Uniform").glob("seed-0001.*.parquet"))


def put(out: Path, content: bytes) -> Path:
    """A part with a content of the forger's choice, and the checksum that belongs to it."""
    old = the_part(out)
    new = old.with_name(".".join([*old.name.split(".")[:2], _checksum(content), "parquet"]))
    old.unlink()
    new.write_bytes(content)
    return new


def cut(out: Path) -> Path:
    part = the_part(out)
    part.write_bytes(part.read_bytes()[:-100])
    return part


def flipped(out: Path) -> Path:
    part = the_part(out)
    content = bytearray(part.read_bytes())
    content[len(content) // 2] ^= 0x41
    part.write_bytes(content)
    return part


def replaced(make: Callable[[Path], object], name: str = "") -> Damage:
    """Something else in the place of a file."""

    def harm(out: Path) -> Path:
        path = out / name if name else the_part(out)
        path.unlink()
        make(path)
        return path

    return harm


def forged(change: Callable[[pa.Table], pa.Table], **options: Any) -> Damage:
    """A run with the right checksum and the wrong content."""

    def harm(out: Path) -> Path:
        buffer = io.BytesIO()
        pq.write_table(change(run_cell(EXPERIMENT.cells[0], 1)), buffer, **options)
        return put(out, buffer.getvalue())

    return harm


def column(name: str, value: Any) -> Damage:
    """One column with another value."""
    kind = SCHEMA.field(name).type
    return forged(lambda t: t.set_column(t.column_names.index(name), name, pa.array([value], type=kind)))


def many_zeros(t: pa.Table) -> pa.Table:
    """Twenty million numbers in a few bytes on the disk."""
    zeros = pa.array(np.zeros(20_000_000, dtype=np.int64))
    lists = pa.ListArray.from_arrays(pa.array([0, len(zeros)], pa.int32()), zeros)
    return t.set_column(t.column_names.index("grid"), "grid", lists)


def moved(out: Path) -> Path:
    old = the_part(out)
    new = old.parents[2] / "box" / "Uniform" / old.name
    new.parent.mkdir(parents=True)
    return old.rename(new)


def specification(**changes: Any) -> Damage:
    def harm(out: Path) -> Path:
        path = out / "experiment.json"
        document = json.loads(path.read_text())
        document["cells"][0] |= changes
        path.write_text(json.dumps(document))
        return path

    return harm


DAMAGES: dict[str, Damage] = {
    "cut": cut,
    "a bit flipped": flipped,
    "a pipe": replaced(os.mkfifo),
    "a link to a device": replaced(lambda path: path.symlink_to("/dev/zero")),
    "a pipe for the specification": replaced(os.mkfifo, "experiment.json"),
    "no column grid": forged(lambda t: t.drop_columns(["grid"])),
    "nothing in a column": column("thresholds", None),
    "a column too many": forged(lambda t: t.append_column("colour", pa.array(["red"]))),
    "two rows": forged(lambda t: pa.concat_tables([t, t])),
    "millions of zeros": forged(many_zeros, compression="zstd"),
    "another seed inside": column("seed", 2),
    "another agent inside": column("agent", "Optimal"),
    "other settings than its cell": column("settings", '{"a": 1}'),
    "deep settings": column("settings", '{"a": ' + "[" * 90 + "]" * 90 + "}"),
    "other states than in plans": column("states", 2**40),
    "a limit too many": column("thresholds", [0.5, 0.5]),
    "checkpoints in disorder": column("grid", [20, 10, 30]),
    "no sums": column("cumulative", []),
    "no plans": column("episodes", []),
    "the folder of another environment": moved,
    "an unknown field in the specification": specification(colour="red"),
    "an odd horizon in the specification": specification(horizon=[1]),
}


def used(out: Path) -> tuple[int, int, int]:
    """How many records, specifications and timings a folder gives, after all of it was looked at."""
    store = Store(out)
    records = list(store.records())
    group(records, store.timings())
    store.finished()
    store.failures()
    return len(records), len(store.experiments()), len(store.timings())


def copied(sound: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(sound, tmp_path / "out"))


@pytest.mark.parametrize("name", DAMAGES)
def test_damage_is_named_and_the_rest_is_used(
    name: str, sound: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    out = copied(sound, tmp_path)
    path = DAMAGES[name](out)
    found = used(out)
    (message,) = set(caplog.messages)
    assert message.startswith(f"{path}: "), message
    assert "\n" not in message
    assert len(message) < len(str(path)) + 400
    assert found == (RUNS - (path.suffix == ".parquet"), 1 - (path.name == "experiment.json"), RUNS)


@pytest.mark.parametrize(
    "line", [b"\xff\xfe", b'{"identity": "a', b"[]", b"[" * 4000, b"9" * 4000, b'{"identity": "a", "seconds": -1}']
)
def test_lines_of_timings_that_are_none_are_left_out(
    line: bytes, sound: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    out = copied(sound, tmp_path)
    with (out / "timings.jsonl").open("ab") as file:
        file.write(line + b"\n")
    assert used(out) == (RUNS, 1, RUNS)
    assert not caplog.messages, "a line that is half written is nothing odd"


@pytest.mark.parametrize("name", ["cut", "a pipe", "another seed inside", "millions of zeros"])
def test_what_is_damaged_is_done_again(name: str, sound: Path, tmp_path: Path) -> None:
    out = copied(sound, tmp_path)
    DAMAGES[name](out)
    outcome = run_experiment(EXPERIMENT, out, workers=1)
    assert (outcome.executed, outcome.ok) == (1, True)
    assert {file.path.name for file in Store(out).files()} >= {file.path.name for file in Store(sound).files()}


def test_a_report_builds_no_model(sound: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A stored run may say that it has ten states, and ask for a model of millions."""
    out = copied(sound, tmp_path)
    for cell in EXPERIMENT.cells:
        shutil.rmtree(out / "runs" / "toy" / cell.agent)
    record = recording.from_bytes(recording.to_bytes(run_cell(EXPERIMENT.cells[0], 0)))
    content = recording.to_bytes(
        recording.to_table(dataclasses.replace(record, env="garnet", env_options={"S": 2_000_000}))
    )
    folder = out / "runs" / "garnet" / "Uniform"
    folder.mkdir(parents=True)
    (folder / f"seed-0000.{record.identity}.{_checksum(content)}.parquet").write_bytes(content)

    def build(*_: object, **options: object) -> None:
        raise AssertionError(f"a model was built: {options}")

    monkeypatch.setattr(catalogue, "make", build)
    monkeypatch.setattr(catalogue.Environment, "__call__", build)
    assert len(Store(out).load()) == 1
    report.write(out, out)
    assert (out / "report.html").exists()


def test_a_folder_is_used_whatever_lies_in_it(sound: Path, tmp_path: Path) -> None:
    """Strangers' files stay, and a folder with the name of a temporary file harms nothing."""
    out = copied(sound, tmp_path)
    strange = [out / ".mine.tmp", out / "runs" / ".note.tmp", out / "runs" / "toy" / "Uniform" / ".seed-0001.x.tmp"]
    for path in strange:
        path.write_text("mine")
        os.utime(path, (0, 0))
    (out / ".folder.tmp").mkdir()
    dead = out / "runs" / "toy" / "Uniform" / f".{the_part(out).name}.00000000-1-00000000.tmp"
    dead.write_text("half")
    os.utime(dead, (0, 0))
    the_part(out).unlink()
    assert run_experiment(EXPERIMENT, out, workers=1).executed == 1
    assert all(path.read_text() == "mine" for path in strange)
    assert not dead.exists()
