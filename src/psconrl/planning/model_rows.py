"""Models as the rows that planners read, with the pairs that are available."""

from __future__ import annotations

import numpy as np

from psconrl._core.checks import Ints
from psconrl._core.pairs import Pairs
from psconrl.cmdp import CMDP
from psconrl.planning.compiled.rows import Rows


def rows_of(cmdp: CMDP) -> Rows:
    """The rows of a model."""
    return with_pairs(Rows.from_sparse(cmdp.matrix), cmdp.pairs)


def with_pairs(rows: Rows, pairs: Pairs) -> Rows:
    """The rows of the pairs that exist, of rows for all of them or for every entry (s, a) of a table."""
    if pairs.every or rows.K == pairs.K:
        return rows
    return some_rows(rows, pairs.numbers, pairs.begin)


def some_rows(rows: Rows, chosen: Ints, begin: Ints) -> Rows:
    """The model with the rows chosen (K,) only; begin (S + 1,): the first of each state."""
    lengths = np.diff(rows.indptr)[chosen]
    indptr = np.append(0, np.cumsum(lengths))
    entries = np.arange(indptr[-1]) + np.repeat(rows.indptr[chosen] - indptr[:-1], lengths)
    return Rows(begin, indptr, rows.indices[entries], rows.data[entries])
