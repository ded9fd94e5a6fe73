"""One run as one row of a Parquet file, and back.

The row holds what the run is (environment, agent, settings, seed, code) and what came out, and nothing that changes
from one execution to the next: equal results are equal bytes.
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterator, Mapping
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
from psconrl.learning.run import COLUMNS, Axes, Column, PerLimit, RunData, Snapshot, episode_columns

_BYTES_PER_VALUE = 16
"""Memory that a value takes while a column is read, with its levels and copies."""
_MAX_NAME = 4096
"""Characters of a name."""


@dataclass(frozen=True, eq=False, kw_only=True)
class RunRecord(RunData):
    """A stored run: the fields of `psconrl.learning.run.RunData`, and

    Attributes:
        env, env_options, agent, settings, costs: what was run.
        cell: hash of all settings without code and seed; runs of one cell are repetitions of each other.
        identity: hash that names the run. code: hash of the code that made it.
        states, actions: S and A. cost_names: (m + 1).
        cost_ranges: (m + 1, 2), the ranges of costs that the agent was given; [0, 1] by default.
        margin, multipliers: of the true model; its optimum is nan if the limits cannot be met.
        world: what the report shows of the model, see `psconrl.experiments.world`; kept with the first seed alone.

    The columns of the file follow from the fields here.
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
    cost_ranges: Annotated[Floats, Axes(np.float64, ("cost", "end"))]
    margin: float
    multipliers: PerLimit
    world: dict[str, Any] | None = None

    def __repr__(self) -> str:
        return f"RunRecord({self.env}, {self.agent}, seed {self.seed}, T={self.horizon}, code {self.code[:8]})"


# -- Columns -----------------------------------------------------------------------------------------------------------


def _column_type(column: Column) -> pa.DataType:
    """The type of a column of episodes in the file."""
    kind = pa.string() if column.kind == "U8" else pa.from_numpy_dtype(column.kind)
    return pa.list_(kind) if column.each_limit else kind


_EPISODE = {column.name: _column_type(column) for column in COLUMNS} | {"average_costs": pa.list_(pa.float64())}
_SNAPSHOT: dict[str, pa.DataType] = {
    "start": pa.int64(),
    "shape": pa.list_(pa.int64()),
    "policy": pa.list_(pa.float64()),
    "visits": pa.list_(pa.int64()),
}
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


def _field_type(name: str) -> pa.DataType:
    """The type of the column of a field."""
    if name not in _ARRAYS:
        return _TYPES[_FIELDS[name]]
    kind = pa.from_numpy_dtype(_ARRAYS[name].kind)
    for _ in _ARRAYS[name].names:
        kind = pa.list_(kind)
    return kind


SCHEMA = pa.schema([(name, _field_type(name)) for name in _FIELDS])


# -- Writing -----------------------------------------------------------------------------------------------------------


def to_table(record: RunRecord) -> pa.Table:
    """The record as a table of one row.

    Args:
        record: a run.

    Returns:
        A table with the columns of `SCHEMA`.
    """
    values = {name: getattr(record, name) for name in _FIELDS}
    episodes, snapshots = record.episodes, record.snapshots
    names = episodes.dtype.names or ()
    values["episodes"] = {name: episodes[name] if name in names else None for name in _EPISODE}
    values["snapshots"] = {
        "start": [snapshot.start for snapshot in snapshots],
        "shape": [np.array(snapshot.policy.shape) for snapshot in snapshots],
        "policy": [snapshot.policy.ravel() for snapshot in snapshots],
        "visits": [snapshot.visits.ravel() for snapshot in snapshots],
    }
    columns = []
    for field in SCHEMA:
        value = values[field.name]
        if pa.types.is_string(field.type) and isinstance(value, dict):
            value = json.dumps(value, sort_keys=True)
        columns.append(_to_arrow([value], field.type))
    return pa.Table.from_arrays(columns, schema=SCHEMA)


def _to_arrow(values: Any, kind: pa.DataType) -> pa.Array:
    """Values as an array of Arrow: arrays where it has lists, tables of columns where it has lists of records."""
    if not pa.types.is_list(kind):
        return pa.array(values, type=kind)
    inner = kind.value_type
    if pa.types.is_struct(inner):
        (table,) = values
        content = _records(table, inner)
        ends = [len(content)]
    else:
        content = _to_arrow(_joined(values), inner)
        ends = np.cumsum([len(value) for value in values]).tolist()
    return pa.ListArray.from_arrays(pa.array([0, *ends], pa.int32()), content)


def _records(table: Mapping[str, Any], kind: pa.StructType) -> pa.StructArray:
    """A table of columns; None stands for a column of nulls."""
    count = len(table["start"])
    columns = [
        pa.nulls(count, field.type) if table[field.name] is None else _to_arrow(table[field.name], field.type)
        for field in kind
    ]
    return pa.StructArray.from_arrays(columns, fields=list(kind))


def _joined(values: Any) -> Any:
    if len(values) == 1:
        return values[0]
    return np.concatenate(values) if len(values) else np.zeros(0)


def to_bytes(table: pa.Table) -> bytes:
    """The table as a Parquet file.

    Args:
        table: what `to_table` gave.

    Returns:
        The content of the file; equal tables give equal bytes.
    """
    buffer = io.BytesIO()
    options = {"use_dictionary": False, "write_statistics": False, "store_schema": False}
    pq.write_table(table, buffer, compression="snappy", **options)
    return buffer.getvalue()


# -- Reading -----------------------------------------------------------------------------------------------------------


def from_bytes(content: bytes) -> RunRecord:
    """The record in a Parquet file.

    Args:
        content: of the file.

    Returns:
        The run.

    Raises:
        RunFileError: the file is damaged, or is not that of a run; the message says what is wrong.
    """
    with _reraised():
        table = _file(content).read(use_threads=False).combine_chunks()
        return _validated(_record(table))


@contextmanager
def _reraised() -> Iterator[None]:
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
        if field.name in schema.names:
            if schema.field(field.name).type != field.type:
                raise RunFileError(f"the column {field.name!r} is of the wrong type")
        else:
            raise RunFileError(f"the column {field.name!r} is missing")


def _record(table: pa.Table) -> RunRecord:
    values: dict[str, Any] = {}
    for name in table.column_names:
        column = table.column(name).chunk(0)
        if column.null_count and name != "world":  # kept with the first seed alone
            raise RunFileError(f"the column {name!r} is empty")
        if name in ("episodes", "snapshots"):
            values[name] = {field.name: column.values.field(field.name) for field in column.type.value_type}
        elif name in _ARRAYS:
            values[name] = _from_arrow(column, name)[0]
        else:
            values[name] = column[0].as_py()
    for name in ("env_options", "settings", "world"):
        values[name] = None if values[name] is None else _json(values[name], name)
    values["cost_names"] = tuple(values["cost_names"])
    values["episodes"] = _to_episodes(values["episodes"], len(values["thresholds"]))
    values["snapshots"] = _to_snapshots(values["snapshots"], values["states"], values["actions"])
    return RunRecord(**values)


def _json(text: str, name: str) -> dict[str, Any]:
    value = reading.parse_json(text, RunFileError, f"{name}: ")
    if not isinstance(value, dict):
        raise RunFileError(f"{name} is not a table")
    return value


def _from_arrow(array: pa.Array, name: str) -> Any:
    """The values of an array of Arrow: lists of equal lengths as one array, others as a list of arrays."""
    if array.null_count:
        raise RunFileError(f"the column {name!r} has gaps")
    if not pa.types.is_list(array.type):
        return np.array(array.to_numpy(zero_copy_only=False))
    lengths, values = array.value_lengths().to_numpy(), _from_arrow(array.flatten(), name)
    if len(lengths) and (lengths == lengths[0]).all():
        return np.reshape(values, (len(lengths), lengths[0], *np.shape(values)[1:]))
    return np.split(values, np.cumsum(lengths)[:-1]) if len(lengths) else np.zeros((0, 0))


def _to_episodes(stored: Mapping[str, pa.Array], m: int) -> NDArray[np.void]:
    averages = stored["average_costs"]
    columns = episode_columns(m, averages.null_count < len(averages))
    episodes = np.zeros(len(stored["start"]), dtype=columns)
    for name, _, *width in columns:
        values = _from_arrow(stored[name], name)
        if width and np.shape(values) != (len(episodes), *width[0]):
            raise RunFileError(f"the column {name!r} of plans must have {width[0][0]} numbers for each")
        episodes[name] = values
    return episodes


def _to_snapshots(stored: Mapping[str, pa.Array], S: int, A: int) -> tuple[Snapshot, ...]:
    columns = [_from_arrow(stored[name], "snapshots") for name in _SNAPSHOT]
    for shape in columns[1]:
        if len(shape) != 3 or shape[0] < 1 or tuple(shape[1:]) != (S, A):
            raise RunFileError(
                f"a plan has the shape {short_repr(shape.tolist())}; the model has {S} states, {A} actions"
            )
    return tuple(
        Snapshot(int(start), policy.reshape(shape), visits.reshape(S, A))
        for start, shape, policy, visits in zip(*columns, strict=True)
    )


def _validated(record: RunRecord) -> RunRecord:
    """The record, if it can be that of a run."""
    m, grid, episodes = len(record.thresholds), record.grid, record.episodes
    sizes = {"cost": m + 1, "limit": m, "time": len(grid), "end": 2}
    shapes = {name: tuple(sizes[axis] for axis in axes.names) for name, axes in _ARRAYS.items()}
    finite = (record.cumulative, record.thresholds, record.cost_ranges, record.cumulative_excess[1:], record.peaks[1:])
    rules = {
        "states, actions and horizon are at least 1": min(record.states, record.actions, record.horizon) >= 1,
        "the seed is not negative": record.seed >= 0,
        'costs are "known" or "estimated"': record.costs in ("known", "estimated"),
        "names are short": all(len(t) <= _MAX_NAME for t in (record.env, record.agent, *record.cost_names)),
        "there is a name for each cost": len(set(record.cost_names)) == len(record.cost_names) == m + 1,
        "checkpoints rise to the horizon": len(grid) > 0
        and 0 < grid[0] <= grid[-1] == record.horizon
        and bool((np.diff(grid) > 0).all()),
        "arrays have a value for each cost, limit and checkpoint": all(
            np.shape(getattr(record, name)) == shape for name, shape in shapes.items()
        ),
        "sums, excesses, limits and ranges are finite": all(np.isfinite(values).all() for values in finite),
        "the optimum is not infinite": not np.isinf(record.optimum),
        "there are plans, which start in order": len(episodes) > 0
        and episodes["start"][0] >= 0
        and bool((np.diff(episodes["start"]) >= 0).all() and (episodes["length"] >= 0).all()),
    }
    for rule, kept in rules.items():
        if not kept:
            raise RunFileError(f"it breaks the rule that {rule}")
    return record
