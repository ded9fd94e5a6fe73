"""Commands under attack: killed, interrupted, crowded, with runs that misbehave, on full disks, without a network."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from psconrl.errors import SpecError, StoreError, WorkerError, WriteError
from psconrl.experiments import Store, run_experiment
from psconrl.experiments.executors import DaskExecutor
from psconrl.experiments.locks import RunLocks
from tests.experiments.cluster import Cluster
from tests.experiments.sweeps import arguments, command, parts, sweep, times_done, wait_until


def misbehaving(monkeypatch: pytest.MonkeyPatch, how: str) -> None:
    here = str(Path(__file__).parent / "misbehaviour")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([here, *filter(None, [os.environ.get("PYTHONPATH")])]))
    monkeypatch.setenv("MISBEHAVE", how)


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ("crash", "signal 11"),
        ("hang", "20 seconds"),
    ],
)
def test_a_run_that_misbehaves_fails_alone(
    how: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    misbehaving(monkeypatch, how)
    out = tmp_path / "out"
    before = {process.pid for process in psutil.Process().children(recursive=True)}
    code, _, err = command(*arguments(out, seeds=4), *(["--limit-seconds", "20"] if how == "hang" else []))
    assert code == 1, err
    last = err.splitlines()[-1]
    assert last.startswith("psconrl: 1 run of 12 failed, the first (toy / Uniform, seed 1) with"), err
    assert said in last
    assert len(parts(out)) == 11
    assert max(times_done(out).values()) == 1
    assert said in Store(out).failures()[0].read_text()
    assert {process.pid for process in psutil.Process().children(recursive=True)} <= before


def test_the_limit_must_be_a_time(tmp_path: Path) -> None:
    for odd in (0, -1.0, float("nan"), float("inf"), "5"):
        with pytest.raises(SpecError, match="limit_seconds"):
            run_experiment(sweep(seeds=1), tmp_path, limit_seconds=odd)  # type: ignore[arg-type]


# Locks


HOLD = """
import sys
from pathlib import Path
from psconrl.experiments.locks import RunLocks
print(RunLocks(Path(sys.argv[1])).acquire("ab" * 10), flush=True)
sys.stdin.read()
"""


def test_a_lock_ends_with_the_process_that_holds_it(tmp_path: Path) -> None:
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert holder.stdout is not None
    assert holder.stdout.readline() == "True\n"
    mine = RunLocks(tmp_path)
    assert not mine.acquire("ab" * 10)
    assert mine.acquire("cd" * 10)
    holder.kill()
    holder.communicate()
    assert mine.acquire("ab" * 10)
    other = RunLocks(tmp_path)
    assert not other.acquire("ab" * 10)
    mine.release("ab" * 10)
    assert other.acquire("ab" * 10)
    assert not other.acquire("cd" * 10)
    mine.close()
    assert other.acquire("cd" * 10)
    other.close()
    assert [path.name for path in tmp_path.iterdir()] == ["timings.jsonl"]


def test_what_others_do_while_the_folder_is_looked_at_is_not_done_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    experiment, looked = sweep(seeds=2, agents=("uniform",), horizon=30), Store.verified

    def slowly(store: Store, identities: set[str]) -> set[str]:
        found = looked(store, identities)
        monkeypatch.setattr(Store, "verified", looked)
        assert run_experiment(experiment, tmp_path, workers=1).executed == 2
        return found

    monkeypatch.setattr(Store, "verified", slowly)
    outcome = run_experiment(experiment, tmp_path, workers=1)
    assert (outcome.before, outcome.executed) == (2, 0)


# Disks


@pytest.mark.parametrize("call", ["open", "fsync", "replace", "write", "link"])
def test_a_full_disk_at_every_write(call: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whichever write fails: one of psconrl's errors, nothing half done, and the next call goes on."""
    real: Callable[..., object] = getattr(os, call)
    experiment, out = sweep(seeds=2, agents=("uniform", "optimal"), horizon=60), tmp_path / "out"
    failed = 0
    for k in range(40):
        calls = 0

        def fail(*words: object, **options: object) -> object:
            nonlocal calls
            calls += 1
            writes = call != "open" or (len(words) > 1 and isinstance(words[1], int) and words[1] & os.O_CREAT)
            if writes and calls > k:  # noqa: B023
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            return real(*words, **options)

        before = parts(out)
        with monkeypatch.context() as patch:
            patch.setattr(os, call, fail)
            try:
                run_experiment(experiment, out, workers=1)
            except (StoreError, WriteError):
                failed += 1
        assert parts(out) >= before
        assert not list(out.rglob(".*")) if out.exists() else True
        if len(parts(out)) == 4:
            break
    assert failed > 0 or call == "link"  # without links files are made in another way
    run_experiment(experiment, out, workers=1)
    assert len(Store(out).load()) == 4


@pytest.mark.skipif(os.geteuid() == 0, reason="nothing is read-only for root")
def test_a_folder_that_cannot_be_written_to(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir(mode=0o500)
    with pytest.raises(OSError, match="Permission denied"):
        run_experiment(sweep(seeds=1), tmp_path / "out", workers=1)


def test_a_file_in_the_place_of_the_folder(tmp_path: Path) -> None:
    (tmp_path / "out").write_text("mine")
    with pytest.raises(StoreError):
        run_experiment(sweep(seeds=1), tmp_path / "out", workers=1)
    assert (tmp_path / "out").read_text() == "mine"


# Networks


WATCH = """
import os, sys
def heard(event, words):
    if event in ("socket.connect", "socket.bind", "socket.sendto") and not isinstance(words[1], (str, bytes)):
        open(os.environ["HEARD"], "a").write(f"{event} {words[1:]}\\n")
    elif event in ("socket.getaddrinfo", "socket.gethostbyname", "urllib.Request"):
        open(os.environ["HEARD"], "a").write(f"{event} {words}\\n")
sys.addaudithook(heard)
"""


def test_no_command_uses_the_network(tmp_path: Path) -> None:
    """Heard by Python's own audit, in the command and in all processes that it starts."""
    (tmp_path / "hook").mkdir()
    (tmp_path / "hook" / "sitecustomize.py").write_text(WATCH)
    path = os.pathsep.join([str(tmp_path / "hook"), *filter(None, [os.environ.get("PYTHONPATH")])])
    environment = {**os.environ, "PYTHONPATH": path, "HEARD": str(tmp_path / "heard")}
    out = str(tmp_path / "out")
    for words in (["solve", "box"], arguments(Path(out), seeds=1), ["report", out]):
        done = subprocess.run(
            [sys.executable, "-m", "psconrl", *words], env=environment, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
    assert not (tmp_path / "heard").exists(), (tmp_path / "heard").read_text()
    probe = "import socket; socket.getaddrinfo('localhost', 1)"
    subprocess.run([sys.executable, "-c", probe], env=environment, check=False, capture_output=True)
    assert (tmp_path / "heard").exists(), "nothing would have been heard"


# Clusters


def test_a_scheduler_that_is_gone_is_said_so(tmp_path: Path) -> None:
    with Cluster(tmp_path / "cluster") as cluster:
        with pytest.raises(WorkerError, match="no Dask scheduler at nonsense"):
            DaskExecutor("nonsense://127.0.0.1:1")
        executor = DaskExecutor(cluster.address)
        cluster.scheduler.kill()
        cluster.scheduler.wait()
        with pytest.raises(WorkerError, match="the connection to the Dask scheduler is lost"):
            assert executor.workers
        executor.shutdown()


@pytest.mark.parametrize("twice", [False, True])
def test_an_interrupt_while_it_starts(tmp_path: Path, twice: bool) -> None:
    """Before anything large is imported."""
    process = subprocess.Popen(
        [sys.executable, "-c", "print(flush=True); from psconrl.__main__ import main; main()", *arguments(tmp_path)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler) and None,
    )
    assert process.stdout is not None
    process.stdout.readline()
    wait_until(lambda: process.poll() is not None or psutil.Process(process.pid).num_threads() > 1)
    for _ in range(1 + twice):
        process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)
    assert process.returncode == 130
