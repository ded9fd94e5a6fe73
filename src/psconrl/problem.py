"""What a learner may know before it starts: sizes, limits, and the costs if they are given."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from numpy.typing import ArrayLike

from psconrl import _checks
from psconrl._checks import Bools, Floats
from psconrl.errors import InvalidModelError
from psconrl.pairs import Pairs


@dataclass(frozen=True, init=False, eq=False)
class Problem:
    """A learning problem: S states, A actions, thresholds (m,), and costs (m + 1, S, A) in [0, 1] or None.

    With costs None the learner estimates them by empirical means. thresholds may also be given by name of the cost;
    cost_names are then those names, in that order, after "c0", unless they are given, too. available: a mask (S, A) of
    the actions that can be taken in each state; all if left out.

    >>> Problem(16, 4, [0.2])
    Problem(S=16, A=4, m=1, costs estimated)
    """

    S: int
    A: int
    thresholds: Floats
    costs: Floats | None
    cost_names: tuple[str, ...]
    pairs: Pairs

    def __init__(
        self,
        S: int,
        A: int,
        thresholds: ArrayLike | Mapping[str, float] = (),
        costs: ArrayLike | None = None,
        *,
        available: ArrayLike | None = None,
        cost_names: Sequence[str] | None = None,
    ) -> None:
        S, A = _checks.whole(S, "S"), _checks.whole(A, "A")
        if isinstance(thresholds, Mapping) and cost_names is None:
            cost_names = ["c0", *thresholds]
        tau = _checks.thresholds(thresholds, cost_names)
        mask = _checks.available(available, S, A)
        known = None
        if costs is not None:
            known = _checks.numbers(costs, "costs")
            if known.shape != (len(tau) + 1, S, A):
                raise InvalidModelError(
                    f"costs have shape {known.shape}; with {len(tau)} thresholds they must be "
                    f"(m + 1, S, A) = {(len(tau) + 1, S, A)}"
                )
            if mask is not None:
                known[:, ~mask] = 0.0
            _checks.unit_interval(known, "costs")
            known.setflags(write=False)
        tau.setflags(write=False)
        fields = {
            "S": S,
            "A": A,
            "thresholds": tau,
            "costs": known,
            "cost_names": _checks.names(cost_names, len(tau) + 1, "cost_names", "c"),
            "pairs": Pairs.all(S, A) if mask is None else Pairs(mask),
        }
        for name, value in fields.items():
            object.__setattr__(self, name, value)

    @cached_property
    def m(self) -> int:
        """The number of constraints."""
        return len(self.thresholds)

    @property
    def available(self) -> Bools:
        """Which actions can be taken in each state, (S, A)."""
        return self.pairs.available

    @property
    def uniform(self) -> Floats:
        """The policy (S, A) that takes all actions that are available equally often."""
        return self.pairs.uniform

    def __repr__(self) -> str:
        costs = "estimated" if self.costs is None else "known"
        some = "" if self.pairs.every else f"{self.pairs.K} of {self.S * self.A} pairs, "
        return f"Problem(S={self.S}, A={self.A}, m={self.m}, {some}costs {costs})"
