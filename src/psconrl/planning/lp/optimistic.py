"""The linear program of optimistic planning, the reference: UCRL-CMDP's program in q(s, a, s').

UCRL-CMDP asks for the minimum over (mu, p') of sum mu c_0, with p' in the set

    l(s, a, s') <= p'(s' | s, a) <= u(s, a, s'),     l = max(0, p_hat - radius),  u = min(1, p_hat + radius)

which is bilinear in (mu, p'). In q(s, a, s') = mu(s, a) p'(s' | s, a) it is linear: what leaves a state enters
it, q sums to one, costs are linear in mu = sum_s' q, and p' in the set reads l mu <= q <= u mu. Conversely a
feasible q gives p' = q / mu. Here q = l mu + w, which saves rows:

    0 <= w(s, a, s') <= (u - l)(s, a, s') mu(s, a),     sum_s' w(s, a, s') = (1 - sum_s' l(s, a, s')) mu(s, a)

and the upper bound is left out wherever the sum implies it.
"""

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from psconrl._core.checks import Floats, Ints
from psconrl.planning.intervals import Intervals
from psconrl.planning.lp.highs import LinearProgram
from psconrl.planning.lp.occupancy import OccupancyProgram, with_margin


def optimistic_program(
    rows: Intervals, source: Ints, costs: Floats, thresholds: Floats, measure: Floats
) -> OccupancyProgram:
    """The linear program of a set of rows (K, S), pairs of the states `source` (K,), with costs (m + 1, K).

    Columns: mu (K), w (the free entries), gamma if there are constraints: limit i is tightened by measure[i] * gamma.
    """
    (pairs, S), m = rows.lower.shape, len(thresholds)
    lower = rows.lower
    rest = 1.0 - lower.sum(axis=1)
    pair, state = np.nonzero(rows.free)
    width = (rows.upper - rows.lower)[pair, state]
    bounded = np.flatnonzero(width < rest[pair])
    free = len(pair)

    def entries(values: ArrayLike, row: ArrayLike, column: ArrayLike, shape: tuple[int, int]) -> sparse.csr_array:
        return sparse.csr_array((np.asarray(values), (np.asarray(row), np.asarray(column))), shape=shape)

    each, ones = np.arange(pairs), np.ones(pairs)
    out_of = entries(ones, source, each, (S, pairs))
    balance = [out_of - sparse.csr_array(lower.T), -entries(np.ones(free), state, np.arange(free), (S, free))]
    sums = [-sparse.diags_array(rest), entries(np.ones(free), pair, np.arange(free), (pairs, free))]
    count = len(bounded)
    bounds = [
        -entries(width[bounded], np.arange(count), pair[bounded], (count, pairs)),
        entries(np.ones(count), np.arange(count), bounded, (count, free)),
    ]
    blocks: list[list[sparse.sparray | None]] = [
        balance,
        sums,
        bounds,
        [sparse.csr_array(np.ones((1, pairs))), None],
        [sparse.csr_array(costs[1:]), None],
    ]
    if m:
        for block in blocks[:-1]:
            block.append(None)
        blocks[-1].append(sparse.csr_array(measure[:, np.newaxis]))
    matrix = sparse.csc_array(sparse.block_array(blocks, format="csc"))
    equal, below = np.zeros(S + pairs), np.zeros(count)
    value = LinearProgram(
        cost=np.concatenate([costs[0], np.zeros(free + (m > 0))]),
        matrix=matrix,
        row_lower=np.concatenate([equal, np.full(count, -np.inf), [1.0], np.full(m, -np.inf)]),
        row_upper=np.concatenate([equal, below, [1.0], thresholds]),
        col_lower=np.zeros(matrix.shape[1]),
        col_upper=np.full(matrix.shape[1], np.inf),
    )
    return with_margin(value, costs, thresholds, measure)
