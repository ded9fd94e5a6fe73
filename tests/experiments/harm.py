"""Commands that are killed, interrupted and crowded at random; `python -m tests.experiments.harm KIND COUNT` tells.

kills        one process of a sweep (the command, a worker, the compiler) is killed, then the sweep goes on
interrupts   Ctrl-C at a random moment, every other time twice; then the sweep goes on
crowds       two or four commands share a folder, and at times one of them is killed
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from tests.experiments.sweeps import arguments, exported, parts, start, times_done

TOTAL = 24
"""Runs of the sweep."""


@dataclass
class Tally:
    """What was done and seen."""

    harmed: Counter[str] = field(default_factory=Counter)
    codes: Counter[int] = field(default_factory=Counter)
    longest: float = 0.0
    slowest_orphan: float = 0.0
    executed: int = 0
    sweeps: int = 0

    def __str__(self) -> str:
        harmed = ", ".join(f"{count} {kind}" for kind, count in sorted(self.harmed.items()))
        return (
            f"{harmed}; exit codes {dict(self.codes)}; longest end {self.longest:.2f} s; last process gone after "
            f"{self.slowest_orphan:.2f} s; {self.executed} runs executed for {self.sweeps} sweeps of {TOTAL}"
        )


def finished(process: subprocess.Popen[str]) -> tuple[int, str]:
    _, err = process.communicate(timeout=600)
    return process.returncode, err


def family(process: subprocess.Popen[str]) -> list[psutil.Process]:
    try:
        return psutil.Process(process.pid).children(recursive=True)
    except psutil.NoSuchProcess:
        return []


def listening(process: subprocess.Popen[str]) -> None:
    """Wait until the command listens to interrupts: before, there is only Python, a few hundredths of a second old."""
    with suppress(psutil.NoSuchProcess):
        while process.poll() is None and psutil.Process(process.pid).num_threads() < 2:
            time.sleep(0.005)


def gone(processes: list[psutil.Process], tally: Tally) -> None:
    """Wait until all have ended; they must."""
    begin = time.monotonic()
    _, alive = psutil.wait_procs(processes, timeout=60)
    assert not alive, f"left behind: {[process.cmdline() for process in alive]}"
    tally.slowest_orphan = max(tally.slowest_orphan, time.monotonic() - begin)


def complete(out: Path, undisturbed: tuple[bytes, bytes], tally: Tally) -> None:
    """Let the sweep be finished, and compare."""
    code, err = finished(start(*arguments(out)))
    assert code == 0, err
    assert exported(out) == undisturbed
    left = [path for path in out.rglob("*") if path.name.startswith(".") or path.suffix in (".tmp", ".damaged")]
    assert not left, left
    tally.executed += sum(times_done(out).values())
    tally.sweeps += 1


def kills(count: int, folder: Path, undisturbed: tuple[bytes, bytes], rng: random.Random) -> Tally:
    """Kill processes of sweeps; each sweep is gone on with until it is done."""
    tally, number = Tally(), 0
    while sum(tally.harmed.values()) < count:
        out = folder / f"kills-{number}"
        number += 1
        for _ in range(6):
            process = start(*arguments(out, horizon=400))
            time.sleep(rng.uniform(0.05, 2.5))
            others = family(process)
            victims = {f"process {k + 1}": other for k, other in enumerate(others)}
            name = rng.choice(["the command", "the command", *victims])
            if process.poll() is None:
                tally.harmed["of the command" if name == "the command" else "of its processes"] += 1
            with suppress(psutil.NoSuchProcess):
                (psutil.Process(process.pid) if name == "the command" else victims[name]).kill()
            done = parts(out)
            if name == "the command":
                finished(process)
            else:
                code, err = finished(process)
                assert code == 0, err
            gone(others, tally)
            assert parts(out) >= done
            if sum(tally.harmed.values()) >= count:
                break
        complete(out, undisturbed, tally)
        shutil.rmtree(out)
    return tally


def interrupts(count: int, folder: Path, undisturbed: tuple[bytes, bytes], rng: random.Random) -> Tally:
    """Ctrl-C, once or twice, at random moments of sweeps."""
    tally, number = Tally(), 0
    while tally.harmed["interrupts"] < count:
        out = folder / f"interrupts-{number}"
        number += 1
        for _ in range(8):
            process = start(*arguments(out, workers=rng.choice((1, 2))))
            listening(process)
            time.sleep(rng.uniform(0.0, 3.0))
            others = family(process)
            running = process.poll() is None
            begin = time.monotonic()
            process.send_signal(signal.SIGINT)
            if rng.random() < 0.5:
                time.sleep(rng.uniform(0.0, 0.3))
                process.send_signal(signal.SIGINT)
            code, err = finished(process)
            if running and code != 0:
                tally.harmed["interrupts"] += 1
                tally.codes[code] += 1
                tally.longest = max(tally.longest, time.monotonic() - begin)
                assert code == 130, err
                assert "Traceback" not in err, err
            gone(others, tally)
            if code == 0 or tally.harmed["interrupts"] >= count:
                break
        complete(out, undisturbed, tally)
        shutil.rmtree(out)
    return tally


def crowds(count: int, folder: Path, undisturbed: tuple[bytes, bytes], rng: random.Random) -> Tally:
    """Several commands in one folder; in every third crowd one of them is killed."""
    tally = Tally()
    for number in range(count):
        out = folder / f"crowds-{number}"
        size = rng.choice((2, 4))
        crowd = [start(*arguments(out, workers=rng.choice((1, 2)))) for _ in range(size)]
        killed = number % 3 == 2
        if killed:
            time.sleep(rng.uniform(0.5, 3.0))
            crowd[0].kill()
        codes = [finished(process) for process in crowd]
        assert all(code == 0 for code, _ in codes[killed:]), codes
        tally.harmed[f"crowds of {size}{', one killed' if killed else ''}"] += 1
        if not killed:
            assert max(times_done(out).values()) == 1, "a run was done twice"
        complete(out, undisturbed, tally)
        shutil.rmtree(out)
    return tally


KINDS = {"kills": kills, "interrupts": interrupts, "crowds": crowds}


def main() -> None:
    kind, count = sys.argv[1], int(sys.argv[2])
    seed = int(sys.argv[3]) if len(sys.argv) > 3 else 0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        code, err = finished(start(*arguments(folder / "undisturbed", workers=1)))
        assert code == 0, err
        begin = time.monotonic()
        tally = KINDS[kind](count, folder, exported(folder / "undisturbed"), random.Random(seed))
        print(f"{tally}; {time.monotonic() - begin:.0f} s, {os.cpu_count()} cores")


if __name__ == "__main__":
    main()
