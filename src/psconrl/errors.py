"""Every exception that psconrl raises on purpose; all derive from `PsconrlError`."""

from collections.abc import Iterable
from difflib import get_close_matches


class PsconrlError(Exception):
    """Base class of all errors raised by psconrl."""


class InvalidModelError(PsconrlError, ValueError):
    """Arrays that do not form a constrained MDP, or a policy that does not fit one."""


class InvalidArgumentError(PsconrlError, ValueError):
    """An argument that makes no sense; the message says what is allowed."""


class InvalidTypeError(InvalidArgumentError, TypeError):
    """An argument of the wrong kind, or one that does not exist."""


class OutOfTurnError(PsconrlError, ValueError):
    """A call that is right in itself, but not now: the message says what must come first."""


class ModelFileError(PsconrlError, ValueError):
    """A model file that cannot be read."""


class LearnerFileError(PsconrlError, ValueError):
    """A learner's file that cannot be read, or belongs to another agent."""


class MapError(PsconrlError, ValueError):
    """A gridworld map with a mistake in it; the message gives line and column."""


class UnknownNameError(PsconrlError, LookupError):
    """A name that is not in a registry; the message suggests the nearest one."""

    def __init__(self, kind: str, name: str, known: Iterable[str]) -> None:
        known = list(known)
        names = ", ".join(sorted(known, key=str.lower))
        super().__init__(f"unknown {kind} {name!r}{did_you_mean(name, known)} (known: {names})")


class SolverError(PsconrlError, RuntimeError):
    """A linear program that failed numerically, after the fallback was tried too."""


_PART = 3
"""Letters from which on a part of a name may stand for it."""


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """The nearest of the known names as a question, if one is near, or the only one that the name is a part of."""
    by_lower = {candidate.lower(): candidate for candidate in known}
    given = str(name).lower()
    near = get_close_matches(given, by_lower, n=1)
    if not near and len(given) >= _PART:
        around = [candidate for candidate in by_lower if given in candidate]
        near = around if len(around) == 1 else []
    return f"; did you mean {by_lower[near[0]]!r}?" if near else ""
