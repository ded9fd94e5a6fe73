"""Lets runs misbehave, as MISBEHAVE says, in every Python that finds this file: those of Uniform with seed 1."""

import os
import signal
import time
from typing import Any

HOW = os.environ.get("MISBEHAVE", "")


def misbehave() -> None:
    if HOW == "crash":
        os.kill(os.getpid(), signal.SIGSEGV)
    if HOW == "hang":
        time.sleep(10_000)


if HOW:
    from psconrl.experiments import run_one

    good = run_one.run_cell

    def run_cell(cell: Any, seed: int) -> Any:
        warming = cell.horizon == 30 and HOW != "hang"
        if cell.agent == "Uniform" and (seed == 1 or warming):
            misbehave()
        return good(cell, seed)

    run_one.run_cell = run_cell
