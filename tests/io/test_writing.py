"""The writer: whole or not at all, whatever happens, and never through a link."""

from __future__ import annotations

import errno
import os
import re
import stat
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import psconrl
from psconrl import report
from psconrl.cmdp import CMDP
from psconrl.errors import PsconrlError
from psconrl.experiments import Store, run_experiment
from psconrl.io import writing
from tests.experiments.sweeps import sweep

TOY = psconrl.make("toy")
WRITERS: dict[str, Callable[[Path], object]] = {
    "npz": lambda path: TOY.save(path),
    "json": lambda path: TOY.save(path),
    "drn": lambda path: TOY.save(path),
    "csv": lambda path: Store(path.parent / "store").export(path),
    "parquet": lambda path: Store(path.parent / "store").export(path),
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    run_experiment(sweep(seeds=1, horizon=10, agents=("uniform",)), tmp_path / "store", workers=1)
    return tmp_path


def full(monkeypatch: pytest.MonkeyPatch, call: str) -> None:
    def fail(*arguments: object, **options: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, call, fail)


@pytest.mark.parametrize("call", ["fsync", "replace", "open"])
@pytest.mark.parametrize("ending", WRITERS)
def test_a_full_disk_leaves_the_old_file(folder: Path, monkeypatch: pytest.MonkeyPatch, call: str, ending: str) -> None:
    path = folder / f"file.{ending}"
    path.write_text("old")
    before = sorted(os.listdir(folder))
    with monkeypatch.context() as patch:
        full(patch, call)
        with pytest.raises(PsconrlError):
            WRITERS[ending](path)
    assert path.read_text() == "old"
    assert sorted(os.listdir(folder)) == before


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no full device")
def test_a_disk_that_fills_up_while_writing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begin = writing._begin

    def filled(path: Path) -> tuple[Path, int]:
        temporary, descriptor = begin(path)
        os.close(descriptor)
        return temporary, os.open("/dev/full", os.O_WRONLY)

    monkeypatch.setattr(writing, "_begin", filled)
    for ending in ("npz", "json", "drn"):
        (tmp_path / f"file.{ending}").write_text("old")
        with pytest.raises(writing.WriteError, match=f"file.{ending}: No space left on device"):
            TOY.save(tmp_path / f"file.{ending}")
        assert (tmp_path / f"file.{ending}").read_text() == "old"
    assert len(list(tmp_path.iterdir())) == 3


@pytest.mark.parametrize("ending", WRITERS)
def test_links_are_replaced_not_followed(folder: Path, ending: str) -> None:
    (folder / "mine").write_text("mine")
    path = folder / f"file.{ending}"
    path.symlink_to(folder / "mine")
    WRITERS[ending](path)
    assert (folder / "mine").read_text() == "mine"
    assert stat.S_ISREG(path.lstat().st_mode)


def test_what_is_no_file_is_not_replaced(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.json")
    (tmp_path / "folder.json").mkdir()
    for name in ("pipe.json", "folder.json"):
        with pytest.raises(writing.WriteError, match=f"{name}: is there already, and is not a file"):
            TOY.save(tmp_path / name)
    with pytest.raises(writing.WriteError, match="is not the name of a file"):
        TOY.save(tmp_path / "a\0b.json")


@pytest.mark.parametrize("ending", ["npz", "json", "drn"])
def test_names_that_no_encoding_has_come_back(tmp_path: Path, ending: str) -> None:
    cmdp = CMDP(
        TOY.transitions, TOY.costs, [0.5], state_names=["half \ud800", "\x1b[2J"], cost_names=["a\x00b", "\udfff"]
    )
    cmdp.save(tmp_path / f"model.{ending}")
    assert CMDP.load(tmp_path / f"model.{ending}") == cmdp


def test_a_report_through_links(folder: Path) -> None:
    (folder / "mine").write_text("mine")
    (folder / "store" / "report.html").symlink_to(folder / "mine")
    report.write(folder / "store", folder / "store")
    assert (folder / "mine").read_text() == "mine"
    assert "<html" in (folder / "store" / "report.html").read_text()
    assert not list((folder / "store").rglob("*.tmp"))


def test_an_error_amid_writing_removes_what_was_begun(tmp_path: Path) -> None:
    for error in (KeyboardInterrupt, RuntimeError):
        with pytest.raises(error), writing.replacing(tmp_path / "x") as file:  # noqa: PT012
            file.write(b"half")
            raise error
    assert not list(tmp_path.iterdir())


def test_what_dead_processes_left_is_removed(tmp_path: Path) -> None:
    home = writing._home()
    process = os.fork()
    if process == 0:
        os._exit(0)
    os.waitpid(process, 0)
    names = {
        f".a.txt.{home}-{process}-00000000.tmp": False,
        f".a.txt.{home}-{os.getpid()}-00000000.tmp": True,
        ".a.txt.00000000-1-00000000.tmp": True,  # of another machine, and young
        f".b.txt.{home}-{process}-00000000.tmp": True,  # not what was asked for
        ".a.txt.tmp": True,
    }
    for name in names:
        (tmp_path / name).write_text("half")
    (tmp_path / f".a.txt.{home}-{process}-11111111.tmp").mkdir()
    (tmp_path / f".a.txt.{home}-{process}-22222222.tmp").symlink_to(tmp_path / ".a.txt.tmp")
    writing.remove_abandoned(tmp_path, re.compile("a.txt"))
    assert {name: (tmp_path / name).exists() for name in names} == names
    writing.remove_abandoned(tmp_path / "nowhere", re.compile(".*"))


def test_arrays_are_written_as_they_were(tmp_path: Path) -> None:
    TOY.save(tmp_path / "toy.npz")
    with np.load(tmp_path / "toy.npz") as file:
        assert set(file.files) == set(TOY.to_arrays())
