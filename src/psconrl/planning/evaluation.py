"""Exact long-run averages and biases of a stationary policy.

The policy induces a chain P with costs c. In each recurrent class C the average is g_C = x_C' c with x_C the
stationary law; a transient state inherits g = P g. The bias solves h = c - g + P h with x_C' h = 0 in every
class. Periodic and multichain policies are covered: averages are Cesaro limits.

Small chains are solved by GTH elimination, accurate to rounding in every entry however nearly decomposable
they are; large sparse ones by sparse LU with iterative refinement.
"""

from dataclasses import dataclass
from types import ModuleType

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse
from scipy.sparse.linalg import splu

from psconrl._checks import Floats, Ints
from psconrl.cmdp import CMDP, require_model
from psconrl.graph import closed_classes

DENSE_LIMIT = 600
"""Chains up to this size are eliminated densely."""


@dataclass(frozen=True, eq=False)
class Evaluation:
    """What a stationary policy does in the long run.

    Attributes:
        average_costs: (m + 1, S), long-run average of each cost from each start state.
        stationary: (S,), long-run share of time in each state, starting from the model's initial law.
        bias: (m + 1, S), the expected total cost above the average, from each start state (Cesaro sense).
        classes: the policy's recurrent classes.
    """

    average_costs: Floats
    stationary: Floats
    bias: Floats
    classes: tuple[Ints, ...]

    def __repr__(self) -> str:
        S = len(self.stationary)
        low, high = self.average_costs.min(axis=1), self.average_costs.max(axis=1)
        spans = ", ".join(f"{a:.6g}" if a == b else f"{a:.6g}..{b:.6g}" for a, b in zip(low, high, strict=True))
        return f"Evaluation(S={S}, recurrent classes={len(self.classes)}, average_costs=[{spans}])"


def evaluate(cmdp: CMDP, policy: ArrayLike) -> Evaluation:
    """Exact averages of all costs from every start state under a stationary policy (S, A).

    >>> import psconrl
    >>> toy = psconrl.make("toy")
    >>> psconrl.evaluate(toy, [[0.0, 1.0], [1.0, 0.0]]).average_costs[1].round(6)
    array([0.526316, 0.526316])
    """
    require_model(cmdp)
    pi = cmdp.check_policy(policy)
    return evaluate_chain(cmdp.policy_matrix(pi), np.einsum("isa,sa->is", cmdp.costs, pi), cmdp.initial)


def evaluate_chain(chain: sparse.csr_array, costs: Floats, initial: Floats) -> Evaluation:
    """The same for a chain (S, S) with costs (n, S)."""
    S = chain.shape[0]
    classes = closed_classes(chain)
    averages, bias, stationary = np.empty_like(costs), np.zeros_like(costs), np.zeros(S)
    label = np.full(S, -1)
    for j, states in enumerate(classes):
        label[states] = j
        inside = chain[states][:, states] if len(states) < S else chain
        stationary[states] = stationary_law(inside)
        averages[:, states] = (costs[:, states] @ stationary[states])[:, np.newaxis]
        excess = _collected(inside, costs[:, states] - averages[:, states])
        bias[:, states] = excess - (excess @ stationary[states])[:, np.newaxis]
    start = np.array([initial[states].sum() for states in classes])
    transient = np.flatnonzero(label < 0)
    if len(transient):
        rows = chain[transient]
        inside = rows[:, transient]
        outside = sparse.csr_array(rows * (label >= 0))
        firsts = np.array([states[0] for states in classes])
        member = sparse.csr_array((np.ones(S), (np.arange(S), label.clip(0))), shape=(S, len(classes)))
        absorbing = _Absorbing(inside, outside @ member)
        averages[:, transient] = absorbing.values(averages[:, firsts])
        start = start + absorbing.shares(initial[transient])
        excess = costs[:, transient] - averages[:, transient] + (outside @ bias.T).T
        bias[:, transient] = absorbing.collected(excess)
    for weight, states in zip(start, classes, strict=True):
        stationary[states] *= weight
    return Evaluation(averages, stationary, bias, tuple(classes))


def stationary_law(chain: sparse.csr_array) -> Floats:
    """The stationary law of an irreducible chain."""
    n = chain.shape[0]
    if n <= DENSE_LIMIT:
        return _kernels().stationary(chain.toarray())
    # x_0 = 1 fixed; the others balance: x_1 (I - P_11) = P_01.
    system = _System(sparse.eye_array(n - 1) - chain[1:][:, 1:])
    x = np.append(1.0, system.solve(chain[[0]].toarray()[0, 1:], transposed=True).clip(0.0))
    return np.asarray(x / x.sum())


def _collected(chain: sparse.csr_array, amounts: Floats) -> Floats:
    """What is collected (d, n) in an irreducible chain before its first state is entered; zero there."""
    n = chain.shape[0]
    if n <= DENSE_LIMIT:
        values = np.zeros((n, len(amounts)))
        _kernels().absorb(chain.toarray(), amounts.T.copy(), values, 1)
        return values.T
    system = _System(sparse.eye_array(n - 1) - chain[1:][:, 1:])
    rest = np.stack([system.solve(row[1:]) for row in amounts])
    return np.column_stack([np.zeros(len(amounts)), rest])


class _Absorbing:
    """Transient states with moves among themselves (n, n) and into recurrent classes (n, K)."""

    def __init__(self, inside: sparse.csr_array, into: sparse.csr_array) -> None:
        self.inside, self.into = inside, into
        self.n, self.K = into.shape
        self.dense = self.n + self.K <= DENSE_LIMIT
        if not self.dense:
            self.system = _System(sparse.eye_array(self.n) - inside)

    def values(self, boundary: Floats) -> Floats:
        """Expected value (d, n) at the class that is entered, of values (d, K)."""
        if self.dense:
            return self._absorb(boundary, np.zeros((len(boundary), self.n)))
        return np.stack([self.system.solve(self.into @ row) for row in boundary])

    def collected(self, amounts: Floats) -> Floats:
        """Expected amounts (d, n) collected before a class is entered."""
        if self.dense:
            return self._absorb(np.zeros((len(amounts), self.K)), amounts)
        return np.stack([self.system.solve(row) for row in amounts])

    def shares(self, start: Floats) -> Floats:
        """The mass (K,) that each class receives from a start law (n,)."""
        if not start.any():
            return np.zeros(self.K)
        if self.dense:
            return self._absorb(np.eye(self.K), np.zeros((self.K, self.n))) @ start
        return np.asarray(self.into.T @ self.system.solve(start, transposed=True))

    def _absorb(self, boundary: Floats, amounts: Floats) -> Floats:
        P = np.zeros((self.K + self.n, self.K + self.n))
        P[self.K :, : self.K] = self.into.toarray()
        P[self.K :, self.K :] = self.inside.toarray()
        values = np.zeros((self.K + self.n, len(boundary)))
        values[: self.K] = boundary.T
        collected = np.zeros_like(values)
        collected[self.K :] = amounts.T
        _kernels().absorb(P, collected, values, self.K)
        return values[self.K :].T


class _System:
    """A sparse linear system, factorised once and solved with iterative refinement."""

    def __init__(self, matrix: sparse.sparray) -> None:
        self.matrix = sparse.csc_array(matrix)
        self.factors = splu(self.matrix)

    def solve(self, rhs: Floats, transposed: bool = False) -> Floats:
        trans = "T" if transposed else "N"
        matrix = self.matrix.T if transposed else self.matrix
        x: Floats = self.factors.solve(rhs, trans=trans)
        for _ in range(3):
            x = x + self.factors.solve(rhs - matrix @ x, trans=trans)
        return x


def _kernels() -> ModuleType:
    from psconrl.planning import _kernels

    return _kernels
