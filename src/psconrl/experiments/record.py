"""One run as one row of a Parquet file, and back.

The row holds what the run is (environment, agent, settings, seed, code) and what came out, and nothing that changes
from one execution to the next: equal results are equal bytes.
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from psconrl._core.checks import Floats, Ints
from psconrl.errors import PsconrlError, RunFileError
from psconrl.io import parquet_pages, reading
from psconrl.learning.measures import Measured, largest
from psconrl.learning.run import COLUMNS, Column, Snapshot, episode_columns


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
SCHEMA = pa.schema(
    [
        ("env", pa.string()),
        ("env_options", pa.string()),
        ("agent", pa.string()),
        ("settings", pa.string()),
        ("costs", pa.string()),
        ("horizon", pa.int64()),
        ("seed", pa.int64()),
        ("cell", pa.string()),
        ("identity", pa.string()),
        ("code", pa.string()),
        ("states", pa.int64()),
        ("actions", pa.int64()),
        ("cost_names", pa.list_(pa.string())),
        ("thresholds", pa.list_(pa.float64())),
        ("optimum", pa.float64()),
        ("margin", pa.float64()),
        ("multipliers", pa.list_(pa.float64())),
        ("grid", pa.list_(pa.int64())),
        ("cumulative", pa.list_(pa.list_(pa.float64()))),
        ("cumulative_excess", pa.list_(pa.list_(pa.float64()))),
        ("peaks", pa.list_(pa.list_(pa.float64()))),
        ("episodes", pa.list_(pa.struct(list(_EPISODE.items())))),
        ("snapshots", pa.list_(pa.struct(list(_SNAPSHOT.items())))),
        ("world", pa.string()),
    ]
)


_FIRST = {"start", "length", "phase", "feasible", "reason", "value"}
"""Columns of episodes that even the oldest runs have; others were added later."""

_LATER = ("peaks",)
"""Columns of runs that were added later."""

_CURVES = ("cumulative", "cumulative_excess", "peaks")
"""Tables (m + 1, G)."""

_FREE = ("seed", "draw")
"""Options of environments whose values say nothing about the size of the model."""


@dataclass(frozen=True, eq=False)
class RunRecord(Measured):
    """A stored run.

    Attributes:
        env, env_options, agent, settings, costs, horizon, seed: what was run.
        cell: hash of all settings without code and seed; runs of one cell are repetitions of each other.
        identity: hash that names the run. code: hash of the code that made it.
        states, actions: S and A. cost_names: (m + 1).
        thresholds: tau, (m,). optimum: J*, nan if the limits cannot be met. margin, multipliers: of the true model.
        grid: (G,), checkpoint times. cumulative, cumulative_excess, peaks: (m + 1, G), as in `psconrl.Run`; peaks of
            runs that were stored without are those at the checkpoints.
        episodes: structured array, as in `psconrl.Run`. snapshots: plans on the way.
        world: what the report shows of the model, see `psconrl.experiments.world`; kept with the first seed alone.
    """

    env: str
    env_options: dict[str, Any]
    agent: str
    settings: dict[str, Any]
    costs: str
    horizon: int
    seed: int
    cell: str
    identity: str
    code: str
    states: int
    actions: int
    cost_names: tuple[str, ...]
    thresholds: Floats
    optimum: float
    margin: float
    multipliers: Floats
    grid: Ints
    cumulative: Floats
    cumulative_excess: Floats
    peaks: Floats
    episodes: NDArray[np.void]
    snapshots: tuple[Snapshot, ...]
    world: dict[str, Any] | None = None

    @property
    def rebuildable(self) -> bool:
        """Whether the options can be those of a model of this size, so that building it takes no longer than it should.

        A forged record may say that there are ten states, and ask for a model of millions.
        """
        size = 1
        for name, value in self.env_options.items():
            if isinstance(value, int) and not isinstance(value, bool) and name not in _FREE:
                size *= max(1, abs(value))
            elif isinstance(value, (str, list)):
                cells = sum(map(len, map(str, value))) if isinstance(value, list) else len(value)
                size *= max(1, cells) ** (2 if "X" in str(value) else 1)
        return size <= 10_000 + 100 * self.states * self.actions

    def __repr__(self) -> str:
        return f"RunRecord({self.env}, {self.agent}, seed {self.seed}, T={self.horizon}, code {self.code[:8]})"


def to_table(record: RunRecord) -> pa.Table:
    """The record as a table of one row."""
    world = None if record.world is None else _json(record.world)
    plain = {"env_options": _json(record.env_options), "settings": _json(record.settings), "world": world}
    nested = {
        "cumulative": _matrix(record.cumulative),
        "cumulative_excess": _matrix(record.cumulative_excess),
        "peaks": _matrix(record.peaks),
        "episodes": _episodes(record.episodes),
        "snapshots": _snapshots(record.snapshots),
    }
    columns = []
    for field in SCHEMA:
        if field.name in nested:
            values = nested[field.name]
            columns.append(pa.ListArray.from_arrays(pa.array([0, len(values)], pa.int32()), values))
            continue
        value = plain.get(field.name, getattr(record, field.name))
        columns.append(pa.array([value], type=field.type))
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
    needed = parquet_pages.weight(content)
    if needed > 32 * reading.MEBIBYTE + 96 * len(content):
        raise RunFileError(f"it would take {needed // reading.MEBIBYTE:,} MiB, too much for {len(content):,} bytes")
    file = pq.ParquetFile(pa.BufferReader(content), thrift_string_size_limit=2**20, thrift_container_size_limit=10_000)
    _check_columns(file.schema_arrow)
    return file


def _check_columns(schema: pa.Schema) -> None:
    for name in schema.names:
        if name not in SCHEMA.names or schema.names.count(name) > 1:
            raise RunFileError(f"it has an unknown column {reading.shown(name)}")
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
    plain = {name: column[0].as_py() for name, column in values.items() if not pa.types.is_nested(column.type)}
    curves = {name: _to_matrix(_full(values[name].values, name)) for name in _CURVES if name in values}
    numbers = {name: _numbers(_full(values[name].values, name)) for name in ("thresholds", "multipliers", "grid")}
    if "peaks" not in curves:
        levels = np.append(plain["optimum"], numbers["thresholds"])
        curves["peaks"] = largest(curves["cumulative"] - np.outer(levels, numbers["grid"]))
    return RunRecord(
        **plain
        | {name: _table(plain[name], name) for name in ("env_options", "settings")}
        | {"world": _table(plain["world"], "world") if plain.get("world") else None}
        | {"cost_names": tuple(values["cost_names"][0].as_py())}
        | numbers
        | curves,
        episodes=_to_episodes(_full(values["episodes"].values, "episodes"), len(numbers["thresholds"])),
        snapshots=_to_snapshots(_full(values["snapshots"].values, "snapshots"), plain["states"], plain["actions"]),
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
    curves = (record.cumulative, record.cumulative_excess, record.peaks)
    rules = {
        "states, actions and horizon are at least 1": min(record.states, record.actions, record.horizon) >= 1,
        "the seed is not negative": record.seed >= 0,
        'costs are "known" or "estimated"': record.costs in ("known", "estimated"),
        "names are short": all(len(t) <= _LONGEST for t in (record.env, record.agent, *record.cost_names)),
        "there is a name for each cost": len(set(record.cost_names)) == len(record.cost_names) == m + 1,
        "there is a multiplier for each limit": len(record.multipliers) == m,
        "checkpoints rise to the horizon": G > 0
        and grid[0] > 0
        and bool((np.diff(grid) > 0).all())
        and grid[-1] == record.horizon,
        "curves have a value for each cost and checkpoint": all(curve.shape == (m + 1, G) for curve in curves),
        "sums and limits are finite": bool(
            np.isfinite(record.cumulative).all() and np.isfinite(record.thresholds).all()
        ),
        "excesses are finite": bool(np.isfinite(curves[1][1:]).all() and np.isfinite(curves[2][1:]).all()),
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


def _json(values: dict[str, Any]) -> str:
    return json.dumps(values, sort_keys=True)


def _lists(rows: Sequence[NDArray[Any]], kind: pa.DataType) -> pa.ListArray:
    """Arrays of any shapes, each flattened into one list."""
    flat = [np.ravel(row) for row in rows]
    offsets = np.concatenate([[0], np.cumsum([len(row) for row in flat])]).astype(np.int32)
    content = np.concatenate(flat) if flat else np.zeros(0)
    return pa.ListArray.from_arrays(pa.array(offsets), pa.array(content, type=kind))


def _matrix(matrix: Floats) -> pa.ListArray:
    return _lists(list(matrix), pa.float64())


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
                f"a plan has the shape {reading.shown(shape.tolist())}; the model has {S} states, {A} actions"
            )
    return tuple(
        Snapshot(start, policy.reshape(shape), seen.reshape(S, A))
        for start, shape, policy, seen in zip(starts, shapes, policies, visits, strict=True)
    )


def _parts(lists: pa.ListArray) -> list[NDArray[Any]]:
    """The arrays of a column of lists."""
    ends = np.cumsum(_numbers(_full(lists, "snapshots").value_lengths()))
    return np.split(_numbers(_full(lists.flatten(), "snapshots")), ends[:-1]) if len(ends) else []
