"""`import psconrl` is light, and every public name is there."""

import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

import psconrl
from psconrl import agents, environments, experiments

HEAVY = ("numba", "highspy", "matplotlib", "scipy.optimize")


def test_importing_loads_nothing_heavy() -> None:
    code = f"import sys, psconrl; print([name for name in {HEAVY} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize(
    ("package", "name"),
    [
        (psconrl, "solve"),
        (psconrl, "agents"),
        (agents, "PSConRL"),
        (agents, "recommended"),
        (agents, "check_agent"),
        (experiments, "Store"),
        (environments, "register"),
    ],
)
def test_tab_completes_to_names_that_resolve(package: ModuleType, name: str) -> None:
    public = [name for name in dir(package) if not name.startswith("_")]
    assert name in public
    for offered in public:
        assert getattr(package, offered) is not None


def test_the_function_recommended_is_not_hidden_by_its_module() -> None:
    code = "import psconrl.agents.recommended; from psconrl.agents import recommended; recommended.__code__"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no_such_name"):
        psconrl.no_such_name  # type: ignore[attr-defined]  # noqa: B018


def test_the_version_is_that_of_the_citation() -> None:
    """It is written in `psconrl/__init__.py`; packaging and documentation read it there, a citation cannot."""
    citation = (Path(__file__).parents[1] / "CITATION.cff").read_text(encoding="utf-8")
    assert f"\nversion: {psconrl.__version__}\n" in citation
