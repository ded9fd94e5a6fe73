"""How long reading a log of ten million decisions takes, and how much memory."""

from __future__ import annotations

import argparse
import resource
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv

import psconrl

STATES, ACTIONS = 500, 5


def write(path: Path, rows: int) -> None:
    """A log of decisions, in pieces of a million rows."""
    rng = np.random.default_rng(0)
    names = np.array([f"ward {s % 20}, {s // 20} beds" for s in range(STATES)])
    actions = np.array([f"plan {a}" for a in range(ACTIONS)])
    fields = [(name, pa.string()) for name in ("state", "action", "next_state")]
    schema = pa.schema([*fields, ("waiting", pa.float64()), ("overtime", pa.float64())])
    with pyarrow.csv.CSVWriter(path, schema) as writer:
        for start in range(0, rows, 10**6):
            n = min(10**6, rows - start)
            s, a = rng.integers(STATES, size=n), rng.integers(ACTIONS, size=n)
            t = (3 * s + rng.integers(4, size=n)) % STATES
            costs = rng.random((2, n)).round(3)
            writer.write(pa.table([names[s], actions[a], names[t], *costs], schema=schema))


def main() -> None:
    """Write a log, read it, and say what that took."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("rows", nargs="?", type=int, default=10**7)
    rows = parser.parse_args().rows
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "log.csv"
        write(path, rows)
        print(f"{rows:,} rows, {path.stat().st_size / 2**20:,.0f} MiB")
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
        start, used = time.perf_counter(), time.process_time()
        estimate = psconrl.fit(path, {"overtime": 0.5})
        seconds, used = time.perf_counter() - start, time.process_time() - used
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
        print(
            f"{estimate}: {seconds:.1f} s, {used:.1f} s of processors, "
            f"peak memory {peak:.2f} GiB ({before:.2f} GiB before)"
        )


if __name__ == "__main__":
    main()
