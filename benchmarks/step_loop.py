"""Steps per second of the compiled loop and of its plain twin, on marsrover-8x8 and a Garnet with four limits.

    python benchmarks/step_loop.py

Exits with 1 if the compiled loop is less than 100 times as fast, or does less than 10^7 steered steps per second. Each
number is the best of three runs, timed from outside `simulate`, so that setting up and the (single) plan are counted.
"""

import sys
import time

import psconrl
from psconrl import agents
from psconrl.agents import Agent
from psconrl.simulation.tabular import simulate

COMPILED, PLAIN = 2_000_000, 20_000
REQUIRED, STEERED = 100, 10**7


def steps_per_second(agent: Agent, cmdp: psconrl.CMDP, steps: int, compiled: bool) -> float:
    """The best of three runs, in seconds of the processor: others may be busy, too."""
    seconds = []
    for seed in range(3):
        begin = time.process_time()
        simulate(agent, cmdp, steps, seed, compiled=compiled)
        seconds.append(time.process_time() - begin)
    return steps / min(seconds)


def main() -> int:
    """Print the table; 0 if the ratio is large enough."""
    rover, garnet = psconrl.make("marsrover-8x8"), psconrl.make("garnet", S=20, A=3, m=4, seed=4)
    enough = True
    print(f"{'policy':<16}{'compiled / s':>16}{'plain / s':>14}{'ratio':>8}")
    for name, cmdp, agent in (
        ("Uniform", rover, agents.Uniform(rover.problem())),
        ("Optimal", rover, agents.Optimal(rover.problem(), model=rover)),
        ("steered", rover, agents.Optimal(rover.problem(), model=rover, execution="steered")),
        ("Optimal, m = 4", garnet, agents.Optimal(garnet.problem(), model=garnet)),
        ("steered, m = 4", garnet, agents.Optimal(garnet.problem(), model=garnet, execution="steered")),
    ):
        simulate(agent, cmdp, 10, 0)  # compiles, and solves the model
        fast = steps_per_second(agent, cmdp, COMPILED, True)
        slow = steps_per_second(agent, cmdp, PLAIN, False)
        enough &= fast >= REQUIRED * slow and (not name.startswith("steered") or fast >= STEERED)
        print(f"{name:<16}{fast:>16,.0f}{slow:>14,.0f}{fast / slow:>8.0f}")
    return 0 if enough else 1


if __name__ == "__main__":
    sys.exit(main())
