"""UMB files: written, read, and broken."""

from __future__ import annotations

import io
import json
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings

import psconrl
from psconrl import CMDP, ModelFileError
from tests.io.test_drn import models


@settings(max_examples=60, deadline=None)
@given(cmdp=models())
def test_round_trip(tmp_path_factory: pytest.TempPathFactory, cmdp: CMDP) -> None:
    path = tmp_path_factory.mktemp("umb") / "model.umb"
    cmdp.save(path)
    back = CMDP.load(path)
    assert back == cmdp
    assert back.is_sparse == cmdp.is_sparse


def double(*values: float) -> bytes:
    return np.array(values).tobytes()


def whole(*values: int) -> bytes:
    return np.array(values, dtype=np.uint64).tobytes()


def foreign(changes: dict[str, Any], system: dict[str, Any]) -> bytes:
    """A file of another tool, with rational probabilities, and rewards of states, choices and branches."""
    index: dict[str, Any] = {
        "transition-system": {
            "time": "discrete",
            "#players": 1,
            "#states": 2,
            "#initial-states": 1,
            "#choices": 3,
            "#choice-actions": 2,
            "#branches": 4,
            "#branch-actions": 0,
            "#observations": 0,
            "branch-probability-type": {"type": "rational", "size": 128},
        }
        | system,
        "model-data": {"comment": "by hand"},
        "annotations": {
            "rewards": {
                "time": {"applies-to": ["states", "choices"], "type": {"type": "double"}},
                "energy_used": {"alias": "energy", "applies-to": ["branches"], "type": {"type": "int"}},
            }
        },
    }
    files = {
        "index.json": json.dumps(index).encode(),
        "state-is-initial.bin": bytes([2, 0, 0, 0, 0, 0, 0, 0]),
        "state-to-choices.bin": whole(0, 2, 3),
        "choice-to-branches.bin": whole(0, 2, 3, 4),
        "branch-to-target.bin": whole(1, 0, 0, 0),
        "branch-to-probability.bin": whole(1, 3, 2, 3, 1, 1, 1, 1),
        "actions/choices/values.bin": np.array([1, 0, 1], dtype=np.uint32).tobytes(),
        "actions/choices/string-mapping.bin": whole(0, 4, 6),
        "actions/choices/strings.bin": b"waitgo",
        "annotations/rewards/time/states/values.bin": double(0.0, 5.0),
        "annotations/rewards/time/choices/values.bin": double(1.0, 2.0, 3.0),
        "annotations/rewards/energy_used/branches/values.bin": whole(3, 0, 1, 2),
    } | changes
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        for name, content in files.items():
            if content is not None:
                member = tarfile.TarInfo(name)
                member.size = len(content)
                archive.addfile(member, io.BytesIO(content))
    return packed.getvalue()


def test_a_file_of_another_tool(tmp_path: Path) -> None:
    path = tmp_path / "model.umb"
    path.write_bytes(foreign({}, {}))
    cmdp = CMDP.load(path, thresholds={"energy": 1.5})
    assert (cmdp.action_names, cmdp.cost_names) == (("go", "wait"), ("time", "energy"))
    assert cmdp.initial.tolist() == [0, 1]
    np.testing.assert_array_equal(cmdp.available, [[True, True], [True, False]])
    np.testing.assert_allclose(np.asarray(cmdp.transitions)[0], [[2 / 3, 1 / 3], [1.0, 0.0]])
    np.testing.assert_allclose(cmdp.costs, [[[1, 2], [8, 0]], [[1, 1], [2, 0]]])
    assert cmdp.move_costs is not None
    np.testing.assert_allclose(cmdp.move_costs[1, 0, 0], [0, 3])
    path.write_bytes(foreign({"actions/choices/strings.bin": None}, {}))
    assert CMDP.load(path, thresholds={"energy": 1.5}).action_names == ("0", "1")
    with pytest.raises(ModelFileError, match="limit for energy"):
        CMDP.load(path)


@pytest.mark.parametrize(
    ("changes", "system", "message"),
    [
        ({}, {"time": "stochastic"}, "time is 'stochastic'"),
        ({}, {"#players": 2}, "#players is 2"),
        ({}, {"#observations": 2}, "#observations"),
        ({}, {"#states": 7}, "state-to-choices"),
        ({"state-to-choices.bin": None}, {"#states": 10**10}, "10,000,000,000"),
        ({}, {"#branches": -1}, "#branches"),
        ({}, {"#states": "two"}, "#states"),
        ({}, {"branch-probability-type": {"type": "double-interval"}}, "double-interval"),
        ({}, {"branch-probability-type": {"type": "double"}}, "branch-to-probability"),
        ({"index.json": None}, {}, "index.json"),
        ({"index.json": b"{"}, {}, "JSON"),
        ({"branch-to-target.bin": None}, {}, "branch-to-target"),
        ({"branch-to-target.bin": b"abc"}, {}, "wrong form"),
        ({"branch-to-target.bin": whole(1, 0, 0, 2)}, {}, "branch-to-target.bin has 2"),
        ({"branch-to-target.bin": whole(1, 1, 0, 0)}, {}, "next state 1 is listed twice"),
        ({"branch-to-probability.bin": whole(1, 0, 2, 3, 1, 1, 1, 1)}, {}, "wrong form"),
        ({"branch-to-probability.bin": whole(1, 2, 2, 3, 1, 1, 1, 1)}, {}, "sum"),
        ({"choice-to-branches.bin": whole(0, 3, 2, 4)}, {}, "choice-to-branches.bin must rise"),
        ({"state-to-choices.bin": whole(0, 3, 3)}, {}, "state 1 has no action"),
        ({"state-is-initial.bin": bytes(8)}, {}, "0 initial states"),
        ({"actions/choices/values.bin": np.array([1, 0, 2], dtype=np.uint32).tobytes()}, {}, "values.bin has 2"),
    ],
)
def test_wrong_files_are_refused(tmp_path: Path, changes: dict[str, Any], system: dict[str, Any], message: str) -> None:
    path = tmp_path / "model.umb"
    path.write_bytes(foreign(changes, system))
    with pytest.raises(ModelFileError, match=message) as caught:
        CMDP.load(path, thresholds={"energy": 1.5})
    assert str(caught.value).startswith(f"{path}: ")


def test_truncated_and_blown_up_archives_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "model.umb"
    psconrl.make("queue").save(path)
    whole_file = path.read_bytes()
    for size in (0, 10, len(whole_file) // 2):
        path.write_bytes(whole_file[:size])
        with pytest.raises(ModelFileError):
            CMDP.load(path)
    path.write_bytes(foreign({"zeros": bytes(400 * 2**20)}, {}))
    with pytest.raises(ModelFileError, match="too much"):
        CMDP.load(path)
