"""From a mixture of deterministic policies to one stationary policy that can be executed from every state.

The mixture's occupancy x = sum_j w_j x_j is balanced, so where its support is one class of the policy x(s, a) / x(s),
that policy attains the mixture's averages from every state that leads there. Three rules complete it:

    several classes     in a component whose states communicate, they are joined: x becomes (1 - e) x + e z, with z the
                        occupancy of a round trip by the fastest paths from class to class. z is balanced, so the
                        averages are those of the mixture but for a share e, and no joining move is rarer than e over
                        the length of the trip, however hard it is to go from class to class by chance.
    on the way          from a start distribution into the support: the mixture's expected visits, in their ratio
    elsewhere           the fastest path into the support; uniform where there is none

Classes are those of the graph: a state belongs to one however unlikely it is. Two columns that meet only in states less
likely than MIN_OVERLAP are joined as if they did not meet.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy import sparse

from psconrl._core.checks import Bools, Floats, Ints
from psconrl._core.graph import closed_classes
from psconrl.planning.compiled.rows import Rows
from psconrl.planning.components import Column, Component
from psconrl.planning.shortest_paths import expected_visits, round_trip, shortest_path_policy
from psconrl.planning.tolerances import MIN_OVERLAP


class Execution(NamedTuple):
    """A stationary policy: the probability (K,) of each pair in its state.

    occupancy (K,): what it was made from. classes: recurrent ones of the mixture. connected: False if from some state
    no path into the support is known, and it acts uniformly there.
    """

    policy: Floats
    occupancy: Floats
    classes: int
    connected: bool


def executable(
    rows: Rows, components: list[Component], columns: list[tuple[float, Column]], start: Floats | None, e: float
) -> Execution:
    """The policy of a mixture of columns in a model whose end components are `components`.

    start: the distribution (S,) from which it must attain the averages; None where all states lead to the support.
    e: the share of time for joining classes.
    """
    x, supports, classes = np.zeros(rows.K), [], 0
    for weight, column in columns:
        support = recurrent(rows, column)
        supports.append(support)
        x[column.policy[support]] += weight * column.mu[support]
    occupancy = x.copy()
    for component in components:
        own = []
        for support, (weight, column) in zip(supports, columns, strict=True):
            states = np.flatnonzero(support[component.states])
            if len(states):
                own.append((states, weight * column.mu[component.states[states]]))
        met = merge_overlapping(own)
        classes += len(met)
        if len(met) > 1:
            trip, found = round_trip(component.rows, np.array([states[mass.argmax()] for states, mass in met]))
            if found:
                x[component.pairs] = (1.0 - e) * x[component.pairs] + e * float(x[component.pairs].sum()) * trip
    flow = x if start is None else _with_visits(rows, x, columns, supports, start)
    for (_, column), support in zip(columns, supports, strict=True):
        # Recurrent states whose mass is below the range of floats.
        bare = support & (np.bincount(rows.source, flow, rows.S) == 0)
        flow[column.policy[bare]] = 1.0
    policy, connected = policy_of_occupancy(rows, flow, None if start is None else columns[0][1].policy)
    return Execution(policy, occupancy, classes, connected)


def policy_of_occupancy(rows: Rows, x: Floats, lost: Ints | None = None) -> tuple[Floats, bool]:
    """The policy x(s, a) / x(s) of an occupancy (K,); where there is none, it takes the fastest path to the support.

    lost (S,): the pairs for states without such a path, None to act uniformly there. False if there are such states.
    """
    source, mass = rows.source, np.bincount(rows.source, x, rows.S)
    policy = np.divide(x, mass[source], out=np.zeros(rows.K), where=mass[source] > 0)
    if mass.all():
        return policy, True
    path = shortest_path_policy(rows, mass > 0).pairs
    reached = path >= 0
    policy[path[reached]] = 1.0
    rest = (mass == 0) & ~reached
    if lost is not None:
        policy[lost[rest]] = 1.0
    else:
        policy[rest[source]] = (1.0 / np.diff(rows.begin)[source])[rest[source]]
    return policy, not rest.any()


def recurrent(rows: Rows, column: Column) -> Bools:
    """The states (S,) of the closed classes in which a column ends."""
    inside = np.zeros(rows.S, dtype=np.bool_)
    if column.mu.all():
        return ~inside
    for states in closed_classes(rows.matrix()[column.policy]):
        inside[states] = column.mu[states].any()
    return inside


def merge_overlapping(classes: list[tuple[Ints, Floats]]) -> list[tuple[Ints, Floats]]:
    """States and masses, those that meet in likely states put together."""
    found: list[tuple[Ints, Floats]] = []
    for states, mass in classes:
        for at, (others, theirs) in reversed(list(enumerate(found))):
            shared, own, other = np.intersect1d(states, others, return_indices=True)
            if len(shared) and np.minimum(mass[own], theirs[other]).max() > MIN_OVERLAP:
                union = np.union1d(states, others)
                both = np.zeros(len(union))
                both[np.searchsorted(union, states)] += mass
                both[np.searchsorted(union, others)] += theirs
                states, mass = union, both
                found.pop(at)
        found.append((states, mass))
    return found


def _with_visits(
    rows: Rows, x: Floats, columns: list[tuple[float, Column]], supports: list[Bools], start: Floats
) -> Floats:
    """The occupancy x (K,), and in states without any the expected visits on the way there."""
    y = np.zeros(rows.K)
    for (weight, column), support in zip(columns, supports, strict=True):
        visited = np.minimum(expected_visits(rows, column.policy, start, support), 1e300)  # beyond it floats end
        y[column.policy] += np.where(support, 0.0, weight * visited)
    source = rows.source
    free = np.bincount(source, x, rows.S) == 0
    return np.where(free[source], y, x)


def chain_of(rows: Rows, policy: Floats) -> sparse.csr_array:
    """The chain (S, S) of a policy (K,)."""
    used = np.flatnonzero(policy)
    mixing = sparse.csr_array((policy[used], (rows.source[used], used)), shape=(rows.S, rows.K))
    return sparse.csr_array(mixing @ rows.matrix())
