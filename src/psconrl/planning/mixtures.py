"""The deterministic policies of a mixture as they are executed: cores, paths into them, times between them.

A column of an optimum promises its averages in the long run, and the long run may be longer than anyone's: where a
state is visited once in 10^9 steps, its action is decided by rounding. So a column is executed in its *core* alone,
the states where it really spends its time,

    core        states of its recurrent class whose stationary mass exceeds 1 / (S sqrt(T)), T the horizon; the
                whole recurrent class without one

and from everywhere else it takes the fastest path into the core. What lies outside has a mass of at most 1 / sqrt(T).
Two kinds of columns keep more of their own actions: one that ends in several classes, depending on chance, keeps those
in the states that it passes on the way there, which decide where it ends; and one whose core would fall apart, because
it goes from one part of it to another through states that are unlikely, keeps those of its whole class.

A switch from core to core takes the expected time of the fastest path, from where the one column is by its stationary
distribution into the core of the other; none where the cores share states, for there a switch can wait until it is in
both.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from psconrl._core.checks import Bools, Floats, Ints
from psconrl._core.graph import closed_classes, reachable
from psconrl._core.pairs import Pairs
from psconrl.planning.compiled.master import Limits
from psconrl.planning.compiled.rows import Rows
from psconrl.planning.compiled.shortest_path import ShortestPath
from psconrl.planning.components import Column
from psconrl.planning.evaluation import evaluate_chain
from psconrl.planning.executable import recurrent
from psconrl.planning.shortest_paths import shortest_path_policy
from psconrl.planning.solution import Member
from psconrl.planning.units import Units
from psconrl.planning.weights import best_weights


class Executed(NamedTuple):
    """A column as it is executed.

    policy (S,): a pair for each state. J (m + 1,): its averages; mu (S,): its long-run distribution, both from a start
    distribution. core (S,): where it acts as the column does. times (S,): expected steps of the fastest path into the
    core, inf where there is none.
    """

    policy: Ints
    J: Floats
    mu: Floats
    core: Bools
    times: Floats


def executed(rows: Rows, costs: Floats, column: Column, start: Floats, horizon: int | None = None) -> Executed:
    """A column as it is executed, with the averages of costs (m + 1, K) from a start distribution (S,)."""
    inside = recurrent(rows, column)
    core = core_of(column.mu, inside, horizon)
    path = _shortest_path(rows, core)
    rerouted = ~core & (path.pairs >= 0)
    own = [states for states in closed_classes(rows.matrix()[column.policy]) if inside[states[0]]]
    if len(own) > 1:
        rerouted &= ~reachable(rows.matrix()[column.policy], start > 0)
    elif horizon is not None and _falls_apart(rows, np.where(rerouted, path.pairs, column.policy), core):
        rerouted &= ~inside
    policy = np.where(rerouted, path.pairs, column.policy)
    if not rerouted[inside].any():
        # Nothing that it does for ever has changed.
        return Executed(policy, costs[:, policy] @ column.mu, column.mu, core, path.times)
    found = evaluate_chain(rows.matrix()[policy], costs[:, policy], start)
    return Executed(policy, found.average_costs @ start, found.stationary, core, path.times)


def core_of(mu: Floats, inside: Bools, horizon: int | None) -> Bools:
    """The core (S,) of a column with stationary distribution mu (S,) that ends in the states `inside` (S,)."""
    if horizon is None:
        return inside.copy()
    core = inside & (mu > 1.0 / (len(mu) * math.sqrt(horizon)))
    core[mu.argmax()] = True
    return core


def switching_times(members: list[Executed]) -> Floats:
    """Expected steps (k, k) from core to core; 0 where they share states, inf where there is no path."""
    times = np.zeros((len(members), len(members)))
    for k, here in enumerate(members):
        at = here.core & (here.mu > 0)
        share = here.mu[at] / here.mu[at].sum()
        for j, there in enumerate(members):
            if not (here.core & there.core).any():
                times[k, j] = share @ there.times[at]
    return times


def reweighted(weights: list[float], members: list[Executed], units: Units) -> list[float]:
    """The weights with which columns, as they are executed, are best within the limits.

    Where they cannot keep these, the weights stay as they are: rounding and rare states are all that is missing.
    """
    J, m = np.array([member.J for member in members]), len(units.tau)
    best = best_weights(J, Limits(units.near, np.ones(m)), -np.inf, np.zeros(m))
    return weights if best is None else best.tolist()


def members_of(weights: list[float], members: list[Executed], pairs: Pairs, units: Units) -> list[Member]:
    """Members of a solution: actions in place of pairs, averages in the units of the model."""
    return [
        Member(float(weight), pairs.actions(k.policy), units.averages(k.J), k.core)
        for weight, k in zip(weights, members, strict=True)
    ]


def _shortest_path(rows: Rows, core: Bools) -> ShortestPath:
    if core.all():
        return ShortestPath(np.zeros(rows.S), np.full(rows.S, -1))
    return shortest_path_policy(rows, core)


def _falls_apart(rows: Rows, policy: Ints, core: Bools) -> bool:
    """Whether a policy, once in the core, may stay in different parts of it."""
    return sum(bool(core[states].any()) for states in closed_classes(rows.matrix()[policy])) > 1
