"""How large the package is, and how well documented: one table.

Counts lines and files by package, public functions and methods with an `Args:` block, top-level names that several
modules define, module constants, compiled kernels and hard dependencies.
"""

from __future__ import annotations

import argparse
import ast
import tomllib
from collections import defaultdict
from pathlib import Path

TEMPLATES = (".js", ".css", ".jinja")


def main(root: Path) -> None:
    package = root / "src" / "psconrl"
    modules = {path: ast.parse(path.read_text(encoding="utf-8")) for path in sorted(package.rglob("*.py"))}
    planning = [path for path in modules if "planning" in path.relative_to(package).parts]
    others = [path for path in modules if path not in planning]
    templates = [path for path in package.rglob("*") if path.suffix in TEMPLATES]
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    documented, with_parameters = _documented(modules)
    rows = {
        "source outside planning: lines": _lines(others),
        "source outside planning: files": len(others),
        "planning: lines": _lines(planning),
        "planning: files": len(planning),
        "planning: compiled kernels": sum(_kernels(modules[path]) for path in planning),
        "planning: module constants": sum(_constants(modules[path]) for path in planning),
        "report templates: lines": _lines(templates),
        "reproduction: lines": _lines(root.glob("reproduction/**/*.py")),
        "tests: lines": _lines(root.glob("tests/**/*.py")),
        "public functions with parameters": with_parameters,
        "... with an Args block": documented,
        "top-level names defined in several modules": _repeated(modules),
        "hard dependencies": len(project["dependencies"]),
    }
    for name, value in rows.items():
        print(f"{name:45}{value:>8,}")


def _lines(paths: object) -> int:
    return sum(len(path.read_text(encoding="utf-8").splitlines()) for path in paths)


def _functions(tree: ast.AST) -> list[ast.FunctionDef]:
    return [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]


def _documented(modules: dict[Path, ast.Module]) -> tuple[int, int]:
    public = [
        function
        for path, tree in modules.items()
        if not path.stem.startswith("_") or path.stem == "__init__"
        for function in _functions(tree)
        if not function.name.startswith("_")
        and [a for a in (*function.args.args, *function.args.kwonlyargs) if a.arg not in ("self", "cls")]
    ]
    return sum("Args:" in (ast.get_docstring(f) or "") for f in public), len(public)


def _kernels(tree: ast.Module) -> int:
    return sum(any("njit" in ast.unparse(d) for d in function.decorator_list) for function in _functions(tree))


def _constants(tree: ast.Module) -> int:
    targets = [t for node in tree.body if isinstance(node, ast.Assign) for t in node.targets]
    return sum(isinstance(t, ast.Name) and t.id.strip("_").isupper() for t in targets)


def _repeated(modules: dict[Path, ast.Module]) -> int:
    homes: dict[str, set[Path]] = defaultdict(set)
    for path, tree in modules.items():
        for node in tree.body:
            if isinstance(node, (ast.FunctionDef, ast.ClassDef)) and not node.name.startswith("__"):
                homes[node.name].add(path)
    return sum(len(paths) > 1 for paths in homes.values())


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("root", nargs="?", type=Path, default=Path(__file__).parent.parent, help="of another checkout")
    main(parser.parse_args().root)
