"""A mixture of deterministic policies with the rule that chooses between them, as data.

The optimum of a constrained model is a mixture of at most m + 1 deterministic policies, its *columns*. Steering does
not mix them by chance; it looks at the excess so far, V_i = sum_t (c_i - tau_i), and the drifts D_ik = J_i(k) - tau_i:

    free      in each state, of the columns that come there, the one with the least score sum_i V_i D_ik acts. Where
              none comes, the stationary policy acts, which leads to them.
    forced    a column whose states are far from where the others live cannot be had so. If V lies outside the band by
              what a column corrects, -sum_i V_i D_ik > B |D_k|_1, the fastest way into its core is taken, and the
              column is run there until V has come back and half a band further: so trips are rare. Another one takes
              over only if it corrects V by B more. A core is where a column really spends its time: states likelier
              than 1 / (S sqrt(t)).
    parts     a column may go from part to part of its class by moves less likely than 1 / t. In the time that there
              is, it stays where it is, and what it promises is a mean over places between which nobody goes. If it
              spends a tenth of its time or more outside of the part that it would not leave without such moves, ways
              lead into its parts, with the drift of each, instead of into its core.
    band      B = sqrt(slope t) with slope = 1 + d, d the expected time from one core to another and back, 0 if the
              columns meet in likely states. So trips between cores take of the order of sqrt(d T) steps in all.
    floor     V_i is never below -B: slack is no bank to spend. Limits that do not bind count only while V_i > 0.
    reserve   if no column lowers a limit whose V_i exceeds 2 B, the policy of least J_i is run until V_i <= B.

Why it costs nothing to change columns freely. Let lambda be the multipliers of the optimum J*, and h the bias that
proves it: A(s, a) = c_0 + sum_i lambda_i (c_i - tau_i) - J* + sum_s' p(s' | s, a) h(s') - h(s) >= 0, and = 0 for the
pairs of every column in its recurrent class. Summed over the steps of any behaviour,

    regret + lambda . V = sum_t A(s_t, a_t) + h(s_1) - h(s_{T+1}) + a martingale,

whatever chooses between these pairs: only trips, whose pairs have A > 0, cost anything. Why V stays small. It is driven
by the column with the least V . D_k, and the mixture's weights w have V . sum_k w_k D_k <= 0, so V . D_k <= 0 for that
one, and |V|^2 grows by a constant per step at the most: |V| is of the order of sqrt(T), the rate at which the negative
orthant is approached (Blackwell, Pacific Journal of Mathematics 6, 1956). If 0 lies inside the hull of the drifts,
V . D_k <= -delta |V| for the best column, and |V| stays bounded in the mean (Neely, Stochastic Network Optimization,
2010, chapter 4).
"""

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from psconrl._core.checks import Bools, Floats, Ints
from psconrl._core.pairs import Pairs

FREE = -1
"""No way is forced."""


class Steered(NamedTuple):
    """k columns and f ways for S states and m limits; the module's docstring has the rule.

    Attributes:
        weights: (k,), of the columns in the mixture.
        actions: (k, S), what the columns do, -1 in states where they do not come.
        drifts: (k, m), their averages less the limits.
        limits: (m,), what the excess is counted from. binding: (m,), whether they are met with equality.
        ways: (f, S), the actions that lead into a core and in it; -1 where no way is known.
        directions: (f, m), where they drive the excess to, in units of absolute sum 1.
        levels: (f, 2): a way is taken if -V . direction exceeds the first of them times the band, and left at the
            second.
        slope: the band is sqrt(slope t).
    """

    weights: Floats
    actions: Ints
    drifts: Floats
    limits: Floats
    binding: Bools
    ways: Ints
    directions: Floats
    levels: Floats
    slope: float

    def misfit(self, S: int, m: int) -> str:
        """The first field that is not an array, of its kind and shape, for S states and m limits; "" if all are."""
        for name in ("actions", "ways"):
            array = getattr(self, name)
            if type(array) is not np.ndarray or array.ndim != 2:
                return name
        k, f = len(self.actions), len(self.ways)
        shapes = ((k,), (k, S), (k, m), (m,), (m,), (f, S), (f, m), (f, 2))
        for name, kind, shape, array in zip(self._fields, _KINDS, shapes, self, strict=False):
            if type(array) is not np.ndarray or array.dtype != kind or array.shape != shape:
                return name
        return "" if isinstance(self.slope, float) else "slope"

    def extended(self, new: int) -> "Steered":
        """With so many more states, to which no column comes."""
        actions, ways = (np.pad(array, ((0, 0), (0, new)), constant_values=-1) for array in (self.actions, self.ways))
        return self._replace(actions=actions, ways=ways)

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
        actions, ways = (
            np.where(local >= 0, numbers[pairs.begin[:-1] + np.maximum(local, 0)], -1)
            for local in (self.actions, self.ways)
        )
        return self._replace(actions=actions, ways=ways)

    def with_way(self, actions: Ints, limit: int) -> "Steered":
        """With a reserve: actions (S,) that lower a limit, counted from zero, for when nothing else does."""
        direction = np.zeros((1, len(self.limits)))
        direction[0, limit] = -1.0
        return self._replace(
            ways=np.concatenate([self.ways, actions[np.newaxis]]),
            directions=np.concatenate([self.directions, direction]),
            levels=np.concatenate([self.levels, [[2.0, 1.0]]]),
        )


_KINDS = tuple(map(np.dtype, ("f8", "i8", "f8", "f8", "?", "i8", "f8", "f8")))
"""Of the arrays."""


def without_ways(weights: Floats, actions: Ints, drifts: Floats, binding: Bools, limits: Floats) -> Steered:
    """A mixture whose columns meet in likely states, so that d is 0."""
    return Steered(weights, actions, drifts, limits, binding, *_no_ways(actions.shape[1], len(limits)), 1.0)


@lru_cache(maxsize=64)
def _no_ways(S: int, m: int) -> tuple[Ints, Floats, Floats]:
    return np.empty((0, S), dtype=np.int64), np.empty((0, m)), np.empty((0, 2))
