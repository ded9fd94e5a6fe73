"""People who wait are told once that something compiles; programs are not."""

import io
from collections.abc import Callable

import numba
import pytest

from psconrl._core import compiling


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def fresh() -> Callable[[int], int]:
    """A kernel that has never been compiled."""
    return numba.njit(lambda x: x + 1)


@pytest.fixture(autouse=True)
def unsaid(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiling, "_silent", [])


def heard(monkeypatch: pytest.MonkeyPatch, stream: io.StringIO, times: int = 2) -> str:
    monkeypatch.setattr("sys.stderr", stream)
    for _ in range(times):
        with compiling.notify():
            assert fresh()(1) == 2
    return stream.getvalue()


def test_at_a_terminal_once(monkeypatch: pytest.MonkeyPatch) -> None:
    assert heard(monkeypatch, Terminal()) == f"psconrl: {compiling.COMPILING}\n"


def test_not_into_a_file(monkeypatch: pytest.MonkeyPatch) -> None:
    assert heard(monkeypatch, io.StringIO()) == ""


def test_not_where_others_tell(monkeypatch: pytest.MonkeyPatch) -> None:
    compiling.silence()
    assert heard(monkeypatch, Terminal()) == ""


def test_nothing_compiled_nothing_said(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = Terminal()
    monkeypatch.setattr("sys.stderr", stream)
    with compiling.notify():
        pass
    assert stream.getvalue() == ""
