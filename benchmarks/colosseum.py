"""Agents in Colosseum's average-reward models, by its own indicator, with its published table.

python benchmarks/colosseum.py FOLDER RUNS [--agents Recommended PSConRL ...] [--horizon 500000] [--seeds 20]
                               [--only NAME ...] [--keep]

FOLDER holds a file NAME.npz for each model, with T (S, A, S), the mean rewards R (S, A) in [0, 1], and the gains `opt`
and `worst` of its best and worst policy. They can be made with Colosseum (github.com/MichelangeloConserva/Colosseum,
MIT licence): the continuous models of its benchmark, their transitions and mean rewards.

RUNS is a file to which each run adds a line: what is there is not done again, and the table is of all that is there.

Rewards become costs 1 - R, which the agents have to learn; there are no limits. The indicator is the regret per step as
a share of that of the worst policy, (g* - mean reward) / (g* - g_worst), over the whole run: 0 is perfect. The largest
of the seeds counts as well, and a run is stuck if its second half is not better than 0.5.
"""

import argparse
import json
import time
from pathlib import Path
from typing import Any

import kept
import numpy as np

import psconrl
from psconrl import CMDP, agents

PUBLISHED = {
    "RiverSwim-0": (0.0, 0.16, 0.0),
    "FrozenLake-0": (0.01, 0.77, 0.01),
    "SimpleGrid-0": (0.93, 0.11, 0.01),
    "SimpleGrid-2": (0.93, 0.15, 0.70),
    "MiniGridEmpty-0": (0.95, 0.51, 0.02),
    "MiniGridEmpty-2": (0.60, 0.0, 0.01),
    "MiniGridRooms-1": (1.0, 0.01, 0.02),
    "Taxi-0": (0.94, 0.95, 0.12),
    "DeepSea-0": (0.78, 0.78, 0.90),
}
"""PSRL, Q-learning and UCRL2 in the communicating models: T = 500,000, 20 seeds, at most 600 s a run."""

STUCK = 0.5


def load(path: Path) -> tuple[CMDP, float, float]:
    """A model with costs 1 - R, and the gains of its best and worst policy."""
    with np.load(path) as found:
        p = found["T"].astype(np.float64)
        rewards, best, worst = found["R"], float(found["opt"]), float(found["worst"])
    return CMDP(p / p.sum(axis=2, keepdims=True), (1.0 - rewards)[np.newaxis]), best, worst


def measured(path: Path, agent: str, T: int, seed: int) -> dict[str, Any]:
    """The indicator of a run, of its second half, and the processor time that it took."""
    cmdp, best, worst = load(path)
    begin = time.process_time()
    run = psconrl.simulate(agents.find(agent)(cmdp.problem()), cmdp, T, seed, checkpoints=2, optimum=1.0 - best)
    late = (run.regret[1] - run.regret[0]) / (run.grid[1] - run.grid[0])
    return {
        "model": path.stem,
        "agent": agent,
        "T": T,
        "seed": seed,
        "indicator": float(run.regret[1] / T / (best - worst)),
        "late": float(late / (best - worst)),
        "seconds": time.process_time() - begin,
    }


def table(runs: list[dict[str, Any]]) -> kept.Part:
    """Means, with the largest of the seeds in brackets, and how many were stuck."""
    models, names = (list(dict.fromkeys(run[key] for run in runs)) for key in ("model", "agent"))
    rows, means = [], {name: list[float]() for name in names}
    for model in models:
        family = model.replace("Continuous", "").removeprefix("communicating-")
        row = [model.replace("Continuous", ""), *(f"{x:.2f}" for x in PUBLISHED.get(family, ()))]
        row += ["-"] * (4 - len(row))
        row.append(str(len({run["seed"] for run in runs if run["model"] == model})))
        for name in names:
            own = [run for run in runs if run["model"] == model and run["agent"] == name]
            if own:
                values = np.array([run["indicator"] for run in own])
                stuck = sum(run["late"] > STUCK for run in own)
                means[name].append(float(values.mean()))
                row.append(f"{values.mean():.3f} ({values.max():.3f})" + (f", {stuck} stuck" if stuck else ""))
            else:
                row.append("-")
        rows.append(row)
    rows.append(["mean", "", "", "", "", *(f"{np.mean(means[name]):.3f}" if means[name] else "-" for name in names)])
    return kept.table(["model", "published: PSRL", "Q-learning", "UCRL2", "seeds", *names], rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("runs", type=Path)
    parser.add_argument("--agents", nargs="*", default=["Recommended", "PSConRL"], choices=list(agents.registry()))
    parser.add_argument("--horizon", type=int, default=500_000)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--only", nargs="*", help="parts of the names of models, all by default")
    parser.add_argument("--keep", action="store_true", help="take the table over into the documentation")
    args = parser.parse_args()
    args.runs.touch()

    def there() -> list[dict[str, Any]]:
        lines = [json.loads(line) for line in args.runs.read_text(encoding="utf-8").splitlines()]
        return [run for run in lines if run["T"] == args.horizon]

    paths = [p for p in sorted(args.folder.glob("*.npz")) if not args.only or any(x in p.stem for x in args.only)]
    for seed in range(args.seeds):
        for path in paths:
            for agent in args.agents:
                if not any((run["model"], run["agent"], run["seed"]) == (path.stem, agent, seed) for run in there()):
                    run = measured(path, agent, args.horizon, seed)
                    with args.runs.open("a", encoding="utf-8") as file:
                        file.write(json.dumps(run) + "\n")
                    print(run, flush=True)
    found = table(there())
    kept.show(found)
    if args.keep:
        kept.keep("colosseum", {"colosseum": found})


if __name__ == "__main__":
    main()
