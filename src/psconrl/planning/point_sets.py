"""Confidence sets without a radius: pairs whose transitions are known, and pairs of which nothing is.

Then the best policy over all models of the set is the best policy of one model, in which a pair of which nothing is
known is there once for every state, and leads to it surely: whatever such a pair is believed to do, a mixture of these
does.
"""

from __future__ import annotations

import numpy as np

from psconrl._core.checks import Bools, Floats, Ints
from psconrl.planning.compiled.rows import Rows
from psconrl.planning.for_agents import BestPolicy, Steer, plan_rows


def best_of_points(
    center: Floats,
    radius: Floats,
    costs: Floats,
    thresholds: Floats,
    *,
    join: float,
    begin: Ints,
    steer: Steer | None = None,
) -> BestPolicy | None:
    """The best policy (K,) over all models around a centre (K, S), costs (m + 1, K); None if a radius is in between.

    radius (K,): 0, where rows of the centre are distributions, or at least 1. begin (S + 1,): the pairs of the states.
    """
    known = (radius == 0) & (np.abs(center.sum(axis=1) - 1) <= 1e-9)
    if not (known | (radius >= 1)).all():
        return None
    rows, pair = _every_end(center, known, begin)
    best = plan_rows(rows, costs[:, pair], thresholds, join=join, steer=steer)
    if best.policy is None:
        return best
    steered = best.steered
    if steered is not None:
        steered = steered._replace(
            actions=_own(steered.actions, rows, pair, begin), transfers=_own(steered.transfers, rows, pair, begin)
        )
    return best._replace(policy=np.bincount(pair, best.policy, len(center)).astype(np.float64), steered=steered)


def _every_end(center: Floats, known: Bools, begin: Ints) -> tuple[Rows, Ints]:
    """The model in which pairs that are not known are there once for every end; and which pair each of its own is."""
    K, S = center.shape
    pair = np.repeat(np.arange(K), np.where(known, 1, S))
    many = np.where(known, np.count_nonzero(center > 0, axis=1), 1)[pair]
    indptr = np.append(0, np.cumsum(many))
    sure = np.repeat(known[pair], many)
    indices, data = np.empty(len(sure), dtype=np.int64), np.ones(len(sure))
    at, indices[sure] = np.nonzero(center[known] > 0)
    data[sure] = center[known][at, indices[sure]]
    indices[~sure] = np.tile(np.arange(S), np.count_nonzero(~known))
    return Rows(np.searchsorted(pair, begin), indptr, indices, data), pair


def _own(actions: Ints, rows: Rows, pair: Ints, begin: Ints) -> Ints:
    """Actions (n, S), or -1, of the larger model as those of the pairs that they are."""
    taken = pair[np.minimum(rows.begin[:-1] + np.maximum(actions, 0), rows.K - 1)] - begin[:-1]
    return np.where(actions >= 0, taken, -1)
