"""Hostile calls of every public entry, in processes that may die: none does, and every error is the project's."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.borders.entries import (
    ESTIMATE,
    OBJECTS,
    SPECIAL,
    VALUES,
    Entry,
    entries,
    learner,
    registries_restored,
    target_of,
)

ROOT = Path(__file__).parents[2]
SAMPLE, FULL = 3_000, 100_000


def faults(folder: Path, first: int, last: int, most: int = 20) -> list[dict[str, Any]]:
    """What went wrong in the calls first, ..., last - 1; after a death the next process goes on behind it."""
    note = folder / "call"
    found: list[dict[str, Any]] = []
    path = os.pathsep.join([str(ROOT), str(ROOT / "src"), os.environ.get("PYTHONPATH", "")])
    while first < last and len(found) < most:
        command = [sys.executable, "-m", "tests.borders.child", str(note), str(first), str(last)]
        done = subprocess.run(
            command, cwd=folder, env=os.environ | {"PYTHONPATH": path}, capture_output=True, text=True, timeout=3600
        )
        said = note.read_text(encoding="utf-8") if note.exists() else ""
        if said == "done":
            break
        if not said:
            pytest.fail(f"the process did not start: {done.stderr[-2000:]}")
        found.append({"call": int(said), "fault": f"died with {done.returncode}", "tail": done.stderr[-1500:]})
        first = int(said) + 1
    log = folder / "call.log"
    if log.exists():
        found += [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]
    return found


def test_a_sample_of_hostile_calls(tmp_path: Path) -> None:
    assert faults(tmp_path, 0, SAMPLE) == []


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_all_hostile_calls(tmp_path: Path) -> None:
    assert faults(tmp_path, 0, FULL) == []


def test_every_entry_has_right_arguments() -> None:
    """A new entry is called by itself; a parameter of a new name needs a right value in `entries.VALUES`."""
    for entry in entries():
        for parameter in entry.parameters:
            known = parameter.name in VALUES or f"{entry.name}.{parameter.name}" in SPECIAL
            assert known or parameter.default is not parameter.empty, (
                f"{entry.name} has a parameter {parameter.name!r}: give it a right value in tests/borders/entries.py"
            )
        assert entry.owner is None or entry.owner in OBJECTS, f"make an object of {entry.owner} in OBJECTS"


@pytest.mark.parametrize("entry", [e for e in entries() if e.parameters], ids=lambda entry: entry.name)
def test_the_right_arguments_are_right(entry: Entry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    OBJECTS[next(iter(OBJECTS))]().save("model.npz")
    learner().save("learner.npz")
    ESTIMATE.save("estimate.npz")
    with registries_restored():
        entry.call(target_of(entry), entry.right())
