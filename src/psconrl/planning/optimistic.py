"""The best policy over all models in an element-wise confidence set, exactly.

UCRL-CMDP asks for the minimum over (mu, p') of sum mu c_0, with p' in the set

    l(s, a, s') <= p'(s' | s, a) <= u(s, a, s'),     l = max(0, p_hat - radius),  u = min(1, p_hat + radius)

which is bilinear in (mu, p'). In q(s, a, s') = mu(s, a) p'(s' | s, a) it is linear: what leaves a state enters
it, q sums to one, costs are linear in mu = sum_s' q, and p' in the set reads l mu <= q <= u mu. Conversely a
feasible q gives p' = q / mu. Here q = l mu + w, which saves rows:

    0 <= w(s, a, s') <= (u - l)(s, a, s') mu(s, a),     sum_s' w(s, a, s') = (1 - sum_s' l(s, a, s')) mu(s, a)

and the upper bound is left out wherever the sum implies it. Pairs that are not used get the member of the set
nearest to p_hat.

That program is the reference method, "highs". The default, "compiled", generates columns, policies in models of the
set, see `_optimistic_kernels`; each answer carries a proven gap, and where that exceeds PROVEN the reference method
solves again.
"""

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from psconrl import _checks
from psconrl._checks import Bools, Floats, Ints
from psconrl.cmdp import CMDP
from psconrl.errors import InvalidArgumentError, InvalidModelError
from psconrl.planning.highs import LinearProgram
from psconrl.planning.known import JOIN, Optimum, Scope
from psconrl.planning.policy import SUPPORT
from psconrl.planning.program import (
    FEASIBLE,
    OccupancyProgram,
    best_vertex,
    conflict,
    largest_margin,
    program_conflict,
    with_margin,
)
from psconrl.planning.solution import Solution

PROVEN = 1e-8
"""Largest gap of a compiled answer, where the costs' range is one; the reference method solves again above it."""

Method = Literal["compiled", "highs"]


def solve_optimistic(
    p_hat: ArrayLike,
    radius: ArrayLike,
    costs: ArrayLike,
    thresholds: ArrayLike = (),
    *,
    initial: int | ArrayLike = 0,
    join: float = JOIN,
    method: Method = "compiled",
) -> Solution:
    """The best policy, and the model it believes in, over all transitions within `radius` of p_hat.

    Args:
        p_hat: (S, A, S), the centre of the set; rows need not be distributions (zeros for pairs never seen).
        radius: (S, A) or (S, A, S), how far each entry may be from it.
        costs: (m + 1, S, A); thresholds: (m,).
        initial: start state or law, for `average_costs`.
        join: weight of the rare moves that join several recurrent classes.
        method: "compiled", or "highs" for the linear program itself, which is slower and agrees.

    Returns:
        A Solution whose numbers hold in `.transitions` (S, A, S), the model believed in; but for a positive
        margin, which is the largest over all models of the set.

    Raises:
        InvalidModelError: (a ValueError) naming the first pair (s, a) whose set is empty.
    """
    if method not in ("compiled", "highs"):
        raise InvalidArgumentError(f'method is {method!r}; it must be "compiled" or "highs"')
    intervals = Intervals.around(p_hat, radius)
    # Checks costs, thresholds and initial; the transitions are replaced by those believed in.
    frame = CMDP(intervals.nearest(), costs, thresholds, initial=initial)
    found = _by_columns(intervals, frame) if method == "compiled" else None
    optimum, transitions = _by_program(intervals, frame) if found is None else found
    believed = frame.replace(transitions=transitions)
    scope = replace(Scope.of(believed), states=np.arange(frame.S), start=None)
    return replace(scope.execute(optimum, join)[0], transitions=believed.transitions)


@dataclass(frozen=True, eq=False)
class OptimisticPolicy:
    """The optimistic policy (S, A), or the news that the limits cannot be met in any model of the set.

    policy: None if infeasible; gap: proven distance from the optimum, nan if the linear program solved it;
    columns (n, 2, 1, S) and way (S,): what the next call may start from.
    """

    feasible: bool
    policy: Floats | None
    value: float
    multipliers: Floats
    connected: bool
    classes: int
    gap: float
    columns: Ints
    way: Ints

    @property
    def fallback(self) -> bool:
        """Whether the linear program had to solve it."""
        return bool(np.isnan(self.gap))


def best_optimistic(
    p_hat: Floats,
    radius: Floats,
    costs: Floats,
    thresholds: Floats,
    *,
    join: float,
    columns: Ints | None = None,
    way: Ints | None = None,
) -> OptimisticPolicy:
    """The fast way to an optimistic policy, for callers that plan often: no margin, no diagnosis, nothing checked.

    p_hat (S, A, S), radius (S, A). A pure function of its arguments; columns and way: what an earlier answer of
    the same size gave; they save most of the work and change the answer only where several are optimal.
    """
    from psconrl.planning._believed_kernels import believed, model_around
    from psconrl.planning._master_kernels import VALUE
    from psconrl.planning._optimistic_kernels import FAILED, INFEASIBLE, optimise, used_columns
    from psconrl.planning._plan_kernels import execute
    from psconrl.planning._set_kernels import around

    S, A, _ = p_hat.shape
    columns = np.zeros((0, 2, 1, S), dtype=np.int64) if columns is None else columns
    way = np.full(S, -1, dtype=np.int64) if way is None else way
    # Kernels are compiled once for arrays that can be written to, and again for those that cannot: hence copies.
    costs, thresholds = np.array(costs), np.array(thresholds)
    center = p_hat.reshape(S * A, S)
    within = around(center, radius.ravel())
    found = optimise(within, costs, thresholds, columns, VALUE, None, 0)
    if found.status != FAILED:
        columns = used_columns(found)
    if found.status == INFEASIBLE:
        nothing = np.full(len(thresholds), np.nan)
        return OptimisticPolicy(False, None, np.nan, nothing, True, 0, found.gap, columns, way)
    proven = found.status != FAILED and found.gap <= PROVEN * max(1.0, float(np.ptp(costs)))
    if proven:
        p = np.zeros((S * A, S))
        mu = believed(within, costs, found, p)
        for cut in (True, False):
            single, connected, policy, actions = execute(mu, *model_around(mu, p, within, center, cut), way, SUPPORT)
            if connected or not single:
                break
        if single:
            way = np.where(actions >= 0, actions, way)
            return OptimisticPolicy(True, policy, found.objective, found.prices, connected, 1, found.gap, columns, way)
    method: Method = "compiled" if proven else "highs"
    solved = solve_optimistic(p_hat, radius, costs, thresholds, join=join, method=method)
    return OptimisticPolicy(
        solved.feasible,
        solved.policy if solved.feasible else None,
        solved.value,
        solved.multipliers,
        solved.connected,
        solved.classes,
        found.gap if proven else np.nan,
        columns,
        way,
    )


def _by_columns(intervals: "Intervals", frame: CMDP) -> tuple[Optimum, Floats] | None:
    """The optimum and the model believed in by generating columns; None if it could not be proven."""
    from psconrl.planning import _optimistic_kernels as kernels
    from psconrl.planning._believed_kernels import believed
    from psconrl.planning._master_kernels import MARGIN, VALUE
    from psconrl.planning._set_kernels import between

    S, A, m = frame.S, frame.A, frame.m
    within = between(intervals.lower.reshape(S * A, S), intervals.upper.reshape(S * A, S))
    enough = PROVEN * max(1.0, float(np.ptp(frame.costs)))
    costs, thresholds = np.array(frame.costs), np.array(frame.thresholds)  # kernels are compiled for writable arrays

    def best(c: Floats, tau: Floats, goal: int, start: Ints) -> kernels.Optimum | None:
        found = kernels.optimise(within, c, tau, start, goal, None, 0)
        return found if found.status == kernels.OPTIMAL and found.gap <= enough else None

    start = np.zeros((0, 2, 1, S), dtype=np.int64)
    margin = np.inf
    cannot_hold: tuple[int, ...] = ()
    found = None
    if m:
        found = best(costs, thresholds, MARGIN, start)
        if found is None:
            return None
        margin = -found.objective
        margin = 0.0 if -FEASIBLE <= margin < 0 else margin
        start = kernels.used_columns(found)
    if margin < 0:
        assert found is not None

        def margin_of(tau: Floats) -> float:
            limited = np.isfinite(tau)
            safest = best(costs[np.append(True, limited)], tau[limited], MARGIN, start)
            return 0.0 if safest is None else -safest.objective

        value, multipliers = np.nan, np.full(m, np.nan)
        cannot_hold = conflict(found.prices, thresholds, margin_of)
    else:
        found = best(costs, thresholds, VALUE, start)
        if found is None:
            return None
        value, multipliers = found.objective, found.prices
    p = frame.matrix.toarray()
    mu = believed(within, costs, found, p)
    return Optimum(margin, value, mu, None, multipliers, cannot_hold), p.reshape(S, A, S)


def _by_program(intervals: "Intervals", frame: CMDP) -> tuple[Optimum, Floats]:
    """The optimum and the model believed in by the linear program."""
    program = _program(intervals, frame.costs, frame.thresholds)
    margin, safest = largest_margin(program)
    vertex = safest if margin < 0 and safest is not None else best_vertex(program, safest)
    mu = vertex.x[: frame.S * frame.A].reshape(frame.S, frame.A).clip(0.0)
    optimum = Optimum(
        margin,
        np.nan if margin < 0 else vertex.objective,
        mu,
        None,
        np.full(frame.m, np.nan) if margin < 0 else (-vertex.row_duals[program.constraint_rows]).clip(0.0),
        program_conflict(program, margin, safest),
    )
    return optimum, intervals.believed(mu, vertex.x[mu.size :], frame.to_dense().transitions)


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
        from psconrl.planning._set_kernels import nearest_members

        S = self.center.shape[2]
        rows = (array.reshape(-1, S) for array in (self.center, self.lower, self.upper))
        return nearest_members(*rows).reshape(self.center.shape)

    def believed(self, mu: Floats, w: Floats, otherwise: Floats) -> Floats:
        """The transitions q / mu = l + w / mu of the pairs that are used; those of `otherwise` elsewhere."""
        free = np.zeros_like(self.lower)
        free[self.free] = w[: np.count_nonzero(self.free)].clip(0.0)
        used = mu > SUPPORT
        p = otherwise.copy()
        p[used] = self.lower[used] + free[used] / mu[used][:, np.newaxis]
        p = np.clip(p, self.lower, self.upper)
        # A pair whose occupancy is rounding may have no flow at all.
        lost = p.sum(axis=2) < 0.5
        p[lost] = otherwise[lost]
        return np.asarray(p / p.sum(axis=2, keepdims=True))

    @property
    def free(self) -> Bools:
        """The entries (S, A, S) that can vary."""
        return self.upper > self.lower


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
