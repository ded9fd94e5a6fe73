"""`psconrl.solve` against scipy's linear programming, model by model, on one core: a table in Markdown.

    python benchmarks/solving.py [--keep]           # all families up to 20,000 states
    python benchmarks/solving.py --only grids --largest 100000
    python benchmarks/solving.py --only grids --largest 1000000 --alone   # without scipy

`linprog` gets the stateless occupancy program and the better of its two methods, dual simplex and interior points, with
a time limit; both times are of the solver alone, the model is built before. Where Storm's Python package is installed,
tests/io/test_storm.py compares answers; this file compares times with what pip installs anyway.
"""

import argparse
import resource
import time
from collections.abc import Iterator

import kept
import numpy as np
from scipy import sparse
from scipy.optimize import linprog

from psconrl import CMDP, make, solve
from psconrl._core.checks import Floats

LIMIT, FEW = 120.0, 5000
"""Seconds that linprog may take, and the states of the largest model that it gets."""

ROVERS = "marsrover-4x4", "marsrover-8x8", "box"
STORM = {("grid 30x30", 900): 0.61, ("grid 60x60", 3600): 14, ("grid 100x100", 10_000): 147}
STORM |= {("graph, A 4, branching 5, m 3", 1000): 0.44, ("graph, A 3, branching 4, m 2", 1800): 0.20}
STORM |= {("marsrover-4x4, slip 0.1", 16): 0.067, ("marsrover-8x8, slip 0.1", 64): 0.065, ("box, slip 0.1", 60): 0.031}
"""Seconds that Storm 2.0 took on another machine, its long-run averages with several objectives to 1e-4."""

TIMES = 3
"""Models up to `FEW` states are solved so often, by `linprog` if that takes below a second; the least time counts."""


def grid(n: int, slip: float = 0.1) -> CMDP:
    """An n x n grid from corner to corner; three cells in ten are risky, and the risk is limited to a tenth."""
    S, A = n * n, 4
    risky = np.random.default_rng(0).random(S) < 0.3
    goal, start = 0, S - 1
    risky[[goal, start]] = False
    row, column, own = np.arange(S) // n, np.arange(S) % n, np.arange(S)
    ends = np.empty((S, A), dtype=np.int64)
    for a, (down, right) in enumerate([(-1, 0), (1, 0), (0, -1), (0, 1)]):
        r, c = row + down, column + right
        ends[:, a] = np.where((r >= 0) & (r < n) & (c >= 0) & (c < n), r * n + c, own)
    pair = np.arange(S * A)
    rows = np.tile(pair, A)
    columns = np.concatenate([ends[pair // A, a] for a in range(A)])
    p = np.concatenate([np.where(pair % A == a, 1 - slip + slip / A, slip / A) for a in range(A)])
    columns = np.where(rows // A == goal, start, columns)
    matrix = sparse.csr_array((p, (rows, columns)), shape=(S * A, S))
    main = np.ones((S, A))
    main[goal] = 0.0
    return CMDP(matrix, np.stack([main, (matrix @ risky).reshape(S, A)]), [0.1], initial=start)


def graph(S: int, A: int, m: int, branching: int, seed: int) -> CMDP:
    """A random sparse graph: each pair leads to a few states, costs are uniform, limits at 0.42."""
    rng = np.random.default_rng(seed)
    ends = rng.integers(S, size=(S * A, branching))
    ends[np.arange(S) * A, 0] = (np.arange(S) + 1) % S  # so that it communicates
    p = rng.dirichlet(np.ones(branching), size=S * A)
    rows = np.repeat(np.arange(S * A), branching)
    matrix = sparse.csr_array((p.ravel(), (rows, ends.ravel())), shape=(S * A, S))
    return CMDP(matrix, rng.random((m + 1, S, A)), np.full(m, 0.42))


def river(S: int) -> CMDP:
    """RiverSwim with S places, half of the effort allowed."""
    here = np.arange(S)
    up, down = np.where(here < S - 1, 0.35, 0.0), np.where(here > 0, 0.05, 0.0)
    rows = np.concatenate([2 * here, 2 * here + 1, 2 * here + 1, 2 * here + 1])
    columns = np.concatenate([np.maximum(here - 1, 0), np.minimum(here + 1, S - 1), np.maximum(here - 1, 0), here])
    p = np.concatenate([np.ones(S), up, down, 1 - up - down])
    costs = np.ones((2, S, 2))
    costs[0, 0, 0], costs[0, -1, 1], costs[1, :, 0] = 0.995, 0.0, 0.0
    return CMDP(sparse.csr_array((p, (rows, columns)), shape=(2 * S, S)), costs, [0.5])


def corridor(S: int) -> CMDP:
    """A corridor walked with nine steps in ten the way one wants; half of the steps to the right are allowed."""
    here = np.arange(S)
    left, right = np.maximum(here - 1, 0), np.minimum(here + 1, S - 1)
    rows = np.concatenate([2 * here, 2 * here, 2 * here + 1, 2 * here + 1])
    columns = np.concatenate([left, right, right, left])
    p = np.concatenate([np.full(S, 0.9), np.full(S, 0.1)] * 2)
    costs = np.stack([np.repeat(np.cos(here / 7.0)[:, np.newaxis] + 1, 2, axis=1), np.tile([0.0, 1.0], (S, 1))])
    return CMDP(sparse.csr_array((p, (rows, columns)), shape=(2 * S, S)), costs, [0.5])


def torus(n: int) -> CMDP:
    """An n x n torus with random costs and two limits, slip 0.2: places to stay everywhere."""
    rng, S = np.random.default_rng(0), n * n
    r, c = np.divmod(np.arange(S), n)
    ends = np.stack([(r - 1) % n * n + c, (r + 1) % n * n + c, r * n + (c - 1) % n, r * n + (c + 1) % n], axis=1)
    p = np.tile((0.05 + 0.8 * np.eye(4)).ravel(), S)
    columns = np.repeat(ends, 4, axis=0).ravel()
    matrix = sparse.csr_array((p, (np.repeat(np.arange(4 * S), 4), columns)), shape=(4 * S, S))
    return CMDP(matrix, rng.random((3, S, 4)), [0.35, 0.35])


def models(family: str, largest: int) -> Iterator[tuple[str, CMDP]]:
    """The models of a family, up to a size."""
    if family == "rovers":
        for name in ROVERS:
            yield f"{name}, slip 0.1", make(name, slip=0.1)
    if family == "grids":
        for n in (30, 60, 100, 200, 300, 1000):
            if n * n <= largest:
                yield f"grid {n}x{n}", grid(n)
    if family == "garnets":
        yield "graph, A 4, branching 5, m 3", graph(1000, 4, 3, 5, 1)
        yield "graph, A 3, branching 4, m 2", graph(1800, 3, 2, 4, 5)
    if family == "graphs":
        for S in (1000, 2000, 5000, 10_000, 20_000):
            for A, m in ((2, 0), (3, 1), (3, 2), (4, 3)):
                if largest >= S:
                    yield f"graph, A {A}, branching 4, m {m}", graph(S, A, m, 4, 2)
    if family == "lines":
        for S in (50, 400, 2000, 10_000):
            if largest >= S:
                yield "river", river(S)
                yield "corridor", corridor(S)
    if family == "places":
        for n in (20, 40, 60, 100):
            if n * n <= largest:
                yield f"torus {n}x{n}", torus(n)
    if family == "dense":
        yield "dense", graph(300, 3, 2, 300, 3)


def by_linprog(cmdp: CMDP) -> tuple[float, float]:
    """The value and the seconds of the better method; nan where both run into the limit."""
    pairs, m = cmdp.S * cmdp.A, cmdp.m
    leave = sparse.csr_array((np.ones(pairs), (np.repeat(np.arange(cmdp.S), cmdp.A), np.arange(pairs))))
    equal = sparse.vstack([leave - cmdp.matrix.T, np.ones((1, pairs))], format="csr")
    right = np.append(np.zeros(cmdp.S), 1.0)
    spent: Floats = cmdp.costs[1:].reshape(m, pairs)
    best = (np.nan, np.inf)
    for k, method in enumerate(("highs-ds", "highs-ipm") * TIMES):
        if k > 1 and best[1] > 1.0:
            break
        began = time.perf_counter()
        found = linprog(
            cmdp.costs[0].ravel(),
            A_ub=spent if m else None,
            b_ub=cmdp.thresholds if m else None,
            A_eq=equal,
            b_eq=right,
            method=method,
            options={"time_limit": min(LIMIT, best[1] + 1)},
        )
        seconds = time.perf_counter() - began
        if found.status == 0 and seconds < best[1]:
            best = float(found.fun), seconds
    return best


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    families = ("rovers", "grids", "garnets", "graphs", "lines", "places", "dense")
    parser.add_argument("--only", nargs="+", choices=families, default=families)
    parser.add_argument("--largest", type=int, default=20_000, help="number of states")
    parser.add_argument("--alone", action="store_true", help="without linprog")
    parser.add_argument("--keep", action="store_true", help="for the documentation")
    options = parser.parse_args()
    for cmdp in (grid(4), graph(200, 3, 2, 4, 0)):  # compiles
        solve(cmdp)
    head = [
        "model",
        "states",
        "`solve`, s",
        "certified gap",
        "`linprog`, s",
        "times as long",
        "values differ by",
        "Storm, s",
    ]
    rows = []
    for family in options.only:
        for name, cmdp in models(family, options.largest):
            times = TIMES if cmdp.S <= FEW else 1
            own, value, other = np.inf, np.nan, np.nan
            for _ in range(times):
                began = time.perf_counter()
                solution = solve(cmdp)
                own = min(own, time.perf_counter() - began)
            if not options.alone and cmdp.S <= FEW:
                value, other = by_linprog(cmdp)
            ratio = f"{other / own:.2g}" if np.isfinite(other) else f"> {LIMIT / own:.0f}" if other == np.inf else ""
            known = np.isfinite(other)
            theirs = f"{other:.2g}" if known else "", ratio, f"{abs(solution.value - value):.0e}" if known else ""
            storm = f"{STORM[name, cmdp.S]:.3g}" if (name, cmdp.S) in STORM else ""
            rows.append([name, f"{cmdp.S:,}", f"{own:.2g}", f"{solution.gap:.0e}", *theirs, storm])
            print("| " + " | ".join(rows[-1]) + " |", flush=True)
    memory = f"{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20:.2f} GiB"
    print(f"\nLargest memory: {memory}")
    if options.keep:
        largest = f"All of this, `linprog` included, took at most {memory} of memory."
        kept.keep("solving", {"solving": kept.table(head, rows), "solving-memory": kept.text(largest)})


if __name__ == "__main__":
    main()
