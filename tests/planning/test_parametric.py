"""Planning by inverses: its pieces against plain linear algebra, its answers against the linear program."""

from typing import Any

import numpy as np
import pytest
from scipy import sparse

import psconrl
from psconrl import CMDP, agents
from psconrl._core.checks import Floats, Ints
from psconrl._core.graph import closed_classes, is_communicating
from psconrl.planning import best_policy, evaluate, for_agents
from psconrl.planning.compiled import inverses
from psconrl.planning.compiled.generation import OPTIMAL
from psconrl.planning.compiled.master import VALUE, Limits
from psconrl.planning.compiled.parametric import plan
from psconrl.planning.compiled.pricing import Start, dual_lower_bound, lagrangian_costs
from psconrl.planning.compiled.rows import Rows, closed_class, reach
from tests.agents.drawing import dense, draw_array
from tests.planning.reference import by_linprog, lower_bound


def sampled(seed: int, S: int, A: int, alpha: float = 0.01) -> Rows:
    """A model as the posterior draws it before anything was seen."""
    rng = np.random.default_rng(np.random.SeedSequence([11, seed]))
    shape = (S, A, S)
    return Rows.from_dense(draw_array(np.full(shape, alpha), np.zeros(shape, dtype=np.int64), rng))


def chain(rows: Rows, policy: Ints) -> Floats:
    """The transitions (S, S) of a policy of pairs."""
    return np.asarray(rows.matrix()[policy].toarray())


@pytest.mark.parametrize("seed", range(30))
def test_closed_classes_are_what_the_graph_says(seed: int) -> None:
    rows = sampled(seed, 2 + seed % 9, 2)
    rng = np.random.default_rng(seed)
    policy = rows.begin[:-1] + rng.integers(2, size=rows.S)
    wanted = {tuple(sorted(states)) for states in closed_classes(sparse.csr_array(chain(rows, policy)))}
    inside = np.empty(rows.S, dtype=np.bool_)
    for start in range(rows.S):
        assert inside[closed_class(rows, policy, start, 0.0, inside)]
        assert tuple(np.flatnonzero(inside)) in wanted
        reach(rows, policy, start, 0.0, inside)
        assert set(np.flatnonzero(inside)) >= {start, *np.flatnonzero(chain(rows, policy)[start])}
    member, led = inverses.make_unichain(rows, policy, rng.random(rows.K))
    if led:
        after = closed_classes(sparse.csr_array(chain(rows, policy)))
        assert len(after) == 1
        assert member in after[0]


def test_rerouting_keeps_the_cheapest_class() -> None:
    """Three states that may stay or go on: at different costs the one that costs least is where all end."""
    p = np.zeros((3, 2, 3))
    for s in range(3):
        p[s, 0, s] = p[s, 1, (s + 1) % 3] = 1.0
    rows = Rows.from_dense(p)
    for cheap in range(3):
        policy = rows.begin[:-1].copy()
        c = np.ones(6)
        c[2 * cheap] = 0.0
        assert inverses.make_unichain(rows, policy, c) == (cheap, True)
        np.testing.assert_array_equal(policy - rows.begin[:-1], np.arange(3) != cheap)


def test_updates_follow_the_inverse() -> None:
    """50 changes of a dense model: gain and bias to 1e-12 of those by plain linear algebra."""
    rng = np.random.default_rng(np.random.SeedSequence(12))
    S, A = 12, 3
    rows = Rows.from_dense(rng.dirichlet(np.ones(S), (S, A)))
    c = rng.random(S * A)
    own = inverses.Inverse(rows.begin[:-1].copy(), np.empty((S, S)), np.array([4]))
    assert inverses.refactor(rows, own, c)
    h, law = np.empty(S), np.empty(S)
    for _ in range(50):
        s, a = int(rng.integers(S)), int(rng.integers(A))
        wanted = own.policy.copy()
        wanted[s] = rows.begin[s] + a
        assert inverses.switch_policy(rows, own, wanted) < 0
        np.testing.assert_array_equal(own.policy, wanted)
        g = inverses.bias_of(rows, own, c, h)
        P, costs = chain(rows, wanted), c[wanted]
        np.testing.assert_allclose(g + h, costs + P @ h, rtol=0, atol=1e-12)
        inverses.stationary_of(rows, own, law)
        np.testing.assert_allclose(law @ P, law, rtol=0, atol=1e-14)
        assert law.sum() == pytest.approx(1.0, abs=1e-14)
        assert g == pytest.approx(law @ costs, abs=1e-12)


@pytest.mark.parametrize("m", [0, 1, 2, 3])
def test_nearly_deterministic_samples(m: int) -> None:
    """Values as HiGHS finds them; feasible or not is decided alike; policies keep their promise where they can."""
    infeasible = 0
    for seed in range(60):
        rng = np.random.default_rng(np.random.SeedSequence([13, m, seed]))
        S, A = int(rng.integers(2, 12)), int(rng.integers(2, 9))
        rows, costs = sampled(1000 * m + seed, S, A), rng.random((m + 1, S, A))
        thresholds = rng.uniform(0.05, 0.6, size=m)
        fast, slow = (
            best_policy(rows, costs, thresholds, join=1e-6, method=method) for method in ("compiled", "components")
        )
        assert fast.feasible == slow.feasible
        infeasible += not fast.feasible
        if fast.policy is None:
            continue
        assert fast.value == pytest.approx(slow.value, abs=1e-8)
        model = CMDP(dense(rows), costs, thresholds)
        exact = evaluate(model, fast.policy).average_costs
        if fast.connected and fast.classes == 1:
            assert fast.gap <= 1e-8
            np.testing.assert_allclose(exact, np.repeat(fast.average_costs[:, np.newaxis], S, axis=1), atol=1e-8)
            assert (exact[0] <= fast.value + 1e-6).all()
            assert (exact[1:] <= thresholds[:, np.newaxis] + 1e-6).all()
    assert m == 0 or infeasible > 0


@pytest.mark.parametrize("m", [0, 1, 2, 3])
def test_what_is_called_proven_is_proven(m: int) -> None:
    """The bound of `plan` is a dual bound in higher precision, the columns have the averages that they claim."""
    rng = np.random.default_rng(np.random.SeedSequence([15, m]))
    for _ in range(20):
        S, A = int(rng.integers(2, 15)), int(rng.integers(1, 5))
        p, costs = rng.dirichlet(np.full(S, 0.3), (S, A)), rng.random((m + 1, S, A))
        tau = rng.uniform(0.4, 0.7, m)
        rows, flat = Rows.from_dense(p), costs.reshape(m + 1, -1)
        start = Start(rows.begin[:-1][np.newaxis].copy(), np.zeros(m), np.zeros(1, dtype=np.int64), np.zeros(S))
        found = plan(rows, flat, Limits(tau, np.ones(m)), start, VALUE)
        cmdp = CMDP(p, costs, tau)
        wanted = by_linprog(cmdp, stateless=True)
        assert (found.optimum.status == OPTIMAL) == (wanted.margin >= 0)
        if found.optimum.status != OPTIMAL:
            continue
        assert found.optimum.objective == pytest.approx(wanted.value, abs=1e-8)
        assert found.optimum.bound <= wanted.value + 1e-8
        assert found.optimum.objective - found.optimum.bound <= 1e-8
        for k in range(found.columns.known[0]):
            exact = evaluate(cmdp, found.columns.policies[k] - rows.begin[:-1])
            np.testing.assert_allclose(found.columns.J[k], exact.average_costs[:, 0], atol=1e-10)
            np.testing.assert_allclose(found.columns.distributions[k], exact.stationary, atol=1e-10)
        # For any gain and bias the certificate is a lower bound, rounding included.
        c, h, g = np.empty(rows.K), rng.normal(size=S), float(rng.random())
        lagrangian_costs(c, flat, 1.0, found.optimum.multipliers)
        claimed = dual_lower_bound(rows, c, g, h) - float(found.optimum.multipliers @ tau)
        exactly = lower_bound(cmdp, found.optimum.multipliers, h)
        assert exactly - 1e-12 <= claimed <= exactly


def test_every_plan_of_a_run_is_certified(monkeypatch: pytest.MonkeyPatch) -> None:
    """By the compiled planner itself, unless the model falls apart, and as good as the linear program of it says."""
    runs = [("marsrover-4x4", 2_000, 2), ("queue", 500, 2), ("toy", 500, 2)]
    plans = plans_of(monkeypatch, runs)
    assert len(plans) > 500
    for (rows, *_), answer in plans:
        if answer is None:  # held together by moves of 1e-9, if at all
            assert rows.data.min() < 1e-8 or not is_communicating(rows.matrix())
        elif answer.feasible and answer.classes == 1:
            assert answer.gap <= 1e-8
    assert sum(answer is None for _, answer in plans) <= 0.01 * len(plans)
    for (rows, costs, thresholds), given in plans[::25] + [asked for asked in plans if asked[1] is None]:
        answer = best_policy(rows, costs, thresholds, join=0.1) if given is None else given
        slow = best_policy(rows, costs, thresholds, join=0.1, method="components")
        assert answer.feasible == slow.feasible
        if answer.feasible:
            assert answer.value == pytest.approx(slow.value, abs=2e-8)


@pytest.mark.long
def test_ten_thousand_samples_along_real_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    plans = plans_of(monkeypatch, [("marsrover-4x4", 5_000, 12), ("marsrover-8x8", 20_000, 3), ("box", 100_000, 2)])
    assert len(plans) >= 10_000
    assert all(answer is not None for _, answer in plans)
    assert max(answer.gap for _, answer in plans if answer.feasible and answer.classes == 1) <= 1e-8


def plans_of(monkeypatch: pytest.MonkeyPatch, runs: list[tuple[str, int, int]]) -> list[tuple[Any, Any]]:
    """What was asked of the compiled planner, and what it answered (None: no proof), in some seeds of some runs."""
    plans: list[tuple[Any, Any]] = []
    compiled = for_agents._compiled

    def recording(rows: Rows, costs: Floats, thresholds: Floats, *rest: Any) -> Any:
        answer = compiled(rows, costs, thresholds, *rest)
        plans.append(((rows, costs.copy(), thresholds.copy()), answer))
        return answer

    monkeypatch.setattr(for_agents, "_compiled", recording)
    for name, horizon, seeds in runs:
        cmdp = psconrl.make(name)
        agent = agents.PSConRL(cmdp.problem("estimated"))
        for seed in range(seeds):
            psconrl.simulate(agent, cmdp, horizon, seed)
    return plans
