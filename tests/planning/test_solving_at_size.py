"""Known models of every size: against the linear program, closed forms and tiny models by hand."""

import numpy as np
import pytest
from scipy import sparse

import psconrl
from psconrl import CMDP, Solution
from psconrl._core.checks import Floats
from psconrl._core.graph import is_weakly_communicating
from psconrl.planning.tolerances import TIE_BREAK
from tests.planning.reference import by_linprog, certified_value, cut_rows


def random_model(seed: int, m: int, alpha: float) -> CMDP:
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
    return CMDP(sparse.csr_array(cut_rows(p).reshape(S * A, S)), costs, low + width * rng.uniform(0.15, 0.7, m))


def check(cmdp: CMDP, found: Solution, *, priced: bool = True) -> None:
    """The occupancy balances, keeps what it promises, is what the mixture says, and no policy does better."""
    costs, tau, mu = cmdp.costs, cmdp.thresholds, found.occupancy
    main, other = np.ptp(costs[0]) or 1.0, np.ptp(costs[1:], axis=(1, 2)).max(initial=0.0) or 1.0
    assert mu.min() >= 0
    assert mu.sum() == pytest.approx(1, abs=1e-12)
    np.testing.assert_allclose(mu.sum(axis=1), cmdp.matrix.T @ mu.ravel(), atol=1e-12)
    J = (costs * mu).sum(axis=(1, 2))
    assert (J[1:] <= tau - min(found.margin, 0.0) + 1e-9 * other).all()
    mixed = np.asarray(sum(member.weight * member.average_costs for member in found.mixture))
    np.testing.assert_allclose(mixed, J, atol=1e-10 * max(main, other))
    assert 1 <= len(found.mixture) <= cmdp.m + 1
    if not found.feasible:
        assert (J[1:] - tau).max() == pytest.approx(-found.margin, abs=1e-9 * other)
        assert np.isnan(found.value)
        assert np.isnan(found.multipliers).all()
        return
    assert found.gap <= 1e-6 * main
    assert J[0] == pytest.approx(found.value, abs=1e-10 * main)
    # Shadow prices need not be unique; optimal ones leave the value when they replace the constraints.
    if priced:
        free = psconrl.solve(CMDP(cmdp.matrix, costs[:1] + np.tensordot(found.multipliers, costs[1:], 1)))
        assert free.value - found.multipliers @ tau == pytest.approx(found.value, abs=1e-8 * main)


@pytest.mark.parametrize("alpha", [1.0, 0.05])
@pytest.mark.parametrize("m", range(5))
def test_agrees_with_the_linear_program(m: int, alpha: float) -> None:
    compared = 0
    for seed in range(8):
        cmdp = random_model(seed, m, alpha)
        if is_weakly_communicating(cmdp.matrix):
            found, other = psconrl.solve(cmdp), by_linprog(cmdp, stateless=True)
            check(cmdp, found)
            main, size = np.ptp(cmdp.costs[0]) or 1.0, np.ptp(cmdp.costs[1:], axis=(1, 2)).max(initial=0.0) or 1.0
            assert found.margin == pytest.approx(other.margin, abs=1e-7 * size)
            assert found.feasible == np.isfinite(other.value)
            assert found.value == pytest.approx(other.value, abs=1e-7 * main, nan_ok=True)
            compared += 1
    assert compared > 2


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
    found = psconrl.solve(cmdp)
    check(cmdp, found)
    if found.feasible:
        assert found.value - certified_value(cmdp, found.multipliers) <= 1e-7
    if value is not None:
        assert found.value == pytest.approx(value, abs=1e-7)


def test_ten_thousand_states() -> None:
    cmdp = psconrl.make("grid", rows=100, columns=100, slip=0.1, tau=0.002)
    found = psconrl.solve(cmdp)
    check(cmdp, found, priced=False)
    assert found.value == pytest.approx(0.998768868, abs=1e-8)
    assert found.margin == pytest.approx(0.0019814, abs=1e-7)
    assert found.multipliers[0] == pytest.approx(0.62122515, abs=1e-6)
    assert found.average_costs[1] == pytest.approx(0.002, abs=1e-9)


def torus(n: int, m: int, seed: int) -> CMDP:
    """An n x n torus with random costs, walked with four steps in five the way one wants: places to stay everywhere."""
    rng, S = np.random.default_rng(seed), n * n
    r, c = np.divmod(np.arange(S), n)
    ends = np.stack([(r - 1) % n * n + c, (r + 1) % n * n + c, r * n + (c - 1) % n, r * n + (c + 1) % n], axis=1)
    p = 0.05 + 0.8 * np.eye(4)
    rows = np.repeat(np.arange(4 * S), 4)
    matrix = sparse.csr_array((np.tile(p.ravel(), S), (rows, np.repeat(ends, 4, axis=0).ravel())), shape=(4 * S, S))
    return CMDP(matrix, rng.random((m + 1, S, 4)), np.full(m, 0.35))


@pytest.mark.parametrize(("n", "m", "seed"), [(20, 3, 0), (40, 2, 0), (40, 2, 2), (60, 2, 7)])
def test_places_to_stay_everywhere(n: int, m: int, seed: int) -> None:
    # Policies of several places have biases beyond digits: averages by iteration differ from exact ones.
    cmdp = torus(n, m, seed)
    found, other = psconrl.solve(cmdp), by_linprog(cmdp, stateless=True)
    if found.classes == 1:  # joined classes have limits a little tighter
        check(cmdp, found)
    assert found.proven
    assert found.loss <= 1e-7
    assert (found.average_costs[1:] <= cmdp.thresholds + 1e-9).all()
    assert found.value == pytest.approx(other.value, abs=1e-6)
    assert found.margin == pytest.approx(other.margin, abs=1e-6)


def test_two_classes_are_mixed() -> None:
    # "Stay" costs (0, 1) in state 0 and (1, 0) in state 1; "switch" costs (1, 1). Half of the time in each.
    p = np.array([[[1.0, 0.0], [0.0, 1.0]], [[0.0, 1.0], [1.0, 0.0]]])
    costs = np.array([[[0.0, 1.0], [1.0, 1.0]], [[1.0, 1.0], [0.0, 1.0]]])
    found = psconrl.solve(CMDP(p, costs, [0.5]))
    np.testing.assert_allclose(found.occupancy, [[0.5, 0.0], [0.5, 0.0]], atol=1e-14)
    assert (found.value, found.margin) == pytest.approx((0.5, 0.5))
    np.testing.assert_allclose(found.multipliers, [1.0])
    assert sorted(member.average_costs.tolist() for member in found.mixture) == [[0.0, 1.0], [1.0, 0.0]]
    assert [member.weight for member in found.mixture] == pytest.approx([0.5, 0.5])


def test_limits_that_are_just_met() -> None:
    cmdp = random_model(1, 2, 1.0)
    tight = cmdp.thresholds - psconrl.solve(cmdp).margin
    found = psconrl.solve(cmdp.replace(thresholds=tight))
    assert found.margin == pytest.approx(0.0, abs=1e-12)
    assert found.feasible
    below = psconrl.solve(cmdp.replace(thresholds=tight - 1e-6))
    assert below.margin == pytest.approx(-1e-6, abs=1e-12)
    assert not below.feasible


def test_the_constraints_in_conflict_are_named() -> None:
    # c_1 + c_2 = 1 for every policy: limits 0.4 and 0.4 are missed by 0.1 each; c_3 <= 5 is no matter.
    c1 = np.array([[0.0, 1.0], [0.2, 0.6], [0.1, 0.9]])
    found = psconrl.solve(CMDP(np.full((3, 2, 3), 1 / 3), np.stack([c1, c1, 1 - c1, c1]), [0.4, 0.4, 5.0]))
    assert found.margin == pytest.approx(-0.1)
    assert found.conflict == (1, 2)
    np.testing.assert_allclose(found.average_costs[1:3], [0.5, 0.5], atol=1e-9)


def test_one_state_one_action() -> None:
    found = psconrl.solve(CMDP(np.ones((1, 1, 1)), [[[2.0]], [[3.0]]], [3.5]))
    assert (found.value, found.margin) == (2.0, 0.5)
    assert found.gap <= TIE_BREAK
    assert found.occupancy.tolist() == [[1.0]]


def test_without_constraints() -> None:
    found = psconrl.solve(random_model(2, 0, 0.05))
    assert found.margin == np.inf
    assert found.multipliers.shape == (0,)
    assert len(found.mixture) == 1


def test_a_weakly_communicating_model() -> None:
    # State 0 is left for ever under both actions.
    p = np.array([[[0.0, 1.0, 0.0], [0.5, 0.0, 0.5]], [[0, 1.0, 0], [0, 0, 1.0]], [[0, 1.0, 0], [0, 0, 1.0]]])
    found = psconrl.solve(CMDP(p, np.array([[[0.0, 0.0], [1.0, 1.0], [0.25, 0.5]]])))
    assert found.value == pytest.approx(0.5)
    assert found.occupancy[2, 1] == pytest.approx(1.0)


def test_the_same_bits_again_and_inputs_left_alone() -> None:
    cmdp = random_model(7, 2, 1.0)
    before = cmdp.matrix.data.copy(), cmdp.costs.copy(), cmdp.thresholds.copy()
    first, second = (psconrl.solve(cmdp) for _ in range(2))
    assert first.value == second.value
    assert np.array_equal(first.occupancy, second.occupancy)
    assert np.array_equal(first.policy, second.policy)
    for array, copy in zip((cmdp.matrix.data, cmdp.costs, cmdp.thresholds), before, strict=True):
        assert np.array_equal(array, copy)


def test_inverses_and_sparse_factors_agree(monkeypatch: pytest.MonkeyPatch) -> None:
    for seed in range(10):
        cmdp = random_model(seed, 1, 0.05)
        if not is_weakly_communicating(cmdp.matrix):
            continue
        inverted = psconrl.solve(cmdp)
        with monkeypatch.context() as patch:
            patch.setattr("psconrl.planning.components.MAX_INVERTED", 1)
            factorised = psconrl.solve(cmdp)
        assert factorised.margin == pytest.approx(inverted.margin, abs=1e-9)
        assert factorised.value == pytest.approx(inverted.value, abs=1e-8, nan_ok=True)


def drifting(S: int) -> Floats:
    """A walk that drifts up: state 0, a bad reference, is visited with probability 9^-(S - 1)."""
    p = np.zeros((S, 1, S))
    p[np.arange(S), 0, np.minimum(np.arange(S) + 1, S - 1)] += 0.9
    p[np.arange(S), 0, np.maximum(np.arange(S) - 1, 0)] += 0.1
    return p


@pytest.mark.parametrize("S", [40, 130, 400])
def test_a_reference_that_is_hardly_ever_visited(S: int) -> None:
    costs = np.zeros((1, S, 1))
    costs[0, -1, 0] = 1.0
    found = psconrl.solve(CMDP(drifting(S), costs))
    assert found.value == pytest.approx(8 / 9, abs=1e-13)
    assert found.gap <= 1e-8


@pytest.mark.parametrize("S", [3000, 10_000])
def test_a_long_corridor_of_pockets_that_are_nearly_equal(S: int) -> None:
    """Hundreds of places to stay in, each left about never: policies that stay in several have no bias in floats."""
    here = np.arange(S)
    left, right = np.maximum(here - 1, 0), np.minimum(here + 1, S - 1)
    rows = np.concatenate([2 * here, 2 * here, 2 * here + 1, 2 * here + 1])
    ends = np.concatenate([left, right, right, left])
    p = np.concatenate([np.full(S, 0.9), np.full(S, 0.1)] * 2)
    costs = np.stack([np.repeat(np.cos(here / 7.0)[:, np.newaxis] + 1, 2, axis=1), np.tile([0.0, 1.0], (S, 1))])
    cmdp = CMDP(sparse.csr_array((p, (rows, ends)), shape=(2 * S, S)), costs, [0.5])
    solution = psconrl.solve(cmdp)
    assert solution.gap <= 1e-7
    np.testing.assert_allclose(solution.average_costs, [solution.value, solution.average_costs[1]], atol=1e-9)
    assert solution.average_costs[1] <= 0.5 + 1e-9
    # A shorter one has no better places: it is a part of this one.
    assert 0.0053 < solution.value < 0.0054


def test_a_long_corridor_against_whose_drift_no_path_leads() -> None:
    """Nine steps in ten go where one wants: a path of the others would take 9^400 steps."""
    S = 400
    here = np.arange(S)
    left, right = np.maximum(here - 1, 0), np.minimum(here + 1, S - 1)
    rows = np.concatenate([2 * here, 2 * here, 2 * here + 1, 2 * here + 1])
    p = np.concatenate([np.full(S, 0.9), np.full(S, 0.1)] * 2)
    matrix = sparse.csr_array((p, (rows, np.concatenate([left, right, right, left]))), shape=(2 * S, S))
    costs = np.stack([np.repeat(np.cos(here / 7.0)[:, np.newaxis] + 1, 2, axis=1), np.tile([0.0, 1.0], (S, 1))])
    solution = psconrl.solve(CMDP(matrix, costs, [0.5]))
    assert solution.proven
    assert solution.value < 0.01
