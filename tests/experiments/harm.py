"""Commands that are killed, interrupted and crowded at random; `python -m tests.experiments.harm KIND COUNT SEED`.

kills        processes of a sweep are killed, the command, its workers, what starts and follows these; it goes on
compiling    the same while everything is compiled anew
cluster      the command, the scheduler and the workers of a Dask cluster are killed
interrupts   Ctrl-C at a random moment, every other time twice; then the sweep goes on
crowds       two or four commands share a folder, and at times one of them is killed

Moments are spread over the whole life of a command, however loaded the machine is. Most of the life of a command is
spent on imports; so some are forks of this process, which has everything imported, and live on runs.
"""

from __future__ import annotations

import os
import random
import re
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

from psconrl.experiments import run_experiment
from tests.experiments.cluster import Cluster
from tests.experiments.sweeps import Command, Forked, arguments, exported, finish, parts, start, sweep, times_done

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


def finished(process: Command) -> tuple[int, str]:
    code, _, err = finish(process)
    return code, err


def started(out: Path, workers: int, forked: bool) -> Command:
    """The sweep, by a command that imports everything first, or by one that has."""
    return (Forked if forked else start)(*arguments(out, workers=workers))


def family(process: Command) -> list[psutil.Process]:
    try:
        return psutil.Process(process.pid).children(recursive=True)
    except psutil.NoSuchProcess:
        return []


def listening(process: Command) -> None:
    """Wait until the command listens to interrupts: before, there is only Python, a few hundredths of a second old."""
    with suppress(psutil.NoSuchProcess):
        while process.poll() is None and psutil.Process(process.pid).num_threads() < 2:
            time.sleep(0.005)


def hurried(process: Command) -> None:
    """If all this runs at a low priority: what is timed does not."""
    with suppress(psutil.Error):
        psutil.Process(process.pid).nice(min(0, psutil.Process().nice()))


def gone(processes: list[psutil.Process], tally: Tally) -> None:
    """Wait until all have ended; they must."""
    begin = time.monotonic()
    _, alive = psutil.wait_procs(processes, timeout=60)
    assert not alive, f"left behind: {[process.cmdline() for process in alive]}"
    tally.slowest_orphan = max(tally.slowest_orphan, time.monotonic() - begin)


def complete(out: Path, undisturbed: tuple[bytes, bytes], tally: Tally) -> None:
    """Let the sweep be finished, and compare."""
    code, err = finished(Forked(*arguments(out, workers=1)))
    assert code == 0, err
    assert exported(out) == undisturbed
    left = [path for path in out.rglob("*") if path.name.startswith(".") or path.suffix in (".tmp", ".damaged")]
    assert not left, left
    tally.executed += sum(times_done(out).values())
    tally.sweeps += 1


@dataclass
class Life:
    """How long a command lives if nobody disturbs it, as far as has been seen."""

    seconds: float = 2.0

    def moment(self, rng: random.Random, process: Command) -> bool:
        """Wait for a random moment of it; whether the command is still there."""
        begin = time.monotonic()
        try:
            process.wait(rng.uniform(0.0, self.seconds))
        except subprocess.TimeoutExpired:
            self.seconds *= 1.1
            return True
        self.seconds = max(0.2, 0.5 * (self.seconds + time.monotonic() - begin))
        return False


def role(process: psutil.Process) -> str:
    """What a process does for a command."""
    words, above = " ".join(process.cmdline()), process.parent()
    if "resource_tracker" in words:
        return "resource tracker"
    if "compile_others" in words:
        return "second compiler"
    if "forkserver" not in words:
        return "other"
    return "worker" if above is not None and "forkserver" in " ".join(above.cmdline()) else "starter of workers"


ROLES = ("worker", "worker", "starter of workers", "resource tracker")
COMPILERS = ("worker", "second compiler", "second compiler")


def kill_one(process: Command, rng: random.Random, tally: Tally, of_command: float, roles: tuple[str, ...]) -> bool:
    """Kill the command, with the given probability, or one of its processes as soon as there is one of the role."""
    if rng.random() < of_command:
        process.kill()
        tally.harmed["command" + ", forked" * isinstance(process, Forked)] += 1
        return True
    chosen, found = rng.choice(roles), list[psutil.Process]()
    while not found and process.poll() is None:
        time.sleep(0.02)
        for other in family(process):
            with suppress(psutil.NoSuchProcess):
                if role(other) == chosen:
                    found.append(other)
    if found:
        with suppress(psutil.NoSuchProcess):
            rng.choice(found).kill()
            tally.harmed[chosen] += 1
    return False


def kills(
    count: int,
    folder: Path,
    undisturbed: tuple[bytes, bytes],
    rng: random.Random,
    of_command: float = 0.4,
    of_forks: float = 0.6,
    roles: tuple[str, ...] = ROLES,
) -> Tally:
    """Kill up to three processes of each command; each sweep is gone on with until it is done."""
    tally, number, lives = Tally(), 0, {False: Life(), True: Life()}
    while sum(tally.harmed.values()) < count:
        out = folder / f"kills-{number}"
        number += 1
        for _ in range(6):
            forked = rng.random() < of_forks
            process, life = started(out, 1 if forked else 2, forked), lives[forked]
            seen: set[psutil.Process] = set()
            killed = False
            for _ in range(3):  # a run is given up when its process has died three times, the command then tells of it
                if killed or sum(tally.harmed.values()) >= count or not life.moment(rng, process):
                    break
                seen.update(family(process))
                killed = kill_one(process, rng, tally, 1.0 if forked else of_command, roles)
            done = parts(out)
            code, err = finished(process)
            assert killed or code == 0 or "3 times" in err, err
            gone(list(seen), tally)
            assert parts(out) >= done
            if code == 0 or sum(tally.harmed.values()) >= count:
                break
        complete(out, undisturbed, tally)
        shutil.rmtree(out)
    return tally


def compiling(count: int, folder: Path, undisturbed: tuple[bytes, bytes], rng: random.Random) -> Tally:
    """Kill while everything is compiled anew; what has been compiled before a death need not be compiled again."""
    before = os.environ.get("NUMBA_CACHE_DIR")
    os.environ["NUMBA_CACHE_DIR"] = str(folder / "compiled")
    try:
        return kills(count, folder, undisturbed, rng, of_command=0.3, of_forks=0.0, roles=COMPILERS)
    finally:
        os.environ.pop("NUMBA_CACHE_DIR")
        if before is not None:
            os.environ["NUMBA_CACHE_DIR"] = before


def on_cluster(count: int, folder: Path, undisturbed: tuple[bytes, bytes], rng: random.Random) -> Tally:
    """Kill the command, the scheduler or workers; what was killed is replaced, and the sweep goes on."""
    tally, number, life = Tally(), 0, Life()
    while sum(tally.harmed.values()) < count:
        with Cluster(folder / f"cluster-{number}") as cluster:
            out = folder / f"on-cluster-{number}"
            number += 1
            process = start(*arguments(out), "--dask", cluster.address)
            chosen = ""
            for _ in range(3):  # the scheduler gives a run up when four workers have died of it
                if sum(tally.harmed.values()) >= count or not life.moment(rng, process):
                    break
                chosen = rng.choice(("command", "scheduler", "worker of the cluster", "worker of the cluster"))
                tally.harmed[chosen] += 1
                if chosen == "command":
                    process.kill()
                    break
                if chosen == "scheduler":
                    cluster.scheduler.kill()
                    break
                cluster.replace_a_worker(rng)
            begin = time.monotonic()
            code, err = finished(process)
            if chosen == "scheduler" and code != 0:
                assert code == 1, err
                assert "Traceback" not in err, err
                assert re.match("psconrl: .*Dask scheduler", err.splitlines()[-1]), err
                tally.longest = max(tally.longest, time.monotonic() - begin)
            elif chosen != "command":
                assert code == 0, err
        complete(out, undisturbed, tally)
        shutil.rmtree(out)
    return tally


def interrupts(count: int, folder: Path, undisturbed: tuple[bytes, bytes], rng: random.Random) -> Tally:
    """Ctrl-C, once or twice, at random moments of sweeps."""
    tally, number, lives = Tally(), 0, {False: Life(), True: Life()}
    while sum(tally.harmed.values()) < count:
        out = folder / f"interrupts-{number}"
        number += 1
        for _ in range(16):
            forked = rng.random() < 0.75
            process = started(out, 1 if forked else rng.choice((1, 2)), forked)
            listening(process)
            running = lives[forked].moment(rng, process)
            others = family(process)
            hurried(process)
            begin = time.monotonic()
            process.send_signal(signal.SIGINT)
            if rng.random() < 0.5:
                time.sleep(rng.uniform(0.0, 0.3))
                process.send_signal(signal.SIGINT)
            process.wait(600)
            seconds = time.monotonic() - begin
            code, err = finished(process)
            if running and code != 0:
                tally.harmed["interrupts, amid runs" if forked else "interrupts"] += 1
                tally.codes[code] += 1
                tally.longest = max(tally.longest, seconds)
                assert code == 130, (code, err)
                assert "Traceback" not in err, err
            gone(others, tally)
            if code == 0 or sum(tally.harmed.values()) >= count:
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
        crowd = [started(out, *rng.choice(((1, False), (2, False), (1, True), (1, True)))) for _ in range(size)]
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


KINDS = {"kills": kills, "compiling": compiling, "cluster": on_cluster, "interrupts": interrupts, "crowds": crowds}


def main() -> None:
    kind, count = sys.argv[1], int(sys.argv[2])
    seed = int(sys.argv[3]) if len(sys.argv) > 3 else 0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        assert run_experiment(sweep(), folder / "undisturbed", workers=1).ok
        begin = time.monotonic()
        tally = KINDS[kind](count, folder, exported(folder / "undisturbed"), random.Random(seed))
        print(f"{tally}; {time.monotonic() - begin:.0f} s, {os.cpu_count()} cores")


if __name__ == "__main__":
    main()
