"""Arrows point one way: a lower layer never imports a higher one, not even inside a function."""

from __future__ import annotations

import ast
from pathlib import Path

import psconrl

ROOT = Path(psconrl.__file__).parent

LAYERS = (
    ("errors",),
    ("_core",),
    ("problem",),
    ("cmdp", "io", "gymnasium_table"),
    ("planning",),
    ("structure",),
    ("agents",),
    ("environments", "gymnasium_ids"),
    ("learning",),
    ("experiments",),
    ("analysis",),
    ("report",),
    ("service",),
    ("cli", "cli_output"),
    ("__main__",),
)
"""From the bottom up; modules of one layer may know each other."""

HEIGHT = {name: height for height, names in enumerate(LAYERS) for name in names}

FACADES = {"__init__.py", "agents/check_agent.py"}
"""Where users look for names that may live above; these are resolved when they are asked for."""


def imported(tree: ast.AST) -> set[tuple[int, str]]:
    """Line and package of every import of the project, also of those written as text for `lazy_import`."""
    found = set()
    for node in ast.walk(tree):
        names = []
        if isinstance(node, ast.ImportFrom) and node.module == "psconrl":
            names = [f"psconrl.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = [node.module]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "lazy_import":
            names = [arg.value for arg in node.args if isinstance(arg, ast.Constant) and isinstance(arg.value, str)]
        for name in names:
            if name.startswith("psconrl."):
                found.add((getattr(node, "lineno", 0), name.split(".")[1]))
    return found


def test_nothing_higher_is_imported() -> None:
    upward = []
    for path in sorted(ROOT.rglob("*.py")):
        file = path.relative_to(ROOT).as_posix()
        package = file.split("/")[0].removesuffix(".py")
        if file in FACADES or package == "__init__":
            continue
        assert package in HEIGHT, f"{package} has no layer; add it to LAYERS"
        for line, other in imported(ast.parse(path.read_text(encoding="utf-8"))):
            if other in HEIGHT and HEIGHT[other] > HEIGHT[package]:
                upward.append(f"{file}:{line} imports {other}")
            if package == "report" and other in ("planning", "structure"):  # it reads what the store holds
                upward.append(f"{file}:{line} imports {other}")
    assert not upward


def test_the_guard_sees_every_kind_of_import() -> None:
    code = 'def f():\n    from psconrl.report import x\n    from psconrl import cli\nlazy_import("psconrl.analysis.x")'
    assert imported(ast.parse(code)) == {(2, "report"), (3, "cli"), (4, "analysis")}
