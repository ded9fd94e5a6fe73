"""How the cost of an episode of PSConRL grows with the number of states, on sparse gridworlds, and one large run.

python benchmarks/growth.py                      cost per episode, 64 to 1,024 states, with the fitted exponent
python benchmarks/growth.py --horizon 1000000    the 1,024-state run alone: CPU seconds, peak memory, what it learned

The prior is a known support (each action may lead to any neighbour) or, with --prior, a number for every next state.
CPU time is that of this process; what is compiled is compiled before.
"""

import argparse
import resource
import time

import numpy as np
from scipy import sparse

import psconrl
from psconrl import CMDP, Run, agents

SIDES = (8, 12, 16, 22, 32)


def neighbours(cmdp: CMDP) -> sparse.csr_array:
    """The mask (S * A, S) of the moves that some action of a state makes possible."""
    moves = sparse.kron(sparse.eye_array(cmdp.S), np.ones((1, cmdp.A))) @ cmdp.matrix
    return sparse.csr_array(sparse.kron(moves, np.ones((cmdp.A, 1))) > 0)


def grid(side: int, prior: float | None) -> tuple[CMDP, agents.PSConRL]:
    cmdp = psconrl.make("grid", rows=side, columns=side, slip=0.1, sparse=True)
    return cmdp, agents.PSConRL(cmdp.problem("known"), prior=neighbours(cmdp) if prior is None else prior)


def timed(side: int, prior: float | None, horizon: int, optimum: float | None = None) -> tuple[Run, float]:
    cmdp, agent = grid(side, prior)
    psconrl.simulate(agent, cmdp, 50, 1)
    begin = time.process_time()
    run = psconrl.simulate(agent, cmdp, horizon, 0, optimum=optimum)
    return run, time.process_time() - begin


def learn(prior: float | None, horizon: int) -> None:
    """The largest grid: what the run cost, and how near to the optimum it came."""
    cmdp, _ = grid(SIDES[-1], prior)
    solution = psconrl.solve(cmdp)
    uniform = psconrl.evaluate(cmdp, np.full((cmdp.S, cmdp.A), 1.0 / cmdp.A)).average_costs[:, 0]
    run, seconds = timed(SIDES[-1], prior, horizon, solution.value)
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    highs = int((run.episodes["solver"] == "highs").sum())
    print(f"{run}\n{seconds:.0f} s CPU, peak memory {memory:.0f} MiB, {highs} plans by HiGHS")
    print(f"the optimum {solution.value:.6f} at the limit {cmdp.thresholds[0]}; the uniform policy {uniform.round(6)}")
    tenth = len(run.grid) // 10
    for end in range(tenth, len(run.grid) + 1, tenth):
        first, last = end - tenth, end - 1
        before = run.cumulative[:, first - 1] if first else np.zeros(2)
        steps = run.grid[last] - (run.grid[first - 1] if first else 0)
        average = (run.cumulative[:, last] - before) / steps
        totals = f"regret {run.regret[last]:8.0f}, violation {run.violation[0, last]:8.0f}"
        print(f"  t = {run.grid[last]:8d}: {totals}, averages of this tenth {average.round(6)}", flush=True)
    print(f"the last policy: {psconrl.evaluate(cmdp, run.policy[0]).average_costs[:, 0].round(6)}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--horizon", type=int)
    parser.add_argument("--prior", type=float)
    args = parser.parse_args()
    if args.horizon:
        learn(args.prior, args.horizon)
        return
    costs = []
    for side in SIDES:
        run, seconds = timed(side, args.prior, 20 * side * side)
        costs.append(1e3 * seconds / len(run.episodes))
        print(f"{side * side:5d} states: {len(run.episodes):6d} episodes, {costs[-1]:8.2f} ms each", flush=True)
    exponent = np.polyfit(np.log([side * side for side in SIDES]), np.log(costs), 1)[0]
    print(f"grows like S^{exponent:.2f}")


if __name__ == "__main__":
    main()
