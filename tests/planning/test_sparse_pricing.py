"""Planning in sampled models of hundreds of states: the same values as the linear program, certified."""

import gymnasium
import numpy as np
import pytest
from scipy import sparse

from psconrl import CMDP, Problem, evaluate, make
from psconrl._core.checks import Bools, Floats
from psconrl._core.graph import is_communicating
from psconrl.agents.counts import Counts
from psconrl.agents.posterior import Prior, draw
from psconrl.planning.compiled.pricing import discounted_value_iteration, multiplier_step
from psconrl.planning.compiled.rows import Rows
from psconrl.planning.for_agents import best_policy
from psconrl.planning.model_rows import rows_of
from psconrl.planning.poisson import PoissonSolver, generator_of
from psconrl.planning.tolerances import MAX_INVERTED
from psconrl.structure import restrict_to_reachable
from tests.agents.drawing import dense


def sampled(rows: int, columns: int, prior: float | Bools, visits: int, seed: int) -> tuple[CMDP, Rows]:
    """A grid and a model from the posterior after about `visits` tries of each pair."""
    cmdp = make("grid", rows=rows, columns=columns, slip=0.1, seed=seed)
    rng = np.random.default_rng(np.random.SeedSequence([11, seed]))
    counts = rng.poisson(visits * cmdp.matrix.toarray()).reshape(cmdp.S, cmdp.A, cmdp.S)
    return cmdp, draw(Prior.of(prior, cmdp.problem()), Counts.from_dense(counts), rng)


def check_agreement(rows: Rows, costs: Floats, thresholds: Floats, whole: bool = True) -> None:
    """With the linear program; by sparse factors, or where parts hardly hold together component by component."""
    assert rows.S > MAX_INVERTED
    ours = best_policy(rows, costs, thresholds, join=0.1)
    theirs = best_policy(rows, costs, thresholds, join=0.1, method="components")
    assert ours.method == "compiled" or (not whole and ours.method == "components")
    assert ours.feasible == theirs.feasible
    if ours.feasible:
        assert ours.gap <= 2e-8 or ours.classes > 1  # the search ends at 1e-8; ties and rough averages come on top
        assert abs(ours.value - theirs.value) <= 2e-8
        again = best_policy(rows, costs, thresholds, join=0.1, start=ours.start)
        assert again.method == ours.method
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


@pytest.mark.parametrize("visits", [0, 1, 30])
def test_models_that_fall_apart(visits: int) -> None:
    """With a mask of possible moves as the prior, a sample may have states or corners without a way out."""
    traps = 0
    for seed in range(8):
        cmdp, rows = sampled(15, 15, neighbours(make("grid", rows=15, columns=15, slip=0.1, seed=seed)), visits, seed)
        traps += not is_communicating(rows.matrix())
        check_agreement(rows, cmdp.costs, cmdp.thresholds, whole=False)
    assert traps > 0 or visits > 0


def neighbours(cmdp: CMDP) -> Bools:
    """The mask (S, A, S) of the moves that some action of a state makes possible."""
    moves = cmdp.matrix.toarray().reshape(cmdp.S, cmdp.A, cmdp.S).any(axis=1)
    return np.repeat(moves[:, np.newaxis], cmdp.A, axis=1)


def test_samples_that_hardly_hold_together() -> None:
    """Taxi before anything was seen: states that are left once in 10^8 steps, everywhere the same costs.

    Rough evaluations go round in circles there, and so does the dual simplex method.
    """
    cmdp = restrict_to_reachable(CMDP.from_gymnasium(gymnasium.make("Taxi-v4")))
    prior = Prior.of(neighbours(cmdp), cmdp.problem())
    costs = np.concatenate([cmdp.costs, np.random.default_rng(15).random((1, cmdp.S, cmdp.A))])
    rng = np.random.default_rng(np.random.SeedSequence(16))
    whole = 0
    for _ in range(10):
        rows = draw(prior, Counts.from_dense(np.zeros((cmdp.S, cmdp.A, cmdp.S), dtype=np.int64)), rng)
        ours, theirs = (
            best_policy(rows, costs, np.array([0.4]), join=0.1, method=m) for m in ("compiled", "components")
        )
        assert abs(ours.value - theirs.value) <= 2e-8
        if is_communicating(rows.matrix()):
            whole += 1
            assert ours.connected
        if ours.classes == 1:
            assert ours.gap <= 2e-8
    assert 0 < whole < 10


def with_a_trap(cost: float, spent: float) -> tuple[Rows, Floats]:
    """A grid in which one action of state 7 leads to one more state, for good; the costs there."""
    cmdp = make("grid", rows=12, columns=13, slip=0.1)
    S, A = cmdp.S + 1, cmdp.A
    p, costs = np.zeros((S, A, S)), np.ones((2, S, A))
    p[:-1, :, :-1] = cmdp.matrix.toarray().reshape(cmdp.S, A, cmdp.S)
    costs[:, :-1] = cmdp.costs
    p[7, 2] = 0.0
    p[7, 2, 6], p[7, 2, -1], p[-1, :, -1] = 0.9, 0.1, 1.0
    costs[0, -1], costs[1, -1] = cost, spent
    return Rows.from_dense(p), costs


def test_a_dear_trap_is_left_out() -> None:
    rows, costs = with_a_trap(1.0, 0.0)
    check_agreement(rows, costs, np.array([0.05]), whole=False)
    check_agreement(rows, costs[:1], np.zeros(0), whole=False)
    best = best_policy(rows, costs, np.array([0.05]), join=0.1)
    assert best.policy is not None
    assert best.policy[7, 2] == 0.0
    assert not best.connected


def test_a_trap_that_decides() -> None:
    """A trap that is better than the rest, and one that alone keeps the limit: who says so must prove it."""
    rows, costs = with_a_trap(0.1, 0.0)
    best = best_policy(rows, costs, np.array([0.05]), join=0.1)
    assert best.feasible
    assert best.value == pytest.approx(0.1, abs=1e-9)
    assert best.policy is not None
    averages = evaluate(CMDP(dense(rows), costs, [0.05]), best.policy).average_costs
    np.testing.assert_allclose(averages, np.repeat([[0.1], [0.0]], rows.S, axis=1), atol=1e-9)  # all are led there
    costs = costs.copy()
    costs[1, :-1] = 0.5
    best = best_policy(rows, costs, np.array([0.05]), join=0.1)
    assert best.feasible
    assert best.value == pytest.approx(0.1, abs=1e-9)
    costs[1, -1] = 0.5
    assert not best_policy(rows, costs, np.array([0.05]), join=0.1).feasible


@pytest.mark.parametrize(("S", "branching", "m"), [(150, 2, 1), (200, 3, 1), (300, 3, 1), (180, 3, 2), (160, 4, 3)])
def test_random_sparse_models(S: int, branching: int, m: int) -> None:
    for seed in range(3):
        cmdp = make("garnet", S=S, A=3, branching=branching, m=m, seed=seed)
        rows = Rows.from_dense(cmdp.matrix.toarray().reshape(cmdp.S, cmdp.A, cmdp.S))
        check_agreement(rows, cmdp.costs, cmdp.thresholds)


def stepped(own: Floats, slope: Floats, mu: Floats, excess: float, multiplier: float) -> tuple[bool, float, list[int]]:
    """Of three states with two actions, all at the first: whether the limit is met, the step, the actions then."""
    rows = Rows.from_dense(np.full((3, 2, 3), 1 / 3))
    policy = rows.begin[:-1].copy()
    met, step = multiplier_step(rows, policy, mu, own, slope, excess, multiplier)
    actions = (policy - rows.begin[:-1]).tolist()
    return met, step, actions


def test_a_step_of_the_multiplier_ends_where_the_limit_is_met() -> None:
    """Two states take other actions on the way, the second of them leads below the limit."""
    own = np.array([0.0, 0.2, 0.0, 0.1, 0.0, 0.9])
    slope = np.array([0.0, -1.0, 0.0, -0.2, 0.0, -1.0])
    mu = np.array([0.5, 0.25, 0.25])
    assert stepped(own, slope, mu, 0.3, 1.0) == (True, 0.2, [1, 0, 0])
    assert stepped(own, slope, mu, 0.52, 1.0) == (True, 0.1 / 0.2, [1, 1, 0])
    assert stepped(own, slope, mu, 0.9, 1.0)[::2] == (False, [0, 0, 0])  # nothing leads so far down
    assert stepped(own, -slope, mu, -0.52, 0.4) == (True, -0.4, [1, 0, 0])  # not below zero


def test_laws_and_biases_are_those_of_exact_evaluation() -> None:
    cmdp, rows = sampled(24, 24, 0.01, 20, 3)
    S, A = cmdp.S, cmdp.A
    model = CMDP(dense(rows), cmdp.costs, cmdp.thresholds)
    actions = np.random.default_rng(np.random.SeedSequence(14)).integers(A, size=S)
    policy, costs = rows.begin[:-1] + actions, np.ascontiguousarray(cmdp.costs[1].ravel())
    exact = evaluate(model, actions)
    solver = PoissonSolver(generator_of(rows))
    # First with a factor of its own, then with that of a policy which differs in ten states.
    for other in (policy, np.where(np.arange(S) < 10, rows.begin[:-1], policy)):
        solver.switch_policy(other)
        assert solver.distribution(np.full(S, 1.0 / S)) is not None
        solver.switch_policy(policy)
        found, mu = solver.bias(costs[policy], np.zeros(S), 1e-13), solver.distribution(np.full(S, 1.0 / S))
        assert found.error <= 1e-13
        assert mu is not None
        assert found.gain == pytest.approx(exact.average_costs[1, 0], abs=1e-12)
        np.testing.assert_allclose(mu, exact.stationary, rtol=0, atol=1e-12)
        bias = exact.bias[1] - exact.bias[1, solver.reference]
        np.testing.assert_allclose(found.values, bias, rtol=0, atol=1e-9 * np.abs(bias).max())


def test_what_lies_ahead_is_what_value_iteration_finds() -> None:
    cmdp = make("grid", rows=9, columns=7, slip=0.1)
    rows, c, rate = rows_of(cmdp), cmdp.costs[0].ravel().copy(), 0.1
    expected = np.zeros(cmdp.S)
    for _ in range(400):
        expected = (c + (1 - rate) * (cmdp.matrix @ expected)).reshape(cmdp.S, cmdp.A).min(axis=1)
    for optimistic in (True, False):
        ahead, policy = discounted_value_iteration(rows, c, rate, optimistic, 1e-15, 400)
        np.testing.assert_allclose(ahead, expected, atol=1e-9)
        np.testing.assert_allclose(ahead, (c + (1 - rate) * (cmdp.matrix @ ahead))[policy], atol=1e-9)


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


@pytest.mark.parametrize("join", [0.1, 0.01, 1e-4])
def test_two_recurrent_classes_are_joined(join: float) -> None:
    """Two rings, a cheap one over the limit and a dear one below it: the optimum needs both, and stays in both.

    A move between them costs (1, 1), the rings (0, 1) and (1, 0). A round trip is two moves, or two moves and a walk
    round the rings: what it costs is known, not only bounded.
    """
    S, A, half = 240, 2, 120
    p = np.zeros((S, A, S))
    for s in range(S):
        ring = s // half * half
        p[s, 0, ring + (s - ring + 1) % half] = 1.0
        p[s, 1, (s + half) % S] = 1.0
    costs = np.zeros((2, S, A))
    costs[0, half:], costs[1, :half] = 1.0, 1.0
    costs[:, :, 1] = 1.0
    best = best_policy(Rows.from_dense(p), costs, np.array([0.5]), join=join)
    assert (best.method, best.classes) == ("compiled", 2)
    assert best.value == pytest.approx(0.5, abs=1e-8)
    assert best.policy is not None
    averages = evaluate(CMDP(p, costs, [0.5]), best.policy).average_costs
    assert np.ptp(averages, axis=1).max() < 1e-9  # one class: the same from every start
    np.testing.assert_allclose(best.average_costs, averages[:, 0], atol=1e-9)
    # With the moves, c_0 + c_1 = 1 + (the share of moves): exactly what both averages are above 1/2 together.
    law = evaluate(CMDP(p, costs, [0.5]), best.policy).stationary
    moves = float(law @ best.policy[:, 1])
    assert 0 < moves <= join * (1 + 1e-9)
    assert averages[0, 0] + averages[1, 0] == pytest.approx(1.0 + moves, abs=1e-9)
    assert averages[0, 0] <= 0.5 + join
    assert averages[1, 0] <= 0.5 + join
    assert best.gap >= averages[0, 0] - 0.5 - 1e-9


@pytest.mark.parametrize("leak", [1e-8, 1e-6])
def test_two_random_graphs_that_are_hardly_joined(leak: float) -> None:
    """Seen from one half the other is a rare place: a law by iteration may have any share of it, and prove nothing."""
    n, rng = 1000, np.random.default_rng(np.random.SeedSequence(7))
    ends = np.stack([rng.choice(n, 4, replace=False) for _ in range(2 * n)])
    p = rng.dirichlet(np.ones(4), size=2 * n)
    trade = np.arange(n // 2)  # two actions with the same moves, and 0.2 of one cost for 0.2 of the other
    ends[2 * trade + 1], p[2 * trade + 1] = ends[2 * trade], p[2 * trade]
    c = np.stack([0.5 * rng.random((n, 2)), np.zeros((n, 2))])
    c[0, trade, 1], c[1, trade, 0] = c[0, trade, 0] + 0.2, 0.2
    half = sparse.csr_array((p.ravel(), (np.repeat(np.arange(2 * n), 4), ends.ravel())), shape=(2 * n, n))
    cross = sparse.csr_array((np.full(2, leak), (np.arange(2), np.zeros(2, dtype=np.int64))), shape=(2 * n, n))
    stay = sparse.diags_array(np.where(np.arange(2 * n) < 2, 1.0 - leak, 1.0)) @ half
    matrix = sparse.block_array([[stay, cross], [cross, stay]], format="csr")
    costs = np.concatenate([c, c], axis=1)
    costs[0, :n] += 0.3
    costs[1, n:] += 0.3
    cmdp = CMDP(matrix, costs, [0.2])
    best = best_policy(rows_of(cmdp), cmdp.costs, cmdp.thresholds, join=0.1)
    assert best.policy is not None
    found = evaluate(cmdp, best.policy).average_costs.max(axis=1)
    assert (found <= np.append(best.value, cmdp.thresholds) + best.gap + 1e-9).all()
    assert found[0] >= best.value - best.gap - 1e-9
