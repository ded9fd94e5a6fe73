"""Small problems are solved without the compiler, and with the same bits."""

import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

import psconrl
from psconrl._core import njit

UNCOMPILED = """
import sys
import psconrl
from psconrl.agents import recommended

model = psconrl.make("{name}")
solution = psconrl.solve(model)
psconrl.evaluate(model, solution.policy)
psconrl.simulate(recommended(model.problem()), model, 50, 0)
print(solution.value, "numba" in sys.modules)
"""


@pytest.mark.parametrize("name", ["toy", "queue"])
def test_small_problems_do_not_even_import_the_compiler(name: str) -> None:
    done = subprocess.run([sys.executable, "-c", UNCOMPILED.format(name=name)], capture_output=True, text=True)
    value, imported = done.stdout.split()
    assert imported == "False", done.stderr
    assert float(value) == psconrl.solve(psconrl.make(name)).value


@pytest.mark.parametrize("name", ["toy", "queue", "riverswim", "garnet", "marsrover-4x4", "media-streaming"])
def test_compiled_and_interpreted_kernels_agree_bit_for_bit(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model = psconrl.make(name)
    answers = []
    for seconds in (-1.0, np.inf):  # nothing is interpreted; everything small is
        monkeypatch.setattr(njit, "MAX_INTERPRETED_SECONDS", seconds)
        monkeypatch.setattr(njit.Kernel, "is_loaded", False)
        answers.append(psconrl.solve(model))
    compiled, interpreted = answers
    for field in ("value", "policy", "average_costs", "occupancy", "multipliers", "margin", "gap", "bias_spans"):
        assert np.array_equal(getattr(compiled, field), getattr(interpreted, field), equal_nan=True), field


KERNEL = """
from typing import NamedTuple
from psconrl._core.njit import njit

class {kind}(NamedTuple):
    x: int

@njit
def kernel(pair: {kind}) -> int:
    return pair.x + {number}

print(kernel({kind}(1)))
"""


def test_compiled_code_of_an_earlier_version_is_not_read(tmp_path: Path) -> None:
    for number, kind in enumerate(["Earlier", "Later"]):
        (tmp_path / "module.py").write_text(KERNEL.format(kind=kind, number=number))
        done = subprocess.run([sys.executable, "-c", "import module"], capture_output=True, text=True, cwd=tmp_path)
        assert done.stdout == f"{1 + number}\n", done.stderr


def test_other_threads_stay_compiled() -> None:
    """One thread runs kernels as Python, with numbers that only Python knows, while another one enters and leaves."""
    inside, left = threading.Event(), threading.Event()

    def passes_by() -> bool:
        inside.wait(10)
        compiled_there = not njit._mode.plain
        with njit.as_python():
            pass
        left.set()
        return compiled_there

    with ThreadPoolExecutor(1) as pool:
        other = pool.submit(passes_by)
        with njit.as_python():
            inside.set()
            left.wait(10)
            assert njit._mode.plain
        assert other.result()
    assert not njit._mode.plain
