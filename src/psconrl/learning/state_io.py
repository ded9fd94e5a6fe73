"""Saving and restoring a learner: its state as plain values, and as a file.

State. `state_of` takes all that a learner is as plain values; `restore` brings a new learner into a state. Whatever a
state says, compiled code reads only what a run could have left: a damaged state, or that of another agent or problem,
is refused as a whole, and the message names the part. This is the one place where a state, a plan's `carry` included,
is validated.

File. .npz, never pickled, with three arrays of bytes: `document`, a JSON text, in which

    {"array": [kind, shape]}     stands for the next array of `data`, which holds them one after the other
    {"tuple": [...]}, {"table": {...}}, {"bytes": "00ff"}, {"whole": "-1f"}     for what JSON does not have

lists, text, numbers, true, false and null stand for themselves; and `checksum`, SHA-256 of both.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from psconrl._core import checks
from psconrl._core.checks import LARGEST, Bools, Floats, Ints, short_repr
from psconrl.agents import _counts_kernels as kernels
from psconrl.agents.contract import Agent, Plan
from psconrl.agents.counts import Counts
from psconrl.cmdp import CMDP
from psconrl.errors import InvalidArgumentError, InvalidTypeError, LearnerFileError, PsconrlError
from psconrl.io import reading, writing
from psconrl.learning.loop_data import BLOCK, RandomStream, extended_plan
from psconrl.learning.run import Snapshot, episode_columns
from psconrl.planning.steered import FREE, Steered
from psconrl.problem import Problem

if TYPE_CHECKING:
    from psconrl.learning.learner import Learner

_REMEDY = "give a state as state() or run.state has it, unchanged, and the agent that it belongs to"


# -- The state ---------------------------------------------------------------------------------------------------------

_KEYS = (
    *("agent", "states", "horizon", "seed", "streams", "counts", "spent", "visits", "cost_sums", "excess"),
    *("direction", "clock", "asked", "origin", "last_length", "carry", "rows", "episode", "snapshots", "plan"),
)


def state_of(learner: Learner) -> dict[str, Any]:
    """All that a learner is, as plain values that later steps do not change."""
    plan = learner.current
    return {
        "agent": description(learner.agent),
        "states": list(learner.states.names or ()) if learner.states.open else None,
        "horizon": learner.horizon,
        "seed": learner.seed,
        "streams": [
            learner.environment.state(),
            learner.actions.state(),
            learner.planning.bit_generator.state,
        ],
        "counts": (*(array.copy() for array in learner.observed.chains), int(learner.observed.used[0])),
        **{name: getattr(learner, name).copy() for name in ("visits", "cost_sums", "excess", "direction", "clock")},
        "spent": learner.observed.spent.copy(),
        "asked": learner.asked,
        "origin": learner.origin,
        "last_length": learner.last_length,
        "carry": {key: value.copy() for key, value in learner.carry.items()},
        "rows": list(learner.rows),
        "episode": learner.episode,
        "snapshots": [(s.start, s.policy, s.visits) for s in learner.snapshots],
        "plan": None
        if plan is None
        else {name: getattr(plan, name) for name in Plan.__dataclass_fields__}
        | {"steered": None if plan.steered is None else plan.steered._asdict()},
    }


def validated(state: Any, agent: Agent) -> Mapping[str, Any]:
    """A state that has all its parts, and belongs to the agent."""
    whole = mapping(state, _KEYS)
    check_owner(whole["agent"], agent)
    return whole


def check_owner(owner: Any, agent: Agent) -> None:
    """Refuse the state of another agent, or of another problem; owner: what `description` gave."""
    other = _difference(description(agent), mapping(owner, (), 'state["agent"]'))
    if other is not None:
        raise InvalidArgumentError(f"the state belongs to {other}; go on with the agent that it belongs to")


class Observations(NamedTuple):
    """What a learner observed: the states that it discovered, the available actions (S, A), visits (S, A), counts, cost
    sums (m + 1, S, A), and the state in which it is."""

    discovered: list[Any]
    available: Bools
    visits: Ints
    counts: Counts
    cost_sums: Floats
    state: int


def observations(state: Mapping[str, Any], problem: Problem) -> Observations:
    """The observations in a learner's state."""
    discovered, A = _discovered(state["states"], problem.open), problem.A
    available = problem.available
    if problem.open:
        available = np.array([problem.available_actions(s) for s in discovered], dtype=np.bool_).reshape(-1, A)
    visits = _array(state["visits"], "visits", np.int64, available.shape)
    if visits[~available].any():
        raise invalid_state("visits", "has steps with actions that are not available")
    sums = _array(state["cost_sums"], "cost_sums", np.float64, (problem.m + 1, *visits.shape))
    if not ((sums >= 0) & (sums <= visits * (1 + 1e-9))).all():
        raise invalid_state("cost_sums", "is not the sum of as many costs in [0, 1] as there were visits")
    clock = _array(state["clock"], "clock", np.int64, (5,))
    here = _integer(clock[2], "clock", 0, max(len(visits) - 1, 0))
    return Observations(discovered, available, visits, _counts(state["counts"], visits), sums, here)


def restore(learner: Learner, state: Mapping[str, Any]) -> None:
    """Bring a learner that has not begun into a validated state."""
    problem = learner.problem
    observed = observations(state, problem)
    learner._discover(*observed.discovered)
    S, A, m = len(learner.states), problem.A, problem.m
    tracked = learner.observed.spent.shape[1]
    learner.visits, learner.observed, learner.cost_sums = observed.visits, observed.counts, observed.cost_sums
    learner.observed.spent = _spent(state["spent"], observed.counts, tracked)
    _restore_streams(learner, state["streams"])
    learner.clock = _array(state["clock"], "clock", np.int64, (5,))
    t, length, _, checkpoint, forced = learner.clock.tolist()
    if not (0 <= length <= t <= learner.horizon and checkpoint >= 0):
        raise invalid_state("clock", "does not fit the horizon")
    if learner.visits.sum() > t:  # fewer where old steps are forgotten
        raise invalid_state("visits", f"adds up to more than the {t} steps done")
    for name in ("excess", "direction"):
        numbers = _array(state[name], name, np.float64, (m,))
        if not np.isfinite(numbers).all():
            raise invalid_state(name, "has a number that is not finite")
        setattr(learner, name, numbers)
    learner.origin = _integer(state["origin"], "origin", 0, max(S - 1, 0))
    learner.last_length = _integer(state["last_length"], "last_length", 1)
    learner.carry = _carry(state["carry"], "carry")
    learner.rows = _rows(state["rows"], m)
    learner.episode = _integer(state["episode"], "episode", len(learner.rows))
    learner.kept = _snapshots(state["snapshots"], S, A)
    learner.newest = learner.kept.pop() if learner.kept else None
    plan, choices = _plan(state["plan"]), 0
    if plan is not None:
        # Where states were discovered since, the plan knows only the first of them.
        shape: tuple[int, ...] = getattr(plan.policy, "shape", ())
        learner._adopt(plan, min(shape[1], S) if problem.open and len(shape) == 3 else S)
        learner.compiled = extended_plan(learner.compiled, plan, learner.pairs)
        choices = 0 if plan.steered is None else plan.steered.choices
    if not FREE <= forced < max(choices, FREE + 1):
        raise invalid_state("clock", "names a column or transfer of steering that the plan does not have")
    asked = state["asked"]
    if asked is not None:
        if learner.current is None or not isinstance(asked, (tuple, list)) or len(asked) != 2:
            raise invalid_state("asked", "must be a state and an action of a plan that is under way")
        s, a = (_integer(n, "asked", 0, count - 1) for n, count in zip(asked, (S, A), strict=True))
        learner._check_available(s, a)
        learner.asked = s, a


def invalid_state(part: str, rule: str) -> InvalidArgumentError:
    """The error about a part of a state."""
    return InvalidArgumentError(f"state[{part!r}] {rule}; {_REMEDY}")


def mapping(state: Any, keys: Iterable[str], what: str = "the state") -> Mapping[str, Any]:
    """A mapping that has all of these keys."""
    if not isinstance(state, Mapping):
        raise InvalidArgumentError(f"{what} is {short_repr(state)}; it must be a mapping; {_REMEDY}")
    missing = [key for key in keys if key not in state]
    if missing:
        raise InvalidArgumentError(f"{what} has no {missing[0]!r}; {_REMEDY}")
    return state


def curves(state: Mapping[str, Any], part: str, shape: tuple[int, ...]) -> Floats:
    """An array of floats of a given shape in the state of a run."""
    return _array(state[part], part, np.float64, shape)


def _discovered(names: Any, is_open: bool) -> list[Any]:
    """The states that were discovered, in the order of their numbers."""
    if not is_open and names is None:
        return []
    if not is_open or not isinstance(names, list):
        raise invalid_state("states", "must be the list of states that were discovered, or None where they are known")
    try:
        return list(checks.hashables(names, "states")) if names else []
    except PsconrlError as error:
        raise invalid_state("states", f"is wrong: {error}") from None


def _integer(value: Any, part: str, least: int, most: int | None = LARGEST) -> int:
    try:
        return checks.whole(value, part, least, most)
    except PsconrlError as error:
        raise invalid_state(part, f"is wrong: {error}") from None


def _array(value: Any, part: str, kind: type[np.generic], shape: tuple[int | None, ...]) -> NDArray[Any]:
    """A fresh array of a kind and shape; None in a shape is any length."""
    fits = (
        isinstance(value, np.ndarray)
        and value.dtype == np.dtype(kind)
        and value.ndim == len(shape)
        and all(n is None or n == found for n, found in zip(shape, value.shape, strict=True))
    )
    if not fits:
        found = f"{value.dtype} {value.shape}" if isinstance(value, np.ndarray) else short_repr(value)
        raise invalid_state(part, f"is {found}; it must be an array of {kind.__name__} of shape {shape}")
    return np.array(value, order="C")


def _counts(value: Any, visits: Ints) -> Counts:
    """N(s, a, s') whose chains are sound, and whose sums are the visits."""
    S, A = visits.shape
    if not isinstance(value, (tuple, list)) or len(value) != 5:
        raise invalid_state("counts", "must be the five parts head, link, target, number and used")
    head = _array(value[0], "counts", np.int64, (S * A,))
    link = _array(value[1], "counts", np.int64, (None,))
    target, number = (_array(part, "counts", np.int64, link.shape) for part in value[2:4])
    used = _integer(value[4], "counts", 0, len(link))
    following = np.concatenate([head, link[:used]])
    # Every entry follows on exactly one other, or is the first of its row; then no path along a chain leaves the arrays
    # or comes round again.
    once = np.array_equal(np.sort(following[following >= 0]), np.arange(used)) and (following >= -1).all()
    inside = ((target[:used] >= 0) & (target[:used] < S)).all() and (number[:used] >= 1).all()
    if not (once and inside):
        raise invalid_state("counts", "has corrupt transition counts")
    indptr, indices, numbers = kernels.by_rows(head, link, target, number, used)
    row = np.repeat(np.arange(S * A), np.diff(indptr))
    distinct = not ((np.diff(row) == 0) & (np.diff(indices[: len(row)]) <= 0)).any()
    sums = np.bincount(row, weights=numbers[: len(row)], minlength=S * A)
    if indptr[-1] != used or not distinct or not np.array_equal(sums, visits.ravel()):
        raise invalid_state("counts", "does not add up to the visits")
    return Counts.of(head, link, target, number, used, S, A)


def _spent(value: Any, counts: Counts, n: int) -> Floats:
    """Sums of n costs in [0, 1] for each entry of the counts."""
    number, used = counts.chains[3], int(counts.used[0])
    sums = _array(value, "spent", np.float64, (len(number), n))
    if not ((sums[:used] >= 0) & (sums[:used] <= number[:used, np.newaxis] * (1 + 1e-9))).all() or sums[used:].any():
        raise invalid_state("spent", "is not the sum of as many costs in [0, 1] as there were moves")
    return sums


def _carry(value: Any, part: str) -> dict[str, NDArray[Any]]:
    """Plain arrays by name."""
    plain = isinstance(value, Mapping) and all(
        isinstance(key, str) and isinstance(item, np.ndarray) and item.dtype != object for key, item in value.items()
    )
    if not plain:
        raise invalid_state(part, "must be plain arrays by name")
    return {key: item.copy() for key, item in value.items()}


def _rows(value: Any, m: int) -> list[tuple[Any, ...]]:
    """Rows of the table of episodes, with or without the averages."""
    if not isinstance(value, (tuple, list)) or not all(isinstance(row, tuple) for row in value):
        raise invalid_state("rows", "must be a list of tuples, one for each plan that is over")
    wide = bool(value) and len(value[0]) == len(episode_columns(m, averages=True))
    try:
        table = np.array(list(value), episode_columns(m, wide))
    except (ValueError, TypeError, OverflowError):
        raise invalid_state("rows", "must have the columns of run.episodes") from None
    if (table["length"] < 1).any():
        raise invalid_state("rows", "has a plan without a step")
    return list(value)


def _snapshots(value: Any, S: int, A: int) -> list[Snapshot]:
    if not isinstance(value, (tuple, list)) or not all(isinstance(s, (tuple, list)) and len(s) == 3 for s in value):
        raise invalid_state("snapshots", "must be a list of (start, policy, visits)")
    return [
        Snapshot(
            _integer(start, "snapshots", 0),
            _array(policy, "snapshots", np.float64, (None, S, A)),
            _array(visits, "snapshots", np.int64, (S, A)),
        )
        for start, policy, visits in value
    ]


def _plan(value: Any) -> Plan | None:
    """The plan that was under way; its arrays are checked when it is compiled."""
    if value is None:
        return None
    names = Plan.__dataclass_fields__
    parts = mapping(value, names, 'state["plan"]')
    unknown = set(parts) - set(names)
    if unknown:
        raise invalid_state("plan", f"has no field {min(map(str, unknown))!r}")
    plain: dict[str, Any] = {"phase": str, "feasible": (bool, np.bool_), "value": (int, float, np.number)}
    plain |= {"connected": (bool, np.bool_), "solver": str}
    for name, kind in plain.items():
        if not isinstance(parts[name], kind):
            raise invalid_state("plan", f"has {short_repr(parts[name])} for its {name}")
    steered = parts["steered"]
    if steered is not None:
        arrays = mapping(steered, Steered._fields, 'state["plan"]["steered"]')
        steered = Steered(**{name: arrays[name] for name in Steered._fields})
    return Plan(**(dict(parts) | {"carry": _carry(parts["carry"], "plan"), "steered": steered}))


def _restore_streams(learner: Learner, value: Any) -> None:
    if not isinstance(value, (tuple, list)) or len(value) != 3:
        raise invalid_state("streams", "must be those of the environment, the actions and the planning")
    for stream, part in zip((learner.environment, learner.actions), value, strict=False):
        _restore_stream(stream, mapping(part, ("generator", "at"), 'state["streams"]'))
    _restore_generator(learner.planning, value[2])


def _restore_stream(stream: RandomStream, value: Mapping[str, Any]) -> None:
    position = _integer(value["at"], "streams", 0, BLOCK)
    _restore_generator(stream.generator, value["generator"])
    stream.seek(position)


def _restore_generator(generator: np.random.Generator, value: Any) -> None:
    try:
        generator.bit_generator.state = value
        valid = generator.bit_generator.state == value
    except (LookupError, TypeError, ValueError, AttributeError, OverflowError):  # as numpy takes them on trust
        valid = False
    if not valid:
        raise invalid_state("streams", "does not hold the states of numpy's generators")


# -- Whose state it is -------------------------------------------------------------------------------------------------


def description(agent: Agent) -> dict[str, Any]:
    """Kind, settings and problem of an agent as JSON values; large things by their fingerprints."""
    settings = {field.name: _plain(getattr(agent, field.name)) for field in fields(agent) if field.name != "problem"}
    names = [name for name in Problem.__dataclass_fields__ if name not in ("pairs", "available_function")]
    problem = {name: _plain(getattr(agent.problem, name)) for name in names}
    function, every = agent.problem.available_function, agent.problem.pairs.every
    problem["available"] = "all" if every else _plain(agent.problem.available)
    if function is not None:
        problem["available"] = f"by {getattr(function, '__qualname__', type(function).__qualname__)}"
    return {"agent": type(agent).__qualname__, "settings": settings, "problem": problem}


def _difference(mine: Mapping[str, Any], other: Mapping[str, Any]) -> str | None:
    """The first thing in which two descriptions differ, in words; None if they are the same."""
    if _canonical(mine["agent"]) != _canonical(other.get("agent")):
        return f"agent {short_repr(other.get('agent'))}, not {mine['agent']}"
    for part in ("problem", "settings"):
        theirs = other.get(part)
        owner = "a problem" if part == "problem" else str(mine["agent"])
        if not isinstance(theirs, Mapping):
            return f"an agent without {part}"
        for name in sorted({*mine[part], *map(str, theirs)}):
            if _canonical(mine[part].get(name, "nothing")) != _canonical(theirs.get(name, "nothing")):
                return f"{owner} with {name} = {short_repr(theirs.get(name))}, not {short_repr(mine[part].get(name))}"
    return None


def _canonical(value: Any) -> str:
    """Equal for equal descriptions, NaN included, and for tuples and lists of the same."""
    try:
        return json.dumps(value, sort_keys=True)
    except (TypeError, ValueError, RecursionError):
        return short_repr(value)


def _plain(value: Any) -> Any:
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, (tuple, list)):
        return [_plain(item) for item in value]
    if isinstance(value, np.ndarray) and value.size <= 8 and value.dtype.kind in "biuf":
        return value.tolist()
    if isinstance(value, np.ndarray):
        return f"array {value.shape} {_fingerprint(value)}"
    if sparse.issparse(value):
        matrix: Any = sparse.csr_array(value)
        arrays = (matrix.data, matrix.indices.astype(np.int64), matrix.indptr.astype(np.int64))
        return f"sparse {matrix.shape} {_fingerprint(*arrays)}"
    if isinstance(value, CMDP):
        stored = value.to_arrays()
        return f"{value} {_fingerprint(*(stored[name] for name in sorted(stored)))}"
    # What a user's own class looks like is not known: its address must not count.
    text = short_repr(value)
    return type(value).__qualname__ if " at 0x" in text else text


def _fingerprint(*arrays: NDArray[Any]) -> str:
    digest = hashlib.sha256()
    for array in arrays:
        digest.update(f"{array.dtype.str} {array.shape}".encode())
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()[:16]


# -- The file ----------------------------------------------------------------------------------------------------------

FORMAT = "psconrl.learner 2"
MAX_DEPTH = 12
"""Levels of containers in each other; each takes two in the document."""
_LARGE = 2**63
"""Whole numbers from here on are written as text: readers of JSON take them for floats."""
_KINDS = {"<i8", "<f8", "<i4", "<f4", "<u8", "<u4", "<i2", "<u2", "|i1", "|u1", "|b1"}


def save(state: dict[str, Any], path: str | Path) -> None:
    """Write a state in the place of a file."""
    file = _npz_path(path)
    document, data = pack(state)
    parts = {"document": document, "data": data, "checksum": _checksum(document, data)}
    writing.write_npz(file, {name: np.frombuffer(part, dtype=np.uint8) for name, part in parts.items()})


def load(path: str | Path) -> Any:
    """The state in a file."""
    file = _npz_path(path)
    with reading.reraise_as(LearnerFileError, file):
        parts = reading.read_npz(file, LearnerFileError, ("document", "data", "checksum"))
        for name in ("document", "data", "checksum"):
            if name not in parts or parts[name].dtype != np.uint8 or parts[name].ndim != 1:
                raise LearnerFileError(f"{file}: is not the file of a learner: it has no bytes {name!r}")
        document, data = parts["document"].tobytes(), parts["data"].tobytes()
        if parts["checksum"].tobytes() != _checksum(document, data):
            raise LearnerFileError(f"{file}: is damaged: checksum mismatch")
        return unpack(document, data)


def pack(state: Any) -> tuple[bytes, bytes]:
    """A state as a document and the data of its arrays."""
    buffers: list[bytes] = []
    packed = {"format": FORMAT, "state": _pack(state, buffers, 0)}
    return json.dumps(packed).encode(), b"".join(buffers)


def unpack(document: bytes, data: bytes, where: str = "") -> Any:
    """The inverse of `pack`; where: what messages about a document that `pack` never gives begin with."""
    packed = reading.parse_json(document.decode(), LearnerFileError, where)
    if not isinstance(packed, dict) or packed.get("format") != FORMAT:
        raise LearnerFileError(f'{where}not a learner of this version: its document must have "format": "{FORMAT}"')
    return _Unpacker(data).unpack(packed.get("state"))


def to_text(name: Any) -> str:
    """The name of a state as a line of text: text, numbers, True, False, None, bytes and tuples of these."""
    return json.dumps(_pack(name, [], 0))


def from_text(text: str) -> Any:
    """The inverse of `to_text`."""
    return _Unpacker(b"").unpack(json.loads(text))


def _npz_path(path: str | Path) -> Path:
    file = checks.path(path)
    if file.suffix.lower() != ".npz":
        raise LearnerFileError(f"{file}: a learner's file must end in .npz")
    return file


def _checksum(document: bytes, data: bytes) -> bytes:
    return hashlib.sha256(len(document).to_bytes(8, "big") + document + data).digest()


def _pack(value: Any, buffers: list[bytes], depth: int) -> Any:
    """A value for the document; arrays are appended to the buffers."""
    if depth > MAX_DEPTH:
        raise InvalidTypeError(f"a state is nested more than {MAX_DEPTH} levels deep; it cannot be saved")
    if isinstance(value, np.generic):
        value = value.item()
    kind = type(value)
    if value is None or kind in (bool, float, str):
        return value
    if kind is int:
        return value if -_LARGE <= value < _LARGE else {"whole": f"{value:x}"}
    if kind is bytes:
        return {"bytes": value.hex()}
    if isinstance(value, (list, tuple)):
        items = [_pack(item, buffers, depth + 1) for item in value]
        return items if kind is list else {"tuple": items}
    if kind is dict and all(isinstance(key, str) for key in value):
        return {"table": {key: _pack(item, buffers, depth + 1) for key, item in value.items()}}
    if isinstance(value, np.ndarray) and value.dtype.newbyteorder("<").str in _KINDS:
        little = np.ascontiguousarray(value, dtype=value.dtype.newbyteorder("<"))
        buffers.append(little.tobytes())
        return {"array": [little.dtype.str, list(value.shape)]}
    raise InvalidTypeError(
        f"{short_repr(value)} cannot be saved; names of states may be text, numbers, True, False, None, bytes and "
        "tuples of these"
    )


class _Unpacker:
    """The inverse of `_pack`, which reads the arrays in the order in which they were written."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def unpack(self, value: Any) -> Any:
        if isinstance(value, list):
            return [self.unpack(item) for item in value]
        if not isinstance(value, dict):
            return value
        match value:
            case {"tuple": list(items)}:
                return tuple(self.unpack(item) for item in items)
            case {"table": dict(table)}:
                return {key: self.unpack(item) for key, item in table.items()}
            case {"bytes": str(text)}:
                return bytes.fromhex(text)
            case {"whole": str(text)}:
                return int(text, 16)
            case {"array": [str(kind), list(shape)]} if kind in _KINDS:
                return self._array(kind, shape)
        raise InvalidArgumentError(f"{short_repr(value)} stands for nothing")

    def _array(self, kind: str, shape: list[Any]) -> NDArray[Any]:
        if not all(type(n) is int and 0 <= n < 2**48 for n in shape):
            raise InvalidArgumentError(f"{short_repr(shape)} is not the shape of an array")
        size = math.prod(shape) * np.dtype(kind).itemsize
        if size > len(self.data) - self.at:
            raise InvalidArgumentError(f"an array of shape {shape} is longer than the data")
        self.at += size
        return np.frombuffer(self.data[self.at - size : self.at], dtype=kind).reshape(shape).copy()
