"""The best policy over all models in an element-wise confidence set, exactly.

UCRL-CMDP asks for the minimum over (mu, p') of sum mu c_0, with p' in the set

    l(s, a, s') <= p'(s' | s, a) <= u(s, a, s'),     l = max(0, p_hat - radius),  u = min(1, p_hat + radius)

which is bilinear in (mu, p'). In q(s, a, s') = mu(s, a) p'(s' | s, a) it is linear: what leaves a state enters
it, q sums to one, costs are linear in mu = sum_s' q, and p' in the set reads l mu <= q <= u mu. Conversely a
feasible q gives p' = q / mu. Here q = l mu + w, which saves rows:

    0 <= w(s, a, s') <= (u - l)(s, a, s') mu(s, a),     sum_s' w(s, a, s') = (1 - sum_s' l(s, a, s')) mu(s, a)

and the upper bound is left out wherever the sum implies it. Pairs that are not used get the member of the set
nearest to p_hat.
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from psconrl import _checks
from psconrl._checks import Bools, Floats
from psconrl.cmdp import CMDP
from psconrl.errors import InvalidModelError
from psconrl.planning.highs import LinearProgram, Vertex
from psconrl.planning.known import JOIN, Optimum, Scope
from psconrl.planning.policy import SUPPORT
from psconrl.planning.program import (
    OccupancyProgram,
    best_vertex,
    largest_margin,
    program_conflict,
    with_margin,
)
from psconrl.planning.solution import Solution


def solve_optimistic(
    p_hat: ArrayLike,
    radius: ArrayLike,
    costs: ArrayLike,
    thresholds: ArrayLike = (),
    *,
    initial: int | ArrayLike = 0,
    join: float = JOIN,
) -> Solution:
    """The best policy, and the model it believes in, over all transitions within `radius` of p_hat.

    Args:
        p_hat: (S, A, S), the centre of the set; rows need not be distributions (zeros for pairs never seen).
        radius: (S, A) or (S, A, S), how far each entry may be from it.
        costs: (m + 1, S, A); thresholds: (m,).
        initial: start state or law, for `average_costs`.
        join: weight of the rare moves that join several recurrent classes.

    Returns:
        A Solution whose numbers hold in `.transitions` (S, A, S), the model believed in; but for a positive
        margin, which is the largest over all models of the set.

    Raises:
        InvalidModelError: (a ValueError) naming the first pair (s, a) whose set is empty.
    """
    intervals = Intervals.around(p_hat, radius)
    nearest = intervals.nearest()
    # Checks costs, thresholds and initial; the transitions are replaced by those believed in.
    frame = CMDP(nearest, costs, thresholds, initial=initial)
    program = _program(intervals, frame.costs, frame.thresholds)
    margin, safest = largest_margin(program)
    vertex = safest if margin < 0 and safest is not None else best_vertex(program, safest)
    mu = _occupancy(vertex, frame)
    believed = frame.replace(transitions=intervals.believed(mu, vertex.x[mu.size :], nearest))
    optimum = Optimum(
        margin,
        np.nan if margin < 0 else vertex.objective,
        mu,
        None,
        np.full(frame.m, np.nan) if margin < 0 else (-vertex.row_duals[program.constraint_rows]).clip(0.0),
        program_conflict(program, margin, safest),
    )
    scope = replace(Scope.of(believed), states=np.arange(frame.S), start=None)
    return replace(scope.execute(optimum, join)[0], transitions=believed.transitions)


@dataclass(frozen=True, eq=False)
class Intervals:
    """The confidence set: l <= p' <= u, all (S, A, S), around a centre."""

    center: Floats
    lower: Floats
    upper: Floats

    @staticmethod
    def around(p_hat: ArrayLike, radius: ArrayLike) -> "Intervals":
        """The set of all transitions within `radius` of p_hat, checked."""
        center, r = _checks.numbers(p_hat, "p_hat"), _checks.numbers(radius, "radius")
        if center.ndim != 3 or center.shape[0] != center.shape[2]:
            raise InvalidModelError(f"p_hat has shape {center.shape}; it must be (S, A, S)")
        if r.shape not in (center.shape[:2], center.shape):
            raise InvalidModelError(f"radius has shape {r.shape}; it must be (S, A) = {center.shape[:2]} or (S, A, S)")
        _checks.finite(center, "p_hat", "leave pairs never seen at zero, with radius 1")
        bad = ~(r >= 0)
        if bad.any():
            at = tuple(int(i) for i in np.argwhere(bad)[0])
            raise InvalidModelError(f"radius{list(at)} is {r[at]}; it must be >= 0")
        if r.ndim == 2:
            r = r[:, :, np.newaxis]
        lower, upper = np.clip(center - r, 0.0, 1.0), np.clip(center + r, 0.0, 1.0)
        slack = 1e-9
        empty = (lower.sum(axis=2) > 1 + slack) | (upper.sum(axis=2) < 1 - slack)
        if empty.any():
            s, a = (int(i) for i in np.argwhere(empty)[0])
            raise InvalidModelError(
                f"no distribution lies within the radius of p_hat[{s}, {a}]: lower ends sum to "
                f"{lower[s, a].sum():.6g}, upper ends to {upper[s, a].sum():.6g}; make p_hat a distribution or "
                "enlarge the radius (pairs never seen: radius 1)"
            )
        return Intervals(center, lower, upper)

    def nearest(self) -> Floats:
        """The members (S, A, S) with the least Euclidean distance to the centre: clip(centre + shift)."""
        low = np.full(self.center.shape[:2], -1.0) - np.abs(self.center).max()
        high = -low
        for _ in range(200):
            shift = (low + high) / 2
            short = np.clip(self.center + shift[:, :, np.newaxis], self.lower, self.upper).sum(axis=2) < 1
            low, high = np.where(short, shift, low), np.where(short, high, shift)
        p = np.clip(self.center + high[:, :, np.newaxis], self.lower, self.upper)
        exact = np.abs(self.center.sum(axis=2) - 1) < 1e-12
        p[exact] = np.clip(self.center, self.lower, self.upper)[exact]
        return np.asarray(p / p.sum(axis=2, keepdims=True))

    def believed(self, mu: Floats, w: Floats, otherwise: Floats) -> Floats:
        """The transitions q / mu = l + w / mu of the pairs that are used; those of `otherwise` elsewhere."""
        free = np.zeros_like(self.lower)
        free[self.free] = w[: np.count_nonzero(self.free)].clip(0.0)
        used = mu > SUPPORT
        p = otherwise.copy()
        p[used] = self.lower[used] + free[used] / mu[used][:, np.newaxis]
        p = np.clip(p, self.lower, self.upper)
        return np.asarray(p / p.sum(axis=2, keepdims=True))

    @property
    def free(self) -> Bools:
        """The entries (S, A, S) that can vary."""
        return self.upper > self.lower


def _occupancy(vertex: Vertex, frame: CMDP) -> Floats:
    return vertex.x[: frame.S * frame.A].reshape(frame.S, frame.A).clip(0.0)


def _program(intervals: Intervals, costs: Floats, thresholds: Floats) -> OccupancyProgram:
    """The linear program; columns: mu (S * A), w (the free entries), gamma if there are constraints."""
    S, A, _ = intervals.lower.shape
    pairs, m = S * A, len(thresholds)
    lower = intervals.lower.reshape(pairs, S)
    rest = 1.0 - lower.sum(axis=1)
    pair, state = np.nonzero(intervals.free.reshape(pairs, S))
    width = (intervals.upper - intervals.lower).reshape(pairs, S)[pair, state]
    bounded = np.flatnonzero(width < rest[pair])
    free = len(pair)

    def rows(values: ArrayLike, row: ArrayLike, column: ArrayLike, shape: tuple[int, int]) -> sparse.csr_array:
        return sparse.csr_array((np.asarray(values), (np.asarray(row), np.asarray(column))), shape=shape)

    each, ones = np.arange(pairs), np.ones(pairs)
    out_of = rows(ones, np.repeat(np.arange(S), A), each, (S, pairs))
    balance = [out_of - sparse.csr_array(lower.T), -rows(np.ones(free), state, np.arange(free), (S, free))]
    sums = [-sparse.diags_array(rest), rows(np.ones(free), pair, np.arange(free), (pairs, free))]
    count = len(bounded)
    bounds = [
        -rows(width[bounded], np.arange(count), pair[bounded], (count, pairs)),
        rows(np.ones(count), np.arange(count), bounded, (count, free)),
    ]
    blocks: list[list[sparse.sparray | None]] = [
        balance,
        sums,
        bounds,
        [sparse.csr_array(np.ones((1, pairs))), None],
        [sparse.csr_array(costs[1:].reshape(m, pairs)), None],
    ]
    if m:
        for block in blocks[:-1]:
            block.append(None)
        blocks[-1].append(sparse.csr_array(np.ones((m, 1))))
    matrix = sparse.csc_array(sparse.block_array(blocks, format="csc"))
    equal, below = np.zeros(S + pairs), np.zeros(count)
    value = LinearProgram(
        cost=np.concatenate([costs[0].ravel(), np.zeros(free + (m > 0))]),
        matrix=matrix,
        row_lower=np.concatenate([equal, np.full(count, -np.inf), [1.0], np.full(m, -np.inf)]),
        row_upper=np.concatenate([equal, below, [1.0], thresholds]),
        col_lower=np.zeros(matrix.shape[1]),
        col_upper=np.full(matrix.shape[1], np.inf),
    )
    return with_margin(value, costs, thresholds, S, A)
