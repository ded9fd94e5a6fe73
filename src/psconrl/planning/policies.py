"""Exact planning in large models: column generation over deterministic policies (Dantzig and Wolfe).

The occupancy measures of a (weakly) communicating model are the mixtures of those of its deterministic
policies with one recurrent class. With J_i(pi) the averages of such a policy, the occupancy program is

    min  sum_k w_k J_0(pi_k)    s.t.   sum_k w_k J_i(pi_k) <= tau_i  (i = 1..m),    sum_k w_k = 1,   w >= 0

and the margin is the largest gamma with sum_k w_k J_i(pi_k) + gamma <= tau_i. Few policies matter. The master
is this program over the policies found so far; its prices lambda_i >= 0 of the constraints (for the margin
they sum to one) ask for the policy with the least average of

    c_lambda = c_0 + sum_i lambda_i c_i          (without c_0 for the margin)

which Howard's policy iteration finds exactly; it becomes the next column.

Stopping rule. For every v and lambda >= 0,

    min_{s,a} [ c_lambda(s, a) + sum_s' p(s' | s, a) (v(s') - v(s)) ] - lambda . tau

is a lower bound of the program: multiply each bracket with an occupancy measure that meets the limits, and
sum. With v the bias of the best policy it is tight. Columns are generated until the master is within GAP of
the best bound, in units of the costs' range, or until the policy asked for is known already. The difference
that remains is reported and proves how exact the answer is.

Policy iteration. Policies have one recurrent class throughout: average g and bias h solve g + h = c + P h.
Taking a better action wherever there is one gives a policy all of whose recurrent classes have averages <= g.
If it has several, the best is kept, and states that it does not lead there with certainty are sent there
along likely paths. An action changed in a class brings its average down: (g, h) decreases lexicographically.
Better actions spread from state to state; to let them spread faster, h first takes SWEEPS steps of value
iteration, v <- min_a [c - g + P v] <= v. The policy that is best for v is used if it brings (g, h) down, that
for h otherwise. Iteration stops when the bracket shows g to be within OPTIMAL of the least average.

A chain is solved by one factorisation of I - P without a reference state in each class. That is accurate if
the reference is visited often: a corner that is entered once in 1e30 moves would make it singular. The
reference is therefore a likely state, found by repeating the factorisation if the last policy's is not one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, reduce
from hashlib import blake2b

import numpy as np
from scipy import sparse
from scipy.sparse import csgraph
from scipy.sparse.linalg import SuperLU, splu

from psconrl._checks import Bools, Floats, Ints
from psconrl.errors import SolverError
from psconrl.graph import closed_classes
from psconrl.planning.columns import generate
from psconrl.planning.evaluate import stationary_law
from psconrl.planning.highs import TOLERANCE

OPTIMAL = 1e-12
"""The same for policy iteration, where the range of c_lambda is one."""

SMALL = 200
"""Chains up to this size are eliminated densely, without subtractions."""

SWEEPS = 60
"""Steps of value iteration between two evaluations of a policy."""

STUCK = 1e5
"""Biases above this, where the range of c_lambda is one, are a sign of traps."""

_RANK = 1e-13  # relative size from which a difference of advantages is not rounding
_SAME = 1e-13  # columns this close are one
_SAME_LAW = 1e-6  # so are laws this close
_PATIENCE = 10  # steps of policy iteration that may bring no improvement
_RARE = 1e-3  # a reference may be this much less likely than the likeliest state of its class
_ROUNDS = 5000  # of policy iteration


@dataclass(frozen=True, eq=False)
class PolicyMixture:
    """The optimal mixture of deterministic policies.

    Attributes:
        margin: the largest gamma with J_i <= tau_i - gamma for all i; +inf without constraints.
        value: the optimum, nan if infeasible.
        occupancy: (S, A), of the optimal mixture; if infeasible, of the one with the least largest violation.
        safest: (S, A), an occupancy that attains the margin; None without constraints.
        multipliers: (m,), >= 0, -d value / d tau; nan if infeasible.
        conflict_weights: (m,), >= 0, sum one: the margin is that of the one constraint which they mix.
        gap: largest proven error of margin and value, in units of the costs' range.
        policies: number of deterministic policies generated.
        iterations: steps of policy iteration taken for them.
    """

    margin: float
    value: float
    occupancy: Floats
    safest: Floats | None
    multipliers: Floats
    conflict_weights: Floats
    gap: float
    policies: int
    iterations: int

    @property
    def feasible(self) -> bool:
        """Whether the constraints can be met."""
        return self.margin >= 0

    def __repr__(self) -> str:
        return (
            f"PolicyMixture(value={self.value:.9g}, margin={self.margin:.6g}, gap={self.gap:.2g}, "
            f"policies={self.policies}, iterations={self.iterations})"
        )


def solve_by_policies(matrix: sparse.csr_array, costs: Floats, thresholds: Floats) -> PolicyMixture:
    """The stateless occupancy program of a (weakly) communicating model, exactly, for many states.

    matrix (S * A, S), costs (m + 1, S, A), thresholds (m,). Margins above -1e-9, where the range of the
    auxiliary costs is one, count as zero.
    """
    units = _Units.of(costs, thresholds)
    tau, m = units.thresholds, len(thresholds)
    search = _Search(_Model(matrix, units.costs.reshape(m + 1, -1)))
    if m == 0:
        bound = search.price(np.ones(1), fresh=True)
        best = search.columns[-1]
        gap = max(float(best.J[0]) - bound, 0.0)
        nothing = np.zeros(0)
        value = units.value(float(best.J[0]))
        return search.answer(np.inf, value, search.occupancy(np.ones(1)), None, nothing, nothing, gap)

    safe = generate(search, tau, margin=True)
    margin, safest = -safe.objective, search.occupancy(safe.weights)
    if margin < -TOLERANCE:
        unpriced = np.full(m, np.nan)
        return search.answer(units.margin(margin), np.nan, safest, safest, unpriced, safe.prices, safe.gap)
    # Limits that can just be met, but for rounding, are met.
    kept = safe.weights @ np.array([column.J[1:] for column in search.columns])
    best_mix = generate(search, np.maximum(tau, kept + _SAME), margin=False)
    return search.answer(
        units.margin(max(margin, 0.0)),
        units.value(best_mix.objective),
        search.occupancy(best_mix.weights),
        safest,
        units.multipliers(best_mix.prices),
        safe.prices,
        max(safe.gap, best_mix.gap),
    )


@dataclass(frozen=True, eq=False)
class _Units:
    """Costs shifted to start at zero; c_0 of range one, the largest range of the others one."""

    costs: Floats
    thresholds: Floats
    shift: float
    main: float
    auxiliary: float

    @staticmethod
    def of(costs: Floats, thresholds: Floats) -> _Units:
        low = costs.min(axis=(1, 2))
        ranges = np.ptp(costs, axis=(1, 2))
        main, auxiliary = float(ranges[0]) or 1.0, float(ranges[1:].max(initial=0.0)) or 1.0
        unit = np.append(main, np.full(len(thresholds), auxiliary))
        scaled = (costs - low[:, np.newaxis, np.newaxis]) / unit[:, np.newaxis, np.newaxis]
        return _Units(scaled, (thresholds - low[1:]) / auxiliary, float(low[0]), main, auxiliary)

    def value(self, scaled: float) -> float:
        return self.shift + self.main * scaled

    def margin(self, scaled: float) -> float:
        return self.auxiliary * scaled

    def multipliers(self, scaled: Floats) -> Floats:
        return scaled * (self.main / self.auxiliary)


@dataclass(frozen=True, eq=False)
class _Column:
    """A policy (S,), its stationary law (S,) and its averages J (m + 1,)."""

    policy: Ints
    law: Floats
    J: Floats


class _Search:
    """The columns found so far; each call of `price` adds the best policy for some prices."""

    def __init__(self, model: _Model) -> None:
        self.model = model
        self.columns: list[_Column] = []
        self.iterations = 0

    def price(self, weights: Floats, *, enough: float = np.inf, fresh: bool = False) -> float:
        """Find the policy with the least average of sum_i weights_i c_i; a lower bound of that average.

        A bound that is `enough` ends the search. It starts from the best column, or, if `fresh` and that is
        better, from a policy made for these weights.
        """
        model = self.model
        c = weights @ model.costs
        starts = []
        if fresh:
            starts.append(_Evaluated.of(model, c, _first_policy(model, c), np.ones(model.S)))
        if self.columns:
            last = min(reversed(self.columns), key=lambda column: float(weights @ column.J))
            starts.append(_Evaluated.of(model, c, last.policy, last.law))
        found = _policy_iteration(model, c, min(starts, key=lambda start: start.g), enough)
        self.iterations += found.iterations
        policy, law = found.policy.policy, found.policy.law
        J = model.costs[:, model.pairs(policy)] @ law
        if all(np.abs(J - column.J).max() > _SAME for column in self.columns):
            self.columns.append(_Column(policy, law, J))
        return found.bound

    def occupancy(self, weights: Floats) -> Floats:
        """The occupancy (S, A) of a mixture of the first columns."""
        mu = np.zeros(self.model.S * self.model.A)
        for k in np.flatnonzero(weights):
            column = self.columns[k]
            mu[self.model.pairs(column.policy)] += weights[k] * column.law
        return mu.reshape(self.model.S, self.model.A)

    def answer(
        self,
        margin: float,
        value: float,
        occupancy: Floats,
        safest: Floats | None,
        multipliers: Floats,
        conflict_weights: Floats,
        gap: float,
    ) -> PolicyMixture:
        """The result, with the counters."""
        return PolicyMixture(
            margin,
            value,
            occupancy,
            safest,
            multipliers,
            conflict_weights,
            gap,
            policies=len(self.columns),
            iterations=self.iterations,
        )


# Policy iteration


class _Model:
    """Transitions (S * A, S) and costs (m + 1, S * A)."""

    def __init__(self, matrix: sparse.csr_array, costs: Floats) -> None:
        self.matrix, self.costs = matrix, costs
        self.S, self.A = matrix.shape[1], matrix.shape[0] // matrix.shape[1]

    @cached_property
    def start(self) -> Ints:
        """The state that each stored move starts from."""
        states: Ints = np.repeat(np.arange(self.S), self.A)
        return np.asarray(np.repeat(states, np.diff(self.matrix.indptr)), dtype=np.int64)

    def pairs(self, policy: Ints) -> Ints:
        """The rows that a policy uses."""
        rows: Ints = np.arange(self.S) * self.A + policy
        return rows

    def chain(self, policy: Ints) -> sparse.csr_array:
        """The chain (S, S) of a policy."""
        return sparse.csr_array(self.matrix[self.pairs(policy)])

    def drift(self, v: Floats) -> tuple[Floats, Floats]:
        """sum_s' p(s' | s, a) (v(s') - v(s)) of all pairs, and the same with absolute values."""
        moves = self.matrix.data * (v[self.matrix.indices] - v[self.start])
        first = self.matrix.indptr[:-1]
        return np.add.reduceat(moves, first), np.add.reduceat(np.abs(moves), first)


@dataclass(frozen=True, eq=False)
class _Evaluated:
    """A policy (S,) with one recurrent class: its law (S,), average g and bias h (S,), law @ h = 0."""

    policy: Ints
    law: Floats
    g: float
    h: Floats

    @staticmethod
    def of(model: _Model, c: Floats, policy: Ints, guess: Floats) -> _Evaluated:
        own = c[model.pairs(policy)]
        chain = _Chain(model.chain(policy), guess)
        g = float(own @ chain.law)
        h = chain.collected(own - g)
        return _Evaluated(policy, chain.law, g, h - chain.law @ h)

    def improves_on(self, last: _Evaluated, c: Floats) -> bool:
        """Whether (g, h) is less, lexicographically; biases compare only if the class is the same."""
        if abs(self.g - last.g) > _SAME * float(np.ptp(c)):
            return self.g < last.g
        return float(np.abs(self.law - last.law).sum()) < _SAME_LAW and float(self.h.sum()) < float(
            last.h.sum()
        ) - _SAME * float(np.abs(last.h).sum())


@dataclass(frozen=True, eq=False)
class _Found:
    """The best policy of policy iteration, and a lower bound of the least average."""

    policy: _Evaluated
    bound: float
    iterations: int


def _policy_iteration(model: _Model, c: Floats, now: _Evaluated, enough: float) -> _Found:
    """The policy with the least average of c (S * A,), from a given one; or one that proves a bound `enough`.

    Where rounding hides what is better, steps are taken in good faith, until a policy returns or _PATIENCE of
    them are spent.
    """
    close = OPTIMAL * (float(np.ptp(c)) or 1.0)
    seen = {_name(now.policy)}
    best, bound, faith, steps = now, -np.inf, 0, 1
    while steps < _ROUNDS and faith <= _PATIENCE:
        now = after = _freed(model, c, now)
        for v in (_swept(model, c - now.g, now.h), now.h):
            advantage, noise = _advantages(model, c - now.g, v)
            bound = max(bound, now.g + float(advantage.min()))
            if bound >= min(best.g - close, enough):
                return _Found(best, bound, steps)
            after = _moved(model, c, now, _improved(model, advantage, noise, now.policy))
            steps += after is not now
            if after.improves_on(now, c):
                break
        else:
            faith += 1
        name = _name(after.policy)
        if name in seen:
            break
        seen.add(name)
        now = after
        best = min(now, best, key=lambda policy: policy.g)
    return _Found(best, bound, steps)


def _name(policy: Ints) -> bytes:
    return blake2b(policy.tobytes()).digest()


def _freed(model: _Model, c: Floats, now: _Evaluated) -> _Evaluated:
    """The policy, led into good traps or out of bad ones while that is better.

    A trap is no recurrent class, but is left so rarely that differences of the huge biases in it are rounding
    and do not show the way. A bias of -1e14 says that its average is below g, one of 1e14 that it is above.
    """
    limit = STUCK * float(np.ptp(c))
    for _ in range(_PATIENCE):
        least = float(now.h.min())
        if max(-least, float(now.h.max())) <= limit:
            break
        targets = now.h < 0.5 * least if least < -limit else now.h <= limit
        freed = _moved(model, c, now, _led_into(model, targets, now.policy))
        if not freed.improves_on(now, c):
            break
        now = freed
    return now


def _advantages(model: _Model, excess: Floats, v: Floats) -> tuple[Floats, Floats]:
    """c - g + sum p (v(s') - v(s)) of all pairs, and how large its rounding may be."""
    drift, size = model.drift(v)
    return excess + drift, _RANK * (np.abs(excess) + size)


def _moved(model: _Model, c: Floats, now: _Evaluated, policy: Ints) -> _Evaluated:
    """The next policy, evaluated."""
    if np.array_equal(policy, now.policy):
        return now
    return _Evaluated.of(model, c, *_with_one_class(model, c, policy, now.law))


def _swept(model: _Model, excess: Floats, v: Floats) -> Floats:
    """v after some steps of value iteration with costs c - g."""
    for _ in range(SWEEPS):
        q = (excess + model.matrix @ v).reshape(model.S, model.A)
        v = reduce(np.minimum, q.T)
    return v


def _improved(model: _Model, advantage: Floats, noise: Floats, policy: Ints) -> Ints:
    """The best actions; where the policy's is as good, but for rounding, it stays."""
    by_state, noise = advantage.reshape(model.S, model.A), noise.reshape(model.S, model.A)
    states = np.arange(model.S)
    best = by_state.argmin(axis=1)
    least = by_state[states, best] + noise[states, best] + noise[states, policy]
    return np.where(by_state[states, policy] > least, best, policy)


def _with_one_class(model: _Model, c: Floats, policy: Ints, law: Floats) -> tuple[Ints, Floats]:
    """The policy, led into the recurrent class with the least average of c if there are several."""
    P = model.chain(policy)
    if len(closed_classes(P)) == 1:
        return policy, law
    chain = _Chain(P, law)
    averages = np.bincount(chain.label + 1, c[model.pairs(policy)] * chain.law)[1:]
    best = int(averages.argmin())
    astray = _reaching(P, (chain.label >= 0) & (chain.label != best))
    return _led_into(model, ~astray, policy), np.where(chain.label == best, chain.law, 0.0)


def _first_policy(model: _Model, c: Floats) -> Ints:
    """Into a state with the least cost, where that action is taken: one recurrent class around that state."""
    pair = int(c.argmin())
    goal = np.arange(model.S) == pair // model.A
    return _led_into(model, goal, np.full(model.S, pair % model.A))


def _led_into(model: _Model, targets: Bools, policy: Ints) -> Ints:
    """The policy on the targets; elsewhere the way there with the least sum of 1 / p, a move's attempts.

    Every such way is tried again until it succeeds, so it leads there with certainty.
    """
    S, A = model.S, model.A
    moves = model.matrix
    pair = np.repeat(np.arange(S * A), np.diff(moves.indptr))
    outside = np.flatnonzero(~targets[model.start] & (model.start != moves.indices) & (moves.data > 0))
    pair, start, p = pair[outside], model.start[outside], moves.data[outside]
    end = np.where(targets[moves.indices[outside]], S, moves.indices[outside])
    # Of parallel moves the likeliest counts; of equally likely ones that of the lowest action.
    order = np.lexsort((pair, -p, end, start))
    order = order[np.append(True, (np.diff(start[order]) != 0) | (np.diff(end[order]) != 0))[: len(order)]]
    pair, start, end, p = pair[order], start[order], end[order], p[order]
    back = sparse.csr_array((1 / p, (end, start)), shape=(S + 1, S + 1))
    _, nearer = csgraph.dijkstra(back, directed=True, indices=[S], return_predecessors=True)
    onward = nearer[0, start] == end
    policy = policy.copy()
    policy[start[onward]] = pair[onward] % A
    return policy


def _reaching(P: sparse.csr_array, targets: Bools) -> Bools:
    """The states from which the chain enters the targets with positive probability; the targets are some."""
    S = P.shape[0]
    moves = P.tocoo()
    goals = np.flatnonzero(targets)
    rows = np.concatenate([moves.col, np.full(len(goals), S)])
    columns = np.concatenate([moves.row, goals])
    back = sparse.csr_array((np.ones(len(rows)), (rows, columns)), shape=(S + 1, S + 1))
    found = np.zeros(S + 1, dtype=np.bool_)
    found[csgraph.breadth_first_order(back, S, directed=True, return_predecessors=False)] = True
    return found[:S]


# Chains


class _Chain:
    """A chain (S, S), the recurrent class of each state (`label`, -1 if transient), the law of each class.

    guess (S,) says where it may spend its time; the likeliest states are the references of the classes.
    """

    def __init__(self, P: sparse.csr_array, guess: Floats) -> None:
        self.P = P
        self.classes = closed_classes(P)
        self.label = np.full(P.shape[0], -1)
        for k, states in enumerate(self.classes):
            self.label[states] = k
        self.law = np.zeros(P.shape[0])
        self._small = P.shape[0] <= SMALL
        if self._small:
            for states in self.classes:
                self.law[states] = stationary_law(P[states][:, states])
        else:
            self._solve_law(guess)

    def collected(self, amounts: Floats) -> Floats:
        """What is collected (S,) until the likeliest state of the only class is entered; zero there."""
        if not self._small:
            return self._avoiding.collected(amounts)
        from psconrl.planning._kernels import absorb

        order = np.argsort(-self.law, kind="stable")
        h = np.zeros((len(order), 1))
        absorb(self.P.toarray()[np.ix_(order, order)], amounts[order, np.newaxis], h, 1)
        values = np.empty(len(order))
        values[order] = h[:, 0]
        return values

    def _solve_law(self, guess: Floats) -> None:
        attempts: list[Callable[[], Floats]] = [lambda: guess, lambda: _rough_law(self.P)]
        for attempt in attempts:
            likely = attempt()
            for _ in range(3):
                references = np.array([states[likely[states].argmax()] for states in self.classes])
                try:
                    self._avoiding = _Avoiding(self.P, references)
                    x = self._avoiding.visits()
                except RuntimeError:  # singular: a reference is hardly ever entered
                    break
                if not np.isfinite(x).all():
                    break
                peaks = np.zeros(len(self.classes))
                np.maximum.at(peaks, self.label[self.label >= 0], np.abs(x[self.label >= 0]))
                likely = np.abs(x)
                if (x[references] >= _RARE * peaks).all():
                    x = np.where(self.label >= 0, x, 0.0).clip(0.0)
                    self.law = x / np.append(np.bincount(self.label + 1, x)[1:], 1.0)[self.label]
                    return
        raise SolverError("a policy's chain falls into parts that are hardly connected; its law is not found")


class _Avoiding:
    """A chain stopped at reference states, one in each recurrent class: I - P without them, factorised."""

    def __init__(self, P: sparse.csr_array, references: Ints) -> None:
        self.P, self.references = P, references
        self.rest = np.delete(np.arange(P.shape[0]), references)
        self.matrix, self.factors = _factorised(P, self.rest)

    def visits(self) -> Floats:
        """Expected visits (S,) between two visits to the reference of the same class, one there."""
        x = np.zeros(self.P.shape[0])
        x[self.references] = 1.0
        x[self.rest] = self._solve((self.P[self.references].sum(axis=0))[self.rest], "T")
        return x

    def collected(self, amounts: Floats) -> Floats:
        """Expected sum (S,) of the amounts until a reference is entered, zero there."""
        h = np.zeros(self.P.shape[0])
        h[self.rest] = self._solve(amounts[self.rest], "N")
        return h

    def _solve(self, rhs: Floats, trans: str) -> Floats:
        matrix = self.matrix.T if trans == "T" else self.matrix
        x = self.factors.solve(rhs, trans=trans)
        for _ in range(2):
            x = x + self.factors.solve(rhs - matrix @ x, trans=trans)
        return np.asarray(x)


def _factorised(P: sparse.csr_array, states: Ints, leak: float = 0.0) -> tuple[sparse.csc_array, SuperLU]:
    """I - P on some states, its diagonal summed from the ways out and a leak; and its sparse factors."""
    moves = P.tocoo()
    away = moves.row != moves.col
    row, col, p = moves.row[away], moves.col[away], moves.data[away]
    out = np.bincount(row, p, P.shape[0]) + leak
    number = np.full(P.shape[0], -1)
    number[states] = np.arange(len(states))
    inside = (number[row] >= 0) & (number[col] >= 0)
    n = len(states)
    diagonal = np.arange(n)
    matrix = sparse.csc_array(
        (
            np.concatenate([out[states], -p[inside]]),
            (
                np.concatenate([diagonal, number[row[inside]]]),
                np.concatenate([diagonal, number[col[inside]]]),
            ),
        ),
        shape=(n, n),
    )
    # A weakly dominant diagonal needs no pivoting, so the order is chosen for sparsity alone.
    symmetric = {"SymmetricMode": True}
    return matrix, splu(matrix, permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=0.0, options=symmetric)


def _rough_law(P: sparse.csr_array) -> Floats:
    """Where the chain is after a long random time: close to its stationary law, and never singular."""
    S = P.shape[0]
    _, factors = _factorised(P, np.arange(S), leak=1e-8)
    return np.asarray(np.abs(factors.solve(np.full(S, 1.0 / S), trans="T")))
