"""The command line: what it prints, and how it refuses."""

from __future__ import annotations

import contextlib
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import psconrl
from psconrl.cli import main
from psconrl.experiments import Store, read_toml


class Result:
    """What a command printed, and its exit code."""

    def __init__(self, code: object, out: str, err: str) -> None:
        self.code, self.out, self.err = code, out, err


Call = Callable[..., Result]


@pytest.fixture
def call(capsys: pytest.CaptureFixture[str]) -> Call:
    def run(*words: object) -> Result:
        with pytest.raises(SystemExit) as stopped:
            main([str(word) for word in words])
        printed = capsys.readouterr()
        return Result(stopped.value.code, printed.out, printed.err)

    return run


def test_lists(call: Call) -> None:
    assert "marsrover-8x8" in call("envs").out
    assert "UCRL-CMDP" in call("agents").out
    assert json.loads(call("envs", "--json").out)["toy"]["options"]["theta"] == 0.9
    assert json.loads(call("agents", "--json").out)["PSConRL"]["settings"]["prior"] == 0.01


def test_help_lists_the_commands(call: Call) -> None:
    result = call("--help")
    assert result.code == 0
    for name in ("envs", "agents", "solve", "convert", "run", "export", "report", "init"):
        assert f"\n  {name} " in result.out
        described = call(name, "--help")
        assert described.code == 0
        assert "Examples:" in described.out
        assert call("help", name).out == described.out
    assert call("help").out == result.out


def test_what_people_type(call: Call, tmp_path: Path) -> None:
    assert "queue" in call("envs", "queue").out
    assert "marsrover" not in call("envs", "queue").out
    assert list(json.loads(call("agents", "ps-conrl", "--json").out)) == ["PSConRL"]
    words = (
        "run",
        "--env",
        "toy",
        "--agent",
        "uniform",
        "--horizon",
        "1e2",
        "--seeds",
        "2",
        "--workers",
        "1",
        "--json",
    )
    assert json.loads(call(*words, "--out", tmp_path).out)["cells"][0]["horizon"] == 100
    assert call("run", "--env", "toy", "--horizon", "1.5", "--seeds", "2").code == 2
    gone = call("reproduce", "figure-1", "--quick")
    assert gone.code == 1
    assert "python -m reproduction" in gone.err


def test_version(call: Call) -> None:
    assert call("--version").out == f"psconrl {psconrl.__version__}\n"


def test_solve(call: Call, tmp_path: Path) -> None:
    result = call("solve", "marsrover-4x4")
    assert result.code == 0
    assert "16 states, 4 actions, 1 limit\n" in result.out
    assert "minimum time: 0.775 per step" in result.out
    assert "↑" in result.out
    assert "\x1b" not in result.out
    assert result.out.splitlines()[3].split() == ["limit", "on", "use", "limit", "slack", "shadow", "price"]
    assert result.out.splitlines()[5].split() == ["risk", "0.2", "0.2", "0", "0.5"]
    psconrl.make("queue").save(tmp_path / "queue.json")
    document = json.loads(call("solve", tmp_path / "queue.json", "--json").out)
    assert document["value"] == pytest.approx(0.1052523, abs=1e-7)
    assert [c["limit"] for c in document["constraints"]] == [0.6, 0.25]
    assert all(c["price"] > 0 and abs(c["slack"]) < 1e-6 for c in document["constraints"])


def test_solve_an_infeasible_model(call: Call, tmp_path: Path) -> None:
    psconrl.make("toy", tau=0.1).save(tmp_path / "toy.json")
    result = call("solve", tmp_path / "toy.json")
    assert result.code == 0
    assert "infeasible" in result.out
    assert "cannot hold" in result.out
    document = json.loads(call("solve", tmp_path / "toy.json", "--json").out)
    assert (document["status"], document["value"], document["conflict"]) == ("infeasible", None, ["left"])
    assert document["constraints"][0]["nearest"] == document["constraints"][0]["alone"] == 0.526316


def test_an_infeasible_model_says_what_would_do(call: Call) -> None:
    result = call("solve", "queue", "--limit", "service=0.1", "--limit", "rejection=0")
    assert result.code == 0
    assert "infeasible: service <= 0.1 cannot hold\n" in result.out
    assert "\n  service <= 0.2 and rejection <= 0.09\n" in result.out
    result = call("solve", "queue", "--limit", "service=0.2", "--limit", "rejection=0.09")
    assert "minimum length: " in result.out


def test_solve_with_options(call: Call) -> None:
    assert "minimum right: 0.3 per" in call("solve", "toy", "--set", "tau=0.6", "--limit", "left=0.7").out
    assert "in state" in call("solve", "queue").out
    assert "--policy" in call("solve", "garnet", "--set", "S=31").out


def test_solve_counts_the_pairs_where_states_have_different_actions(call: Call) -> None:
    said = call("solve", "inventory").out
    assert "6 states, 6 actions (21 of 36 pairs), 1 limit\n" in said
    assert "order 0 (0.797), order 2 (0.203)" in said


def test_solve_says_how_long_averages_take_to_hold(call: Call) -> None:
    rover = call("solve", "marsrover-4x4").out
    assert "after at most 140 steps" in rover
    assert "Warning" not in rover
    river = call("solve", "riverswim").out
    assert "steps.\nWarning: shorter runs may behave differently" in river
    assert "left, rarely right (4.0e-05)" in river
    held = json.loads(call("solve", "riverswim", "--json").out)["holds_after"]
    assert held["share_of_range"] == 0.01
    assert held["steps"] > 100_000


def test_solve_for_a_number_of_steps(call: Call) -> None:
    river = call("solve", "riverswim", "--horizon", "20000")
    assert river.code == 0
    assert "made for 20,000 steps" in river.out
    assert "Warning" not in river.out
    assert "exceeds them by 0.01505" in " ".join(call("solve", "toy", "--horizon", "10").out.split())
    document = json.loads(call("solve", "riverswim", "--horizon", "20000", "--json").out)
    assert document["horizon"] == 20_000
    assert document["attained"]
    assert document["average_costs"] == pytest.approx([0.4735, 0.6], abs=1e-3)
    assert document["long_run_costs"][1] > 0.6
    swim, rest = sorted(document["mixture"], key=lambda member: -member["weight"])
    assert swim["weight"] == pytest.approx(0.6)
    assert swim["actions"] == ["right"] * 6
    assert rest["core"] == ["place 0"]
    assert np.max(document["switching_times"]) == pytest.approx(5.3125)
    assert "up to 5.31 expected steps apart" in river.out
    assert "horizon is 0; it must be at least 1" in call("solve", "toy", "--horizon", "0").err


def test_convert(call: Call, tmp_path: Path) -> None:
    for file in ("box.drn", "box.umb", "box.json", "box.npz"):
        assert call("convert", "box", tmp_path / file, "--set", "slip=0.1").out == f"{tmp_path / file}\n"
        assert psconrl.CMDP.load(tmp_path / file) == psconrl.make("box", slip=0.1)
    both = [call("solve", tmp_path / f"box.{ending}").out.split("\n", 1)[1] for ending in ("drn", "json")]
    assert both[0] == both[1]
    assert "box (drawn where it starts)" in both[0]


def test_init(call: Call, tmp_path: Path) -> None:
    folder = tmp_path / "new" / "steps"
    result = call("init", folder)
    assert result.code == 0
    assert "worn" in call("solve", folder / "model.json").out
    experiment = read_toml(folder / "experiment.toml")
    assert {cell.env_name for cell in experiment.cells} == {"model", "marsrover-4x4"}
    words = ("run", folder / "experiment.toml", "--out", folder / "results", "--workers", "1")
    assert str(folder / "experiment.toml") in result.out
    (folder / "experiment.toml").write_text(
        re.sub("horizon = .*", "horizon = 50", (folder / "experiment.toml").read_text())
    )
    done = call(*words)
    assert done.code == 0
    assert f"To draw them:\n  psconrl report {folder / 'results'}\n" in done.out
    rows = [line for line in done.out.splitlines() if line.startswith(("PSConRL ", "Optimal "))]
    assert len(rows) == 2 * 2 * 2  # environments, agents, tables
    again = call("init", folder)
    assert again.code == 1
    assert "--force" in again.err
    assert "horizon = 50" in (folder / "experiment.toml").read_text()
    assert call("init", folder, "--force").code == 0
    assert "horizon = 50" not in (folder / "experiment.toml").read_text()


def test_report_as_json(call: Call, tmp_path: Path) -> None:
    assert call(*RUN, "--seeds", "1", "--out", tmp_path).code == 0
    document = json.loads(call("report", tmp_path, "--json").out)
    assert all(Path(file).exists() for file in document["files"])
    assert f"  {tmp_path / 'report.html'}\n" in call("report", tmp_path).out


COMMAND = [sys.executable, "-c", "import sys; sys.argv[0] = 'psconrl'; from psconrl.cli import main; main()"]


@pytest.mark.parametrize(
    ("line", "completed"),
    [("psconrl solve mars", "marsrover-4x4\nmarsrover-8x8"), ("psconrl run --agent PS", "PSConRL")],
)
def test_names_are_completed(line: str, completed: str) -> None:
    words = {"_PSCONRL_COMPLETE": "complete_bash", "COMP_WORDS": line, "COMP_CWORD": str(len(line.split()) - 1)}
    done = subprocess.run(COMMAND, capture_output=True, text=True, env={**os.environ, **words})
    assert done.stdout.strip() == completed


@pytest.mark.skipif(sys.platform == "win32", reason="there are no pseudo-terminals")
def test_colours_on_a_terminal_only() -> None:
    pty = pytest.importorskip("pty")
    ours, theirs = pty.openpty()
    words = [*COMMAND, "solve", "marsrover-4x4"]
    environment = {**os.environ, "TERM": "xterm-256color", "COLUMNS": "80"}
    environment.pop("NO_COLOR", None)
    process = subprocess.Popen(words, stdout=theirs, stderr=subprocess.STDOUT, env=environment)
    os.close(theirs)
    seen = b""
    with contextlib.suppress(OSError):  # the end of a terminal is an error
        while part := os.read(ours, 4096):
            seen += part
    os.close(ours)
    assert process.wait() == 0
    assert b"\x1b[48;5;" in seen
    assert b"\x1b[1m" in seen
    piped = subprocess.run(words, capture_output=True, env=environment)
    assert b"\x1b" not in piped.stdout


def test_whoever_stops_reading_gets_no_complaint() -> None:
    process = subprocess.Popen([*COMMAND, "envs", "--json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.close()
    assert process.stderr.read() == b""
    process.stderr.close()
    process.wait()


RUN = ("run", "--env", "toy", "--agent", "ps-conrl", "--agent", "uniform", "--horizon", "100", "--workers", "1")


def test_run_as_json(call: Call, tmp_path: Path) -> None:
    words = (*RUN, "--seeds", "3", "--out", tmp_path, "--json")
    first, second = call(*words), call(*words)
    assert first.code == 0
    assert first.out == second.out
    cells = json.loads(first.out)["cells"]
    assert [(cell["env"], cell["agent"]) for cell in cells] == [("toy", "PSConRL"), ("toy", "Uniform")]
    fields = ["env", "agent", "horizon", "seeds", "optimum", "regret", "violation", "episodes", "infeasible_episodes"]
    fields += ["lagrangian", "positive_violation", "largest_violation", "policy_violation"]
    for cell in cells:
        assert list(cell) == [*fields, "seconds"]
        assert (cell["horizon"], cell["seeds"]) == (100, 3)
        assert cell["optimum"] == pytest.approx(0.4725)
        for interval in (cell["regret"], *cell["violation"]):
            assert list(interval) == ["mean", "low", "high"]
            assert interval["low"] <= interval["mean"] <= interval["high"]
        assert len(cell["violation"]) == 1
        assert list(cell["episodes"]) == list(cell["infeasible_episodes"]) == ["mean"]
        assert cell["seconds"] > 0
    ends = [record.regret[-1] for record in Store(tmp_path).load() if record.agent == "PSConRL"]
    assert cells[0]["regret"]["mean"] == pytest.approx(sum(ends) / 3)


def test_settings_reach_the_run(call: Call, tmp_path: Path) -> None:
    sets = ("--set", "psconrl.infeasible=explore", "--set", "toy.theta=0.95", "--costs", "known")
    assert call(*RUN, "--seeds", "1", "--out", tmp_path, *sets).code == 0
    record = next(record for record in Store(tmp_path).load() if record.agent == "PSConRL")
    assert record.settings["infeasible"] == "explore"
    assert record.env_options == {"theta": 0.95}
    assert record.costs == "known"


def test_a_file_says_what_to_run(call: Call, tmp_path: Path) -> None:
    file = tmp_path / "study.toml"
    file.write_text('envs = ["toy"]\nagents = ["uniform"]\nhorizon = 40\nseeds = 2\n')
    assert call("run", file, "--out", tmp_path / "out", "--workers", "1").code == 0
    assert call("export", tmp_path / "out", tmp_path / "curves.csv").code == 0
    assert (tmp_path / "curves.csv").read_text().startswith("env,agent,")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--set", "psconrl.prior=-1"), "toy / PSConRL: prior has a negative"),
        (("--set", "toy.theta=2"), "theta is 2; it must be a number from 0 to 1"),
        (("--agent", "fha", "--set", "fha.H=0"), "toy / FHA: H is 0; it must be at least 1"),
    ],
)
def test_settings_are_checked_before_anything_is_run(
    call: Call, tmp_path: Path, words: tuple[str, ...], message: str
) -> None:
    result = call(*RUN, "--seeds", "2", "--out", tmp_path / "out", *words)
    assert result.code == 1
    assert message in result.err
    assert result.err.count("\n") == 1
    assert not (tmp_path / "out").exists()


def test_costs_in_units_of_their_own(call: Call, tmp_path: Path) -> None:
    """The same runs, in other units: agents see costs in [0, 1] either way."""
    model = psconrl.make("toy")
    model.save(tmp_path / "plain.json")
    model.replace(costs=model.costs * 700, thresholds=model.thresholds * 700).save(tmp_path / "dear.json")
    words = ("--agent", "psconrl", "--horizon", 60, "--seeds", 2, "--json", "--workers", 1)
    cells = [
        json.loads(call("run", "--env", tmp_path / f"{name}.json", "--out", tmp_path / name, *words).out)["cells"][0]
        for name in ("plain", "dear")
    ]
    assert cells[1]["optimum"] == pytest.approx(700 * cells[0]["optimum"])
    assert cells[1]["regret"]["mean"] == pytest.approx(700 * cells[0]["regret"]["mean"])
    assert cells[1]["violation"][0]["mean"] == pytest.approx(700 * cells[0]["violation"][0]["mean"])
    assert call("report", tmp_path / "dear").code == 0


def test_without_a_command_it_shows_its_help(call: Call) -> None:
    result = call()
    assert result.code == 0
    assert result.out == call("--help").out
    assert result.err == ""


def test_a_mistake_in_the_code_keeps_its_traceback(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise ValueError("a mistake")

    monkeypatch.setattr("psconrl.environments.catalogue.registry", broken)
    monkeypatch.delattr("psconrl.environments.registry", raising=False)
    with pytest.raises(ValueError, match="a mistake"):
        main(["envs"])


def test_a_run_that_fails_leaves_the_others_alone(call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("this agent fails")

    monkeypatch.setattr("psconrl.agents.PSConRL.plan", broken)
    result = call(*RUN, "--seeds", "2", "--out", tmp_path, "--workers", "1", "--json")
    assert result.code == 1
    assert "2 runs of 4 failed" in result.err
    assert "the same command tries them again" in result.err
    cells = json.loads(result.out)["cells"]
    assert [cell["seeds"] for cell in cells] == [0, 2]
    assert cells[0]["regret"]["mean"] is None
    assert len(Store(tmp_path).failures()) == 2


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("solve", "marsrover-4x5"), "did you mean 'marsrover-4x4'"),
        (("solve", "nothing.npz"), "nothing.npz: there is no such file"),
        ((*RUN, "--seeds", "0"), "seeds is 0; it must be at least 1"),
        (("run", "--env", "toy", "--agent", "uniform", "--seeds", "1"), "--horizon is missing"),
        ((*RUN, "--seeds", "1", "--set", "psconrl.prio=1"), "did you mean 'prior'"),
        ((*RUN, "--seeds", "1", "--set", "prior=1"), "write NAME.KEY=VALUE"),
        ((*RUN, "--seeds", "1", "--set", "psconl.prior=1"), "did you mean 'psconrl'"),
        ((*RUN, "--seeds", "1", "--set", "fha.H=3"), "settings for FHA, which is not run"),
        ((*RUN, "--seeds", "1", "--costs", "guessed"), "costs is 'guessed'"),
        ((*RUN, "--seeds", "1", "--workers", "0"), "workers is 0"),
        ((*RUN, "--seeds", "many"), "--seeds"),
        (("run", "no.toml"), "no.toml: there is no such file"),
        (("run", "no.toml", "--seeds", "3"), "--seeds cannot be combined"),
        (("export", "nowhere", "x.csv"), "there are no results here"),
        (("solve", "toy", "--set", "teta=0.5"), "toy has no option 'teta'; did you mean 'theta'?"),
        (("solve", "toy", "--set", "theta"), "write KEY=VALUE"),
        (("solve", "toy", "--limit", "left=low"), "write COST=VALUE"),
        (("solve", "toy", "--limit", "lefd=1"), "unknown limit 'lefd'; did you mean 'left'?"),
        (("solve", "model.txt"), "a model file must end in .npz"),
        (("convert", "toy", "toy.txt"), "a model file must end in .npz"),
        (("convert", "toy", "nowhere/toy.drn"), "nowhere/toy.drn: there is no folder nowhere; make it first"),
        (("report", "nowhere"), "there are no results here"),
        (("envs", "toi"), "did you mean 'toy'"),
        (("run", "--import", "no_such_module", "--env", "toy"), "no module 'no_such_module'"),
        (("slove", "toy"), "did you mean 'solve'"),
        (("solve", "toy", "--jsn"), "--json"),
        (("solve",), "MODEL"),
    ],
)
def test_mistakes_are_one_line(
    call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    result = call(*words)
    assert result.code in (1, 2)
    assert message in result.err
    assert result.err.startswith("psconrl: ")
    assert len(result.err.splitlines()) == 1
    assert result.out == ""


def test_narrow_terminals_get_lists_instead_of_tables(
    call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("psconrl.cli_output.PIPED_WIDTH", 60)
    words = ("run", "--env", "queue", "--agent", "uniform", "--horizon", "20", "--seeds", "2", "--workers", "1")
    out = call(*words, "--out", tmp_path).out
    assert max(len(line) for line in out.splitlines() if str(tmp_path) not in line) <= 60
    for text in ("Uniform\n  regret ", "  service <= 0.6\n    violation ", "  rejection <= 0.25\n    violation "):
        assert text in out


def test_other_libraries_do_not_talk_in_our_name() -> None:
    code = (
        "import logging; from psconrl.cli import _log_to_terminal; _log_to_terminal();"
        "logging.getLogger('distributed.utils').exception('lost'); logging.getLogger('psconrl.store').warning('found')"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("", "psconrl: found\n")
