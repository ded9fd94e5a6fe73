"""The learning table: signed regret and violation of every agent, with 95% bootstrap intervals over seeds.

python benchmarks/learning.py marsrover-4x4 PSConRL ConRL --seeds 100 --out learning.jsonl
"""

import argparse
import json
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np

import psconrl
from psconrl import agents
from psconrl.analysis.statistics import mean_interval

HORIZONS = {"marsrover-4x4": 5_000, "marsrover-8x8": 20_000, "box": 500_000, "toy": 1_500, "queue": 50_000}


def one(job: tuple[str, str, int, int]) -> dict[str, Any]:
    env, name, horizon, seed = job
    cmdp = psconrl.make(env)
    optimum = psconrl.solve(cmdp).value
    settings = agents.preset(name, env) | ({"model": cmdp} if name == "Optimal" else {})
    agent = agents.find(name)(cmdp.problem("estimated"), **settings)
    begin = time.perf_counter()
    run = psconrl.simulate(agent, cmdp, horizon, seed, optimum=optimum)
    fifth = np.searchsorted(run.grid, 0.8 * horizon)
    late = (run.cumulative[:, -1] - run.cumulative[:, fifth]) / (run.grid[-1] - run.grid[fifth])
    return {
        "regret": run.regret[-1],
        "violation": run.violation[0, -1],
        "episodes": len(run.episodes),
        "infeasible": int((~run.episodes["feasible"]).sum()),
        "late": late.tolist(),
        "excess": (late - np.append(optimum, cmdp.thresholds)).tolist(),
        "seconds": time.perf_counter() - begin,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("env")
    parser.add_argument("agents", nargs="+")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--horizon", type=int)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    horizon = args.horizon or HORIZONS[args.env]
    print(f"{args.env}, T = {horizon}, {args.seeds} seeds, estimated costs")
    with ProcessPoolExecutor(args.workers, mp_context=get_context("forkserver")) as pool:
        for name in args.agents:
            rows = list(pool.map(one, [(args.env, name, horizon, seed) for seed in range(args.seeds)]))
            table = {key: np.array([row[key] for row in rows]) for key in rows[0]}
            regret, violation = mean_interval(table["regret"]), mean_interval(table["violation"])
            print(
                f"{name:10} regret {regret}  violation {violation}  "
                f"episodes {table['episodes'].mean():.0f}  infeasible {table['infeasible'].mean():.1f}  "
                f"last fifth above optimum/threshold {np.round(table['excess'].mean(axis=0), 4)}  "
                f"{table['seconds'].mean():.1f} s",
                flush=True,
            )
            if args.out:
                record = {"env": args.env, "agent": name, "horizon": horizon, "seeds": args.seeds}
                record |= {"regret": regret.as_json(), "violation": violation.as_json()}
                record |= {key: table[key].mean(axis=0).tolist() for key in ("episodes", "infeasible", "excess")}
                with args.out.open("a") as file:
                    file.write(json.dumps(record) + "\n")


if __name__ == "__main__":
    main()
