"""What the store and the runner add to each run: a sweep of tiny runs on one worker, against the same runs unstored.

    python benchmarks/overhead.py --runs 10000

Prints processor and wall time for each run, how long the simulation alone takes, the difference, and how far the peak
of memory rose after the first tenth of the sweep.
"""

import argparse
import resource
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import psconrl
from psconrl.agents import Uniform
from psconrl.experiments import Experiment, run_experiment

HORIZON = 20


def sweep(seeds: int) -> Experiment:
    return Experiment.grid("overhead", ["toy"], ["uniform"], horizon=HORIZON, seeds=seeds)


def simulate_all(runs: int) -> None:
    cmdp = psconrl.make("toy")
    agent, optimum = Uniform(cmdp.problem()), psconrl.solve(cmdp).value
    for seed in range(runs):
        psconrl.simulate(agent, cmdp, HORIZON, seed, optimum=optimum)


def milliseconds(work: Callable[[], object], runs: int) -> tuple[float, float]:
    """Processor and wall time for each run."""
    wall, processor = time.perf_counter(), time.process_time()
    work()
    return (time.process_time() - processor) / runs * 1e3, (time.perf_counter() - wall) / runs * 1e3


def megabytes() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=10_000)
    parser.add_argument("--out", type=Path, help="folder for the runs; a temporary one by default")
    args = parser.parse_args()
    first = max(1, args.runs // 10)
    with tempfile.TemporaryDirectory(dir=args.out) as folder:
        simulate_all(10)
        run_experiment(sweep(first), folder, workers=1)
        before, rest = megabytes(), args.runs - first
        stored = milliseconds(lambda: run_experiment(sweep(args.runs), folder, workers=1), rest)
        grown = megabytes() - before
    alone = milliseconds(lambda: simulate_all(rest), rest)
    print(f"{rest:,} runs of {HORIZON} steps on one worker     processor     wall")
    for name, (processor, wall) in (("stored", stored), ("simulated only", alone)):
        print(f"{name:<40} {processor:8.2f} ms {wall:8.2f} ms")
    overhead = [x - y for x, y in zip(stored, alone, strict=True)]
    print(f"{'overhead':<40} {overhead[0]:8.2f} ms {overhead[1]:8.2f} ms")
    print(f"peak of memory rose by {grown:.1f} MiB after the first {first:,} runs")


if __name__ == "__main__":
    main()
