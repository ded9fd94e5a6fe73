"""The judge is judged: closed forms, linear programs on ordinary models, and answers spoilt on purpose."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

import psconrl
from psconrl.cmdp import CMDP
from psconrl.planning import Member, Solution, best_policy, evaluate, solve
from tests.planning import attacks
from tests.planning.judge import judge, judge_best, literal
from tests.planning.oracle import Oracle
from tests.planning.reference import by_linprog

TOY = CMDP([[[0.5, 0.5], [0.9, 0.1]], [[0.5, 0.5], [0.1, 0.9]]], [[[0, 1], [1, 0]], [[1, 0], [0, 1]]], [0.2])


def birth_and_death(up: float, down: float, S: int) -> CMDP:
    p = np.zeros((S, 1, S))
    for s in range(S):
        p[s, 0, min(s + 1, S - 1)] += up
        p[s, 0, max(s - 1, 0)] += down
        p[s, 0, s] += 1 - up - down
    costs = np.zeros((S, S, 1))
    costs[np.arange(S), np.arange(S), 0] = 1.0  # cost i is the share of time in state i
    return CMDP(p, costs, np.ones(S - 1))


@pytest.mark.parametrize(("up", "down"), [(0.25, 0.5), (1e-200, 0.5), (0.125, 1e-300)])
def test_the_stationary_law_of_a_birth_and_death_chain(up: float, down: float) -> None:
    ratio = Fraction(up) / Fraction(down)
    law = [ratio**s for s in range(4)]
    oracle = Oracle.of(birth_and_death(up, down, 4))
    for start in oracle.averages(np.ones((4, 1))):
        assert start == [x / sum(law) for x in law]


def test_the_gamblers_ruin() -> None:
    """Absorption: from state s of 0..4, the right end is reached with (1 - r^s) / (1 - r^4), r = down / up."""
    p = np.zeros((5, 1, 5))
    p[0, 0, 0] = p[4, 0, 4] = 1.0
    for s in (1, 2, 3):
        p[s, 0, s + 1], p[s, 0, s - 1] = 0.25, 0.75
    costs = np.zeros((1, 5, 1))
    costs[0, 4] = 1.0
    averages = Oracle.of(CMDP(p, costs)).averages(np.zeros(5, dtype=int))
    assert [x for (x,) in averages] == [Fraction(1 - 3**s, 1 - 3**4) for s in range(5)]


def test_a_policy_that_chooses_by_chance() -> None:
    """Leaving state 0 with probability q, state 1 always: the share of time in 0 is 1 / (1 + q)."""
    cmdp = CMDP([[[1.0, 0.0], [0.0, 1.0]], [[1.0, 0.0], [1.0, 0.0]]], [[[1.0, 1.0], [0.0, 0.0]]])
    for q in (0.25, 1e-300):
        expected = 1 / (1 + Fraction(q) / (Fraction(1.0 - q) + Fraction(q)))
        assert Oracle.of(cmdp).averages_at_start([[1 - q, q], [1.0, 0.0]]) == [expected]


def test_stay_or_go_for_ever() -> None:
    """No stationary policy has the value: the limit lies between staying and going."""
    p = [[[1.0, 0.0], [0.0, 1.0]], [[0.0, 1.0], [0.0, 1.0]]]
    optimum = Oracle.of(CMDP(p, [[[0.0, 0.0], [1.0, 1.0]], [[1.0, 1.0], [0.0, 0.0]]], [0.25])).optimum
    assert optimum.value == Fraction(3, 4)
    assert optimum.multipliers == (Fraction(1),)
    assert optimum.margin == Fraction(1, 4)
    assert sorted(optimum.weights.values()) == [Fraction(1, 4), Fraction(3, 4)]


def test_the_stateless_program_chooses_its_class() -> None:
    p = [[[1.0, 0.0]], [[0.0, 1.0]]]
    cmdp = CMDP(p, [[[0.0], [1.0]], [[1.0], [0.0]]], [0.25])
    assert Oracle.of(cmdp).optimum.margin == Fraction(-3, 4)
    assert Oracle.of(cmdp, stateless=True).optimum.value == Fraction(3, 4)


def test_ordinary_models_by_linear_programming() -> None:
    seen = {True: 0, False: 0}
    for family in ("ordinary", "multichain", "periodic", "uneven"):
        for number in range(60):
            cmdp = attacks.model(family, number, entropy=7)
            if cmdp.matrix.data.min() < 1e-6:
                continue
            stateless = number % 2 == 1
            optimum = Oracle.of(cmdp, stateless).optimum
            other = by_linprog(cmdp, stateless)
            near = 1e-8 * float(np.abs(cmdp.costs).max())
            margin = np.inf if optimum.margin is None else float(optimum.margin)
            assert margin == other.margin or abs(margin - other.margin) <= near, literal(cmdp)
            if abs(margin) > near:
                assert (optimum.value is not None) == np.isfinite(other.value), literal(cmdp)
            if optimum.value is not None and np.isfinite(other.value):
                assert float(optimum.value) == pytest.approx(other.value, abs=near), literal(cmdp)
            seen[optimum.value is not None] += 1
    assert min(seen.values()) > 40


@pytest.mark.parametrize("family", attacks.FAMILIES)
def test_optima_prove_themselves(family: str) -> None:
    """The weights have the value and meet the limits, and the multipliers prove it: exactly, whatever the method."""
    for number in range(20):
        cmdp = attacks.model(family, number, entropy=8)
        for oracle in (Oracle.of(cmdp), Oracle.of(cmdp, stateless=True)):
            margin, binding, value, multipliers, weights = oracle.optimum
            assert sum(weights.values()) == 1
            assert min(weights.values()) > 0
            columns = {k: oracle._fractions(oracle.columns[k]) for k in weights}
            averages = [sum(w * columns[k][i] for k, w in weights.items()) for i in range(cmdp.m + 1)]
            room = [Fraction(float(t)) - x for t, x in zip(cmdp.thresholds, averages[1:], strict=True)]
            if value is None:
                assert margin == min(room) < 0
                assert sum(binding) == 1
                # No policy has less of the weighted excess.
                priced = [
                    sum(b * (x - Fraction(float(t))) for b, x, t in zip(binding, c[1:], cmdp.thresholds, strict=True))
                    for c in map(oracle._fractions, oracle.columns)
                ]
                assert min(priced) == -margin
            else:
                assert multipliers is not None
                assert averages[0] == value
                assert min(room, default=0) >= 0
                assert min(multipliers, default=0) >= 0
                assert all(x == 0 or r == 0 for x, r in zip(multipliers, room, strict=True))
                priced = [
                    c[0]
                    + sum(
                        b * (x - Fraction(float(t)))
                        for b, x, t in zip(multipliers, c[1:], cmdp.thresholds, strict=True)
                    )
                    for c in map(oracle._fractions, oracle.columns)
                ]
                assert min(priced) == value
                floats = np.array([float(x) for x in multipliers])
                assert oracle.lagrangian(floats) <= value


def test_averages_agree_with_evaluation() -> None:
    rng = np.random.default_rng(3)
    for family in ("ordinary", "multichain", "weakly_communicating", "periodic"):
        for number in range(20):
            cmdp = attacks.model(family, number, entropy=9)
            policy = rng.dirichlet(np.ones(cmdp.A), size=cmdp.S)
            exact = np.array([[float(x) for x in row] for row in Oracle.of(cmdp).averages(policy)]).T
            np.testing.assert_allclose(exact, evaluate(cmdp, policy).average_costs, rtol=1e-9, atol=1e-12)


def test_literals_are_the_model() -> None:
    for family in attacks.FAMILIES:
        cmdp = attacks.model(family, 1)
        assert eval(literal(cmdp), {"CMDP": CMDP}) == cmdp


def ideal(cmdp: CMDP) -> Solution:
    """The exact optimum, rounded to floats."""
    oracle = Oracle.of(cmdp)
    margin, _, value, multipliers, weights = oracle.optimum
    mixture = []
    for k, weight in weights.items():
        policy = np.array(oracle.policies[oracle.columns[k]])
        averages = np.array([float(x) for x in oracle.averages_at_start(policy)])
        mixture.append(Member(float(weight), policy, averages, np.ones(cmdp.S, dtype=np.bool_)))
    conflict = list(range(1, cmdp.m + 1)) if value is None else []
    for i in tuple(conflict):
        rest = oracle.relative_margin([j for j in conflict if j != i])
        if rest is not None and rest < 0:
            conflict.remove(i)
    return Solution(
        status="infeasible" if value is None else "optimal",
        value=float("nan") if value is None else float(value),
        policy=np.eye(cmdp.A)[mixture[0].policy],
        average_costs=np.sum([x.weight * x.average_costs for x in mixture], axis=0),
        long_run_costs=np.sum([x.weight * x.average_costs for x in mixture], axis=0),
        occupancy=np.zeros((cmdp.S, cmdp.A)),
        multipliers=np.array([float("nan") if multipliers is None else float(x) for x in multipliers or [0] * cmdp.m]),
        margin=float("inf") if margin is None else float(margin),
        conflict=tuple(conflict),
        program="multichain",
        classes=len(mixture),
        bias_spans=np.zeros(cmdp.m + 1),
        gap=0.0,
        attained=False,
        mixture=mixture,
    )


@pytest.mark.parametrize("family", attacks.FAMILIES)
def test_the_exact_answer_rounded_to_floats_passes(family: str) -> None:
    """However hard the model is: what the judge asks for can be had."""
    for number in range(40):
        cmdp = attacks.model(family, number, entropy=5)
        found = {failure.kind for failure in judge(cmdp, ideal(cmdp))}
        assert found <= {"attained"}, literal(cmdp)  # a mixture, also where a stationary policy would do


def test_right_answers_pass() -> None:
    assert judge(TOY, solve(TOY)) == []
    queue = psconrl.make("toy")
    assert judge(queue, solve(queue)) == []


@pytest.mark.parametrize(
    ("kind", "change"),
    [
        ("status", {"status": "infeasible", "value": np.nan, "margin": -0.1}),
        ("value", {"value": 0.1}),
        ("margin", {"margin": 0.1}),
        ("multipliers", {"multipliers": np.array([-1.0])}),
        ("multipliers", {"multipliers": np.array([3.0])}),
        ("averages", {"average_costs": np.array([0.5, 0.5])}),
        ("policy", {"policy": np.full((2, 2), 0.5)}),
        ("policy", {"policy": np.zeros((2, 2))}),
    ],
)
def test_spoilt_answers_do_not(kind: str, change: dict[str, object]) -> None:
    spoilt = replace(solve(TOY), **change)  # type: ignore[arg-type]
    assert kind in {failure.kind for failure in judge(TOY, spoilt)}


def test_conflicts_must_conflict_and_be_minimal() -> None:
    cmdp = CMDP([[[1.0]]], [[[0.0]], [[1.0]], [[1.0]]], [0.5, 2.0])
    solution = solve(cmdp)
    assert judge(cmdp, solution) == []
    for wrong in ((1, 2), (2,), ()):
        assert {f.kind for f in judge(cmdp, replace(solution, conflict=wrong))} == {"conflict"}


def test_spoilt_plans_do_not_pass() -> None:
    p, costs, tau = np.array(TOY.transitions), np.array(TOY.costs), np.array(TOY.thresholds)
    best = best_policy(p, costs, tau, join=1e-7)
    assert judge_best(p, costs, tau, best, 1e-7) == []
    for kind, wrong in (
        ("status", best._replace(feasible=False, policy=None)),
        ("value", best._replace(value=best.value + 0.01)),
        ("gap", best._replace(value=best.value + 1e-9, gap=0.0)),
        ("policy", best._replace(policy=np.full((2, 2), 0.5))),
        ("multipliers", best._replace(multipliers=np.array([-1.0]))),
    ):
        assert kind in {failure.kind for failure in judge_best(p, costs, tau, wrong, 1e-7)}
