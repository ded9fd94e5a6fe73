"""The Python in the README runs and prints what the README says."""

import contextlib
import io
import re
from pathlib import Path

import pytest

TEXT = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```python\n(.*?)```\n(?:\s*```text\n(.*?)```)?", TEXT, flags=re.DOTALL)


def test_there_is_something_to_run() -> None:
    assert BLOCKS


@pytest.mark.parametrize(("code", "printed"), BLOCKS)
def test_readme(code: str, printed: str) -> None:
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        exec(compile(code, "README.md", "exec"), {"__name__": "readme"})
    if printed:
        assert [line.rstrip() for line in said.getvalue().splitlines()] == [
            line.rstrip() for line in printed.splitlines()
        ]
