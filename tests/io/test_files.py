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


@pytest.mark.parametrize("ending", [".npz", ".json", ".drn", ".JSON"])
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


@pytest.mark.parametrize(
    ("mask", "message"),
    [
        (np.ones((3, 2), dtype=np.bool_), "available has shape (3, 2); it must be a mask (S, A) = (2, 2)"),
        (np.array([[1, 0], [0, 0]]), "available[1] has no action; every state needs at least one"),
        (np.full((2, 2), 0.5), "available must hold True and False only"),
    ],
)
def test_masks_that_are_none(tmp_path: Path, mask: Any, message: str) -> None:
    np.savez(tmp_path / "a.npz", transitions=P, costs=np.zeros((1, 2, 2)), available=mask)
    refused(tmp_path / "a.npz", message)


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
    refused(tmp_path / "a.json", "4000 states and 4000 actions are too many for a file of this size")


# Bad files of any kind


def refused(path: Path, message: str) -> None:
    """The message is the path, then this text."""
    with pytest.raises(ModelFileError) as caught:
        CMDP.load(path)
    assert str(caught.value).startswith(f"{path}: {message}"), str(caught.value)


def test_wrong_endings(tmp_path: Path) -> None:
    path = tmp_path / "model.pkl"
    with pytest.raises(ModelFileError) as caught:
        example().save(path)
    assert str(caught.value) == f"{path}: a model file must end in .npz, .json or .drn"
    path.write_bytes(b"")
    refused(path, "a model file must end in .npz, .json or .drn")
    refused(tmp_path / "none.npz", "there is no such file")
    (tmp_path / "folder.npz").mkdir()
    refused(tmp_path / "folder.npz", "is not a regular file")


# .npz


@pytest.mark.parametrize("share", [0.0, 0.3, 0.6, 0.99])
def test_truncated_npz(tmp_path: Path, share: float) -> None:
    path = tmp_path / "model.npz"
    example().save(path)
    content = path.read_bytes()
    path.write_bytes(content[: int(share * len(content))])
    refused(path, "truncated or not an .npz archive (")


@pytest.mark.parametrize("ending", [".npz", ".json", ".drn"])
def test_damaged_files(tmp_path: Path, ending: str) -> None:
    """Whatever bytes change, the file is read or refused; nothing else is raised and nothing stays open."""
    rng = np.random.default_rng(0)
    path = tmp_path / f"model{ending}"
    example(thin=True, per_move=True).save(path)
    content = path.read_bytes()
    refusals = 0
    for _ in range(200):
        damaged = bytearray(content)
        for at in rng.integers(len(content), size=3):
            damaged[at] = rng.integers(256)
        path.write_bytes(damaged)
        try:
            CMDP.load(path)
        except ModelFileError as error:
            refusals += str(error).startswith(f"{path}: ")
    assert refusals > 100


def test_other_contents_in_npz(tmp_path: Path) -> None:
    path = tmp_path / "model.npz"
    with path.open("wb") as file:
        np.save(file, P)
    refused(path, "not an .npz archive; write it with cmdp.save or numpy.savez")
    path.write_text("state,action\n")
    refused(path, "truncated or not an .npz archive (")
    arrays: dict[str, Any] = example().to_arrays()
    np.savez(path, **(arrays | {"state_names": np.array(["a", "b"], dtype=object)}))
    refused(path, "array 'state_names' holds Python objects or other things; only plain numbers and text are read")
    np.savez(path, **arrays, colour=np.zeros(3))
    refused(path, "has an unknown array 'colour' (known: action_names, ")


def npz(tmp_path: Path, *, thin: bool = False, drop: tuple[str, ...] = (), **changes: Any) -> Path:
    arrays: dict[str, Any] = example(thin=thin, drawn=True).to_arrays() | changes
    path = tmp_path / "model.npz"
    np.savez(path, **{name: array for name, array in arrays.items() if name not in drop})
    return path


def test_missing_arrays_in_npz(tmp_path: Path) -> None:
    refused(
        npz(tmp_path, drop=("transitions",)),
        "has no array 'transitions', nor 'data', 'indices' and 'indptr' (found: action_names, cost_names, ",
    )
    refused(npz(tmp_path, thin=True, drop=("indptr",)), "has no array 'transitions', nor 'data', 'indices' and")
    refused(npz(tmp_path, drop=("costs",)), "has no array 'costs' (found: action_names, ")
    refused(npz(tmp_path, drop=("layout_agent",)), "has no array 'layout_agent', which 'layout_rows' needs")
    path = tmp_path / "empty.npz"
    np.savez(path)
    refused(path, "has no array 'transitions', nor 'data', 'indices' and 'indptr' (found: nothing)")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"transitions": P * 2}, "transitions[0, 0] sums to 2; it must sum to 1 (to 1e-09); make every row"),
        ({"costs": np.zeros((2, 2))}, "costs have shape (2, 2); they must be"),
        ({"costs": np.float64(1)}, "costs have shape (); they must be"),
        ({"costs": np.array("abc")}, "costs must be real numbers in a regular array"),
        ({"thresholds": [np.inf]}, "thresholds[0] is inf; it must be finite"),
        ({"initial": [2.0, 0.0]}, "initial sums to 2; it must sum to 1"),
        ({"state_names": ["a"]}, "there are 1 state_names; there must be 2"),
        ({"state_names": np.array("a")}, "state_names must be a list of names"),
        ({"layout_agent": np.zeros((1, 2))}, "layout.agent has shape (1, 2); it must be (2, 2)"),
        ({"layout_agent": np.array(["a", "b"])}, "layout.agent must be real numbers in a regular array"),
        ({"layout_agent": np.full((2, 2), np.nan)}, "layout.agent must be whole numbers"),
        ({"layout_rows": np.array("a")}, "layout_rows must be a list of names"),
    ],
)
def test_bad_arrays_in_npz(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    refused(npz(tmp_path, **changes), message)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"indptr": [[0, 2, 3, 4, 6]]}, "data, indices and indptr must be the flat arrays of a CSR matrix"),
        ({"indptr": [0, 3, 2, 4, 6]}, "data, indices and indptr must be the flat arrays of a CSR matrix"),
        (
            {"indptr": np.zeros(0, dtype=int)},
            "data, indices and indptr must be the flat arrays of a CSR matrix",
        ),
        ({"indptr": [0, 2, 3, 4, 9]}, "data, indices and indptr "),
        ({"indices": [0, 1, 0, 1, 0, 9]}, "data, indices and indptr "),
        ({"indices": [0.5] * 6}, "data, indices and indptr must be the flat arrays of a CSR matrix"),
        ({"data": [0.5]}, "data, indices and indptr "),
        ({"data": ["x"] * 6}, "data, indices and indptr must be the flat arrays of a CSR matrix"),
        ({"data": [np.nan] * 6}, "transitions[0, 0, 0] is nan; a probability must be >= 0"),
    ],
)
def test_bad_sparse_arrays_in_npz(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    refused(npz(tmp_path, thin=True, **changes), message)


def test_sparse_costs_per_move_need_the_number_of_states(tmp_path: Path) -> None:
    arrays: dict[str, Any] = example(thin=True, per_move=True).to_arrays()
    path = tmp_path / "model.npz"
    np.savez(path, **{name: arrays[name] for name in ("data", "indices", "indptr", "costs", "thresholds")})
    refused(path, "cannot tell the number of states of a sparse model with 4 rows; add state_names, or initial")


# .json


def changed(tmp_path: Path, change: Any, **options: bool) -> Path:
    path = tmp_path / "model.json"
    example(**options).save(path)
    document = json.loads(path.read_text(encoding="utf-8"))
    change(document)
    path.write_text(json.dumps(document), encoding="utf-8")
    return path


def test_json_is_for_people(tmp_path: Path) -> None:
    example().save(tmp_path / "model.json")
    lines = (tmp_path / "model.json").read_text(encoding="utf-8").splitlines()
    assert '  "states": ["idle", "büsy"],' in lines
    assert len(lines) == 2 + 8 + 6  # braces, fields, and one line for each pair within brackets


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "no complete JSON: Expecting value at line 1, column 1"),
        (b'{"format": ', "no complete JSON: Expecting value at line 1, column "),
        (b'{"format":\n tru}', "no complete JSON: Expecting value at line 2, column 2"),
        (b"\xff\xfe\x00", "not a text file in UTF-8"),
        (b"[1, 2]", 'not a model: it must be an object with "format": "psconrl.cmdp"'),
        (b'{"format": "other"}', 'not a model: it must be an object with "format": "psconrl.cmdp"'),
        (b'{"format": "psconrl.cmdp"}', "is of version None; only 1 can be read"),
        (b'{"format": "psconrl.cmdp", "version": 2}', "is of version 2; only 1 can be read"),
        (b'{"format": "psconrl.cmdp", "version": 1}', "has no field or name 'states'"),
        (b"[" * 100_000, "nested too deeply"),
    ],
)
def test_bad_json(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "model.json"
    path.write_bytes(content)
    refused(path, message)


def test_truncated_json(tmp_path: Path) -> None:
    path = tmp_path / "model.json"
    example().save(path)
    content = path.read_bytes()
    for length in range(0, len(content) - 2, 37):
        path.write_bytes(content[:length])
        with pytest.raises(ModelFileError, match=r"no complete JSON|not a text file"):
            CMDP.load(path)


def pair(document: dict[str, Any], number: int = 0) -> Any:
    return document["transitions"][number]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda d: d.pop("transitions"), "has no field or name 'transitions'"),
        (lambda d: pair(d).pop("action"), "has no field or name 'action'"),
        (lambda d: pair(d).update(state="gone"), "has no field or name 'gone'"),
        (lambda d: pair(d).update(action="sing"), "has no field or name 'sing'"),
        (lambda d: pair(d)["to"].update(gone=0.0), "has no field or name 'gone'"),
        (lambda d: pair(d)["costs"].update(money=0.0), "has no field or name 'money'"),
        (lambda d: pair(d)["costs"].pop("energy"), "has no field or name 'energy'"),
        (lambda d: d["thresholds"].pop("energy"), "has no field or name 'energy'"),
        (lambda d: d["thresholds"].update(delay=0.5), "has no field or name 'delay'"),
        (lambda d: d["initial"].update(gone=0.5), "has no field or name 'gone'"),
        (lambda d: (d["transitions"].pop(), d["transitions"].pop()), "state 'büsy' has no action in transitions"),
        (lambda d: d["transitions"].append(pair(d)), "state 'idle', action 'wait' is listed twice"),
        (lambda d: d.update(states=["a", "a"]), "states has 'a' twice; names must be distinct"),
        (lambda d: d.update(states=[]), "there are no states; a model needs at least one"),
        (lambda d: d.update(actions=[]), "there are no actions; a model needs at least one"),
        (lambda d: d["layout"].update(agent=[["x", 0], [0, 1]]), "layout.agent must be real numbers"),
        (lambda d: d["layout"].update(agent=[[0.5, 0], [0, 1]]), "layout.agent must be whole numbers"),
        (lambda d: d.update(states=7), "a field has the wrong form: "),
        (lambda d: d.update(initial="idle"), "a field has the wrong form: "),
        (lambda d: d.update(transitions=["x"]), "a field has the wrong form: "),
        (lambda d: d.update(transitions=None), "a field has the wrong form: "),
        (lambda d: pair(d).update(to=[1.0]), "a field has the wrong form: "),
        (lambda d: pair(d)["to"].update(idle="much"), "a field has the wrong form: "),
        (lambda d: pair(d)["to"].update(idle=None), "a field has the wrong form: "),
        (lambda d: pair(d)["to"].update(idle=0.5), "transitions[0, 0] sums to 1.166666667; it must sum to 1"),
        (lambda d: pair(d)["to"].update(idle=float("nan")), "transitions[0, 0, 0] is nan; a probability"),
        (lambda d: d["thresholds"].update(energy=float("inf")), "thresholds[0] is inf; it must be finite"),
        (lambda d: d["initial"].update(idle=0.4), "initial sums to 1.1; it must sum to 1"),
        (lambda d: d["layout"]["agent"].pop(), "layout.agent has shape (1, 2); it must be (2, 2)"),
        (lambda d: d["layout"].pop("rows"), "has no field or name 'rows'"),
        (lambda d: d.update(layout=[]), "a field has the wrong form: "),
    ],
)
def test_mistakes_in_json(tmp_path: Path, change: Any, message: str) -> None:
    refused(changed(tmp_path, change, drawn=True), message)


def test_costs_per_move_in_json(tmp_path: Path) -> None:
    def without(document: dict[str, Any]) -> None:
        pair(document)["to"]["idle"] = 1 / 3

    refused(changed(tmp_path, without, per_move=True), "a field has the wrong form: ")

    def common(document: dict[str, Any]) -> None:
        pair(document)["costs"] = {"delay": 4.0, "energy": 5.0}

    mixed = CMDP.load(changed(tmp_path, common, per_move=True))
    assert mixed.costs[:, 0, 0] == pytest.approx([4.0, 5.0])
