"""Averages of the first steps: against products in 80 digits, closed forms, plain products, and simulation."""

from decimal import Decimal, localcontext
from typing import Any

import numpy as np
import pytest
from scipy import sparse

import psconrl
from psconrl import CMDP
from psconrl._core.checks import Floats
from psconrl.errors import InvalidArgumentError, InvalidTypeError
from psconrl.planning import finite_time
from psconrl.planning.chains import chain_of
from psconrl.planning.compiled.averages import advance
from psconrl.planning.evaluation import Evaluation, evaluate_chain
from psconrl.planning.tolerances import NOISE
from tests.planning.test_evaluation import random_chain


def in_digits(P: Floats, c: Floats, T: int) -> Floats:
    """The averages (S,) of T steps by doubling in 80 digits; what a row lacks to one is the probability of staying."""
    with localcontext() as context:
        context.prec = 80
        S = len(P)
        power = [[Decimal(float(p)) for p in row] for row in P]
        for s in range(S):
            power[s][s] = 1 - sum((power[s][x] for x in range(S) if x != s), Decimal(0))
        some, total = [Decimal(float(x)) for x in c], [Decimal(0)] * S
        while T:
            if T & 1:
                total = [some[s] + sum(power[s][x] * total[x] for x in range(S)) for s in range(S)]
            some = [some[s] + sum(power[s][x] * some[x] for x in range(S)) for s in range(S)]
            power = [
                [sum((power[s][y] * power[y][x] for y in range(S)), Decimal(0)) for x in range(S)] for s in range(S)
            ]
            T >>= 1
        return np.array([float(x) for x in total])


def of(P: Floats, costs: Floats, T: int | None, **options: Any) -> Evaluation:
    start = np.zeros(len(P))
    start[0] = 1.0
    return evaluate_chain(sparse.csr_array(P), np.atleast_2d(costs), start, T, **options)


def check(P: Floats, c: Floats, T: int, found: Evaluation | None = None, good: float = 1.01e-11) -> None:
    """The averages are within their bound, which is good."""
    found = of(P, c, T) if found is None else found
    exact = in_digits(P, c, T) / T
    assert np.abs(found.average_costs[0] - exact).max() <= found.error[0] + 1e-15
    assert found.error[0] <= good


HORIZONS = (1, 2, 3, 10, 257, 65_536, 10**9, 10**15)


@pytest.mark.parametrize("seed", range(12))
def test_random_chains_periodic_and_multichain(seed: int) -> None:
    rng = np.random.default_rng(seed)
    S = int(rng.integers(1, 7))
    P, c = random_chain(rng, S), rng.random(S)
    for T in HORIZONS:
        check(P, c, T)


@pytest.mark.parametrize("leak", [1e-3, 1e-6, 1e-9, 1e-12, 1e-200])
def test_chains_that_nearly_fall_apart(leak: float) -> None:
    """Two blocks of three states each, at different costs; the bias is 1 / leak."""
    rng = np.random.default_rng(0)
    P = np.zeros((6, 6))
    P[:3, :3], P[3:, 3:] = rng.dirichlet(np.ones(3), size=3), rng.dirichlet(np.ones(3), size=3)
    P[0, 4], P[5, 2] = leak, leak / 3
    c = rng.random(6) + np.repeat([0.0, 1.0], 3)
    for T in HORIZONS:
        # Far below the mixing time sums are taken, and rounding adds up.
        check(P, c, T, good=max(1.01e-11, min(2.0**-46 * T, 2.0**-46 / leak, 2.0)))


def test_rows_that_sum_to_more_than_one_by_rounding() -> None:
    """What they are too much is taken from staying, exactly: in 10^7 steps it would show."""
    much = 1.0 - 2.0**-52
    P = np.array([[0.0, 2.0**-51, much, 0.0], [0.0, 0.0, 0.3, 0.7], [1.0, 0.0, 0.0, 0.0], [1e-9, 0.0, 0.0, 1.0]])
    assert 1.0 - P[0, 1] - P[0, 2] < 0.0
    for T in (7_764_475, 10**12):
        check(P, np.array([0.2, 0.1, 1.8, 2.0]), T, good=1e-5)


def test_a_leak_in_closed_form() -> None:
    """P(still there after t steps) = (1 - p)^t."""
    p, T = 1e-12, 10**9
    P = np.array([[1 - p, p], [0.0, 1.0]])
    found = of(P, np.array([0.0, 1.0]), T)
    assert found.average_costs[0, 0] == pytest.approx(p * (T - 1) / 2, rel=1e-3)
    assert found.average_costs[0, 1] == 1.0
    assert found.long_run_costs[0, 0] == 1.0


def test_a_cycle_in_closed_form() -> None:
    P = np.roll(np.eye(5), 1, axis=1)
    for T in (1, 4, 5, 6, 10**9 + 2):
        found = of(P, np.eye(5)[4], T)
        visits = [(T + s) // 5 for s in range(5)]  # of the last state, from s
        np.testing.assert_allclose(found.average_costs[0], np.array(visits) / T, atol=1e-14)
        assert found.relaxation_time == pytest.approx(1 / abs(1 - np.exp(2j * np.pi / 5)))


@pytest.mark.parametrize("method", ["_by_sums", "_by_biases"])
@pytest.mark.parametrize("dense", [False, True])
def test_all_methods_agree_within_their_bounds(method: str, dense: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of them by itself, its bound included."""
    if not dense:
        monkeypatch.setattr(finite_time, "MAX_DENSE", 0)
    rng = np.random.default_rng(5)
    for _ in range(5):
        S = int(rng.integers(2, 6))
        P, c, T = random_chain(rng, S), rng.random(S), int(rng.integers(1, 3000))
        k = S - 1 if dense else int((P > 0).sum(axis=1).max())
        bound = (k + 4) * 2.0**-53 * (T + 2 * np.log2(T) + 2)

        def only(setting: Any, T: int, good: float, bound: float = bound) -> Any:
            return getattr(finite_time, method)(setting, T, bound if method == "_by_sums" else NOISE)

        with monkeypatch.context() as patched:
            patched.setattr("psconrl.planning.evaluation.first_steps", only)
            check(P, c, T, of(P, c, T), good=max(1.01e-11, 10.0 / T if method == "_by_biases" and not dense else 0.0))


def small_is_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(finite_time, "MAX_DENSE", 0)
    monkeypatch.setattr(finite_time, "CHEAP_WORK", 0.0)
    monkeypatch.setattr(finite_time, "MAX_WORK", 3e6)


@pytest.mark.parametrize("seed", range(12))
def test_large_chains_by_steps_of_the_bias(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The way of large chains, on small ones: periodic, multichain, with transient states."""
    small_is_large(monkeypatch)
    rng = np.random.default_rng(seed)
    S = int(rng.integers(1, 7))
    P, c = random_chain(rng, S), rng.random(S)
    for T in HORIZONS:
        # What a cycle keeps of a bias counts as unknown.
        check(P, c, T, good=max(1.01e-11, 10.0 / T))


def test_transient_states_before_a_cycle(monkeypatch: pytest.MonkeyPatch) -> None:
    small_is_large(monkeypatch)
    P = np.zeros((6, 6))
    P[0, [0, 1, 2]] = 0.5, 0.25, 0.25
    P[1, [0, 3]] = 0.9, 0.1
    P[[2, 3, 4], [3, 4, 2]] = 1.0
    P[5, [0, 4]] = 0.5, 0.5
    for T in (10, 1000, 10**6 + 1, 10**9):
        check(P, np.array([0.3, 0.1, 0.0, 0.4, 1.0, 0.7]), T, good=20.0 / T)


def grid_walk(n: int, stay: float) -> sparse.csr_array:
    """A walk on an n x n grid, stopped by its walls."""
    S = n * n
    own = np.arange(S)
    rows, columns, p = [own], [own], [np.full(S, stay)]
    for down, right in ((-1, 0), (1, 0), (0, -1), (0, 1)):
        r, c = own // n + down, own % n + right
        rows.append(own)
        columns.append(np.where((r >= 0) & (r < n) & (c >= 0) & (c < n), r * n + c, own))
        p.append(np.full(S, (1 - stay) / 4))
    return sparse.csr_array((np.concatenate(p), (np.concatenate(rows), np.concatenate(columns))), shape=(S, S))


def test_a_slow_walk_on_a_grid(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its relaxation time is 4 / (1 - stay) / (2 - 2 cos(pi / n)); the answer by steps is that by squaring."""
    P, n = grid_walk(24, 0.5), 24
    S = n * n
    c, start, T = np.random.default_rng(0).random((2, S)), np.eye(S)[0], 200_000
    found = evaluate_chain(P, c, start, T)
    assert found.relaxation_time == pytest.approx(8 / (2 - 2 * np.cos(np.pi / n)), rel=1e-6)
    monkeypatch.setattr(finite_time, "MAX_DENSE", S)
    dense = evaluate_chain(P, c, start, T)
    assert (np.abs(found.average_costs - dense.average_costs).max(axis=1) <= found.error + dense.error).all()
    assert found.error.max() <= 1.01e-11


def test_what_does_not_converge_is_told_of_by_the_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    small_is_large(monkeypatch)
    monkeypatch.setattr(finite_time, "MAX_WORK", 3e4)
    p, T = 1e-7, 10**6
    P = np.array([[1 - p, p], [p, 1 - p]])
    found = of(P, np.array([0.0, 1.0]), T)
    exact = in_digits(P, np.array([0.0, 1.0]), T) / T
    assert found.error[0] > 1e-3
    assert np.abs(found.average_costs[0] - exact).max() <= found.error[0]


def test_costs_of_any_size() -> None:
    rng = np.random.default_rng(2)
    P, c = random_chain(rng, 5), rng.random(5)
    for scale, shift in ((1e-9, 0.0), (1e12, 0.0), (1.0, 1e9), (3.0, -50.0)):
        cost = c * scale + shift
        for T in (7, 10**6):
            found = of(P, cost, T)
            off = np.abs(found.average_costs[0] - in_digits(P, cost, T) / T).max()
            assert off <= found.error[0] + 2.0**-52 * np.abs(cost).max()
            assert found.error[0] <= 1e-11 * scale + 1e-15 * abs(shift)
    assert of(P, np.full(5, 0.1), 10).average_costs == pytest.approx(0.1, rel=1e-15)


@pytest.mark.parametrize("name", ["riverswim", "marsrover-4x4", "queue", "garnet"])
def test_models_against_plain_products(name: str) -> None:
    cmdp = psconrl.make(name)
    policy = psconrl.solve(cmdp).policy
    P, c = cmdp.policy_matrix(policy), np.einsum("isa,sa->is", cmdp.costs, policy)
    sums, T = np.zeros_like(c), 3000
    for _ in range(T):
        sums = c + (P @ sums.T).T
    found = psconrl.evaluate(cmdp, policy, horizon=T)
    assert (np.abs(found.average_costs - sums / T).max(axis=1) <= found.error + 1e-11).all()
    long = psconrl.evaluate(cmdp, policy)
    np.testing.assert_array_equal(found.long_run_costs, long.average_costs)
    np.testing.assert_array_equal(long.long_run_costs, long.average_costs)
    assert found.horizon == T
    assert f"horizon={T}" in repr(found)
    assert long.horizon is None
    assert (long.error <= 1e-11).all()


def test_against_simulation() -> None:
    """300 runs of 400 steps from the left end; a false alarm once in 15,000 seeds (four standard errors)."""
    river = psconrl.make("riverswim")
    policy = np.tile([0.2, 0.8], (6, 1))
    rng, T = np.random.default_rng(0), 400
    states, totals = np.zeros(300, dtype=np.int64), np.zeros((2, 300))
    moves = np.cumsum(np.asarray(river.transitions), axis=2)
    for _ in range(T):
        a = (rng.random(300) < policy[states, 1]).astype(np.int64)
        totals += river.costs[:, states, a]
        states = (rng.random(300)[:, np.newaxis] > moves[states, a]).sum(axis=1)
    expected = psconrl.evaluate(river, policy, horizon=T).average_costs[:, 0]
    means, errors = totals.mean(axis=1) / T, totals.std(axis=1) / T / np.sqrt(300)
    assert (np.abs(means - expected) <= 4 * errors).all()


def test_policies_by_actions() -> None:
    river = psconrl.make("riverswim")
    swim = psconrl.evaluate(river, np.ones(6, dtype=np.int64), horizon=50)
    np.testing.assert_array_equal(
        swim.average_costs, psconrl.evaluate(river, np.eye(2)[[1] * 6], horizon=50).average_costs
    )


@pytest.mark.parametrize(
    ("horizon", "error", "text"),
    [
        (0, InvalidArgumentError, "horizon is 0; it must be at least 1"),
        (-3, InvalidArgumentError, "horizon is -3; it must be at least 1"),
        (2.5, InvalidTypeError, "horizon is 2.5; it must be a whole number"),
        (True, InvalidTypeError, "horizon is True; it must be a whole number"),
        (2**63, InvalidArgumentError, "horizon is 9223372036854775808; it must be at most"),
    ],
)
def test_horizons_that_are_none(horizon: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        psconrl.evaluate(psconrl.make("toy"), [0, 0], horizon=horizon)


def test_steps_have_a_plain_twin() -> None:
    rng = np.random.default_rng(0)
    P, c, v = random_chain(rng, 6), rng.random(6), rng.random(6)
    chain = chain_of(sparse.csr_array(P))
    np.testing.assert_array_equal(advance(chain, c, v, 7), advance.py_func(chain, c, v, 7))
    expected = v
    for _ in range(7):
        expected = c + P @ expected
    np.testing.assert_allclose(advance(chain, c, v, 7), expected, rtol=1e-13)


def test_a_model_of_one_state() -> None:
    cmdp = CMDP([[[1.0]]], [[[3.0]]])
    found = psconrl.evaluate(cmdp, [0], horizon=10)
    assert found.average_costs.tolist() == [[3.0]]
    assert found.relaxation_time == 0.0
