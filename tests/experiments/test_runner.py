"""Sweeps: the same bytes whatever the workers do and whenever they die."""

from __future__ import annotations

import io
import random
import resource
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import psutil
import pytest

from psconrl.errors import CodeMismatchError, WorkerCrashedError
from psconrl.experiments import Cell, Store, run_experiment, run_one
from psconrl.experiments.executors import SerialExecutor
from psconrl.experiments.progress import Lines, Progress
from tests.experiments.cluster import Cluster
from tests.experiments.sweeps import arguments, command, exported, finish, parts, start, sweep, times_done, wait_until


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> tuple[bytes, bytes]:
    """The exports of the sweep, done in one go by one worker."""
    out = tmp_path_factory.mktemp("undisturbed") / "out"
    assert run_experiment(sweep(), out, workers=1).ok
    return exported(out)


def kill_and_resume(out: Path, kills: int, rng: random.Random) -> None:
    total, done = 24, set[Path]()
    for _ in range(kills):
        process = start(*arguments(out))
        goal = min(len(done) + rng.randrange(3), total - 1)
        wait_until(lambda p=process, g=goal: p.poll() is not None or len(parts(out)) > g)  # type: ignore[misc]
        time.sleep(rng.random() * 0.05)
        offspring = []
        if process.poll() is None:
            offspring = psutil.Process(process.pid).children(recursive=True)
        process.send_signal(signal.SIGKILL)
        finish(process)
        _, alive = psutil.wait_procs(offspring, timeout=20)
        assert not alive, "workers outlive their parent"
        assert parts(out) >= done
        done = parts(out)
    code, _, err = command(*arguments(out))
    assert code == 0, err
    assert len(parts(out)) == total
    assert parts(out) >= done
    assert max(times_done(out).values()) == 1


def test_killed_and_resumed(tmp_path: Path, undisturbed: tuple[bytes, bytes]) -> None:
    kill_and_resume(tmp_path / "out", 3, random.Random(1))
    assert exported(tmp_path / "out") == undisturbed


@pytest.mark.long
def test_killed_twenty_times(tmp_path: Path, undisturbed: tuple[bytes, bytes]) -> None:
    rng = random.Random(2)
    for k in range(4):
        kill_and_resume(tmp_path / f"out-{k}", 5, rng)
        assert exported(tmp_path / f"out-{k}") == undisturbed


class Killer(Progress):
    """Kills a worker process after the first run."""

    def __init__(self) -> None:
        self.killed = 0

    def advance(self, cell: Cell, *, failed: bool = False) -> None:
        workers = psutil.Process().children()
        if not self.killed and workers:
            workers[0].kill()
            self.killed = 1


def test_a_worker_that_is_killed_costs_nothing(tmp_path: Path, undisturbed: tuple[bytes, bytes]) -> None:
    killer = Killer()
    outcome = run_experiment(sweep(), tmp_path / "out", workers=2, progress=killer)
    assert killer.killed
    assert outcome.ok
    assert outcome.executed == 24
    assert exported(tmp_path / "out") == undisturbed


class Deadly(SerialExecutor):
    """Dies whenever it executes seed 3."""

    def __init__(self) -> None:
        self.tries: Counter[int] = Counter()

    def submit(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        seed = args[0].seed
        self.tries[seed] += 1
        if seed != 3:
            return super().submit(function, *args)
        future: Future[Any] = Future()
        future.set_exception(WorkerCrashedError("died"))
        return future


def test_a_run_that_kills_its_process_fails_alone(tmp_path: Path) -> None:
    executor = Deadly()
    outcome = run_experiment(sweep(agents=("uniform",), horizon=20), tmp_path, executor=executor)
    assert [failure.seed for failure in outcome.failures] == [3]
    assert "died, 3 times" in outcome.failures[0].error
    assert outcome.executed == 7
    assert executor.tries[3] == 3


SCRIPT = """
from psconrl.experiments import Experiment, run_experiment
run_experiment(Experiment.grid("sweep", ["toy"], ["uniform"], horizon=50, seeds=20), {out!r}, workers=2)
"""


def test_a_script_needs_no_guard_and_no_file(tmp_path: Path) -> None:
    """Worker processes do not import the main script, unless it defines an agent."""
    script = SCRIPT.format(out=str(tmp_path))
    done = subprocess.run([sys.executable], input=script, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    assert len(parts(tmp_path)) == 20


def test_a_failed_run_is_recorded_and_the_rest_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run_cell = run_one.run_cell

    def raining(cell: Cell, seed: int) -> Any:
        if seed == 1:
            raise RuntimeError("it rained")
        return run_cell(cell, seed)

    experiment = sweep(seeds=3, horizon=20)
    with monkeypatch.context() as patch:
        patch.setattr(run_one, "run_cell", raining)
        outcome = run_experiment(experiment, tmp_path, workers=1)
    assert (outcome.executed, len(outcome.failures), outcome.ok) == (6, 3, False)
    assert len(Store(tmp_path).failures()) == 3
    assert "it rained" in Store(tmp_path).failures()[0].read_text()
    outcome = run_experiment(experiment, tmp_path, workers=1)
    assert (outcome.executed, outcome.ok) == (3, True)
    assert Store(tmp_path).failures() == []


class OtherCode(SerialExecutor):
    """Workers that have another version of psconrl."""

    def submit(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        return super().submit(function, args[0]._replace(source="another"))


def test_workers_with_other_code_are_refused(tmp_path: Path) -> None:
    with pytest.raises(CodeMismatchError):
        run_experiment(sweep(seeds=1), tmp_path, executor=OtherCode())


def test_two_processes_in_one_folder(tmp_path: Path, undisturbed: tuple[bytes, bytes]) -> None:
    out = tmp_path / "out"
    for process in [start(*arguments(out, workers=1)) for _ in range(2)]:
        code, _, err = finish(process)
        assert code == 0, err
    assert len(parts(out)) == 24
    assert max(times_done(out).values()) == 1
    assert exported(out) == undisturbed
    assert [path.name for path in out.glob("experiment*.json")] == ["experiment.json"]


def test_interrupted(tmp_path: Path) -> None:
    out = tmp_path / "out"
    process = start(*arguments(out, horizon=30_000))
    wait_until(lambda: len(parts(out)) > 1)
    process.send_signal(signal.SIGINT)
    code, _, err = finish(process)
    assert code == 130
    assert err.splitlines()[-1].endswith("and the same command goes on from there")
    assert "Traceback" not in err


def test_lines_of_progress(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run_experiment(sweep(seeds=2, horizon=20), tmp_path, workers=1, progress=Lines(sys.stderr))
    assert "6/6 runs" in capsys.readouterr().err


def test_the_time_left_excludes_compiling(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, stream = [0.0], io.StringIO()
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    lines, cell = Lines(stream, every=0.0), Cell("toy", "uniform", 1000)
    with lines.showing([(cell, 4, 0)]):
        lines.compiling()
        for seconds in (100.0, 10.0):
            clock[0] += seconds
            lines.advance(cell)
    assert "100 steps/s, 0:20 left" in stream.getvalue().splitlines()[-1]


def megabytes() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


@pytest.mark.parametrize("runs", [300, pytest.param(10_000, marks=pytest.mark.long)])
def test_many_small_runs(tmp_path: Path, runs: int) -> None:
    run_experiment(sweep(seeds=100, horizon=20, agents=("uniform",)), tmp_path, workers=1)
    memory = megabytes()
    outcome = run_experiment(sweep(seeds=100 + runs, horizon=20, agents=("uniform",)), tmp_path, workers=1)
    assert outcome.executed == runs
    assert megabytes() - memory < 40


def test_on_a_dask_cluster_with_a_worker_killed(tmp_path: Path, undisturbed: tuple[bytes, bytes]) -> None:
    with Cluster(tmp_path / "cluster") as cluster:
        workers, address = cluster.workers, cluster.address

        class KillOne(Progress):
            def advance(self, cell: Cell, *, failed: bool = False) -> None:
                if workers[0].poll() is None and len(parts(tmp_path / "out")) > 4:
                    workers[0].kill()

        outcome = run_experiment(sweep(), tmp_path / "out", dask=address, progress=KillOne())
        assert workers[0].wait(10) == -signal.SIGKILL
    assert outcome.ok
    assert outcome.executed == 24
    assert exported(tmp_path / "out") == undisturbed
