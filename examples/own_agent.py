"""An agent of your own, checked and compared with PSConRL.

The agent is PSConRL with lower limits in the beginning: fewer violations at the price of more regret. How much of one
buys how much of the other?

Run it: python examples/own_agent.py --caution 1.0
"""

import argparse
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

import psconrl
from psconrl import agents
from psconrl.agents import exploit, plan_in
from psconrl.agents.schedules import tsde


@dataclass(frozen=True, eq=False)
class Careful(agents.PosteriorAgent):
    """Posterior sampling with limits lowered by caution / sqrt(t + 1)."""

    caution: float = 1.0

    def plan(self, memory: agents.Memory, rng: np.random.Generator) -> agents.Plan:
        """Sample a model and plan in it, with lower limits if those can be met."""
        stop, costs = tsde(memory), self.costs(memory)
        p_k = self.sample(memory, rng)
        # An agent that gives up whenever the lowered limits cannot be met would hardly plan at all at first.
        for limits in (self.problem.thresholds - self.caution / np.sqrt(memory.t + 1), self.problem.thresholds):
            best = plan_in(p_k, costs, limits, memory, stop)
            if best.feasible:
                return exploit(best, stop, memory)
        return self.uniform_plan(**stop, feasible=False, carry=memory.carry)


def main(arguments: Sequence[str] | None = None) -> None:
    """Check the agent, then run both with the same seeds."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--env", default="marsrover-4x4")
    parser.add_argument("--caution", type=float, default=1.0)
    parser.add_argument("--horizon", type=int, default=5_000)
    parser.add_argument("--seeds", type=int, default=10)
    options = parser.parse_args(arguments)

    cmdp = psconrl.make(options.env)
    problem, optimum = cmdp.problem("estimated"), psconrl.solve(cmdp).value
    careful = Careful(problem, caution=options.caution)
    agents.check_agent(careful)

    print(f"{'agent':10} {'regret':>16} {'violation':>16}")
    for agent in (agents.PSConRL(problem), careful):
        runs = [psconrl.simulate(agent, cmdp, options.horizon, seed, optimum=optimum) for seed in range(options.seeds)]
        ends = np.array([[run.regret[-1], run.violation[0, -1]] for run in runs])
        errors = ends.std(axis=0, ddof=1) / np.sqrt(options.seeds) if options.seeds > 1 else np.full(2, np.nan)
        cells = (f"{mean:7.1f} ± {error:.1f}" for mean, error in zip(ends.mean(axis=0), errors, strict=True))
        print(f"{agent.name:10} " + " ".join(f"{cell:>16}" for cell in cells))


if __name__ == "__main__":
    main()
