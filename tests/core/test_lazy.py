"""Late imports: one idiom, and no other."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest

import psconrl
from psconrl._core.lazy import lazy_import

ROOT = Path(psconrl.__file__).parent

EXCEPT = "__main__.py"
"""It must hear interrupts before it imports anything."""


def in_functions(tree: ast.AST) -> list[int]:
    """The lines in which a function imports something of the project."""
    return [
        node.lineno
        for function in ast.walk(tree)
        if isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef))
        for node in ast.walk(function)
        if (isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "psconrl")
        or (isinstance(node, ast.Import) and any(alias.name.split(".")[0] == "psconrl" for alias in node.names))
    ]


def test_functions_import_nothing_of_the_project() -> None:
    found = {}
    for path in ROOT.rglob("*.py"):
        name = path.relative_to(ROOT).as_posix()
        lines = in_functions(ast.parse(path.read_text(encoding="utf-8")))
        if lines and name != EXCEPT:
            found[name] = lines
    assert not found


def test_a_late_module_is_imported_when_it_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "colorsys", raising=False)
    module = lazy_import("colorsys")
    assert "colorsys" not in sys.modules
    assert module.rgb_to_hsv(0, 0, 0) == (0, 0, 0)
    assert "colorsys" in sys.modules
    with pytest.raises(AttributeError, match="no_such_name"):
        module.no_such_name  # noqa: B018
