"""A Dask cluster on this machine: a scheduler and two workers, each a process that may be killed."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from contextlib import AbstractContextManager
from pathlib import Path

from tests.experiments.sweeps import wait_until


class Cluster(AbstractContextManager["Cluster"]):
    """It lives in a folder of its own, and ends with the context."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(exist_ok=True)
        self._folder, self._file = folder, folder / "scheduler.json"
        self.scheduler = self._start("scheduler", "--port", "0")
        wait_until(lambda: self._file.exists() and self._file.read_text().endswith("}"))  # it is written in place
        self.address: str = json.loads(self._file.read_text())["address"]
        self.workers = [self._start_worker() for _ in range(2)]

    def replace_a_worker(self, rng: random.Random) -> None:
        """Kill one, and start another."""
        k = rng.randrange(len(self.workers))
        self.workers[k].kill()
        self.workers[k].wait()
        self.workers[k] = self._start_worker()

    def __exit__(self, *_: object) -> None:
        for process in (self.scheduler, *self.workers):
            process.kill()
            process.wait()

    def _start_worker(self) -> subprocess.Popen[bytes]:
        return self._start("worker", "--nthreads", "1", "--no-nanny", "--local-directory", str(self._folder))

    def _start(self, what: str, *words: str) -> subprocess.Popen[bytes]:
        common = ["--host", "127.0.0.1", "--scheduler-file", str(self._file), "--no-dashboard"]
        command = [sys.executable, "-m", f"distributed.cli.dask_{what}", *words, *common]
        return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
