"""Policy iteration in rational arithmetic: what decides where floats have no digits left.

Every float is a rational number, so a model given in floats has an exact optimum; the probability of staying in a
state is one minus the others. With a reference state r in its only closed class, gain g and bias h (h(r) = 0) of a
policy solve M y = c, y = h but y(r) = g, with M = I - P and ones in column r. In integers, each row times a power of
two, FLINT solves that exactly, and every improvement is one. The iteration ends when no pair of the model is better,
and the gain is then the optimum, to the last digit: leaks of 1e-12 or 1e-300 neither vanish nor drown the rest.

A policy that was improved may have several closed classes. All of them but the last one's have a smaller gain, so the
rest is led to the best of the new ones, and the iteration cannot return.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from psconrl._core.checks import Bools, Floats, Ints
from psconrl._core.graph import closed_classes
from psconrl.errors import SolverError
from psconrl.planning.chains import stationary_distribution
from psconrl.planning.compiled.inverses import attractor_policy
from psconrl.planning.compiled.rows import Rows
from psconrl.planning.tolerances import MAX_ROUNDS

if TYPE_CHECKING:
    from flint import fmpz_mat


class ExactPolicy(NamedTuple):
    """The best policy (S,) of pairs, its gain, rounded, and its stationary distribution (S,)."""

    policy: Ints
    gain: float
    mu: Floats


class ExactModel:
    """A model by rows in which all states communicate, in integers.

    Row k of `moves` (K, S) is 2^shift[k] (p(. | k) - 1(. = source of k)).
    """

    def __init__(self, rows: Rows) -> None:
        self.rows = rows
        self.matrix = rows.matrix()

    @cached_property
    def integers(self) -> tuple[list[list[int]], list[int]]:
        """Rows and shifts."""
        rows, source = self.rows, self.rows.source
        moves, shift = [], []
        for k in range(rows.K):
            row = [0] * rows.S
            entries = slice(rows.indptr[k], rows.indptr[k + 1])
            ratios = [
                (int(x), *p.as_integer_ratio())
                for x, p in zip(rows.indices[entries], rows.data[entries].tolist(), strict=False)
            ]
            largest = max(denominator for _, _, denominator in ratios)
            for x, numerator, denominator in ratios:
                row[x] += numerator * (largest // denominator)
            row[source[k]] = 0
            row[source[k]] = -sum(row)
            moves.append(row)
            shift.append(largest.bit_length() - 1)
        return moves, shift

    @cached_property
    def moves(self) -> fmpz_mat:
        """All rows as one matrix."""
        from flint import fmpz_mat

        return fmpz_mat(self.integers[0])

    def best(self, c: Floats, policy: Ints) -> ExactPolicy:
        """The policy with the least average of c (K,), from some policy (S,) on."""
        from flint import fmpq, fmpz, fmpz_mat

        cost, unit = _as_integers(c)
        shift = self.integers[1]
        source, policy, last, inside = self.rows.source, policy.copy(), policy, np.zeros(self.rows.S, dtype=np.bool_)
        for _ in range(MAX_ROUNDS):
            recurrent = self._one_class(policy, c, last, inside)
            r = int(recurrent[0])
            right = fmpz_mat(self.rows.S, 1, [cost[k] << shift[k] for k in policy.tolist()])
            numerators, denominator = _solution(self._system(policy, r), right)
            gain = numerators[r, 0]
            numerators[r, 0] = fmpz(0)
            onward = self.moves * numerators
            better: dict[int, tuple[Any, int]] = {}
            for k in range(self.rows.K):
                advantage = ((cost[k] * denominator - gain) << shift[k]) + onward[k, 0]
                if advantage < 0:
                    size, s = fmpq(advantage, fmpz(1) << shift[k]), int(source[k])
                    if s not in better or size < better[s][0]:
                        better[s] = size, k
            if not better:
                return ExactPolicy(policy, int(gain) / (int(denominator) * unit), self._law(policy, r))
            last, inside = policy, np.zeros(self.rows.S, dtype=np.bool_)
            inside[recurrent] = True
            policy = policy.copy()
            for s, (_, k) in better.items():
                policy[s] = k
        raise SolverError(f"policy iteration did not end within {MAX_ROUNDS} policies")

    def _system(self, policy: Ints, r: int) -> fmpz_mat:
        """M for a policy, row s times 2^shift."""
        from flint import fmpz_mat

        rows, shift = self.integers
        M = [[-entry for entry in rows[k]] for k in policy.tolist()]
        for row, k in zip(M, policy.tolist(), strict=True):
            row[r] = 1 << shift[k]
        return fmpz_mat(M)

    def _law(self, policy: Ints, r: int) -> Floats:
        """The stationary distribution (S,): row r of the inverse of M."""
        from flint import fmpz_mat

        _, shift = self.integers
        right = fmpz_mat(self.rows.S, 1, [int(s == r) for s in range(self.rows.S)])
        numerators, denominator = _solution(self._system(policy, r).transpose(), right)
        mu = [(int(numerators[s, 0]) << shift[k]) / int(denominator) for s, k in enumerate(policy.tolist())]
        return np.array(mu)

    def _one_class(self, policy: Ints, c: Floats, last: Ints, inside: Bools) -> Ints:
        """The closed class of a policy, which is led to the best one, in place, if there are several.

        last (S,): the policy before, closed in the states `inside` (S,).
        """
        classes = closed_classes(self.matrix[policy])
        if len(classes) == 1:
            return classes[0]
        new = [states for states in classes if not (inside[states] & (policy[states] == last[states])).all()]
        best = min(new, key=lambda states: self._average(policy, c, states))
        led = np.zeros(self.rows.S, dtype=np.bool_)
        led[best] = True
        if not attractor_policy(self.rows, policy, led):
            raise SolverError("states of a component do not lead to each other")
        return best

    def _average(self, policy: Ints, c: Floats, states: Ints) -> float:
        """The average of c (K,) in a closed class."""
        mu = stationary_distribution(self.matrix[policy[states]][:, states])
        return np.inf if mu is None else float(c[policy[states]] @ mu)


def _solution(M: Any, right: Any) -> tuple[Any, Any]:
    """The solution of a linear system as integers (n, 1) and their common denominator."""
    return M.solve(right).numer_denom()


def _as_integers(values: Floats) -> tuple[list[int], int]:
    """Floats (K,) as integers in units of 1 / the second."""
    ratios = [value.as_integer_ratio() for value in values.tolist()]
    unit = max(denominator for _, denominator in ratios)
    return [numerator * (unit // denominator) for numerator, denominator in ratios], unit
