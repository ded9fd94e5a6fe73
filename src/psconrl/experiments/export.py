"""The curves of many runs as one tidy table: one row for each run, checkpoint and cost."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import BinaryIO

import numpy as np
import pyarrow as pa
from pyarrow import csv, parquet

from psconrl._core.checks import Floats
from psconrl.errors import SpecError
from psconrl.experiments.record import RunRecord
from psconrl.io import writing

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
        ("cumulative", pa.float64()),
        ("regret_or_violation", pa.float64()),
        ("excess", pa.float64()),
        ("lagrangian", pa.float64()),
        ("positive_violation", pa.float64()),
        ("largest_violation", pa.float64()),
        ("policy_violation", pa.float64()),
    ]
)
"""level: the optimum for cost 0, the threshold for others; regret_or_violation: cumulative - level * t, signed;
excess: sum over steps of the positive part. lagrangian: L, in the rows of cost 0; the others, in the rows of limited
costs: [V]+, its largest value so far, and what the policies promise (see `psconrl.learning.measures`); empty where
nothing is known. `cell` tells apart runs with other settings (experiment.json lists
them), `code` runs made by other versions."""

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

    def by_cost(curves: Floats, first: int) -> pa.Array:
        """Curves of some costs, the first of them given; nothing in the rows of the others."""
        table = np.full((n, G), np.nan)
        table[first : first + len(curves)] = curves
        return pa.array(table.T.ravel(), from_pandas=True)  # an empty field where there is no number

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
        "cumulative": pa.array(record.cumulative.T.ravel()),
        "regret_or_violation": pa.array(record.signed.T.ravel()),
        "excess": pa.array(record.cumulative_excess.T.ravel()),
        "lagrangian": by_cost(record.lagrangian[np.newaxis], 0),
        "positive_violation": by_cost(record.positive_violation, 1),
        "largest_violation": by_cost(record.largest_violation, 1),
        "policy_violation": by_cost(record.policy_violation, 1),
    }
    return pa.table(columns, schema=SCHEMA)
