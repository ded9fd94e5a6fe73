"""From a problem to a model of some of its states, and back; `sampled_model` explains the numbering.

What comes back is plain: named tuples take longer to be made than some of this to be computed.
"""

from typing import NamedTuple

import numpy as np

from psconrl._core.checks import Floats, Ints
from psconrl._core.njit import njit
from psconrl.planning.compiled.rows import Rows


class WarmStart(NamedTuple):
    """A start of the planner in the numbers of the problem: state s at s + 1, the one for all others at 0.

    policies (k, width), paths (width,): actions, -1 for none. bias (width,). reference (1,).
    """

    policies: Ints
    reference: Ints
    bias: Floats
    paths: Ints


@njit
def fold_costs(costs: Floats, pairs: Ints) -> Floats:
    """The costs (m + 1, S, A) of the pairs of a model; those of pair -1 are 0."""
    A = costs.shape[2]
    folded = np.zeros((len(costs), len(pairs)))
    for i in range(len(costs)):
        for k in range(len(pairs)):
            if pairs[k] >= 0:
                folded[i, k] = costs[i, pairs[k] // A, pairs[k] % A]
    return folded


@njit
def fold_start(start: WarmStart, rows: Rows, states: Ints, pairs: Ints, A: int) -> tuple[Ints, Ints, Floats, Ints]:
    """A start in the numbers of a model, as fields of `WarmStart`; where it says nothing of a state, its first pair."""
    K, width = len(states), start.policies.shape[1]
    policies = np.empty((len(start.policies), K), dtype=np.int64)
    bias, paths, reference = np.zeros(K), np.full(K, -1), np.zeros(1, dtype=np.int64)
    for i in range(K):
        s = states[i] + 1
        for k in range(len(policies)):
            policies[k, i] = rows.begin[i]
        if s < width:
            for k in range(len(policies)):
                policies[k, i] = max(_pair(rows, pairs, i, start.policies[k, s], A), rows.begin[i])
            paths[i] = _pair(rows, pairs, i, start.paths[s], A)
            bias[i] = start.bias[s]
        if s == start.reference[0]:
            reference[0] = i
    return policies, reference, bias, paths


@njit
def _pair(rows: Rows, pairs: Ints, i: int, action: int, A: int) -> int:
    """The pair of state i of a model with an action of the problem; -1 if there is none."""
    for pair in range(rows.begin[i], rows.begin[i + 1]):
        if max(pairs[pair], 0) % A == action:
            return pair
    return -1


@njit
def unfold_policy(policy: Floats, pairs: Ints, whole: Floats) -> None:
    """Write the policy of a model, by pairs, into that of the problem (S, A)."""
    A = whole.shape[1]
    for k in range(len(pairs)):
        if pairs[k] >= 0:
            whole[pairs[k] // A, pairs[k] % A] = policy[k]


@njit
def unfold_start(
    start: WarmStart, last: WarmStart, states: Ints, pairs: Ints, S: int, A: int
) -> tuple[Ints, Ints, Floats, Ints]:
    """A start of a model in the numbers of the problem, as fields of `WarmStart`.

    Of states that are not in the model it says what the last one said.
    """
    k = len(start.policies)
    policies, paths, bias = np.zeros((k, S + 1), dtype=np.int64), np.full(S + 1, -1), np.zeros(S + 1)
    for s in range(min(S + 1, last.policies.shape[1])):
        bias[s], paths[s] = last.bias[s], last.paths[s]
        for j in range(k):
            policies[j, s] = last.policies[0, s]
    for i in range(len(states)):
        s = states[i] + 1
        bias[s] = start.bias[i]
        paths[s] = max(pairs[start.paths[i]], 0) % A if start.paths[i] >= 0 else -1
        for j in range(k):
            policies[j, s] = max(pairs[start.policies[j, i]], 0) % A
    reference = np.empty(1, dtype=np.int64)
    reference[0] = states[start.reference[0]] + 1
    return policies, reference, bias, paths
