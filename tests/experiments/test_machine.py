"""What a report says of the machine."""

from pathlib import Path

from psconrl.experiments.machine import peak_memory
from psconrl.experiments.runner import run_experiment
from psconrl.experiments.store import Store
from tests.experiments.sweeps import sweep


def test_peak_memory_grows_with_what_is_held() -> None:
    before = peak_memory()
    assert before is None or before > 10
    held = bytearray(b"x" * 2**28)
    after = peak_memory()
    assert (before is None and after is None) or (before is not None and after is not None and after >= before)
    assert after is None or after >= 256
    del held


def test_runs_tell_the_memory_of_their_process(tmp_path: Path) -> None:
    run_experiment(sweep(), tmp_path, workers=1)
    store = Store(tmp_path)
    assert (store.memory() is None) == (peak_memory() is None)
    with (tmp_path / "timings.jsonl").open("a", encoding="utf-8") as file:
        for memory in ("null", "true", "-5", '"many"', "1e300"):
            line = f'{{"identity": "a", "seconds": 1, "memory": {memory}, "finished": "2026-01-01T00:00:00+0000"}}\n'
            file.write(line)
    assert Store(tmp_path).memory() == store.memory()
    assert Store(tmp_path / "none", create=True).memory() is None
