"""Stored runs as arrays: all runs of one cell stacked, first axis over seeds.

R runs, G checkpoints, m constraints.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.lib.recfunctions import repack_fields
from numpy.typing import NDArray

from psconrl._core.checks import Floats, Ints
from psconrl.errors import InvalidArgumentError
from psconrl.experiments.record import RunRecord
from psconrl.learning.metrics import Metrics, policy_violation

REFERENCE_AGENTS = ("Uniform", "Optimal")
"""Agents that do not learn: others are compared with them, but they have no rank."""


@dataclass(frozen=True, eq=False)
class Group(Metrics):
    """All runs of one cell, in the order of their seeds.

    It has the curves of `psconrl.learning.metrics`: `regret` (R, G), `violation` (R, m, G), `signed` (R, m + 1, G) etc.

    Attributes:
        cell: the hash of the cell. env, agent, settings, costs: what was run.
        env_options: one table for each run; they differ where every run has a model of its own.
        codes: the code that made the runs; more than one is a mixture.
        seeds (R,), grid (G,), optimum (R,), margin (R,), multipliers (R, m), thresholds (R, m), cost_ranges
        (R, m + 1, 2), cumulative, cumulative_excess and peaks (R, m + 1, G): as in the records.
        episodes: R tables, without their texts. seconds (R,): how long the runs took, nan where nothing is known.
    """

    cell: str
    env: str
    agent: str
    settings: Mapping[str, Any]
    costs: str
    env_options: tuple[Mapping[str, Any], ...]
    codes: frozenset[str]
    cost_names: tuple[str, ...]
    S: int
    A: int
    seeds: Ints
    grid: Ints
    optimum: Floats
    margin: Floats
    multipliers: Floats
    thresholds: Floats
    cost_ranges: Floats
    cumulative: Floats
    cumulative_excess: Floats
    peaks: Floats
    episodes: tuple[NDArray[np.void], ...]
    seconds: Floats

    @property
    def runs(self) -> int:
        """R."""
        return len(self.seeds)

    @property
    def m(self) -> int:
        """Number of constraints."""
        return self.thresholds.shape[1]

    @property
    def horizon(self) -> int:
        """T."""
        return int(self.grid[-1])

    @property
    def spans(self) -> Floats:
        """(m + 1,): the width of each cost's range, by which sums of different costs are compared."""
        return np.asarray(np.ptp(self.cost_ranges, axis=-1).mean(axis=0))

    @property
    def policy_violation(self) -> Floats:
        """The policy violation, (R, m, G); nan for runs whose policies were not evaluated."""
        return np.stack([policy_violation(*run, self.grid) for run in zip(self.episodes, self.thresholds, strict=True)])

    @property
    def shared_options(self) -> dict[str, Any]:
        """The options of the environment that all runs have, by name."""
        first = self.env_options[0]
        return {key: first[key] for key in sorted(first) if all(o.get(key) == first[key] for o in self.env_options)}

    @property
    def label(self) -> str:
        """A short name for people; options that differ from run to run are left out."""
        return f"{self.env}{''.join(f' {key}={value}' for key, value in self.shared_options.items())} / {self.agent}"

    @property
    def evaluated(self) -> bool:
        """Whether the exact averages of the executed policies were kept."""
        return all("average_costs" in (table.dtype.names or ()) for table in self.episodes)

    @cached_property
    def spacing(self) -> int:
        """Steps between checkpoints; InvalidArgumentError unless they are evenly spaced from the start."""
        d = int(self.grid[0])
        if not np.array_equal(self.grid, d * np.arange(1, len(self.grid) + 1)):
            raise InvalidArgumentError(f"{self.label}: the number of checkpoints does not divide the horizon")
        return d


Groups = Mapping[str, Group]
"""Groups by the hash of their cell."""


def group(records: Iterable[RunRecord], timings: Mapping[str, float] | None = None) -> dict[str, Group]:
    """Stack the runs of each cell.

    Where a run was made by several versions of the code, the version that made most runs of the cell counts.

    Args:
        records: stored runs, as `Store.records` yields them.
        timings: seconds by the identity of a run, as `Store.timings` gives them.

    Returns:
        A group for each cell, by the hash of the cell.

    Raises:
        InvalidArgumentError: runs of a cell were recorded at different times.
    """
    cells: dict[str, list[RunRecord]] = {}
    for record in records:
        # Plans on the way and words are most of a record, and no group has them.
        less = replace(record, snapshots=(), world=None, episodes=_numbers(record.episodes))
        cells.setdefault(record.cell, []).append(less)
    return {cell: _stack(_one_each(cells.pop(cell)), timings or {}) for cell in list(cells)}


def _numbers(episodes: NDArray[np.void]) -> NDArray[np.void]:
    """The columns of a table of episodes that are no texts."""
    names = [name for name in episodes.dtype.names or () if episodes.dtype[name].kind != "U"]
    return np.asarray(repack_fields(episodes[names]))


def _one_each(records: list[RunRecord]) -> list[RunRecord]:
    """One record for each seed, in the order of the seeds."""
    made = Counter(record.code for record in records)
    chosen: dict[int, RunRecord] = {}
    for record in sorted(records, key=lambda record: (made[record.code], record.code)):
        chosen[record.seed] = record
    return [chosen[seed] for seed in sorted(chosen)]


def _stack(records: list[RunRecord], timings: Mapping[str, float]) -> Group:
    first = records[0]
    for record in records:
        if not np.array_equal(record.grid, first.grid):
            raise InvalidArgumentError(f"{first} and {record} were recorded at different times")
    arrays = [field.name for field in fields(Group) if field.type == "Floats" and field.name != "seconds"]
    return Group(
        cell=first.cell,
        env=first.env,
        agent=first.agent,
        settings=first.settings,
        costs=first.costs,
        env_options=tuple(record.env_options for record in records),
        codes=frozenset(record.code for record in records),
        cost_names=first.cost_names,
        S=first.states,
        A=first.actions,
        seeds=np.array([record.seed for record in records], dtype=np.int64),
        grid=first.grid,
        episodes=tuple(record.episodes for record in records),
        seconds=np.array([timings.get(record.identity, np.nan) for record in records]),
        **{name: np.array([getattr(record, name) for record in records], dtype=np.float64) for name in arrays},
    )
