"""The compiled planner: its pieces against plain linear algebra, its answers against the linear program."""

from typing import Any

import numpy as np
import pytest
from scipy import sparse

import psconrl
from psconrl import CMDP, agents
from psconrl._checks import Floats, Ints
from psconrl.graph import closed_classes
from psconrl.planning import _chain_kernels as chains
from psconrl.planning import _plan_kernels as kernels
from psconrl.planning import best_policy, evaluate, inner
from psconrl.planning.rows import Rows
from tests.agents.drawing import draw_array


def sampled(seed: int, S: int, A: int, alpha: float = 0.01) -> Rows:
    """A model as the posterior draws it before anything was seen."""
    rng = np.random.default_rng(np.random.SeedSequence([11, seed]))
    shape = (S, A, S)
    return Rows.from_dense(draw_array(np.full(shape, alpha), np.zeros(shape, dtype=np.int64), rng), 1e-9)


def chain(rows: Rows, policy: Ints) -> Floats:
    return rows.dense()[np.arange(rows.S), policy]


@pytest.mark.parametrize("seed", range(30))
def test_closed_classes_are_what_the_graph_says(seed: int) -> None:
    rows = sampled(seed, 2 + seed % 9, 2)
    policy = np.random.default_rng(seed).integers(2, size=rows.S)
    label, count = chains.closed_classes(policy, 2, rows.indptr, rows.indices)
    wanted = closed_classes(sparse.csr_array(chain(rows, policy)))
    assert count == len(wanted)
    assert {tuple(np.flatnonzero(label == k)) for k in range(count)} == {tuple(sorted(states)) for states in wanted}
    member, led = chains.reroute(policy, 2, *rows[:3], np.random.default_rng(seed).random(rows.S * 2))
    if led:
        after = closed_classes(sparse.csr_array(chain(rows, policy)))
        assert len(after) == 1
        assert member in after[0]


def test_updates_follow_the_inverse() -> None:
    """50 changes of a dense model: gain and bias to 1e-12 of those by plain linear algebra."""
    rng = np.random.default_rng(np.random.SeedSequence(12))
    S, A = 12, 3
    rows = Rows.from_dense(rng.dirichlet(np.ones(S), (S, A)))
    c = rng.random(S * A)
    policy = np.zeros(S, dtype=np.int64)
    lost, inverse = chains.invert(policy, 4, A, *rows[:3], 1e11)
    assert lost < 0
    h = np.empty(S)
    for _ in range(50):
        s, a = int(rng.integers(S)), int(rng.integers(A))
        wanted = policy.copy()
        wanted[s] = a
        assert chains.turn(inverse, policy, wanted, 4, A, *rows[:3], 1e11) < 0
        g = chains.bias(inverse, policy, h, 4, A, *rows[:3], c)
        own = c.reshape(S, A)[np.arange(S), policy]
        np.testing.assert_allclose(g + h, own + chain(rows, policy) @ h, rtol=0, atol=1e-12)
        law = chains.law(inverse, policy, 4, A, *rows[:3])
        np.testing.assert_allclose(law @ chain(rows, policy), law, rtol=0, atol=1e-14)
        assert g == pytest.approx(law @ own, abs=1e-12)


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
            best_policy(rows, costs, thresholds, join=1e-6, method=method) for method in ("compiled", "highs")
        )
        assert fast.feasible == slow.feasible
        infeasible += not fast.feasible
        if fast.policy is None:
            continue
        assert fast.value == pytest.approx(slow.value, abs=1e-8)
        if fast.method == "compiled":
            assert fast.gap <= 1e-8
        if fast.connected and fast.classes == 1:
            averages = evaluate(CMDP(rows.dense(), costs, thresholds), fast.policy).average_costs
            assert (averages[0] <= fast.value + 1e-6).all()
            assert (averages[1:] <= thresholds[:, np.newaxis] + 1e-6).all()
    assert m == 0 or infeasible > 0


def test_every_plan_of_a_run_is_certified(monkeypatch: pytest.MonkeyPatch) -> None:
    gaps, failures = certified_gaps(monkeypatch, [("marsrover-4x4", 2_000, 2), ("queue", 500, 2), ("toy", 500, 2)])
    assert len(gaps) > 500
    assert max(gaps) <= 1e-8
    assert failures <= 0.01 * len(gaps)


@pytest.mark.long
def test_ten_thousand_samples_along_real_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    runs = [("marsrover-4x4", 5_000, 12), ("marsrover-8x8", 20_000, 3), ("box", 100_000, 2)]
    gaps, failures = certified_gaps(monkeypatch, runs)
    assert len(gaps) >= 10_000
    assert max(gaps) <= 1e-8
    assert failures == 0


def certified_gaps(monkeypatch: pytest.MonkeyPatch, runs: list[tuple[str, int, int]]) -> tuple[list[float], int]:
    """The certified gaps of all feasible plans, and how many plans had none, in some seeds of some runs."""
    gaps: list[float] = []
    failures = 0
    compiled = inner._compiled

    def recording(*arguments: Any) -> Any:
        nonlocal failures
        answer = compiled(*arguments)
        if answer is None:
            failures += 1
        elif answer.feasible:
            gaps.append(answer.gap)
        return answer

    monkeypatch.setattr(inner, "_compiled", recording)
    for name, horizon, seeds in runs:
        cmdp = psconrl.make(name)
        agent = agents.PSConRL(cmdp.problem("estimated"), **agents.preset("PSConRL", name))
        for seed in range(seeds):
            psconrl.simulate(agent, cmdp, horizon, seed)
    return gaps, failures


def test_the_small_program_against_an_enumeration() -> None:
    """min over mixtures of two columns, one constraint: the lower hull at the limit."""
    rng = np.random.default_rng(np.random.SeedSequence(14))
    for _ in range(200):
        n = int(rng.integers(1, 8))
        J, tau = rng.random((n, 2)), rng.random(1)
        feasible, weights, multipliers, value = kernels.master(J, 0, n, tau)
        best = min(
            (
                float(J[i, 0] + (J[k, 0] - J[i, 0]) * t)
                for i in range(n)
                for k in range(n)
                if J[i, 1] <= tau[0]
                for t in [0.0, *([(tau[0] - J[i, 1]) / (J[k, 1] - J[i, 1])] if J[k, 1] > tau[0] else [])]
            ),
            default=np.inf,
        )
        assert feasible == np.isfinite(best)
        if feasible:
            assert value == pytest.approx(best, abs=1e-12)
            assert weights.sum() == pytest.approx(1.0)
            assert (J @ np.array([1.0, multipliers[0]]) - multipliers[0] * tau[0] >= value - 1e-9).all()
