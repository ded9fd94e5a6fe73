"""What code a result depends on, as a hash: equal identities mean equal results.

Of psconrl, all modules count but those that only arrange, store or show what was computed. Of an agent or environment
from outside, its own definition counts, and whatever it uses, directly or through others, of its module and of other
modules that are not installed; of installed packages, their versions. Comments, docstrings and layout never count.
"""

from __future__ import annotations

import ast
import hashlib
import importlib.util
import inspect
import json
import marshal
import sys
import sysconfig
from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from types import FunctionType
from typing import Any

from psconrl.io import writing

LIBRARIES = ("numpy", "scipy", "highspy", "numba")
ROOT = Path(__file__).resolve().parent.parent
_IRRELEVANT = (
    *("analysis", "experiments", "report", "service", "starter"),
    *("__main__.py", "cli.py", "cli_output.py", "errors.py", "gymnasium_ids.py", "io/text.py", "io/writing.py"),
    *("_core/compiling.py", "_core/entry_points.py", "_core/interrupts.py", "_core/numbers.py"),
)
_DYNAMIC_NAMES = {"__import__", "eval", "exec", "globals", "import_module", "vars"}
"""Names by which code reaches what its text does not show; all of its module counts then."""


@cache
def code_identity() -> str:
    """A hash of the parts of psconrl that decide results, and of the versions of the libraries that they use."""
    cached = _cached_digests()
    digests = {}
    for file, content in _files().items():
        raw = hashlib.sha256(content).hexdigest()
        earlier = cached.get(file, ["", ""])
        digests[file] = [raw, earlier[1] if earlier[0] == raw else _digest([_text(ast.parse(content))])]
    if digests != cached:
        with suppress(OSError):
            writing.write_text(_CACHE, json.dumps(digests))
    lines = [f"{file} {digest}" for file, (_, digest) in digests.items()]
    return _digest([*lines, *map(_version, LIBRARIES)])[:16]


@cache
def source_checksum() -> str:
    """A hash of the same files byte by byte: quickly made, to compare the processes of one moment."""
    return _digest([*(hashlib.sha256(content).hexdigest() for content in _files().values()), *map(_version, LIBRARIES)])


_CACHE = ROOT / "__pycache__" / "identity.json"
"""The digests of files by their content: parsing all of them takes longer than a short run."""


def _cached_digests() -> dict[str, list[str]]:
    try:
        return dict(json.loads(_CACHE.read_text(encoding="utf-8")))
    except (OSError, ValueError):
        return {}


def _files() -> dict[str, bytes]:
    files = {file.relative_to(ROOT).as_posix(): file for file in sorted(ROOT.rglob("*.py"))}
    return {
        name: file.read_bytes()
        for name, file in files.items()
        if name.partition("/")[0] not in _IRRELEVANT and name not in _IRRELEVANT
    }


def is_outside(definition: type | FunctionType) -> bool:
    """Whether a class or function is not psconrl's own."""
    return definition.__module__.partition(".")[0] != "psconrl"


def source_identity(definition: type | FunctionType) -> str:
    """A hash of the definition of an agent or environment from outside, and of all that it uses."""
    return _digest(sorted(_sources(definition)))[:16]


def own_modules(definition: type | FunctionType) -> set[str]:
    """The names of the modules whose source is in `source_identity`."""
    return {line.partition("\0")[0] for line in _sources(definition) if "\0" in line}


def _sources(definition: type | FunctionType) -> set[str]:
    """The statements that a definition depends on, each after its module and a null, and versions of packages."""
    parsed = cache(_parsed)
    sources: set[str] = set()
    visited: set[tuple[str, str | None]] = set()
    waiting: list[tuple[str, str | None]] = [(definition.__module__, definition.__qualname__.partition(".")[0])]
    while waiting:
        module, name = place = waiting.pop()
        if place in visited:
            continue
        visited.add(place)
        package = "" if module.partition(".")[0] == definition.__module__.partition(".")[0] else _package(module)
        tree = None if package else parsed(module)
        label = "__main__" if module == "__mp_main__" else module  # the main script in processes that it starts
        if package:
            sources.add(package)
        elif tree is None:
            sources.add(f"{label}\0{_bytecode(definition) if module == definition.__module__ else ''}")
        else:
            imported = {alias for s in tree.body if isinstance(s, _IMPORTS) for alias in _bound(s)}
            for statement in tree.body:
                bound = _bound(statement)
                if not isinstance(statement, (*_DEFINITIONS, *_IMPORTS)):  # it may change what its names refer to
                    bound |= {node.id for node in ast.walk(statement) if isinstance(node, ast.Name)} - imported
                if name is None or name in bound or "*" in bound:
                    sources.add(f"{label}\0{_text(statement)}")
                    waiting += _used(statement, module)
    return sources


_IMPORTS = (ast.Import, ast.ImportFrom)
_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


def _bound(statement: ast.stmt) -> set[str]:
    """The names that a statement defines or imports."""
    if isinstance(statement, _DEFINITIONS):
        return {statement.name}
    names: set[str] = set()
    for node in ast.walk(statement):
        if isinstance(node, _IMPORTS):
            names |= {(alias.asname or alias.name).partition(".")[0] for alias in node.names}
        elif isinstance(node, _DEFINITIONS):
            names.add(node.name)
    return names


def _used(statement: ast.stmt, module: str) -> Iterator[tuple[str, str | None]]:
    """Where the names come from that a statement of a module uses: (module, name); None stands for all of a module."""
    for node in ast.walk(statement):
        if isinstance(node, ast.Name):
            yield module, None if node.id in _DYNAMIC_NAMES else node.id
        elif isinstance(node, ast.Attribute) and node.attr in _DYNAMIC_NAMES:
            yield module, None
        elif isinstance(node, ast.Import):
            yield from ((alias.name, None) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            origin = "." * node.level + (node.module or "")
            if node.level:
                package = getattr(sys.modules.get(module), "__package__", None)
                origin = importlib.util.resolve_name(origin, package or module)
            for alias in node.names:
                inner = f"{origin}.{alias.name}"
                is_module = not _package(origin) and _file(inner) is not None
                yield (inner, None) if is_module else (origin, None if alias.name == "*" else alias.name)


def _package(module: str) -> str:
    """The version of the installed package that a module belongs to; "" for a module of the user's own."""
    top = module.partition(".")[0]
    if top == "psconrl" or top in sys.stdlib_module_names:
        return "standard"  # the library has its own identity
    file = _file(module)
    installed = [Path(sysconfig.get_path(key)).resolve() for key in ("purelib", "platlib")]
    if file is None or not any(file.is_relative_to(folder) for folder in installed):
        return ""
    return _version(top)


def _version(name: str) -> str:
    try:
        return f"{name} {version(name)}"
    except PackageNotFoundError:
        return f"{name} {getattr(sys.modules.get(name), '__version__', 'of unknown version')}"


def _file(module: str) -> Path | None:
    loaded = sys.modules.get(module)
    path = getattr(loaded, "__file__", None)
    if loaded is None:
        with suppress(ImportError, ValueError):
            specification = importlib.util.find_spec(module)
            path = None if specification is None else specification.origin
    return None if path is None else Path(path).resolve()


def _bytecode(definition: type | FunctionType) -> str:
    """What is known of code without a file, such as that typed at a prompt."""
    functions = [definition, *vars(definition).values()]
    return _digest(marshal.dumps(f.__code__).hex() for f in functions if isinstance(f, FunctionType))


def _parsed(module: str) -> ast.Module | None:
    file = _file(module)
    try:
        text = inspect.getsource(sys.modules[module]) if module in sys.modules else file and file.read_text("utf-8")
        return ast.parse(text or "")
    except (OSError, TypeError, SyntaxError):  # typed at a prompt, or no Python
        return None


def _text(tree: ast.AST) -> str:
    """A tree without docstrings, in a form that is the same for all versions of Python."""
    parts: list[str] = []
    _write(tree, parts)
    return " ".join(parts)


def _write(node: Any, parts: list[str]) -> None:
    if isinstance(node, list):
        parts.append("[")
        for item in node:
            if not (isinstance(item, ast.Expr) and isinstance(item.value, ast.Constant)):  # a docstring, or "..."
                _write(item, parts)
        parts.append("]")
    elif isinstance(node, ast.AST):
        parts.append(type(node).__name__)
        for name in node._fields:
            value = getattr(node, name, None)
            if value is not None and value != []:
                parts.append(name)
                _write(value, parts)
    else:
        parts.append(repr(node))


def _digest(texts: Iterable[str]) -> str:
    return hashlib.sha256("\n".join(texts).encode("utf-8", "surrogatepass")).hexdigest()
