"""Our files in the hands of Storm itself, and its files in ours; skipped where stormpy is not installed."""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import psconrl
from psconrl import CMDP
from psconrl.io.drn import read_drn

stormpy = pytest.importorskip("stormpy", reason="stormpy is not installed; pip install stormpy compares with Storm")

HALVES = np.zeros((3, 1, 3))
HALVES[0, 0, 0] = HALVES[1, 0, 2] = HALVES[2, 0, 1] = 1.0

MODELS = {
    "marsrover": psconrl.make("marsrover-4x4"),
    "slippery": psconrl.make("marsrover-4x4", slip=0.1),
    "box": psconrl.make("box"),
    "queue": psconrl.make("queue"),
    "queue from anywhere": psconrl.make("queue").replace(initial=np.full(6, 1 / 6)),
    "garnet": psconrl.make("garnet", m=2, S=8),
    "free": psconrl.make("garnet", m=0),
    "halves": CMDP(HALVES, [[[5.0], [1.0], [2.0]]], initial=[0.25, 0.75, 0.0]),
}


def value_at_start(result: Any, model: Any) -> float:
    """The same in versions 1 and 2 of stormpy."""
    start = model.initial_states[0]
    return float(result.get_value(start) if hasattr(result, "get_value") else result.at(start))


def export(model: Any, path: str) -> None:
    """The same in versions 1 and 2 of stormpy."""
    if hasattr(stormpy, "export_to_drn"):
        stormpy.export_to_drn(model, path)
    else:
        developer = import_module("stormpy.developer")
        developer.export_sparse_model_as_drn(model, path, developer.DirectEncodingExporterOptions())


@pytest.mark.parametrize("name", list(MODELS))
def test_storm_finds_our_optimum(tmp_path: Path, name: str) -> None:
    """By the query that the file itself gives; Storm's multi-objective precision is 1e-4."""
    path = tmp_path / "model.drn"
    MODELS[name].save(path)
    query = re.search(r"--prop '(.*)'", path.read_text())
    assert query is not None
    built = [stormpy.build_model_from_drn(str(path))]
    if hasattr(stormpy, "build_model_from_umb"):
        MODELS[name].save(tmp_path / "model.umb")
        built.append(stormpy.build_model_from_umb(str(tmp_path / "model.umb")))
    for model in built:
        result = stormpy.model_checking(model, stormpy.parse_properties(query[1])[0])
        assert value_at_start(result, model) == pytest.approx(psconrl.solve(MODELS[name]).value, abs=2e-4)


def test_storm_agrees_that_limits_cannot_be_met(tmp_path: Path) -> None:
    psconrl.make("toy", tau=0.1).save(tmp_path / "toy.drn")
    model = stormpy.build_model_from_drn(str(tmp_path / "toy.drn"))
    query = 'multi(R{"right"}min=? [LRA], R{"left"}<=0.1 [LRA])'
    result = stormpy.model_checking(model, stormpy.parse_properties(query)[0])
    assert not (result.exists_true() if hasattr(result, "exists_true") else result.at(model.initial_states[0]))


@pytest.mark.parametrize("name", ["marsrover", "queue", "garnet"])
def test_what_storm_writes_is_the_model(tmp_path: Path, name: str) -> None:
    ours = MODELS[name]
    ours.save(tmp_path / "ours.drn")
    export(stormpy.build_model_from_drn(str(tmp_path / "ours.drn")), str(tmp_path / "theirs.drn"))
    limits = dict(zip(ours.cost_names[1:], ours.thresholds.tolist(), strict=True))
    theirs = read_drn(tmp_path / "theirs.drn", costs=ours.cost_names, thresholds=limits)
    np.testing.assert_allclose(theirs.matrix.toarray(), ours.matrix.toarray(), atol=1e-5)
    np.testing.assert_allclose(theirs.costs, ours.costs, atol=1e-5)
    np.testing.assert_array_equal(theirs.initial, ours.initial)
    assert psconrl.solve(theirs).value == pytest.approx(psconrl.solve(ours).value, abs=1e-4)
