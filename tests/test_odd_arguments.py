"""Arguments of odd kinds: every public entry of models refuses them with one of psconrl's own errors."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import sparse

import psconrl
from psconrl import CMDP, CMDPEnv, InvalidArgumentError, InvalidModelError, Learner, Problem, PsconrlError
from psconrl._core import checks
from psconrl.cmdp import Layout
from psconrl.environments import find_model, render
from psconrl.io.drn import read_drn

TOY, ROVER = psconrl.make("toy"), psconrl.make("marsrover-4x4")
P, C = TOY.transitions, TOY.costs

ODD: dict[str, Any] = {
    "nothing": None,
    "text": "abc",
    "bytes": b"x",
    "number": 7.5,
    "nan": np.nan,
    "complex": 1j,
    "object": object(),
    "ragged": [1, [2]],
    "nested nothing": [None],
    "empty": {},
    "set": {1.5, 2.5},
    "three axes": np.zeros((5, 1, 2)),
    "texts": np.array([["a", "b"]]),
    "scalar of objects": np.array(object()),
    "sparse": sparse.eye_array(7),
    "function": len,
}

ENTRIES: dict[str, Callable[[Any], Any]] = {
    "transitions": lambda odd: CMDP(odd, C, [0.5]),
    "costs": lambda odd: CMDP(P, odd, [0.5]),
    "sparse costs": lambda odd: CMDP(TOY.matrix, odd, [0.5]),
    "thresholds": lambda odd: CMDP(P, C, odd),
    "initial": lambda odd: CMDP(P, C, [0.5], initial=odd),
    "state_names": lambda odd: CMDP(P, C, [0.5], state_names=odd),
    "layout": lambda odd: CMDP(P, C, [0.5], layout=odd),
    "layout.agent": lambda odd: CMDP(P, C, [0.5], layout=Layout(("S.",), odd)),
    "layout.rows": lambda odd: CMDP(P, C, [0.5], layout=Layout(odd, np.zeros((1, 2), dtype=np.int64))),
    "policy": TOY.check_policy,
    "policy_matrix": TOY.policy_matrix,
    "problem": TOY.problem,
    "with_limits": TOY.with_limits,
    "replace": lambda odd: TOY.replace(costs=odd),
    "unknown field": lambda odd: TOY.replace(colour=odd),
    "load": CMDP.load,
    "save": TOY.save,
    "from_stored": CMDP.from_stored,
    "from_arrays": lambda odd: CMDP.from_arrays(odd, C[0]),
    "rewards": lambda odd: CMDP.from_arrays(P, odd),
    "costs by action": lambda odd: CMDP.from_arrays(P, C[0], odd, [0.5]),
    "from_gymnasium": CMDP.from_gymnasium,
    "cost function": lambda odd: CMDP.from_gymnasium(CMDPEnv(TOY), costs=odd),
    "reward_range": lambda odd: CMDP.from_gymnasium(CMDPEnv(TOY), reward_range=odd),
    "limits of a table": lambda odd: CMDP.from_gymnasium(CMDPEnv(TOY), thresholds=odd),
    "make": psconrl.make,
    "slip": lambda odd: psconrl.make("box", slip=odd),
    "sparse": lambda odd: psconrl.make("box", sparse=odd),
    "S": lambda odd: psconrl.make("garnet", S=odd),
    "seed": lambda odd: psconrl.make("grid", seed=odd),
    "map": lambda odd: psconrl.make("gridworld", map=odd),
    "CMDPEnv": CMDPEnv,
    "find_model": find_model,
    "solve": psconrl.solve,
    "evaluate": lambda odd: psconrl.evaluate(TOY, odd),
    "nearest_limits": psconrl.nearest_limits,
    "ansi": render.ansi,
    "drawn policy": lambda odd: render.ansi(ROVER, odd),
    "drawn box": lambda odd: render.ansi(psconrl.make("box"), box=odd),
}

MEANT = {
    *((entry, "nothing") for entry in ("state_names", "layout", "cost function", "reward_range", "sparse", "map")),
    *((entry, "nothing") for entry in ("drawn policy", "drawn box")),
    ("with_limits", "empty"),
    ("limits of a table", "empty"),
    ("cost function", "function"),
}
"""What looks odd and is not: a default, or a way of saying nothing."""


@pytest.mark.parametrize("entry", list(ENTRIES))
def test_odd_arguments_are_refused(entry: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name, odd in ODD.items():
        if (entry, name) not in MEANT:
            with pytest.raises(PsconrlError) as caught:
                ENTRIES[entry](odd)
            assert 10 < len(str(caught.value)) < 400, (name, str(caught.value))


def test_odd_arguments_of_files(tmp_path: Path) -> None:
    TOY.save(tmp_path / "toy.drn")
    TOY.save(tmp_path / "toy.json")
    for name, odd in ODD.items():
        if name != "nothing":
            with pytest.raises(PsconrlError):
                read_drn(tmp_path / "toy.drn", costs=odd)
        if name not in ("nothing", "empty"):
            for file in ("toy.drn", "toy.json"):
                with pytest.raises(PsconrlError):
                    CMDP.load(tmp_path / file, thresholds=odd)


def test_names_that_do_not_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checks, "_MOST_NAMES", 1000)
    with pytest.raises(InvalidArgumentError, match="A does not end; it must be a list of names, of fewer than 1,000"):
        Problem(2, itertools.count(), [0.5])  # type: ignore[arg-type]
    with pytest.raises(InvalidModelError, match="state_names does not end"):
        CMDP([[[1.0]]], [[[0.0]]], state_names=(str(k) for k in itertools.count()))  # type: ignore[arg-type]
    learner = Learner(None, 10, 0, problem=Problem(None, 2, [0.5], available=lambda s: itertools.count()))
    with pytest.raises(InvalidArgumentError, match=r"available\('x'\) does not end"):
        learner.act("x")
