"""An agent and an environment of one's own: run, resumed, edited, reported."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from psconrl import report
from psconrl.agents import catalogue
from psconrl.environments import catalogue as worlds
from psconrl.errors import SpecError
from psconrl.experiments import Cell, Experiment, Store, identity, run_experiment
from psconrl.experiments.plugins import import_module

MODULE = '''
"""Two agents and a world."""

from dataclasses import dataclass

import numpy as np

from my_helpers import one_action
from psconrl import CMDP, agents, environments
from psconrl.agents import Agent, Plan

PRIZE = 100.0


@dataclass(frozen=True, eq=False)
class Mine(Agent):
    """Always the same action."""

    action: int = 0

    def plan(self, memory, rng):
        # which one is a setting
        return Plan(one_action(self.problem, self.action))


@agents.register
@dataclass(frozen=True, eq=False)
class Other(Agent):
    """The last action."""

    def plan(self, memory, rng):
        return Plan(one_action(self.problem, self.problem.A - 1))


def ring(size: int = 3) -> CMDP:
    """A ring of states: stay or go on, in euros."""
    p = np.zeros((size, 2, size))
    p[:, 0], p[:, 1] = np.eye(size), np.roll(np.eye(size), 1, axis=1)
    costs = np.zeros((2, size, 2))
    costs[0, 1:], costs[1, :, 1] = PRIZE, 10.0
    return CMDP(p, costs, [5.0], cost_names=["rent", "moves"])


environments.register("my-ring", ring)
'''

HELPERS = '''
"""Shared."""

import numpy as np


def one_action(problem, action):
    """A policy."""
    policy = np.zeros((1, problem.S, problem.A))
    policy[:, :, action] = 1.0
    return policy


def unused():
    return 1
'''


class Folder:
    """A folder with modules of somebody's own, and commands in it, each a process as a user would start it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        (path / "my_module.py").write_text(MODULE)
        (path / "my_helpers.py").write_text(HELPERS)

    def edit(self, file: str, old: str, new: str) -> None:
        text = (self.path / file).read_text()
        assert text.count(old) == 1
        (self.path / file).write_text(text.replace(old, new))

    def command(self, *words: object) -> str:
        done = subprocess.run(
            [sys.executable, "-m", "psconrl", *map(str, words)],
            cwd=self.path,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def run(self, workers: int = 1) -> set[str]:
        """Run the three agents; the agents that had new runs."""
        before = self.files()
        words = [
            "run",
            "--import",
            "my_module",
            "--agent",
            "Mine",
            "--agent",
            "Other",
            "--agent",
            "Uniform",
            "--env",
            "MyRing",
        ]
        self.command(*words, "--horizon", "1e2", "--seeds", 2, "--out", "out", "--workers", workers)
        return {file.parent.name for file in self.files() - before}

    def files(self) -> set[Path]:
        return set((self.path / "out" / "runs").glob("*/*/*.parquet"))


def test_run_resumed_edited_reported(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    assert folder.run(workers=2) == {"Mine", "Other", "Uniform"}
    folder.edit("my_module.py", "# which one is a setting", "# a comment decides nothing")
    folder.edit("my_module.py", '"""Always the same action."""', '"""Nor does a docstring."""')
    folder.edit("my_helpers.py", "return 1", "return 2")
    assert folder.run() == set(), "what no agent uses decides nothing"
    folder.edit("my_module.py", "one_action(self.problem, self.action)", "one_action(self.problem, 1 - self.action)")
    assert folder.run() == {"Mine"}, "only the runs of what was edited are new"
    folder.edit("my_helpers.py", "= 1.0", "= 1.0 + 0.0")
    assert folder.run(workers=2) == {"Mine", "Other"}, "what agents use counts, too"
    report.write(tmp_path / "out", tmp_path / "out")  # which needs neither the agent nor the environment
    assert "Mine" in (tmp_path / "out" / "report.html").read_text(encoding="utf-8")


def test_results_are_in_the_units_of_the_user(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    words = [
        "run",
        "--import",
        "my_module.py",
        "--agent",
        "Mine",
        "--set",
        "mine.action=1",
        "--env",
        "my-ring",
        "--json",
        "--workers",
        "1",
    ]
    (cell,) = json.loads(folder.command(*words, "--horizon", 300, "--seeds", 1))["cells"]
    assert cell["optimum"] == 0.0
    assert cell["regret"]["mean"] == pytest.approx(200 * 100.0)
    assert cell["violation"][0]["mean"] == pytest.approx(300 * 10.0 - 300 * 5.0)
    (record,) = Store(tmp_path / "results").records()
    assert record.cumulative[:, -1] == pytest.approx([20_000.0, 3_000.0])


@pytest.fixture
def imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Folder]:
    """The modules imported here; what they register is forgotten afterwards."""
    folder = Folder(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    tables: list[dict[str, Any]] = [
        catalogue._AGENTS,
        worlds._REGISTRY,
    ]
    before = [dict(table) for table in tables]
    import_module("my_module")
    yield folder
    for table, content in zip(tables, before, strict=True):
        table.clear()
        table.update(content)
    for name in ("my_module", "my_helpers"):
        sys.modules.pop(name, None)


EXPERIMENT = {"envs": ["my-ring"], "agents": ["mine", "uniform"], "horizon": 20, "seeds": 2}


def test_two_definitions_have_two_identities(imported: Folder) -> None:
    def identities() -> list[str]:
        catalogue.register(sys.modules["my_module"].Mine)
        return [cell.identity(0) for cell in Experiment.grid("x", **EXPERIMENT).cells]  # type: ignore[arg-type]

    mine, uniform = identities()
    imported.edit("my_module.py", "one_action(self.problem, self.action)", "one_action(self.problem, 0)")
    importlib.reload(sys.modules["my_module"])
    assert identities()[0] != mine
    assert Cell("toy", "uniform", 20).code == identity.code_identity(), "psconrl's own have the identity of psconrl"
    imported.edit("my_module.py", "size: int = 3", "size: int = 4")
    importlib.reload(sys.modules["my_module"])
    assert identities()[1] != uniform


def test_any_executor_will_do(imported: Folder) -> None:
    experiment = Experiment.grid("x", **EXPERIMENT)  # type: ignore[arg-type]
    with ThreadPoolExecutor(1) as executor:
        assert run_experiment(experiment, imported.path / "a", executor=executor).executed == 4
    assert run_experiment(experiment, imported.path / "b", workers=2, limit_seconds=60).executed == 4
    assert {f.name for f in (imported.path / "a").rglob("*.parquet")} == {
        f.name for f in (imported.path / "b").rglob("*.parquet")
    }


SCRIPT = """
import sys
from my_module import Mine as Base
from psconrl import agents
from psconrl.experiments import Experiment, run_experiment


class InScript(Base):
    pass


agents.register(InScript)

if __name__ == "__main__":
    experiment = Experiment.grid("x", ["my-ring"], ["inscript"], horizon=20, seeds=3)
    print(run_experiment(experiment, "out", workers=int(sys.argv[1])).executed)
"""


def test_a_script_may_define_its_agent_itself(tmp_path: Path) -> None:
    Folder(tmp_path)
    (tmp_path / "script.py").write_text(SCRIPT)
    for workers, executed in ((2, 3), (1, 0)):
        words = [sys.executable, "script.py", str(workers)]
        done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert (done.stdout, done.returncode) == (f"{executed}\n", 0), done.stderr


def test_installed_packages_offer_agents_and_environments(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    about = tmp_path / "my_package-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: my-package\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text(
        "[psconrl.agents]\nour-agent = my_module:Mine\nbroken = no_such_module:X\n"
        "[psconrl.environments]\nour-ring = my_module:ring\n"
    )
    assert "our-agent" in json.loads(folder.command("agents", "--json"))
    words = [
        "run",
        "--agent",
        "our_agent",
        "--env",
        "our-ring",
        "--horizon",
        "20",
        "--seeds",
        "3",
        "--workers",
        "2",
        "--json",
    ]
    assert json.loads(folder.command(*words))["cells"][0]["seeds"] == 3


def test_a_module_that_is_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "broken_module.py").write_text("1 / 0")
    for name, said in (("no_such_module", "no module 'no_such_module'"), ("broken_module", "ZeroDivisionError")):
        with pytest.raises(SpecError, match=said):
            import_module(name)
