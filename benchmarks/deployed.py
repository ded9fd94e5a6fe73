"""What is left to deploy after learning with the defaults in Gymnasium's tasks: how good is the plan of the estimate?

python benchmarks/deployed.py [--seeds 20] [--first 0] [--horizon 100000] [--only NAME ...]

`psconrl.learn(None, env, T, seed, costs=..., problem=Problem(S, A, thresholds))`: no prior, no mask, costs estimated.
Then the plan of `run.estimate()` is evaluated exactly in the true model, from its start law:

    loss      (J_0 - J*) / (J_0(uniform) - J*)
    excess    [J_1 - tau]+ / (J_1(uniform) - tau), or / 1 where the uniform policy keeps the limit
    gap       what the estimate promised and the plan does not keep, J_0 - value

The worst of the seeds counts. The optimum and the uniform policy are of the true model, which the learner does not see.
"""

import argparse
import time
from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np

import psconrl
from psconrl import CMDP, Problem

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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--horizon", type=int, default=100_000)
    parser.add_argument("--only", nargs="*", default=list(TASKS), choices=list(TASKS))
    args = parser.parse_args()
    for name in args.only:
        task, options, costs, limit = TASKS[name]
        env = gymnasium.make(task, **options)
        limit = half_the_toll(env) if limit is None else limit
        cmdp = CMDP.from_gymnasium(env, costs=costs, thresholds=[limit])
        optimum = psconrl.solve(cmdp)
        uniform = psconrl.evaluate(cmdp, cmdp.uniform).average_costs @ cmdp.initial
        loss, excess, begin = [], [], time.process_time()
        for seed in range(args.first, args.first + args.seeds):
            problem = Problem(cmdp.S, cmdp.A, [limit])
            run = psconrl.learn(None, env, args.horizon, seed, costs=costs, problem=problem)
            plan = psconrl.solve(run.estimate())
            J = psconrl.evaluate(cmdp, plan.policy).average_costs @ cmdp.initial
            loss.append((J[0] - optimum.value) / (uniform[0] - optimum.value))
            over = uniform[1] - limit
            excess.append(max(J[1] - limit, 0.0) / (over if over > 0 else 1.0))
            print(f"    {seed}: loss {loss[-1]:.2%}, excess {excess[-1]:.2%}, gap {J[0] - plan.value:.5f}", flush=True)
        within = sum(a <= 0.02 and b <= 0.02 for a, b in zip(loss, excess, strict=True))
        print(
            f"| {name} | {np.mean(loss):.2%} | {max(loss):.2%} | {max(excess):.2%} | {within} of {args.seeds} | "
            f"{(time.process_time() - begin) / args.seeds:.0f} s |",
            flush=True,
        )


if __name__ == "__main__":
    main()
