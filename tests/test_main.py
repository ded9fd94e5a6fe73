"""`python -m psconrl` prints the published optima and draws the policies."""

import os
import subprocess
import sys

import pytest

from psconrl.__main__ import main


def test_the_table_and_the_maps(capsys: pytest.CaptureFixture[str]) -> None:
    main()
    printed = capsys.readouterr().out
    for row in (
        "marsrover-4x4       16     0.2   0.775000000    0.2000    0.500000   0.750000000   0.875000000",
        "marsrover-8x8       64     0.1   0.938095238    0.1000    0.142857   0.923076923   0.952380952",
        "box                 60     0.6   0.845000000    0.6000    0.050000   0.833333333   0.875000000",
    ):
        assert row in printed
    assert printed.count("↑") > 20
    assert "\x1b" not in printed  # colour on terminals only
    assert max(map(len, printed.splitlines())) <= 110


def test_the_command() -> None:
    environment = {**os.environ, "PYTHONIOENCODING": "utf-8"}
    done = subprocess.run(
        [sys.executable, "-m", "psconrl"], capture_output=True, encoding="utf-8", check=True, env=environment
    )
    assert "0.845000000" in done.stdout
    assert done.stderr == ""
