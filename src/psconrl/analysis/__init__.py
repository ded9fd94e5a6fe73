"""What stored runs say: regret and violation as curves, means with 95% intervals, growth exponents.

>>> from psconrl.analysis import curves, group, mean_interval
>>> from psconrl.experiments import Store
>>> store = Store("results")  # doctest: +SKIP
>>> for runs in group(store.records(), store.timings()).values():  # the runs of each cell, stacked  # doctest: +SKIP
...     print(runs.label, mean_interval(runs.regret[:, -1]))
"""

from psconrl._core.numbers import format_mean_ci, listed, number, short
from psconrl.analysis import curves
from psconrl.analysis.groups import REFERENCE_AGENTS, Group, Groups, group
from psconrl.analysis.statistics import (
    Interval,
    band,
    difference_interval,
    growth_exponent,
    interval_of,
    mean_interval,
    ratio_interval,
    weights,
    worst_tenth,
)
from psconrl.analysis.summary import World, latex, summarize, worlds

__all__ = [
    "REFERENCE_AGENTS",
    "Group",
    "Groups",
    "Interval",
    "World",
    "band",
    "curves",
    "difference_interval",
    "format_mean_ci",
    "group",
    "growth_exponent",
    "interval_of",
    "latex",
    "listed",
    "mean_interval",
    "number",
    "ratio_interval",
    "short",
    "summarize",
    "weights",
    "worlds",
    "worst_tenth",
]
