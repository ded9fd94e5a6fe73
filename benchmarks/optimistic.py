"""Optimistic planning along real UCRL-CMDP runs: compiled columns against the linear program on HiGHS.

    python benchmarks/optimistic.py --horizon 20000 --sets 20

Plans are taken evenly from a run in each environment. Printed are processor times per plan of both methods, their
ratio, and over the whole run the number of fallbacks and the largest certified gap.
"""

import argparse
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import psconrl
from psconrl import agents
from psconrl.agents import ucrl_cmdp
from psconrl.planning import solve_optimistic
from psconrl.planning.optimistic import best_optimistic


def timed(call: Callable[[], Any]) -> tuple[float, Any]:
    start = time.thread_time()
    result = call()
    return 1e3 * (time.thread_time() - start), result


def one(name: str, horizon: int, sets: int) -> None:
    cmdp = psconrl.make(name)
    agent = agents.UCRLCMDP(cmdp.problem("estimated"), **agents.preset("UCRL-CMDP", name))
    psconrl.simulate(agent, cmdp, 50, 0)  # compiles
    cost, gaps, programs, asked = [], [], [], []

    def recording(*arguments: Any, **start: Any) -> Any:
        spent, answer = timed(lambda: best_optimistic(*arguments, **start))
        cost.append(spent)
        gaps.append(answer.gap)
        programs.append(answer.method == "program")
        asked.append((tuple(np.array(part) for part in arguments), answer.value) if len(cost) % every == 0 else None)
        return answer

    every = max(1, int(horizon ** (2 / 3)) // sets)
    ucrl_cmdp.best_optimistic = recording
    run_time, _ = timed(lambda: psconrl.simulate(agent, cmdp, horizon, 0))
    ucrl_cmdp.best_optimistic = best_optimistic
    slow, apart = [], 0.0
    for arguments, value in (plan for plan in asked if plan is not None):
        spent, wanted = timed(lambda a=arguments: solve_optimistic(*a, method="highs"))
        slow.append(spent)
        apart = max(apart, abs(wanted.value - value))
    fast, highs = np.median(cost), np.median(slow)
    print(
        f"{name:14} S={cmdp.S:3} {len(cost):5} plans, run {run_time / 1e3:6.2f} s; per plan median {fast:.3f} ms, "
        f"mean {np.mean(cost):.3f} ms; HiGHS median {highs:.1f} ms: {highs / fast:.0f} times; values agree to "
        f"{apart:.1e}; fallbacks {sum(programs)}, largest gap {np.nanmax(gaps):.1e}",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--horizon", type=int, default=20_000)
    parser.add_argument("--sets", type=int, default=20)
    args = parser.parse_args()
    for name in ("marsrover-4x4", "marsrover-8x8", "box"):
        one(name, args.horizon, args.sets)


if __name__ == "__main__":
    main()
