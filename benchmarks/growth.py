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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--horizon", type=int)
    parser.add_argument("--prior", type=float)
    args = parser.parse_args()
    if args.horizon:
        optimum = psconrl.solve(grid(SIDES[-1], args.prior)[0]).value
        run, seconds = timed(SIDES[-1], args.prior, args.horizon, optimum)
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        highs = int((run.episodes["solver"] == "highs").sum())
        print(f"{run}\n{seconds:.0f} s CPU, peak memory {memory:.0f} MiB, {highs} plans by HiGHS, J* = {optimum:.6f}")
        for share in (0.1, 0.2, 0.5, 1.0):
            at = int(share * len(run.grid)) - 1
            print(f"  t = {run.grid[at]:8d}: regret {run.regret[at]:8.0f}, violation {run.violation[0, at]:8.0f}")
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
