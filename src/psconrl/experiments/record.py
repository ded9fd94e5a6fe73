"""One run as one row of a Parquet file, and back.

The row holds what the run is (environment, agent, settings, seed, code) and what came out, and nothing that changes
from one execution to the next: equal results are equal bytes.
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from typing import Annotated, Any, get_origin, get_type_hints

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from psconrl._core.checks import Floats, short_repr
from psconrl.errors import PsconrlError, RunFileError
from psconrl.io import reading
from psconrl.learning.metrics import largest
from psconrl.learning.run import COLUMNS, Column, PerLimit, RunData, Snapshot, episode_columns


def _stored(column: Column) -> pa.DataType:
    """The type of a column of episodes in the file."""
    kind = pa.string() if column.kind == "U8" else pa.from_numpy_dtype(column.kind)
    return pa.list_(kind) if column.each_limit else kind


_EPISODE = {column.name: _stored(column) for column in COLUMNS} | {"average_costs": pa.list_(pa.float64())}
_SNAPSHOT: dict[str, pa.DataType] = {
    "start": pa.int64(),
    "shape": pa.list_(pa.int64()),
    "policy": pa.list_(pa.float64()),
    "visits": pa.list_(pa.int64()),
}

_FIRST = {"start", "length", "phase", "feasible", "reason", "value"}
"""Columns of episodes that even the oldest runs have; others were added later."""

_LATER = ("peaks",)
"""Columns of runs that were added later."""

_BYTES_PER_VALUE = 16
"""Memory that a value takes while a column is read, with its levels and copies."""


@dataclass(frozen=True, eq=False, kw_only=True)
class RunRecord(RunData):
    """A stored run: the fields of `psconrl.learning.run.RunData`, and

    Attributes:
        env, env_options, agent, settings, costs: what was run.
        cell: hash of all settings without code and seed; runs of one cell are repetitions of each other.
        identity: hash that names the run. code: hash of the code that made it.
        states, actions: S and A. cost_names: (m + 1).
        margin, multipliers: of the true model; its optimum is nan if the limits cannot be met.
        world: what the report shows of the model, see `psconrl.experiments.world`; kept with the first seed alone.

    The columns of the file follow from the fields here. `peaks` of runs that were stored without are those at the
    checkpoints.
    """

    env: str
    env_options: dict[str, Any]
    agent: str
    settings: dict[str, Any]
    costs: str
    cell: str
    identity: str
    code: str
    states: int
    actions: int
    cost_names: tuple[str, ...]
    margin: float
    multipliers: PerLimit
    world: dict[str, Any] | None = None

    def __repr__(self) -> str:
        return f"RunRecord({self.env}, {self.agent}, seed {self.seed}, T={self.horizon}, code {self.code[:8]})"


_TYPES: dict[Any, pa.DataType] = {
    int: pa.int64(),
    float: pa.float64(),
    str: pa.string(),
    dict[str, Any]: pa.string(),  # JSON
    dict[str, Any] | None: pa.string(),
    tuple[str, ...]: pa.list_(pa.string()),
    NDArray[np.void]: pa.list_(pa.struct(list(_EPISODE.items()))),
    tuple[Snapshot, ...]: pa.list_(pa.struct(list(_SNAPSHOT.items()))),
}
_HINTS = get_type_hints(RunRecord, include_extras=True)
_FIELDS = {field.name: _HINTS[field.name] for field in fields(RunRecord)}
_ARRAYS = {name: hint.__metadata__[0] for name, hint in _FIELDS.items() if get_origin(hint) is Annotated}


def _arrow(name: str) -> pa.DataType:
    """The type of the column of a field."""
    if name not in _ARRAYS:
        return _TYPES[_FIELDS[name]]
    kind = pa.from_numpy_dtype(_ARRAYS[name].kind)
    for _ in _ARRAYS[name].names:
        kind = pa.list_(kind)
    return kind


SCHEMA = pa.schema([(name, _arrow(name)) for name in _FIELDS])


def _is_curve(name: str) -> bool:
    return name in _ARRAYS and len(_ARRAYS[name].names) == 2


def to_table(record: RunRecord) -> pa.Table:
    """The record as a table of one row."""
    columns = []
    for name in _FIELDS:
        value, kind = getattr(record, name), SCHEMA.field(name).type
        nested = None
        if name == "episodes":
            nested = _episodes(value)
        elif name == "snapshots":
            nested = _snapshots(value)
        elif _is_curve(name):
            nested = _lists(list(value), pa.float64())
        if nested is not None:
            columns.append(pa.ListArray.from_arrays(pa.array([0, len(nested)], pa.int32()), nested))
        else:
            columns.append(pa.array([json.dumps(value, sort_keys=True) if isinstance(value, dict) else value], kind))
    return pa.Table.from_arrays(columns, schema=SCHEMA)


def to_bytes(table: pa.Table) -> bytes:
    """The table as a Parquet file; equal tables give equal bytes."""
    buffer = io.BytesIO()
    options = {"use_dictionary": False, "write_statistics": False, "store_schema": False}
    pq.write_table(table, buffer, compression="snappy", **options)
    return buffer.getvalue()


def from_bytes(content: bytes) -> RunRecord:
    """The record in a Parquet file; RunFileError says what is wrong with a bad one."""
    with _refusing():
        table = _file(content).read(use_threads=False).combine_chunks()
        return _checked(_record(table))


@contextmanager
def _refusing() -> Iterator[None]:
    try:
        yield
    except RunFileError:
        raise
    except MemoryError:
        raise RunFileError("it needs more memory than there is") from None
    except PsconrlError as error:
        raise RunFileError(str(error)) from error
    except (pa.ArrowException, OSError, ValueError, TypeError, LookupError, AttributeError, ArithmeticError) as error:
        reason = " ".join(str(error).split())[:200]
        raise RunFileError(f"it cannot be read: {reason}") from error


def _file(content: bytes) -> pq.ParquetFile:
    """A Parquet file with the columns of a run and one row, which is not too large to be read."""
    file = pq.ParquetFile(pa.BufferReader(content), thrift_string_size_limit=2**20, thrift_container_size_limit=10_000)
    if (file.metadata.num_rows, file.metadata.num_row_groups) != (1, 1):
        raise RunFileError(f"it has {file.metadata.num_rows} rows; a run has one")
    group = file.metadata.row_group(0)
    values = sum(group.column(i).num_values for i in range(group.num_columns))
    needed = group.total_byte_size + _BYTES_PER_VALUE * values
    if needed > reading.allowance(len(content)):
        raise RunFileError(f"it would take {needed // reading.MEBIBYTE:,} MiB, too much for {len(content):,} bytes")
    _check_columns(file.schema_arrow)
    return file


def _check_columns(schema: pa.Schema) -> None:
    for name in schema.names:
        if name not in SCHEMA.names or schema.names.count(name) > 1:
            raise RunFileError(f"it has an unknown column {short_repr(name)}")
    for field in SCHEMA:
        if field.name not in schema.names:
            if field.name in _LATER:
                continue
            raise RunFileError(f"the column {field.name!r} is missing")
        found = schema.field(field.name).type
        if found != field.type and not (field.name == "episodes" and _older_episodes(found)):
            raise RunFileError(f"the column {field.name!r} is of the wrong type")


def _older_episodes(found: pa.DataType) -> bool:
    if not (pa.types.is_list(found) and pa.types.is_struct(found.value_type)):
        return False
    columns = {field.name: field.type for field in found.value_type}
    known = all(_EPISODE.get(name) == kind for name, kind in columns.items())
    return known and columns.keys() >= _FIRST and len(columns) == found.value_type.num_fields


def _record(table: pa.Table) -> RunRecord:
    values = {name: table.column(name).chunk(0) for name in table.column_names}
    for name, column in values.items():
        if column.null_count and name != "world":  # kept with the first seed alone
            raise RunFileError(f"the column {name!r} is empty")
    found: dict[str, Any] = {}
    for name, column in values.items():
        if _is_curve(name):
            found[name] = _to_matrix(_full(column.values, name))
        elif name in _ARRAYS:
            found[name] = _numbers(_full(column.values, name))
        elif name not in ("episodes", "snapshots"):
            found[name] = column[0].as_py()
    for name in ("env_options", "settings"):
        found[name] = _table(found[name], name)
    found["world"] = _table(found["world"], "world") if found.get("world") else None
    found["cost_names"] = tuple(found["cost_names"])
    if "peaks" not in found:
        levels = np.append(found["optimum"], found["thresholds"])
        found["peaks"] = largest(found["cumulative"] - np.outer(levels, found["grid"]))
    return RunRecord(
        **found,
        episodes=_to_episodes(_full(values["episodes"].values, "episodes"), len(found["thresholds"])),
        snapshots=_to_snapshots(_full(values["snapshots"].values, "snapshots"), found["states"], found["actions"]),
    )


def _table(text: str, name: str) -> dict[str, Any]:
    found = reading.parse_json(text, RunFileError, f"{name}: ")
    if not isinstance(found, dict):
        raise RunFileError(f"{name} is not a table")
    return found


def _full(array: pa.Array, name: str) -> pa.Array:
    if array.null_count:
        raise RunFileError(f"the column {name!r} has gaps")
    return array


def _checked(record: RunRecord) -> RunRecord:
    """The record, if it can be that of a run."""
    m, G, grid = len(record.thresholds), len(record.grid), record.grid
    sizes = {"cost": m + 1, "limit": m, "time": G}
    shapes = {name: tuple(sizes[axis] for axis in axes.names) for name, axes in _ARRAYS.items()}
    excesses = (record.cumulative_excess, record.peaks)
    rules = {
        "states, actions and horizon are at least 1": min(record.states, record.actions, record.horizon) >= 1,
        "the seed is not negative": record.seed >= 0,
        'costs are "known" or "estimated"': record.costs in ("known", "estimated"),
        "names are short": all(len(t) <= _LONGEST for t in (record.env, record.agent, *record.cost_names)),
        "there is a name for each cost": len(set(record.cost_names)) == len(record.cost_names) == m + 1,
        "checkpoints rise to the horizon": G > 0
        and grid[0] > 0
        and bool((np.diff(grid) > 0).all())
        and grid[-1] == record.horizon,
        "arrays have a value for each cost, limit and checkpoint": all(
            getattr(record, name).shape == shape for name, shape in shapes.items()
        ),
        "sums and limits are finite": bool(
            np.isfinite(record.cumulative).all() and np.isfinite(record.thresholds).all()
        ),
        "excesses are finite": all(np.isfinite(excess[1:]).all() for excess in excesses),
        "the optimum is no infinity": not np.isinf(record.optimum),
        "there are plans, which start in order": len(record.episodes) > 0
        and bool((np.diff(record.episodes["start"]) >= 0).all())
        and record.episodes["start"][0] >= 0
        and bool((record.episodes["length"] >= 0).all()),
    }
    for rule, kept in rules.items():
        if not kept:
            raise RunFileError(f"it breaks the rule that {rule}")
    return record


_LONGEST = 4096
"""Characters of a name."""


def _lists(rows: Sequence[NDArray[Any]], kind: pa.DataType) -> pa.ListArray:
    """Arrays of any shapes, each flattened into one list."""
    flat = [np.ravel(row) for row in rows]
    offsets = np.concatenate([[0], np.cumsum([len(row) for row in flat])]).astype(np.int32)
    content = np.concatenate(flat) if flat else np.zeros(0)
    return pa.ListArray.from_arrays(pa.array(offsets), pa.array(content, type=kind))


def _episodes(episodes: NDArray[np.void]) -> pa.StructArray:
    columns = []
    for name, kind in _EPISODE.items():
        if pa.types.is_list(kind):
            known = name in (episodes.dtype.names or ())
            column = _lists(list(episodes[name]), kind.value_type) if known else pa.nulls(len(episodes), kind)
        else:
            column = pa.array(np.ascontiguousarray(episodes[name]), type=kind)
        columns.append(column)
    return pa.StructArray.from_arrays(columns, fields=[pa.field(*item) for item in _EPISODE.items()])


def _snapshots(snapshots: tuple[Snapshot, ...]) -> pa.StructArray:
    columns = [
        pa.array([snapshot.start for snapshot in snapshots], type=pa.int64()),
        _lists([np.array(snapshot.policy.shape) for snapshot in snapshots], pa.int64()),
        _lists([snapshot.policy for snapshot in snapshots], pa.float64()),
        _lists([snapshot.visits for snapshot in snapshots], pa.int64()),
    ]
    return pa.StructArray.from_arrays(columns, fields=[pa.field(*item) for item in _SNAPSHOT.items()])


def _numbers(array: pa.Array) -> NDArray[Any]:
    return np.array(array.to_numpy(zero_copy_only=False))


def _to_matrix(rows: pa.ListArray) -> Floats:
    return np.asarray(_numbers(_full(rows.values, "curves")).reshape(len(rows), -1))


def _to_episodes(rows: pa.StructArray, m: int) -> NDArray[np.void]:
    stored = {field.name: rows.field(field.name) for field in rows.type}
    if "average_costs" in stored and stored["average_costs"].null_count == len(rows):
        del stored["average_costs"]  # they were not asked for
    columns = episode_columns(m, "average_costs" in stored)
    episodes = np.zeros(len(rows), dtype=columns)
    for name, _, *shape in columns:
        if name in stored:
            found = _full(stored[name], name)
            episodes[name] = _each(found, name, *shape[0]) if shape else _numbers(found)
        elif shape:  # runs made before a column was added stay readable
            episodes[name] = np.nan
    return episodes


def _each(lists: pa.ListArray, name: str, width: int) -> NDArray[Any]:
    """The lists of a column as rows of an array; each must be as long as that is wide."""
    if not (_numbers(lists.value_lengths()) == width).all():
        raise RunFileError(f"the column {name!r} of plans must have {width} numbers for each")
    return _numbers(_full(lists.flatten(), name)).reshape(len(lists), width)


def _to_snapshots(rows: pa.StructArray, S: int, A: int) -> tuple[Snapshot, ...]:
    starts = _numbers(_full(rows.field("start"), "snapshots")).tolist()
    shapes, policies, visits = (_parts(rows.field(name)) for name in ("shape", "policy", "visits"))
    for shape in shapes:
        if len(shape) != 3 or shape[0] < 1 or tuple(shape[1:]) != (S, A):
            raise RunFileError(
                f"a plan has the shape {short_repr(shape.tolist())}; the model has {S} states, {A} actions"
            )
    return tuple(
        Snapshot(start, policy.reshape(shape), seen.reshape(S, A))
        for start, shape, policy, seen in zip(starts, shapes, policies, visits, strict=True)
    )


def _parts(lists: pa.ListArray) -> list[NDArray[Any]]:
    """The arrays of a column of lists."""
    ends = np.cumsum(_numbers(_full(lists, "snapshots").value_lengths()))
    return np.split(_numbers(_full(lists.flatten(), "snapshots")), ends[:-1]) if len(ends) else []
