"""Text from outside: harmless on terminals, in pages and as names of files."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import psconrl
from psconrl import report
from psconrl.cli import main
from psconrl.experiments import Cell, Store, run_experiment, run_one
from psconrl.experiments.spec import Experiment
from psconrl.io.text import LONGEST_NAME, SafeStream, file_name, printable

EVIL = "\x1b]0;owned\x07\x1b[2J\u202egnp.exe\x00\r\ud800<script>alert(1)</script>"


@given(st.text(st.characters()))
def test_printable_text_is_harmless_and_stays_so(text: str) -> None:
    shown = printable(text)
    assert printable(shown) == shown
    assert not set(shown) & set("\x00\x07\x1b\r\x7f\x9b\u202e\u2066\u200f")
    shown.encode("utf-8")
    assert printable("plain text, tab\t, umlaut ä, arrow ↑\n") == "plain text, tab\t, umlaut ä, arrow ↑\n"


@given(st.text(st.characters()))
def test_names_of_files(text: str) -> None:
    name = file_name(text)
    assert 0 < len(name) <= LONGEST_NAME
    assert name not in (".", "..")
    assert not set(name) & set("/\\\0 ")
    assert name.isascii()


def test_long_names_stay_apart() -> None:
    names = {file_name("a" * 300 + str(k)) for k in range(50)}
    assert len(names) == 50


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_styles_pass_to_a_terminal_and_nothing_else() -> None:
    terminal, pipe = Terminal(), io.StringIO()
    for stream in (terminal, pipe):
        SafeStream(stream).write("\x1b[1mbold\x1b[0m \x1b[48;5;12mblue\x1b[0m\x1b[2J\x1b[8mhidden\x1b]0;title\x07")
    assert terminal.getvalue() == (
        "\x1b[1mbold\x1b[0m \x1b[48;5;12mblue\x1b[0m\\x1b[2J\\x1b[8mhidden\\x1b]0;title\\x07"
    )
    assert "\x1b" not in pipe.getvalue()


@pytest.fixture
def evil(tmp_path: Path) -> Path:
    toy = psconrl.make("toy")
    names = {"state_names": [EVIL, "b"], "action_names": [EVIL, "d"], "cost_names": [EVIL, EVIL + "2"]}
    toy.replace(**names).save(tmp_path / "model.json")
    return tmp_path


def test_names_in_a_model_do_not_reach_the_terminal(evil: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for words in (["solve"], ["solve", "--json"], ["solve", "--limit", EVIL + "=1"], ["solve", "--set", EVIL]):
        with pytest.raises(SystemExit):
            main([words[0], str(evil / "model.json"), *words[1:]])
        printed = capsys.readouterr()
        assert not set(printed.out + printed.err) & set("\x1b\x07\x00\r\u202e")


def test_names_in_a_model_do_not_reach_the_page(evil: Path) -> None:
    out = evil / "out"
    run_experiment(
        Experiment.grid("x\x1b[2J", [str(evil / "model.json")], ["uniform"], horizon=9, seeds=1), out, workers=1
    )
    report.write(out, out)
    page = (out / "report.html").read_text(encoding="utf-8")
    assert not set(page) & set("\x1b\x07\x00\r\u202e")
    assert "<script>alert" not in page


def test_a_model_of_a_long_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Failures of it are noted, too."""

    run_cell = run_one.run_cell

    def raining(cell: Cell, seed: int) -> Any:
        if seed == 1:
            raise RuntimeError("it rained")
        return run_cell(cell, seed)

    path = tmp_path / ("n" * 240 + ".json")
    psconrl.make("toy").save(path)
    experiment = Experiment.grid("x", [str(path)], ["uniform"], horizon=9, seeds=2)
    monkeypatch.setattr(run_one, "run_cell", raining)
    outcome = run_experiment(experiment, tmp_path / "out", workers=1)
    assert (outcome.executed, len(outcome.failures)) == (1, 1)
    assert len(Store(tmp_path / "out").failures()) == 1
    assert len(Store(tmp_path / "out").load()) == 1
