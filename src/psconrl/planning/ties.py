"""The rule for ties: which of several optimal policies is the answer.

A result that rounding decides is none: it would change with the machine. So c_0 is planned with as

    c_0(s, a) + TIE_BREAK * level(s, a) / 64,       level = 0, ..., 63 by a hash of the number of the pair

in units of its range, which makes the optimum unique but for pairs of equal level; of those the first, or the one in
use, is taken. Comparisons with a tolerance alone would not do: they are not transitive. Levels are further apart than
`tolerances.NOISE`, from which on one action counts as better than another, and that is far above rounding.

Averages are those of the true costs, and what the rule may cost is part of every gap. Where biases are so large that
rounding does more to them than levels do, from about 10^5 on, rounding decides all the same.
"""

from functools import lru_cache

import numpy as np

from psconrl._core.checks import Floats
from psconrl.planning.tolerances import TIE_BREAK


def decided(costs: Floats) -> Floats:
    """Costs (m + 1, ...) in which c_0 decides between policies that are equally good otherwise; a copy."""
    result = np.array(costs, order="C")
    result[0] += levels(result[0].size).reshape(result[0].shape)
    return result


@lru_cache(maxsize=64)
def levels(K: int) -> Floats:
    """What is added to c_0 of K pairs; to be read only."""
    golden = np.uint64(0x9E3779B97F4A7C15)  # 2^64 divided by the golden ratio: Fibonacci hashing
    hashed = np.arange(1, K + 1, dtype=np.uint64) * golden
    return (hashed >> np.uint64(58)).astype(np.float64) * (TIE_BREAK / 64)
