"""One exception tree: what the project raises on purpose is the project's, and nothing else is caught in general."""

from __future__ import annotations

import ast
import builtins
from pathlib import Path

import pytest

import psconrl
from psconrl import errors
from psconrl.errors import PsconrlError, UnknownNameError

ROOT = Path(psconrl.__file__).parent

PROTOCOL = {
    "AttributeError",  # what Python asks of __getattr__ and __setattr__
    "KeyError",  # in files.py: caught a few lines on and turned into a ModelFileError
}
BUILTIN = {name for name, value in vars(builtins).items() if isinstance(value, type) and issubclass(value, Exception)}


def raised(tree: ast.AST) -> list[tuple[int, str]]:
    """Line and name of everything that is raised by name."""
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Raise) and node.exc is not None:
            what = node.exc.func if isinstance(node.exc, ast.Call) else node.exc
            if isinstance(what, ast.Name):
                found.append((node.lineno, what.id))
    return found


def test_only_errors_of_the_tree_are_raised() -> None:
    foreign = {
        f"{file.relative_to(ROOT).as_posix()}:{line} raises {name}"
        for file in ROOT.rglob("*.py")
        for line, name in raised(ast.parse(file.read_text(encoding="utf-8")))
        if name in BUILTIN - PROTOCOL
    }
    assert not foreign


def test_the_command_line_catches_no_error_of_python() -> None:
    """A mistake in the code keeps its traceback; of the operating system's refusals the command line tells the file."""
    tree = ast.parse((ROOT / "cli.py").read_text(encoding="utf-8"))
    main = next(node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and node.name == "_main")
    caught = {
        name.id
        for node in ast.walk(main)
        if isinstance(node, ast.ExceptHandler) and node.type is not None
        for name in ast.walk(node.type)
        if isinstance(name, ast.Name)
    }
    assert caught, "the handlers moved; look for them there"
    assert caught <= {
        "BrokenPipeError",
        "CommandError",
        "PsconrlError",
        "OSError",
        "KeyboardInterrupt",
        "typer",
        "Exception",
    }


@pytest.mark.parametrize("name", [name for name, value in vars(errors).items() if str(name).endswith("Error")])
def test_every_error_is_in_the_tree(name: str) -> None:
    found = getattr(errors, name)
    assert issubclass(found, PsconrlError)
    assert found.__doc__


def test_the_nearest_name_is_suggested() -> None:
    message = str(UnknownNameError("agent", "psconrk", ["PSConRL", "ConRL"]))
    assert message == "unknown agent 'psconrk'; did you mean 'PSConRL'? (known: ConRL, PSConRL)"


def test_a_part_of_one_name_finds_it() -> None:
    known = ["hours of the second doctor on call", "complaints of patients who were sent away", "patients on call"]
    assert errors.did_you_mean("doctor", known) == "; did you mean 'hours of the second doctor on call'?"
    assert errors.did_you_mean("call", known) == ""
    assert errors.did_you_mean("of", known) == ""
