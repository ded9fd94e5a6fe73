"""Durable learners: nothing acknowledged is lost or counted twice, whatever dies."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

import psconrl
from psconrl.errors import CallOrderError, InvalidArgumentError, LearnerFileError, PsconrlError, StoreError
from psconrl.learning import durable
from psconrl.learning.drift import BLOCK, DriftMonitor
from psconrl.learning.durable import DurableLearner
from tests.learning import durable_client
from tests.postgres import running_server

CDP = psconrl.make("marsrover-4x4")


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with running_server() as url:
        yield url


@pytest.fixture(params=["sqlite", "postgresql"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return str(tmp_path / "learner.db")
    return new_schema(request.getfixturevalue("server"))


_schemas = iter(range(10**6))


def new_schema(url: str) -> str:
    """A fresh place for a learner in a server."""
    import psycopg

    name = f"ward{next(_schemas)}"
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"CREATE SCHEMA {name}")
    return f"{url}?options=-csearch_path%3D{name}"


def opened(store: str, **settings: Any) -> DurableLearner:
    return psconrl.Learner.open(store, problem=CDP.problem(), **settings)


def replica(learner: DurableLearner) -> Any:
    with learner._transaction() as found:
        return found


def step(learner: DurableLearner, state: int, number: int) -> int:
    decision = learner.ask(state)
    costs, after = durable_client.outcome(number, state, decision.action)
    assert learner.tell(decision.id, costs, after)
    return after


def test_what_is_told_is_counted_once_and_survives(store: str) -> None:
    with opened(store) as learner:
        first = learner.ask(0, "ward-7")
        second = learner.ask(0, "ward-8")
        assert learner.tell(second.id, [1.0, 0.0], 4)
        assert not learner.tell(second.id, [1, 0], 4)
        with pytest.raises(CallOrderError, match="answered before, with costs"):
            learner.tell(second.id, [0.0, 0.0], 4)
        assert learner.observe(4, 0, [1.0, 1.0], 8, "ward-9", request="nine")
        assert not learner.observe(4, 0, [1.0, 1.0], 8, "ward-9", request="nine")
        assert [decision.id for decision in learner.pending()] == [first.id]
    with opened(store) as learner:
        assert learner.tell(first.id, [1.0, 0.0], 4)
        status = learner.status()
        assert (status["steps"], status["pending"], status["decisions"]) == (3, 0, 2)
        assert sum(sum(hours.values()) for hours in status["streams"].values()) == 3


def test_a_request_is_answered_once(store: str) -> None:
    with opened(store) as learner:
        assert learner.ask(0, request="09:00") == learner.ask(0, request="09:00")
        assert learner.ask(0, request="10:00").id == 1
        with pytest.raises(CallOrderError, match="another state"):
            learner.ask(1, request="10:00")


def test_cancelled_decisions_are_not_pending_and_not_told(store: str) -> None:
    with opened(store) as learner:
        decision = learner.ask(0)
        assert learner.cancel(decision.id)
        assert not learner.cancel(decision.id)
        with pytest.raises(CallOrderError, match="cancelled"):
            learner.tell(decision.id, [1.0, 0.0], 4)
        assert learner.status()["steps"] == 0


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda learner: learner.ask(99), "state"),
        (lambda learner: learner.ask(0, 7), "stream"),
        (lambda learner: learner.tell(5, [1.0, 0.0], 0), "no such decision"),
        (lambda learner: learner.tell(0, [1.0], 0), "costs"),
        (lambda learner: learner.tell(0, [1.0, float("nan")], 0), "costs"),
        (lambda learner: learner.tell(0, [1.0, 0.0], -1), "next_state"),
        (lambda learner: learner.tell("0", [1.0, 0.0], 0), "id"),
        (lambda learner: learner.observe(0, 9, [1.0, 0.0], 0), "a is"),
        (lambda learner: learner.cancel(7), "no such decision"),
        (lambda learner: learner.export("log.txt"), "csv"),
    ],
)
def test_wrong_values_are_refused_and_change_nothing(tmp_path: Path, call: object, says: str) -> None:
    with opened(str(tmp_path / "learner.db")) as learner:
        learner.ask(0)
        before = learner.status()
        with pytest.raises(PsconrlError, match=says):
            call(learner)  # type: ignore[operator]
        assert learner.status() == before


@pytest.mark.parametrize("clients", [1, 3])
def test_clients_killed_at_random_moments_lose_nothing_acknowledged(store: str, tmp_path: Path, clients: int) -> None:
    if clients > 1 and "://" not in store:
        pytest.skip("a file is for one process")
    killed_clients(store, tmp_path, kills=12, clients=clients)
    asked, told = durable_client.check(store, tmp_path, clients)
    assert asked >= told > 0
    if clients == 1:
        twin = new_schema(store.partition("?")[0]) if "://" in store else str(tmp_path / "twin.db")
        assert durable_client.same_as_twin(store, tmp_path, twin)


def killed_clients(store: str, folder: Path, kills: int, clients: int) -> None:
    """In a process of its own, as forks of one with threads may hang."""
    command = f"kill_clients({store!r}, Path({str(folder)!r}), {kills}, {clients})"
    code = f"from pathlib import Path; from tests.learning.durable_client import kill_clients; {command}"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr


def assert_same(a: object, b: object) -> None:
    if isinstance(a, dict) and isinstance(b, dict):
        assert a.keys() == b.keys()
        for key in a:
            assert_same(a[key], b[key])
    elif isinstance(a, (list, tuple)) and isinstance(b, (list, tuple)):
        assert len(a) == len(b)
        for x, y in zip(a, b, strict=True):
            assert_same(x, y)
    elif isinstance(a, np.ndarray):
        np.testing.assert_array_equal(a, b)
    else:
        assert a == b or (a != a and b != b)


def test_many_clients_shuffled_doubled_and_missing_answers(store: str) -> None:
    with opened(store) as learner:
        expected = np.zeros((CDP.S, CDP.A), dtype=np.int64)
        lock = threading.Lock()

        def client(number: int) -> None:
            random = np.random.default_rng([2, number])
            waiting = []
            for i in range(60):
                decision = learner.ask(int(random.integers(CDP.S)), f"ward-{number % 4}")
                waiting.append(decision)
                if len(waiting) > 5 or i == 59:
                    random.shuffle(waiting)
                    for told in waiting:
                        if random.random() < 0.05:
                            continue
                        after = int(random.integers(CDP.S))
                        for _ in range(2 if random.random() < 0.1 else 1):
                            learner.tell(told.id, [1.0, 0.0], after)
                        with lock:
                            expected[told.state, told.action] += 1
                    waiting = []

        threads = [threading.Thread(target=client, args=(n,)) for n in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        np.testing.assert_array_equal(replica(learner).learner.visits, expected)


def test_several_processes_share_what_they_learn(server: str) -> None:
    store = new_schema(server)
    with opened(store) as one, opened(store) as two:
        state = 0
        for number in range(120):
            decision = (one if number % 2 else two).ask(state)
            costs, state = durable_client.outcome(number, state, decision.action)
            (two if number % 3 else one).tell(decision.id, costs, state)
        assert one.status() == two.status()
        assert_same(replica(one).learner.state(), replica(two).learner.state())
    with opened(store) as later:
        assert later.status()["steps"] == 120


def test_discovered_states_keep_their_numbers_and_names(store: str) -> None:
    problem = psconrl.Problem(None, ["wait", "serve"], {"late": 0.5})
    with psconrl.Learner.open(store, problem=problem) as learner:
        for i in range(30):
            decision = learner.ask(("queue", i % 7))
            assert decision.action in ("wait", "serve")
            learner.tell(decision.id, [0.1, 0.0], ("queue", (i + 1) % 7))
    with psconrl.Learner.open(store, problem=problem) as learner:
        states, actions, probabilities = learner.policy()
        assert states == [("queue", i) for i in range(7)]
        assert actions == ["wait", "serve"]
        np.testing.assert_allclose(probabilities.sum(axis=1), 1.0)


def test_a_learner_that_knows_no_state_yet_goes_on(store: str) -> None:
    problem = psconrl.Problem(None, ["wait", "serve"], {"late": 0.5})
    for _ in range(2):
        with psconrl.Learner.open(store, problem=problem) as learner:
            assert learner.status()["steps"] == 0
            with pytest.raises(CallOrderError, match="nothing was observed"):
                learner.estimate()
    with psconrl.Learner.open(store, problem=problem) as learner:
        assert learner.tell(learner.ask("first").id, [0.1, 0.0], "second")


def test_another_agent_is_refused(tmp_path: Path) -> None:
    store = str(tmp_path / "learner.db")
    opened(store).close()
    with pytest.raises(InvalidArgumentError, match="agent"):
        psconrl.Learner.open(store, psconrl.agents.PSConRL(CDP.problem()))


def test_agents_that_need_a_horizon_say_so(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgumentError, match="horizon"):
        psconrl.Learner.open(tmp_path / "learner.db", psconrl.agents.UCRLCMDP(CDP.problem()))


def test_a_second_process_is_refused(tmp_path: Path) -> None:
    store = str(tmp_path / "learner.db")
    with opened(store), pytest.raises(StoreError, match="open already"):
        opened(store)


@pytest.mark.parametrize("harm", ["truncated", "flipped", "other", "checkpoint"])
def test_damaged_stores_are_refused_in_plain_words(tmp_path: Path, harm: str) -> None:
    store = tmp_path / "learner.db"
    with opened(str(store)) as learner:
        state = 0
        for number in range(40):
            state = step(learner, state, number)
    content = bytearray(store.read_bytes())
    if harm == "truncated":
        store.write_bytes(content[: len(content) // 2])
    elif harm == "flipped":
        content[:64] = bytes(64)
        store.write_bytes(content)
    elif harm == "other":
        store.write_bytes(b"not a database at all" * 100)
    else:
        with sqlite3.connect(store) as connection:
            connection.execute("UPDATE checkpoint SET data = zeroblob(length(data))")
    with pytest.raises((LearnerFileError, StoreError), match="learner"):
        opened(str(store))


def test_a_flipped_bit_in_a_decision_is_noticed(tmp_path: Path) -> None:
    with opened(str(tmp_path / "learner.db")) as learner:
        decision = learner.ask(0)
        assert learner.tell(decision.id, [1.0, 0.0], 4)
        learner.store.run("UPDATE decisions SET observation = 4")
        with pytest.raises(LearnerFileError, match="decision 0 is damaged: checksum mismatch"):
            learner.tell(decision.id, [1.0, 0.0], 4)


def test_a_read_only_folder_is_refused(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    user = os.geteuid()
    if user == 0:  # which may write everywhere
        os.seteuid(65534)
    try:
        with pytest.raises(StoreError, match="needs a folder that can be written to"):
            opened(str(tmp_path / "learner.db"))
    finally:
        os.seteuid(user)


def test_a_full_disk_loses_nothing_acknowledged(tmp_path: Path) -> None:
    with opened(str(tmp_path / "learner.db")) as learner:
        learner.store.run("PRAGMA max_page_count = 40")
        done, state, full = 0, 0, False
        while not full:
            try:
                state = step(learner, state, done)
                done += 1
            except StoreError:
                full = True
        learner.store.run("PRAGMA max_page_count = 100000")
        assert learner.status()["steps"] == done
        step(learner, state, done)
        assert learner.status()["steps"] == done + 1


def test_a_server_that_goes_away_and_comes_back() -> None:
    with running_server() as url, opened(new_schema(url)) as learner:
        state = step(learner, 0, 0)
        learner.store.run("SELECT 1")
        with pytest.raises(StoreError):
            learner.store.run("SELECT pg_terminate_backend(pg_backend_pid())")
        step(learner, state, 1)
        assert learner.status()["steps"] == 2


def test_a_lock_that_is_held_too_long_is_waited_for_in_vain_once(server: str, monkeypatch: pytest.MonkeyPatch) -> None:
    import psycopg

    monkeypatch.setattr("psconrl.learning.store.LOCK_SECONDS", 0.1)
    with opened(new_schema(server)) as learner, psycopg.connect(server) as other:
        key = learner.store.run("SELECT hashtext('psconrl ' || current_schema())")[0]
        other.execute("SELECT pg_advisory_lock(%s)", key)
        with pytest.raises(StoreError, match="lock timeout"):
            learner.ask(0)
        other.execute("SELECT pg_advisory_unlock(%s)", key)
        assert learner.ask(0).id == 0


def test_the_store_stays_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(durable, "CHECKPOINT_EVERY", 50)
    with opened(str(tmp_path / "learner.db"), history=100) as learner:
        learner.ask(0)  # never answered
        state = 0
        for number in range(400):
            state = step(learner, state, number)
        assert learner.store.run("SELECT count(*) FROM observations")[0][0] <= 150
        assert learner.status()["steps"] == 400
        assert learner.status()["forgotten"] == 1


def test_a_window_forgets(tmp_path: Path) -> None:
    with opened(str(tmp_path / "learner.db"), window=100) as learner:
        state = 0
        for number in range(600):
            state = step(learner, state, number)
        assert replica(learner).learner.visits.sum() < 600


def test_expired_decisions_are_reported_and_still_count(tmp_path: Path) -> None:
    with opened(str(tmp_path / "learner.db"), expires_after=1e-9) as learner:
        decision = learner.ask(0)
        assert learner.status()["expired"] == 1
        assert learner.tell(decision.id, [1.0, 0.0], 4)
        assert learner.status()["expired"] == 0


def test_the_log_goes_out_as_a_table(tmp_path: Path) -> None:
    with opened(str(tmp_path / "learner.db")) as learner:
        state = 0
        for number in range(5):
            state = step(learner, state, number)
        assert learner.export(tmp_path / "log.parquet") == learner.export(tmp_path / "log.csv") == 5
    table = pq.read_table(tmp_path / "log.parquet")
    assert {"seen_at", "stream", "state", "action", "next_state"} <= set(table.column_names)
    assert (tmp_path / "log.csv").read_text().count("\n") == 6


def test_drift_is_noticed_where_it_happens_and_not_elsewhere() -> None:
    """False alarms have a probability of at most 1% for each of the runs without a change."""
    rng = np.random.default_rng(0)
    S, A = 8, 2
    before = rng.dirichlet(np.full(S, 0.3), size=(S, A))
    after = before.copy()
    after[3] = rng.dirichlet(np.full(S, 0.3), size=A)
    for changes in (False, True):
        monitor, s = DriftMonitor(A, 1), 0
        for t in range(16 * BLOCK):
            a = int(rng.integers(A))
            row = (after if changes and t >= 8 * BLOCK else before)[s, a]
            x = min(int(np.searchsorted(np.cumsum(row), rng.random())), S - 1)
            monitor.add(s, a, x, np.array([rng.random(), 0.5]), t + 1)
            s = x
        assert bool(monitor.alarms) == changes
        if changes:
            assert all(pair // A == 3 for pair in monitor.pairs[:1])
