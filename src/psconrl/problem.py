"""What a learner may know before it starts: sizes, limits, and the costs if they are given."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from psconrl import _checks
from psconrl._checks import Floats
from psconrl.errors import InvalidModelError


@dataclass(frozen=True, init=False, eq=False)
class Problem:
    """A learning problem: S states, A actions, thresholds (m,), and costs (m + 1, S, A) in [0, 1] or None.

    With costs None the learner estimates them by empirical means.

    >>> Problem(16, 4, [0.2])
    Problem(S=16, A=4, m=1, costs estimated)
    """

    S: int
    A: int
    thresholds: Floats
    costs: Floats | None

    def __init__(self, S: int, A: int, thresholds: ArrayLike = (), costs: ArrayLike | None = None) -> None:
        S, A = _checks.whole(S, "S"), _checks.whole(A, "A")
        tau = _checks.thresholds(thresholds)
        known = None
        if costs is not None:
            known = _checks.numbers(costs, "costs")
            if known.shape != (len(tau) + 1, S, A):
                raise InvalidModelError(
                    f"costs have shape {known.shape}; with {len(tau)} thresholds they must be "
                    f"(m + 1, S, A) = {(len(tau) + 1, S, A)}"
                )
            _checks.unit_interval(known, "costs")
            known.setflags(write=False)
        tau.setflags(write=False)
        for name, value in (("S", S), ("A", A), ("thresholds", tau), ("costs", known)):
            object.__setattr__(self, name, value)

    @cached_property
    def m(self) -> int:
        """The number of constraints."""
        return len(self.thresholds)

    @property
    def uniform(self) -> Floats:
        """The uniform policy (S, A)."""
        return np.full((self.S, self.A), 1.0 / self.A)

    def __repr__(self) -> str:
        costs = "estimated" if self.costs is None else "known"
        return f"Problem(S={self.S}, A={self.A}, m={self.m}, costs {costs})"
