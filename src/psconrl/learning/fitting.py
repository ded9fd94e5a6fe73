"""What a log of decisions says: the model behind it, how sure it is, and what it leaves open.

A log has one row per decision: the state, the action, its costs, and the next state; or, without next states, whole
trajectories, whose next state is the state of the row below. Rows that say too little are left out, and told by number;
so are places where a trajectory does not go on where its last row led. Rows are numbered from 1, without the header.

The counts of a log are all that there is to know of a Markov decision process, whoever took the decisions and for
whatever reason, as long as the state was all they went by. The posterior, its means and its intervals are those of
`psconrl.learning.estimate`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import ArrayLike

from psconrl._core import checks
from psconrl._core.checks import Bools, Floats, Ints, range_rule
from psconrl.agents.belief import Belief, CostBelief
from psconrl.agents.counts import Counts
from psconrl.errors import InvalidArgumentError, InvalidModelError
from psconrl.io.tables import KEYS, MAX_COSTS, MAX_STATES, Table, limits_of
from psconrl.learning.estimate import Estimate, Evidence
from psconrl.problem import Problem

COST_MARGIN = 1e-9
"""A cost that is always the same has a range this much wider than nothing, as a share of its size."""


def fit(
    log: Any,
    thresholds: Mapping[str, float] | ArrayLike = (),
    *,
    state: str = "state",
    action: str = "action",
    next_state: str = "next_state",
    costs: Sequence[str] | None = None,
    stream: str | None = None,
    time: str | None = None,
    cost_ranges: ArrayLike | None = None,
) -> Estimate:
    """Learn a model from a log of decisions, and what the log says about the old policy and about others.

    Args:
        log: a table: pandas, polars, duckdb, pyarrow, a list of dicts, or the path of a CSV or Parquet file; or a
            dataset of Minari, whose first cost is minus the reward.
        thresholds: limits by cost name, where costs without a limit are left out; or a list, one per cost after the
            first.
        state, action, next_state: names of columns. Without a column of next states the log holds trajectories.
        costs: names of columns, the main cost first; those with limits by name need not be listed. By default all
            remaining columns.
        stream: column that identifies the trajectory; one trajectory if left out.
        time: column to sort by within a stream, numbers or dates; the order of the rows if left out.
        cost_ranges: (low, high) of each cost that is used; what the log has if left out.

    Returns:
        A model to be solved, with intervals; `Estimate.issues` says which rows were left out, and why.

    Raises:
        InvalidModelError: a table without rows that can be used, or with a mistake that is no gap.
        ModelFileError: a file that cannot be read.

    >>> rows = [{"state": s, "action": "go", "cost": float(s)} for s in (0, 1, 1, 0, 1, 1, 0)]
    >>> fit(rows).coverage["visits"].tolist()
    [2, 4]
    """
    columns = {"state": state, "action": action, "next_state": next_state, "stream": stream, "time": time}
    for what, name in columns.items():
        if name is not None or what in KEYS:
            checks.text(name, what)
    named = [state, action, next_state, *([stream] if stream else [])]
    table = Table.of(_episodes(log) if hasattr(log, "iterate_episodes") else log, "log", named)
    for name in (state, action, stream, time):
        if name is not None:
            table.column(name)
    if costs is None:
        costs = [name for name in table.data.column_names if name not in (*named, time)]
        _require_cost(table, costs[:1])
    elif isinstance(thresholds, Mapping):
        costs = [*checks.texts(costs, "costs"), *(name for name in thresholds if name in table and name not in costs)]
    for name in checks.texts(costs, "costs"):
        table.column(name)
    names, tau = limits_of([str(name) for name in checks.texts(costs, "costs")], thresholds, table.name)
    (s, *targets), states = table.names(state, *([next_state] if next_state in table else []))
    (a,), actions = table.names(action)
    if len(states) > MAX_STATES or len(states) * len(actions) > MAX_COSTS:
        raise InvalidModelError(
            f"{table.name}: there are {len(states):,} different states and {len(actions):,} actions, too many; is "
            "there a time or a measurement in one of these columns?"
        )
    order, follows, lost = _following(table, s, stream, time)
    issues = _rows_where(lost, f"{' or '.join(filter(None, (stream, time)))} is missing; not part of a trajectory")
    issues |= _rows_where(s < 0, f"{state} is missing; left out") | _rows_where(a < 0, f"{action} is missing; left out")
    if not targets:
        t = follows
        issues |= _rows_where((t < 0) & (s >= 0), "no next state, the last of its stream; left out")
    else:
        t = np.where(targets[0] < 0, follows, targets[0])
        issues |= _rows_where(t < 0, f"{next_state} is missing; left out")
        issues |= _rows_where((targets[0] < 0) & (t >= 0), f"{next_state} is missing; taken from the row after")
        if stream is not None or time is not None:
            issues |= _rows_where(
                (follows >= 0) & (t != follows), f"the row after is not in {next_state}; the move itself is used"
            )
    used = (s >= 0) & (a >= 0) & (t >= 0)
    paid = []
    for name in names:
        paid.append(table.numbers(name, missing=True))
        unknown = np.isnan(paid[-1])
        issues |= _rows_where(unknown, f"{name} is missing; left out")
        used &= ~unknown
    if not used.any():
        raise InvalidModelError(f"{table.name}: no row has a state, an action, costs and a next state")
    last = int(t[order[used[order]][-1]])
    key = np.where(used, (s * len(actions) + a) * len(states) + t, -1)
    totals = _totals(key, paid, used)
    problem = Problem(
        states,
        actions,
        tau,
        cost_ranges=totals.ranges if cost_ranges is None else cost_ranges,
        cost_names=names,
    )
    return Estimate(_evidence(totals, problem, last), issues=issues)


def _episodes(dataset: Any) -> dict[str, list[Any]]:
    """The columns of a dataset of Minari. An episode that ends goes on where the next one starts."""
    columns: dict[str, list[Any]] = {name: [] for name in (*KEYS, "minus_reward")}
    episodes = list(dataset.iterate_episodes())
    for episode, after in zip(episodes, [*episodes[1:], *episodes[:1]], strict=True):
        states = [_label(state) for state in episode.observations]
        columns["state"] += states[:-1]
        columns["next_state"] += states[1:]
        if episode.terminations[-1]:
            columns["next_state"][-1] = _label(after.observations[0])
        columns["action"] += map(_label, episode.actions)
        columns["minus_reward"] += (-np.asarray(episode.rewards, dtype=np.float64)).tolist()
        for name, values in (episode.infos or {}).items():
            if np.ndim(values) == 1 and np.asarray(values).dtype.kind in "biuf":
                columns.setdefault(name, []).extend(np.asarray(values)[-len(episode.actions) :].tolist())
    return columns


def _label(value: Any) -> str:
    """An observation or action as a name."""
    return str(value.tolist() if isinstance(value, (np.ndarray, np.generic)) else value)


def _require_cost(table: Table, main: list[str]) -> None:
    """Refuse a main cost that nobody named and that grows from row to row: it is a time or a number of the row."""
    for name in main:
        values = table.numbers(name, missing=True)
        if len(values) > 2 and (np.diff(values) > 0).all():
            raise InvalidModelError(
                f"{table.name}: the column {name!r} grows from row to row, so it is hardly the cost to be minimised; "
                f"give time={name!r} (--time {name}), or list the columns of costs (--cost)"
            )


class _Totals(NamedTuple):
    """How often each move was made, its number (s * A + a) * S + t, the sums of its costs, and the range of each."""

    key: Ints
    number: Ints
    sums: Floats
    ranges: Floats


def _totals(key: Ints, paid: list[Floats], used: Bools) -> _Totals:
    """The rows by move. In one thread, so that sums are the same each time."""
    columns = pa.table([key, *paid], ["key", *map(str, range(len(paid)))])
    sums: list[Any] = [(str(i), "sum") for i in range(len(paid))]
    moves = columns.group_by("key", use_threads=False).aggregate([*sums, ([], "count_all")]).sort_by("key")
    found = {name: moves.column(name).to_numpy()[moves.column("key").to_numpy() >= 0] for name in moves.column_names}
    low, high = (np.array([limit(cost, where=used, initial=start) for cost in paid]) for limit, start in _ENDS)
    # A cost that is always the same gets a range of 1.
    wider = np.maximum(1.0, COST_MARGIN * np.abs(low))
    return _Totals(
        found["key"],
        found["count_all"],
        np.array([found[f"{i}_sum"] for i in range(len(paid))]),
        np.stack([low, np.where(high > low, high, low + wider)], axis=1),
    )


_DATE = r"^\s*\d{4}-\d{2}-\d{2}([T ]|\s*$)"

_ENDS: tuple[tuple[Any, float], ...] = (np.min, np.inf), (np.max, -np.inf)


def _following(table: Table, s: Ints, stream: str | None, time: str | None) -> tuple[Ints, Ints, Bools]:
    """The rows in order of stream and time, first those that have none; for each row the state of the next, or -1.

    The last array says which rows have no stream or no time.
    """
    order: Ints = np.arange(len(table))
    lost: Bools = np.zeros(len(table), dtype=np.bool_)
    if time is not None:
        order, lost = _in_time(table, time)
    streams = np.zeros(len(table), dtype=np.int64)
    if stream is not None:
        (streams,), _ = table.names(stream)
        lost |= streams < 0
    chain = order[~lost[order]]
    chain = chain[np.argsort(streams[chain], kind="stable")]
    follows = np.full(len(s), -1)
    follows[chain[:-1]] = np.where(np.diff(streams[chain]) == 0, s[chain[1:]], -1)
    return np.append(np.flatnonzero(lost), chain), follows, lost


def _in_time(table: Table, column: str) -> tuple[Ints, Bools]:
    """The rows that have a time, in its order, and which rows have none."""
    values = table.column(column)
    if pa.types.is_string(values.type) or pa.types.is_large_string(values.type):
        values = pc.if_else(pc.equal(values, ""), None, pc.cast(values, pa.string()))
        if not pc.all(pc.match_substring_regex(values, _DATE)).as_py():  # dates of this form sort as texts do
            values = pa.chunked_array([table.numbers(column, True, "a number, or a date such as 2024-01-31 08:30")])
    missing = pc.is_null(values, nan_is_null=True)
    order = np.argsort(pc.filter(values, pc.invert(missing)).to_numpy(), kind="stable")
    lost: Bools = missing.to_numpy()
    return np.flatnonzero(~lost)[order], lost


def _rows_where(mask: Any, reason: str) -> dict[str, Ints]:
    return {reason: np.flatnonzero(mask) + 1} if mask.any() else {}


def _evidence(totals: _Totals, problem: Problem, last: int) -> Evidence:
    S, A = problem.S, problem.A
    units, ranges = problem.units, problem.cost_ranges
    assert units is not None
    assert ranges is not None
    outside = np.flatnonzero((totals.ranges[:, 0] < ranges[:, 0]) | (totals.ranges[:, 1] > ranges[:, 1]))
    if len(outside) and not np.array_equal(totals.ranges, ranges):
        i = int(outside[0])
        low, high = totals.ranges[i].tolist()
        name = problem.cost_names[i]
        raise InvalidModelError(f"the log's {name} goes from {low:g} to {high:g}; {range_rule(ranges, i)}")
    row, target = np.divmod(totals.key, S)
    n = totals.number.astype(np.float64)
    spent = np.clip((totals.sums - units.low[:, np.newaxis] * n) / units.width[:, np.newaxis], 0.0, n)
    counts = Counts.from_entries(row, target, totals.number, spent.T, S, A)
    sums = np.array([np.bincount(row, cost, S * A).reshape(S, A) for cost in spent])
    return Evidence(
        problem,
        Belief(counts, np.array(problem.available), last, False),
        CostBelief(sums, np.bincount(row, n, S * A).reshape(S, A).astype(np.float64), None),
        last,
        problem.state_names,
    )


def require_log(log: Any, problem: Problem) -> Estimate:
    """The estimate that a learner is to start from, if it is of the same states, actions and costs."""
    if not isinstance(log, Estimate):
        raise InvalidArgumentError(f"log is {checks.short_repr(log)}; it must be an Estimate; psconrl.fit makes one")
    other = log.evidence.problem
    same = (
        (problem.S, problem.A, problem.m) == (other.S, other.A, other.m)
        and problem.state_names in (None, other.state_names)
        and problem.action_names in (None, other.action_names)
        and np.array_equal(problem.cost_ranges, other.cost_ranges)  # type: ignore[arg-type]
    )
    if not same:
        raise InvalidArgumentError(
            f"log is about {other}, but the agent's problem is {problem}; leave out agent and problem, and they follow "
            "from the log"
        )
    return log
