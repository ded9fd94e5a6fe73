"""Small models solved in exact rational arithmetic: the judge of the planner.

The exact model. Every float is a rational number, but a row of floats sums to one only up to rounding. What is read are
the probabilities of leaving, p(s' | s, a) for s' != s, as they are; p(s | s, a) is one minus these. (Should they exceed
one by rounding, the averages below are still defined: they depend on the rates of leaving alone, as in a chain that
moves only every other step.) A policy's rows are divided by their exact sums.

Averages. Each state is a row of integers [rates, weight, costs], all per visit. Taking a state n out of the chain,

    row_i <- out_n row_i + rate_i(n) row_n,       out_n = the sum of n's rates to the states that are left,

never subtracts, keeps integers, and adds to i what is spent in n between visits. Of each closed class one state is
left: its costs over its weight are the averages. Taking out the transient states leaves the absorption probabilities.

Optimum. From a fixed start law, what all policies can achieve is the convex hull of what the deterministic stationary
ones do; for the stateless program, of the averages of their closed classes. So the optimum is a linear program over the
weights of these columns, solved here by the simplex method in integers (no fractions in pivots, Bland's rule at last).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from fractions import Fraction
from functools import cached_property
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from psconrl._core.checks import Floats
from psconrl.cmdp import CMDP

Row = list[int]
MOST_POLICIES = 5000


class Column(NamedTuple):
    """Averages that can be had: cost i is numerators[i] / (denominator * unit_i)."""

    denominator: int
    numerators: tuple[int, ...]


class Optimum(NamedTuple):
    """margin: None without limits; value, multipliers: None if infeasible; weights: of the columns that attain it.

    binding (m,): how the margin grows with each limit.
    """

    margin: Fraction | None
    binding: tuple[Fraction, ...]
    value: Fraction | None
    multipliers: tuple[Fraction, ...] | None
    weights: dict[int, Fraction]


class Oracle:
    """The exact answers for a model (S, A, S) with few policies; from a start law, or stateless without one."""

    def __init__(self, transitions: Floats, costs: Floats, thresholds: Floats, initial: Floats | None = None) -> None:
        self.S, self.A, _ = transitions.shape
        self.m = len(thresholds)
        self.costs, self.thresholds, self.initial = costs, thresholds, initial
        limits = [[float(t)] if math.isfinite(t) else [] for t in thresholds]
        scaled = [_integers(_floats(c) + t) for c, t in zip(costs, [[], *limits], strict=True)]
        self.units = [unit for _, unit in scaled]
        pairs = self.S * self.A
        numerators = [numbers[:pairs] for numbers, _ in scaled]
        self.limits = [numbers[pairs] if len(numbers) > pairs else None for numbers, _ in scaled[1:]]
        self.pairs = [self._state_rows(s, transitions[s], numerators) for s in range(self.S)]
        self.start = None if initial is None else _integers(_floats(initial))[0]

    @staticmethod
    def of(cmdp: CMDP, stateless: bool = False) -> Oracle:
        """The oracle of a model, from its initial law or stateless."""
        p = cmdp.to_dense().transitions
        assert isinstance(p, np.ndarray)
        return Oracle(p, cmdp.costs, cmdp.thresholds, None if stateless else cmdp.initial)

    def _state_rows(self, s: int, p: Floats, numerators: list[Row]) -> list[Row]:
        """The integers [rates, weight, costs] of each action, at one scale for all actions of the state."""
        given = [0.0 if j == s else float(x) for row in p for j, x in enumerate(row)]
        rates, unit = _integers(given)
        rows = []
        for a in range(self.A):
            spent = [unit * c[s * self.A + a] for c in numerators]
            rows.append([*rates[a * self.S : (a + 1) * self.S], unit, *spent])
        return rows

    # Policies

    def averages(self, policy: ArrayLike) -> list[list[Fraction]]:
        """Exact averages [start state][cost] of a policy, (S, A) or one action per state (S,)."""
        rows = [self._mixed(s, weights) for s, weights in enumerate(_policy(policy, self.A))]
        starts = [[int(i == s) for i in range(self.S)] for s in range(self.S)]
        return [self._fractions(column) for column in self._from(rows, starts)]

    def averages_at_start(self, policy: ArrayLike) -> list[Fraction]:
        """Exact averages of a policy from the start law."""
        assert self.start is not None
        rows = [self._mixed(s, weights) for s, weights in enumerate(_policy(policy, self.A))]
        return self._fractions(self._from(rows, [self.start])[0])

    def class_averages(self, policy: ArrayLike) -> dict[tuple[int, ...], list[Fraction]]:
        """Exact averages in each closed class of a policy."""
        rows = [self._mixed(s, weights) for s, weights in enumerate(_policy(policy, self.A))]
        closed, _ = _classes(rows)
        return {states: self._fractions(_in_class(rows, states)) for states in closed}

    def _mixed(self, s: int, weights: Sequence[float]) -> Row:
        shares, _ = _integers(weights)
        chosen = [(share, row) for share, row in zip(shares, self.pairs[s], strict=True) if share]
        if len(chosen) == 1:
            return chosen[0][1]
        return [
            sum(share * x for (share, _), x in zip(chosen, xs, strict=True))
            for xs in zip(*(r for _, r in chosen), strict=True)
        ]

    def _from(self, rows: list[Row], starts: list[Row]) -> list[Column]:
        """What a chain costs on average from each start law."""
        closed, transient = _classes(rows)
        ends = [_in_class(rows, states) for states in closed]
        return [_absorbed(law, closed, ends) for law in _without(rows, transient, starts)]

    def _fractions(self, column: Column) -> list[Fraction]:
        return [Fraction(n, column.denominator * u) for n, u in zip(column.numerators, self.units, strict=True)]

    @property
    def columns(self) -> list[Column]:
        """What deterministic policies cost: from the start law, or in each of their closed classes."""
        return list(self.policies)

    @cached_property
    def policies(self) -> dict[Column, tuple[int, ...]]:
        """The columns, each with the actions of a policy that has these averages."""
        met = range(self.S) if self.start is None else self._met()
        choices: list[list[int]] = []
        for s, rows in enumerate(self.pairs):
            distinct = [a for a, row in enumerate(rows) if row not in rows[:a]]
            choices.append(distinct if s in met else distinct[:1])
        if math.prod(len(c) for c in choices) > MOST_POLICIES:
            raise ValueError(f"{math.prod(len(c) for c in choices)} policies are too many for exact arithmetic")
        found: dict[Column, tuple[int, ...]] = {}
        known: dict[tuple[Any, ...], Column] = {}
        for actions in product(*choices):
            rows = [self.pairs[s][a] for s, a in enumerate(actions)]
            closed, transient = _classes(rows)
            ends = []
            for states in closed:
                key = (states, tuple(actions[s] for s in states))
                if key not in known:
                    known[key] = _in_class(rows, states)
                ends.append(known[key])
            if self.start is not None:
                ends = [_absorbed(_without(rows, transient, [self.start])[0], closed, ends)]
            for column in ends:
                found.setdefault(column, actions)
        return found

    def _met(self) -> set[int]:
        """The states that the start law can lead to."""
        assert self.start is not None
        met = {s for s in range(self.S) if self.start[s]}
        ahead = list(met)
        while ahead:
            s = ahead.pop()
            for row in self.pairs[s]:
                new = {j for j in range(self.S) if row[j]} - met
                met |= new
                ahead += new
        return met

    # The linear program over columns

    @cached_property
    def optimum(self) -> Optimum:
        """Margin, value, multipliers and the columns that attain them."""
        return self._solve(self.limits, [Fraction(1)] * self.m)

    @property
    def feasible(self) -> bool:
        """Whether the limits can be met, exactly."""
        return self.optimum.value is not None

    def ranges(self) -> list[Fraction]:
        """The range of each cost; where it is constant, its size."""
        ranges = []
        for c in self.costs:
            most, least = Fraction(float(c.max())), Fraction(float(c.min()))
            ranges.append(most - least or abs(most) or Fraction(1))
        return ranges

    def relative_margin(self, held: Iterable[int] | None = None) -> Fraction | None:
        """The largest gamma with J_i <= tau_i - gamma range_i for all i, or for those held; None if unlimited."""
        kept = range(1, self.m + 1) if held is None else list(held)
        limits = [limit if i in kept else None for i, limit in enumerate(self.limits, start=1)]
        return self._solve(limits, self.ranges()[1:], value=False).margin

    def moved(self, by: Sequence[Fraction]) -> Optimum:
        """The optimum with other limits tau_i + by_i."""
        limits: list[Fraction | int | None] = [
            None if limit is None else limit + b * u
            for limit, b, u in zip(self.limits, by, self.units[1:], strict=True)
        ]
        return self._solve(limits, [Fraction(1)] * self.m)

    def lagrangian(self, multipliers: Floats) -> Fraction:
        """min over all policies of J_0 + sum_i lambda_i (J_i - tau_i): a lower bound of the value if lambda >= 0."""
        prices = [
            Fraction(0) if limit is None else Fraction(float(x))
            for x, limit in zip(multipliers, self.limits, strict=True)
        ]
        # One integer for each cost and one for the denominator, over a common denominator.
        shares = [Fraction(1, self.units[0]), *(x / u for x, u in zip(prices, self.units[1:], strict=True))]
        fixed = -sum(
            (
                x * limit / u
                for x, limit, u in zip(prices, self.limits, self.units[1:], strict=True)
                if limit is not None
            ),
            Fraction(0),
        )
        below = math.lcm(*(x.denominator for x in (*shares, fixed)))
        times = [int(x * below) for x in shares]
        least = min(
            Fraction(sum(t * n for t, n in zip(times, c.numerators, strict=True)), c.denominator) for c in self.columns
        )
        return least / below + fixed

    def _solve(self, limits: Sequence[int | Fraction | None], scale: Sequence[Fraction], value: bool = True) -> Optimum:
        """Margin with gamma in units of `scale`, then value, for limits in units of each cost."""
        columns = list(self.policies)
        held = [i for i, limit in enumerate(limits) if limit is not None]
        if not held:
            best = min(range(len(columns)), key=lambda k: Fraction(columns[k].numerators[0], columns[k].denominator))
            least = self._fractions(columns[best])[0]
            nothing = (Fraction(0),) * self.m
            return Optimum(None, nothing, least, nothing, {best: Fraction(1)})
        rows: list[Row] = [[c.denominator for c in columns] + [0] * (1 + len(held)) + [1]]
        factors = []
        for position, i in enumerate(held):
            limit, gamma = Fraction(limits[i] or 0), scale[i] * self.units[i + 1]
            factor = math.lcm(limit.denominator, gamma.denominator)
            top = int(limit * factor)
            slack = [factor if j == position else 0 for j in range(len(held))]
            excess = [factor * c.numerators[i + 1] - top * c.denominator for c in columns]
            rows.append([*excess, int(gamma * factor), *slack, 0])
            factors.append(self.units[i + 1])
        program = Tableau(rows, [c.numerators[0] for c in columns] + [0] * (1 + len(held)))
        margin, prices = program.largest_gamma(len(columns))
        binding = [Fraction(0)] * self.m
        for i, price, unit in zip(held, prices, factors, strict=True):
            binding[i] = price * unit
        if margin < 0 or not value:
            return Optimum(margin, tuple(binding), None, None, program.weights(columns))
        least, prices = program.least_cost(len(columns))
        multipliers = [Fraction(0)] * self.m
        for i, price, unit in zip(held, prices, factors, strict=True):
            multipliers[i] = price * unit / self.units[0]
        return Optimum(margin, tuple(binding), least / self.units[0], tuple(multipliers), program.weights(columns))


class Tableau:
    """A simplex tableau of integers; `size` times the true one.

    Rows: the weights sum to one, then one per limit. Columns: the weights, gamma, the slacks, the right-hand side.
    """

    def __init__(self, rows: list[Row], cost: Row) -> None:
        self.rows, self.cost, self.size = rows, cost, 1
        self.basis = [-1] * len(rows)

    def largest_gamma(self, count: int) -> tuple[Fraction, list[Fraction]]:
        """max gamma, whose sign is free, and the prices of the limits."""
        gamma = count
        self.rows.append([0] * gamma + [-1] + [0] * (len(self.rows[0]) - gamma - 1))
        slacks = range(gamma + 1, len(self.rows[0]) - 1)
        self._enter(0, 0)
        for r, slack in enumerate(slacks, start=1):
            # A slack may have a coefficient other than one; entering it makes the tableau consistent.
            self._enter(r, slack)
        tight = min(range(1, len(self.basis)), key=lambda r: Fraction(self.rows[r][-1], self.rows[r][gamma]))
        self._enter(tight, gamma)
        self._optimise(free=gamma)
        objective = self.rows[-1]
        return Fraction(objective[-1], self.size), self._prices(slacks)

    def least_cost(self, count: int) -> tuple[Fraction, list[Fraction]]:
        """min cost with gamma >= 0, from the vertex of a margin that is not negative; prices of the limits."""
        objective = [self.size * c for c in (*self.cost, 0)]
        for row, j in zip(self.rows[:-1], self.basis, strict=True):
            price = self.cost[j]
            if price:
                objective = [x - price * y for x, y in zip(objective, row, strict=True)]
        self.rows[-1] = objective
        self._optimise(free=-1)
        return Fraction(-self.rows[-1][-1], self.size), self._prices(range(count + 1, len(self.rows[0]) - 1))

    def weights(self, columns: list[Column]) -> dict[int, Fraction]:
        """The weight of each column in the vertex."""
        return {
            j: Fraction(row[-1] * columns[j].denominator, self.size)
            for j, row in zip(self.basis, self.rows[:-1], strict=True)
            if j < len(columns) and row[-1]
        }

    def _prices(self, slacks: range) -> list[Fraction]:
        return [Fraction(self.rows[-1][j], self.size) for j in slacks]

    def _optimise(self, free: int) -> None:
        """Simplex steps; the variable `free` stays in the basis once it is there."""
        for step in range(10**6):
            costs = self.rows[-1][:-1]
            enters = min(range(len(costs)), key=costs.__getitem__)
            if costs[enters] >= 0:
                return
            if step > 50:  # Bland's rule never cycles
                enters = next(j for j, c in enumerate(costs) if c < 0)
            leaves = -1
            for r, row in enumerate(self.rows[:-1]):
                if row[enters] > 0 and self.basis[r] != free:
                    if leaves >= 0:
                        best = self.rows[leaves]
                        more = row[-1] * best[enters] - best[-1] * row[enters]
                        if more > 0 or (more == 0 and self.basis[r] > self.basis[leaves]):
                            continue
                    leaves = r
            assert leaves >= 0, "the program is bounded: the weights sum to one"
            self._enter(leaves, enters)

    def _enter(self, r: int, j: int) -> None:
        """Make column j basic in row r."""
        row = self.rows[r]
        if row[j] < 0:
            row = self.rows[r] = [-x for x in row]
        pivot, size = row[j], self.size
        for i, other in enumerate(self.rows):
            if i != r:
                f = other[j]
                if f:
                    self.rows[i] = [(pivot * x - f * y) // size for x, y in zip(other, row, strict=True)]
                elif pivot != size:
                    self.rows[i] = [pivot * x // size for x in other]
        self.size = pivot
        self.basis[r] = j


def _floats(array: Floats) -> list[float]:
    return [float(x) for x in np.asarray(array).ravel()]


def _integers(numbers: Sequence[float]) -> tuple[Row, int]:
    """Floats as integers over a common power of two, the unit."""
    ratios = [x.as_integer_ratio() for x in numbers]
    unit = max((d for _, d in ratios), default=1)
    return [n * (unit // d) for n, d in ratios], unit


def _policy(policy: ArrayLike, A: int) -> list[list[float]]:
    array = np.asarray(policy)
    if array.ndim == 1:
        array = np.eye(A)[array]
    return [_floats(row) for row in array]


def _classes(rows: list[Row]) -> tuple[list[tuple[int, ...]], list[int]]:
    """The closed classes of a chain and its transient states."""
    S = len(rows)
    reach = [sum(1 << j for j in range(S) if row[j]) | 1 << i for i, row in enumerate(rows)]
    for k in range(S):
        for i in range(S):
            if reach[i] >> k & 1:
                reach[i] |= reach[k]
    closed: list[tuple[int, ...]] = []
    transient = []
    for i in range(S):
        states = [j for j in range(S) if reach[i] >> j & 1]
        if all(reach[j] == reach[i] for j in states):
            if states[0] == i:
                closed.append(tuple(states))
        else:
            transient.append(i)
    return closed, transient


def _in_class(rows: list[Row], states: tuple[int, ...]) -> Column:
    """The averages of a closed class."""
    S = len(rows)
    kept = [[*(rows[i][j] for j in states), *rows[i][S:]] for i in states]
    for n in range(len(states) - 1, 0, -1):
        last = kept[n]
        out = sum(last[:n])
        gone = last[:n] + last[n + 1 :]
        for i in range(n):
            f = kept[i][n]
            rest = kept[i][:n] + kept[i][n + 1 :]
            if f:
                rest = [out * x + f * y for x, y in zip(rest, gone, strict=True)]
            rest[i] = 0
            kept[i] = rest
    _, weight, *spent = kept[0]
    common = math.gcd(weight, *spent)
    return Column(weight // common, tuple(c // common for c in spent))


def _without(rows: list[Row], transient: list[int], starts: list[Row]) -> list[Row]:
    """Start laws, up to a factor, after the transient states have been left."""
    if not transient:
        return starts
    S = len(rows)
    left = {i: list(rows[i][:S]) for i in transient}
    laws = [list(law) for law in starts]
    for n in transient:
        gone = left.pop(n)
        gone[n] = 0
        out = sum(gone)
        for i, row in (*left.items(), *((-1, law) for law in laws)):
            f = row[n]
            if f:
                row[:] = [out * x + f * y for x, y in zip(row, gone, strict=True)]
                row[n] = 0
            if i >= 0:
                row[i] = 0
    return laws


def _absorbed(law: Row, closed: list[tuple[int, ...]], ends: list[Column]) -> Column:
    """The averages of the classes, weighted by the probabilities of ending there."""
    shares = [sum(law[j] for j in states) for states in closed]
    met = [(share, end) for share, end in zip(shares, ends, strict=True) if share]
    if len(met) == 1:
        return met[0][1]
    weight = math.lcm(*(end.denominator for _, end in met))
    times = [share * (weight // end.denominator) for share, end in met]
    spent = [
        sum(t * end.numerators[i] for t, (_, end) in zip(times, met, strict=True))
        for i in range(len(ends[0].numerators))
    ]
    weight *= sum(shares)
    common = math.gcd(weight, *spent)
    return Column(weight // common, tuple(c // common for c in spent))
