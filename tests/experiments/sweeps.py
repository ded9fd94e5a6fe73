"""A small sweep, and the command line in a process of its own."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from psconrl.experiments import Experiment, Store

COMMAND = [sys.executable, "-m", "psconrl"]
AGENTS = ("uniform", "optimal", "psconrl")


def sweep(seeds: int = 8, horizon: int = 400, agents: tuple[str, ...] = AGENTS, **fields: Any) -> Experiment:
    return Experiment.grid("sweep", ["toy"], list(agents), horizon=horizon, seeds=seeds, **fields)


def arguments(out: Path, seeds: int = 8, horizon: int = 400, workers: int = 2) -> list[str]:
    chosen = [word for agent in AGENTS for word in ("--agent", agent)]
    numbers = ["--horizon", str(horizon), "--seeds", str(seeds), "--workers", str(workers)]
    return ["run", "--env", "toy", *chosen, *numbers, "--out", str(out)]


def start(*words: str, cwd: Path | None = None) -> subprocess.Popen[str]:
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen([*COMMAND, *words], cwd=cwd, preexec_fn=_hear_interrupts, **pipes)


def _hear_interrupts() -> None:
    # Commands that a shell runs in the background ignore SIGINT, and hand that on to their children.
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def finish(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    out, err = process.communicate(timeout=600)
    assert process.returncode is not None
    return process.returncode, out, err


def command(*words: str) -> tuple[int, str, str]:
    return finish(start(*words))


def parts(out: Path) -> set[Path]:
    return set((out / "runs").glob("*/*/*.parquet"))


def times_done(out: Path) -> Counter[str]:
    lines = (out / "timings.jsonl").read_text(encoding="utf-8").splitlines()
    return Counter(json.loads(line)["identity"] for line in lines)


def exported(out: Path) -> tuple[bytes, bytes]:
    tables = []
    for ending in ("csv", "parquet"):
        file = out.parent / f"{out.name}.{ending}"
        Store(out).export(file)
        tables.append(file.read_bytes())
    return tables[0], tables[1]


def wait_until(true: Callable[[], bool], seconds: float = 60.0) -> None:
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.01)
