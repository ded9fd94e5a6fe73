"""How many decisions a second a learner gives and counts, what late answers cost, and that nothing is lost.

python benchmarks/service.py load [--seconds 5]          ask + tell per second, milliseconds of each; the longest ask
python benchmarks/service.py large [--steps 1000000]     memory, size of the file, time to open it again
python benchmarks/service.py late [--seeds 5]            the hospital with answers that come 1, 10, 100 steps late
python benchmarks/service.py kill [--kills 1000]         SIGKILL at random moments, SQLite and PostgreSQL
python benchmarks/service.py shuffled [--steps 1000000]  8 streams, 64 clients; answers shuffled, doubled, missing

With --keep the numbers go into the documentation. --folder says where SQLite files are, as disks differ.
"""

import argparse
import gc
import http.client
import json
import os
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import kept
import numpy as np

import psconrl
from psconrl.learning.durable import DurableLearner
from tests.learning import durable_client
from tests.postgres import running_server

SIZES = (16, 64, 1024)
DELAYS = (0, 1, 10, 100)
HORIZON = 20_000
PORTION = 100_000
"""Steps between two looks at memory and file."""


def environment(S: int) -> psconrl.CMDP:
    """A random model of S states and 4 actions, each of which leads to 3 states."""
    return psconrl.make("garnet", S=S, A=4, branching=3, seed=1)


class World:
    """An environment, for one client."""

    def __init__(self, cmdp: psconrl.CMDP, seed: int = 0) -> None:
        self.cmdp, self.rng = cmdp, np.random.default_rng(seed)
        moves = cmdp.matrix.toarray()
        self.cumulative = np.cumsum(moves.reshape(cmdp.S, cmdp.A, cmdp.S), axis=2)

    def step(self, s: int, a: int) -> tuple[list[float], int]:
        """What comes of an action."""
        x = int(np.searchsorted(self.cumulative[s, a], self.rng.random()))
        return self.cmdp.costs[:, s, a].tolist(), min(x, self.cmdp.S - 1)


class Times:
    """Seconds that calls took, and seconds of the processor."""

    def __init__(self) -> None:
        self.asks: list[float] = []
        self.tells: list[float] = []
        self.longest = 0.0

    def row(self, seconds: float, processor: float) -> list[str]:
        """What a table has of them."""
        steps = len(self.tells)
        shown = [np.percentile(times, [50, 99]) * 1e3 for times in (self.asks, self.tells)]
        cells = [f"{x:.2f}" for pair in shown for x in pair]
        return [f"{steps / seconds:,.0f}", f"{processor / steps * 1e3:.2f}", *cells]

    def call(self, times: list[float], call: Callable[..., Any], *arguments: Any) -> Any:
        """Call, and note how long it took."""
        before, worked = time.perf_counter(), time.thread_time()
        result = call(*arguments)
        times.append(time.perf_counter() - before)
        if times is self.asks:
            self.longest = max(self.longest, time.thread_time() - worked)
        return result


def load(options: argparse.Namespace) -> dict[str, kept.Part]:
    """The table of speeds, and the longest ask."""
    rows, longest = [], ""
    head = ["S", "learner", "ask + tell per second", "processor ms", "ask p50 ms", "p99", "tell p50", "p99"]
    for S in SIZES:
        cmdp = environment(S)
        for name in ("in memory", "SQLite", "PostgreSQL", "HTTP, 1 client", "HTTP, 8 clients"):
            with ExitStack() as stack:
                folder = Path(stack.enter_context(tempfile.TemporaryDirectory(dir=options.folder)))
                if name.startswith("HTTP"):
                    row = over_http(cmdp, int(name.split()[1]), folder, options.seconds)
                else:
                    url = stack.enter_context(running_server()) if name == "PostgreSQL" else f"{folder}/learner.db"
                    row, found = in_process(cmdp, None if name == "in memory" else url, options.seconds)
                    if (S, name) == (64, "SQLite"):
                        longest = found
            rows.append([str(S), name, *row])
            print(*rows[-1], sep="  ", flush=True)
    return {"service-load": kept.table(head, rows), "service-longest": kept.text(longest)}


def in_process(cmdp: psconrl.CMDP, url: str | None, seconds: float) -> tuple[list[str], str]:
    """Ask and tell in a store, or act and observe in memory; and what the longest ask was."""
    world, times, s = World(cmdp), Times(), 0
    problem = cmdp.problem()
    with ExitStack() as stack:
        learner: Any = psconrl.Learner(None, problem=problem)
        if url is not None:
            learner = stack.enter_context(psconrl.Learner.open(url, problem=problem))
        else:
            learner.observe(0, learner.act(0), [0.0] * (cmdp.m + 1), 0)  # compiles
        gc.collect()
        gc.freeze()  # as the service does
        begun, worked = time.perf_counter(), time.process_time()
        while time.perf_counter() - begun < seconds:
            if url is None:
                action = times.call(times.asks, learner.act, s)
                costs, x = world.step(s, action)
                times.call(times.tells, learner.observe, s, action, costs, x)
            else:
                decision = times.call(times.asks, learner.ask, s)
                costs, x = world.step(s, decision.action)
                times.call(times.tells, learner.tell, decision.id, costs, x)
            s = x
        row = times.row(time.perf_counter() - begun, time.process_time() - worked)
        longest = (
            f"The longest of {len(times.asks):,} asks, {learner.status()['plans']} of which made a plan, took "
            f"{times.longest * 1e3:.0f} ms of the processor."
        )
    return row, longest


PROBLEM = """
states = {S}
actions = 4
[costs.c0]
{limits}
"""


@contextmanager
def service(cmdp: psconrl.CMDP, folder: Path) -> Iterator[tuple[str, int]]:
    """A server in a process of its own: its URL and process."""
    limits = "\n".join(f"[costs.{cmdp.cost_names[i + 1]}]\nlimit = {tau}" for i, tau in enumerate(cmdp.thresholds))
    (folder / "problem.toml").write_text(PROBLEM.format(S=cmdp.S, limits=limits).replace("c0", cmdp.cost_names[0]))
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "-m", "psconrl", "serve", folder / "problem.toml", "--store", folder / "learner.db"]
    process = subprocess.Popen([*map(str, command), "--port", str(port)], stdout=subprocess.DEVNULL)
    try:
        while True:
            try:
                with socket.create_connection(("127.0.0.1", port)):
                    break
            except OSError:
                if process.poll() is not None:
                    raise
                time.sleep(0.1)
        yield f"http://127.0.0.1:{port}", process.pid
    finally:
        process.terminate()
        process.wait()


def processor_seconds(process: int) -> float:
    """Of another process, so far."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def over_http(cmdp: psconrl.CMDP, clients: int, folder: Path, seconds: float) -> list[str]:
    """/ask and /tell by several clients at once."""
    with service(cmdp, folder) as (url, process):
        times = [Times() for _ in range(clients)]
        end = time.perf_counter() + seconds

        def drive(number: int) -> None:
            world, s, mine = World(cmdp, number), 0, times[number]
            connection = http.client.HTTPConnection(urlsplit(url).netloc)
            while time.perf_counter() < end:
                body = {"state": s, "stream": f"ward-{number}"}
                decision = mine.call(mine.asks, post, connection, "/ask", body)
                costs, s = world.step(s, decision["action"])
                body = {"id": decision["id"], "costs": costs, "next_state": s}
                mine.call(mine.tells, post, connection, "/tell", body)

        begun, worked = time.perf_counter(), processor_seconds(process)
        run_threads([threading.Thread(target=drive, args=(n,)) for n in range(clients)])
        together = Times()
        for one in times:
            together.asks += one.asks
            together.tells += one.tells
        return together.row(time.perf_counter() - begun, processor_seconds(process) - worked)


def run_threads(threads: list[threading.Thread]) -> None:
    """Start them, and wait for them."""
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def post(connection: http.client.HTTPConnection, path: str, body: dict[str, Any]) -> Any:
    """The answer to a request."""
    connection.request("POST", path, json.dumps(body), {"Content-Type": "application/json"})
    response = connection.getresponse()
    content = response.read()
    if response.status != 200:
        raise RuntimeError(content.decode())
    return json.loads(content)


def large(options: argparse.Namespace) -> dict[str, kept.Part]:
    """Memory and size of the file as steps go on, and how long it takes to open it again."""
    cmdp, world, s = environment(64), World(environment(64)), 0
    rows = []
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        path = Path(folder) / "learner.db"
        settings = {"problem": cmdp.problem(), "history": options.history}
        with psconrl.Learner.open(path, **settings) as learner:
            worked = time.process_time()
            for t in range(1, options.steps + 1):
                decision = learner.ask(s)
                costs, s = world.step(s, decision.action)
                learner.tell(decision.id, costs, s)
                if t % PORTION == 0:
                    pages = int(Path("/proc/self/statm").read_text().split()[1])
                    memory = pages * os.sysconf("SC_PAGE_SIZE") / 2**20
                    spent = (time.process_time() - worked) / PORTION * 1e6
                    rows.append([f"{t:,}", f"{memory:.0f}", f"{path.stat().st_size / 2**20:.0f}", f"{spent:.0f}"])
                    print(*rows[-1], sep="  ", flush=True)
                    worked = time.process_time()
        reopened = []
        for _ in range(3):
            before = time.perf_counter(), time.process_time()
            psconrl.Learner.open(path, **settings).close()
            reopened.append((time.perf_counter() - before[0], time.process_time() - before[1]))
        wall, processor = min(reopened)
        said = (
            f"After {options.steps:,} steps, of which {options.history:,} are kept, the store opens again in "
            f"{wall:.1f} s ({processor:.1f} s of the processor)."
        )
        print(said)
    head = ["steps", "memory (MiB)", "file (MiB)", "processor µs for one"]
    shown = [rows[i] for i in sorted({0, *np.geomspace(1, len(rows), 8).astype(int) - 1})]
    return {"service-large": kept.table(head, shown), "service-reopened": kept.text(said)}


def late(options: argparse.Namespace) -> dict[str, kept.Part]:
    """L of the hospital with answers that come some steps late."""
    cmdp = psconrl.make("hospital")
    optimum = psconrl.solve(cmdp)
    rows = []
    for delay in DELAYS:
        results = []
        for seed in range(options.seeds):
            world, s, totals = World(cmdp, seed), 0, np.zeros(cmdp.m + 1)
            waiting: deque[tuple[int, list[float], int]] = deque()
            with (
                tempfile.TemporaryDirectory(dir=options.folder) as folder,
                psconrl.Learner.open(f"{folder}/learner.db", problem=cmdp.problem(), seed=seed) as learner,
            ):
                for _ in range(HORIZON):
                    decision = learner.ask(s)
                    costs, s = world.step(s, decision.action)
                    totals += costs
                    waiting.append((decision.id, costs, s))
                    if len(waiting) > delay:
                        learner.tell(*waiting.popleft())
            regret = totals[0] - HORIZON * optimum.value
            violation = totals[1:] - HORIZON * cmdp.thresholds
            results.append([regret + optimum.multipliers @ violation, *violation])
            print(delay, seed, *np.round(results[-1], 1), flush=True)
        mean = np.mean(results, axis=0)
        error = 2 * np.std(results, axis=0, ddof=1) / np.sqrt(len(results)) if len(results) > 1 else 0 * mean
        rows.append([str(delay), *(f"{x:,.0f} ± {e:,.0f}" for x, e in zip(mean, error, strict=True))])
    names = [f"{name} above its limit" for name in cmdp.cost_names[1:]]
    return {"service-late": kept.table(["steps late", "L", *names], rows)}


def kill(options: argparse.Namespace) -> dict[str, kept.Part]:
    """Kill clients so many times, and hold the stores against what they noted, and against an undisturbed twin."""
    rows = []
    for name, clients in (("SQLite", 1), ("PostgreSQL", 1), ("PostgreSQL", 4)):
        with tempfile.TemporaryDirectory(dir=options.folder) as folder, ExitStack() as stack:
            notes = Path(folder)
            if name == "SQLite":
                store, twin = f"{folder}/killed.db", f"{folder}/twin.db"
            else:
                store = stack.enter_context(running_server())
                twin = stack.enter_context(running_server())
            amid = durable_client.kill_clients(store, notes, options.kills, clients)
            asks, tells = durable_client.check(store, notes, clients)
            same = "–" if clients > 1 else "yes" if durable_client.same_as_twin(store, notes, twin) else "no"
        rows.append([name, str(clients), f"{options.kills:,}", f"{amid:,}", f"{asks:,}", f"{tells:,}", "0", same])
        print(*rows[-1], sep="  ", flush=True)
    head = ["store", "clients", "kills", "amid ask and tell", "asks acknowledged", "tells", "lost or doubled"]
    return {"service-kill": kept.table([*head, "same as a twin"], rows)}


def shuffled(options: argparse.Namespace) -> dict[str, kept.Part]:
    """64 clients of 8 streams: answers shuffled, a tenth doubled, a hundredth missing."""
    cmdp, clients = environment(64), 64
    each = options.steps // clients
    expected: list[Any] = [None] * clients
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        learner = psconrl.Learner.open(f"{folder}/learner.db", problem=cmdp.problem())

        def drive(number: int) -> None:
            expected[number] = shuffled_client(learner, cmdp, number, each)

        with learner:
            run_threads([threading.Thread(target=drive, args=(n,)) for n in range(clients)])
            status = learner.status()
            with learner._transaction() as replica:
                visits, sums = replica.learner.visits.copy(), replica.learner.cost_sums.copy()
    told, missing, doubled = (sum(one[i] for one in expected) for i in range(3))
    right = (
        np.array_equal(visits, sum(one[3] for one in expected))
        and np.allclose(sums, sum(one[4] for one in expected))
        and (status["steps"], status["pending"], status["decisions"]) == (told, missing, each * clients)
        and sum(sum(hours.values()) for hours in status["streams"].values()) == told
        and len(status["streams"]) == 8
    )
    if not right:
        raise RuntimeError(f"the counts are not those of the record: {status['steps']} steps of {told}")
    said = (
        f"{clients} clients of 8 streams asked {each * clients:,} times; of the answers, which came shuffled, "
        f"{doubled:,} came twice and {missing:,} never. The counts equal the clients' record: {told:,} steps."
    )
    print(said)
    return {"service-shuffled": kept.text(said)}


def shuffled_client(learner: DurableLearner, cmdp: psconrl.CMDP, number: int, steps: int) -> tuple[Any, ...]:
    """Ask and tell out of order; what should have been counted, what never came, what came twice, visits, cost sums."""
    world, waiting, rng = World(cmdp, number), [], np.random.default_rng([1, number])
    visits, sums = np.zeros((cmdp.S, cmdp.A), dtype=np.int64), np.zeros(cmdp.costs.shape)
    told = missing = doubled = 0
    for i in range(steps):
        decision = learner.ask(int(rng.integers(cmdp.S)), f"ward-{number % 8}")
        waiting.append((decision, *world.step(decision.state, decision.action)))
        if len(waiting) < 50 and i < steps - 1:
            continue
        rng.shuffle(waiting)
        for decision, costs, x in waiting:
            u = rng.random()
            if u < 0.01:
                missing += 1
                continue
            for _ in range(2 if u > 0.9 else 1):
                learner.tell(decision.id, costs, x)
            told, doubled = told + 1, doubled + (u > 0.9)
            visits[decision.state, decision.action] += 1
            sums[:, decision.state, decision.action] += costs
        waiting = []
    return told, missing, doubled, visits, sums


def main() -> None:
    """See the module's docstring."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("load", "large", "late", "kill", "shuffled"))
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--steps", type=int, default=1_000_000)
    parser.add_argument("--history", type=int, default=1_000_000)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--kills", type=int, default=1000)
    parser.add_argument("--folder")
    parser.add_argument("--keep", action="store_true")
    options = parser.parse_args()
    measure = {"load": load, "large": large, "late": late, "kill": kill, "shuffled": shuffled}[options.what]
    parts = measure(options)
    for part in parts.values():
        kept.show(part)
    if options.keep:
        kept.keep(f"service-{options.what}", parts)


if __name__ == "__main__":
    main()
