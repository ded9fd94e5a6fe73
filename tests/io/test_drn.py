"""Storm's explicit format: what is written comes back bit for bit, foreign files are read, bad ones refused."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import psconrl
from psconrl import CMDP, ModelFileError
from psconrl._core.checks import Bools
from psconrl.io.drn import read_drn, write_drn

numbers = st.floats(-1e9, 1e9)


def fewer(rng: np.random.Generator, S: int, A: int) -> Bools:
    """A mask with an action at least in every state."""
    return np.asarray((rng.random((S, A)) < 0.5) | (np.arange(A) == rng.integers(A, size=(S, 1))))


@st.composite
def models(draw: st.DrawFn) -> CMDP:
    S, A, m = draw(st.integers(1, 4)), draw(st.integers(1, 3)), draw(st.integers(0, 2))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    p = rng.dirichlet(np.full(S, 0.3), size=(S, A))
    per_move = draw(st.booleans())
    costs = rng.normal(size=(m + 1, S, A, S) if per_move else (m + 1, S, A)) * draw(numbers)
    names = st.lists(st.text(min_size=1), unique=True)
    law = rng.dirichlet(np.full(S, 0.3)) if draw(st.booleans()) else draw(st.integers(0, S - 1))
    cmdp = CMDP(
        p,
        costs,
        [draw(numbers) for _ in range(m)],
        initial=law,
        state_names=draw(st.none() | names.filter(lambda n: len(n) == S)) if S < 3 else None,
        action_names=draw(st.lists(st.text(), min_size=A, max_size=A, unique=True)),
        cost_names=draw(st.lists(st.text(), min_size=m + 1, max_size=m + 1, unique=True)),
        available=fewer(rng, S, A) if draw(st.booleans()) else None,
    )
    return cmdp.to_sparse() if draw(st.booleans()) else cmdp


@settings(max_examples=60, deadline=None)
@given(cmdp=models())
def test_round_trip(tmp_path_factory: pytest.TempPathFactory, cmdp: CMDP) -> None:
    path = tmp_path_factory.mktemp("drn") / "model.drn"
    cmdp.save(path)
    back = CMDP.load(path)
    assert back == cmdp
    assert back.is_sparse == cmdp.is_sparse
    as_storm_reads(path, cmdp)


def as_storm_reads(path: Path, cmdp: CMDP) -> None:
    """The file in the eyes of Storm's reader: comments start lines, names are single words, targets ascend."""
    lines = [line for line in path.read_text(encoding="utf-8").split("\n") if not line.startswith("//")]
    at = {line: number for number, line in enumerate(lines) if line.startswith("@")}
    assert lines[0] == "@type: MDP"
    assert lines[at["@parameters"] + 1] == ""
    rewards = lines[at["@reward_models"] + 1].split(" ")
    assert len(set(rewards)) == cmdp.m + 1
    assert all(rewards)
    states = choices = 0
    previous = -1
    for line in lines[at["@model"] + 1 : -1]:
        if line.startswith("state "):
            words = line.split(" ")
            assert words[1] == str(states)
            assert words[2:] in ([], ["init"])
            states += 1
        elif line.startswith("\taction "):
            _, label, charged = line.split(" ")
            assert label
            assert len([float(value) for value in charged[1:-1].split(",")]) == cmdp.m + 1
            choices, previous = choices + 1, -1
        else:
            target, p = line.split(" : ")
            assert previous < int(target) < int(lines[at["@nr_states"] + 1])
            previous = int(target)
            assert 0 < float(p) <= 1
    assert lines[at["@nr_states"] + 1] == str(states)
    assert lines[at["@nr_choices"] + 1] == str(choices)
    assert sum(line.endswith(" init") for line in lines) == 1


def test_maps_come_back(tmp_path: Path) -> None:
    for name in ("box", "marsrover-4x4"):
        cmdp = psconrl.make(name, slip=0.1)
        cmdp.save(tmp_path / "map.drn")
        assert CMDP.load(tmp_path / "map.drn") == cmdp


def test_a_start_law_is_one_more_state_that_changes_no_average(tmp_path: Path) -> None:
    """Two closed halves, so that the law matters; the extra state is read as an ordinary one without its comment."""
    p = np.zeros((3, 1, 3))
    p[0, 0, 0] = p[1, 0, 2] = p[2, 0, 1] = 1.0
    halves = CMDP(p, [[[5.0], [1.0], [2.0]]], initial=[0.25, 0.75, 0.0])
    path = tmp_path / "halves.drn"
    halves.save(path)
    assert CMDP.load(path) == halves
    path.write_text(path.read_text().replace("// start: 3\n", ""))
    plain = CMDP.load(path)
    assert plain.S == 4
    assert psconrl.solve(plain).value == pytest.approx(psconrl.solve(halves).value) == 0.25 * 5 + 0.75 * 1.5


def test_the_file_says_how_storm_finds_the_optimum(tmp_path: Path) -> None:
    psconrl.make("queue").save(tmp_path / "queue.drn")
    said = (tmp_path / "queue.drn").read_text().splitlines()[1]
    assert said == (
        "// storm --explicit-drn queue.drn --prop "
        '\'multi(R{"length"}min=? [LRA], R{"service"}<=0.6 [LRA], R{"rejection"}<=0.25 [LRA])\''
    )
    write_drn(psconrl.make("garnet", m=0), tmp_path / "g.drn")
    assert "--prop 'R{\"c0\"}min=? [LRA]'" in (tmp_path / "g.drn").read_text()


FOREIGN = """// Exported by storm
// Original model type: MDP
@type: MDP
@value_type: double
@parameters

@reward_models
time energy\x20
@nr_states
3
@nr_choices
4
@model
state 0 [1, 0] init "two words"
//[s=0 & d=0]
\taction slow [0, 0.5]
\t\t1 : 1/3
\t\t2 : 2/3
\taction fast [0, 2]
\t\t2 : 1
state 1 [3, 0] done
\taction slow
\t\t0 : 1
state 2
\taction slow [1, 1]
\t\t0 : 0.333333
\t\t1 : 0.666667
"""


def write(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "model.drn"
    path.write_text(text, encoding="utf-8")
    return path


def test_a_file_of_storm(tmp_path: Path) -> None:
    cmdp = CMDP.load(write(tmp_path, FOREIGN), thresholds={"energy": 0.9})
    assert cmdp.action_names == ("slow", "fast")
    assert cmdp.cost_names == ("time", "energy")
    assert cmdp.thresholds.tolist() == [0.9]
    assert cmdp.initial.tolist() == [1, 0, 0]
    p = np.asarray(cmdp.transitions)
    np.testing.assert_allclose(p[0], [[0.0, 1 / 3, 2 / 3], [0.0, 0.0, 1.0]])
    np.testing.assert_allclose(p[2], [[0.333333, 0.666667, 0.0], [0.0, 0.0, 0.0]])
    np.testing.assert_array_equal(cmdp.available, [[True, True], [True, False], [True, False]])
    np.testing.assert_array_equal(cmdp.costs, [[[1, 1], [3, 0], [1, 0]], [[0.5, 2], [0, 0], [1, 0]]])
    only = read_drn(tmp_path / "model.drn", costs=["energy"])
    assert only.m == 0
    swapped = read_drn(tmp_path / "model.drn", costs=["energy", "time"], thresholds={"time": 2})
    assert swapped.cost_names == ("energy", "time")
    noted = CMDP.load(write(tmp_path, '// thresholds: {"energy": 0.9}\n' + FOREIGN))
    assert noted == cmdp


def test_rows_are_renormalised_as_storm_allows(tmp_path: Path) -> None:
    text = FOREIGN.replace("0 : 0.333333\n", "0 : 0.3333335\n")
    cmdp = CMDP.load(write(tmp_path, text), thresholds={"energy": 1})
    np.testing.assert_allclose(np.asarray(cmdp.transitions).sum(axis=2)[cmdp.available], 1, atol=1e-15)


def test_labels_may_differ_between_states(tmp_path: Path) -> None:
    text = FOREIGN.replace("action slow\n", "action rest\n")
    cmdp = CMDP.load(write(tmp_path, text), thresholds={"energy": 1})
    assert cmdp.action_names == ("slow", "fast", "rest")
    np.testing.assert_array_equal(cmdp.available, [[True, True, False], [False, False, True], [True, False, False]])


@pytest.mark.parametrize("label", ["__NOLABEL__", "same"])
def test_labels_that_say_nothing_go_by_place(tmp_path: Path, label: str) -> None:
    text = FOREIGN.replace("slow", label).replace("fast", label)
    cmdp = CMDP.load(write(tmp_path, text), thresholds={"energy": 1})
    assert cmdp.action_names == ("0", "1")
    np.testing.assert_array_equal(cmdp.available, [[True, True], [True, False], [True, False]])


def test_labels_of_more_actions_than_there_is_room_for_go_by_place(tmp_path: Path) -> None:
    S = 400
    states = "".join(f"state {s}{' init' if s == 0 else ''}\n\taction own_{s}\n\t\t{s} : 1\n" for s in range(S))
    text = f"@type: MDP\n@reward_models\nr\n@nr_states\n{S}\n@model\n{states}"
    cmdp = CMDP.load(write(tmp_path, text))
    assert (cmdp.A, cmdp.action_names) == (1, ("0",))


def test_a_chain_is_a_model_with_one_action(tmp_path: Path) -> None:
    chain = "@type: DTMC\n@reward_models\nr\n@nr_states\n2\n@model\nstate 0 [1] init\n\taction 0\n\t\t1 : 1\n"
    cmdp = CMDP.load(write(tmp_path, chain + "state 1\n\taction 0\n\t\t0 : 0.5\n\t\t1 : 0.5\n"))
    assert (cmdp.S, cmdp.A, cmdp.m) == (2, 1, 0)
    assert psconrl.solve(cmdp).value == pytest.approx(1 / 3)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("@type: MDP", "@type: CTMC", "@type is CTMC"),
        ("double", "double-interval", "@value_type is double-interval"),
        ("@parameters\n", "@parameters\np q", "parameters"),
        ("@type: MDP\n", "", "@type is missing"),
        ("@nr_states\n3\n", "", "@nr_states is 'missing'"),
        ("@nr_states\n3", "@nr_states\nmany", "@nr_states is 'many'"),
        ("@nr_states\n3", "@nr_states\n2", "line 24: state 2 where"),
        ("@nr_states\n3", "@nr_states\n4", "line 28: the file ends after 3 states"),
        ("@nr_choices\n4", "@nr_choices\n5", "line 28: there are 4 choices"),
        ("@model", "@modell", "line 16: .* no section of a model"),
        (FOREIGN[FOREIGN.index("@model") :], "", "the file ends before @model"),
        ("state 1 [3, 0]", "state 7 [3, 0]", "line 21: state 7 where state 1"),
        ("state 1 [3, 0]", "state one [3, 0]", "line 21"),
        ("state 1 [3, 0]", "state 1 !4 [3, 0]", "line 21"),
        ("state 1 [3, 0]", "state 1 [3, 0", "line 21"),
        ("[3, 0]", "[3]", "line 21: there are 1 rewards"),
        ("[3, 0]", "[3, x]", "line 21: a reward is 'x'"),
        ("[3, 0]", "[3, inf]", "line 21: a reward is 'inf'"),
        ("state 0", "\taction x\nstate 0", "line 14"),
        ("\taction slow [0, 0.5]\n", "", "line 16"),
        ("\taction slow\n\t\t0 : 1\n", "", "line 26: there are 3 choices"),
        ("\t\t2 : 2/3", "\t\t2 : 1/0", "line 18: a probability is '1/0'"),
        ("\t\t2 : 2/3", "\t\t2 : [0.1,0.2]", "line 18"),
        ("\t\t2 : 2/3", "\t\t1 : 2/3", "state 0, action slow: the next state 1 is listed twice"),
        ("\t\t2 : 2/3", "\t\t3 : 2/3", "state 0, action slow: the next state 3"),
        ("\t\t2 : 2/3", "\t\t2 = 2/3", "line 18"),
        ("\t\t2 : 2/3", "\t\t2 : 1/3", "sums to 0.6666666667"),
        ("\t\t1 : 1/3\n\t\t2 : 2/3", "\t\t1 : -1\n\t\t2 : 2", "-1.0"),
        (" init", "", "no state has the label init"),
        ("done", "init", "line 21: a second state with the label init"),
        ("time energy\x20", "", "line 14: there are 2 rewards here and 0 names"),
        ("// Exported", "// thresholds: {x}\n//", "line 1: no complete JSON"),
        ("// Exported", "// thresholds: 3\n//", "line 1: thresholds must be"),
        ("// Exported", '// costs: ["a"]\n//', "costs must name the 2"),
        ("// Exported", "// start: 0\n//", "the start is 0"),
        ("// Exported", "// start: [2]\n//", "line 1: start must be"),
        ("// Exported", '// initial: {"9": 1}\n//', "unknown state '9'"),
        ("// Exported", '// initial: {"0": 2}\n//', "initial sums to 2"),
        ("// Exported", '// initial: {"0": "x"}\n//', "initial.*'x'"),
        ("// Exported", "// layout: 3\n//", "line 1: layout must be"),
        ("// Exported", "// layout: {}\n//", "rows"),
        ("// Exported", '// states: ["a"]\n//', "there are 1 state_names"),
        ("\t\t1 : 1/3", "// moves: [[1, 2], [1, 2]]\n\t\t1 : 1/3", "the mean of the moves"),
        ("\t\t1 : 1/3", "// moves: [[1, 2], 3]\n\t\t1 : 1/3", "moves of state 0"),
        ("\t\t1 : 1/3", "// moves: [[1], [2], [3]]\n\t\t1 : 1/3", "wrong form"),
    ],
)
def test_mistakes_are_found_where_they_are(tmp_path: Path, old: str, new: str, message: str) -> None:
    assert old in FOREIGN
    path = write(tmp_path, FOREIGN.replace(old, new, 1))
    with pytest.raises(ModelFileError, match=f"^{re.escape(str(path))}: .*{message}") as caught:
        CMDP.load(path, thresholds={} if "costs" in new else {"energy": 0.9})
    assert "\n" not in str(caught.value)


def test_limits_are_asked_for(tmp_path: Path) -> None:
    path = write(tmp_path, FOREIGN)
    with pytest.raises(ModelFileError, match="no limit for energy"):
        CMDP.load(path)
    with pytest.raises(ModelFileError, match=r"unknown limit 'money' \(known: energy, time\)"):
        CMDP.load(path, thresholds={"money": 1})
    with pytest.raises(ModelFileError, match="there are no reward models"):
        read_drn(path, costs=[])
    with pytest.raises(ModelFileError, match="there is no such file"):
        read_drn(tmp_path / "none.drn")
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(ModelFileError, match="not a text file in UTF-8"):
        read_drn(path)


def test_the_same_problem_from_everywhere(tmp_path: Path) -> None:
    """A machine from every format, from toolbox arrays and from Gymnasium: one value."""
    run = [[0.8, 0.2, 0.0], [0.0, 0.7, 0.3], [0.0, 0.0, 1.0]]
    repair = [[1.0, 0.0, 0.0]] * 3
    p = np.array([run, repair])
    profit, bill = np.array([[1.0, 0.4], [0.7, 0.4], [0.0, 0.4]]), np.array([[0.0, 1.0]] * 3)
    machine = CMDP(p.transpose(1, 0, 2), [-profit, bill], [0.1])
    known: dict[str, Any] = {"arrays": CMDP.from_arrays(p, profit, [bill], [0.1])}
    for ending in ("json", "npz", "drn"):
        machine.save(tmp_path / f"machine.{ending}")
        known[ending] = CMDP.load(tmp_path / f"machine.{ending}")
    known["gymnasium"] = CMDP.from_gymnasium(psconrl.CMDPEnv(tmp_path / "machine.drn"))
    known["table"] = CMDP.from_gymnasium(
        psconrl.CMDPEnv(machine), costs=lambda s, a, x, r: (-r, bill[s, a]), thresholds=[0.1]
    )
    values = {name: psconrl.solve(model).value for name, model in known.items()}
    assert values == pytest.approx(dict.fromkeys(known, psconrl.solve(machine).value), abs=1e-12)
    for name in ("arrays", "json", "npz", "drn", "gymnasium"):
        assert known[name] == machine


def test_packed_files_are_read_and_written(tmp_path: Path) -> None:
    cmdp = psconrl.make("queue")
    cmdp.save(tmp_path / "queue.drn.gz")
    cmdp.save(tmp_path / "queue.drn")
    packed = (tmp_path / "queue.drn.gz").read_bytes()
    assert len(packed) < 0.5 * (tmp_path / "queue.drn").stat().st_size
    assert CMDP.load(tmp_path / "queue.drn.gz") == CMDP.load(tmp_path / "queue.drn")
    (tmp_path / "queue.drn.gz").write_bytes(packed[: len(packed) // 2])
    with pytest.raises(ModelFileError, match="truncated"):
        CMDP.load(tmp_path / "queue.drn.gz")
