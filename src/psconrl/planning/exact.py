"""Policy iteration in rational arithmetic: what decides where floats have no digits left.

Every float is a rational number, so a model given in floats has an exact optimum; the probability of staying in a
state is one minus the others. With a reference state r in its only closed class, gain g and bias h (h(r) = 0) of a
policy solve M y = c, y = h but y(r) = g, with M = I - P and ones in column r. FLINT solves that exactly, and every
improvement is one. The iteration ends when no pair of the model is better, and the gain is then the optimum, to the
last digit: leaks of 1e-12 or 1e-300 neither vanish nor drown the rest.

A policy that was improved may have several closed classes. All of them but the last one's have a smaller gain, so the
rest gets paths to the best of the new ones, and the iteration cannot return.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from flint import fmpq, fmpq_mat

from psconrl._core.checks import Bools, Floats, Ints
from psconrl._core.graph import closed_classes
from psconrl.errors import SolverError
from psconrl.planning.chains import stationary_distribution
from psconrl.planning.compiled.attractor import attractor_policy
from psconrl.planning.compiled.rows import Rows
from psconrl.planning.tolerances import MAX_ROUNDS


class ExactPolicy(NamedTuple):
    """The best policy (S,) of pairs, its gain, rounded, and its stationary distribution (S,)."""

    policy: Ints
    gain: float
    mu: Floats


class ExactModel:
    """A model by rows in which all states communicate, as rational numbers."""

    def __init__(self, rows: Rows) -> None:
        self.rows, self.source = rows, rows.source.tolist()
        self.matrix = rows.matrix()
        self.moves = fmpq_mat(rows.K, rows.S)
        """p(. | k) - 1(. = source of k), (K, S)."""
        for k, s in enumerate(self.source):
            for entry in range(rows.indptr[k], rows.indptr[k + 1]):
                x, p = int(rows.indices[entry]), exactly(rows.data[entry])
                if x != s:
                    self.moves[k, x] += p
                    self.moves[k, s] -= p

    def best(self, c: Floats, policy: Ints) -> ExactPolicy:
        """The policy with the least average of c (K,), from some policy (S,) on."""
        cost = [exactly(x) for x in c]
        policy, last, inside = policy.copy(), policy, np.zeros(self.rows.S, dtype=np.bool_)
        for _ in range(MAX_ROUNDS):
            recurrent = self._one_class(policy, c, last, inside)
            r = int(recurrent[0])
            y = self._system(policy, r).solve(fmpq_mat(self.rows.S, 1, [cost[k] for k in policy]))
            gain = y[r, 0]
            y[r, 0] = 0
            onward = self.moves * y
            best, improved = {s: fmpq(0) for s in range(self.rows.S)}, policy.copy()
            for k, s in enumerate(self.source):
                advantage = cost[k] - gain + onward[k, 0]
                if advantage < best[s]:
                    best[s], improved[s] = advantage, k
            if np.array_equal(improved, policy):
                return ExactPolicy(policy, rounded(gain), self._stationary(policy, r))
            inside[:] = False
            inside[recurrent] = True
            policy, last = improved, policy
        raise SolverError(f"policy iteration did not end within {MAX_ROUNDS} policies")

    def _system(self, policy: Ints, r: int) -> fmpq_mat:
        """M for a policy."""
        S = self.rows.S
        M = fmpq_mat(S, S, [-self.moves[k, x] for k in policy.tolist() for x in range(S)])
        for s in range(S):
            M[s, r] = 1
        return M

    def _stationary(self, policy: Ints, r: int) -> Floats:
        """The stationary distribution (S,): row r of the inverse of M."""
        unit = fmpq_mat(self.rows.S, 1, [int(s == r) for s in range(self.rows.S)])
        return np.array([rounded(x) for x in self._system(policy, r).transpose().solve(unit).entries()])

    def _one_class(self, policy: Ints, c: Floats, last: Ints, inside: Bools) -> Ints:
        """The closed class of a policy, which gets paths to the best one, in place, if there are several.

        last (S,): the policy before, closed in the states `inside` (S,).
        """
        classes = closed_classes(self.matrix[policy])
        if len(classes) == 1:
            return classes[0]
        new = [states for states in classes if not (inside[states] & (policy[states] == last[states])).all()]
        best = min(new, key=lambda states: self._average(policy, c, states))
        inside_best = np.zeros(self.rows.S, dtype=np.bool_)
        inside_best[best] = True
        if not attractor_policy(self.rows, policy, inside_best):
            raise SolverError("states of a component do not lead to each other")
        return best

    def _average(self, policy: Ints, c: Floats, states: Ints) -> float:
        """The average of c (K,) in a closed class."""
        mu = stationary_distribution(self.matrix[policy[states]][:, states])
        return np.inf if mu is None else float(c[policy[states]] @ mu)


def exactly(x: float) -> fmpq:
    """A float as a rational number."""
    return fmpq(*float(x).as_integer_ratio())


def rounded(x: fmpq) -> float:
    """The float next to a rational number."""
    return int(x.p) / int(x.q)
