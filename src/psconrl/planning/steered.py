"""A mixture of deterministic policies with the rule that chooses between them: as data, and step by step.

The optimum of a constrained model is a mixture of at most m + 1 deterministic policies, its *columns*. Steering does
not mix them by chance; it looks at the excess so far, V_i = sum_t (c_i - tau_i), and the drifts D_ik = J_i(k) - tau_i.
docs/explanation/steering.md has the rule, and a proof that V and regret are O(sqrt(T)); in short:

    free      with one limit: in each state, of the columns that come there, the one with the least score
              sum_i V_i D_ik acts. Where none comes, the stationary policy acts, which leads to them.
    held      with several limits: the column with the least score is held for about B / k steps, k the number of
              columns. In states where it does not come, the rule of "free" leads to it.
    forced    if V lies outside the band by what a column corrects, -sum_i V_i D_ik > B |D_k|_1, the shortest path into
              its core is taken, and the column is run there until V has come back and half a band further. Another
              one takes over only if it corrects V by B more.
    band      B = sqrt(slope t) with slope = 1 + d, d the expected time from one core to another and back, 0 if the
              columns meet in likely states.
    floor     V_i is never below -B: slack cannot be saved up. Limits that do not bind count only while V_i > 0.
    reserve   if no column lowers some limits whose mean V_i exceeds 2 B, the policy of least sum of their J_i is run
              until that is B.
"""

import math
from typing import NamedTuple

import numpy as np

from psconrl._core.checks import Bools, Floats, Ints
from psconrl._core.njit import njit, njit_inline
from psconrl._core.pairs import Pairs
from psconrl.planning.tolerances import NOISE

FREE = -1
"""Neither a column nor a transfer is held: the rule chooses in each state."""


class Steered(NamedTuple):
    """k columns and f transfers for S states and m limits; the module's docstring has the rule.

    Attributes:
        weights: (k,), of the columns in the mixture.
        actions: (k, S), what the columns do, -1 in states where they do not come.
        drifts: (k, m), their averages less the limits.
        limits: (m,), what the excess is counted from. binding: (m,), whether they are met with equality.
        transfers: (f, S), the actions that lead into a core and in it; -1 where no path is known.
        directions: (f, m), where they drive the excess to, in units of absolute sum 1.
        levels: (f, 2): a transfer is taken if -V . direction exceeds the first of them times the band, and left at the
            second.
        slope: the band is sqrt(slope t).
    """

    weights: Floats
    actions: Ints
    drifts: Floats
    limits: Floats
    binding: Bools
    transfers: Ints
    directions: Floats
    levels: Floats
    slope: float

    def misfit(self, S: int, m: int) -> str:
        """The first field that is not an array, of its kind and shape, for S states and m limits; "" if all are."""
        for name in ("actions", "transfers"):
            array = getattr(self, name)
            if type(array) is not np.ndarray or array.ndim != 2:
                return name
        k, f = len(self.actions), len(self.transfers)
        shapes = ((k,), (k, S), (k, m), (m,), (m,), (f, S), (f, m), (f, 2))
        for name, kind, shape, array in zip(self._fields, _KINDS, shapes, self, strict=False):
            if type(array) is not np.ndarray or array.dtype != kind or array.shape != shape:
                return name
        return "" if isinstance(self.slope, float) else "slope"

    def is_sound(self, A: int) -> bool:
        """Whether the numbers make sense: actions below A, or -1, weights of one in all, all finite."""
        numbers = (self.drifts, self.directions, self.levels, self.limits, np.array([self.slope]))
        return bool(
            len(self.actions)
            and self.slope >= 0.0
            and (self.weights >= 0.0).all()
            and abs(self.weights.sum() - 1.0) < 1e-9
            and all(((actions >= -1) & (actions < A)).all() for actions in (self.actions, self.transfers))
            and all(np.isfinite(values).all() for values in numbers)
        )

    @property
    def choices(self) -> int:
        """How many columns and transfers there are; a run numbers what acts so, the columns first."""
        return len(self.actions) + len(self.transfers)

    def direction(self, acting: int) -> Floats:
        """Where what acts drives the excess to, (m,), if it is a transfer, else zero."""
        transfer = acting - len(self.actions)
        return self.directions[transfer].copy() if transfer >= 0 else np.zeros(len(self.limits))

    def extended(self, new: int) -> "Steered":
        """With so many more states, to which no column comes."""
        actions, transfers = (
            np.pad(array, ((0, 0), (0, new)), constant_values=-1) for array in (self.actions, self.transfers)
        )
        return self._replace(actions=actions, transfers=transfers)

    def policies(self, stationary: Floats) -> Floats:
        """The columns as policies (k, S, A): where one does not come, it does as the stationary policy (S, A) does."""
        result = np.repeat(stationary[np.newaxis], len(self.actions), axis=0)
        k, s = np.nonzero(self.actions >= 0)
        result[k, s] = 0.0
        result[k, s, self.actions[k, s]] = 1.0
        return result

    def named(self, pairs: Pairs) -> "Steered":
        """With the numbers of actions in place of those that count only the available ones of each state."""
        if pairs.every:
            return self
        numbers = pairs.numbers % pairs.available.shape[1]
        actions, transfers = (
            np.where(local >= 0, numbers[pairs.begin[:-1] + np.maximum(local, 0)], -1)
            for local in (self.actions, self.transfers)
        )
        return self._replace(actions=actions, transfers=transfers)

    def with_reserve(self, actions: Ints, limits: Bools) -> "Steered":
        """With a reserve: actions (S,) that lower some limits (m,) together, for when nothing else does."""
        direction = np.where(limits, -1.0 / limits.sum(), 0.0)[np.newaxis]
        return self._replace(
            transfers=np.concatenate([self.transfers, actions[np.newaxis]]),
            directions=np.concatenate([self.directions, direction]),
            levels=np.concatenate([self.levels, [[2.0, 1.0]]]),
        )


_KINDS = tuple(map(np.dtype, ("f8", "i8", "f8", "f8", "?", "i8", "f8", "f8")))
"""Of the arrays."""


def meeting(weights: Floats, actions: Ints, drifts: Floats, binding: Bools, limits: Floats) -> Steered:
    """A mixture whose columns meet in likely states, so that d is 0."""
    S, m = actions.shape[1], len(limits)
    nowhere = np.empty((0, S), dtype=np.int64), np.empty((0, m)), np.empty((0, 2))
    return Steered(weights, actions, drifts, limits, binding, *nowhere, 1.0)


# The rule


@njit_inline
def correction(steered: Steered, f: int, excess: Floats) -> float:
    """By how much transfer f would correct the excess (m,)."""
    total = 0.0
    for i in range(len(excess)):
        if steered.binding[i] or excess[i] > 0.0:
            total -= excess[i] * steered.directions[f, i]
    return total


@njit_inline
def heading(steered: Steered, excess: Floats, band: float, forced: int) -> int:
    """The transfer to be forced from now on, FREE if there is none; `forced`: the one so far."""
    own = 0.0
    if forced >= 0:
        own = correction(steered, forced, excess)
        if own <= steered.levels[forced, 1] * band:
            forced, own = FREE, 0.0
    best, most = forced, own + band if forced >= 0 else 0.0
    for f in range(len(steered.transfers)):
        corrected = correction(steered, f, excess)
        if corrected > most and corrected > steered.levels[f, 0] * band:
            best, most = f, corrected
    return best


@njit_inline
def best_column(steered: Steered, excess: Floats, s: int) -> int:
    """The column of least score, of those that come to state s, or of all if s is -1; FREE if there is none."""
    best, least = FREE, np.inf
    for k in range(len(steered.actions)):
        if s < 0 or steered.actions[k, s] >= 0:
            score = 0.0
            for i in range(len(excess)):
                if steered.binding[i] or excess[i] > 0.0:
                    score += excess[i] * steered.drifts[k, i]
            if score < least - NOISE:  # rounding decides nothing where excesses are zero
                best, least = k, score
    return best


@njit_inline
def chosen(steered: Steered, excess: Floats, acting: int, s: int) -> int:
    """The action in state s; -1 where the stationary policy acts."""
    count = len(steered.actions)
    if acting >= count:
        return int(steered.transfers[acting - count, s])
    if acting < 0 or steered.actions[acting, s] < 0:
        acting = best_column(steered, excess, s)
    return int(steered.actions[acting, s]) if acting >= 0 else -1


@njit_inline
def settle(steered: Steered, excess: Floats, acting: int, t: int) -> int:
    """Raise the excess (m,) after t steps to its floor; the column or transfer that acts from now on."""
    band = math.sqrt(steered.slope * t)
    for i in range(len(excess)):
        excess[i] = max(excess[i], -band)
    count = len(steered.actions)
    transfer = heading(steered, excess, band, max(acting - count, FREE))
    if transfer != FREE:
        return count + transfer
    if len(excess) < 2:
        return FREE
    if 0 <= acting < count and _decisions(steered, t) == _decisions(steered, t - 1):
        return acting
    return best_column(steered, excess, -1)


@njit_inline
def _decisions(steered: Steered, t: int) -> int:
    """How many columns were chosen by step t: one in about sqrt(slope t) / k steps."""
    return int(2.0 * len(steered.actions) * math.sqrt(t / steered.slope))


@njit
def take_over(steered: Steered, excess: Floats, direction: Floats, t: int) -> int:
    """What is to act in a new plan after t steps: first the transfer that goes on most in a direction (m,)."""
    best, most = FREE, 0.0
    for f in range(len(steered.transfers)):
        alike = 0.0
        for i in range(len(direction)):
            alike += direction[i] * steered.directions[f, i]
        if alike > most:
            best, most = len(steered.actions) + f, alike
    return settle(steered, excess, best, t)
