"""A mixture of deterministic policies with the rule that chooses between them, as data.

The optimum of a constrained model is a mixture of at most m + 1 deterministic policies, its *columns*. Steering does
not mix them by chance; it looks at the excess so far, V_i = sum_t (c_i - tau_i), and the drifts D_ik = J_i(k) - tau_i:

    free      with one limit: in each state, of the columns that come there, the one with the least score
              sum_i V_i D_ik acts. Where none comes, the stationary policy acts, which leads to them.
    held      with several limits: the column with the least score is held for about B / k steps, k the number of
              columns, so that a round of all of them takes a band. In states where it does not come, the rule of
              "free" leads to it.
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
    reserve   if no column lowers some limits whose mean V_i exceeds 2 B, the policy of least sum of their J_i is run
              until that is B.

Why it costs nothing to change columns. Let lambda be the multipliers of the optimum J*, and h the bias that proves it:
A(s, a) = c_0 + sum_i lambda_i (c_i - tau_i) - J* + sum_s' p(s' | s, a) h(s') - h(s) >= 0, and = 0 for the pairs of
every column in its recurrent class. Summed over the steps of any behaviour,

    regret + lambda . V = sum_t A(s_t, a_t) + h(s_1) - h(s_{T+1}) + a martingale,

whatever chooses between these pairs: only trips, whose pairs have A > 0, cost anything.

Why V stays small. In n steps column k changes V by n D_k, up to a martingale and its bias, whose span is at most some
sigma. Columns that alternate from step to step are a policy with averages of its own: with several limits its V may
grow for ever along the surface where two scores are equal. A column that is held keeps its promise up to sigma. There
are at most 2 k sqrt(T / slope) decisions until step T, so that this adds O(k sigma sqrt(T)) to V. The rest is driven by
the column of least V . D_k: as the weights w > 0 have sum_k w_k D_k = 0 for binding limits, V . D_k <= -delta |V| for
the part of V in the span of the drifts, with some delta > 0, and |V| is O(B / delta) (Blackwell, Pacific Journal of
Mathematics 6, 1956; Neely, Stochastic Network Optimization, 2010, chapter 4). So V, and with it the regret, is
O(sqrt(T)) in the mean for every m. With one limit the scores change sign with V, there is no surface to slide along,
and |V| is bounded without holding.
"""

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from psconrl._core.checks import Bools, Floats, Ints
from psconrl._core.pairs import Pairs

FREE = -1
"""Neither a column nor a way is held: the rule chooses in each state."""


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

    def is_sound(self, A: int) -> bool:
        """Whether the numbers make sense: actions below A, or -1, weights of one in all, all finite."""
        numbers = (self.drifts, self.directions, self.levels, self.limits, np.array([self.slope]))
        return bool(
            len(self.actions)
            and self.slope >= 0.0
            and (self.weights >= 0.0).all()
            and abs(self.weights.sum() - 1.0) < 1e-9
            and all(((actions >= -1) & (actions < A)).all() for actions in (self.actions, self.ways))
            and all(np.isfinite(values).all() for values in numbers)
        )

    @property
    def choices(self) -> int:
        """How many columns and ways there are; a run numbers what acts so, the columns first."""
        return len(self.actions) + len(self.ways)

    def direction(self, acting: int) -> Floats:
        """Where what acts drives the excess to, (m,), if it is a way, else zero."""
        way = acting - len(self.actions)
        return self.directions[way].copy() if way >= 0 else np.zeros(len(self.limits))

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

    def with_reserve(self, actions: Ints, limits: Bools) -> "Steered":
        """With a reserve: actions (S,) that lower some limits (m,) together, for when nothing else does."""
        direction = np.where(limits, -1.0 / limits.sum(), 0.0)[np.newaxis]
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
