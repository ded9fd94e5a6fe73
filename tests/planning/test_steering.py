"""Mixtures to be steered: columns, ways into cores, times between them, and the rule, each against a plain twin."""

from typing import Any

import numpy as np
import pytest

from psconrl import make, simulate, solve
from psconrl._core.checks import Bools, Floats, Ints
from psconrl.agents import Optimal
from psconrl.cmdp import CMDP
from psconrl.planning import steered as rule
from psconrl.planning.compiled.rows import Rows, closed_class
from psconrl.planning.components import Column
from psconrl.planning.evaluation import evaluate
from psconrl.planning.for_agents import Method, Steer, model_margin, plan_rows
from psconrl.planning.mixtures import executed, switching_times
from psconrl.planning.shortest_paths import shortest_path_policy
from psconrl.planning.steered import FREE, Steered
from psconrl.planning.steering import from_columns, from_solution


def steered_in(cmdp: CMDP, time: int = 10**4, method: Method = "compiled") -> Steered:
    costs = np.ascontiguousarray(cmdp.costs.reshape(cmdp.m + 1, -1))
    steer = Steer(time // 2, time, np.zeros(cmdp.m))
    made = plan_rows(
        Rows.from_sparse(cmdp.matrix), costs, cmdp.thresholds, join=1e-3, method=method, steer=steer
    ).steered
    assert made is not None
    return made


MODELS: dict[str, dict[str, Any]] = {
    "riverswim": {},
    "marsrover-4x4": {"slip": 0.1},
    "queue": {},
    "garnet": {"S": 12, "A": 3, "m": 3},
}


@pytest.mark.parametrize("name", MODELS)
def test_the_mixture_attains_the_optimum_within_the_limits(name: str) -> None:
    cmdp = make(name, **MODELS[name])
    solution, made = solve(cmdp), steered_in(cmdp)
    policies = made.policies(solution.policy)
    J = np.array(
        [evaluate(cmdp, policy).average_costs[:, policy_start(a)] for policy, a in zip_columns(made, policies)]
    )
    np.testing.assert_allclose(made.weights.sum(), 1.0)
    np.testing.assert_allclose(made.weights @ J[:, 0], solution.value, atol=1e-7)
    np.testing.assert_allclose(J[:, 1:] - cmdp.thresholds, made.drifts, atol=1e-7)
    assert (made.weights @ made.drifts <= 1e-7).all()
    assert (made.binding == (made.weights @ made.drifts > -1e-7)).all()
    assert (made.binding | (solution.multipliers < 1e-7)).all()


def zip_columns(made: Steered, policies: Floats) -> list[tuple[Floats, Ints]]:
    return list(zip(policies, made.actions, strict=True))


def policy_start(actions: Ints) -> int:
    """A state where a column comes."""
    return int(np.flatnonzero(actions >= 0)[0])


@pytest.mark.parametrize("name", MODELS)
def test_whatever_solves_it_gives_the_same_mixture(name: str) -> None:
    cmdp = make(name, **MODELS[name])
    first, *others = (steered_in(cmdp, method=method) for method in ("compiled", "components"))
    solution = from_solution(solve(cmdp), Steer(5000, 10**4, np.zeros(cmdp.m)), np.ones(cmdp.m + 1))
    assert solution is not None
    for other in (*others, solution):
        order, others_order = (np.lexsort(made.drifts.T) for made in (first, other))
        np.testing.assert_allclose(first.weights[order], other.weights[others_order], atol=1e-6)
        np.testing.assert_allclose(first.drifts[order], other.drifts[others_order], atol=1e-6)
        np.testing.assert_array_equal(first.actions[order] >= 0, other.actions[others_order] >= 0)
        np.testing.assert_allclose(first.slope, other.slope, rtol=1e-6)


@pytest.mark.parametrize(("S", "T"), [(6, 10**4), (6, 100), (12, 10**6)])
def test_ways_and_times_between_the_banks_of_a_river(S: int, T: int) -> None:
    """Left column: {0}. Right column: a birth-death chain with mass ratio 8, cut at 1 / (S sqrt(T)).

    From the left end to the core's nearest state x: a walk that moves up w.p. 0.4 and down w.p. 0.05 (not from 0).
    """
    made = steered_in(make("riverswim", S=S), T)
    law = 8.0 ** np.arange(S)
    law /= law.sum()
    core = law > 1 / (S * np.sqrt(T))
    first = int(np.argmax(core))
    up, times = 0.0, []
    for x in range(S):
        up = 1 / 0.4 + (0.05 / 0.4) * up if x else 1 / 0.4
        times.append(up)
    d = sum(times[:first]) + (np.arange(S) * law)[core].sum() / law[core].sum()
    np.testing.assert_allclose(made.slope, 1 + d, rtol=1e-9)
    left, right = np.argsort(made.drifts[:, 0])
    np.testing.assert_array_equal(made.transfers[left], np.zeros(S))
    np.testing.assert_array_equal(made.transfers[right], np.ones(S))
    np.testing.assert_array_equal(made.actions[left], [0] + [-1] * (S - 1))
    np.testing.assert_array_equal(made.actions[right], np.ones(S))
    np.testing.assert_allclose(made.directions[[left, right], 0], [-1, 1])


@pytest.mark.parametrize(("S", "T"), [(6, 10**4), (12, 10**6)])
def test_round_trips_are_those_of_the_solution(S: int, T: int) -> None:
    """Against the plain way from columns to cores and times between them."""
    cmdp = make("riverswim", S=S)
    rows, costs = Rows.from_sparse(cmdp.matrix), np.ascontiguousarray(cmdp.costs.reshape(2, -1))
    found = []
    for member in solve(cmdp).mixture:
        pairs = rows.begin[:-1] + member.policy
        law = evaluate(cmdp, np.eye(2)[member.policy]).stationary
        found.append(executed(rows, costs, Column(pairs, member.average_costs, law), cmdp.initial, T))
    times, made = switching_times(found), steered_in(cmdp, T)
    np.testing.assert_allclose(made.slope - 1, (times + times.T).max(), rtol=1e-9)
    ways = {tuple(member.policy - rows.begin[:-1]) for member in found}
    assert {tuple(way) for way in made.transfers} == ways


def test_ways_lead_into_the_cores_by_the_fastest_way() -> None:
    """Two rooms, joined by a corridor of three states: each column stays in its room."""
    p, c = np.zeros((7, 2, 7)), np.zeros((2, 7, 2))
    for s in range(7):
        p[s, 0, max(s - 1, 0)] = 1.0
        p[s, 1, min(s + 1, 6)] = 1.0
    c[0], c[0, 0, 0], c[0, 6, 1] = 1.0, 0.8, 0.0
    c[1, 6, 1] = 1.0
    cmdp = CMDP(p, c, [0.5])
    made = steered_in(cmdp)
    assert made.slope == pytest.approx(1 + 12)
    rows = Rows.from_sparse(cmdp.matrix)
    for k in range(2):
        core = np.zeros(7, dtype=np.bool_)
        core[0 if made.drifts[k, 0] < 0 else 6] = True
        way = shortest_path_policy(rows, core).pairs
        outside = ~core
        np.testing.assert_array_equal(made.transfers[k][outside], (way - rows.begin[:-1])[outside])


def two_places(time: int, costs: Floats) -> Steered:
    """Action 0 stays at 0 or at 2 for 10^8 steps in the mean, and goes 0, 1, 5, 2, 3, 0; action 1 stays at 4.

    costs (2, 12), the limit is 1 / 2, and the plan lasts to step `time`.
    """
    p, rare = np.zeros((6, 2, 6)), 1e-8
    for s, x in ((0, 1), (2, 3)):
        p[s, 0, s], p[s, 0, x] = 1 - rare, rare
    for s, a, x in ((1, 0, 5), (5, 0, 2), (3, 0, 0), (4, 0, 0), (1, 1, 0), (3, 1, 0)):
        p[s, a, x] = 1.0
    p[[0, 2, 4, 5], 1, 4] = 1.0
    rows = Rows.from_dense(p)
    law = np.array([1.0, rare, 1.0, rare, 0.0, rare])
    pairs = np.array([rows.begin[:-1], rows.begin[:-1] + 1])
    laws = np.array([law / law.sum(), np.eye(6)[4]])
    J = np.array([costs[:, own] @ law for own, law in zip(pairs, laws, strict=True)])
    columns = [(0.5, Column(*parts)) for parts in zip(pairs, J, laws, strict=True)]
    made = from_columns(rows, costs, columns, np.array([0.5]), Steer(time // 2, time, np.zeros(1)))
    assert made is not None
    return made


def test_a_core_that_would_fall_apart_keeps_its_unlikely_states() -> None:
    """From 1, action 1 leads back to 0 at once, the fastest way into the core {0, 2}, and would keep it there."""
    made = two_places(10**9, np.zeros((2, 12)))
    np.testing.assert_array_equal(made.transfers[0], [0, 0, 0, 0, 0, 0])
    np.testing.assert_array_equal(made.transfers[1, [0, 2, 4, 5]], 1)


def test_a_column_that_does_not_leave_a_part_of_its_class_in_time_is_several() -> None:
    """Of a mean over two places between which nobody goes in 100 steps, neither keeps the limit that it promises."""
    costs = np.zeros((2, 12))
    costs[1, [4, 9]] = 1.0  # at 2 by action 0, and at 4 by action 1
    whole, made = two_places(10**9, costs), two_places(100, costs)
    assert len(whole.transfers) == 2
    np.testing.assert_allclose(made.directions, [[-1.0], [1.0], [1.0]])
    np.testing.assert_array_equal(made.transfers[0, [0, 1, 2, 4]], [0, 1, 1, 0])  # from 2 by 4, which takes two steps
    np.testing.assert_array_equal(made.transfers[1, [1, 2]], [0, 0])
    for field in ("weights", "drifts", "actions"):  # what it promises in the long run is the same
        np.testing.assert_array_equal(getattr(made, field), getattr(whole, field))


def test_where_a_policy_stays_against_the_closed_classes() -> None:
    rng = np.random.default_rng(np.random.SeedSequence(5))
    sizes = set()
    for _ in range(100):
        p = rng.dirichlet(np.full(7, 0.2), size=(7, 1))
        rows, inside = Rows.from_dense(p), np.empty(7, dtype=np.bool_)
        least = float(rng.choice([1e-3, 0.02, 1 / 7]))
        closed_class(rows, rows.begin[:-1], 0, least, inside)
        chain = np.where(p[:, 0] >= least, p[:, 0], 0.0)
        after = np.linalg.matrix_power((chain + np.eye(7) > 0).astype(float), 7) > 0
        assert after[0, inside].all()
        assert (after[inside] == inside).all()  # all of them lead to all of them and nowhere else
        sizes.add(int(inside.sum()))
    assert len(sizes) > 4


def random_steered(rng: np.random.Generator, k: int, f: int, S: int, m: int) -> Steered:
    drifts, directions = rng.normal(size=(k, m)), rng.normal(size=(f, m))
    return Steered(
        np.full(k, 1 / k),
        rng.integers(-1, 3, (k, S)),
        drifts,
        rng.random(m),
        rng.random(m) < 0.7,
        rng.integers(-1, 3, (f, S)),
        directions / np.abs(directions).sum(axis=1, keepdims=True),
        np.tile([1.0, 0.0], (f, 1)),
        2.0,
    )


def plain_column(made: Steered, V: Floats, there: Bools) -> int:
    """The column of least score of those that are there, FREE if there are none."""
    counted = np.where(made.binding, V, np.maximum(V, 0))
    scores = np.where(there, (made.drifts * counted).sum(axis=1), np.inf)
    return int(scores.argmin()) if there.any() else FREE


def plain_action(made: Steered, V: Floats, acting: int, s: int) -> int:
    """The rule as its text has it."""
    k = len(made.actions)
    if acting >= k:
        return int(made.transfers[acting - k, s])
    if acting == FREE or made.actions[acting, s] < 0:
        acting = plain_column(made, V, made.actions[:, s] >= 0)
    return int(made.actions[acting, s]) if acting != FREE else -1


def plain_decision(made: Steered, V: Floats, acting: int, t: int) -> int:
    k = len(made.actions)
    way = plain_heading(made, V, acting - k if acting >= k else FREE, float(np.sqrt(made.slope * t)))
    if way != FREE:
        return k + way
    if len(V) == 1:
        return FREE
    decisions = [int(2 * k * np.sqrt(step / made.slope)) for step in (t - 1, t)]
    if 0 <= acting < k and decisions[0] == decisions[1]:
        return acting
    return plain_column(made, V, np.ones(k, dtype=np.bool_))


def plain_heading(made: Steered, V: Floats, forced: int, band: float) -> int:
    counted = np.where(made.binding, V, np.maximum(V, 0))
    corrected = -(made.directions * counted).sum(axis=1)
    if forced != FREE and corrected[forced] <= made.levels[forced, 1] * band:
        forced = FREE
    wanted = corrected > made.levels[:, 0] * band
    if forced != FREE:
        wanted &= corrected > corrected[forced] + band
    return int(np.where(wanted, corrected, -np.inf).argmax()) if wanted.any() else forced


def test_the_rule_against_its_text() -> None:
    rng = np.random.default_rng(np.random.SeedSequence(3))
    kinds = set()
    for _ in range(300):
        k, f, m = int(rng.integers(1, 5)), int(rng.integers(0, 4)), int(rng.integers(1, 4))
        made, t = random_steered(rng, k, f, 5, m), int(rng.integers(1, 500))
        V, acting = rng.normal(size=m) * 15, int(rng.integers(-1, k + f))
        band = np.sqrt(2.0 * t)
        assert rule.chosen(made, V, acting, 2) == plain_action(made, V, acting, 2)
        floored, again = V.copy(), V.copy()
        after = rule.settle(made, floored, acting, t)
        assert after == plain_decision(made, np.maximum(V, -band), acting, t)
        assert rule.settle.py_func(made, again, acting, t) == after
        np.testing.assert_array_equal(floored, np.maximum(V, -band))
        np.testing.assert_array_equal(floored, again)
        kinds.add((np.sign(acting - k + 0.5) + (acting != FREE), np.sign(after - k + 0.5) + (after != FREE)))
    assert len(kinds) == 9  # from and to each of: free, a column that is held, a way


@pytest.mark.parametrize("m", [2, 3, 5])
def test_with_several_limits_neither_excess_nor_regret_grows_in_proportion_to_time(m: int) -> None:
    T = 200_000
    for S, seed in ((8, 1), (20, 2)):
        cmdp = make("garnet", S=S, A=3, m=m, margin=0.02, seed=seed)
        agent = Optimal(cmdp.problem(), model=cmdp, execution="steered")
        run = simulate(agent, cmdp, T, seed, optimum=solve(cmdp))
        assert run.positive_violation[:, -1].max() < 0.002 * T
        assert abs(run.regret[-1]) < 0.004 * T  # its own noise is about 0.001


def test_a_new_plan_goes_on_in_the_direction_of_the_last() -> None:
    made = steered_in(make("riverswim"))
    k = len(made.actions)
    left = k + int(made.directions[:, 0].argmin())
    V = np.array([3.0])
    assert rule.take_over(made, V, np.array([-1.0]), 100) == left
    assert rule.take_over(made, V, np.array([0.0]), 100) == FREE
    right = k + int(made.directions[:, 0].argmax())
    assert rule.take_over(made, V, np.array([1.0]), 100) == right  # until half a band on the other side
    assert rule.take_over(made, 10 * V, np.array([1.0]), 100) == FREE
    assert rule.take_over(made, np.array([90.0]), np.array([0.0]), 100) == left


def test_a_reserve_where_no_column_lowers_a_limit() -> None:
    """One policy meets the limit exactly; what lowers it is no part of the optimum."""
    p = np.ones((1, 2, 1))
    cmdp = CMDP(p, [[[0.0, 1.0]], [[0.5, 0.0]]], [0.5])
    rows, costs = Rows.from_sparse(cmdp.matrix), np.ascontiguousarray(cmdp.costs.reshape(2, 2))

    def ways(t: int, time: int, V: float) -> Ints:
        best = plan_rows(rows, costs, cmdp.thresholds, join=1e-3, steer=Steer(t, time, np.array([V])))
        assert best.steered is not None
        if len(best.steered.transfers):
            np.testing.assert_array_equal(best.steered.directions, [[-1.0]])
            np.testing.assert_array_equal(best.steered.levels, [[2.0, 1.0]])
        return best.steered.transfers

    assert ways(100, 120, 11.0).tolist() == [[1]]
    assert ways(100, 120, 9.0).tolist() == []
    assert ways(100, 1000, 0.0).tolist() == [[1]]


@pytest.mark.parametrize("name", MODELS)
def test_the_margin_of_a_model(name: str) -> None:
    cmdp = make(name, **MODELS[name])
    found = model_margin(Rows.from_sparse(cmdp.matrix), cmdp.costs, cmdp.thresholds)
    np.testing.assert_allclose(found, solve(cmdp).margin, atol=1e-7)
