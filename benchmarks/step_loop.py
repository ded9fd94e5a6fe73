"""Steps per second of the compiled loop and of its plain twin, on marsrover-8x8 and a Garnet with four limits.

    python benchmarks/step_loop.py [--keep]

Exits with 1 if the compiled loop is less than 100 times as fast, or does less than 10^7 steered steps per second. Each
number is the best of three runs, timed from outside `simulate`, so that setting up and the (single) plan are counted.
"""

import argparse
import sys
import time

import kept

import psconrl
from psconrl import agents
from psconrl.agents import Agent
from psconrl.learning import simulate

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


def plans() -> kept.Part:
    """What a plan of PSConRL takes with both executions, all in: the best of five runs each."""
    cmdp, took = psconrl.make("marsrover-4x4"), []
    for execution in ("stationary", "steered"):
        agent = agents.PSConRL(cmdp.problem(), execution=execution)
        runs = []
        for _ in range(6):  # the first one compiles
            begin = time.process_time()
            episodes = len(simulate(agent, cmdp, 5_000, 0).episodes)
            runs.append(1e3 * (time.process_time() - begin) / episodes)
        took.append(min(runs))
    return kept.text(
        f"A plan of PSConRL on Marsrover 4x4 takes {took[1]:.2f} ms instead of {took[0]:.2f}, all in: to make the "
        "mixture, to check it and to take it up."
    )


def main(keep: bool) -> int:
    """Print the table; 0 if the ratio is large enough."""
    rover, garnet = psconrl.make("marsrover-8x8"), psconrl.make("garnet", S=20, A=3, m=4, seed=4)
    enough = True
    rows = []
    for name, cmdp, agent in (
        ("Marsrover 8x8, uniform", rover, agents.Uniform(rover.problem())),
        ("Marsrover 8x8, optimal", rover, agents.Optimal(rover.problem(), model=rover)),
        ("Marsrover 8x8, steered", rover, agents.Optimal(rover.problem(), model=rover, execution="steered")),
        ("Garnet, m = 4, optimal", garnet, agents.Optimal(garnet.problem(), model=garnet)),
        ("Garnet, m = 4, steered", garnet, agents.Optimal(garnet.problem(), model=garnet, execution="steered")),
    ):
        simulate(agent, cmdp, 10, 0)  # compiles, and solves the model
        fast = steps_per_second(agent, cmdp, COMPILED, True)
        slow = steps_per_second(agent, cmdp, PLAIN, False)
        enough &= fast >= REQUIRED * slow and (not name.endswith("steered") or fast >= STEERED)
        rows.append([name, f"{fast / 1e6:.1f}", f"{slow / 1e6:.3f}", f"{fast / slow:,.0f}"])
    part = kept.table(["", "compiled, $10^6$ steps per second", "plain", "ratio"], rows)
    parts = {"step-loop": part, "step-loop-plans": plans()}
    for shown in parts.values():
        kept.show(shown)
    if keep:
        kept.keep("step-loop", parts)
    return 0 if enough else 1


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--keep", action="store_true", help="for the documentation")
    sys.exit(main(parser.parse_args().keep))
