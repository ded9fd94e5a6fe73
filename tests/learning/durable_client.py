"""Clients of a durable learner that are killed at random moments, and note what was acknowledged.

    kill_clients(store, folder, kills=1000, clients=4)

Each client asks under a name and tells, in a process of its own, which is killed by SIGKILL and started again until so
many were killed; then all end in peace. What was acknowledged goes to folder/CLIENT, one line each, before the next
call begins. A client that starts again reads its notes, and repeats what was not acknowledged. What comes of a step
depends on the steps before it alone, so an undisturbed twin of a single client does the same.
"""

from __future__ import annotations

import os
import signal
import sys
import time
import traceback
from pathlib import Path

import numpy as np

import psconrl
from psconrl.learning.durable import DurableLearner

ENVIRONMENT = psconrl.make("marsrover-4x4")
SECONDS = 0.05
"""How long a client is left alone, at the most, after it was acknowledged something; or, now and then, at once."""
ANSWERED = 0.999
"""The probability that it is left alone for another millisecond before that."""


def outcome(step: int, state: int, action: int) -> tuple[list[float], int]:
    """What the environment answers in a step: the same for whoever asks."""
    rng = np.random.default_rng([step, state, action])
    row = np.asarray(ENVIRONMENT.transitions)[state, action]
    return ENVIRONMENT.costs[:, state, action].tolist(), int(rng.choice(len(row), p=row))


def open_learner(store: str) -> DurableLearner:
    """The learner of the test."""
    return psconrl.Learner.open(store, problem=ENVIRONMENT.problem(), seed=3)


def acknowledged(folder: Path, client: int) -> list[list[int]]:
    """The notes of a client: [step, decision, action] of an ask, and the next state of a tell."""
    file = folder / str(client)
    return [[int(word) for word in line.split()] for line in file.read_text().splitlines()] if file.exists() else []


def drive(store: str, folder: Path, client: int, steps: int | None = None) -> None:
    """Ask and tell, from where the notes end; until there are so many steps, or a step is done and a file `stop`."""
    notes = acknowledged(folder, client)
    told = [note for note in notes if len(note) == 4]
    step, state = len(told), told[-1][3] if told else 0
    file = os.open(folder / str(client), os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    with open_learner(store) as learner:
        begun = False
        while step < steps if steps is not None else not (begun and (folder / "stop").exists()):
            begun = True
            decision = learner.ask(state, f"ward-{client}", request=f"{client} {step}")
            note = [step, decision.id, decision.action]
            if notes and len(notes[-1]) == 3:
                assert notes[-1] == note, f"acknowledged was {notes[-1]}, now it is {note}"
            os.write(file, f"{' '.join(map(str, note))}\n".encode())
            costs, state = outcome(step, state, decision.action)
            learner.tell(decision.id, costs, state)
            os.write(file, f"{' '.join(map(str, [*note, state]))}\n".encode())
            step, notes = step + 1, []
    os.close(file)


def kill_clients(store: str, folder: Path, kills: int, clients: int = 1, seed: int = 0) -> int:
    """Start clients, kill them so many times, and let them end; how many kills came after an acknowledgement."""
    warm = psconrl.Learner(None, problem=ENVIRONMENT.problem())
    for state in range(8):
        warm.observe(state, warm.act(state), [1.0, 0.0], state + 1)
    if "://" in store:
        import psycopg  # noqa: F401  once, not in each client
    rng, amid = np.random.default_rng(seed), 0
    workers: dict[int, tuple[int, int]] = {}

    def size(client: int) -> int:
        file = folder / str(client)
        return file.stat().st_size if file.exists() else 0

    for client in range(clients):
        workers[client] = _start(store, folder, client), size(client)
    for _ in range(kills):
        client = int(rng.integers(clients))
        worker, before = workers[client]
        while rng.random() < ANSWERED and size(client) == before:
            time.sleep(0.001)
        time.sleep(float(rng.uniform(0.0, SECONDS)))
        os.kill(worker, signal.SIGKILL)
        status = os.waitpid(worker, 0)[1]
        assert os.WIFSIGNALED(status), "a client failed, see above"
        amid += size(client) > before
        workers[client] = _start(store, folder, client), size(client)
    (folder / "stop").touch()
    for worker, _ in workers.values():
        assert os.waitpid(worker, 0)[1] == 0, "a client failed, see above"
    return amid


def _start(store: str, folder: Path, client: int) -> int:
    worker = os.fork()
    if worker:
        return worker
    try:
        drive(store, folder, client)
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
        os._exit(1)
    os._exit(0)


def check(store: str, folder: Path, clients: int) -> tuple[int, int]:
    """Hold a store against the clients' notes: how many asks and tells were acknowledged, all stored exactly once."""
    with open_learner(store) as learner, learner._transaction() as replica:
        decisions = learner.store.decisions("id >= 0 ORDER BY id")
        observations = list(learner.store.log())
        visits = replica.learner.visits
    by_request = {row.request: row for row in decisions}
    counted = [row.decision for row in observations]
    assert len(by_request) == len(decisions)
    assert len(set(counted)) == len(counted)
    asks, told = 0, set()
    for client in range(clients):
        notes = acknowledged(folder, client)
        for note in notes:
            decision = by_request[f"{client} {note[0]}"]
            assert [decision.id, decision.action] == note[1:3]
            asks += len(note) == 3
            if len(note) == 4:
                assert decision.observation is not None
                assert observations[decision.observation].decision == decision.id
                assert observations[decision.observation].next_state == note[3]
                told.add(decision.id)
    assert told == set(counted)  # nothing was counted that no client told, nothing twice
    seen = np.zeros_like(visits)
    np.add.at(seen, ([row.state for row in observations], [row.action for row in observations]), 1)
    np.testing.assert_array_equal(seen, visits)
    return asks, len(told)


def same_as_twin(store: str, folder: Path, twin: str) -> bool:
    """Whether the store of one client has the decisions and observations of a twin that nobody killed."""
    (folder / "twin").mkdir()
    drive(twin, folder / "twin", 0, len([note for note in acknowledged(folder, 0) if len(note) == 4]))
    contents = []
    for url in (store, twin):
        with open_learner(url) as learner, learner._transaction() as replica:
            state = psconrl.learning.state_io.pack(replica.learner.state())
            decisions = [row._replace(asked=0, expires=0) for row in learner.store.decisions("id >= 0 ORDER BY id")]
            contents.append((state, decisions, [row._replace(seen=0) for row in learner.store.log()]))
    return contents[0] == contents[1]
