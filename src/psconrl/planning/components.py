"""Planning component by component: exact in every model, however nearly it falls apart.

In the long run a policy stays in an *end component*: states and actions that keep it there. So occupancy has mass in
the maximal end components only. Within one, all states communicate, and the least average of a cost is the same from
each: policy iteration finds it, policies evaluated without subtractions, their biases held in parts (`evaluation`), so
that leaks of 1e-12 or 1e-200 neither vanish nor drown the rest.

From a start law beta, a policy also decides where to end. With the least averages g_k of the components, the model in
which every component is one state, which may be stopped in at the price g_k or left, has the least expected price

    V = min(g_k, min over pairs that leave of sum p V),    V = min over pairs of sum p V elsewhere

Every policy of it stops, and beta . V is the least average from beta: a policy ends in some component with probability
one, and its average there is at least g_k. That V <= P V for every pair and V <= g_k is the certificate, with the bias
of each component's best policy proving its g_k.

A column is a deterministic policy, averages from beta. Without a start law (the stateless program) it is the best
policy of one component.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import cached_property
from typing import NamedTuple

import numpy as np
from scipy import sparse

from psconrl._core.checks import Bools, Floats, Ints
from psconrl._core.graph import groups
from psconrl.errors import SolverError
from psconrl.planning.compiled.counting import closed_laws
from psconrl.planning.compiled.end_components import split
from psconrl.planning.compiled.exact import bounded_advantages
from psconrl.planning.compiled.generation import FAILED, OPTIMAL, Question, Reply
from psconrl.planning.compiled.inverses import lead
from psconrl.planning.compiled.master import MARGIN, VALUE, Limits
from psconrl.planning.compiled.planned import NO_LEVELS, Planned
from psconrl.planning.compiled.pricing import Start, discounted_value_iteration
from psconrl.planning.compiled.rows import Rows, closed_class
from psconrl.planning.compiled.walk import plan
from psconrl.planning.evaluation import Evaluation, evaluate_chain
from psconrl.planning.sparse_pricing import plan_sparse
from psconrl.planning.tolerances import CLOSE, EPS, PROVEN

SMALL = 130
"""Policies of models up to this size are evaluated by inverses, those of larger ones by sparse factors,"""
_FULL, _LARGEST = 0.02, 2000
"""unless half of the pairs have such a share of all moves: inverses serve fuller models up to this size."""

_HANDFUL = 10
"""With no more states than this, iterations by Python are as fast as what might save some of them."""
_ROUNDS = 1000
_ROOM = 4000
_TRIES, _TAME = 3, 1e5
"""How often kernels are tried again after a policy whose bias is this small: it leaves them enough digits."""
_RATES = (1e-2, 1e-4, 1e-6)
"""How often models are left in which good places are looked for: biases are at most the inverse."""
_SIGHT = 100
"""How often all states are looked at for the first place, at most."""
_BLURRED = 1e-3
"""Looking again shows nothing new if it changes what lies ahead by less than this share of the differences."""
_CORE = 1e-3
"""States visited less often than this share of the most visited are on the way to a place."""
_LEVEL = 1e-14
"""Expected prices of stopping that differ by less are the same: rounding is all that tells them apart."""
_COUNTED = 1_500_000
"""Deterministic policies are counted through, where nothing else proves which is best, if that takes no more steps: for
each, states by states."""

Planner = Callable[[Rows, Floats, Limits, Start, int, Floats], Planned]


def end_components(rows: Rows) -> list[tuple[Ints, Ints]]:
    """The maximal end components: states and pairs of each, ascending, in the order of their first states."""
    label, stays = np.empty(rows.S, dtype=np.int64), np.empty(rows.K, dtype=np.bool_)
    split(rows, label, stays)
    return list(zip(groups(label, label >= 0), groups(label[rows.source], stays), strict=True))


class Column(NamedTuple):
    """A deterministic policy (S,) of pairs, its averages J (m + 1,), and its long-run law (S,), both from the start."""

    policy: Ints
    J: Floats
    law: Floats


class Priced(NamedTuple):
    """The best policy (n,) of a component for some cost, its average, and a lower bound of the least average.

    law: that of the policy (n,), where to find it once more would take long; else None.
    """

    policy: Ints
    gain: float
    bound: float
    law: Floats | None = None


class Component:
    """States that communicate by pairs that stay among them; `rows` numbers both anew."""

    def __init__(self, rows: Rows, states: Ints, pairs: Ints) -> None:
        """The component with these states and pairs of a model, ascending."""
        self.states, self.pairs = states, pairs
        whole = len(states) == rows.S and len(pairs) == rows.K
        self.rows = rows if whole else rows.part(states, pairs)
        self._last: Ints | None = None
        self._bias: Floats = np.zeros(self.rows.S)
        self._failed = self._hard = False
        self.inverted = inverted(self.rows)

    def chain(self, policy: Ints) -> sparse.csr_array:
        """The chain (n, n) of a policy."""
        return self.matrix[policy]

    @cached_property
    def matrix(self) -> sparse.csr_array:
        """The transitions (pairs, n)."""
        return self.rows.matrix()

    def price(self, c: Floats) -> Priced:
        """The policy with the least average of c (pairs,), one closed class, and the bound that proves it."""
        if self._hard:
            return self._cheapest(c)
        bound = -np.inf if self._failed else self._by_kernels(c)
        before = self._last
        if np.isneginf(bound) and self.rows.S > _HANDFUL:
            bound = self._by_places(c)
        elsewhere = self.inverted and self._last is not before
        found = self._iterated(c, self._first(c) if self._last is None else self._last, bound)
        if elsewhere and found.gain - found.bound > PROVEN:
            # Iterations that end somewhere else may have a better proof.
            with suppress(SolverError):
                again = self._iterated(c, self._first(c) if before is None else before, found.bound)
                found = again if again.gain <= found.gain else found._replace(bound=again.bound)
        if found.gain - found.bound > PROVEN and self._few:
            self._hard = True
            return self._cheapest(c)
        self._last = found.policy
        return found._replace(bound=max(found.bound, float(c.min())))

    def _iterated(self, c: Floats, policy: Ints, bound: float) -> Priced:
        """Policy iteration for the cost c (pairs,), every policy evaluated exactly, with the best bound on the way."""
        best, least, law = policy, np.inf, None
        seen: set[bytes] = set()
        tries = _TRIES if np.isneginf(bound) else 0
        advantages, noise = np.empty(self.rows.K), np.empty(self.rows.K)
        for _ in range(_ROUNDS):
            try:
                policy, found = self._with_one_class(policy, c)
            except SolverError:
                if least < np.inf:
                    break  # numbers beyond the range of floats: what was found before stays
                raise
            g = float(found.average_costs[0, 0])
            if g < least:
                best, least, law = policy, g, None if self.inverted else found.stationary
            if least - bound <= (CLOSE if self.inverted else PROVEN):
                break
            bounded_advantages(self.rows, c, g, found.parts[0], advantages, noise)
            with np.errstate(invalid="ignore"):  # beyond the range of floats nothing is proved
                low = float(np.min(advantages - noise))
            if not np.isnan(low):
                bound = max(bound, g + low - 4 * EPS * abs(g))
            name = policy.tobytes()
            if least - bound <= 16 * EPS or name in seen:
                break
            seen.add(name)
            policy = self._improved(policy, advantages, noise)
            if tries > 0 and np.ptp(found.parts[0, 0]) < _TAME:
                # The hard part is over: kernels pass improvements on from state to state, and prove the rest.
                tries -= 1
                self._last = policy
                bound = max(bound, self._by_kernels(c))
                policy = self._last
        return Priced(best, least, bound, law)

    @cached_property
    def _alike(self) -> tuple[Ints, Ints]:
        """Of the pairs of a state with the same moves the first, for each pair; and all of these, ascending."""
        rows, first = self.rows, np.empty(self.rows.K, dtype=np.int64)
        known: dict[tuple[int, bytes, bytes], int] = {}
        for k, s in enumerate(rows.source):
            moves = slice(rows.indptr[k], rows.indptr[k + 1])
            first[k] = known.setdefault((int(s), rows.indices[moves].tobytes(), rows.data[moves].tobytes()), k)
        return first, np.unique(first)

    @property
    def _few(self) -> bool:
        """Whether the deterministic policies can be counted through."""
        choices = np.bincount(self.rows.source[self._alike[1]])
        return float(np.log(choices).sum() + 2 * np.log(self.rows.S)) <= np.log(_COUNTED)

    @cached_property
    def _laws(self) -> tuple[Ints, Floats]:
        """Every closed class of deterministic policies made of pairs that differ: policies (k, n) and laws (k, n)."""
        choices = self._alike[1]
        return closed_laws(self.rows, choices, np.searchsorted(choices, self.rows.begin))

    def _cheapest(self, c: Floats) -> Priced:
        """The best of all deterministic policies: where biases leave the range of floats, nothing else proves it."""
        (policies, laws), (first, choices) = self._laws, self._alike
        by_price = np.lexsort((c, first))
        cheapest = np.empty(self.rows.K, dtype=np.int64)
        cheapest[choices] = by_price[np.searchsorted(first[by_price], choices)]
        gains = np.einsum("ks,ks->k", laws, c[cheapest[policies]])
        k = int(np.argmin(gains))
        policy, inside = cheapest[policies[k]], np.zeros(self.rows.S, dtype=np.bool_)
        closed_class(self.rows, policy, int(laws[k].argmax()), inside)
        best = policy if inside.all() else self.led(policy, {int(s): int(policy[s]) for s in np.flatnonzero(inside)})
        return Priced(best, float(gains[k]), float(gains[k]) - 8 * self.rows.S * EPS * float(np.abs(c).max()))

    def _by_kernels(self, c: Floats, factors: bool = False) -> float:
        """The bound that inverses or sparse factors prove, and the policy that goes with it as the next start."""
        none = np.zeros(0)
        found = self.plan(np.ascontiguousarray(c[np.newaxis]), Limits(none, none), VALUE, none, none, factors=factors)
        optimum = found.optimum
        if optimum.status != OPTIMAL or not optimum.objective - optimum.bound <= PROVEN:
            return -np.inf
        self._last = found.columns.policies[optimum.master.basis[0]].copy()
        return float(optimum.bound)

    def _by_places(self, c: Floats) -> float:
        """The same by sparse factors, from policies that go to a good place, wherever they are, and stay there.

        Where parts of a model are hardly ever left, better and better ones are found one at a time, by way of policies
        that stay in several, and whose biases have no digits left. What is left once in a while, for a place to which
        one returns, has no such parts, and shows which is good.
        """
        none, alone = np.zeros(0), np.ascontiguousarray(c[np.newaxis])
        home, self._last, _ = self._sighted(c, hopeful=True)
        for rate in _RATES:
            rows = self.rows.with_restarts(rate, home)
            found = self.plan(alone, Limits(none, none), VALUE, none, none, rows=rows, factors=True)
            if found.status != OPTIMAL:
                break
            law, policy = found.mixture.laws[0], found.mixture.policies[0]
            core = np.flatnonzero(law >= _CORE * law.max())
            led = self.led(policy, dict(zip(core.tolist(), policy[core].tolist(), strict=True)))
            self._last = led
            bound = self._by_kernels(c, factors=True)
            if bound > -np.inf:
                return bound
            home, self._last = int(found.bias.argmin()), led
        return -np.inf

    def _sighted(self, c: Floats, hopeful: bool) -> tuple[int, Ints, Floats]:
        """The state from which some steps cost the least, the policy for them, and what they cost (S,).

        hopeful: whether to look for a place to stay at, or for what there is far away.
        """
        ahead, policy = discounted_value_iteration(
            self.rows, np.ascontiguousarray(c), _RATES[0], hopeful, _BLURRED, _SIGHT
        )
        return int(ahead.argmin()), policy, ahead

    def plan(
        self,
        costs: Floats,
        limits: Limits,
        goal: int,
        guess: Floats,
        bias: Floats,
        levels: Floats = NO_LEVELS,
        rows: Rows | None = None,
        factors: bool = False,
    ) -> Planned:
        """The best mixture by inverses or sparse factors, from where the last search ended, if there are many states.

        costs (m + 1, pairs); guess (m,) of the multipliers; bias (n,) to begin with, or none (0,); levels (pairs,) that
        decide between equals, or none (0,); rows: other probabilities than those of the model; factors: no inverses.
        """
        factors = factors or not self.inverted
        if factors and goal == MARGIN:
            _, self._last, bias = self._sighted(np.mean(costs[1:] / limits.d[:, np.newaxis], axis=0), hopeful=True)
        elif factors and self._last is None:
            _, self._last, bias = self._sighted(costs[0], hopeful=False)
        elif factors and len(bias):
            bias = self._bias
        first = self.rows.begin[:-1] if self._last is None else self._last
        start = Start(first[np.newaxis].copy(), guess, np.zeros(1, dtype=np.int64), bias)
        search = plan_sparse if factors else plan
        found = search(self.rows if rows is None else rows, costs, limits, start, goal, levels)
        if factors:
            self._last, self._bias = found.last.copy(), found.bias
            self._failed = found.status == FAILED and not self.inverted
        return found

    def _first(self, c: Floats) -> Ints:
        """Into the cheapest pair."""
        policy = self.rows.begin[:-1].copy()
        pair = int(c.argmin())
        s = int(np.searchsorted(self.rows.begin, pair, side="right")) - 1
        return self.led(policy, {s: pair})

    def led(self, policy: Ints, to: dict[int, int]) -> Ints:
        """The policy with the pairs `to` in some states, leading to these from elsewhere."""
        policy, led = policy.copy(), np.zeros(self.rows.S, dtype=np.bool_)
        for s, pair in to.items():
            policy[s], led[s] = pair, True
        if not lead(self.rows, policy, led):
            raise SolverError("states of a component do not lead to each other")
        return policy

    def _with_one_class(self, policy: Ints, c: Floats) -> tuple[Ints, Evaluation]:
        """The policy, led into its class with the least average if it has several, and its evaluation."""
        start = np.zeros(self.rows.S)
        start[0] = 1.0
        found = evaluate_chain(self.chain(policy), c[policy][np.newaxis], start)
        if len(found.classes) > 1:
            best = min(found.classes, key=lambda states: float(found.average_costs[0, states[0]]))
            policy = self.led(policy, {int(s): int(policy[s]) for s in best})
            found = evaluate_chain(self.chain(policy), c[policy][np.newaxis], start)
        return policy, found

    def _improved(self, policy: Ints, advantages: Floats, noise: Floats) -> Ints:
        """The policy with the best pair wherever it is better by more than rounding."""
        begin = self.rows.begin[:-1]
        worst = np.where(np.isnan(advantages), np.inf, advantages)
        least = np.minimum.reduceat(worst, begin)
        source = self.rows.source
        first = np.flatnonzero(worst == least[source])
        best = first[np.searchsorted(source[first], np.arange(self.rows.S))]
        return np.where(least < -noise[best], best, policy)


class Components:
    """A way of pricing for the frame of column generation, see the module's docstring.

    costs (m + 1, K), scaled; start: the law (S,) from which averages count, None for the stateless program.
    """

    def __init__(self, rows: Rows, costs: Floats, start: Floats | None) -> None:
        self.rows, self.costs, self.start = rows, costs, start
        self.parts = [Component(rows, states, pairs) for states, pairs in end_components(rows)]
        self.columns: list[Column] = []
        self.J = np.empty((_ROOM, len(costs)))
        self.known = np.zeros(1, dtype=np.int64)

    def ask(self, question: Question) -> Reply:
        """Add the best column for some prices."""
        c = np.append(question.main, question.prices) @ self.costs
        spent = float(question.prices @ question.tau)
        priced = [part.price(c[part.pairs]) for part in self.parts]
        if self.start is None:
            gains = [self._column(k, found) for k, found in enumerate(priced)]
            best = min(gains, key=lambda column: float(np.append(question.main, question.prices) @ column.J))
            bound = min(found.bound for found in priced)
        else:
            best, bound = self._routed(priced)
        # The same policy may be two columns: one for each component in which it stays.
        if not any(np.array_equal(best.policy, k.policy) and np.array_equal(best.J, k.J) for k in self.columns):
            self.add(best)
        return Reply(self.known[0] < _ROOM, bound - spent, question.prices.copy(), False, question.prices)

    def add(self, column: Column) -> None:
        """Add a column."""
        self.columns.append(column)
        self.J[self.known[0]] = column.J
        self.known[0] += 1

    def column(self, policy: Ints) -> Column:
        """A policy (S,) of the whole model as a column."""
        start = np.full(self.rows.S, 1.0 / self.rows.S) if self.start is None else self.start
        found = evaluate_chain(self.rows.matrix()[policy], self.costs[:, policy], start)
        return Column(policy, found.average_costs @ start, found.stationary)

    def _column(self, k: int, priced: Priced) -> Column:
        """The policy of a component, evaluated there; elsewhere the first pair."""
        part, own = self.parts[k], priced.policy
        policy = self.rows.begin[:-1].copy()
        policy[part.states] = part.pairs[own]
        chosen, law = self.costs[:, part.pairs[own]], np.zeros(self.rows.S)
        if priced.law is not None:
            law[part.states] = priced.law
            return Column(policy, chosen @ priced.law, law)
        start = np.zeros(len(part.states))
        start[0] = 1.0
        found = evaluate_chain(part.chain(own), chosen, start)
        law[part.states] = found.stationary
        return Column(policy, found.average_costs[:, 0], law)

    def _routed(self, priced: list[Priced]) -> tuple[Column, float]:
        """The column that ends where it is best to end, from the start law; and a bound of its average."""
        gains = np.array([found.gain for found in priced])
        choice, V, proved = self.quotient.best(gains)
        loss = max(found.gain - found.bound for found in priced)
        policy = self.quotient.policy(choice, [found.policy for found in priced])
        assert self.start is not None
        least = float(self.start @ V[self.quotient.node]) if proved else float(gains.min())
        return self.column(policy), least - loss - _LEVEL

    @cached_property
    def quotient(self) -> Quotient:
        """The model in which every component is one state."""
        return Quotient(self.rows, self.parts)


class Quotient:
    """The model in which every component is one node, numbered first, and every other state one more.

    node (S,): of each state. pairs: those that are no component's own; begin: the first of each node.
    """

    def __init__(self, rows: Rows, parts: list[Component]) -> None:
        self.rows, self.parts = rows, parts
        self.node = np.full(rows.S, -1)
        own = np.zeros(rows.K, dtype=np.bool_)
        for k, part in enumerate(parts):
            self.node[part.states] = k
            own[part.pairs] = True
        rest = np.flatnonzero(self.node < 0)
        self.node[rest] = len(parts) + np.arange(len(rest))
        self.size = len(parts) + len(rest)
        pairs = np.flatnonzero(~own)
        of = self.node[rows.source[pairs]]
        order = np.argsort(of, kind="stable")
        self.pairs, self.of = pairs[order], of[order]
        moves = rows.matrix()[self.pairs]
        member = sparse.csr_array((np.ones(rows.S), (np.arange(rows.S), self.node)), shape=(rows.S, self.size))
        led = sparse.coo_array(moves @ member)
        away = led.col != self.of[led.row]
        self.row, self.end, chance = led.row[away], led.col[away], led.data[away]
        # Only where a node is left to counts, however long that takes: next to 1 - 1e-20, 1e-20 could not be seen.
        self.chance = chance / np.bincount(self.row, chance, minlength=len(self.pairs))[self.row]
        shape = (len(self.pairs), self.size)
        self.matrix = sparse.csr_array((self.chance, (self.row, self.end)), shape=shape)

    def best(self, gains: Floats) -> tuple[Ints, Floats, bool]:
        """For the price of stopping in each component: the row of `pairs` to take in each node, -1 to stop; V; proved.

        Proved: no pair and no stop is better, so that V is the least price of stopping but for rounding.
        """
        K = len(self.parts)
        nodes = np.arange(self.size)
        choice = np.where(nodes < K, -1, np.searchsorted(self.of, nodes))
        prices = np.append(gains, np.full(self.size - K, np.inf))
        V = self._values(choice, prices)
        for _ in range(_ROUNDS):
            better = self._better(choice, V, prices)
            if np.array_equal(better, choice):
                return choice, V, True
            W = self._values(better, prices)
            if W.sum() >= V.sum():
                break
            choice, V = better, W
        return choice, V, False

    def _better(self, choice: Ints, V: Floats, prices: Floats) -> Ints:
        """Better rows where there are any, and ways to them.

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
        held, way = self._held(level, good)
        # Of several rows the best is that with the least change for each time that what leads back is left.
        lost = np.bincount(self.row, self.chance * (out | ~held[self.end]), minlength=len(at))
        per = np.where(lower, change / np.where(lower, lost, 1.0), np.inf)
        result = np.where(held & ~good & ~stop, way, result)
        return np.where(good & ~stop, self._least(per), result)

    def _least(self, of_rows: Floats) -> Ints:
        """The row with the least number in each node; nodes without rows get any."""
        order = np.lexsort((of_rows, self.of))
        return order[np.searchsorted(self.of[order], np.arange(self.size)).clip(max=len(order) - 1)]

    def _held(self, level: Ints, good: Bools) -> tuple[Bools, Ints]:
        """The nodes that can surely be led to good ones without leaving their level, and the row of each that does."""
        held = np.isin(level, level[good])
        while True:
            inside = np.ones(len(self.pairs), dtype=np.bool_)
            inside[self.row[~held[self.end] | (level[self.end] != level[self.of[self.row]])]] = False
            way, led = np.full(self.size, -1), good.copy()
            while True:
                rows = np.flatnonzero(inside & ~led[self.of] & (self.matrix @ led > 0))
                if not len(rows):
                    break
                way[self.of[rows]] = rows
                led[self.of[rows]] = True
            if np.array_equal(led, held):
                return held, way
            held = led

    def _values(self, choice: Ints, prices: Floats) -> Floats:
        """The expected price of stopping (size,), from every node."""
        going = choice >= 0
        stay = sparse.csr_array(sparse.diags_array(np.where(going, 0.0, 1.0)))
        moves = sparse.csr_array(
            (np.ones(int(going.sum())), (np.flatnonzero(going), choice[going])), shape=(self.size, len(self.pairs))
        )
        chain = sparse.csr_array(stay + moves @ self.matrix)
        start = np.full(self.size, 1.0 / self.size)
        return evaluate_chain(chain, np.where(going, 0.0, prices)[np.newaxis], start).average_costs[0]

    def policy(self, choice: Ints, stays: list[Ints]) -> Ints:
        """The deterministic policy (S,): `stays` in components where it stops; else to the pair, and out."""
        policy = self.rows.begin[:-1].copy()
        for k, part in enumerate(self.parts):
            policy[part.states] = part.pairs[stays[k]]
            if choice[k] >= 0:
                pair = int(self.pairs[choice[k]])
                s = int(self.rows.source[pair])
                inside = int(np.searchsorted(part.states, s))
                way = part.led(stays[k], {inside: int(stays[k][inside])})
                policy[part.states] = part.pairs[way]
                policy[s] = pair
        for node in range(len(self.parts), self.size):
            pair = self.pairs[choice[node]]
            policy[self.rows.source[pair]] = pair
        return policy


def _levels(V: Floats) -> Ints:
    """A number for each node: the same where V is the same but for rounding."""
    order = np.argsort(V)
    steps = np.diff(V[order], prepend=V[order[:1]]) > _LEVEL
    level = np.empty(len(V), dtype=np.int64)
    level[order] = np.cumsum(steps)
    return level


def inverted(rows: Rows) -> bool:
    """Whether policies of a model are evaluated by inverses: few states, or more moves than sparse factors are for.

    That is in half of the pairs or more: policies keep to those that are known, whatever moves the others have.
    """
    S, K = len(rows.begin) - 1, len(rows.indptr) - 1
    if S <= SMALL:
        return True
    # The number of all moves is at hand, that of each pair is not.
    if S > _LARGEST or int(rows.indptr[-1]) < 0.5 * _FULL * S * K:
        return False
    return int(np.count_nonzero(np.diff(rows.indptr) >= _FULL * S)) >= 0.5 * K


def planner(rows: Rows) -> Planner:
    """The compiled planner for a model."""
    return plan if inverted(rows) else plan_sparse
