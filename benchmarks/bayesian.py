"""Bayesian regret in the setting of the theorem: nature draws p* from the learner's own prior.

    python benchmarks/bayesian.py --draws 100 [--prior learned --costs estimated --execution steered]

PSConRL in `dirichlet` CMDPs (S = 10, A = 3, one constraint, prior 0.5 or learned), measured as Lagrangian pseudo-regret
sum_t [J_0(pi_t) - J* + sum_i lambda_i (J_i(pi_t) - tau_i)] with exact averages of the executed policies.
"""

import argparse
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any

import numpy as np

import psconrl
from psconrl import agents

TIMES = np.unique(np.round(np.logspace(3, 5, 21)).astype(int))


def one(job: tuple[int, int, Any, Any, Any]) -> tuple[np.ndarray, float, float, int]:
    draw, horizon, prior, costs, execution = job
    cmdp = psconrl.make("dirichlet", S=10, A=3, prior=prior, draw=draw)
    solution = psconrl.solve(cmdp)
    agent = agents.PSConRL(cmdp.problem(costs), prior=prior, execution=execution)
    run = psconrl.simulate(agent, cmdp, horizon, draw, optimum=solution.value, evaluate_policies=True)
    J = run.episodes["average_costs"]
    rate = J[:, 0] - solution.value + (J[:, 1:] - cmdp.thresholds) @ solution.multipliers
    ends = run.episodes["start"] + run.episodes["length"]
    total = np.concatenate([[0.0], np.cumsum(rate * run.episodes["length"])])
    curve = np.interp(TIMES, np.concatenate([[0], ends]), total)
    return curve, float(run.violation[0, -1]), float(solution.multipliers[0]), int((~run.episodes["feasible"]).sum())


def slope(curves: np.ndarray) -> float:
    return float(np.polyfit(np.log(TIMES), np.log(curves.mean(axis=0)), 1)[0])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draws", type=int, default=100)
    parser.add_argument("--horizon", type=int, default=100_000)
    parser.add_argument("--prior", type=lambda text: text if text == "learned" else float(text), default=0.5)
    parser.add_argument("--costs", choices=["known", "estimated"], default="known")
    parser.add_argument("--execution", choices=["stationary", "steered"], default="stationary")
    parser.add_argument("--workers", type=int, default=2)
    args = parser.parse_args()
    with ProcessPoolExecutor(args.workers, mp_context=get_context("forkserver")) as pool:
        settings = args.horizon, args.prior, args.costs, args.execution
        rows = list(pool.map(one, [(draw, *settings) for draw in range(args.draws)]))
    curves, violation = np.array([row[0] for row in rows]), np.array([row[1] for row in rows])
    rng = np.random.default_rng(np.random.SeedSequence(1))
    samples = rng.integers(len(rows), size=(4000, len(rows)))
    slopes = np.array([slope(curves[sample]) for sample in samples])
    means = violation[samples].mean(axis=1)
    print(f"{len(rows)} draws, T = {args.horizon}; the constraint binds in {np.mean([row[2] > 0 for row in rows]):.0%}")
    print(f"pseudo-regret at T: {curves[:, -1].mean():.1f}")
    low, high = np.quantile(slopes, [0.025, 0.975])
    print(f"log-log slope over 10^3..10^5: {slope(curves):.3f}, 95% [{low:.3f}, {high:.3f}]")
    low, high = np.quantile(means, [0.025, 0.975])
    print(f"violation at T: {violation.mean():.1f}, 95% [{low:.1f}, {high:.1f}]")
    print(f"infeasible episodes per run: {np.mean([row[3] for row in rows]):.2f}")


if __name__ == "__main__":
    main()
