"""Text from outside: harmless on terminals, in pages and as names of files."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import psconrl
from psconrl.cli import main
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
