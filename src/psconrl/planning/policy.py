"""From an occupancy measure to a policy that can be executed from every state.

The ratio mu(s, a) / mu(s) is defined only where mu has mass, and a vertex leaves most states without. Its
support falls into at most m + 1 recurrent classes of the ratio policy. Three rules make it executable:

    off the support      the fastest way into it (under the planning model; under the uncut one where the cut
                         one does not connect; uniform where there is none)
    one class            nothing else to do: from every state the averages are those of mu
    several classes      mu_e = (1 - e) mu + e mu_bar with mu_bar the occupancy of a policy that visits every
                         state: still balanced and with full support, hence the occupancy of its own ratio
                         policy, from every start: J_i = (1 - e) J_i(mu) + e J_i(mu_bar) exactly.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy import sparse

from psconrl._checks import Floats, Ints
from psconrl.cmdp import policy_chain
from psconrl.graph import closed_classes
from psconrl.planning.compiled.shortest_path import fastest_way
from psconrl.planning.evaluate import stationary_law

SUPPORT = 1e-14
"""Occupancies below this are rounding; states without any are left to the fastest way into the others."""


class Execution(NamedTuple):
    """An executable policy (S, A), the occupancy it was made from, and what had to be done to it."""

    policy: Floats
    occupancy: Floats
    classes: int
    connected: bool


def executable(
    mu: Floats,
    matrix: sparse.csr_array,
    uncut: sparse.csr_array,
    *,
    joint: Callable[[], Floats | None] | None,
    join: float,
    routing: Floats | None = None,
    support: float = SUPPORT,
) -> Execution:
    """The policy of an occupancy (S, A) in a model (S * A, S).

    joint() gives the occupancy (S, A) that joins several recurrent classes, with weight `join`; None leaves
    them apart. routing (S, A), where it has mass, says how to move off the support. Occupancies below `support`
    count as none.
    """
    mu, classes = balanced(mu, matrix, support)
    flow = mu
    everywhere = joint() if len(classes) > 1 and joint is not None else None
    if everywhere is not None:
        flow = (1.0 - join) * mu + join * everywhere
    elif routing is not None:
        transient = (mu.sum(axis=1) == 0) & (routing.sum(axis=1) > support)
        flow = np.where(transient[:, np.newaxis], routing, mu)
    policy, connected = complete(flow, matrix, uncut)
    return Execution(policy, mu, len(classes), connected)


def joint_occupancy(
    uncut: sparse.csr_array,
    matrix: sparse.csr_array,
    costs: Floats,
    thresholds: Floats,
    safest: tuple[Floats, float] | None,
    states: Ints | None = None,
) -> Floats | None:
    """An occupancy (S, A) that visits every recurrent state, to join classes with.

    It is the uniform policy's, mixed, if the safest occupancy and its margin > 0 are given, with that one so
    that the limits hold. None where the uniform policy has several recurrent classes: nothing joins them.
    states: those considered, all by default.
    """
    S, A = matrix.shape[1], matrix.shape[0] // matrix.shape[1]
    states = np.arange(S) if states is None else states
    uniform = np.full((S, A), 1.0 / A)
    chain = policy_chain(uncut, uniform)[states][:, states]
    classes = closed_classes(chain)
    if len(classes) > 1:
        return None
    law = np.zeros(S)
    law[states[classes[0]]] = stationary_law(chain[classes[0]][:, classes[0]])
    everywhere = law[:, np.newaxis] * uniform
    if safest is None or safest[1] <= 0:
        return everywhere
    occupancy, margin = safest
    excess = float(np.max((costs[1:] * everywhere).sum(axis=(1, 2)) - thresholds + margin))
    share = 0.5 if excess <= 2 * margin else margin / excess
    return (1.0 - share) * balanced(occupancy, matrix)[0] + share * everywhere


def balanced(mu: Floats, matrix: sparse.csr_array, support: float = SUPPORT) -> tuple[Floats, list[Ints]]:
    """mu cleaned of rounding: the exact occupancy of its ratio policy on each recurrent class of its support."""
    mu = np.where(mu > support, mu, 0.0)
    mass = mu.sum(axis=1)
    states = np.flatnonzero(mass)
    policy = ratio(mu)
    chain = policy_chain(matrix, policy)[states][:, states]
    flow = chain * mass[states][:, np.newaxis]
    # Flows of the size of rounding connect nothing: the program could not see them.
    groups = closed_classes(sparse.csr_array(flow > support, dtype=np.float64))
    exact = np.zeros(len(mass))
    for group in groups:
        exact[states[group]] = stationary_law(chain[group][:, group]) * mass[states[group]].sum()
    return policy * (exact / exact.sum())[:, np.newaxis], [states[group] for group in groups]


def complete(mu: Floats, matrix: Floats | sparse.csr_array, uncut: Floats | sparse.csr_array) -> tuple[Floats, bool]:
    """The ratio policy of mu, led into its support from elsewhere; and whether that was possible everywhere."""
    policy = ratio(mu)
    lost = mu.sum(axis=1) == 0
    if not lost.any():
        return policy, True
    for model in (matrix, uncut):
        _, actions = fastest_way(sparse.csr_array(model), ~lost)
        found = np.flatnonzero(lost & (actions >= 0))
        policy[found] = 0.0
        policy[found, actions[found]] = 1.0
        lost[found] = False
        if not lost.any() or matrix is uncut:
            break
    return policy, not bool(lost.any())


def ratio(mu: Floats) -> Floats:
    """mu(s, a) / mu(s) where there is mass, uniform elsewhere."""
    mass = mu.sum(axis=1, keepdims=True)
    return np.divide(mu, mass, out=np.full(mu.shape, 1.0 / mu.shape[1]), where=mass > 0)
