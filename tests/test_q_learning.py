"""The example in which another way of learning runs on the environments."""

import re
import runpy
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).parents[1] / "examples" / "q_learning.py"


def test_q_learning_comes_near_the_optimum(capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(str(EXAMPLE), run_name="__main__")
    said = capsys.readouterr().out
    reward, cost, limit = map(float, re.findall(r"-?\d+\.\d+", said.splitlines()[0]))
    assert limit == 0.2
    assert reward == pytest.approx(-0.775, abs=0.02)
    assert cost == pytest.approx(limit, abs=0.02)
    assert "reward -0.775, cost 0.200" in said
