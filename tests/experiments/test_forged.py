"""Stores that were damaged or forged: every odd file is named in one line, and the rest can be used."""

from __future__ import annotations

import io
import json
import os
import shutil
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from psconrl.analysis.groups import group
from psconrl.experiments import Store, run_cell, run_experiment
from psconrl.experiments.record import SCHEMA, to_bytes
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


# Bytes and kinds of files


def cut(share: float) -> Damage:
    def harm(out: Path) -> Path:
        part = the_part(out)
        part.write_bytes(part.read_bytes()[: int(share * part.stat().st_size)])
        return part

    return harm


def flipped(share: float) -> Damage:
    def harm(out: Path) -> Path:
        part = the_part(out)
        content = bytearray(part.read_bytes())
        content[int(share * len(content))] ^= 0x41
        part.write_bytes(content)
        return part

    return harm


def other_kind(make: Callable[[Path], object], name: str = "") -> Damage:
    def harm(out: Path) -> Path:
        path = out / name if name else the_part(out)
        path.unlink()
        make(path)
        return path

    return harm


def make_socket(path: Path) -> None:
    here = os.getcwd()
    os.chdir(path.parent)
    try:
        with socket.socket(socket.AF_UNIX) as opened:
            opened.bind("s")
        os.rename("s", path.name)
    finally:
        os.chdir(here)


def make_hole(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(3 * 2**30)


KINDS: dict[str, Callable[[Path], object]] = {
    "a pipe": os.mkfifo,
    "a folder": os.mkdir,
    "a link to a device": lambda path: path.symlink_to("/dev/zero"),
    "a link to nothing": lambda path: path.symlink_to("nothing"),
    "a link to a folder": lambda path: path.symlink_to("/"),
    "a socket": make_socket,
    "empty": Path.touch,
    "too large": make_hole,
}


# Parts with the right checksum and the wrong content


def forged(change: Callable[[pa.Table], pa.Table], **options: Any) -> Damage:
    def harm(out: Path) -> Path:
        changed = change(run_cell(EXPERIMENT.cells[0], 1))
        buffer = io.BytesIO()
        plain = {"use_dictionary": False, "write_statistics": False, "store_schema": False, "compression": "snappy"}
        pq.write_table(changed, buffer, **(plain | options))
        return put(out, buffer.getvalue())

    return harm


def column(name: str, value: Any) -> Damage:
    """One column with another value."""
    kind = SCHEMA.field(name).type
    return forged(lambda t: t.set_column(t.column_names.index(name), name, pa.array([value], type=kind)))


def retyped(name: str) -> Damage:
    kind = pa.int32() if SCHEMA.field(name).type != pa.int32() else pa.int64()
    return forged(lambda t: t.set_column(t.column_names.index(name), name, pa.array([1], type=kind)))


def value(name: str, change: Callable[[Any], Any]) -> Damage:
    """One column with its value changed."""
    return forged(
        lambda t: t.set_column(
            t.column_names.index(name),
            name,
            pa.array([change(t.column(name)[0].as_py())], type=SCHEMA.field(name).type),
        )
    )


def each(key: str, change: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda rows: [row | {key: change(row[key])} for row in rows]


def pages(change: Callable[[bytearray, Any], None]) -> Damage:
    """The bytes of a part changed where its foot says that a column lies."""

    def harm(out: Path) -> Path:
        content = bytearray(to_bytes(run_cell(EXPERIMENT.cells[0], 1)))
        change(content, pq.ParquetFile(pa.BufferReader(bytes(content))).metadata.row_group(0))
        return put(out, bytes(content))

    return harm


def many_nothings(t: pa.Table) -> pa.Table:
    """A list of twenty million gaps, which takes a few bytes on the disk."""
    gaps = pa.nulls(20_000_000, pa.float64())
    lists = pa.ListArray.from_arrays(pa.array([0, len(gaps)], pa.int32()), gaps)
    return t.set_column(t.column_names.index("thresholds"), "thresholds", lists)


def many_zeros(t: pa.Table) -> pa.Table:
    zeros = pa.array(np.zeros(20_000_000, dtype=np.int64))
    lists = pa.ListArray.from_arrays(pa.array([0, len(zeros)], pa.int32()), zeros)
    return t.set_column(t.column_names.index("grid"), "grid", lists)


def longer_page(content: bytearray, columns: Any) -> None:
    at = columns.column(0).data_page_offset
    content[at + 3] ^= 0x7E


def other_page(content: bytearray, columns: Any) -> None:
    content[columns.column(5).data_page_offset + 1] ^= 0x02


def contradicting(content: bytearray, columns: Any) -> None:
    """The text `env` must be there now, but its counts of levels say that it need not; this once ended the process."""
    content[content.index(b"\x25\x02\x18\x03env") + 1] = 0


def renamed(change: Callable[[Path], Path]) -> Damage:
    def harm(out: Path) -> Path:
        old = the_part(out)
        new = change(old)
        new.parent.mkdir(parents=True, exist_ok=True)
        old.rename(new)
        return new

    return harm


PARTS: dict[str, Damage] = {
    **{f"cut at {k}/20": cut(k / 20) for k in range(1, 20)},
    **{f"a bit flipped at {k}/20": flipped(k / 20) for k in range(20)},
    **{f"{name} for a part": other_kind(make) for name, make in KINDS.items()},
    **{f"no column {name}": forged(lambda t, n=name: t.drop_columns([n])) for name in SCHEMA.names if name != "peaks"},  # type: ignore[misc]
    # The world is kept with the first seed alone.
    **{f"nothing in column {name}": column(name, None) for name in SCHEMA.names if name != "world"},
    **{f"column {name} of another type": retyped(name) for name in SCHEMA.names},
    "a column too many": forged(lambda t: t.append_column("colour", pa.array(["red"]))),
    "a column twice": forged(lambda t: t.append_column("seed", pa.array([1]))),
    "no rows": forged(lambda t: t.slice(0, 0)),
    "two rows": forged(lambda t: pa.concat_tables([t, t])),
    "two groups": forged(lambda t: pa.concat_tables([t, t]), row_group_size=1),
    "a dictionary": forged(lambda t: t, use_dictionary=True),
    "pages of another version": forged(lambda t: t, data_page_version="2.0"),
    "another encoding": forged(lambda t: t, column_encoding={"horizon": "DELTA_BINARY_PACKED"}),
    "millions of gaps": forged(many_nothings),
    "millions of zeros": forged(many_zeros, compression="zstd"),
    "a page of another length": pages(longer_page),
    "a page of another kind": pages(other_page),
    "a foot that contradicts itself": pages(contradicting),
    "another seed inside": column("seed", 2),
    "a negative seed inside": column("seed", -1),
    "another identity inside": column("identity", "0" * 20),
    "another environment inside": column("env", "box"),
    "another agent inside": column("agent", "Optimal"),
    "an agent of a long name inside": column("agent", "a" * 10_000),
    "a cell of other settings": column("settings", '{"a": 1}'),
    "a cell of other options": column("env_options", '{"theta": 0.7}'),
    "settings that are a list": column("settings", "[]"),
    "settings that are no JSON": column("settings", "{"),
    "settings that are deep": column("settings", '{"a": ' + "[" * 90 + "]" * 90 + "}"),
    "settings named twice": column("settings", '{"a": 1, "a": 2}'),
    "no states": column("states", 0),
    "negative states": column("states", -(2**62)),
    "other states than in plans": column("states", 2**40),
    "no actions": column("actions", 0),
    "another horizon": column("horizon", 31),
    "no horizon": column("horizon", 0),
    "guessed costs": column("costs", "guessed"),
    "one name for two costs": column("cost_names", ["a", "a"]),
    "a name too few": column("cost_names", ["a"]),
    "other names": column("cost_names", ["a", "b"]),
    "a name that is missing": column("cost_names", ["a", None]),
    "a limit too many": column("thresholds", [0.5, 0.5]),
    "an infinite limit": column("thresholds", [np.inf]),
    "a limit that is missing": column("thresholds", [None]),
    "an infinite optimum": column("optimum", -np.inf),
    "a price too few": column("multipliers", []),
    "no checkpoints": column("grid", []),
    "checkpoints in disorder": column("grid", [20, 10, 30]),
    "a checkpoint at zero": column("grid", [0, 20, 30]),
    "a checkpoint after the end": column("grid", [10, 20, 31]),
    "other checkpoints": column("grid", [5, 20, 30]),
    "a checkpoint that is missing": column("grid", [10, None, 30]),
    "sums that are no numbers": value("cumulative", lambda rows: [[np.nan] * 3, *rows[1:]]),
    "sums of unequal lengths": value("cumulative", lambda rows: [rows[0][:-1], rows[1]]),
    "sums for one cost": value("cumulative", lambda rows: rows[:1]),
    "no sums": column("cumulative", []),
    "sums with a gap": value("cumulative", lambda rows: [[None, *rows[0][1:]], rows[1]]),
    "sums with a missing row": value("cumulative", lambda rows: [None, rows[1]]),
    "infinite excess": value("cumulative_excess", lambda rows: [rows[0], [np.inf] * 3]),
    "excess for one cost": value("cumulative_excess", lambda rows: rows[:1]),
    "infinite peaks": value("peaks", lambda rows: [rows[0], [np.inf] * 3]),
    "peaks for one cost": value("peaks", lambda rows: rows[:1]),
    "no plans": column("episodes", []),
    "a plan that is missing": column("episodes", [None]),
    "plans before the start": value("episodes", each("start", lambda _: -5)),
    "plans of negative length": value("episodes", each("length", lambda _: -5)),
    "plans without a start": value("episodes", each("start", lambda _: None)),
    "plans without a phase": value("episodes", each("phase", lambda _: None)),
    "plans without a verdict": value("episodes", each("feasible", lambda _: None)),
    "averages of other costs": value("episodes", each("average_costs", lambda _: [0.1] * 7)),
    "snapshots of another shape": value("snapshots", each("shape", lambda _: [1, 1, 1])),
    "snapshots of a huge shape": value("snapshots", each("shape", lambda _: [2**40, 2, 2])),
    "snapshots of no shape": value("snapshots", each("shape", lambda _: [])),
    "snapshots of a negative shape": value("snapshots", each("shape", lambda _: [-1, 2, 2])),
    "snapshots without a policy": value("snapshots", each("policy", lambda _: [])),
    "snapshots with gaps": value("snapshots", each("policy", lambda p: [None] * len(p))),
    "snapshots without visits": value("snapshots", each("visits", lambda _: [1])),
    "snapshots without a start": value("snapshots", each("start", lambda _: None)),
    "another identity in the name": renamed(
        lambda p: p.with_name(".".join([p.name.split(".")[0], "0" * 20, *p.name.split(".")[2:]]))
    ),
    "another seed in the name": renamed(lambda p: p.with_name(p.name.replace("seed-0001", "seed-0009"))),
    "a long seed in the name": renamed(lambda p: p.with_name(p.name.replace("seed-0001", "seed-" + "9" * 18))),
    "another checksum in the name": renamed(
        lambda p: p.with_name(".".join([*p.name.split(".")[:2], "0" * 16, "parquet"]))
    ),
    "the folder of another environment": renamed(lambda p: p.parents[2] / "box" / "Uniform" / p.name),
    "the folder of another agent": renamed(lambda p: p.parents[1] / "FHA" / p.name),
}


# Specifications


def text(name: str, content: str | bytes) -> Damage:
    def harm(out: Path) -> Path:
        (out / name).write_bytes(content if isinstance(content, bytes) else content.encode())
        return out / name

    return harm


def cell_changed(**changes: Any) -> Damage:
    def harm(out: Path) -> Path:
        path = out / "experiment.json"
        document = json.loads(path.read_text())
        for name, new in changes.items():
            document["cells"][0][name] = new
            if new is ...:
                del document["cells"][0][name]
        path.write_text(json.dumps(document))
        return path

    return harm


FIELDS = [*EXPERIMENT.as_json()["cells"][0]]
NO_SPECIFICATIONS: dict[str, str | bytes] = {
    "no JSON": "{",
    "a list": "[]",
    "a number": "7",
    "a table of nothing": "{}",
    "no text": b"\xff\xfe",
    "zeros": bytes(9),
    "no cells": '{"name": "x"}',
    "cells of numbers": '{"name": "x", "cells": [1]}',
    "no name": '{"cells": []}',
    "a numbered name": '{"name": 7, "cells": []}',
    "depth": "[" * 50_000,
    "long numbers": '{"name": "x", "cells": ' + "9" * 9000 + "}",
    "a name twice": '{"name": "x", "name": "y", "cells": []}',
    "cut": '{"name": "x", "cel',
    "a table of cells": '{"name": "x", "cells": {}}',
}
SPECIFICATIONS: dict[str, Damage] = {
    **{f"specification: {name}": text("experiment.json", content) for name, content in NO_SPECIFICATIONS.items()},
    **{f"specification without {name}": cell_changed(**{name: ...}) for name in FIELDS},
    **{f"specification with odd {name}": cell_changed(**{name: [1]}) for name in FIELDS},
    "specification with a colour": cell_changed(colour="red"),
    **{f"{name} for the specification": other_kind(make, "experiment.json") for name, make in KINDS.items()},
}


# Timings


def added(content: bytes) -> Damage:
    def harm(out: Path) -> Path:
        with (out / "timings.jsonl").open("ab") as file:
            file.write(content + b"\n")
        return out / "timings.jsonl"

    return harm


LINE = {"identity": "a", "seconds": 1.0, "finished": "2026-01-01T00:00:00+0000"}
NO_LINES = {
    "no text": b"\xff\xfe\xff",
    "half a line": b'{"identity": "a',
    "a list": b"[]",
    "zeros": bytes(100),
    "depth": b"[" * 4000,
    "a long line": b"x" * 100_000,
    "a number": b"7",
    "a long number": b"9" * 4000,
    "no number": json.dumps(LINE | {"seconds": float("nan")}).encode(),
    "negative length": json.dumps(LINE | {"seconds": -1}).encode(),
    "endless length": json.dumps(LINE | {"seconds": 10**400}).encode(),
    "no time": json.dumps(LINE | {"finished": "\x1b[2J"}).encode(),
}
SILENT: dict[str, Damage] = {
    **{f"timings with {name}": added(content) for name, content in NO_LINES.items()},
    **{f"timings without {key}": added(json.dumps(LINE | {key: None}).encode()) for key in LINE},
    **{f"timings with odd {key}": added(json.dumps(LINE | {key: [1]}).encode()) for key in LINE},
}
"""What is left out without a word, as a line that is half written is nothing odd."""
TIMINGS: dict[str, Damage] = {
    f"{name} for the timings": other_kind(make, "timings.jsonl") for name, make in KINDS.items() if name != "empty"
}
NAMED = PARTS | SPECIFICATIONS | TIMINGS
del NAMED["too large for the specification"], NAMED["too large for the timings"]  # a hole is read line by line, or cut


def used(out: Path) -> tuple[int, int, int]:
    """How many records, specifications and timings a folder gives, after all of it was looked at."""
    store = Store(out)
    records = list(store.records())
    group(records, store.timings())
    store.finished()
    store.failures()
    return len(records), len(store.experiments()), len(store.timings())


@pytest.fixture(scope="module")
def warm(sound: Path) -> None:
    assert used(sound) == (RUNS, 1, RUNS)


def copied(sound: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(sound, tmp_path / "out"))


def tried(cases: dict[str, Damage]) -> list[Any]:
    return [pytest.param(damage, id=name) for name, damage in cases.items()]


@pytest.mark.parametrize("damage", tried(NAMED))
def test_damage_is_named_and_the_rest_is_used(
    damage: Damage, sound: Path, warm: None, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    out = copied(sound, tmp_path)
    path = damage(out)
    found = used(out)
    named = set(caplog.messages)
    assert len(named) == 1, named
    message = named.pop()
    assert message.startswith(f"{path}: "), message
    assert "\n" not in message
    assert len(message) < len(str(path)) + 400
    missing = (path.suffix == ".parquet", path.name == "experiment.json", path.name == "timings.jsonl")
    assert found == (RUNS - missing[0], 1 - missing[1], 0 if missing[2] else RUNS)


@pytest.mark.parametrize("damage", tried(SILENT))
def test_lines_of_timings_that_are_none_are_left_out(
    damage: Damage, sound: Path, warm: None, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    out = copied(sound, tmp_path)
    damage(out)
    assert used(out) == (RUNS, 1, RUNS)
    assert not caplog.messages


def test_there_are_two_hundred_kinds() -> None:
    assert len(NAMED) + len(SILENT) >= 200


SOME = [name for name in PARTS if not name.startswith("a cell of other")][::17]  # those show beside other runs only


@pytest.mark.parametrize("damage", [pytest.param(PARTS[name], id=name) for name in (*SOME, "a pipe for a part")])
def test_what_is_damaged_is_done_again(damage: Damage, sound: Path, tmp_path: Path) -> None:
    out = copied(sound, tmp_path)
    damage(out)
    outcome = run_experiment(EXPERIMENT, out, workers=1)
    assert (outcome.executed, outcome.ok) == (1, True)
    assert {part.path.name for part in Store(out).parts()} >= {part.path.name for part in Store(sound).parts()}


def test_a_folder_is_used_whatever_lies_in_it(sound: Path, tmp_path: Path) -> None:
    """Strangers' files stay, a folder with the name of a temporary file harms nothing, and links lead nowhere."""
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


def test_links_inside_are_not_followed(sound: Path, tmp_path: Path) -> None:
    out = copied(sound, tmp_path)
    (tmp_path / "elsewhere").mkdir()
    shutil.rmtree(out / "runs" / "toy" / "Uniform")
    (out / "runs" / "toy" / "Uniform").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError, match="is a link"):
        run_experiment(EXPERIMENT, out, workers=1)
    assert not list((tmp_path / "elsewhere").iterdir())


def test_a_forged_model_is_not_rebuilt(sound: Path, tmp_path: Path) -> None:
    """A part that says ten states and asks for millions is known by its options."""
    record = next(iter(Store(sound).records()))
    for options in ({"S": 2_000_000}, {"rows": 5000, "columns": 5000}, {"map": "S" + "." * 3000 + "XG"}):
        object.__setattr__(record, "env_options", options)
        object.__setattr__(record, "env", "garnet" if "S" in options else "grid")
        assert not record.rebuildable
