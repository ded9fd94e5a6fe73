"""Model files: what is written comes back bit for bit, and every bad file says what is wrong with it."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from psconrl.cmdp import CMDP, Layout
from psconrl.errors import ModelFileError

P = np.array([[[1 / 3, 2 / 3], [1.0, 0.0]], [[0.0, 1.0], [0.1, 0.9]]])


def example(*, thin: bool = False, per_move: bool = False, drawn: bool = False, fewer: bool = False) -> CMDP:
    rng = np.random.default_rng(0)
    agent = np.array([[0, 0], [0, 1]])
    cmdp = CMDP(
        P,
        rng.normal(size=(2, 2, 2, 2) if per_move else (2, 2, 2)),
        [1 / 7],
        initial=[0.3, 0.7],
        state_names=["idle", "büsy"],
        action_names=["wait", "work"],
        cost_names=["delay", "energy"],
        layout=Layout(("S.", "#G"), agent, agent + 1) if drawn else None,
        available=[[True, True], [True, False]] if fewer else None,
    )
    return cmdp.to_sparse() if thin else cmdp


@pytest.mark.parametrize("ending", [".npz", ".json", ".drn", ".umb", ".JSON"])
@pytest.mark.parametrize("thin", [False, True])
@pytest.mark.parametrize("per_move", [False, True])
@pytest.mark.parametrize("drawn", [False, True])
@pytest.mark.parametrize("fewer", [False, True])
def test_round_trip(tmp_path: Path, ending: str, thin: bool, per_move: bool, drawn: bool, fewer: bool) -> None:
    cmdp = example(thin=thin, per_move=per_move, drawn=drawn, fewer=fewer)
    path = tmp_path / f"model{ending}"
    cmdp.save(path)
    back = CMDP.load(path)
    assert back == cmdp
    assert back.is_sparse == thin
    assert back.to_arrays().keys() == cmdp.to_arrays().keys()
    assert [entry.name for entry in tmp_path.iterdir()] == [path.name]
    CMDP.load(str(path)).save(str(path))
    assert CMDP.load(path) == cmdp


def test_defaults_may_be_left_out(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", transitions=P, costs=np.zeros((1, 2, 2)))
    small = CMDP.load(tmp_path / "a.npz")
    assert small == CMDP(P, np.zeros((1, 2, 2)))
    document = {
        "format": "psconrl.cmdp",
        "version": 1,
        "states": ["a"],
        "actions": ["x"],
        "costs": ["c"],
        "transitions": [{"state": "a", "action": "x", "to": {"a": 1}, "costs": {"c": 2}}],
    }
    (tmp_path / "a.json").write_text(json.dumps(document))
    tiny = CMDP.load(tmp_path / "a.json")
    assert tiny.costs.tolist() == [[[2.0]]]
    assert (tiny.m, tiny.is_sparse) == (0, False)


def test_pairs_that_are_not_listed_are_not_available(tmp_path: Path) -> None:
    path = tmp_path / "model.json"
    example(fewer=True).save(path)
    assert [(p["state"], p["action"]) for p in json.loads(path.read_text(encoding="utf-8"))["transitions"]] == [
        ("idle", "wait"),
        ("idle", "work"),
        ("büsy", "wait"),
    ]
    assert CMDP.load(path).available.tolist() == [[True, True], [True, False]]


@pytest.mark.parametrize("ending", [".npz", ".json", ".drn"])
def test_an_action_may_be_available_nowhere(tmp_path: Path, ending: str) -> None:
    cmdp = example().replace(available=[[True, False], [True, False]])
    cmdp.save(tmp_path / f"model{ending}")
    assert CMDP.load(tmp_path / f"model{ending}") == cmdp


def test_many_states_and_actions_need_a_large_file(tmp_path: Path) -> None:
    """Pairs that are not listed take no room in a file, but in memory."""
    n = 4000
    document = {
        "format": "psconrl.cmdp",
        "version": 1,
        "states": list(range(n)),
        "actions": list(range(n)),
        "costs": ["c"],
        "transitions": [{"state": s, "action": 0, "to": {str(s): 1}, "costs": {"c": 2}} for s in range(n)],
    }
    (tmp_path / "a.json").write_text(json.dumps(document))
    refused(tmp_path / "a.json", "4000 states")


# Mistakes


def refused(path: Path, *told: str) -> None:
    """The message names the file and the things that are wrong."""
    with pytest.raises(ModelFileError) as caught:
        CMDP.load(path)
    for text in (str(path), *told):
        assert text in str(caught.value)


def test_wrong_endings(tmp_path: Path) -> None:
    with pytest.raises(ModelFileError, match=r"model\.pkl"):
        example().save(tmp_path / "model.pkl")
    (tmp_path / "model.pkl").write_bytes(b"")
    refused(tmp_path / "model.pkl", ".npz", ".json", ".drn")


def npz(tmp_path: Path, *, thin: bool = False, drop: tuple[str, ...] = (), **changes: Any) -> Path:
    arrays: dict[str, Any] = example(thin=thin, drawn=True).to_arrays() | changes
    path = tmp_path / "model.npz"
    np.savez(path, **{name: array for name, array in arrays.items() if name not in drop})
    return path


@pytest.mark.parametrize(
    ("thin", "missing"), [(False, "transitions"), (True, "indptr"), (False, "costs"), (False, "layout_agent")]
)
def test_missing_arrays_in_npz(tmp_path: Path, thin: bool, missing: str) -> None:
    refused(npz(tmp_path, thin=thin, drop=(missing,)), missing)


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"transitions": P * 2}, "transitions[0, 0]"),
        ({"costs": np.zeros((2, 2))}, "costs"),
        ({"costs": np.array("abc")}, "costs"),
        ({"thresholds": [np.inf]}, "thresholds[0]"),
        ({"initial": [2.0, 0.0]}, "initial"),
        ({"state_names": ["a"]}, "state_names"),
        ({"state_names": np.array("a")}, "state_names"),
        ({"layout_agent": np.zeros((1, 2))}, "layout.agent"),
        ({"layout_agent": np.full((2, 2), np.nan)}, "layout.agent"),
        ({"layout_rows": np.array("a")}, "layout_rows"),
        ({"available": np.ones((3, 2), dtype=np.bool_)}, "available"),
        ({"available": np.array([[1, 0], [0, 0]])}, "available[1]"),
    ],
)
def test_bad_arrays_in_npz(tmp_path: Path, changes: dict[str, Any], told: str) -> None:
    refused(npz(tmp_path, **changes), told)


@pytest.mark.parametrize(
    "changes",
    [
        {"indptr": [[0, 2, 3, 4, 6]]},
        {"indptr": [0, 3, 2, 4, 6]},
        {"indptr": np.zeros(0, dtype=int)},
        {"indptr": [0, 2, 3, 4, 9]},
        {"indices": [0, 1, 0, 1, 0, 9]},
        {"indices": [0.5] * 6},
        {"data": [0.5]},
        {"data": ["x"] * 6},
        {"data": [np.nan] * 6},
    ],
)
def test_bad_sparse_arrays_in_npz(tmp_path: Path, changes: dict[str, Any]) -> None:
    refused(npz(tmp_path, thin=True, **changes))


def changed(tmp_path: Path, change: Any, **options: bool) -> Path:
    path = tmp_path / "model.json"
    example(**options).save(path)
    document = json.loads(path.read_text(encoding="utf-8"))
    change(document)
    path.write_text(json.dumps(document), encoding="utf-8")
    return path


def pair(document: dict[str, Any], number: int = 0) -> Any:
    return document["transitions"][number]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda d: d.update(format="other"), "psconrl.cmdp"),
        (lambda d: d.update(version=True), "version"),
        (lambda d: d.update(colour=1), "colour"),
        (lambda d: d.pop("transitions"), "transitions"),
        (lambda d: pair(d).pop("action"), "action"),
        (lambda d: pair(d).update(state="gone"), "gone"),
        (lambda d: pair(d)["to"].update(gone=0.0), "gone"),
        (lambda d: pair(d)["costs"].update(money=0.0), "money"),
        (lambda d: pair(d)["costs"].pop("energy"), "energy"),
        (lambda d: d["thresholds"].pop("energy"), "energy"),
        (lambda d: d["thresholds"].update(delay=0.5), "delay"),
        (lambda d: d["initial"].update(gone=0.5), "gone"),
        (lambda d: (d["transitions"].pop(), d["transitions"].pop()), "büsy"),
        (lambda d: d["transitions"].append(pair(d)), "twice"),
        (lambda d: d.update(states=["a", "a"]), "states"),
        (lambda d: d.update(states=["a", True]), "states"),
        (lambda d: d.update(actions=[]), "actions"),
        (lambda d: d.update(sparse="yes"), "sparse"),
        (lambda d: d["layout"].update(agent=[["x", 0], [0, 1]]), "layout.agent"),
        (lambda d: d["layout"].update(colour=1), "colour"),
        (lambda d: d["layout"].update(rows=[1]), "layout.rows"),
        (lambda d: d.update(initial="idle"), "initial"),
        (lambda d: d.update(transitions=["x"]), "transitions[0]"),
        (lambda d: pair(d).update(to=[1.0]), "transitions[0].to"),
        (lambda d: pair(d)["to"].update(idle="much"), "idle"),
        (lambda d: pair(d)["to"].update(idle=0.5), "transitions[0, 0]"),
        (lambda d: pair(d)["to"].update(idle=float("nan")), "transitions[0, 0, 0]"),
        (lambda d: d["thresholds"].update(energy=float("inf")), "thresholds[0]"),
    ],
)
def test_mistakes_in_json(tmp_path: Path, change: Any, message: str) -> None:
    refused(changed(tmp_path, change, drawn=True), message)


def test_costs_per_move_in_json(tmp_path: Path) -> None:
    def without(document: dict[str, Any]) -> None:
        pair(document)["to"]["idle"] = 1 / 3

    refused(changed(tmp_path, without, per_move=True), "costs")

    def common(document: dict[str, Any]) -> None:
        pair(document)["costs"] = {"delay": 4.0, "energy": 5.0}

    mixed = CMDP.load(changed(tmp_path, common, per_move=True))
    assert mixed.costs[:, 0, 0] == pytest.approx([4.0, 5.0])
