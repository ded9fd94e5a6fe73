"""The command line: what it prints, and how it refuses."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

import psconrl
from psconrl.cli import main
from psconrl.experiments import Store


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
    for name in ("envs", "agents", "solve", "run", "export"):
        assert name in result.out
        assert call(name, "--help").code == 0


def test_solve(call: Call, tmp_path: Path) -> None:
    result = call("solve", "marsrover-4x4")
    assert result.code == 0
    assert "0.775" in result.out
    assert "↑" in result.out
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
    assert (document["status"], document["value"], len(document["conflict"])) == ("infeasible", None, 1)


RUN = ("run", "--env", "toy", "--agent", "ps-conrl", "--agent", "uniform", "--horizon", "100", "--workers", "1")


def test_run_as_json(call: Call, tmp_path: Path) -> None:
    words = (*RUN, "--seeds", "3", "--out", tmp_path, "--json")
    first, second = call(*words), call(*words)
    assert first.code == 0
    assert first.out == second.out
    cells = json.loads(first.out)["cells"]
    assert [(cell["env"], cell["agent"]) for cell in cells] == [("toy", "PSConRL"), ("toy", "Uniform")]
    fields = ["env", "agent", "horizon", "seeds", "optimum", "regret", "violation", "episodes", "infeasible_episodes"]
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


def test_a_bad_setting_fails_its_runs_only(call: Call, tmp_path: Path) -> None:
    result = call(*RUN, "--seeds", "2", "--out", tmp_path, "--set", "psconrl.prior=-1", "--json")
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
        (("fly",), "fly"),
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
