"""What is left to deploy after learning with the defaults in Gymnasium's tasks: how good is the plan of the estimate?

python benchmarks/deployed.py RUNS [--seeds 20] [--horizon 100000] [--only NAME ...] [--keep]

RUNS is a file to which each run adds a line: what is there is not done again, and the table is of all that is there.
With --keep it goes into the documentation.

`psconrl.learn(None, env, T, seed, costs=..., problem=Problem(S, A, thresholds))`: no prior, no mask, costs estimated.
Then the plan of `run.estimate()` is evaluated exactly in the true model, from its start law:

    loss      (J_0 - J*) / (J_0(uniform) - J*)
    excess    [J_1 - tau]+ / (J_1(uniform) - tau), or / 1 where the uniform policy keeps the limit
    gap       what the estimate promised and the plan does not keep, J_0 - value

The worst of the seeds counts. The optimum and the uniform policy are of the true model, which the learner does not see.
"""

import argparse
import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import gymnasium
import kept
import numpy as np

import psconrl
from psconrl import CMDP, Problem

WITHIN = 0.02
"""Losses and excesses up to this share of the uniform policy's are as good as none."""

HOLES = (5, 7, 11, 12)
TOLL = (2, 3)
Costs = Callable[..., tuple[float, float]]


def lake(s: int, a: int, x: int) -> tuple[float, float]:
    return float(x != 15), float(x in HOLES)


def cliff(s: int, a: int, x: int, reward: float) -> tuple[float, float]:
    return float(x != 47), float(reward == -100)


def ride(s: int, a: int, x: int, reward: float) -> tuple[float, float]:
    row, column = x // 100, x // 20 % 5
    return (20.0 - reward) / 30.0, float(a < 4 and (row, column) == TOLL)


def half_the_toll(env: Any) -> float:
    """Half of what the best driver would spend."""
    return float(psconrl.solve(CMDP.from_gymnasium(env, costs=ride, thresholds=[1.0])).average_costs[1] / 2)


TASKS: dict[str, tuple[str, dict[str, Any], Costs, float | None]] = {
    "FrozenLake, dry": ("FrozenLake-v1", {"is_slippery": False}, lake, 0.03),
    "FrozenLake, slippery": ("FrozenLake-v1", {}, lake, 0.03),
    "CliffWalking": ("CliffWalking-v1", {}, cliff, 0.05),
    "CliffWalking, slippery": ("CliffWalking-v1", {"is_slippery": True}, cliff, 0.05),
    "Taxi": ("Taxi-v4", {}, ride, None),
}
"""Id, options, costs and the limit; None: half of what the best driver would spend."""


def runs(name: str, horizon: int, seeds: list[int]) -> Iterator[dict[str, Any]]:
    """What was learned in a task, seed by seed."""
    task, options, costs, limit = TASKS[name]
    env = gymnasium.make(task, **options)
    limit = half_the_toll(env) if limit is None else limit
    cmdp = CMDP.from_gymnasium(env, costs=costs, thresholds=[limit])
    optimum = psconrl.solve(cmdp)
    uniform = psconrl.evaluate(cmdp, cmdp.uniform).average_costs @ cmdp.initial
    over = uniform[1] - limit
    for seed in seeds:
        begin = time.process_time()
        run = psconrl.learn(None, env, horizon, seed, costs=costs, problem=Problem(cmdp.S, cmdp.A, [limit]))
        plan = psconrl.solve(run.estimate())
        J = psconrl.evaluate(cmdp, plan.policy).average_costs @ cmdp.initial
        yield {
            "task": name,
            "T": horizon,
            "seed": seed,
            "loss": float((J[0] - optimum.value) / (uniform[0] - optimum.value)),
            "excess": float(max(J[1] - limit, 0.0) / (over if over > 0 else 1.0)),
            "gap": float(J[0] - plan.value),
            "seconds": time.process_time() - begin,
        }


def table(found: list[dict[str, Any]]) -> kept.Part:
    rows = []
    for name, (_, _, _, limit) in TASKS.items():
        own = [run for run in found if run["task"] == name]
        if own:
            loss, excess, seconds = (np.array([run[what] for run in own]) for what in ("loss", "excess", "seconds"))
            limited = "half of the toll of the best driver" if limit is None else f"{limit:g}"
            within = f"{((loss <= WITHIN) & (excess <= WITHIN)).sum()} of {len(own)}"
            shares = [f"{round(share, 6) + 0.0:.2%}" for share in (loss.mean(), loss.max(), excess.max())]
            rows.append([name, limited, *shares, within, f"{np.median(seconds):.0f} s"])
    return kept.table(
        ["task", "limit", "mean loss", "largest loss", "largest excess", f"within {WITHIN:.0%}", "time of a run"], rows
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", type=Path)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--horizon", type=int, default=100_000)
    parser.add_argument("--only", nargs="*", default=list(TASKS), choices=list(TASKS))
    parser.add_argument("--keep", action="store_true", help="take the table over into the documentation")
    args = parser.parse_args()
    args.runs.touch()

    def there() -> list[dict[str, Any]]:
        lines = [json.loads(line) for line in args.runs.read_text(encoding="utf-8").splitlines()]
        return [run for run in lines if run["T"] == args.horizon]

    for name in args.only:
        done = {run["seed"] for run in there() if run["task"] == name}
        for run in runs(name, args.horizon, [seed for seed in range(args.seeds) if seed not in done]):
            with args.runs.open("a", encoding="utf-8") as file:
                file.write(json.dumps(run) + "\n")
            print(run, flush=True)
    found = table(there())
    kept.show(found)
    if args.keep:
        kept.keep("deployed", {"deployed": found})


if __name__ == "__main__":
    main()
