"""Column generation over policies against the linear program, closed forms and tiny models by hand."""

import numpy as np
import pytest
from scipy import sparse

import psconrl
from psconrl._checks import Floats
from psconrl.graph import is_weakly_communicating
from psconrl.planning import policies
from psconrl.planning.policies import PolicyMixture, solve_by_policies
from psconrl.planning.program import cut


def flat(p: Floats) -> sparse.csr_array:
    return sparse.csr_array(p.reshape(-1, p.shape[-1]))


def random_model(seed: int, m: int, alpha: float) -> tuple[sparse.csr_array, Floats, Floats]:
    """Dirichlet rows, or three successors each; costs uniform, in halves, or of several sizes."""
    rng = np.random.default_rng(seed)
    S, A = int(rng.integers(1, 41)), int(rng.integers(1, 5))
    p = rng.dirichlet(np.full(S, alpha), size=(S, A))
    if seed % 3 == 0:
        p[np.arange(S), 0] *= 0.9
        p[np.arange(S), 0, (np.arange(S) + 1) % S] += 0.1
        p *= rng.random(p.shape) < 0.2
        p[np.arange(S), :, (np.arange(S) + 1) % S] += 0.01
        p /= p.sum(axis=2, keepdims=True)
    costs = rng.random((m + 1, S, A))
    if seed % 5 == 0:
        costs = np.round(2 * costs) / 2
    if seed % 7 == 0:
        costs = costs * rng.choice([1e-2, 1.0, 50.0], size=(m + 1, 1, 1)) - 3.0
    low, width = costs[1:].min(axis=(1, 2)), np.ptp(costs[1:], axis=(1, 2))
    return cut(flat(p)), costs, low + width * rng.uniform(0.15, 0.7, m)


def check(found: PolicyMixture, matrix: sparse.csr_array, costs: Floats, tau: Floats) -> None:
    """The occupancies balance, keep what they promise, and agree with the linear program."""
    known = psconrl.solve(psconrl.CMDP(matrix, costs, tau))
    main, other = np.ptp(costs[0]) or 1.0, np.ptp(costs[1:], axis=(1, 2)).max(initial=0.0) or 1.0
    assert found.gap <= 1e-9
    assert found.feasible == known.feasible
    assert found.margin == pytest.approx(known.margin, abs=1e-8 * other)
    for mu in (found.occupancy, found.safest):
        if mu is not None:
            assert mu.min() >= 0
            assert mu.sum() == pytest.approx(1, abs=1e-12)
            np.testing.assert_allclose(mu.sum(axis=1), matrix.T @ mu.ravel(), atol=1e-12)
    J = (costs * found.occupancy).sum(axis=(1, 2))
    assert (J[1:] <= tau - min(found.margin, 0.0) + 1e-10 * other).all()
    if found.safest is not None:
        safe = (costs[1:] * found.safest).sum(axis=(1, 2))
        assert (tau - safe).min() == pytest.approx(found.margin, abs=1e-10 * other)
        assert found.conflict_weights.sum() == pytest.approx(1)
    if not found.feasible:
        assert np.isnan(found.value)
        assert np.isnan(found.multipliers).all()
        return
    assert found.value == pytest.approx(known.value, abs=1e-8 * main)
    assert J[0] == pytest.approx(found.value, abs=1e-10 * main)
    # Shadow prices need not be unique; optimal ones leave the value when they replace the constraints.
    priced = costs[0] + np.tensordot(found.multipliers, costs[1:], 1)
    free = psconrl.solve(psconrl.CMDP(matrix, priced[np.newaxis]))
    assert free.value - found.multipliers @ tau == pytest.approx(found.value, abs=1e-8 * main)


@pytest.mark.parametrize("alpha", [1.0, 0.05])
@pytest.mark.parametrize("m", range(5))
def test_agrees_with_the_linear_program(m: int, alpha: float) -> None:
    for seed in range(8):
        matrix, costs, tau = random_model(seed, m, alpha)
        if is_weakly_communicating(matrix):
            check(solve_by_policies(matrix, costs, tau), matrix, costs, tau)


@pytest.mark.parametrize(
    ("name", "options", "value"),
    [
        ("marsrover-4x4", {}, 0.775),
        ("marsrover-4x4", {"slip": 0.1}, None),
        ("marsrover-4x4", {"tau": 0.0}, 0.875),
        ("marsrover-8x8", {}, 0.938095238),
        ("marsrover-8x8", {"slip": 0.1}, None),
        ("box", {}, 0.845),
        ("box", {"slip": 0.1}, None),
        ("toy", {}, None),
        ("queue", {}, 0.1052523),
        ("garnet", {"m": 3}, None),
        ("grid", {"rows": 20, "columns": 20, "slip": 0.1, "tau": 0.002}, 0.996219781),
        ("grid", {"rows": 20, "columns": 20}, 0.967741935),
        ("grid", {"rows": 20, "columns": 20, "slip": 0.1, "risky": 0.6, "tau": 0.002}, None),
    ],
)
def test_named_environments(name: str, options: dict[str, float], value: float | None) -> None:
    cmdp = psconrl.make(name, **options)
    found = solve_by_policies(cmdp.matrix, cmdp.costs, cmdp.thresholds)
    check(found, cmdp.matrix, cmdp.costs, cmdp.thresholds)
    if value is not None:
        assert found.value == pytest.approx(value, abs=1e-7)


def test_ten_thousand_states() -> None:
    cmdp = psconrl.make("grid", rows=100, columns=100, slip=0.1, tau=0.002)
    found = solve_by_policies(cmdp.matrix, cmdp.costs, cmdp.thresholds)
    assert found.value == pytest.approx(0.998768868, abs=1e-8)
    assert found.margin == pytest.approx(0.0019814, abs=1e-7)
    assert found.multipliers[0] == pytest.approx(0.62122515, abs=1e-7)
    assert found.gap <= 1e-9
    assert found.policies <= 15
    mu = found.occupancy
    np.testing.assert_allclose(mu.sum(axis=1), cmdp.matrix.T @ mu.ravel(), atol=1e-13)
    np.testing.assert_allclose((cmdp.costs * mu).sum(axis=(1, 2)), [found.value, 0.002], atol=1e-10)


def test_two_classes_are_mixed() -> None:
    # "Stay" costs (0, 1) in state 0 and (1, 0) in state 1; "switch" costs (1, 1). Half of the time in each.
    p = np.array([[[1.0, 0.0], [0.0, 1.0]], [[0.0, 1.0], [1.0, 0.0]]])
    costs = np.array([[[0.0, 1.0], [1.0, 1.0]], [[1.0, 1.0], [0.0, 1.0]]])
    found = solve_by_policies(flat(p), costs, np.array([0.5]))
    np.testing.assert_allclose(found.occupancy, [[0.5, 0.0], [0.5, 0.0]], atol=1e-14)
    assert (found.value, found.margin) == pytest.approx((0.5, 0.5))
    np.testing.assert_allclose(found.multipliers, [1.0])


def test_limits_that_are_just_met() -> None:
    matrix, costs, tau = random_model(1, 2, 1.0)
    tight = tau - solve_by_policies(matrix, costs, tau).margin
    found = solve_by_policies(matrix, costs, tight)
    assert found.margin == pytest.approx(0.0, abs=1e-12)
    assert found.feasible
    below = solve_by_policies(matrix, costs, tight - 1e-6)
    assert below.margin == pytest.approx(-1e-6, abs=1e-12)
    assert not below.feasible


def test_conflict_weights_name_the_constraints_in_conflict() -> None:
    # c_1 + c_2 = 1 for every policy: limits 0.4 and 0.4 are missed by 0.1 each; c_3 <= 5 is no matter.
    p = np.full((3, 2, 3), 1 / 3)
    c1 = np.array([[0.0, 1.0], [0.2, 0.6], [0.1, 0.9]])
    costs = np.stack([c1, c1, 1 - c1, c1])
    found = solve_by_policies(flat(p), costs, np.array([0.4, 0.4, 5.0]))
    assert found.margin == pytest.approx(-0.1)
    np.testing.assert_allclose(found.conflict_weights, [0.5, 0.5, 0.0], atol=1e-12)


def test_one_state_one_action() -> None:
    found = solve_by_policies(flat(np.ones((1, 1, 1))), np.array([[[2.0]], [[3.0]]]), np.array([3.5]))
    assert (found.value, found.margin, found.gap) == (2.0, 0.5, 0.0)
    assert found.occupancy.tolist() == [[1.0]]


def test_without_constraints() -> None:
    matrix, costs, tau = random_model(2, 0, 0.05)
    found = solve_by_policies(matrix, costs, tau)
    assert found.margin == np.inf
    assert found.safest is None
    assert found.multipliers.shape == found.conflict_weights.shape == (0,)
    assert found.policies == 1


def test_a_weakly_communicating_model() -> None:
    # State 0 is left for ever under both actions.
    p = np.array([[[0.0, 1.0, 0.0], [0.5, 0.0, 0.5]], [[0, 1.0, 0], [0, 0, 1.0]], [[0, 1.0, 0], [0, 0, 1.0]]])
    costs = np.array([[[0.0, 0.0], [1.0, 1.0], [0.25, 0.5]]])
    found = solve_by_policies(flat(p), costs, np.zeros(0))
    assert found.value == pytest.approx(0.5)
    assert found.occupancy[2, 1] == pytest.approx(1.0)


def test_the_same_bits_again_and_inputs_left_alone() -> None:
    matrix, costs, tau = random_model(7, 2, 1.0)
    before = matrix.data.copy(), costs.copy(), tau.copy()
    first, second = (solve_by_policies(matrix, costs, tau) for _ in range(2))
    assert first.value == second.value
    assert np.array_equal(first.occupancy, second.occupancy)
    for array, copy in zip((matrix.data, costs, tau), before, strict=True):
        assert np.array_equal(array, copy)


def test_sparse_and_dense_elimination_agree(monkeypatch: pytest.MonkeyPatch) -> None:
    for seed in range(10):
        matrix, costs, tau = random_model(seed, 1, 0.05)
        if not is_weakly_communicating(matrix):
            continue
        dense = solve_by_policies(matrix, costs, tau)
        with monkeypatch.context() as patch:
            patch.setattr(policies, "SMALL", 1)
            thin = solve_by_policies(matrix, costs, tau)
        assert thin.margin == pytest.approx(dense.margin, abs=1e-10)
        assert thin.value == pytest.approx(dense.value, abs=1e-8, nan_ok=True)


def test_a_reference_that_is_hardly_ever_visited() -> None:
    # A walk on 400 states that drifts up: state 0, a bad reference, is visited with probability 9^-399.
    S = 400
    p = np.zeros((S, 1, S))
    p[np.arange(S), 0, np.minimum(np.arange(S) + 1, S - 1)] += 0.9
    p[np.arange(S), 0, np.maximum(np.arange(S) - 1, 0)] += 0.1
    costs = np.zeros((1, S, 1))
    costs[0, -1, 0] = 1.0
    found = solve_by_policies(flat(p), costs, np.zeros(0))
    assert found.value == pytest.approx(8 / 9, abs=1e-13)
    assert found.gap <= 1e-12
