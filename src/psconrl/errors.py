"""Every exception that psconrl raises on purpose; all derive from `PsconrlError`."""

from collections.abc import Iterable
from difflib import get_close_matches


class PsconrlError(Exception):
    """Base class of all errors raised by psconrl."""


class InvalidModelError(PsconrlError, ValueError):
    """Arrays that do not form a constrained MDP, or a policy that does not fit one."""


class ModelFileError(PsconrlError, ValueError):
    """A model file that cannot be read."""


class MapError(PsconrlError, ValueError):
    """A gridworld map with a mistake in it; the message gives line and column."""


class UnknownNameError(PsconrlError, LookupError):
    """A name that is not in a registry; the message suggests the nearest one."""

    def __init__(self, kind: str, name: str, known: Iterable[str]) -> None:
        known = sorted(known)
        near = get_close_matches(name.lower(), known, n=1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        super().__init__(f"unknown {kind} {name!r}{hint} (known: {', '.join(known)})")


class SolverError(PsconrlError, RuntimeError):
    """A linear program that failed numerically, after the fallback was tried too."""
