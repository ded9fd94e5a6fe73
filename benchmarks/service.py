"""How many decisions a second a learner gives and counts: in memory, in a store, over HTTP; and what late answers cost.

python benchmarks/service.py load [--seconds 5]     ask + tell per second, and milliseconds of each at p50 / p99
python benchmarks/service.py large [--steps 1000000]     memory, size of the file, time to open it again
python benchmarks/service.py late [--seeds 5]       the ward with answers that come 1, 10, 100 steps late
python benchmarks/service.py kill [--kills 1000]    SIGKILL at random moments, then the same as an undisturbed twin
"""

from __future__ import annotations

import argparse
import os
import resource
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2 as httpx
import numpy as np

import psconrl
from tests.postgres import running_server

STREAMS = 8


def environment(S: int) -> psconrl.CMDP:
    """A ring with random slips, of S states and 4 actions."""
    return psconrl.make("garnet", S=S, A=4, branching=3, seed=1)


class World:
    """The environment, one state for each stream."""

    def __init__(self, cmdp: psconrl.CMDP, seed: int = 0) -> None:
        self.cmdp, self.rng = cmdp, np.random.default_rng(seed)
        self.cumulative = np.cumsum(np.asarray(cmdp.transitions), axis=2)

    def step(self, s: int, a: int) -> tuple[list[float], int]:
        """What comes of an action."""
        x = int(np.searchsorted(self.cumulative[s, a], self.rng.random()))
        return self.cmdp.costs[:, s, a].tolist(), min(x, self.cmdp.S - 1)


def load(seconds: float) -> None:
    """Print the table of speeds."""
    print(f"{'':30} {'ask + tell / s':>14} {'ask p50':>9} {'p99':>9} {'tell p50':>9} {'p99':>9}  ms")
    for S in (16, 64, 1024):
        cmdp = environment(S)
        report(f"S={S} in memory", lambda cmdp=cmdp: in_memory(cmdp, seconds))
        with tempfile.TemporaryDirectory() as folder:
            report(f"S={S} SQLite", lambda cmdp=cmdp, f=folder: durable(cmdp, f"{f}/learner.db", seconds))
        with running_server() as url:
            report(f"S={S} PostgreSQL", lambda cmdp=cmdp, u=url: durable(cmdp, u, seconds))
        for clients in (1, 8):
            report(f"S={S} HTTP, SQLite, {clients} clients", lambda cmdp=cmdp, c=clients: over_http(cmdp, c, seconds))


def report(name: str, measure: Callable[[], tuple[int, float, list[float], list[float]]]) -> None:
    """Print one row."""
    steps, took, asks, tells = measure()
    a50, a99 = np.percentile(asks, [50, 99]) * 1e3
    t50, t99 = np.percentile(tells, [50, 99]) * 1e3
    print(f"{name:30} {steps / took:14,.0f} {a50:9.2f} {a99:9.2f} {t50:9.2f} {t99:9.2f}", flush=True)


def in_memory(cmdp: psconrl.CMDP, seconds: float) -> tuple[int, float, list[float], list[float]]:
    """act and observe."""
    learner, world = psconrl.Learner(None, problem=cmdp.problem()), World(cmdp)
    s = 0

    def ask() -> Any:
        return learner.act(s)

    def tell(a: Any, costs: list[float], x: int) -> None:
        learner.observe(s, a, costs, x)

    asks: list[float] = []
    tells: list[float] = []
    begun = time.perf_counter()
    while time.perf_counter() - begun < seconds:
        a = timed(asks, ask)
        costs, x = world.step(s, a)
        timed(tells, tell, a, costs, x)
        s = x
    return len(asks), time.perf_counter() - begun, asks, tells


def timed(times: list[float], call: Callable[..., Any], *arguments: Any) -> Any:
    """Call, and note how long it took."""
    before = time.perf_counter()
    result = call(*arguments)
    times.append(time.perf_counter() - before)
    return result


def durable(cmdp: psconrl.CMDP, url: str, seconds: float) -> tuple[int, float, list[float], list[float]]:
    """ask and tell in a store."""
    world = World(cmdp)
    with psconrl.Learner.open(url, problem=cmdp.problem()) as learner:
        s = 0
        asks: list[float] = []
        tells: list[float] = []
        begun = time.perf_counter()
        while time.perf_counter() - begun < seconds:
            decision = timed(asks, learner.ask, s)
            costs, x = world.step(s, decision.action)
            timed(tells, learner.tell, decision.id, costs, x)
            s = x
        return len(asks), time.perf_counter() - begun, asks, tells


PROBLEM = """
states = {S}
actions = 4
[costs.c0]
{limits}
"""


@contextmanager
def service(cmdp: psconrl.CMDP, folder: Path) -> Iterator[str]:
    """A server in a process of its own; its URL."""
    limits = "\n".join(f"[costs.{cmdp.cost_names[i + 1]}]\nlimit = {tau}" for i, tau in enumerate(cmdp.thresholds))
    (folder / "problem.toml").write_text(PROBLEM.format(S=cmdp.S, limits=limits).replace("c0", cmdp.cost_names[0]))
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "-m", "psconrl", "serve", folder / "problem.toml", "--store", folder / "learner.db"]
    process = subprocess.Popen([*map(str, command), "--port", str(port)], stdout=subprocess.DEVNULL)
    url = f"http://127.0.0.1:{port}"
    try:
        while True:
            try:
                httpx.get(url + "/healthz").raise_for_status()
                break
            except httpx.HTTPError:
                if process.poll() is not None:
                    raise
                time.sleep(0.1)
        yield url
    finally:
        process.terminate()
        process.wait()


def over_http(cmdp: psconrl.CMDP, clients: int, seconds: float) -> tuple[int, float, list[float], list[float]]:
    """/ask and /tell by several clients at once."""
    asks: list[float] = []
    tells: list[float] = []
    with tempfile.TemporaryDirectory() as folder, service(cmdp, Path(folder)) as url:
        end = time.perf_counter() + seconds

        def drive(number: int) -> None:
            world, s = World(cmdp, number), 0
            with httpx.Client(base_url=url) as client:
                while time.perf_counter() < end:
                    body = {"state": s, "stream": f"ward-{number}"}
                    decision = timed(asks, post, client, "/ask", body)
                    costs, s = world.step(s, decision["action"])
                    body = {"id": decision["id"], "costs": costs, "next_state": s}
                    timed(tells, post, client, "/tell", body)

        begun = time.perf_counter()
        threads = [threading.Thread(target=drive, args=(n,)) for n in range(clients)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return len(tells), time.perf_counter() - begun, asks, tells


def post(client: httpx.Client, path: str, body: dict[str, Any]) -> Any:
    """The answer to a request."""
    return client.post(path, json=body).raise_for_status().json()


def large(steps: int) -> None:
    """Print memory and size of the file as steps go on, and how long it takes to open it again."""
    cmdp, world, s = environment(64), World(environment(64)), 0
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "learner.db"
        with psconrl.Learner.open(path, problem=cmdp.problem(), history=100_000) as learner:
            for t in range(1, steps + 1):
                decision = learner.ask(s)
                costs, s = world.step(s, decision.action)
                learner.tell(decision.id, costs, s)
                if t % (steps // 10) == 0:
                    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
                    print(f"{t:12,} steps: {memory:.0f} MiB, file {path.stat().st_size / 2**20:.0f} MiB", flush=True)
            os.sync()
        before = time.perf_counter()
        psconrl.Learner.open(path, problem=cmdp.problem(), history=100_000).close()
        print(f"opened again in {time.perf_counter() - before:.2f} s")


def late(seeds: int, horizon: int = 20_000) -> None:
    """Print L of the ward with answers that come some steps late."""
    cmdp = psconrl.make("hospital")
    optimum = psconrl.solve(cmdp)
    for delay in (0, 1, 10, 100):
        results = []
        for seed in range(seeds):
            world, s = World(cmdp, seed), 0
            waiting: deque[tuple[int, list[float], int]] = deque()
            totals = np.zeros(cmdp.m + 1)
            with (
                tempfile.TemporaryDirectory() as folder,
                psconrl.Learner.open(f"{folder}/learner.db", problem=cmdp.problem(), seed=seed) as learner,
            ):
                for _ in range(horizon):
                    decision = learner.ask(s)
                    costs, s = world.step(s, decision.action)
                    totals += costs
                    waiting.append((decision.id, costs, s))
                    if len(waiting) > delay:
                        learner.tell(*waiting.popleft())
            regret = totals[0] - horizon * optimum.value
            violation = totals[1:] - horizon * cmdp.thresholds
            results.append([regret + optimum.multipliers @ violation, *violation])
        mean, error = np.mean(results, axis=0), np.std(results, axis=0) / np.sqrt(seeds)
        print(f"{delay:4} steps late: L {mean[0]:.0f} ± {error[0]:.0f}, violations {mean[1:].round(0)}", flush=True)


def kill(kills: int) -> None:
    """Kill a client so many times, and hold its store against an undisturbed twin's."""
    from tests.learning.durable_client import drive, open_learner

    with tempfile.TemporaryDirectory() as folder:
        killed, twin = f"{folder}/killed.db", f"{folder}/twin.db"
        command = [sys.executable, "-m", "tests.learning.durable_client", killed, str(20 * kills), str(kills), "1"]
        print(subprocess.run([*command, f"{folder}/acknowledged"], check=True, capture_output=True, text=True).stdout)
        with open_learner(killed) as a:
            steps = a.status()["steps"]
        drive(twin, steps)
        columns = "SELECT id, stream, state, action, probability, plan, observation FROM decisions ORDER BY id"
        with open_learner(killed) as a, open_learner(twin) as b:
            same = a.store.run(columns) == b.store.run(columns)
        print(f"{steps} steps; the same decisions as the undisturbed twin: {same}")


def main() -> None:
    """See the module's docstring."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("load", "large", "late", "kill"))
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--steps", type=int, default=1_000_000)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--kills", type=int, default=1000)
    given = parser.parse_args()
    if given.what == "load":
        load(given.seconds)
    elif given.what == "large":
        large(given.steps)
    elif given.what == "late":
        late(given.seeds)
    else:
        kill(given.kills)


if __name__ == "__main__":
    main()
