"""Atomic writing: a file is whole or as it was, whatever happens, and never written through a link."""

from __future__ import annotations

import errno
import os
import re
import stat
from pathlib import Path

import pytest

import psconrl
from psconrl.cmdp import CMDP
from psconrl.errors import WriteError
from psconrl.io import writing

TOY = psconrl.make("toy")
SUFFIXES = ["npz", "json", "drn"]


@pytest.mark.parametrize("call", ["fsync", "replace", "open"])
@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_full_disk_leaves_the_old_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str, suffix: str
) -> None:
    def fail(*arguments: object, **options: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    path = tmp_path / f"file.{suffix}"
    path.write_text("old")
    with monkeypatch.context() as patch:
        patch.setattr(os, call, fail)
        with pytest.raises(WriteError, match=f"file.{suffix}"):
            TOY.save(path)
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == [path.name]


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_links_are_replaced_not_followed(tmp_path: Path, suffix: str) -> None:
    (tmp_path / "mine").write_text("mine")
    path = tmp_path / f"file.{suffix}"
    path.symlink_to(tmp_path / "mine")
    TOY.save(path)
    assert (tmp_path / "mine").read_text() == "mine"
    assert stat.S_ISREG(path.lstat().st_mode)


def test_only_files_are_replaced(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.json")
    (tmp_path / "folder.json").mkdir()
    for name in ("pipe.json", "folder.json", "nowhere/a.json"):
        with pytest.raises(WriteError, match=name):
            TOY.save(tmp_path / name)
    with pytest.raises(WriteError):
        TOY.save(tmp_path / "a\0b.json")


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_names_that_no_encoding_has_come_back(tmp_path: Path, suffix: str) -> None:
    cmdp = TOY.replace(state_names=["half \ud800", "\x1b[2J"], cost_names=["a\x00b", "\udfff"])
    cmdp.save(tmp_path / f"model.{suffix}")
    assert CMDP.load(tmp_path / f"model.{suffix}") == cmdp


def test_an_error_while_writing_removes_the_temporary_file(tmp_path: Path) -> None:
    for error in (KeyboardInterrupt, RuntimeError):
        with pytest.raises(error), writing.replacing(tmp_path / "x") as file:  # noqa: PT012
            file.write(b"half")
            raise error
    assert not list(tmp_path.iterdir())


def test_temporary_files_of_dead_processes_are_removed(tmp_path: Path) -> None:
    process = os.fork()
    if process == 0:  # killed while it writes
        with writing.replacing(tmp_path / "a.txt"), writing.replacing(tmp_path / "b.txt"):
            os._exit(0)
    os.waitpid(process, 0)
    other = tmp_path / ".a.txt.00000000-1-00000000.tmp"  # of another machine, and young
    other.write_text("half")
    with writing.replacing(tmp_path / "a.txt") as mine:
        mine.write(b"whole")
        writing.remove_abandoned(tmp_path, re.compile("a.txt"))
    left = sorted(path.name for path in tmp_path.iterdir())
    assert left[0] == other.name
    assert left[1].startswith(".b.txt.")
    assert left[2:] == ["a.txt"]
    writing.remove_abandoned(tmp_path / "nowhere", re.compile(".*"))
