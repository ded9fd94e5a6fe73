"""Twelve changes a newcomer makes, each made from outside or in a copy: `python -m tests.changes` says where.

A change is a list of edits, and code that fails without it.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
RUN = '"run", "--env", "toy", "--horizon", "30", "--seeds", "1", "--workers", "1"'
START = """
import os, shutil, sys
sys.path[:0] = [os.getcwd()]
import numpy as np
import psconrl
from pathlib import Path
from psconrl import cli, report
from psconrl.experiments import Store

def command(*words):
    try:
        cli.main(words)
    except SystemExit as stopped:
        assert not stopped.code, words
"""


@dataclass(frozen=True)
class Edit:
    """Text that is put into a file: after another one, or instead of it; a new file has no other one."""

    file: str
    text: str
    after: str = ""
    instead: str = ""


@dataclass(frozen=True)
class Change:
    """A change: what a newcomer wants, what is to be edited, and what must then work."""

    name: str
    edits: tuple[Edit, ...]
    check: str


AGENT = """
import dataclasses
import numpy as np
from psconrl.agents import Agent, Plan

@dataclasses.dataclass(frozen=True, eq=False)
class Stubborn(Agent):
    \"\"\"Always the same action.\"\"\"
    action: int = 0

    def plan(self, memory, rng):
        return Plan(np.eye(self.problem.A)[np.full((1, self.problem.S), self.action)])
"""
ENVIRONMENT = """
import psconrl

def tight(tau: float = 0.6):
    \"\"\"The toy with another limit.\"\"\"
    return psconrl.make("toy", tau=tau)

psconrl.environments.register("tight-toy", tight)
"""
CRITERION = """
import psconrl

def solve_with_accidents(cmdp, chance):
    \"\"\"The best policy if each step leads to the initial state with a small probability.\"\"\"
    dense = cmdp.to_dense()
    return psconrl.solve(dense.replace(transitions=(1 - chance) * dense.transitions + chance * dense.initial))
"""

REPORT = """
from psconrl import report
from psconrl.analysis import group
from psconrl.experiments import Store

runs = next(iter(group(Store("plain").records()).values()))
panel = report.Panel("Mine", "cost so far", [report.line(runs.agent, runs.grid, runs.cumulative[:, 0])])
report.write("plain", "plain", sections=[report.Section("My section", figures={"mine": [[panel]]})])
"""

CHANGES = (
    Change(
        "an agent",
        (Edit("outside/my_agent.py", AGENT),),
        f'command({RUN}, "--import", "outside/my_agent.py", "--agent", "stubborn", "--out", "agent")\n'
        'assert Store("agent").load()[0].agent == "Stubborn"',
    ),
    Change(
        "an environment",
        (Edit("outside/my_env.py", ENVIRONMENT),),
        f'command({RUN}, "--import", "outside/my_env.py", "--env", "tight-toy", "--agent", "uniform", "--out", "env")\n'
        'assert {record.env for record in Store("env").load()} == {"toy", "tight-toy"}',
    ),
    Change(
        "a criterion",
        (Edit("outside/my_criterion.py", CRITERION),),
        "sys.path.append('outside')\nfrom my_criterion import solve_with_accidents\n"
        "assert solve_with_accidents(psconrl.make('queue'), 0.01).feasible",
    ),
    Change(
        "a curve of each run",
        (
            Edit(
                "src/psconrl/learning/metrics.py",
                '    Metric("my_curve", "my_curve", "limit", "worst"),\n',
                after='    Metric("policy_violation", "policy_violation", "limit", "by policies"),\n',
            ),
            Edit(
                "src/psconrl/learning/metrics.py",
                '    @property\n    def my_curve(self) -> Floats:\n        """The largest violation per step."""\n'
                "        return self.violation / self.grid\n\n",
                after="    multipliers: Any\n\n",
            ),
        ),
        'command("export", "plain", "plain.csv")\nassert "my_curve" in Path("plain.csv").read_text().splitlines()[0]',
    ),
    Change(
        "a panel in the report",
        (
            Edit(
                "outside/my_report.py",
                REPORT,
            ),
        ),
        "import runpy; runpy.run_path('outside/my_report.py')\n"
        "assert 'My section' in Path('plain/report.html').read_text(encoding='utf-8')",
    ),
    Change(
        "an option of run",
        (
            Edit(
                "src/psconrl/experiments/spec.py",
                '    purpose: str = ""\n',
                after="    model: str | None = None\n",
            ),
            Edit(
                "src/psconrl/cli.py",
                '    purpose: Annotated[str, typer.Option(help="Why.")] = "",\n',
                after="    modules: Imports = None,\n    workers: Workers = None,\n",
            ),
            Edit(
                "src/psconrl/cli.py",
                "set_ or [], purpose=purpose)\n",
                instead="set_ or [])\n",
            ),
        ),
        f'command({RUN}, "--agent", "uniform", "--purpose", "curiosity", "--out", "option")\n'
        'assert "curiosity" in Path("option/experiment.json").read_text()',
    ),
    Change(
        "a measure in the table of run",
        (
            Edit(
                "src/psconrl/learning/metrics.py",
                '    Metric("my_measure", "my_measure", "run", "per-step"),\n',
                after='    Metric("policy_violation", "policy_violation", "limit", "by policies"),\n',
            ),
            Edit(
                "src/psconrl/learning/metrics.py",
                '    @property\n    def my_measure(self) -> Floats:\n        """The regret per step."""\n'
                "        return self.regret / self.grid\n\n",
                after="    multipliers: Any\n\n",
            ),
        ),
        "import io, contextlib\nwith contextlib.redirect_stdout(io.StringIO()) as out:\n"
        f'    command({RUN}, "--agent", "uniform", "--out", "plain")\nassert "per-step" in out.getvalue()',
    ),
    Change(
        "a column of the table of plans",
        (
            Edit(
                "src/psconrl/learning/run.py",
                '    Column("limited", np.bool_, lambda episode: episode.plan.count_limit is not None),\n',
                after='    Column("nearest", np.float64, _of_limits("nearest"), each_limit=True),\n',
            ),
        ),
        f'command({RUN}, "--agent", "uniform", "--out", "column")\n'
        'assert not Store("column").load()[0].episodes["limited"].any()',
    ),
    Change(
        "how an agent is drawn",
        (Edit("src/psconrl/report/styles.py", '    "Stubborn": Style(2, (7, 7)),\n', after="STYLES = {\n"),),
        'from psconrl.report.styles import styles\nassert styles(["Stubborn"])["Stubborn"].dashes == (7, 7)',
    ),
    Change(
        "a format for models",
        (
            Edit("src/psconrl/io/reading.py", '".mine", ', after="\nMODEL_SUFFIXES = ("),
            Edit(
                "src/psconrl/io/files.py",
                '        case ".mine":\n            writing.write_text(path, _to_json(cmdp))\n',
                after="    match path.suffix.lower():\n",
            ),
        ),
        'psconrl.make("toy").save("toy.mine")\nassert psconrl.CMDP.load("toy.mine") == psconrl.make("toy")',
    ),
    Change(
        "an error",
        (
            Edit(
                "src/psconrl/errors.py",
                'class TooDearError(PsconrlError, ValueError):\n    """A model that costs too much."""\n\n\n',
                after='class PsconrlError(Exception):\n    """Base class of all errors raised by psconrl."""\n\n\n',
            ),
        ),
        "from psconrl.errors import PsconrlError, TooDearError\nassert issubclass(TooDearError, PsconrlError)",
    ),
    Change(
        "a preset of the reproduction",
        (
            Edit(
                "reproduction/presets.py",
                '\nregister(Preset("mine", "what I want to know", lambda quick: [(Cell("toy", "Uniform", 30), 2)]))\n',
                after="    register(_preset)\n",
            ),
        ),
        "from reproduction.presets import find\nassert find('mine').experiment(False).cells[0].agent == 'Uniform'",
    ),
)


def made(change: Change, root: Path) -> list[str]:
    """Make a change in a copy; the files of the tree that it touches."""
    for edit in change.edits:
        path = root / edit.file
        path.parent.mkdir(exist_ok=True)
        old = edit.after + edit.instead
        text = path.read_text(encoding="utf-8") if old else ""
        assert text.count(old) == 1, (change.name, edit.file)
        path.write_text(text.replace(old, edit.after + edit.text), encoding="utf-8")
    return sorted({edit.file for edit in change.edits if not edit.file.startswith("outside/")})


def copied(folder: Path) -> Path:
    """A copy of what is installed, and of the reproduction, with runs to look at."""
    for name in ("src", "reproduction"):
        shutil.copytree(ROOT / name, folder / name)
    return folder


def checked(changes: list[Change], root: Path) -> subprocess.CompletedProcess[str]:
    """Run the checks of changes in a copy, one after the other."""
    plain = f'command({RUN}, "--agent", "uniform", "--out", "plain")'
    code = "\n".join([START, plain, *(change.check for change in changes), "print('all work')"])
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(root / "src"), str(root)])}
    words = [sys.executable, "-c", code]
    return subprocess.run(words, cwd=root, env=environment, capture_output=True, text=True, check=False)


def main() -> None:
    """Try each change alone, and say which files it touched."""
    argparse.ArgumentParser(description=__doc__).parse_args()
    for change in CHANGES:
        with tempfile.TemporaryDirectory() as folder:
            root = copied(Path(folder))
            files = made(change, root)
            done = checked([change], root)
        where = ", ".join(files) or "no file of the project"
        print(f"{change.name:<32} {'works' if done.returncode == 0 else 'FAILS'}   {where}", flush=True)
        if done.returncode:
            print(done.stderr)


if __name__ == "__main__":
    main()
