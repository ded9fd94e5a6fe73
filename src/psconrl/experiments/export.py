"""The curves of many runs as one tidy table: one row for each run, checkpoint and cost."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import BinaryIO

import numpy as np
import pyarrow as pa
from pyarrow import csv, parquet

from psconrl.errors import SpecError
from psconrl.experiments.record import RunRecord
from psconrl.io import writing
from psconrl.learning.metrics import METRICS, Metric

SCHEMA = pa.schema(
    [
        ("env", pa.string()),
        ("agent", pa.string()),
        ("cell", pa.string()),
        ("code", pa.string()),
        ("horizon", pa.int64()),
        ("seed", pa.int64()),
        ("t", pa.int64()),
        ("cost", pa.int64()),
        ("cost_name", pa.string()),
        ("level", pa.float64()),
        *((metric.name, pa.float64()) for metric in METRICS),
    ]
)
"""level: the optimum for cost 0, the threshold for others. Then the curves of `psconrl.learning.metrics`: those of the
run in the rows of cost 0, those of limits in the rows of limited costs, empty elsewhere and where nothing is known.
`cell` tells apart runs with other settings (experiment.json lists them), `code` runs made by other versions."""

_BATCH = 100


def export(records: Iterable[RunRecord], path: str | Path) -> set[str]:
    """Write runs, in their order, to a .csv or .parquet file; the code identities found."""
    path = Path(path)
    kind = path.suffix.lower()
    if kind not in (".csv", ".parquet"):
        raise SpecError(f"{path}: the file must end in .csv or .parquet")
    codes: set[str] = set()
    with writing.replacing(path) as file:
        _write(records, file, kind, codes)
    return codes


def _write(records: Iterable[RunRecord], file: BinaryIO, kind: str, codes: set[str]) -> None:
    if kind == ".csv":
        # The library would put its header in quotes.
        file.write((",".join(SCHEMA.names) + "\n").encode())
        options = csv.WriteOptions(include_header=False, quoting_style="needed")
        writer = csv.CSVWriter(file, SCHEMA, write_options=options)
    else:
        writer = parquet.ParquetWriter(file, SCHEMA, compression="zstd")
    waiting = []
    with writer:
        for record in records:
            codes.add(record.code)
            waiting.append(rows(record))
            if len(waiting) == _BATCH:
                writer.write_table(pa.concat_tables(waiting).combine_chunks())
                waiting.clear()
        if waiting:
            writer.write_table(pa.concat_tables(waiting).combine_chunks())


def rows(record: RunRecord) -> pa.Table:
    """The rows of one run, sorted by time, then cost."""
    n, G = record.cumulative.shape

    def constant(value: object) -> pa.Array:
        return pa.repeat(pa.scalar(value), n * G)

    def curve(metric: Metric) -> pa.Array:
        """The curves of a metric, nothing in the rows of costs that it has none for."""
        table, first = np.full((n, G), np.nan), metric.per == "limit"
        curves = np.atleast_2d(getattr(record, metric.attribute))
        table[first : first + len(curves)] = curves
        return pa.array(table.T.ravel(), from_pandas=True)

    columns = {
        "env": constant(record.env),
        "agent": constant(record.agent),
        "cell": constant(record.cell),
        "code": constant(record.code),
        "horizon": constant(record.horizon),
        "seed": constant(record.seed),
        "t": pa.array(np.repeat(record.grid, n)),
        "cost": pa.array(np.tile(np.arange(n), G)),
        "cost_name": pa.array(list(record.cost_names) * G),
        "level": pa.array(np.tile(record.levels, G)),
        **{metric.name: curve(metric) for metric in METRICS},
    }
    return pa.table(columns, schema=SCHEMA)
