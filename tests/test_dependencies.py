"""Versions with known vulnerabilities are refused by the lower bounds of what psconrl requires."""

import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.version import Version

PROJECT = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text(encoding="utf-8"))["project"]

FIXED = {
    "jinja2": ("3.1.6", "CVE-2025-27516"),
    "pyarrow": ("23.0.1", "CVE-2026-25087"),
    "dask": ("2026.1.1", "CVE-2026-23528"),
    "distributed": ("2026.1.1", "CVE-2026-23528"),
}
"""The first version without the last vulnerability that we know of; the others have none that we know of."""


def required() -> dict[str, Requirement]:
    lines = [*PROJECT["dependencies"], *PROJECT["optional-dependencies"]["cluster"]]
    return {requirement.name: requirement for requirement in map(Requirement, lines)}


@pytest.mark.parametrize("name", FIXED)
def test_versions_with_known_vulnerabilities_are_refused(name: str) -> None:
    (bound,) = required()[name].specifier
    version, why = FIXED[name]
    assert bound.operator == ">="
    assert Version(bound.version) >= Version(version), why


def test_there_are_lower_bounds_and_no_pins() -> None:
    for requirement in required().values():
        assert [bound.operator for bound in requirement.specifier] == [">="], requirement
