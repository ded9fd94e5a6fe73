"""One run as one row of a Parquet file, and back.

The row holds what the run is (environment, agent, settings, seed, code) and what came out, and nothing that changes
from one execution to the next: equal results are equal bytes.
"""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from psconrl._checks import Floats, Ints
from psconrl.simulation.run import COLUMNS, Snapshot, episode_columns

_EPISODE: dict[str, pa.DataType] = {
    column.name: pa.string() if column.kind == "U8" else pa.from_numpy_dtype(column.kind) for column in COLUMNS
} | {"average_costs": pa.list_(pa.float64())}
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
        ("episodes", pa.list_(pa.struct(list(_EPISODE.items())))),
        ("snapshots", pa.list_(pa.struct(list(_SNAPSHOT.items())))),
        ("world", pa.string()),
    ]
)


@dataclass(frozen=True, eq=False)
class RunRecord:
    """A stored run.

    Attributes:
        env, env_options, agent, settings, costs, horizon, seed: what was run.
        cell: hash of all settings without code and seed; runs of one cell are repetitions of each other.
        identity: hash that names the run. code: hash of the code that made it.
        states, actions: S and A. cost_names: (m + 1).
        thresholds: tau, (m,). optimum: J*, nan if the limits cannot be met. margin, multipliers: of the true model.
        grid: (G,), checkpoint times. cumulative, cumulative_excess: (m + 1, G), as in `psconrl.Run`.
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
    episodes: NDArray[np.void]
    snapshots: tuple[Snapshot, ...]
    world: dict[str, Any] | None = None

    @property
    def levels(self) -> Floats:
        """What each average is held against: the optimum, then the thresholds, (m + 1,)."""
        return np.append(self.optimum, self.thresholds)

    @property
    def signed(self) -> Floats:
        """Signed regret and violations (m + 1, G)."""
        return np.asarray(self.cumulative - np.outer(self.levels, self.grid))

    @property
    def regret(self) -> Floats:
        """Signed regret (G,): sum_t (c_0 - J*)."""
        return np.asarray(self.signed[0])

    @property
    def violation(self) -> Floats:
        """Signed violation (m, G): sum_t (c_i - tau_i)."""
        return np.asarray(self.signed[1:])

    def __repr__(self) -> str:
        return f"RunRecord({self.env}, {self.agent}, seed {self.seed}, T={self.horizon}, code {self.code[:8]})"


def to_table(record: RunRecord) -> pa.Table:
    """The record as a table of one row."""
    world = None if record.world is None else _json(record.world)
    plain = {"env_options": _json(record.env_options), "settings": _json(record.settings), "world": world}
    nested = {
        "cumulative": _matrix(record.cumulative),
        "cumulative_excess": _matrix(record.cumulative_excess),
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
    """The record in a Parquet file."""
    table = pq.ParquetFile(pa.BufferReader(content)).read(use_threads=False).combine_chunks()
    values = {name: table.column(name).chunk(0) for name in table.column_names}
    plain = {name: column[0].as_py() for name, column in values.items() if not pa.types.is_nested(column.type)}
    return RunRecord(
        **plain
        | {
            "env_options": json.loads(plain["env_options"]),
            "settings": json.loads(plain["settings"]),
            "world": json.loads(plain["world"]) if plain.get("world") else None,
            "cost_names": tuple(values["cost_names"][0].as_py()),
        }
        | {name: _numbers(values[name].values) for name in ("thresholds", "multipliers", "grid")}
        | {name: _to_matrix(values[name].values) for name in ("cumulative", "cumulative_excess")},
        episodes=_to_episodes(values["episodes"].values),
        snapshots=_to_snapshots(values["snapshots"].values, plain["states"], plain["actions"]),
    )


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
        if name == "average_costs":
            known = name in (episodes.dtype.names or ())
            column = _lists(list(episodes[name]), pa.float64()) if known else pa.nulls(len(episodes), kind)
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
    return np.asarray(_numbers(rows.values).reshape(len(rows), -1))


def _to_episodes(rows: pa.StructArray) -> NDArray[np.void]:
    averages = rows.field("average_costs")
    known = len(averages) > 0 and averages.null_count == 0
    columns = episode_columns(len(averages.values) // len(averages) if known else None)
    episodes = np.zeros(len(rows), dtype=columns)
    stored = {field.name for field in rows.type}
    for name, *_ in columns:
        if name == "average_costs":
            episodes[name] = _numbers(averages.values).reshape(len(rows), -1)
        elif name in stored:  # runs made before a column was added stay readable
            episodes[name] = _numbers(rows.field(name))
    return episodes


def _to_snapshots(rows: pa.StructArray, S: int, A: int) -> tuple[Snapshot, ...]:
    starts = _numbers(rows.field("start")).tolist()
    shapes, policies, visits = (_parts(rows.field(name)) for name in ("shape", "policy", "visits"))
    return tuple(
        Snapshot(start, policy.reshape(shape), seen.reshape(S, A))
        for start, shape, policy, seen in zip(starts, shapes, policies, visits, strict=True)
    )


def _parts(lists: pa.ListArray) -> list[NDArray[Any]]:
    """The arrays of a column of lists."""
    ends = np.cumsum(_numbers(lists.value_lengths()))
    return np.split(_numbers(lists.flatten()), ends[:-1]) if len(ends) else []
