"""The examples run and say what they promise; the benchmarks start."""

from __future__ import annotations

import json
import re
import runpy
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import psconrl
from examples import learn_gymnasium, own_agent, solve_inventory

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"
Printed = pytest.CaptureFixture[str]


def test_inventory(capsys: Printed) -> None:
    solve_inventory.main(["--capacity", "5", "--lost", "0.1"])
    printed = capsys.readouterr().out
    assert printed.startswith("money ")
    assert printed.count(" left: order") == 6
    assert len(printed.split("price\n")[1].splitlines()) == 6


def test_the_shop_by_hand() -> None:
    """With room for one item it is in stock each morning, after an order whenever one was sold: 0.9 of the days."""
    shop = solve_inventory.inventory(1, lost=1.0)
    always = psconrl.evaluate(shop, np.array([[0.0, 1.0], [1.0, 0.0]])).average_costs[:, 0]
    np.testing.assert_allclose(always, [1 + 4 * 0.9, 1.9 - 0.9])
    # Never ordering costs nothing, so with a loose limit nothing is sold.
    assert psconrl.solve(shop).value == pytest.approx(0.0)


def test_an_impossible_shop(capsys: Printed) -> None:
    with pytest.raises(SystemExit) as stopped:
        solve_inventory.main(["--capacity", "1", "--lost", "0.01"])
    assert stopped.value.code == 1
    assert "even a full shop loses" in capsys.readouterr().err


@pytest.mark.parametrize("task", ["cliff", "lake"])
def test_gymnasium(task: str, capsys: Printed) -> None:
    learn_gymnasium.main([task, "--steps", "1500"])
    printed = capsys.readouterr().out
    assert "Run(PSConRL, seed 0, T=1500" in printed
    assert re.search(r"accidents per step, limit 0\.0\d", printed)


def test_the_notebook_of_the_clinic() -> None:
    notebook = json.loads((Path(__file__).parents[1] / "examples" / "clinic.ipynb").read_text(encoding="utf-8"))
    names: dict[str, Any] = {}
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            exec("".join(cell["source"]), names)  # noqa: S102
            assert not cell["outputs"]
    assert names["solution"].value == pytest.approx(0.679069767)
    assert names["truth"][1] <= 1.0


def test_own_agent(capsys: Printed) -> None:
    own_agent.main(["--horizon", "400", "--seeds", "3"])
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == ["agent", "PSConRL", "Careful"]


@pytest.mark.parametrize("script", sorted(path.name for path in BENCHMARKS.glob("*.py")))
def test_every_benchmark_starts(script: str, monkeypatch: pytest.MonkeyPatch, capsys: Printed) -> None:
    monkeypatch.syspath_prepend(BENCHMARKS)
    monkeypatch.setattr(sys, "path", sys.path.copy())
    monkeypatch.setattr(sys, "argv", [script, "--help"])
    path = str(BENCHMARKS / script)
    if 'if __name__ == "__main__"' in Path(path).read_text(encoding="utf-8"):
        with pytest.raises(SystemExit) as stopped:
            runpy.run_path(path, run_name="__main__")
        assert stopped.value.code == 0
        assert "usage:" in capsys.readouterr().out
    else:
        runpy.run_path(path)
