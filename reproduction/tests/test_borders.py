"""The line between the library and what is said of one paper: each keeps to its own side."""

import ast
import importlib
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MODULES = sorted((ROOT / "reproduction").glob("*.py"))


def imports(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """(module, name) of everything that is imported from the library."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "psconrl":
            yield from ((node.module, alias.name) for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from ((alias.name, "") for alias in node.names if alias.name.split(".")[0] == "psconrl")


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.stem)
def test_the_reproduction_uses_public_names_alone(path: Path) -> None:
    """Names that a package lists, of the library or of one of its packages or documented modules."""
    for module, name in imports(ast.parse(path.read_text(encoding="utf-8"))):
        assert module.count(".") <= 1, f"{module} is inside of a package"
        assert not any(part.startswith("_") for part in f"{module}.{name}".split(".") if part), f"{module}.{name}"
        listed = getattr(importlib.import_module(module), "__all__", None)
        assert listed is None or name in listed, f"{module} does not list {name}"
