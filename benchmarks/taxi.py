"""PSConRL in Gymnasium's Taxi-v4, as a model of average cost: how long it takes, and how near to the optimum it comes.

python benchmarks/taxi.py [--horizon 200000] [--prior 1.0] [--everywhere] [--costs known|estimated]

c_0 is the reward, scaled to [0, 1]; c_1 is a toll on a cell that many ways lead through, of which half may be spent
of what the best driver would spend. A delivery leads to a new passenger. The states are those that can be reached.
The prior allows each action of a state to do what any of its actions does, or, with --everywhere, to lead anywhere.
"""

import argparse
import time

import gymnasium
import numpy as np
from scipy import sparse

import psconrl
from psconrl import CMDP, agents
from psconrl.structure import restrict_to_reachable

TOLL = (2, 3)


def taxi() -> CMDP:
    env = gymnasium.make("Taxi-v4")
    city = env.unwrapped

    def costs(s: int, a: int, s_next: int, reward: float) -> tuple[float, float]:
        row, column, *_ = city.decode(s_next)
        return (20.0 - reward) / 30.0, float(a < 4 and (row, column) == TOLL)

    free = restrict_to_reachable(CMDP.from_gymnasium(env, costs=costs, thresholds=[1.0]))
    spent = psconrl.solve(free).average_costs[1]
    return free.replace(thresholds=[spent / 2]).to_sparse()


def neighbours(cmdp: CMDP) -> sparse.csr_array:
    """The mask (S * A, S) of the moves that some action of a state makes possible."""
    moves = sparse.kron(sparse.eye_array(cmdp.S), np.ones((1, cmdp.A))) @ cmdp.matrix
    return sparse.csr_array(sparse.kron(moves, np.ones((cmdp.A, 1))) > 0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--horizon", type=int, default=200_000)
    parser.add_argument("--prior", type=float, default=1.0)
    parser.add_argument("--everywhere", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--costs", choices=["known", "estimated"], default="known")
    args = parser.parse_args()
    cmdp = taxi()
    solution = psconrl.solve(cmdp)
    prior = args.prior if args.everywhere else args.prior * neighbours(cmdp)
    agent = agents.PSConRL(cmdp.problem(args.costs), prior=prior)
    psconrl.simulate(agent, cmdp, 50, 1)
    begin = time.process_time()
    run = psconrl.simulate(agent, cmdp, args.horizon, args.seed, optimum=solution.value)
    seconds = time.process_time() - begin
    uniform = psconrl.evaluate(cmdp, np.full((cmdp.S, cmdp.A), 1.0 / cmdp.A)).average_costs[:, 0]
    highs = int((run.episodes["solver"] == "highs").sum())
    print(f"{run}\n{seconds:.0f} s CPU, {1e3 * seconds / len(run.episodes):.1f} ms per episode, {highs} by HiGHS")
    print(f"the optimum {solution.value:.6f} at the limit {cmdp.thresholds[0]:.6f}; uniformly {uniform.round(6)}")
    late = len(run.grid) * 9 // 10
    spent = (run.cumulative[:, -1] - run.cumulative[:, late - 1]) / (run.grid[-1] - run.grid[late - 1])
    print(f"the last tenth {spent.round(6)}, regret {run.regret[-1]:.0f}, violation {run.violation[0, -1]:.0f}")
    seen = run.counts.reshape(cmdp.S * cmdp.A, cmdp.S) + 1e-3 * neighbours(cmdp)
    learned = psconrl.solve(CMDP(seen / seen.sum(axis=1)[:, np.newaxis], cmdp.costs, cmdp.thresholds))
    print(f"the best policy of the mean model: {psconrl.evaluate(cmdp, learned.policy).average_costs @ cmdp.initial}")


if __name__ == "__main__":
    main()
