"""Planning component by component: exact in every model, however nearly it falls apart.

In the long run a policy stays in an *end component*: states and actions that keep it there. So occupancy has mass in
the maximal end components only. Within one, all states communicate, and the least average of a cost is the same from
each. Anything may propose the policy that has it:

    inverses or sparse factors     policy iteration in floats, which proves nearly all of them
    rational arithmetic            where that does not, in models of up to some hundred states
    HiGHS                          in larger ones

What decides is the certificate: the bound that a bias proves, rounding included, beside the average of the policy by
elimination without subtractions. Where they do not meet, the answer says so.

From a start distribution beta, a policy also decides where to end. With the least averages g_k of the components, the
model in which every component is one state, which may be stopped in at the price g_k or left, has the least expected
price

    V = min(g_k, min over pairs that leave of sum p V),    V = min over pairs of sum p V elsewhere

Every policy of it stops, and beta . V is the least average from beta: a policy ends in some component with probability
one, and its average there is at least g_k. That V <= P V for every pair and V <= g_k is the certificate, with the bias
of each component's best policy proving its g_k.

A column is a deterministic policy, averages from beta. Without a start distribution (the stateless program) it is the
best policy of one component.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy import sparse
from scipy.sparse import csgraph

from psconrl._core.checks import Bools, Floats, Ints
from psconrl._core.graph import closed_classes, groups
from psconrl._core.lazy import lazy_import
from psconrl.errors import SolverError
from psconrl.planning.chains import SolvedChain, chain_of, solve_chain, stationary_distribution
from psconrl.planning.compiled.attractor import attractor_policy
from psconrl.planning.compiled.generation import OPTIMAL, PricingProblem, PricingResult
from psconrl.planning.compiled.master import MARGIN, VALUE, Limits
from psconrl.planning.compiled.parametric import plan
from psconrl.planning.compiled.planned import NO_LEVELS, MixturePlan
from psconrl.planning.compiled.pricing import Start, discounted_value_iteration, dual_lower_bound
from psconrl.planning.compiled.rows import Rows
from psconrl.planning.lp.decomposition import deterministic
from psconrl.planning.lp.highs import Basis, run
from psconrl.planning.lp.occupancy import occupancy_program
from psconrl.planning.sparse_pricing import plan_sparse
from psconrl.planning.tolerances import (
    EPS,
    FULL_ROW,
    LP_SCALE,
    MAX_COLUMNS,
    MAX_FULL,
    MAX_INVERTED,
    MAX_ROUNDS,
    PROVEN,
    SUPPORT,
)

if TYPE_CHECKING:
    from psconrl.planning import exact
else:
    exact = lazy_import("psconrl.planning.exact")  # which imports flint

Planner = Callable[[Rows, Floats, Limits, Start, int, Floats], MixturePlan]


def end_components(rows: Rows) -> list[tuple[Ints, Ints]]:
    """The maximal end components: states and pairs of each, ascending, in the order of their first states.

    Found by taking away pairs that leave their strong component until none does.
    """
    source, pair = rows.source, np.repeat(np.arange(rows.K), np.diff(rows.indptr))
    stays, moves = np.ones(rows.K, dtype=np.bool_), rows.data > 0
    while True:
        used = moves & stays[pair]
        graph = sparse.coo_array((used[used], (source[pair[used]], rows.indices[used])), shape=(rows.S, rows.S))
        label = csgraph.connected_components(graph.tocsr(), directed=True, connection="strong")[1]
        leaves = used & (label[rows.indices] != label[source[pair]])
        if not leaves.any():
            break
        stays[pair[leaves]] = False
    inside = np.bincount(source[stays], minlength=rows.S) > 0
    return list(zip(groups(label, inside), groups(label[source], stays), strict=True))


class Column(NamedTuple):
    """A deterministic policy (S,) of pairs, its averages J (m + 1,), and its long-run distribution (S,), both from the
    start."""

    policy: Ints
    J: Floats
    mu: Floats


class Priced(NamedTuple):
    """The best policy (n,) of a component for some cost, its average (the gain), a lower bound of the least one, and
    the policy's stationary distribution (n,).
    """

    policy: Ints
    gain: float
    bound: float
    mu: Floats


class Component:
    """States that communicate by pairs that stay among them; `rows` numbers both anew."""

    def __init__(self, rows: Rows, states: Ints, pairs: Ints) -> None:
        """The component with these states and pairs of a model, ascending."""
        self.states, self.pairs = states, pairs
        whole = len(states) == rows.S and len(pairs) == rows.K
        self.rows = rows if whole else rows.part(states, pairs)
        self._last: Ints | None = None
        self._bias: Floats = np.zeros(self.rows.S)
        self._basis: Basis = np.zeros(0, dtype=np.uint8)
        self.inverted = inverted(self.rows)
        self._proposals = [self._by_kernels, self._by_rationals if self.inverted else self._by_highs]

    def chain(self, policy: Ints) -> sparse.csr_array:
        """The chain (n, n) of a policy."""
        return self.matrix[policy]

    @cached_property
    def matrix(self) -> sparse.csr_array:
        """The transitions (pairs, n)."""
        return self.rows.matrix()

    @cached_property
    def _exact(self) -> exact.ExactModel:
        return exact.ExactModel(self.rows)

    def price(self, c: Floats) -> Priced:
        """The policy with the least average of c (pairs,), one closed class, and the bound that proves it."""
        if self.rows.S == 1:
            pair = int(c.argmin())
            return Priced(np.array([pair]), float(c[pair]), float(c[pair]), np.ones(1))
        best: Priced | None = None
        for propose in tuple(self._proposals):
            found = propose(c)
            if found is None:
                self._proposals.remove(propose)  # and would be of no use at other prices
            elif best is None or found.gain - found.bound < best.gain - best.bound:
                best = found
            if best is not None and best.gain - best.bound <= PROVEN:
                break
        if best is None:
            raise SolverError("no policy of a component was evaluated: the numbers of the model are too uneven")
        self._last = best.policy
        return best._replace(bound=max(best.bound, float(c.min())))

    def _by_kernels(self, c: Floats) -> Priced | None:
        """By inverses or sparse factors, in floats."""
        none = np.zeros(0)
        found = self.plan(np.ascontiguousarray(c[np.newaxis]), Limits(none, none), VALUE, none, none)
        return None if found.status != OPTIMAL else self._evaluated(found.mixture.policies[0], c, found.bound)

    def _by_rationals(self, c: Floats) -> Priced | None:
        """By rational arithmetic."""
        policy, gain, mu = self._exact.best(c, self._first(c) if self._last is None else self._last)
        return Priced(policy, gain, float(np.nextafter(gain, -np.inf)), mu)

    def _by_highs(self, c: Floats) -> Priced | None:
        """By the linear program: its duals are a bias, its occupancy is that of a policy."""
        try:
            vertex = run(occupancy_program(self.rows, LP_SCALE * c[np.newaxis], np.zeros(0)).value)
        except SolverError:
            return None
        h = vertex.row_duals[: self.rows.S] / LP_SCALE
        bound = max(dual_lower_bound(self.rows, c, 0.0, sign * h) for sign in (1.0, -1.0))
        x = vertex.x[: self.rows.K]
        used = np.flatnonzero(x > SUPPORT)  # the rest is what rounding leaves of zero
        used = used[np.argsort(x[used], kind="stable")]  # of several pairs of a state the last one counts
        policy = self.attract(
            self.rows.begin[:-1], dict(zip(self.rows.source[used].tolist(), used.tolist(), strict=True))
        )
        return self._evaluated(policy, c, bound)

    def _evaluated(self, policy: Ints, c: Floats, bound: float) -> Priced | None:
        """A policy with its exact average; of several classes the best."""
        chain = self.chain(policy)
        solved = [(states, stationary_distribution(chain[states][:, states])) for states in closed_classes(chain)]
        gains = [np.inf if mu is None else float(c[policy[states]] @ mu) for states, mu in solved]
        states, own = solved[int(np.argmin(gains))]
        if own is None:
            return None
        if len(solved) > 1:
            policy = self.attract(policy, {int(s): int(policy[s]) for s in states})
        mu = np.zeros(self.rows.S)
        mu[states] = own
        return Priced(policy, min(gains), bound, mu)

    def _lookahead(self, c: Floats, optimistic: bool) -> tuple[int, Ints, Floats]:
        """The state from which some steps cost the least, the policy for them, and what they cost (S,).

        optimistic: whether to look for a place to stay at, or for what there is far away.
        """
        ahead, policy = discounted_value_iteration(self.rows, np.ascontiguousarray(c), 1e-2, optimistic, 1e-3, 100)
        return int(ahead.argmin()), policy, ahead

    def plan(
        self,
        costs: Floats,
        limits: Limits,
        goal: int,
        guess: Floats,
        bias: Floats,
        levels: Floats = NO_LEVELS,
    ) -> MixturePlan:
        """The best mixture by inverses or sparse factors, from where the last search ended, if there are many states.

        costs (m + 1, pairs); guess (m,) of the multipliers; bias (n,) to begin with, or none (0,); levels (pairs,) that
        decide between equals, or none (0,).
        """
        if not self.inverted and goal == MARGIN:
            _, self._last, bias = self._lookahead(np.mean(costs[1:] / limits.d[:, np.newaxis], axis=0), optimistic=True)
        elif not self.inverted and self._last is None:
            _, self._last, bias = self._lookahead(costs[0], optimistic=False)
        elif not self.inverted and len(bias):
            bias = self._bias
        first = self.rows.begin[:-1] if self._last is None else self._last
        start = Start(first[np.newaxis].copy(), guess, np.zeros(1, dtype=np.int64), bias)
        m = len(limits.tau)
        if m >= 4 and 100 * m >= self.rows.S:  # then the linear program takes less time than finding its columns
            start = self._linear_program_start(costs, limits, goal, levels) or start
        if self.inverted:
            return plan(self.rows, costs, limits, start, goal, levels)
        # The averages of columns are found anew, by elimination: their error need not be measured.
        found = plan_sparse(self.rows, costs, limits, start, goal, levels, measured=False)
        self._last, self._bias = found.last.copy(), found.bias
        return found

    def _linear_program_start(self, costs: Floats, limits: Limits, goal: int, levels: Floats) -> Start | None:
        """Columns and multipliers of an optimal vertex: with many limits, columns found one at a time are many."""
        decided = np.array(costs)
        decided[0] += levels if len(levels) else 0.0
        decided[0] *= LP_SCALE
        decided[1:] /= limits.d[:, np.newaxis]
        program = occupancy_program(self.rows, decided, limits.tau / limits.d)
        # The vertex of one goal is a feasible start for the other.
        basis = self._basis if len(self._basis) == sum(program.value.matrix.shape) else None
        try:
            vertex = run(program.margin if goal == MARGIN else program.value, basis)
            if vertex.status != "optimal":
                return None
            self._basis = vertex.basis
            policies = [policy for _, policy, _ in deterministic(self.rows, vertex.x[: self.rows.K].clip(0.0))]
        except SolverError:
            return None
        unit = 1.0 if goal == MARGIN else LP_SCALE
        multipliers = (-vertex.row_duals[program.constraint_rows] / unit).clip(0.0) / limits.d
        return Start(np.array(policies[:MAX_COLUMNS]), multipliers, np.zeros(1, dtype=np.int64), np.zeros(0))

    def _first(self, c: Floats) -> Ints:
        """Into the cheapest pair."""
        pair = int(c.argmin())
        return self.attract(self.rows.begin[:-1], {int(self.rows.source[pair]): pair})

    def attract(self, policy: Ints, to: dict[int, int]) -> Ints:
        """The policy with the pairs `to` in some states, leading to these from elsewhere."""
        policy, inside = policy.copy(), np.zeros(self.rows.S, dtype=np.bool_)
        for s, pair in to.items():
            policy[s], inside[s] = pair, True
        if not attractor_policy(self.rows, policy, inside):
            raise SolverError("states of a component do not lead to each other")
        return policy


class ComponentPricing:
    """Prices policies for the frame of column generation, component by component; see the module's docstring.

    costs (m + 1, K), scaled; start: the distribution (S,) from which averages count, None for the stateless program.
    """

    def __init__(self, rows: Rows, costs: Floats, start: Floats | None) -> None:
        self.rows, self.costs, self.start = rows, costs, start
        self.components = [Component(rows, states, pairs) for states, pairs in end_components(rows)]
        self.columns: list[Column] = []
        self.J = np.empty((64, len(costs)))
        self.known = np.zeros(1, dtype=np.int64)

    def price(self, problem: PricingProblem) -> PricingResult:
        """Add the best column for some prices."""
        c = np.append(problem.main, problem.prices) @ self.costs
        spent = float(problem.prices @ problem.tau)
        best, bound = self._best_component(c) if self.start is None else self._from_start(c)
        # The same policy may be two columns: one for each component in which it stays.
        if not any(np.array_equal(best.policy, k.policy) and np.array_equal(best.J, k.J) for k in self.columns):
            self.add(best)
        return PricingResult(True, bound - spent, problem.prices.copy(), False, problem.prices)

    def _best_component(self, c: Floats) -> tuple[Column, float]:
        """The best policy of all components, and a bound of its average of c (K,)."""
        cheapest = np.array([c[component.pairs].min() for component in self.components])
        best, at, bound = None, -1, np.inf
        for k in np.lexsort((-np.array([len(component.states) for component in self.components]), cheapest)):
            component = self.components[k]
            if best is not None and cheapest[k] >= best.gain:
                bound = min(bound, float(cheapest[k]))
                break
            found = component.price(c[component.pairs])
            bound = min(bound, found.bound)
            if best is None or found.gain < best.gain:
                best, at = found, int(k)
        assert best is not None
        return self._column(at, best), bound

    def add(self, column: Column) -> None:
        """Add a column."""
        self.columns.append(column)
        if self.known[0] == len(self.J):
            self.J = np.concatenate([self.J, np.empty_like(self.J)])
        self.J[self.known[0]] = column.J
        self.known[0] += 1

    def column(self, policy: Ints) -> Column:
        """A policy (S,) of the whole model as a column."""
        start = np.full(self.rows.S, 1.0 / self.rows.S) if self.start is None else self.start
        classes, solved = _solved(self.rows.matrix()[policy])
        mu = np.zeros(self.rows.S)
        for share, states in zip(solved.shares(start), classes, strict=True):
            mu[states] = share * solved.stationary[states]
        return Column(policy, self.costs[:, policy] @ mu, mu)

    def _column(self, k: int, priced: Priced) -> Column:
        """The policy of a component, evaluated there; elsewhere the first pair."""
        component, own = self.components[k], priced.policy
        policy = self.rows.begin[:-1].copy()
        policy[component.states] = component.pairs[own]
        mu = np.zeros(self.rows.S)
        mu[component.states] = priced.mu
        return Column(policy, self.costs[:, component.pairs[own]] @ priced.mu, mu)

    def _from_start(self, c: Floats) -> tuple[Column, float]:
        """The column that ends where it is best to end, from the start, and a bound of its average of c (K,)."""
        priced = [component.price(c[component.pairs]) for component in self.components]
        gains = np.array([found.gain for found in priced])
        choice, V, proved = self.quotient.best(gains)
        loss = max(found.gain - found.bound for found in priced)
        policy = self.quotient.policy(choice, [found.policy for found in priced])
        assert self.start is not None
        least = float(self.start @ V[self.quotient.node]) if proved else float(gains.min())
        return self.column(policy), least - loss - SUPPORT

    @cached_property
    def quotient(self) -> Quotient:
        """The model in which every component is one state."""
        return Quotient(self.rows, self.components)


class Quotient:
    """The model in which every component is one node, numbered first, and every other state one more.

    node (S,): of each state. pairs: those that are no component's own; begin: the first of each node.
    """

    def __init__(self, rows: Rows, components: list[Component]) -> None:
        self.rows, self.components, self.source = rows, components, rows.source
        self.node = np.full(rows.S, -1)
        own = np.zeros(rows.K, dtype=np.bool_)
        for k, component in enumerate(components):
            self.node[component.states] = k
            own[component.pairs] = True
        rest = np.flatnonzero(self.node < 0)
        self.node[rest] = len(components) + np.arange(len(rest))
        self.size = len(components) + len(rest)
        pairs = np.flatnonzero(~own)
        of = self.node[self.source[pairs]]
        order = np.argsort(of, kind="stable")
        self.pairs, self.of = pairs[order], of[order]
        moves = rows.matrix()[self.pairs]
        member = sparse.csr_array((np.ones(rows.S), (np.arange(rows.S), self.node)), shape=(rows.S, self.size))
        ends = sparse.coo_array(moves @ member)
        away = ends.col != self.of[ends.row]
        self.row, self.end, chance = ends.row[away], ends.col[away], ends.data[away]
        # Only where a node is left to counts, however long that takes: next to 1 - 1e-20, 1e-20 could not be seen.
        self.chance = chance / np.bincount(self.row, chance, minlength=len(self.pairs))[self.row]
        shape = (len(self.pairs), self.size)
        self.matrix = sparse.csr_array((self.chance, (self.row, self.end)), shape=shape)
        # To stop in every component is a choice that ends; from then on, what was best at the last prices.
        nodes = np.arange(self.size)
        self.last: Ints = np.where(nodes < len(components), -1, np.searchsorted(self.of, nodes))

    def best(self, gains: Floats) -> tuple[Ints, Floats, bool]:
        """For the price of stopping in each component: the row of `pairs` to take in each node, -1 to stop; V; proved.

        Proved: no pair and no stop is better, so that V is the least price of stopping but for rounding.
        """
        prices = np.append(gains, np.full(self.size - len(gains), np.inf))
        choice = self.last
        V = self._values(choice, prices)
        for _ in range(MAX_ROUNDS):
            better = self._better(choice, V, prices)
            if np.array_equal(better, choice):
                self.last = choice
                return choice, V, True
            W = self._values(better, prices)
            if W.sum() >= V.sum():
                break
            choice, V = better, W
        return choice, V, False

    def _better(self, choice: Ints, V: Floats, prices: Floats) -> Ints:
        """Better rows where there are any, and paths to them.

        Rows that are better in the next step come first. Where there are none, nodes whose V is the same but for
        rounding are a level, and what leaves it decides, however unlikely, if all the rest leads back: a row is better
        that leaves its level for a lower one, on the whole, and nodes of the
        level lead to it, where they can do so without leaving.
        """
        rounding = 16 * EPS * (1 + np.abs(V))
        stop = (prices < V - rounding) & (choice >= 0)
        result = np.where(stop, -1, choice)
        onward = self.matrix @ V
        plainly = np.zeros(self.size, dtype=np.bool_)
        plainly[self.of[onward < V[self.of] - rounding[self.of]]] = True
        if plainly.any():
            return np.where(plainly & ~stop, self._least(onward), result)
        level = _levels(V)
        at = level[self.of]
        out = level[self.end] != at[self.row]
        leaving = np.bincount(self.row, self.chance * out, minlength=len(self.pairs))
        change = np.bincount(self.row, self.chance * (V[self.end] - V[self.of[self.row]]) * out, minlength=len(at))
        lower = change < -leaving * rounding[self.of]
        if not lower.any():
            return result
        good = np.zeros(self.size, dtype=np.bool_)
        good[self.of[lower]] = True
        attracted, path = self._attracted(level, good)
        # Of several rows the best is that with the least change for each time that what leads back is left.
        lost = np.bincount(self.row, self.chance * (out | ~attracted[self.end]), minlength=len(at))
        per = np.where(lower, change / np.where(lower, lost, 1.0), np.inf)
        result = np.where(attracted & ~good & ~stop, path, result)
        return np.where(good & ~stop, self._least(per), result)

    def _least(self, of_rows: Floats) -> Ints:
        """The row with the least number in each node; nodes without rows get any."""
        order = np.lexsort((of_rows, self.of))
        return order[np.searchsorted(self.of[order], np.arange(self.size)).clip(max=len(order) - 1)]

    def _attracted(self, level: Ints, good: Bools) -> tuple[Bools, Ints]:
        """The nodes from which good ones are surely reached within their level, and the row of each that does so."""
        attracted = np.isin(level, level[good])
        while True:
            inside = np.ones(len(self.pairs), dtype=np.bool_)
            inside[self.row[~attracted[self.end] | (level[self.end] != level[self.of[self.row]])]] = False
            path, reached = np.full(self.size, -1), good.copy()
            while True:
                rows = np.flatnonzero(inside & ~reached[self.of] & (self.matrix @ reached > 0))
                if not len(rows):
                    break
                path[self.of[rows]] = rows
                reached[self.of[rows]] = True
            if np.array_equal(reached, attracted):
                return attracted, path
            attracted = reached

    def _values(self, choice: Ints, prices: Floats) -> Floats:
        """The expected price of stopping (size,), from every node."""
        going = choice >= 0
        stay = sparse.csr_array(sparse.diags_array(np.where(going, 0.0, 1.0)))
        moves = sparse.csr_array(
            (np.ones(int(going.sum())), (np.flatnonzero(going), choice[going])), shape=(self.size, len(self.pairs))
        )
        chain = sparse.csr_array(stay + moves @ self.matrix)
        classes, solved = _solved(chain)
        return solved.values(np.array([prices[states[0]] for states in classes]))

    def policy(self, choice: Ints, stays: list[Ints]) -> Ints:
        """The deterministic policy (S,): `stays` in components where it stops; else to the pair, and out."""
        policy = self.rows.begin[:-1].copy()
        for k, component in enumerate(self.components):
            policy[component.states] = component.pairs[stays[k]]
            if choice[k] >= 0:
                pair = int(self.pairs[choice[k]])
                s = int(self.source[pair])
                inside = int(np.searchsorted(component.states, s))
                path = component.attract(stays[k], {inside: int(stays[k][inside])})
                policy[component.states] = component.pairs[path]
                policy[s] = pair
        passed = self.pairs[choice[len(self.components) :]]
        policy[self.source[passed]] = passed
        return policy


def _solved(matrix: sparse.csr_array) -> tuple[list[Ints], SolvedChain]:
    """A chain's closed classes, and the chain solved."""
    classes = closed_classes(matrix)
    return classes, solve_chain(chain_of(matrix), classes)


def _levels(V: Floats) -> Ints:
    """A number for each node: the same where V is the same but for rounding."""
    order = np.argsort(V)
    steps = np.diff(V[order], prepend=V[order[:1]]) > SUPPORT
    level = np.empty(len(V), dtype=np.int64)
    level[order] = np.cumsum(steps)
    return level


def inverted(rows: Rows) -> bool:
    """Whether policies of a model are evaluated by inverses: few states, or more moves than sparse factors are for.

    That is in half of the pairs or more: policies keep to those that are known, whatever moves the others have.
    """
    S, K = len(rows.begin) - 1, len(rows.indptr) - 1
    if S <= MAX_INVERTED:
        return True
    # The number of all moves is at hand, that of each pair is not.
    if S > MAX_FULL or int(rows.indptr[-1]) < 0.5 * FULL_ROW * S * K:
        return False
    return int(np.count_nonzero(np.diff(rows.indptr) >= FULL_ROW * S)) >= 0.5 * K


def planner(rows: Rows) -> Planner:
    """The compiled planner for a model."""
    return plan if inverted(rows) else plan_sparse
