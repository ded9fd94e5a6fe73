"""One place for each new thing: what is declared once, here from outside, is known everywhere."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from psconrl.experiments.presets import Figure, Preset
from psconrl.reproduce import reproduce

import psconrl
from psconrl import CMDP, InvalidArgumentError, agents, environments
from psconrl.agents import Agent, Memory, Plan, catalogue
from psconrl.cli import main
from psconrl.experiments import Cell, Experiment, presets, run_experiment
from psconrl.report import figures, panels, styles


@pytest.fixture(autouse=True)
def restored() -> Iterator[None]:
    """What a test registers is forgotten after it."""
    tables: list[dict[str, Any]] = [catalogue._AGENTS, environments._REGISTRY, presets._PRESETS, gymnasium.registry]
    before = [dict(table) for table in tables]
    yield
    for table, content in zip(tables, before, strict=True):
        table.clear()
        table.update(content)


@dataclass(frozen=True, eq=False)
class Stubborn(Agent):
    """Always the same action."""

    action: int = 0

    def plan(self, memory: Memory, rng: np.random.Generator) -> Plan:
        policy = np.zeros((1, self.problem.S, self.problem.A))
        policy[:, :, self.action] = 1.0
        return Plan(policy)


def ring(size: int = 3, tau: float = 0.5) -> CMDP:
    """A ring of states: stay or go on."""
    p = np.zeros((size, 2, size))
    p[:, 0], p[:, 1] = np.eye(size), np.roll(np.eye(size), 1, axis=1)
    costs = np.zeros((2, size, 2))
    costs[0, 1:], costs[1, :, 1] = 1.0, 1.0
    return CMDP(p, costs, [tau])


def printed(capsys: pytest.CaptureFixture[str], *words: object) -> str:
    with pytest.raises(SystemExit) as stopped:
        main([str(word) for word in words])
    assert stopped.value.code == 0
    return capsys.readouterr().out


def test_an_agent(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    agents.register(Stubborn)
    agents.check_agent(Stubborn(psconrl.make("toy").problem()))
    assert agents.find("stubborn") is Stubborn
    assert json.loads(printed(capsys, "agents", "--json"))["Stubborn"]["settings"] == {"action": 0}
    words = ("run", "--env", "toy", "--agent", "stubborn", "--set", "stubborn.action=1", "--horizon", 20, "--seeds", 2)
    out = printed(capsys, *words, "--out", tmp_path, "--workers", 1, "--json")
    assert json.loads(out)["cells"][0]["agent"] == "Stubborn"
    assert styles.styles(["PSConRL", "Stubborn"])["Stubborn"] not in styles.STYLES.values()
    printed(capsys, "report", tmp_path)
    assert "Stubborn" in (tmp_path / "report.html").read_text(encoding="utf-8")
    with pytest.raises(InvalidArgumentError, match="there is an agent 'Stubborn' already"):
        agents.register(Stubborn)


def test_an_environment(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    environments.register("my-ring", ring)
    assert psconrl.make("My_Ring", size=4).S == 4
    listed = json.loads(printed(capsys, "envs", "--json"))["my-ring"]
    assert listed == {
        "description": "A ring of states: stay or go on.",
        "options": {"size": 3, "tau": 0.5},
        "gymnasium": "psconrl/MyRing-v0",
    }
    env: Any = gymnasium.make("psconrl/MyRing-v0", size=5)
    assert env.unwrapped.cmdp.S == 5
    words = ("run", "--env", "my-ring", "--agent", "uniform", "--horizon", 20, "--seeds", 1, "--workers", 1)
    printed(capsys, *words, "--set", "my-ring.size=4", "--out", tmp_path, "--json")
    with pytest.raises(InvalidArgumentError, match="there is an environment 'my-ring' already"):
        environments.register("my-ring", ring)


def lengths(groups: Any) -> list[list[panels.Panel]]:
    """One panel: the regret of what was run."""
    found = next(iter(groups.values()))
    lines = [panels.line(found.agent, found.grid, found.cumulative[:, 0])]
    return [[panels.Panel("My panel", "Cost so far", lines)]]


def test_a_preset_with_its_figure(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    figure = Figure("my-figure", "My heading", "My explanation.", lengths)
    cells = [(Cell("toy", "Uniform", 30), 2)]
    presets.register(Preset("mine", "what I want to know", lambda quick: cells, (figure,)))
    assert re.search("^  mine +what I want to know$", printed(capsys, "reproduce", "--help"), re.MULTILINE)
    result = reproduce(["mine"], tmp_path, workers=1)
    assert (tmp_path / "figures" / "my-figure.png") in result.paths
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "My heading" in page
    assert "My explanation." in page
    assert "<span>reproduce</span> <span>mine</span>" in page


COLUMN = """
import sys
import numpy as np
from psconrl.learning import run
run.COLUMNS.append(run.Column("limited", np.bool_, lambda episode: episode.plan.count_limit is not None))
from psconrl.experiments import Cell, Experiment, Store, run_experiment
run_experiment(Experiment("x", (Cell("toy", "TSDE", 20),), (1,)), sys.argv[2], workers=1)
(after,), (before,) = Store(sys.argv[2]).records(), Store(sys.argv[1]).records()
assert after.episodes["limited"].all()
assert not before.episodes["limited"].any(), "runs made before a column was added stay readable"
assert len(before.episodes) == len(after.episodes)
"""


def test_an_episode_column(tmp_path: Path) -> None:
    """In the runs, in the store, and back; a process of its own, as the store's layout is fixed when it is imported."""
    run_experiment(Experiment("x", (Cell("toy", "TSDE", 20),), (1,)), tmp_path / "before", workers=1)
    folders = [str(tmp_path / "before"), str(tmp_path / "after")]
    done = subprocess.run([sys.executable, "-c", COLUMN, *folders], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_a_style(monkeypatch: pytest.MonkeyPatch) -> None:
    """In pictures and on the page alike."""
    monkeypatch.setitem(styles.STYLES, "Mine", styles.Style(2, (7, 7)))
    x = np.arange(3.0)
    panel = panels.Panel("", "y", [panels.Line("Mine", x, x, x, x)])
    assert 'stroke="var(--c2)"' in figures.svg(panel, styles.styles(["Mine"]))
    drawn = figures.draw([[panel]]).axes[0].lines[0]
    assert drawn.get_color() == styles.COLORS[2]
