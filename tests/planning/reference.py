"""Plain twins of the planner: linear programs put together here and solved by scipy; dual bounds; random models."""

from dataclasses import dataclass

import numpy as np
from scipy import sparse
from scipy.optimize import linprog

from psconrl._core.checks import Floats
from psconrl._core.graph import is_communicating
from psconrl.cmdp import CMDP
from psconrl.planning import BestPolicy, best_policy
from psconrl.planning.compiled.rows import Rows
from psconrl.planning.for_agents import Method, Start
from psconrl.planning.lp.highs import run
from psconrl.planning.lp.occupancy import OccupancyProgram, occupancy_program


@dataclass(frozen=True)
class Answer:
    """margin: +inf without constraints; value: nan if infeasible."""

    margin: float
    value: float


def by_linprog(cmdp: CMDP, stateless: bool | None = None, method: str = "highs-ds") -> Answer:
    """Margin and value by scipy's dual simplex, or by its interior points ("highs-ipm").

    The stateless program of a communicating model (or if told so), else the multichain program of the whole
    model from its initial law.
    """
    S, A, m = cmdp.S, cmdp.A, cmdp.m
    n = S * A
    balance = np.repeat(np.eye(S), A, axis=1) - cmdp.matrix.toarray().T
    if is_communicating(cmdp.matrix) if stateless is None else stateless:
        equal, right, extra = np.vstack([balance, np.ones((1, n))]), np.append(np.zeros(S), 1.0), 0
    else:
        routed = np.hstack([np.repeat(np.eye(S), A, axis=1), balance])
        equal = np.vstack([np.hstack([balance, np.zeros((S, n))]), routed])
        right, extra = np.append(np.zeros(S), cmdp.initial), n
    spent = np.hstack([cmdp.costs[1:].reshape(m, n), np.zeros((m, extra))])
    least = _least(np.append(cmdp.costs[0].ravel(), np.zeros(extra)), spent, cmdp.thresholds, equal, right, method)
    if m == 0:
        return Answer(np.inf, least)
    spent = np.hstack([spent, np.ones((m, 1))])
    equal = np.hstack([equal, np.zeros((len(equal), 1))])
    margin = -_least(np.append(np.zeros(n + extra), -1.0), spent, cmdp.thresholds, equal, right, method, free_last=True)
    return Answer(margin, least)


def _least(
    cost: Floats, spent: Floats, limits: Floats, equal: Floats, right: Floats, method: str, *, free_last: bool = False
) -> float:
    """min cost x with spent x <= limits, equal x = right, x >= 0 (but for the last, if free); nan if infeasible.

    Where scipy fails with the tight tolerances, its default settings are tried.
    """
    bounds = [(0, None)] * (len(cost) - 1) + [(None, None) if free_last else (0, None)]
    tight = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10, "presolve": False}
    for options in (tight, {}):
        found = linprog(
            cost,
            A_ub=sparse.csr_array(spent) if len(limits) else None,
            b_ub=limits if len(limits) else None,
            A_eq=sparse.csr_array(equal),
            b_eq=right,
            bounds=bounds,
            method=method,
            options=options,
        )
        if found.status in (0, 2):
            break
    return float(found.fun) if found.status == 0 else float("nan")


def lower_bound(cmdp: CMDP, multipliers: Floats, v: Floats) -> float:
    """min over pairs of c_0 + lambda (c - tau) + sum_s' p(s') (v(s') - v(s)).

    Whatever lambda >= 0 and v are, no policy that meets the limits has a smaller average: under its occupancy
    the last term averages to zero and lambda (c - tau) to at most zero.
    """
    costs, tau, high = cmdp.costs.astype(np.longdouble), cmdp.thresholds, v.astype(np.longdouble)
    priced = costs[0] + np.einsum("i,isa->sa", multipliers, costs[1:] - tau[:, np.newaxis, np.newaxis])
    pair = np.repeat(np.arange(cmdp.S * cmdp.A), np.diff(cmdp.matrix.indptr))
    gained = cmdp.matrix.data * (high[cmdp.matrix.indices] - high[pair // cmdp.A])
    total = priced.ravel()
    np.add.at(total, pair, gained)
    return float(total.min())


def certified_value(cmdp: CMDP, multipliers: Floats) -> float:
    """The lower bound on the value that these multipliers prove."""
    excess = cmdp.costs[1:] - cmdp.thresholds[:, np.newaxis, np.newaxis]
    priced = cmdp.costs[0] + np.einsum("i,isa->sa", multipliers, excess)
    program = occupancy_program(Rows.from_sparse(cmdp.matrix), priced.reshape(1, -1), np.zeros(0))
    return lower_bound(cmdp, multipliers, run(program.value).row_duals[: cmdp.S])


def program_of(cmdp: CMDP) -> OccupancyProgram:
    """The stateless linear program of a model."""
    return occupancy_program(Rows.from_sparse(cmdp.matrix), cmdp.costs.reshape(cmdp.m + 1, -1), cmdp.thresholds)


def certified_margin(cmdp: CMDP) -> float:
    """An upper bound on the margin: with weights on the constraints, the least weighted excess of any policy."""
    program = program_of(cmdp)
    weights = (-run(program.margin).row_duals[program.constraint_rows]).clip(0.0)
    excess = cmdp.replace(costs=np.concatenate([np.zeros((1, cmdp.S, cmdp.A)), cmdp.costs[1:]]))
    return -certified_value(excess, weights / weights.sum())


def fast_plan(cmdp: CMDP, join: float, start: Start | None = None, method: Method = "compiled") -> BestPolicy:
    """The fast planner's answer for a model."""
    transitions = cmdp.matrix.toarray().reshape(cmdp.S, cmdp.A, cmdp.S)
    return best_policy(transitions, cmdp.costs, cmdp.thresholds, join=join, start=start, method=method)


def cut_rows(p: Floats) -> Floats:
    """Rows without entries below 1e-9, renormalised."""
    p = np.where(p < 1e-9, 0.0, p)
    return np.asarray(p / p.sum(axis=-1, keepdims=True))


def random_cmdp(rng: np.random.Generator) -> CMDP:
    """Up to 60 states and 4 constraints; dense and sparse, nearly deterministic rows, feasible or not.

    Of ten models, six have Dirichlet rows, two have one to three successors per pair, two fall into parts
    with no way back.
    """
    S, A, m = int(2 + 59 * rng.random() ** 2), int(rng.integers(1, 5)), int(rng.integers(0, 5))
    kind = rng.integers(10)
    if kind < 6:
        p = cut_rows(rng.dirichlet(np.full(S, rng.choice([0.01, 0.05, 1.0])), size=(S, A)))
    else:
        p = np.zeros((S, A, S))
        for s, a in np.ndindex(S, A):
            part = S if kind < 8 or (s < S // 2 and a == 0) else (s + S // 2 < S) * (S // 2)
            inside = np.arange(part) if part else np.arange(S // 2, S)
            ends = rng.choice(inside, size=min(len(inside), int(rng.integers(1, 4))), replace=False)
            p[s, a, ends] = rng.dirichlet(np.ones(len(ends)))
        p = cut_rows(p)
    costs = rng.random((m + 1, S, A))
    if rng.random() < 0.3:
        costs = np.round(costs)
    tau = rng.uniform(0.25, 0.65, size=m)
    start = int(rng.integers(S)) if rng.random() < 0.7 else rng.dirichlet(np.ones(S))
    transitions = sparse.csr_array(p.reshape(S * A, S)) if rng.random() < 0.5 else p
    return CMDP(transitions, costs, tau, initial=start)


def random_cmdps(count: int, entropy: int) -> list[CMDP]:
    return [random_cmdp(np.random.default_rng(s)) for s in np.random.SeedSequence(entropy).spawn(count)]


def river(S: int) -> CMDP:
    """RiverSwim: swimming up succeeds with 0.35, fails with 0.05; swimming costs strength, of which there is 0.3."""
    p = np.zeros((S, 2, S))
    p[np.arange(S), 0, np.maximum(np.arange(S) - 1, 0)] = 1
    for s in range(S):
        p[s, 1, min(s + 1, S - 1)] += 0.35
        p[s, 1, max(s - 1, 0)] += 0.05
        p[s, 1, s] += 0.6
    costs = np.ones((2, S, 2))
    costs[0, 0, 0], costs[0, -1, 1] = 0.995, 0
    costs[1, :, 0] = 0
    return CMDP(p, costs, [0.3])
