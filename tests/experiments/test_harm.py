"""Commands under attack: killed, interrupted, crowded, with runs that misbehave, on full disks, without a network."""

from __future__ import annotations

import errno
import os
import random
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from psconrl.errors import SpecError, StoreError, WorkerError, WriteError
from psconrl.experiments import Store, run_experiment, run_one
from psconrl.experiments.claims import Claims
from psconrl.experiments.pools import DaskPool
from tests.experiments import harm
from tests.experiments.cluster import Cluster
from tests.experiments.sweeps import arguments, command, exported, parts, sweep, times_done, wait_until


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> tuple[bytes, bytes]:
    out = tmp_path_factory.mktemp("undisturbed") / "out"
    assert run_experiment(sweep(), out, workers=1).ok
    return exported(out)


@pytest.mark.parametrize(
    ("kind", "count"),
    [
        ("kills", 3),
        ("interrupts", 4),
        ("crowds", 1),
        pytest.param("kills", 380, marks=[pytest.mark.long, pytest.mark.timeout(7200)]),
        pytest.param("compiling", 20, marks=[pytest.mark.long, pytest.mark.timeout(7200)]),
        pytest.param("cluster", 100, marks=[pytest.mark.long, pytest.mark.timeout(7200)]),
        pytest.param("interrupts", 1000, marks=[pytest.mark.long, pytest.mark.timeout(14_400)]),
        pytest.param("crowds", 30, marks=[pytest.mark.long, pytest.mark.timeout(3600)]),
    ],
)
def test_harm(kind: str, count: int, tmp_path: Path, undisturbed: tuple[bytes, bytes]) -> None:
    tally = harm.KINDS[kind](count, tmp_path, undisturbed, random.Random(count))
    assert tally.sweeps > 0


# Runs that misbehave


def misbehaving(monkeypatch: pytest.MonkeyPatch, how: str) -> None:
    here = str(Path(__file__).parent / "misbehaviour")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([here, *filter(None, [os.environ.get("PYTHONPATH")])]))
    monkeypatch.setenv("MISBEHAVE", how)


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ("raise", "RuntimeError: it rained"),
        ("exit", "the process died with exit code 3 during this run, 3 times"),
        ("end", "the process died with exit code 3 during this run, 3 times"),
        ("crash", "the process died by signal 11 during this run, 3 times"),
        ("hang", "the run was ended after 5 seconds, the limit for one run"),
    ],
)
def test_a_run_that_misbehaves_fails_alone(
    how: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    misbehaving(monkeypatch, how)
    out = tmp_path / "out"
    before = {process.pid for process in psutil.Process().children(recursive=True)}
    code, _, err = command(*arguments(out, seeds=4), *(["--limit-seconds", "5"] if how == "hang" else []))
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


# Claims


HOLD = """
import sys
from pathlib import Path
from psconrl.experiments.claims import Claims
print(Claims(Path(sys.argv[1])).take("ab" * 10), flush=True)
sys.stdin.read()
"""


def test_a_claim_ends_with_the_process_that_holds_it(tmp_path: Path) -> None:
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert holder.stdout is not None
    assert holder.stdout.readline() == "True\n"
    mine = Claims(tmp_path)
    assert not mine.take("ab" * 10)
    assert mine.take("cd" * 10)
    holder.kill()
    holder.communicate()
    assert mine.take("ab" * 10)
    other = Claims(tmp_path)
    assert not other.take("ab" * 10)
    mine.release("ab" * 10)
    assert other.take("ab" * 10)
    assert not other.take("cd" * 10)
    mine.close()
    assert other.take("cd" * 10)
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


def test_without_locks_there_are_no_claims(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "timings.jsonl").mkdir()
    claims = Claims(tmp_path)
    assert claims.take("ab" * 10)
    assert claims.news()
    claims.close()


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
    code, _, err = command(*arguments(tmp_path / "out"))
    assert code == 1
    assert err.splitlines()[-1].startswith(f"psconrl: {tmp_path / 'out'}")
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
    for words in (
        ["solve", "box"],
        arguments(Path(out), seeds=1),
        ["export", out, str(tmp_path / "t.csv")],
        ["report", out],
    ):
        done = subprocess.run(
            [sys.executable, "-m", "psconrl", *words], env=environment, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
    assert not (tmp_path / "heard").exists(), (tmp_path / "heard").read_text()
    probe = "import socket; socket.getaddrinfo('localhost', 1)"
    subprocess.run([sys.executable, "-c", probe], env=environment, check=False, capture_output=True)
    assert (tmp_path / "heard").exists(), "nothing would have been heard"


# Clusters


def test_a_run_in_a_process_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a cluster with a limit: the same bytes, the same errors, and an end."""
    cell = sweep(agents=("uniform",)).cells[0]
    assert run_one.execute_apart(cell, 0, run_one.CODE, 60).content == run_one.execute(cell, 0, run_one.CODE).content
    with pytest.raises(RuntimeError, match="CodeMismatchError: a worker runs other code"):
        run_one.execute_apart(cell, 0, "another", 60)
    misbehaving(monkeypatch, "end")
    with pytest.raises(RuntimeError, match="the process of this run died with code 3"):
        run_one.execute_apart(cell, 1, run_one.CODE, 60)
    misbehaving(monkeypatch, "hang")
    monkeypatch.setattr(run_one, "_STARTING", 3.0)
    with pytest.raises(run_one.RunTimeoutError, match=r"the run was ended after 0\.5 seconds"):
        run_one.execute_apart(cell, 1, run_one.CODE, 0.5)


def test_a_run_in_a_process_of_its_own_ends_with_who_waits_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    misbehaving(monkeypatch, "hang")
    code = """
from tests.experiments.sweeps import sweep
from psconrl.experiments import run_one
run_one.execute_apart(sweep(agents=("uniform",)).cells[0], 1, run_one.CODE, 600)
"""
    root = str(Path(__file__).parents[2])
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([root, os.environ["PYTHONPATH"]]))
    process = psutil.Popen([sys.executable, "-c", code])
    wait_until(lambda: any(child.num_threads() > 1 for child in process.children()))  # it has read what to do
    children = process.children()
    process.kill()
    process.wait()
    assert not psutil.wait_procs(children, timeout=20)[1]


@pytest.mark.parametrize(
    ("when", "error", "said"),
    [
        ("wait", TimeoutError("30: 1"), r"the Dask scheduler at tcp://127.0.0.1:1 has no workers.*dask worker tcp:"),
        ("wait", ConnectionResetError(), "the connection to the Dask scheduler is lost"),
        ("run", ConnectionResetError(), "the connection to the Dask scheduler is lost"),
        ("run", KeyError("numpy"), "the Dask workers cannot run psconrl: KeyError: 'numpy'"),
    ],
)
def test_a_cluster_that_cannot_be_used_is_said_so(
    when: str, error: Exception, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Client:
        def __init__(self, *words: object, **options: object) -> None:
            pass

        def wait_for_workers(self, count: int, timeout: float) -> None:
            if when == "wait":
                raise error

        def run(self, function: Callable[[], str]) -> None:
            raise error

        def get_executor(self, pure: bool) -> Client:
            return self

        def shutdown(self, wait: bool) -> None:
            pass

        def close(self) -> None:
            pass

    import distributed

    monkeypatch.setattr(distributed, "Client", Client)
    with pytest.raises(WorkerError, match=said):
        DaskPool("tcp://127.0.0.1:1")


def test_a_scheduler_that_is_gone_is_said_so(tmp_path: Path) -> None:
    with Cluster(tmp_path / "cluster") as cluster:
        pool = DaskPool(cluster.address)
        pool.submit((sweep().cells[0], 0))
        cluster.scheduler.kill()
        cluster.scheduler.wait()
        with pytest.raises(WorkerError, match="the connection to the Dask scheduler is lost"):
            pool.window()
        pool.close()


def test_an_interrupt_while_it_starts(tmp_path: Path) -> None:
    """Before anything large is imported, and twice."""
    for twice in (False, True):
        process = subprocess.Popen(
            [
                sys.executable,
                "-c",
                "print(flush=True); from psconrl.__main__ import main; main()",
                *arguments(tmp_path),
            ],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler) and None,
        )
        assert process.stdout is not None
        process.stdout.readline()
        import time

        time.sleep(0.2)
        process.send_signal(signal.SIGINT)
        if twice:
            process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)
        assert process.returncode == 130
