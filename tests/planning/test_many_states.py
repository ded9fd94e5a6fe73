"""Planning in sampled models of hundreds of states: the same values as the linear program, certified."""

import numpy as np
import pytest

from psconrl import CMDP, Problem, evaluate, make
from psconrl._checks import Floats
from psconrl.agents.counts import Counts
from psconrl.agents.posterior import Prior, draw
from psconrl.planning import _sparse_kernels as kernels
from psconrl.planning.inner import INVERTED_UP_TO, best_policy
from psconrl.planning.rows import Rows


def sampled(rows: int, columns: int, prior: float, visits: int, seed: int) -> tuple[CMDP, Rows]:
    """A grid and a model from the posterior after about `visits` tries of each pair."""
    cmdp = make("grid", rows=rows, columns=columns, slip=0.1, seed=seed)
    rng = np.random.default_rng(np.random.SeedSequence([11, seed]))
    counts = rng.poisson(visits * cmdp.matrix.toarray()).reshape(cmdp.S, cmdp.A, cmdp.S)
    return cmdp, draw(Prior.of(prior, cmdp.problem()), Counts.from_dense(counts), rng)


def check_agreement(rows: Rows, costs: Floats, thresholds: Floats) -> None:
    assert rows.S > INVERTED_UP_TO
    ours = best_policy(rows, costs, thresholds, join=0.1)
    theirs = best_policy(rows, costs, thresholds, join=0.1, method="highs")
    assert ours.method == "compiled"
    assert ours.feasible == theirs.feasible
    if ours.feasible:
        assert ours.gap <= 1e-8
        assert abs(ours.value - theirs.value) <= 2e-8
        again = best_policy(rows, costs, thresholds, join=0.1, start=ours.start)
        assert again.method == "compiled"
        assert abs(again.value - ours.value) <= 2e-8


@pytest.mark.parametrize(
    ("prior", "visits"), [(0.01, 0), (0.01, 5), (0.01, 200), (1e-3, 0), (1e-3, 20), (1e-4, 3), (1.0, 10)]
)
def test_values_of_sampled_models(prior: float, visits: int) -> None:
    cmdp, rows = sampled(16, 14, prior, visits, 1)
    check_agreement(rows, cmdp.costs, cmdp.thresholds)


def test_any_number_of_limits() -> None:
    cmdp, rows = sampled(17, 13, 0.005, 10, 2)
    extra = np.random.default_rng(np.random.SeedSequence(12)).random((1, cmdp.S, cmdp.A))
    check_agreement(rows, cmdp.costs[:1], np.zeros(0))
    check_agreement(rows, np.concatenate([cmdp.costs, extra]), np.array([0.2, 0.45]))
    check_agreement(rows, cmdp.costs, np.array([-0.1]))  # infeasible
    check_agreement(rows, np.concatenate([cmdp.costs, extra]), np.array([0.2, 1e-4]))


def test_nearly_deterministic_and_nearly_decomposable_models() -> None:
    """Rings of states left once in 10^3 to 10^6 steps."""
    S, A = 240, 3
    rng = np.random.default_rng(np.random.SeedSequence(13))
    p = np.zeros((S, A, S))
    for leave in (1e-3, 1e-6):
        p[:] = 0.0
        for s in range(S):
            ring = s // 40 * 40
            for a in range(A):
                p[s, a, ring + (s - ring + a + 1) % 40] = 1.0 - leave
                p[s, a, rng.integers(S)] += leave
        check_agreement(Rows.from_dense(p), rng.random((2, S, A)), np.array([0.48]))


def test_laws_and_biases_are_those_of_exact_evaluation() -> None:
    cmdp, rows = sampled(12, 12, 0.01, 20, 3)
    S, A = cmdp.S, cmdp.A
    model = CMDP(rows.dense(), cmdp.costs, cmdp.thresholds)
    policy = np.random.default_rng(np.random.SeedSequence(14)).integers(A, size=S)
    exact = evaluate(model, np.eye(A)[policy])
    costs = cmdp.costs[1, np.arange(S), policy]
    arrays = (policy, kernels.likely_state(policy, 0, A, *rows[:3]), A, *rows[:3])
    for rare in (kernels.RARE, 0.0):
        fine, factor = kernels.factorise(*arrays, rare)
        assert fine
        r = arrays[1]
        y, mu, one = np.zeros(S), np.zeros(S), np.eye(S)[r]
        assert kernels.refine(factor, *arrays, costs, y, False, 1e-11) <= 1e-11
        assert kernels.refine(factor, *arrays, one, mu, True, 1e-13) <= 1e-13
        assert y[r] == pytest.approx(exact.average_costs[1, 0], abs=1e-9)
        np.testing.assert_allclose(mu, exact.stationary, rtol=0, atol=1e-10)
        bias = exact.bias[1] - exact.bias[1, r]
        y[r] = 0.0
        np.testing.assert_allclose(y, bias, rtol=0, atol=1e-7 * np.abs(bias).max())


def test_a_sparse_prior() -> None:
    """The mask of the possible moves as a sparse matrix (S * A, S) is the same prior."""
    cmdp = make("grid", rows=5, columns=4, slip=0.1)
    problem: Problem = cmdp.problem()
    mask = cmdp.matrix.astype(np.bool_)
    given, dense = Prior.of(mask, problem), Prior.of(mask.toarray().reshape(cmdp.S, cmdp.A, cmdp.S), problem)
    for one, other in zip(vars(given).values(), vars(dense).values(), strict=True):
        np.testing.assert_array_equal(one, other)
    weights = cmdp.matrix * 2.0
    given, dense = Prior.of(weights, problem), Prior.of(weights.toarray().reshape(cmdp.S, cmdp.A, cmdp.S), problem)
    for one, other in zip(vars(given).values(), vars(dense).values(), strict=True):
        np.testing.assert_array_equal(one, other)


def test_two_recurrent_classes_are_joined() -> None:
    """Two rings, a cheap one over the limit and a dear one below it: the optimum needs both, and stays in both."""
    S, A, half = 240, 2, 120
    p = np.zeros((S, A, S))
    for s in range(S):
        ring = s // half * half
        p[s, 0, ring + (s - ring + 1) % half] = 1.0
        p[s, 1, (s + half) % S] = 1.0
    costs = np.zeros((2, S, A))
    costs[0, half:], costs[1, :half] = 1.0, 1.0
    costs[:, :, 1] = 1.0
    best = best_policy(Rows.from_dense(p), costs, np.array([0.5]), join=0.01)
    assert (best.method, best.classes) == ("compiled", 2)
    assert best.value == pytest.approx(0.5, abs=1e-8)
    assert best.policy is not None
    averages = evaluate(CMDP(p, costs, [0.5]), best.policy).average_costs
    assert np.ptp(averages, axis=1).max() < 1e-9  # one class: the same from every start
    assert averages[0, 0] <= 0.5 + 0.02
    assert averages[1, 0] <= 0.5 + 0.02
