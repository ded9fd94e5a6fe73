"""The folder: damaged files, several experiments, exports."""

from __future__ import annotations

import csv
import json
import random
from collections.abc import Sequence
from pathlib import Path

import pytest

from psconrl.errors import StoreError
from psconrl.experiments import Store, run_experiment
from tests.experiments.sweeps import exported, parts, sweep, times_done


def harm(rng: random.Random, paths: Sequence[Path]) -> None:
    """Cut every other file short at a random place, and change a byte of the others."""
    for k, path in enumerate(paths):
        content = bytearray(path.read_bytes())
        if k % 2:
            del content[rng.randrange(len(content)) :]
        else:
            content[rng.randrange(len(content))] ^= 1 + rng.randrange(255)
        path.write_bytes(content)


@pytest.mark.long
def test_damaged_twenty_times(tmp_path: Path) -> None:
    experiment, out, rng = sweep(), tmp_path / "out", random.Random(4)
    run_experiment(experiment, out, workers=1)
    before, undisturbed = parts(out), exported(out)
    for _ in range(20):
        harmed = rng.sample(sorted(before), rng.randrange(1, len(before) + 1))
        harm(rng, harmed)
        assert run_experiment(experiment, out, workers=rng.choice((1, 2))).executed == len(harmed)
        assert parts(out) == before
        assert exported(out) == undisturbed


def test_damaged_files_are_done_again_and_no_others(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    experiment, out = sweep(), tmp_path / "out"
    run_experiment(experiment, out, workers=1)
    before, undisturbed = parts(out), exported(out)
    harm(rng := random.Random(3), rng.sample(sorted(before), 4))
    assert len(Store(out).load()) == len(before) - 4
    outcome = run_experiment(experiment, out, workers=1)
    assert (outcome.before, outcome.executed) == (len(before) - 4, 4)
    assert parts(out) == before
    assert exported(out) == undisturbed
    assert sorted(times_done(out).values()) == [1] * (len(before) - 4) + [2] * 4
    assert sum("done again" in message for message in caplog.messages) == 4
    assert run_experiment(experiment, out, workers=1).executed == 0


def test_specifications_are_written_once(tmp_path: Path) -> None:
    store = Store(tmp_path, create=True)
    first, second = sweep(seeds=2), sweep(seeds=3)
    assert store.register(first).name == store.register(first).name == "experiment.json"
    assert store.register(second).name == store.register(second).name == "experiment-sweep.json"
    assert store.register(sweep(seeds=4)).name == "experiment-sweep-2.json"
    assert json.loads((tmp_path / "experiment.json").read_text()) == first.as_json()
    assert not list(tmp_path.glob(".*"))


def test_more_seeds_do_only_what_is_missing(tmp_path: Path) -> None:
    run_experiment(sweep(seeds=2), tmp_path, workers=1)
    outcome = run_experiment(sweep(seeds=3), tmp_path, workers=1)
    assert (outcome.before, outcome.executed) == (6, 3)


def test_experiments_that_run_together_share_what_they_have_in_common(tmp_path: Path) -> None:
    agents = ("uniform", "optimal")
    first, second = sweep(seeds=2, agents=agents[:1], horizon=30), sweep(seeds=3, agents=agents, horizon=30)
    outcome = run_experiment([first, second], tmp_path, workers=1)
    assert (outcome.total, outcome.executed) == (6, 6)
    store = Store(tmp_path)
    assert [len(document["cells"]) for document in store.experiments().values()] == [2, 1]
    assert store.verified(set()) == set()
    assert len(store.verified(store.identities())) == 6
    assert run_experiment([second, first], tmp_path, workers=1).executed == 0


def test_the_exported_table(tmp_path: Path) -> None:
    run_experiment(sweep(seeds=2, horizon=30, checkpoints=3), tmp_path / "out", workers=1)
    Store(tmp_path / "out").export(tmp_path / "table.csv")
    with (tmp_path / "table.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 3 * 2 * 3 * 2  # agents, seeds, checkpoints, costs
    order = [(row["env"], row["agent"], int(row["seed"]), int(row["t"]), int(row["cost"])) for row in rows]
    assert order == sorted(order)
    for row in rows:
        signed = float(row["cumulative"]) - float(row["level"]) * int(row["t"])
        assert float(row["regret_or_violation"]) == pytest.approx(signed)
        assert float(row["excess"]) >= 0
        of_limits = [row[name] for name in ("positive_violation", "largest_violation", "policy_violation")]
        if row["cost"] == "0":
            assert row["lagrangian"]
            assert not any(of_limits)
        else:
            assert not row["lagrangian"]
            assert float(of_limits[0]) == pytest.approx(max(signed, 0))
            assert float(of_limits[1]) >= float(of_limits[0])
            assert float(of_limits[2]) >= 0
    records = {(r.agent, r.seed): r for r in Store(tmp_path / "out").load()}
    last = records["PSConRL", 1].violation[0, -1]
    mine = [r for r in rows if (r["agent"], r["seed"], r["t"], r["cost"]) == ("PSConRL", "1", "30", "1")]
    assert [float(r["regret_or_violation"]) for r in mine] == [last]
    assert [float(r["policy_violation"]) for r in mine] == [records["PSConRL", 1].policy_violation[0, -1]]


def test_mistakes(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="there are no results here"):
        Store(tmp_path)
    run_experiment(sweep(seeds=1, horizon=5), tmp_path, workers=1)
    with pytest.raises(ValueError, match=r"must end in \.csv or \.parquet"):
        Store(tmp_path).export(tmp_path / "table.txt")
