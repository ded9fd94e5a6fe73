"""Advantages from biases held in parts, with what rounding may have done to them."""

import numpy as np

from psconrl._core.checks import Floats
from psconrl._core.njit import njit
from psconrl.planning.compiled.elimination import difference
from psconrl.planning.compiled.rows import Rows
from psconrl.planning.tolerances import EPS


@njit
def bounded_advantages(rows: Rows, c: Floats, g: float, parts: Floats, advantages: Floats, noise: Floats) -> None:
    """Fill in the advantages (K,) of all pairs for gain g and bias parts (L, S), and bounds (K,) on their rounding."""
    for s in range(parts.shape[1]):
        for pair in range(rows.begin[s], rows.begin[s + 1]):
            total, size = c[pair] - g, abs(c[pair]) + abs(g)
            for entry in range(rows.indptr[pair], rows.indptr[pair + 1]):
                x = rows.indices[entry]
                if x != s:
                    flow = rows.data[entry] * difference(parts, x, s)
                    total += flow
                    size += abs(flow)
            advantages[pair] = total
            noise[pair] = (rows.indptr[pair + 1] - rows.indptr[pair] + 2 * len(parts) + 4) * EPS * size
            if not size < np.inf:
                advantages[pair] = noise[pair] = np.inf
