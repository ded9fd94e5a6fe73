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


class CallOrderError(PsconrlError, ValueError):
    """A valid call at the wrong time: the message says what must come first."""


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


class AgentError(PsconrlError, AssertionError):
    """An agent that breaks its contract; see `psconrl.agents.check_agent`."""


class WriteError(PsconrlError, OSError):
    """A file that cannot be written; what was there before is still there."""

    def __str__(self) -> str:
        return f"{self.filename}: {self.strerror}" if self.filename else super().__str__()


class SpecError(PsconrlError, ValueError):
    """An experiment that makes no sense; the message names the field, and what is allowed."""


class StoreError(PsconrlError, OSError):
    """A place for results or a learner that holds none, or cannot be reached or written to."""


class RunFileError(PsconrlError, ValueError):
    """A file that should hold a run and does not."""


class WorkerError(PsconrlError, RuntimeError):
    """Workers that cannot be used: they cannot be started or reached."""


class CodeMismatchError(WorkerError):
    """A worker that runs other code than the process that uses it."""


class WorkerCrashedError(WorkerError):
    """A worker process that died while it executed a run."""


class RunTimeoutError(WorkerError):
    """A run that took longer than its limit."""


class CommandError(PsconrlError):
    """A command line that cannot be understood."""


class LimitsOutOfReachWarning(UserWarning):
    """A learner that finds no model in which its limits can be met."""


OutOfTurnError = CallOrderError
"""The former name of `CallOrderError`."""


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
