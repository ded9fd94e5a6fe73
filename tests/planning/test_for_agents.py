"""The fast planner against the careful one."""

from typing import Any

import numpy as np
import pytest

import psconrl
from psconrl import InvalidModelError, agents, structure
from psconrl.agents import planning
from psconrl.cmdp import CMDP
from psconrl.planning import best_policy, evaluate, for_agents, solve, ties
from psconrl.planning.compiled.rows import Rows
from psconrl.planning.components import inverted
from psconrl.planning.for_agents import Method
from psconrl.planning.model_rows import rows_of
from psconrl.planning.sparse_pricing import plan_sparse
from tests.planning.reference import by_linprog, cut_rows, fast_plan, random_cmdps


@pytest.mark.parametrize("name", ["marsrover-4x4", "marsrover-8x8", "box", "toy", "queue", "garnet", "dirichlet"])
def test_the_same_answer_as_solve(name: str) -> None:
    cmdp = psconrl.make(name)
    careful, fast = solve(cmdp), fast_plan(cmdp, join=1e-7)
    assert fast.feasible
    assert fast.connected
    assert fast.policy is not None
    assert fast.value == pytest.approx(careful.value, abs=1e-9)
    averages = evaluate(cmdp, fast.policy).average_costs.max(axis=1)
    assert averages[0] <= careful.value + 2e-7
    assert (averages[1:] <= cmdp.thresholds + 2e-7).all()
    warm = fast_plan(cmdp, join=1e-7, start=fast.start)
    assert warm.value == pytest.approx(fast.value, abs=1e-10)


def test_random_models() -> None:
    """Values of the stateless program to 1e-7, from a basis of another model as well as from none."""
    for cmdp in random_cmdps(50, entropy=7):
        if not structure.communicating(cmdp):
            continue
        wanted = solve(cmdp)
        found = fast_plan(cmdp, join=1e-7)
        near = cut_rows(0.9 * cmdp.to_dense().transitions + 0.1 / cmdp.S)
        other = CMDP(near, cmdp.costs, cmdp.thresholds)
        start = fast_plan(other, join=1e-7).start
        for plan in (found, fast_plan(cmdp, join=1e-7, start=start)):
            assert plan.feasible == wanted.feasible
            if plan.policy is None:
                assert np.isnan(plan.value)
                continue
            assert plan.value == pytest.approx(wanted.value, abs=1e-7)
            averages = evaluate(cmdp, plan.policy).average_costs.max(axis=1)
            limits = np.append(wanted.value, cmdp.thresholds)
            assert (averages <= limits + 1e-6).all(), cmdp


def test_limits_that_can_just_be_met_are_feasible() -> None:
    for theta in (0.3, 0.6, 0.9):
        toy = psconrl.make("toy", theta=theta, tau=1 / (1 + theta))
        assert fast_plan(toy, join=1e-3).feasible
        below = toy.replace(thresholds=toy.thresholds - 1e-6)
        assert not fast_plan(below, join=1e-3).feasible


def test_states_without_a_way_into_the_optimum_play_uniformly() -> None:
    p = np.zeros((3, 2, 3))
    p[:2, :, 0], p[2, :, 2] = 1.0, 1.0
    cmdp = CMDP(p, [[[0.0, 0.0], [1.0, 1.0], [1.0, 1.0]]])
    plan = fast_plan(cmdp, join=1e-3)
    assert not plan.connected
    assert plan.policy is not None
    np.testing.assert_array_equal(plan.policy[2], [0.5, 0.5])
    assert plan.value == 0


def test_several_classes_are_joined_with_the_given_weight() -> None:
    p = np.array([[[1.0, 0.0], [0.0, 1.0]], [[0.0, 1.0], [1.0, 0.0]]])
    c = np.array([[[0.0, 1.0], [1.0, 1.0]], [[1.0, 1.0], [0.0, 1.0]]])
    cmdp = CMDP(p, c, [0.5])
    plan = fast_plan(cmdp, join=0.01)
    assert plan.classes == 2
    assert plan.policy is not None
    averages = evaluate(cmdp, plan.policy).average_costs
    # The round trip is all switches, at a cost of (1, 1), for a share of 0.01 of the time.
    np.testing.assert_allclose(averages, 0.99 * 0.5 + 0.01, rtol=1e-12)
    np.testing.assert_allclose(plan.average_costs, averages[:, 0], rtol=1e-12)


def test_the_program_is_stateless_whatever_the_model() -> None:
    """Models that do not communicate: the value of the stateless program, as scipy finds it."""
    compared = 0
    for cmdp in random_cmdps(60, entropy=8):
        if not structure.communicating(cmdp):
            plan = fast_plan(cmdp, join=1e-3)
            other = by_linprog(cmdp, stateless=True)
            assert plan.feasible == (other.margin >= 0)
            if plan.feasible:
                compared += 1
                assert plan.value == pytest.approx(other.value, abs=1e-7)
                assert plan.policy is not None
                np.testing.assert_allclose(plan.policy.sum(axis=1), 1.0)
    assert compared > 5


@pytest.mark.parametrize("i", [0, 1])
def test_costs_that_are_no_numbers_are_refused(i: int) -> None:
    costs = np.zeros((2, 2, 1))
    costs[i, 0, 0] = np.nan
    with pytest.raises(InvalidModelError, match="finite"):
        best_policy(np.full((2, 1, 2), 0.5), costs, np.array([0.5]), join=0.1)


@pytest.mark.parametrize("method", ["compiled", "components"])
def test_states_with_different_numbers_of_actions(method: Method) -> None:
    """The second action of state 1 left out, or forbidden by a cost: the same value, and the same policy."""
    p = np.array([[[0.5, 0.5], [0.1, 0.9]], [[0.8, 0.2], [0.3, 0.7]]])
    costs = np.array([[[0.3, 0.9], [0.6, 0.2]], [[0.5, 0.1], [0.7, 0.4]]])
    rows = Rows.from_dense(p)
    fewer = rows.part(np.arange(2), np.arange(3))
    assert (fewer.S, fewer.K) == (2, 3)
    dear = costs.copy()
    dear[0, 1, 1] = 100.0
    whole = best_policy(p, dear, [0.5], join=1e-3, method=method)
    found = best_policy(fewer, costs.reshape(2, 4)[:, :3], [0.5], join=1e-3, method=method)
    assert found.value == pytest.approx(whole.value, abs=1e-8)
    assert whole.policy is not None
    assert found.policy is not None
    assert found.policy.shape == (3,)
    np.testing.assert_allclose(found.policy, whole.policy.ravel()[:3], atol=1e-7)


def test_component_by_component_gives_the_same_values() -> None:
    """Asked directly, what is asked in doubt only gives the same values, and proves them."""
    method: Method = "components"
    for cmdp in random_cmdps(25, entropy=10):
        fast, other = (fast_plan(cmdp, join=1e-7, method=how) for how in ("compiled", method))
        assert other.method == method
        assert fast.feasible == other.feasible
        if fast.feasible:
            assert other.value == pytest.approx(fast.value, abs=2e-8)
            assert other.average_costs[0] <= fast.value + 1e-6
            if other.classes == 1:
                assert (other.average_costs[1:] <= cmdp.thresholds + 1e-7).all()
                assert other.gap <= 1e-6


@pytest.mark.parametrize("method", ["compiled", "components"])
def test_ties_have_a_rule(method: Method) -> None:
    """Every action twice: each state takes the twin of the lower level; rounding of 1e-13 changes no action."""
    for k, cmdp in enumerate(filter(structure.communicating, random_cmdps(25, entropy=11))):
        p = cmdp.to_dense().transitions.repeat(2, axis=1)
        costs = cmdp.costs.repeat(2, axis=2)
        found = best_policy(p, costs, cmdp.thresholds, join=1e-3, method=method)
        if found.policy is None:
            continue
        level = ties.decided(np.zeros_like(costs))[0]
        lower = np.argmin(level.reshape(cmdp.S, cmdp.A, 2), axis=2)
        tied = level[:, ::2] == level[:, 1::2]
        used = found.policy.reshape(cmdp.S, cmdp.A, 2)
        recurrent = evaluate(CMDP(p, costs, cmdp.thresholds), found.policy).stationary > 1e-9
        other = np.take_along_axis(used, 1 - lower[..., None], axis=2)[..., 0]
        assert (other[recurrent] * ~tied[recurrent] == 0).all(), k
        noise = 1e-13 * np.random.default_rng(k).random(costs.shape)
        again = best_policy(p, costs + noise, cmdp.thresholds, join=1e-3, method=method)
        assert again.policy is not None
        np.testing.assert_array_equal(again.policy[recurrent] > 0, found.policy[recurrent] > 0, str(k))


def test_the_linear_program_takes_the_first_of_equal_level() -> None:
    """States that may be stayed in for ever, all alike: a vertex is one of them, by the rule and not by the solver."""
    for S in (16, 64, 121):
        p = np.zeros((S, 2, S))
        p[:, 0] = np.eye(S)
        p[np.arange(S), 1, (np.arange(S) + 1) % S] = 1.0
        costs = np.ones((1, S, 2))
        costs[0, :, 0] = 0.5
        found = best_policy(p, costs, (), join=1e-3, method="components")
        level = ties.decided(np.zeros_like(costs))[0, :, 0]
        assert found.classes == 1
        assert found.policy is not None
        assert found.start == {}
        stays = np.flatnonzero(found.policy[:, 0] == 1)
        assert stays.tolist() == [int(level.argmin())]


@pytest.mark.parametrize("cost", [1.0, 0.0])
def test_large_models_that_fall_apart(cost: float) -> None:
    """Two states apart from the others, which are too expensive to matter, or not."""
    rng = np.random.default_rng(np.random.SeedSequence(5))
    S, A = 150, 3
    p = rng.dirichlet(np.full(S, 0.03), (S, A))
    p[p < 1e-6] = 0.0
    p[:, :, :2] = 0.0
    p /= p.sum(axis=2, keepdims=True)
    p[:2] = 0.0
    p[:2, :, 0] = p[:2, :, 1] = 0.5
    costs = rng.random((2, S, A))
    costs[0, :2], costs[1, :2] = cost, 0.4
    tau = np.array([0.45])
    wanted = best_policy(p, costs, tau, join=0.01, method="components").value
    first = best_policy(p, costs, tau, join=0.01)
    hostile = {**first.start, "policies": np.full((1, S), 10**6), "reference": np.array([-7])} if first.start else None
    for start in (None, first.start, hostile):
        found = best_policy(p, costs, tau, join=0.01, start=start)
        assert (found.method, found.connected) == ("components", False)
        assert found.value == pytest.approx(wanted, abs=1e-8)
        assert found.gap <= 1e-6


def test_plans_along_a_run_keep_what_they_promise(monkeypatch: pytest.MonkeyPatch) -> None:
    """Samples of a prior of 0.0001 nearly fall apart; in one of these an inverse in between had lost its digits."""
    planned = []

    def plan(rows: Rows, costs: Any, thresholds: Any, **options: Any) -> for_agents.BestPolicy:
        best = for_agents.plan_rows(rows, costs, thresholds, **options)
        planned.append((rows, costs.copy(), thresholds, best))
        return best

    monkeypatch.setattr(planning, "plan_rows", plan)
    rover = psconrl.make("marsrover-8x8")
    psconrl.simulate(agents.PSConRL(rover.problem("estimated"), prior=0.0001), rover, 800, 0)
    assert len(planned) > 270
    for rows, costs, thresholds, best in planned:
        if best.policy is not None and best.classes == 1 and best.connected:
            found = evaluate(CMDP(rows.matrix(), costs, thresholds), best.policy).average_costs.max(axis=1)
            assert (found <= np.append(best.value, thresholds) + best.gap + 1e-9).all()


def test_columns_that_hardly_meet() -> None:
    """To rest is free, to work costs the limit; the two meet once in ten million steps."""
    leak = 1e-7
    p = np.zeros((3, 2, 3))
    p[0, :, 0], p[0, :, 1] = 1 - leak, leak  # resting, from where one may come to the door
    p[1, 0, 0] = p[1, 1, 2] = 1.0  # the door: back, or to work
    p[2, 0, 2], p[2, 0, 1] = 1 - leak, leak
    p[2, 1] = p[2, 0]
    costs = np.array([[[1.0, 1.0], [1.0, 1.0], [0.0, 0.0]], [[0.0, 0.0], [0.0, 0.0], [1.0, 1.0]]])
    best = best_policy(p, costs, [0.3], join=0.1)
    assert best.classes == 1
    assert best.policy is not None
    found = evaluate(CMDP(p, costs, [0.3]), best.policy).average_costs.max(axis=1)
    assert found == pytest.approx([0.7, 0.3], abs=1e-8)
    assert best.value == pytest.approx(found[0], abs=best.gap)


def test_many_moves_in_few_pairs_are_not_for_inverses() -> None:
    """A model in which most pairs are known well, and the others lead anywhere, as samples of a learned prior."""
    S, K = 200, 400
    for share, full in ((0.0, False), (0.3, False), (0.7, True)):
        moves = np.where(np.arange(K) < share * K, S, 1)
        indptr = np.concatenate([[0], np.cumsum(moves)])
        rows = Rows(np.arange(0, K + 1, 2), indptr, np.zeros(indptr[-1], dtype=np.int64), np.zeros(indptr[-1]))
        assert inverted(rows) == full


@pytest.mark.parametrize("S", [20, 200])
def test_mixtures_evaluated_anew(S: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where averages are rough, or columns hardly meet: distributions by elimination, and a start for the next plan."""
    cmdp = psconrl.make("garnet", S=S, A=3, m=2, seed=5)
    rows, costs = rows_of(cmdp), cmdp.pairs.taken(cmdp.costs).copy()
    monkeypatch.setattr(for_agents, "plan_sparse", lambda *args: plan_sparse(*args)._replace(off=1.0))
    monkeypatch.setattr(for_agents, "MIN_LINK", 2.0)
    best = best_policy(rows, costs, cmdp.thresholds, join=1e-3)
    for _ in range(2):
        assert best.value == pytest.approx(psconrl.solve(cmdp).value, abs=1e-7)
        assert best.policy is not None
        found = psconrl.evaluate(cmdp, best.policy).average_costs[:, 0]
        np.testing.assert_allclose(found, best.average_costs, atol=1e-9)
        assert ((best.start["paths"] == -1) | (best.start["paths"] // 3 == np.arange(S))).all()
        best = best_policy(rows, costs, cmdp.thresholds, join=1e-3, start=best.start)
