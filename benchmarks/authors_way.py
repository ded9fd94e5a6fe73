"""Planning and learning as the authors' public code does it, written anew: the yardstick of `bench.py`.

One linear program per plan, built variable by variable with PuLP and solved by CBC, and a Python loop over the steps.
"""

import numpy as np
import pulp

import psconrl
from psconrl._core.checks import Floats, Ints


def plan(p: Floats, costs: Floats, thresholds: Floats) -> tuple[float, Floats]:
    """Value and policy (S, A) of the occupancy program of a model (S, A, S); action 0 where there is no mass."""
    S, A, _ = p.shape
    problem = pulp.LpProblem("occupancy", pulp.LpMinimize)
    mu = [[pulp.LpVariable(f"mu_{s}_{a}", lowBound=0) for a in range(A)] for s in range(S)]
    pairs = [(s, a) for s in range(S) for a in range(A)]
    problem += pulp.lpSum(costs[0, s, a] * mu[s][a] for s, a in pairs)
    for x in range(S):
        into = pulp.lpSum(p[s, a, x] * mu[s][a] for s, a in pairs)
        problem += pulp.lpSum(mu[x]) - into == 0
    problem += pulp.lpSum(mu[s][a] for s, a in pairs) == 1
    for c, tau in zip(costs[1:], thresholds, strict=True):
        problem += pulp.lpSum(c[s, a] * mu[s][a] for s, a in pairs) <= tau
    problem.solve(pulp.PULP_CBC_CMD(msg=False))
    mass = np.array([[max(variable.value() or 0.0, 0.0) for variable in row] for row in mu])
    policy = np.zeros((S, A))
    policy[:, 0] = 1.0
    used = mass.sum(axis=1) > 0
    policy[used] = mass[used] / mass[used].sum(axis=1, keepdims=True)
    value = pulp.value(problem.objective)
    return np.nan if value is None else float(value), policy  # CBC fails on some of these programs


def learn(cmdp: psconrl.CMDP, horizon: int, seed: int, prior: float = 0.01) -> tuple[float, int]:
    """PSConRL with TSDE's episodes for some steps; the main costs paid and the number of plans made."""
    rng = np.random.default_rng(np.random.SeedSequence(seed))
    S, A = cmdp.S, cmdp.A
    transitions = np.asarray(cmdp.to_dense().transitions)
    counts: Ints = np.zeros((S, A, S), dtype=np.int64)
    sums = np.zeros((cmdp.m + 1, S, A))
    s, paid, plans, t, length = int(np.argmax(cmdp.initial)), 0.0, 0, 0, 0
    while t < horizon:
        before, limit, length = counts.sum(axis=2), length + 1, 0
        gammas = rng.standard_gamma(prior + counts) + 1e-300
        p = gammas / gammas.sum(axis=2, keepdims=True)
        _, policy = plan(p, sums / np.maximum(before, 1), cmdp.thresholds)
        plans += 1
        while t < horizon:
            a = int(rng.choice(A, p=policy[s] / policy[s].sum()))
            x = int(rng.choice(S, p=transitions[s, a]))
            sums[:, s, a] += cmdp.costs[:, s, a]
            paid += float(cmdp.costs[0, s, a])
            counts[s, a, x] += 1
            t, length = t + 1, length + 1
            done = length >= limit or counts[s, a].sum() > 2 * before[s, a]
            s = x
            if done:
                break
    return paid, plans
