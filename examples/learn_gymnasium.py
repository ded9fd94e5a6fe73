"""PSConRL in a Gymnasium environment, with a limit on accidents.

On the cliff an accident is a fall, on the lake a hole in the ice. The agent knows which moves are possible, but has to
learn how likely they are and what they cost.

Run it: python examples/learn_gymnasium.py cliff
"""

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import gymnasium

import psconrl
from psconrl import agents


@dataclass(frozen=True)
class Task:
    """An environment, what counts as an accident in it, and how many accidents are allowed per step.

    weight: the prior of each possible move; small where moves are nearly deterministic, 1 where they are random.
    """

    name: str
    goal: int
    accident: Callable[[int, float], bool]
    limit: float
    weight: float

    def costs(self, s: int, a: int, s_next: int, reward: float) -> tuple[float, float]:
        """Main cost: not being at the goal. Auxiliary cost: an accident."""
        return float(s_next != self.goal), float(self.accident(s_next, reward))


TASKS = {
    "cliff": Task("CliffWalking-v1", 47, lambda s, reward: reward == -100, 0.02, 0.01),
    "lake": Task("FrozenLake-v1", 15, lambda s, reward: s in (5, 7, 11, 12), 0.004, 1.0),
}


def main(arguments: Sequence[str] | None = None) -> None:
    """Learn, then compare the plan that was learned with the exact optimum."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("task", choices=sorted(TASKS), nargs="?", default="cliff")
    parser.add_argument("--steps", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)

    task = TASKS[options.task]
    env = gymnasium.make(task.name)
    truth = psconrl.CMDP.from_gymnasium(env, costs=task.costs, thresholds=[task.limit])
    optimum = psconrl.solve(truth)

    possible = truth.to_dense().transitions > 0
    agent = agents.PSConRL(truth.problem("estimated"), prior=task.weight * possible)
    run = psconrl.learn(agent, env, options.steps, options.seed, costs=task.costs, optimum=optimum.value)
    print(run)

    plan = psconrl.solve(run.estimate())
    averages = psconrl.evaluate(truth, plan.policy).average_costs @ truth.initial
    print(f"the plan to deploy costs {averages[0]:.4f} per step, the best {optimum.value:.4f}")
    print(f"and has {averages[1]:.4f} accidents per step, limit {task.limit:g}")


if __name__ == "__main__":
    main()
