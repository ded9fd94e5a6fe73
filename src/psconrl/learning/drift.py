"""An alarm for environments that change: does what is seen lately fit what was seen before?

The outcomes of a pair (s, a) are the next state, and each cost, in one of four equal bins of its range. If nothing
changes, the outcomes of one kind are drawn independently from one distribution, whatever chooses the pairs. With b the
counts of outcomes before and r those of late,

    e = q(b) q(r) / max_p p(b + r),    q(n) = prod_x (n_x - 1)! u(x) / N!,

q being a Dirichlet process mixture with a fixed base u, has mean at most 1 (universal inference: Wasserman, Ramdas,
Balakrishnan, PNAS 117, 2020), and so has a mean of such e with weights fixed in advance. A test is made after each
block of steps, of the last 1, 4 and 16 blocks against all before; the j-th raises an alarm if its mean e is at least
j (j + 1) / rate. By Markov's inequality, as 1 / (j (j + 1)) add up to 1, the probability that an environment which
never changes ever raises one is at most `rate`. After an alarm what came before it is no longer compared with.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from scipy.special import gammaln, logsumexp, xlogy

from psconrl._core.checks import Floats, Ints

FALSE_ALARM_RATE = 0.01
BLOCK = 1000
"""Steps between two tests."""
SPANS = (1, 4, 16)
"""Blocks that count as late."""
BINS = 4
"""Of each cost's range."""
_SHIFT = 2**32
"""More than there are outcomes of any kind."""
_KEPT_ALARMS = 10


class DriftMonitor:
    """Compares the outcomes of late steps with those before.

    Args:
        A: the number of actions.
        m: the number of limits; there are m + 1 costs.

    Attributes:
        alarms: the steps after which a test raised an alarm, the latest ten.
        pairs: the numbers s * A + a of the pairs that speak most for the latest alarm.
    """

    def __init__(self, A: int, m: int) -> None:
        self.A, self.kinds = A, m + 2
        self.tests = 0
        self.alarms: list[int] = []
        self.pairs: list[int] = []
        self._codes: Ints = np.zeros(0, dtype=np.int64)  # all outcomes since the last alarm, distinct, ascending
        self._numbers: Ints = np.zeros(0, dtype=np.int64)  # how often each was seen
        self._late: list[Ints] = []  # the codes of the latest blocks, one by one
        self._block: list[int] = []  # of the block that is not full

    def add(self, s: int, a: int, s_next: int, costs: Floats, step: int) -> None:
        """Take in a step; a test is made if it is the last of its block.

        Args:
            s: the state's number. a: the action's. s_next: the next state's.
            costs: (m + 1,), in [0, 1].
            step: how many steps were made so far.
        """
        first = (s * self.A + a) * self.kinds
        self._block.append(first * _SHIFT + s_next)
        for kind, cost in enumerate(costs.tolist(), 1):
            self._block.append((first + kind) * _SHIFT + min(int(cost * BINS), BINS - 1))
        if len(self._block) == BLOCK * self.kinds:
            self._end_block(step)

    def _end_block(self, step: int) -> None:
        block = np.array(self._block, dtype=np.int64)
        self._block = []
        self._late = [*self._late, block][-SPANS[-1] :]
        codes, where = np.unique(np.concatenate([self._codes, block]), return_inverse=True)
        weights = np.concatenate([self._numbers, np.ones(len(block), dtype=np.int64)])
        self._codes, self._numbers = codes, np.bincount(where, weights).astype(np.int64)
        self.tests += 1
        total = len(self._block) + int(self._numbers.sum())
        logs, groups = [], []
        for span in SPANS:
            late = np.concatenate(self._late[-span:])
            if len(self._late) >= span and len(late) < total:
                found, evidence = self._evidence(late)
                groups.append(found)
                logs.append(evidence)
        if not logs:
            return
        every = np.concatenate(logs)
        mean = float(logsumexp(every)) - math.log(len(SPANS))
        if mean >= math.log(self.tests * (self.tests + 1) / FALSE_ALARM_RATE):
            strongest = np.concatenate(groups)[np.argsort(-every)] // self.kinds
            self.pairs = list(dict.fromkeys(strongest.tolist()))[:3]
            self.alarms = [*self.alarms, step][-_KEPT_ALARMS:]
            self._codes, self._numbers, self._late = self._codes[:0], self._numbers[:0], []

    def _evidence(self, late: Ints) -> tuple[Ints, Floats]:
        """The groups (pair and kind) of late outcomes, and log(weight e) of each."""
        codes, r = np.unique(late, return_counts=True)
        groups = np.unique(codes // _SHIFT)
        member = np.isin(self._codes // _SHIFT, groups)
        outcomes, both = self._codes[member], self._numbers[member]
        recent = np.zeros(len(outcomes), dtype=np.int64)
        recent[np.searchsorted(outcomes, codes)] = r
        group = np.searchsorted(groups, outcomes // _SHIFT)
        kind, value = groups[group] % self.kinds, outcomes % _SHIFT
        base = np.where(kind == 0, _log_prior(value), -math.log(BINS))

        def log_mixture(n: Ints) -> Floats:
            seen = n > 0
            terms = np.where(seen, gammaln(np.maximum(n, 1)) + base, 0.0)
            totals = np.bincount(group, n, len(groups))
            return np.bincount(group, terms, len(groups)) - gammaln(totals + 1)

        totals = np.bincount(group, both, len(groups))
        best = np.bincount(group, xlogy(both, both), len(groups)) - xlogy(totals, totals)
        e = log_mixture(both - recent) + log_mixture(recent) - best
        return groups, e + _log_prior(groups // self.kinds) - math.log(self.kinds)

    def state(self) -> dict[str, Any]:
        """All that it is, as plain values."""
        return vars(self) | {"_block": np.array(self._block, dtype=np.int64)}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on from a state."""
        vars(self).update(state, _block=state["_block"].tolist())


def _log_prior(x: Ints) -> Floats:
    """log of 1 / ((x + 1) (x + 2)), which adds up to 1 over x = 0, 1, ..."""
    return -np.log((x + 1.0) * (x + 2.0))
