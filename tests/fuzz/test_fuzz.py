"""A sample of the fuzzing with every test, the whole of it with the long ones, and what it has found."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from tests.experiments.sweeps import finish, start
from tests.fuzz.engine import fuzz
from tests.fuzz.targets import TARGETS, WORDS, counts, fed

FOUND: list[tuple[str, bytes]] = [
    # whole numbers that no float holds, and those that Python does not even read
    ("json", b'{"format": "psconrl.cmdp", "version": 1, "states": ["a"], "actions": ["b"], "costs": ["c"], '
     b'"transitions": [{"state": "a", "action": "b", "to": {"a": ' + b"9" * 400 + b'}, "costs": {"c": 1}}]}'),
    ("json", b'{"format": "psconrl.cmdp", "version": ' + b"9" * 5000 + b"}"),
    ("drn", b"@type: MDP\n@nr_states\n" + b"9" * 5000 + b"\n@model\n"),
    ("toml", b'envs = ["toy"]\nagents = ["uniform"]\nhorizon = 1' + b"0" * 400 + b"\nseeds = 1\n"),
    ("toml", b'envs = ["toy"]\nagents = ["uniform"]\nhorizon = ' + b"9" * 5000 + b"\nseeds = 1\n"),
    ("toml", b'envs = ["toy"]\nagents = ["uniform"]\nhorizon = 9\nseeds = 100000000\n'),
    ("toml", b'envs = ["toy"]\nagents = ["uniform"]\nhorizon = 9\nseeds = 1\nname = [1]\nevaluate_policies = 3\n'),
    ("toml", b"x = " + b"[" * 5000),
    ("toml", b"a" + b".a" * 100_000 + b" = 1"),
    # numbers as lines of a map, a name with a zero in it
    ("json", b'{"format": "psconrl.cmdp", "version": 1, "states": ["a"], "actions": ["b"], "costs": ["c"], '
     b'"layout": {"rows": [1], "agent": [[0, 0]]}, '
     b'"transitions": [{"state": "a", "action": "b", "to": {"a": 1}, "costs": {"c": 1}}]}'),
    ("map", b"\x00.txt"),
    ("specification", b"[]"),
    ("timings", b"\xff\n"),
    # names that ask for a table of nine hundred million entries
    ("json", json.dumps({"format": "psconrl.cmdp", "version": 1, "states": [str(k) for k in range(30_000)],
                         "actions": [str(k) for k in range(30_000)], "costs": ["c"], "transitions": []}).encode()),
    # a state with many actions, which all the others would be given
    ("drn", b"@type: MDP\n@reward_models\nr\n@nr_states\n20000\n@model\nstate 0 init\n" + b"action a\n0 : 1\n" * 20_000
     + b"".join(b"state %d\naction a\n0 : 1\n" % k for k in range(1, 20_000))),
]  # fmt: skip


@pytest.mark.parametrize(("name", "content"), FOUND, ids=[f"{name}-{k}" for k, (name, _) in enumerate(FOUND)])
def test_what_was_found_is_refused(name: str, content: bytes) -> None:
    fed(name, content)


@pytest.mark.parametrize("name", TARGETS)
def test_a_sample(name: str) -> None:
    for _ in fuzz(name, counts(20_000)[name]):
        pass


@pytest.mark.long
@pytest.mark.parametrize("name", TARGETS)
def test_a_million(name: str) -> None:
    for _ in fuzz(name, counts(1_000_000)[name], seed=1):
        pass


@pytest.mark.parametrize("count", [5, pytest.param(200, marks=pytest.mark.long)])
def test_real_command_lines(count: int, tmp_path: Path) -> None:
    """Random words, in a process of their own: one line of complaint, and never a traceback."""
    rng = random.Random(count)
    spoken = [word for word in WORDS if "\0" not in word and "\ud800" not in word and word != "--dask"]
    for _ in range(count):
        words = [rng.choice(spoken) for _ in range(rng.randrange(1, 7))]
        code, out, err = finish(start(*words, cwd=tmp_path))
        assert code in (0, 1, 2), (words, err)
        assert "Traceback" not in err, (words, err)
        assert "\x1b" not in out + err
        if code:
            assert err.splitlines()[-1].startswith("psconrl: "), (words, err)
