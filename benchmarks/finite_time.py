"""Averages of the first T steps, relaxation times, and policies made for T steps: what they take, on one core.

    python benchmarks/finite_time.py [--keep]       # chains of 10,000 states, T = 10^9, and policies for T steps
    python benchmarks/finite_time.py --states 40000

Chains are walks whose relaxation times are known; two costs each. The bound is that of the averages, as a share of a
cost's range. Times are processor time.
"""

import argparse
import time

import kept
import numpy as np
from scipy import sparse

import psconrl
from psconrl._core.checks import Floats
from psconrl.planning.evaluation import evaluate_chain

T = 10**9


def grid_walk(n: int, stay: float) -> sparse.csr_array:
    """A walk on an n x n grid, stopped by its walls."""
    own = np.arange(n * n)
    rows, columns, p = [own], [own], [np.full(n * n, stay)]
    for down, right in ((-1, 0), (1, 0), (0, -1), (0, 1)):
        r, c = own // n + down, own % n + right
        rows.append(own)
        columns.append(np.where((r >= 0) & (r < n) & (c >= 0) & (c < n), r * n + c, own))
        p.append(np.full(n * n, (1 - stay) / 4))
    shape = (n * n, n * n)
    return sparse.csr_array((np.concatenate(p), (np.concatenate(rows), np.concatenate(columns))), shape=shape)


def corridor(S: int, up: float, down: float) -> sparse.csr_array:
    """A walk on a line, up and down with these probabilities."""
    own = np.arange(S)
    rows = np.concatenate([own, own, own])
    columns = np.concatenate([np.minimum(own + 1, S - 1), np.maximum(own - 1, 0), own])
    p = np.concatenate([np.full(S, up), np.full(S, down), np.full(S, 1 - up - down)])
    return sparse.csr_array((p, (rows, columns)), shape=(S, S))


def random_graph(S: int, branching: int) -> sparse.csr_array:
    """Each state leads to a few others."""
    rng = np.random.default_rng(0)
    rows, columns = np.repeat(np.arange(S), branching), rng.integers(S, size=S * branching)
    columns[::branching] = (np.arange(S) + 1) % S
    return sparse.csr_array((rng.dirichlet(np.ones(branching), size=S).ravel(), (rows, columns)), shape=(S, S))


def two_grids(n: int, leak: float) -> sparse.csr_array:
    """Two walks on grids that lead to each other with probability `leak` in one corner."""
    part = grid_walk(n, 0.2).tocoo()
    rows, columns = np.concatenate([part.row, part.row + n * n]), np.concatenate([part.col, part.col + n * n])
    p = np.tile(part.data, 2)
    corners = np.array([0, n * n])
    p[np.isin(rows, corners)] *= 1 - leak
    rows, columns = np.append(rows, corners), np.append(columns, corners[::-1])
    return sparse.csr_array((np.append(p, [leak, leak]), (rows, columns)), shape=(2 * n * n, 2 * n * n))


def seconds(start: float) -> str:
    return f"{time.process_time() - start:.1f} s"


def chains(S: int) -> kept.Part:
    """Averages of 10^9 steps in large chains."""
    n = int(np.sqrt(S))
    cases = {
        "random graph, 4 moves a state": random_graph(S, 4),
        f"walk on a grid, {n} x {n}": grid_walk(n, 0.0),
        "the same, staying with 0.6": grid_walk(n, 0.6),
        "the same, staying with 0.99": grid_walk(n, 0.99),
        "corridor, drifting down": corridor(S, 0.4, 0.5),
        "corridor of a hundredth, no drift": corridor(S // 100, 0.45, 0.45),
        "two grids, leak 1e-3 in a corner": two_grids(int(np.sqrt(S / 2)), 1e-3),
    }
    rows = []
    for name, chain in cases.items():
        states = chain.shape[0]
        costs: Floats = np.random.default_rng(1).random((2, states))
        start = time.process_time()
        found = evaluate_chain(chain, costs, np.eye(1, states)[0], T)
        averaged = seconds(start)
        start = time.process_time()
        relaxation = f"{found.relaxation_time:,.0f}"
        rows.append([name, f"{states:,}", relaxation, seconds(start), averaged, f"{found.error.max():.0e}"])
    return kept.table(["chain", "states", "relaxation time", "found in", "averages", "bound"], rows)


def policies() -> kept.Part:
    """Policies made for T steps, beside the one that is best in the long run."""
    rows = []
    for name, options, steps in (
        ("riverswim", {}, 20_000),
        ("riverswim", {"S": 25}, 100_000),
        ("marsrover-4x4", {}, 1_000),
        ("marsrover-8x8", {}, 1_000),
        ("box", {}, 1_000),
        ("media-streaming", {}, 100),
        ("queue", {}, 100),
        ("hospital", {}, 1_000),
        ("access-control", {}, 1_000),
    ):
        cmdp = psconrl.make(name, **options)
        long = psconrl.solve(cmdp)
        before = psconrl.evaluate(cmdp, long.policy, horizon=steps).average_costs @ cmdp.initial
        start = time.process_time()
        made = psconrl.solve(cmdp, horizon=steps)
        took = seconds(start)
        told = [
            f"{J[0]:.4f}, {max(float((J[1:] - cmdp.thresholds).max()), 0.0):.4f}" for J in (before, made.average_costs)
        ]
        rows.append([f"{name}, S = {cmdp.S}", f"{steps:,}", *told, f"{long.value:.4f}", took])
    return kept.table(["model", "T", "long-run policy", "made for T", "optimum", "time"], rows)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--states", type=int, default=10_000)
    parser.add_argument("--keep", action="store_true", help="for docs/benchmarks.md")
    arguments = parser.parse_args()
    parts = {"finite-time-policies": policies(), "finite-time-chains": chains(arguments.states)}
    for part in parts.values():
        kept.show(part)
    if arguments.keep:
        kept.keep("finite-time", parts)
