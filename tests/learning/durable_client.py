"""A client of a durable learner that is killed at random moments, and says what was acknowledged.

    python -m tests.learning.durable_client STORE STEPS KILLS SEED

Forks workers that ask and tell; each is killed by SIGKILL after some milliseconds, until KILLS were killed or STEPS
steps are done; the last one goes on undisturbed. What is asked and told in step i depends on the steps before it alone,
so an undisturbed twin does the same. Acknowledgements go to STORE.acknowledged, one line each, written before the next
call begins.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

import numpy as np

import psconrl
from psconrl.learning.durable import DurableLearner

ENVIRONMENT = psconrl.make("marsrover-4x4")


def outcome(step: int, state: int, action: int) -> tuple[list[float], int]:
    """What the environment answers in a step: the same for whoever asks."""
    rng = np.random.default_rng([step, state, action])
    row = np.asarray(ENVIRONMENT.transitions)[state, action]
    return ENVIRONMENT.costs[:, state, action].tolist(), int(rng.choice(len(row), p=row))


def open_learner(store: str) -> DurableLearner:
    """The learner of the test."""
    return psconrl.Learner.open(store, problem=ENVIRONMENT.problem(), seed=3)


def drive(store: str, steps: int, acknowledged: Path | None = None) -> None:
    """Ask and tell until there are so many steps, from where the store stands."""
    with open_learner(store) as learner:
        step = learner.status()["steps"]
        state = _state_after(learner, step)
        log = None if acknowledged is None else acknowledged.open("a")
        while step < steps:
            decision = learner.ask(state, f"ward-{step % 3}", request=f"step {step}")
            if log is not None:
                log.write(f"ask {step} {decision.id} {decision.action}\n")
                log.flush()
            costs, state = outcome(step, state, decision.action)
            learner.tell(decision.id, costs, state)
            if log is not None:
                log.write(f"tell {step} {decision.id}\n")
                log.flush()
            step += 1


def _state_after(learner: DurableLearner, step: int) -> int:
    if step == 0:
        return 0
    rows = learner.store.run("SELECT next_state FROM observations WHERE number = ?", step - 1)
    return int(rows[0][0])


def main() -> None:
    """See the module's docstring."""
    store, steps, kills, seed = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
    acknowledged = Path(sys.argv[5])
    warm = psconrl.Learner(None, problem=ENVIRONMENT.problem())
    for state in range(8):
        warm.observe(state, warm.act(state), [1.0, 0.0], state + 1)
    rng = np.random.default_rng(seed)
    killed = 0
    while True:
        worker = os.fork()
        if worker == 0:
            try:
                drive(store, steps, acknowledged)
            except BaseException as error:
                print(repr(error), file=sys.stderr, flush=True)
                os._exit(1)
            os._exit(0)
        if killed < kills:
            time.sleep(float(rng.uniform(0.0, 0.06)))
            os.kill(worker, signal.SIGKILL)
        _, status = os.waitpid(worker, 0)
        if os.WIFSIGNALED(status):
            killed += 1
        else:
            print(f"killed {killed}")
            sys.exit(os.waitstatus_to_exitcode(status))


if __name__ == "__main__":
    main()
