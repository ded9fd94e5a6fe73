"""What is fuzzed: every reader of files from outside, the constructor and the command line.

A target takes bytes. It may refuse them with one of psconrl's own errors, and must raise nothing else.
"""

from __future__ import annotations

import atexit
import contextlib
import copy
import gzip
import io
import json
import logging
import shutil
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

import psconrl
from psconrl import Learner, Problem, agents
from psconrl.cmdp import CMDP, Layout
from psconrl.environments.text_map import read_map
from psconrl.errors import LearnerFileError, PsconrlError
from psconrl.experiments import Experiment, Store, read_toml
from psconrl.io.reading import reraise_as
from psconrl.learning.state_io import pack, unpack

TOML = b"""name = "study"
envs = ["toy", "marsrover-4x4"]
agents = ["psconrl", "uniform"]
horizon = 50
seeds = 2
costs = "known"
checkpoints = 10
[settings.psconrl]
prior = 0.3
[env_options.toy]
theta = 0.9
"""
WORDS = [
    *("envs", "agents", "solve", "run", "export", "report", "convert", "init", "--json", "--help", "--env", "--agent"),
    *("toy", "garnet", "uniform", "--horizon", "--seeds", "3", "0", "-1", "1e400", "9" * 400, "--set", "theta=0.5"),
    *("theta=nan", "S=3", "S=1e3", "toy.theta=[1]", "--limit", "left=0.6", "left=NaN", "--out", "out", "--workers"),
    *("--limit-seconds", "nan", "model.json", "model.npz", "x.csv", "\x1b[2J", "\x00", "\ud800", "=", "", "--costs"),
    *("known", "--dask", "a" * 300, "--force", "--quick", "tau=", "tau=true", "map=S.G", "map=\x00.txt", "gridworld"),
]


@dataclass(frozen=True)
class Target:
    """Something to be fed, good examples of what it takes, and words that mean something to it."""

    feed: Callable[[bytes], object]
    examples: Callable[[], list[bytes]]
    words: tuple[bytes, ...] = ()


@cache
def folder() -> Path:
    """A folder for all files that are fed, in memory where the system offers that."""
    shared = Path("/dev/shm")  # noqa: S108  (a folder of our own is made in it)
    place = tempfile.mkdtemp(prefix="psconrl-fuzz-", dir=shared if shared.is_dir() else None)
    atexit.register(shutil.rmtree, place, ignore_errors=True)
    return Path(place)


def _file(name: str, content: bytes) -> Path:
    path = folder() / name
    path.write_bytes(content)
    return path


def _model(ending: str) -> Callable[[bytes], object]:
    return lambda content: CMDP.load(_file(f"model{ending}", content))


def _models(ending: str) -> Callable[[], list[bytes]]:
    def made() -> list[bytes]:
        rng = np.random.default_rng(0)
        places = np.array([[0, 0], [0, 1]])
        p = rng.dirichlet(np.ones(2), size=(2, 2))
        layout = Layout(("S.", "#G"), places, places + 1)
        fields: dict[str, Any] = {"state_names": ["idle", "büsy"], "cost_names": ["delay", "energy"], "layout": layout}
        small = CMDP(p, rng.random((2, 2, 2)), [0.4], initial=[0.3, 0.7], **fields)
        moves = CMDP(p, rng.random((2, 2, 2, 2)), [0.4])
        found = []
        for model in (small, moves, small.to_sparse(), moves.to_sparse(), psconrl.make("toy")):
            path = folder() / f"example{ending}"
            model.save(path)
            found.append(path.read_bytes())
        return found

    return made


@cache
def _archive() -> dict[str, bytes]:
    """The arrays of a sparse model with a map, each in numpy's format."""
    with zipfile.ZipFile(io.BytesIO(_models(".npz")()[2])) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def _array(content: bytes) -> object:
    """An archive that is whole, in which one array is replaced: the first byte says which."""
    members = _archive()
    chosen = list(members)[content[0] % len(members)] if content else ""
    path = folder() / "array.npz"
    with zipfile.ZipFile(path, "w") as archive:
        for name, good in members.items():
            archive.writestr(name, content[1:] if name == chosen else good)
    return CMDP.load(path)


def _arrays() -> list[bytes]:
    return [bytes([k]) + content for k, content in enumerate(_archive().values())]


def _specification(content: bytes) -> object:
    store = Store(folder() / "store", create=True)
    (store.path / "experiment.json").write_bytes(content)
    return [Experiment.from_json(document) for document in store.experiments().values()]


def _timings(content: bytes) -> object:
    store = Store(folder() / "store", create=True)
    (store.path / "timings.jsonl").write_bytes(content)
    return store.timings(), store.finished()


def _map(content: bytes) -> object:
    read_map(content.decode("latin-1"))
    return read_map(_file("map.txt", content))


@cache
def _learners() -> list[Learner]:
    """Learners in the middle of a run, with discovered states and costs in units of their own."""
    problem = Problem(None, ["wait", "go"], [5.0], cost_ranges=[(-1.0, 1.0), (0.0, 10.0)])
    names = ["a", ("b", 2), b"c", None, 1.5]
    found = []
    for agent in (
        agents.PSConRL(problem),
        agents.PSConRL(problem, prior="learned"),
        agents.UCRLCMDP(problem),
        agents.FHA(problem, H=3),
        agents.CUCRL(problem, h=2),
    ):
        learner = Learner(agent, 60, 0)
        for k in range(25):
            learner.observe(names[k % 5], learner.act(names[k % 5]), [0.5, k % 10], names[(k + 1) % 5])
        learner.act(names[0])
        found.append(learner)
    return found


def _learner() -> Learner:
    return _learners()[0]


def _learner_file(content: bytes) -> object:
    return Learner.load(_file("learner.npz", content), _learner().agent)


def _learner_files() -> list[bytes]:
    path = folder() / "example.npz"
    _learner().save(path)
    return [path.read_bytes()]


def _learner_document(content: bytes) -> object:
    """A document beside good data, with the right checksum."""
    _, data = pack(_learner().state())
    with reraise_as(LearnerFileError, "learner.npz"):
        state = unpack(content, data)
    return _go_on(Learner.restore(_learner().agent, state))


def _learner_data(content: bytes) -> object:
    """Data of arrays beside a good document."""
    document, data = pack(_learner().state())
    whole = (content + data[len(content) :])[: len(data)]
    return _go_on(Learner.restore(_learner().agent, unpack(document, whole)))


def _learner_state(content: bytes) -> object:
    """A state in which some values, chosen by the bytes, are replaced by odd ones or by other parts of it."""
    rng = np.random.default_rng(list(content))
    learner = _learners()[int(rng.integers(len(_learners())))]
    state = copy.deepcopy(learner.state())
    odd: list[Any] = [
        *(
            None,
            True,
            -1,
            0,
            1,
            7,
            2**63,
            2**200,
            1e308,
            np.nan,
            np.inf,
            "",
            "a",
            b"",
            (),
            [],
            {},
            [[]],
            object(),
            np.zeros(3),
        ),
        *(
            np.zeros((1, 5, 2)),
            np.full((5, 2), -1),
            np.full((5, 2), 2**62),
            np.array("x"),
            np.zeros((0, 5, 2)),
            np.int64(3),
        ),
    ]
    for _ in range(int(rng.integers(1, 4))):
        places = list(_places(state))
        holder, key = places[int(rng.integers(len(places)))]
        other, name = places[int(rng.integers(len(places)))]
        value = odd[int(rng.integers(len(odd)))] if rng.random() < 0.7 else copy.deepcopy(other[name])
        if isinstance(holder[key], np.ndarray) and holder[key].size and rng.random() < 0.5:
            array = holder[key].copy()
            array.flat[int(rng.integers(array.size))] = rng.choice([-1, 0, 1, 5, 99, 2**40])
            value = array
        if isinstance(holder, (dict, list)):
            holder[key] = value
    return _go_on(Learner.restore(learner.agent, state))


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    """All places in containers, with what holds them; tuples become lists."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in list(items):
        yield value, key
        yield from _places(inner)


def _go_on(learner: Learner) -> object:
    """What was taken for good must be good."""
    for s, x in (("a", "new"), ("new", ("b", 2)), (("b", 2), "a")):
        if learner.t < learner.horizon:
            learner.observe(s, learner.act(s), [0.0, 0.0], x)
    return learner.state()


def _constructor(content: bytes) -> object:
    """A model whose arrays, of small or odd shapes, and names are read off the bytes."""
    rng = np.random.default_rng(list(content[:8]))
    take = iter(content[8:] + bytes(64))
    sizes = [next(take) % 4 for _ in range(7)]
    odd = [np.nan, np.inf, -1.0, 2.0, 1e308, 1e-320, True, None, "x", 2**70]

    def array(*shape: int) -> Any:
        kind = next(take) % 8
        plain = kind < 5
        values: Any = rng.dirichlet(np.ones(shape[-1] or 1), size=shape[:-1]) if plain else rng.normal(size=shape)
        if next(take) % 4 == 0 and values.size:
            flat = values.astype(object).ravel()
            flat[next(take) % len(flat)] = odd[next(take) % len(odd)]
            values = flat.reshape(values.shape)
        return values.tolist() if kind % 2 else values

    S, A, m = sizes[0] + 1, sizes[1] + 1, sizes[2]
    p = array(S, A, S) if sizes[3] else array(S, A, sizes[4])
    c = array(m + 1, S, A) if sizes[5] else array(sizes[6], S, A)
    tau = array(m) if next(take) % 4 else array(1, m)
    return CMDP(p, c, tau, initial=array(S) if next(take) % 2 else next(take))


def _command(content: bytes) -> object:
    """A command line of known words, each chosen by a byte; what it prints must be safe on a terminal."""
    from psconrl.cli import main

    words = [WORDS[byte % len(WORDS)] for byte in content[:8]]
    if any(word in words for word in ("--dask", "reproduce", "report")):
        words = words[:1]
    printed = io.StringIO()
    with contextlib.chdir(folder()), contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
        try:
            main(words)
        except SystemExit as end:
            if end.code not in (0, 1, 2):
                raise AssertionError(f"exit code {end.code}") from end
    if "\x1b" in printed.getvalue() or "Traceback" in printed.getvalue():
        raise AssertionError(printed.getvalue())
    return words


NUMBERS = (
    *(b"1e309", b"-1", b"NaN", b"Infinity", b"9" * 400, b"9" * 5000),
    *(b"true", b"null", b"[]", b"{}", b"[[[[[[[[", b'"'),
)
NAMES = (
    *(b'"states"', b'"costs"', b'"to"', b'"p"', b'"sparse"', b'"layout"'),
    *(b'"rows"', b'"initial"', b"\\u001b", b"\\ud800"),
)
HEADERS = (
    *(b"descr", b"'<f8'", b"'|O'", b"(True,)", b"shape", b"(2, 2, 2)"),
    *(b"'<U9'", b"'<u8'", b"True", b"-1", b"9" * 30),
)
SECTIONS = (b"@nr_states\n", b"state 0", b"\taction a", b"// initial: ", b"// layout: ", b"1/3")

TARGETS = {
    "npz": Target(_model(".npz"), _models(".npz"), (b"PK\x03\x04", b"PK\x01\x02")),
    "array": Target(_array, _arrays, HEADERS),
    "json": Target(_model(".json"), _models(".json"), (*NUMBERS, *NAMES)),
    "drn": Target(
        _model(".drn"), _models(".drn"), (*NUMBERS, b"@nr_states\n", b"state 0", b"\taction a", b"// initial: ")
    ),
    "umb": Target(
        _model(".umb"),
        lambda: [gzip.decompress(packed) for packed in _models(".umb")()],
        (*NUMBERS, b'"rational"', b'"int"', b'"#states": 9', bytes(8), b"\xff" * 8),
    ),
    "map": Target(_map, lambda: [b"W S .\nW G P\n", b"S.X.G\n.....\n"], (b"\x00", b"S", b"G", b"X", b"\n")),
    "toml": Target(
        lambda content: read_toml(_file("study.toml", content)),
        lambda: [TOML],
        (*NUMBERS, b"[[a]]", b"1979-05-27", b"seeds = 100000000", b"horizon = ", b"a.b.c.d = 1", b'"""', b"\x00"),
    ),
    "specification": Target(
        _specification,
        lambda: [json.dumps(Experiment.grid("x", ["toy"], ["uniform"], horizon=9, seeds=2).as_json()).encode()],
        (*NUMBERS, b'"cells"', b'"seeds"', b'"model"', b'"id"'),
    ),
    "timings": Target(
        _timings,
        lambda: [b'{"identity": "a", "seconds": 0.5, "finished": "2026-01-01T00:00:00+0000"}\n' * 3],
        (*NUMBERS, b"\xff", b'"seconds"'),
    ),
    "learner": Target(_learner_file, _learner_files, (b"PK\x03\x04", b"PK\x01\x02")),
    "learner-document": Target(
        _learner_document,
        lambda: [pack(_learner().state())[0]],
        (
            *NUMBERS,
            b'{"array": ["<f8", [1, 5, 2]]}',
            b'{"tuple": [',
            b'{"table": {',
            b'{"whole": "',
            b'"|O"',
            b"[9999999]",
        ),
    ),
    "learner-state": Target(_learner_state, lambda: [b"abc", b"xyz"]),
    "learner-data": Target(
        _learner_data,
        lambda: [pack(_learner().state())[1]],
        (b"\xff" * 8, b"\x00" * 8, b"\x01" + b"\x00" * 7, b"\x00\x00\x00\x00\x00\x00\xf8\x7f", b"\xff" * 7 + b"\x7f"),
    ),
    "constructor": Target(_constructor, lambda: [bytes(range(40)), bytes(range(100, 160))]),
    "command": Target(_command, lambda: [bytes([2, 12]), bytes([3, 10, 12, 11, 14, 15, 17, 16])]),
}


def fed(name: str, content: bytes) -> bool:
    """Feed a target; whether it took the bytes or refused them. Any other error is a finding, and is raised."""
    logging.disable()  # warnings about what is left out would be many
    try:
        TARGETS[name].feed(content)
    except PsconrlError:
        return False
    finally:
        logging.disable(logging.NOTSET)
    return True


SHARES = {"map": 0.1, "toml": 0.1, "timings": 0.05, "specification": 0.1, "command": 0.005, "npz": 0.1}
SHARES |= {"learner": 0.03, "learner-document": 0.03, "learner-data": 0.03, "learner-state": 0.02}
"""Parts of all inputs that targets get; the others share the rest. A command takes as long as twenty other inputs."""


def counts(total: int) -> dict[str, int]:
    """How many inputs each target gets of so many."""
    rest = (1 - sum(SHARES.values())) / (len(TARGETS) - len(SHARES))
    return {name: round(total * SHARES.get(name, rest)) for name in TARGETS}
