"""Planning as it is against planning as it was: the same models in two trees of this project, in turn, in one run.

    git worktree add --detach /tmp/before COMMIT
    python benchmarks/against.py /tmp/before [--rounds 5] [--plans 60] [--keep]

Models are those that PSConRL plans in (S = 16, 64, 121, 1,024), each planned in as agents do, from what the plan before
left. Whole runs are those of the agents, for each plan; their numbers of plans may differ between trees. Each tree has
a process of its own, bound to the same core, and the two take turns; what counts is processor time, of each plan the
least over the rounds. Beside them is the leanest way to have HiGHS plan: one solver, arrays handed over as they are,
the last basis, no presolve, no scaling, no perturbation of costs.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import growth
import numba
import numpy as np

import psconrl
from psconrl import agents

MODELS = {"S = 16": 3_000, "S = 64": 8_000, "S = 121": 20_000, "S = 1,024": 1_500}
RUNS = [
    ("PSConRL", "marsrover-4x4", 5_000),
    ("PSConRL", "marsrover-8x8", 8_000),
    ("PSConRL", "box", 20_000),
    ("TSDE", "marsrover-8x8", 8_000),
    ("UCRLCMDP", "marsrover-4x4", 2_000),
    ("UCRLCMDP", "marsrover-8x8", 2_000),
    ("FHA", "marsrover-4x4", 1_000),
]


def learner(name: str) -> tuple[psconrl.CMDP, agents.PSConRL]:
    """The world of a row of the table, and what learns in it."""
    if name == "S = 1,024":
        return growth.grid(32, None)
    names: dict[str, dict[str, Any]] = {"S = 16": {"name": "marsrover-4x4"}, "S = 64": {"name": "marsrover-8x8"}}
    cmdp = psconrl.make(**names.get(name, {"name": "box", "full": True}))
    return cmdp, agents.PSConRL(cmdp.problem("estimated"))


def record(name: str, folder: Path, plans: int) -> None:
    """Write the models in which a run plans, the last ones, in order."""
    from psconrl.agents import planning

    plan_rows = planning.plan_rows
    seen: list[Any] = []

    def recording(rows: Any, costs: Any, tau: Any, **options: Any) -> Any:
        seen.append((rows, costs.copy(), tau))
        return plan_rows(rows, costs, tau, **options)

    cmdp, agent = learner(name)
    planning.plan_rows = recording
    try:
        psconrl.simulate(agent, cmdp, MODELS[name], 0)
    finally:
        planning.plan_rows = plan_rows
    chosen = seen[-plans if cmdp.S < 1000 else -max(5, plans // 5) :]
    arrays = {"tau": chosen[0][2], "plans": np.array(len(chosen))}
    for k, (rows, costs, _) in enumerate(chosen):
        arrays |= {f"indptr{k}": rows.indptr, f"indices{k}": rows.indices, f"data{k}": rows.data, f"costs{k}": costs}
    np.savez(folder / f"{name}.npz", **arrays)


def planner() -> Callable[..., Any]:
    """Planning as agents of this process's tree do, by (indptr, indices, data, costs, tau, start)."""
    try:
        from psconrl.planning.compiled.rows import Rows
        from psconrl.planning.for_agents import plan_rows
    except ImportError:  # before planning had rooms
        from psconrl.planning.inner import best_policy  # type: ignore[import-not-found]
        from psconrl.planning.rows import Rows as OldRows  # type: ignore[import-not-found]

        return lambda indptr, indices, data, costs, tau, start: best_policy(
            OldRows(indptr, indices, data, costs.shape[1]), costs, tau, join=0.1, start=start
        )
    begins = {S: np.arange(0, 4 * S + 1, 4) for S in (16, 64, 121, 1024)}
    return lambda indptr, indices, data, costs, tau, start: plan_rows(
        Rows(begins[costs.shape[1]], indptr, indices, data), costs, tau, join=0.1, start=start
    )


@numba.njit
def program(indptr: Any, indices: Any, data: Any, costs: Any, S: int) -> Any:
    """The occupancy program by columns, for each pair: its flow, one, and the costs with limits."""
    n, K = costs.shape
    starts = np.zeros(K + 1, dtype=np.int32)
    rows_of, values = np.empty(len(data) + K * (n + 1), dtype=np.int32), np.empty(len(data) + K * (n + 1))
    size = 0
    for pair in range(K):
        s, out = pair * S // K, 0.0
        for entry in range(indptr[pair], indptr[pair + 1]):
            if indices[entry] != s:
                rows_of[size], values[size] = indices[entry], -data[entry]
                out += data[entry]
                size += 1
        rows_of[size], values[size], rows_of[size + 1], values[size + 1] = s, out, S, 1.0
        size += 2
        for i in range(1, n):
            rows_of[size], values[size] = S + i, costs[i, pair]
            size += 1
        starts[pair + 1] = size
    return starts, rows_of, values


def lean_highs(models: list[Any], tau: Any) -> list[float]:
    """Seconds of HiGHS for each of some models (indptr, indices, data, costs), the first left out: to the policy."""
    import highspy
    from highspy import _core as core

    solver: Any = highspy.Highs()  # type: ignore[no-untyped-call]
    for option, value in (
        ("output_flag", False),
        ("threads", 1),
        ("presolve", "off"),
        ("simplex_scale_strategy", 0),
        ("dual_simplex_cost_perturbation_multiplier", 0.0),
        ("solver", "simplex"),
    ):
        solver.setOptionValue(option, value)
    spent, basis = [], None
    for indptr, indices, data, costs in models:
        n, S, A = costs.shape
        began = time.process_time()
        flat = costs.reshape(n, -1)
        K = S * A
        starts, rows_of, values = program(indptr, indices, data, flat, S)
        lower = np.concatenate([np.zeros(S), [1.0], np.full(n - 1, -np.inf)])
        upper = np.concatenate([np.zeros(S), [1.0], tau])
        solver.passModel(
            K, S + n, int(starts[-1]), int(core.MatrixFormat.kColwise), int(core.ObjSense.kMinimize), 0.0,
            flat[0], np.zeros(K), np.full(K, np.inf), lower, upper,
            starts[:-1], rows_of[: starts[-1]], values[: starts[-1]], np.zeros(K, dtype=np.int32),
        )  # fmt: skip
        if basis is not None:
            solver.setBasis(basis)
        solver.run()
        mu = np.array(solver.getSolution().col_value).reshape(S, A)
        mass = mu.sum(axis=1)
        mu[mass > 0] /= mass[mass > 0, np.newaxis]
        basis = solver.getBasis()
        spent.append(time.process_time() - began)
    return spent[1:]


def work(folder: Path) -> None:
    """What a process of one tree does: measure what it is asked for, line by line, until there is nothing more."""
    plan, models = planner(), {}
    for path in folder.glob("*.npz"):
        stored = dict(np.load(path))
        names = ("indptr", "indices", "data", "costs")
        models[path.stem] = [[stored[f"{n}{k}"] for n in names] for k in range(int(stored["plans"]))], stored["tau"]
    for line in sys.stdin:
        what = json.loads(line)
        if what[0] == "plan":
            start: Any = None
            found = []
            given, tau = models[what[1]]
            for model in given:
                best, after = np.inf, start
                for _ in range(what[2]):
                    began = time.process_time()
                    after = plan(*model, tau, start)
                    best = min(best, time.process_time() - began)
                start = after.start
                found.append(best)
            print(json.dumps(found[1:]), flush=True)
        elif what[0] == "highs":
            print(json.dumps(lean_highs(*models[what[1]])), flush=True)
        else:
            _, agent, env, horizon = what
            cmdp = psconrl.make(env)
            learns = getattr(agents, agent)(cmdp.problem("estimated"))
            began = time.process_time()
            run = psconrl.simulate(learns, cmdp, horizon, 0)
            print(json.dumps([time.process_time() - began, len(run.episodes)]), flush=True)


class Tree:
    """A process that measures in one tree, on one core."""

    def __init__(self, root: Path, folder: Path) -> None:
        command = [sys.executable, __file__, str(root), "--work", str(folder)]
        if hasattr(os, "sched_setaffinity"):
            core = min(os.sched_getaffinity(0))
            command = ["taskset", "--cpu-list", str(core), *command]
        threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
        environment = os.environ | threads | {"PYTHONPATH": str(root / "src")}
        self.process = subprocess.Popen(
            command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def ask(self, *what: Any) -> Any:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps(what) + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("other", type=Path, help="the tree to compare with, whose numba cache is its own")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--plans", type=int, default=60, help="models of each size")
    parser.add_argument("--only", nargs="+", help="some of the rows, by the beginning of their names")
    parser.add_argument("--keep", action="store_true", help="for the documentation")
    parser.add_argument("--work", type=Path, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.work:
        work(args.work)
        return
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        wanted = [row for row in MODELS if args.only is None or row in args.only]
        for row in wanted:
            record(row, folder, args.plans)
        here = Path(__file__).resolve().parent.parent
        trees = [Tree(args.other.resolve(), folder), Tree(here, folder)]
        plans, runs = [], []
        for row in wanted:
            least: list[Any] = [np.inf, np.inf]
            for tree in trees:
                tree.ask("plan", row, 1)  # compiles
            for _ in range(args.rounds):
                for k, tree in enumerate(trees):
                    least[k] = np.minimum(least[k], tree.ask("plan", row, 2))
            highs = trees[1].ask("highs", row)
            before, now = (1e3 * float(np.median(spent)) for spent in least)
            theirs = 1e3 * float(np.median(highs))
            said = f"{before:.3f}", f"{now:.3f}", f"{before / now:.2f}", f"{theirs:.3f}", f"{theirs / now:.1f}"
            plans.append([row, *said])
            print("| " + " | ".join(plans[-1]) + " |", flush=True)
        for run in RUNS:
            label = f"{run[0].replace('UCRLCMDP', 'UCRL-CMDP')}, {run[1]}, T = {run[2]:,}"
            if args.only is not None and not label.startswith(tuple(args.only)):
                continue
            least = [np.inf, np.inf]
            for tree in trees:
                tree.ask("run", *run)
            for _ in range(args.rounds):
                for k, tree in enumerate(trees):
                    spent, count = tree.ask("run", *run)
                    least[k] = min(least[k], 1e3 * spent / count)
            runs.append([label, f"{least[0]:.3f}", f"{least[1]:.3f}", f"{least[0] / least[1]:.2f}"])
            print("| " + " | ".join(runs[-1]) + " |", flush=True)
        for tree in trees:
            tree.process.stdin.close()  # type: ignore[union-attr]
            tree.process.wait()
        if args.keep:
            import kept  # not in other trees

            head = ["ms for each plan", "before", "now", "before / now"]
            samples = kept.table([*head, "leanest HiGHS, warm", "HiGHS / now"], plans)
            kept.keep("against", {"against-plans": samples, "against-runs": kept.table(head, runs)})


if __name__ == "__main__":
    main()
