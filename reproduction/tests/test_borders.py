"""The line between the library and what is said of one paper: each keeps to its own side."""

import ast
import importlib
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAPER = re.compile(r"paper|author(?!i[sz])|published|claim|figure.?1|preset", re.IGNORECASE)
"""Words of one paper; "Authorization" is a header of HTTP."""

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


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.stem)
def test_the_reproduction_reaches_into_nothing(path: Path) -> None:
    """Of what it imports from the library it uses no attribute that begins with an underscore."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    bound = {name or module for module, name in imports(tree)} | {"psconrl"}
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and re.match("_[^_]", node.attr):
            root: ast.AST = node
            while isinstance(root, ast.Attribute):
                root = root.value
            assert not (isinstance(root, ast.Name) and root.id in bound), f"line {node.lineno}: {node.attr}"


def docstrings(tree: ast.AST) -> set[int]:
    """The lines of docstrings."""
    found: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            found |= set(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return found


def test_the_library_knows_no_paper_but_those_that_its_agents_cite() -> None:
    source, found = ROOT / "src" / "psconrl", []
    for path in sorted(path for path in source.rglob("*") if path.is_file() and path.parent.name != "__pycache__"):
        text = path.read_text(encoding="utf-8")
        assert not re.search(r"^\s*(from|import) reproduction", text, re.MULTILINE), path
        cited = docstrings(ast.parse(text)) if path.parent.name == "agents" and path.suffix == ".py" else set()
        found += [
            f"{path.relative_to(source)}:{k}: {line.strip()}"
            for k, line in enumerate(text.splitlines(), start=1)
            if PAPER.search(line) and k not in cited
        ]
    assert not found
