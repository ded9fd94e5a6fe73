"""`import psconrl` is light, and every public name is there."""

import subprocess
import sys
from pathlib import Path

import pytest

import psconrl

HEAVY = ("numba", "highspy", "matplotlib", "scipy.optimize")


def test_importing_loads_nothing_heavy() -> None:
    code = f"import sys, psconrl; print([name for name in {HEAVY} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_every_public_name_resolves() -> None:
    assert len(set(psconrl.__all__)) == len(psconrl.__all__)
    for name in psconrl.__all__:
        assert getattr(psconrl, name) is not None
        assert name in dir(psconrl)


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'no_such_name'"):
        psconrl.no_such_name  # noqa: B018


def test_the_version_is_that_of_the_citation() -> None:
    """It is written in `psconrl/__init__.py`; packaging and documentation read it there, a citation cannot."""
    citation = (Path(__file__).parents[1] / "CITATION.cff").read_text(encoding="utf-8")
    assert f"\nversion: {psconrl.__version__}\n" in citation
