"""The frame of column generation with a toy way of pricing in plain Python: columns out of a list."""

import numpy as np
import pytest

from psconrl._core.checks import Floats
from psconrl.planning.compiled.generation import (
    FAILED,
    INFEASIBLE,
    MARGIN,
    OPTIMAL,
    VALUE,
    Limits,
    Optimum,
    PricingProblem,
    PricingResult,
    generate,
    plain_generate,
)
from tests.planning.test_master import by_scipy


class Listed:
    """All columns are on a list; the cheapest for the prices is found by looking through it."""

    def __init__(self, columns: Floats) -> None:
        self.columns = columns
        self.J = np.empty((200, columns.shape[1]))
        self.known = np.zeros(1, dtype=np.int64)
        self.asked = 0

    def price(self, problem: PricingProblem) -> PricingResult:
        self.asked += 1
        totals = self.columns @ np.append(problem.main, problem.prices)
        best = self.columns[totals.argmin()]
        if not (self.J[: self.known[0]] == best).all(axis=1).any():
            self.J[self.known[0]] = best
            self.known[0] += 1
        bound = float(totals.min() - problem.prices @ problem.tau)
        return PricingResult(True, bound, problem.prices.copy(), False, problem.prices)


class Broken(Listed):
    """Fails at the third problem."""

    def price(self, problem: PricingProblem) -> PricingResult:
        result = super().price(problem)
        return result._replace(fine=self.asked < 3)


class Hinting(Listed):
    """Asks for every other problem to be asked again."""

    def price(self, problem: PricingProblem) -> PricingResult:
        result = super().price(problem)
        return result._replace(hinted=self.asked % 2 == 1, hint=problem.prices.copy())


def best(way: Listed, tau: Floats, goal: int, guess: Floats | None = None, halfway: bool = False) -> Optimum:
    m = len(tau)
    given = Limits(tau, np.ones(m)), goal, np.zeros(m) if guess is None else guess, 1e-10
    if not halfway:
        return plain_generate(type(way).price, way, *given)
    found: Optimum = generate.py_func(type(way).price, way, *given, True)
    return found


@pytest.mark.parametrize("halfway", [False, True])
@pytest.mark.parametrize(("m", "goal"), [(m, goal) for m in range(5) for goal in (VALUE, MARGIN) if m or goal == VALUE])
def test_the_best_mixture_of_a_list(m: int, goal: int, halfway: bool) -> None:
    rng = np.random.default_rng(np.random.SeedSequence([2, m, goal]))
    statuses = []
    for _ in range(40):
        columns = rng.random((int(rng.integers(1, 100)), m + 1))
        tau = rng.uniform(0.0, 0.6, m)
        guess = rng.random(m) * (rng.random() < 0.5)
        way = Listed(columns)
        found = best(way, tau, goal, guess, halfway)
        wanted = by_scipy(columns, Limits(tau, np.ones(m)), goal)
        statuses.append(found.status)
        assert found.status == (INFEASIBLE if np.isnan(wanted) else OPTIMAL)
        if found.status == INFEASIBLE:
            # The multipliers prove it: priced by them, every column exceeds the limits.
            assert ((columns[:, 1:] - tau) @ found.multipliers).min() > 0
            continue
        assert found.objective == pytest.approx(wanted, abs=1e-9)
        assert found.bound <= wanted + 1e-12
        assert found.objective - found.bound <= 1e-9
        priced = (columns[:, 1:] - tau) @ found.multipliers + (columns[:, 0] if goal == VALUE else 0.0)
        assert priced.min() == pytest.approx(found.bound, abs=1e-12)
        names = found.master.basis[found.master.basis >= 0]
        weights = found.master.weights[found.master.basis >= 0]
        averages = weights @ way.J[names]
        if goal == VALUE:
            assert averages[0] == pytest.approx(found.objective, abs=1e-10)
            assert (averages[1:] <= tau + 1e-9).all()
        else:
            assert (averages[1:] - tau).max() == pytest.approx(found.objective, abs=1e-9)
    assert goal == MARGIN or m == 0 or set(statuses) == {OPTIMAL, INFEASIBLE}


def test_without_limits_one_column_is_enough() -> None:
    way = Listed(np.random.default_rng(3).random((50, 1)))
    found = best(way, np.zeros(0), VALUE)
    assert (found.status, way.known[0], way.asked) == (OPTIMAL, 1, 1)
    assert found.objective == way.columns.min()


def test_limits_that_can_just_be_met() -> None:
    """Feasible on the edge, infeasible by more than rounding below it."""
    columns = np.array([[0.0, 1.0], [1.0, 0.25], [0.5, 0.5]])
    for below, status in ((0.0, OPTIMAL), (1e-13, OPTIMAL), (1e-6, INFEASIBLE)):
        found = best(Listed(columns), np.array([0.25 - below]), VALUE)
        assert found.status == status
        if status == OPTIMAL:
            assert found.objective == pytest.approx(1.0, abs=1e-9)


def test_a_good_guess_saves_questions() -> None:
    rng = np.random.default_rng(np.random.SeedSequence(4))
    columns, tau = rng.random((150, 2)), np.array([0.2])
    cold, warm = Listed(columns), Listed(columns)
    first = best(cold, tau, VALUE)
    again = best(warm, tau, VALUE, first.multipliers)
    assert again.objective == pytest.approx(first.objective, abs=1e-10)
    assert warm.asked <= cold.asked


def test_a_way_that_fails_is_told() -> None:
    angle = np.linspace(0.0, np.pi / 2, 150)
    columns = 1.0 - np.stack([np.sin(angle), np.cos(angle)], axis=1)
    assert best(Listed(columns), np.array([0.3]), VALUE).status == OPTIMAL
    assert best(Broken(columns), np.array([0.3]), VALUE).status == FAILED


@pytest.mark.parametrize("goal", [VALUE, MARGIN])
def test_a_hint_does_not_change_what_is_asked_for(goal: int) -> None:
    rng = np.random.default_rng(7)
    for _ in range(20):
        columns, tau = rng.random((30, 3)), np.full(2, 0.5)
        wanted, found = best(Listed(columns), tau, goal), best(Hinting(columns), tau, goal)
        assert found.status == wanted.status == OPTIMAL
        assert found.objective == pytest.approx(wanted.objective, abs=1e-9)
        assert found.bound <= found.objective + 1e-9
