"""What is told of a durable learner: how it stands, and its log; with the learner, or from its store alone."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Any

from psconrl._core import checks
from psconrl.errors import InvalidArgumentError, StoreError
from psconrl.io import writing
from psconrl.learning import state_io
from psconrl.learning.drift import FALSE_ALARM_RATE, DriftMonitor
from psconrl.learning.store import BATCH, ObservationRow, Store, open_store
from psconrl.problem import Problem

HOURS = 14 * 24
"""Hours for which totals are kept."""
STREAM_HOURS = 48
"""Hours for which the steps of each stream are kept."""
MOST_STREAMS = 200
"""Streams that are counted one by one; steps of further ones are counted under "other"."""


def describe(problem: Problem, name: str) -> dict[str, Any]:
    """What is needed to tell of a store without its agent, which is called `name`."""
    return {
        "name": name,
        "cost_names": list(problem.cost_names),
        "thresholds": problem.thresholds.tolist(),
        "states": None if problem.state_names is None else [state_io.to_text(n) for n in problem.state_names],
        "A": problem.A,
        "actions": None if problem.action_names is None else [state_io.to_text(n) for n in problem.action_names],
    }


class Totals:
    """Totals of steps and costs, in all and by hour; steps by stream and hour; and what plans said of the limits.

    Attributes:
        observations: how many steps were added.
        plans, infeasible: how many plans were made, and in how many of their models the limits could not be met.
        nearest: if the last plan is one of these, the nearest limits that its model could meet, by name.
    """

    def __init__(self, costs: int) -> None:
        self.observations = self.plans = self.infeasible = 0
        self.nearest: dict[str, float] = {}
        self.sums = [0.0] * costs
        self.hours: dict[int, list[float]] = {}
        self.streams: dict[str, dict[int, int]] = {}

    def add(self, row: ObservationRow) -> None:
        """Count a step."""
        self.observations += 1
        self.sums = [total + cost for total, cost in zip(self.sums, row.costs, strict=True)]
        hour = int(row.seen // 3600)
        if hour not in self.hours:
            self._begin_hour(hour)
        self.hours[hour] = [total + x for total, x in zip(self.hours[hour], (1, *row.costs), strict=True)]
        stream = row.stream if row.stream in self.streams or len(self.streams) < MOST_STREAMS else "other"
        steps = self.streams.setdefault(stream, {})
        steps[hour] = steps.get(hour, 0) + 1

    def _begin_hour(self, hour: int) -> None:
        """Forget the oldest hours, and streams of which no hour is left."""
        self.hours = {h: totals for h, totals in self.hours.items() if h > hour - HOURS}
        self.hours[hour] = [0.0] * (1 + len(self.sums))
        late = {
            name: {h: steps for h, steps in by_hour.items() if h > hour - STREAM_HOURS}
            for name, by_hour in self.streams.items()
        }
        self.streams = {name: by_hour for name, by_hour in late.items() if by_hour}

    def state(self) -> dict[str, Any]:
        """All that it is, as plain values."""
        return vars(self) | {
            "hours": [[hour, *totals] for hour, totals in self.hours.items()],
            "streams": [[stream, *map(list, by_hour.items())] for stream, by_hour in self.streams.items()],
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on from a state."""
        vars(self).update(state)
        self.hours = {hour: totals for hour, *totals in state["hours"]}
        self.streams = {stream: dict(by_hour) for stream, *by_hour in state["streams"]}


def status(store: Store, description: dict[str, Any], totals: Totals, monitor: DriftMonitor) -> dict[str, Any]:
    """What `DurableLearner.status` gives."""
    steps, names = totals.observations, description["cost_names"]
    pending, expired, oldest, forgotten = store.pending(time.time())
    averages = [total / steps if steps else None for total in totals.sums]
    state, action = _names(store, description)
    pairs = [divmod(pair, monitor.A) for pair in monitor.pairs]
    return {
        "agent": description["name"],
        "steps": steps,
        "decisions": store.counters().decisions,
        "plans": totals.plans,
        "infeasible_plans": totals.infeasible,
        "conflict": list(totals.nearest),
        "nearest": totals.nearest,
        "average_costs": averages,
        "limits": {
            name: {"limit": limit, "average": average, "excess": total - steps * limit}
            for name, limit, average, total in zip(
                names[1:], description["thresholds"], averages[1:], totals.sums[1:], strict=True
            )
        },
        "pending": pending,
        "expired": expired,
        "forgotten": forgotten,
        "oldest_pending": None if oldest is None else moment(oldest).isoformat(),
        "drift": {
            "alarms": list(monitor.alarms),
            "pairs": [[state(s), action(a)] for s, a in pairs],
            "false_alarm_rate": FALSE_ALARM_RATE,
        },
        "hours": [
            {"hour": _hour(hour), "steps": int(count), "average_costs": [total / count for total in sums]}
            for hour, (count, *sums) in sorted(totals.hours.items())
        ],
        "streams": {
            stream: {_hour(hour): count for hour, count in sorted(by_hour.items())}
            for stream, by_hour in sorted(totals.streams.items())
        },
    }


def read_status(url: str | Path) -> dict[str, Any]:
    """How the learner in a store stands, also while another process has it; see `DurableLearner.status`.

    Raises:
        StoreError: if there is none, or it cannot be reached.
    """
    with _reading(url) as (store, description):
        m = len(description["thresholds"])
        totals, monitor = Totals(m + 1), DriftMonitor(description["A"], m)
        checkpoint = read_checkpoint(store)
        if checkpoint is not None:
            totals.restore(checkpoint["totals"])
            monitor.restore(checkpoint["drift"])
        for row in store.log(totals.observations):
            totals.add(row)
        return status(store, description, totals, monitor)


def export_log(url: str | Path, path: str | Path) -> int:
    """Write the observations that a store keeps as a table, .csv or .parquet; how many."""
    file = checks.path(path)
    if file.suffix.lower() not in (".csv", ".parquet"):
        raise InvalidArgumentError(f"{file}: the file must end in .csv or .parquet")
    import pyarrow as pa
    from pyarrow import csv, parquet

    with _reading(url) as (store, description):
        state, action = _names(store, description)
        kinds = [pa.string() if type(name) is str else pa.int64() for name in (state(0), action(0))]
        fixed = [
            *(("seen_at", pa.timestamp("us", "UTC")), ("stream", pa.string()), ("decision", pa.int64())),
            *(("state", kinds[0]), ("action", kinds[1]), ("next_state", kinds[0])),
        ]
        taken = dict(fixed)
        costs = [(f"cost_{name}" if name in taken else name, pa.float64()) for name in description["cost_names"]]
        schema, written = pa.schema([*fixed, *costs]), 0
        make = csv.CSVWriter if file.suffix.lower() == ".csv" else parquet.ParquetWriter
        with writing.replacing(file) as target, make(target, schema) as writer:
            log = store.log()
            while rows := list(islice(log, BATCH)):
                columns: list[list[Any]] = [
                    [moment(row.seen) for row in rows],
                    [row.stream for row in rows],
                    [row.decision for row in rows],
                    [state(row.state) for row in rows],
                    [action(row.action) for row in rows],
                    [state(row.next_state) for row in rows],
                    *([row.costs[i] for row in rows] for i in range(len(costs))),
                ]
                writer.write_batch(pa.record_batch(columns, schema=schema))
                written += len(rows)
        return written


@contextmanager
def _reading(url: str | Path) -> Iterator[tuple[Store, dict[str, Any]]]:
    """A store as it is at one moment, and its description."""
    store = open_store(url, read_only=True)
    try:
        with store.transaction():
            if store.is_new():
                raise StoreError(f"{store.where}: there is no learner in it")
            yield store, store.described()[0]
    finally:
        store.close()


def read_checkpoint(store: Store) -> Any:
    """What the checkpoint holds, None before the first."""
    packed = store.checkpoint()
    return None if packed is None else state_io.unpack(*packed, f"{store.where}: ")


def moment(seconds: float) -> datetime:
    """A time of a store."""
    return datetime.fromtimestamp(seconds, UTC)


def _hour(hour: int) -> str:
    return moment(3600 * hour).isoformat()


def _names(store: Store, description: dict[str, Any]) -> tuple[Callable[[int], Any], Callable[[int], Any]]:
    """What states and actions are called, by number."""
    texts = description["states"] or store.states()
    states, actions = ([str(state_io.from_text(t)) for t in found] for found in (texts, description["actions"] or ()))
    return (lambda s: states[s] if states else s), (lambda a: actions[a] if actions else a)
