"""What released code does otherwise: pairs never visited, states without occupancy, the floor, episodes."""

from typing import Any

import numpy as np
import pytest
from scipy.optimize import linprog

from psconrl import InvalidArgumentError, Problem, agents, make, simulate
from psconrl.agents import FOREVER, Memory, as_array
from psconrl.agents.counts import Counts
from psconrl.agents.schedules import fixed
from reproduction import Floats, Ints
from reproduction.agents import (
    RELEASED,
    Impute,
    ReleasedConRL,
    ReleasedPSConRL,
    ReleasedUCRLCMDP,
    plan_without_paths,
    quadrupling,
)
from tests.learning.walk import walk


def memory(counts: Ints, state: int = 0, **fields: Any) -> Memory:
    S, A, _ = counts.shape
    sums = np.zeros((2, S, A))
    given: Any = (3, 1000, state, 3, 1, Counts.from_dense(counts), counts.sum(axis=2), sums, {})
    return Memory(*given, **fields)


def estimated(counts: Ints, impute: Impute, rng: np.random.Generator) -> Floats:
    """What the released ConRL believes, as an array."""
    known = memory(counts)
    return as_array(ReleasedConRL(Problem(4, 2, [0.5]), impute=impute).estimate(known, rng), known)


def some_counts() -> Ints:
    counts = np.zeros((4, 2, 4), dtype=np.int64)
    counts[0, 0, [0, 1]] = 1, 3
    counts[1, 1, 2] = 2
    return counts


def test_self_loops() -> None:
    p = estimated(some_counts(), "self_loop", np.random.default_rng(0))
    np.testing.assert_array_equal(p[0, 0], [0.25, 0.75, 0, 0])
    np.testing.assert_array_equal(p[1, 1], [0, 0, 1, 0])
    for s, a in np.ndindex(4, 2):
        if (s, a) not in {(0, 0), (1, 1)}:
            np.testing.assert_array_equal(p[s, a], np.eye(4)[s])


def test_dirichlet_imputation() -> None:
    """Uniform on the simplex: mean 1 / S, variance (S - 1) / (S^2 (S + 1)); false alarms below 1e-4 (5 deviations)."""
    rng, draws = np.random.default_rng(np.random.SeedSequence(1)), 2000
    drawn = np.array([estimated(some_counts(), "dirichlet", rng) for _ in range(draws)])
    np.testing.assert_array_equal(drawn[:, 0, 0], np.broadcast_to([0.25, 0.75, 0, 0], (draws, 4)))
    fresh = drawn[:, 2:]
    np.testing.assert_allclose(fresh.sum(axis=-1), 1.0, rtol=0, atol=1e-12)
    deviation = np.sqrt(3 / (16 * 5))
    assert np.abs(fresh.mean(axis=0) - 0.25).max() < 5 * deviation / np.sqrt(draws)
    np.testing.assert_allclose(fresh.std(axis=0), deviation, rtol=0.1)


@pytest.mark.parametrize("floor", [0.05, 0.5, 1.0])
def test_floored_draws_have_the_right_moments(floor: float) -> None:
    """Dirichlet(max(N, floor)): means of 3,000 draws within 6 standard errors; false alarms below 1e-6."""
    counts, draws = some_counts(), 3000
    counts[3, 0] = [1, 1, 1, 1]  # nothing is left for the floor
    rng = np.random.default_rng(np.random.SeedSequence(2))
    agent, known = ReleasedPSConRL(Problem(4, 2, [0.5]), floor=floor), memory(counts)
    drawn = np.array([as_array(agent.sample(known, rng), known) for _ in range(draws)])
    np.testing.assert_allclose(drawn.sum(axis=-1), 1.0, rtol=0, atol=1e-12)
    alpha = np.maximum(counts, floor)
    total = alpha.sum(axis=-1, keepdims=True)
    mean = alpha / total
    variance = mean * (1 - mean) / (total + 1)
    assert (np.abs(drawn.mean(axis=0) - mean) < 6 * np.sqrt(variance / draws) + 1e-9).all()
    np.testing.assert_allclose(drawn.var(axis=0), variance, rtol=0.25, atol=2e-4)


def occupancy(p: Floats, costs: Floats, thresholds: Floats) -> tuple[float, Floats] | None:
    """Value and occupancy (S, A) of the linear program."""
    S, A, _ = p.shape
    flow = np.repeat(np.eye(S), A, axis=1) - p.reshape(S * A, S).T
    equations, right = np.vstack([flow, np.ones(S * A)]), np.append(np.zeros(S), 1.0)
    limits = costs[1:].reshape(len(thresholds), -1)
    found = linprog(costs[0].ravel(), limits, thresholds, equations, right, method="highs-ds")
    return (float(found.fun), found.x.reshape(S, A)) if found.success else None


def test_states_without_occupancy() -> None:
    """The policy is the ratio of the program's occupancy where there is some, and uniform elsewhere."""
    rng = np.random.default_rng(np.random.SeedSequence(3))
    compared = 0
    for _ in range(40):
        S, A = 7, 3
        p = np.zeros((S, A, S))
        for s, a in np.ndindex(S, A):
            p[s, a, rng.choice(S, 2, replace=False)] = rng.dirichlet([1.0, 1.0])
        costs, tau = rng.random((2, S, A)), np.array([0.5])
        best = plan_without_paths(p, costs, tau, memory(np.zeros((S, A, S), int)), fixed(9))
        found = occupancy(p, costs, tau)
        if found is None or best.policy is None:
            assert best.policy is None
            assert found is None
            continue
        value, mu = found
        assert best.value == pytest.approx(value, abs=1e-7)
        mass = mu.sum(axis=1)
        inside = mass > 1e-9
        np.testing.assert_allclose(best.policy[inside], mu[inside] / mass[inside, None], atol=1e-6)
        np.testing.assert_array_equal(best.policy[~inside], 1 / A)
        compared += 1
    assert compared > 20


def test_classes_stay_apart() -> None:
    """Two traps and a state between them: without joining, each trap keeps its states, the third acts uniformly."""
    p = np.zeros((3, 2, 3))
    p[0, 0, 0] = p[0, 1, 2] = p[1, 0, 1] = p[1, 1, 2] = p[2, 0, 0] = p[2, 1, 1] = 1.0
    costs = np.array([[[0, 1.0], [1.0, 1.0], [1.0, 1.0]], [[1.0, 1.0], [0, 1.0], [1.0, 1.0]]])
    started = memory(np.zeros((3, 2, 3), dtype=np.int64))
    best = plan_without_paths(p, costs, np.array([0.5]), started, fixed(9))
    assert best.policy is not None
    np.testing.assert_array_equal(best.policy, [[1, 0], [1, 0], [0.5, 0.5]])


def test_quadrupling() -> None:
    """An episode ends with the step that brings a pair to 3 (1 + N_k) plays in it."""
    counts = some_counts()
    stop = quadrupling(memory(counts))
    assert stop["max_length"] == FOREVER
    np.testing.assert_array_equal(stop["count_limit"], 4 * counts.sum(axis=2) + 2)
    cmdp = make("marsrover-4x4")
    agent = ReleasedPSConRL(cmdp.problem("estimated"))
    walked = walk(agent, cmdp, 600, 0)
    N, v = (np.zeros((cmdp.S, cmdp.A), dtype=np.int64) for _ in range(2))
    starts = [0]
    for t, (s, a) in enumerate(zip(walked.states, walked.actions, strict=True), start=1):
        v[s, a] += 1
        if (v >= 3 * (1 + N)).any():
            N += v
            v[:] = 0
            starts.append(t)
    assert walked.starts == (starts if starts[-1] < 600 else starts[:-1])


AS_RELEASED: tuple[tuple[str, dict[str, Any]], ...] = (
    ("PSConRL", {"floor": 0.05}),
    ("ConRL", {"impute": "dirichlet"}),
    ("C-UCRL", {"impute": "self_loop", "h": 10}),
    ("UCRL-CMDP", {"h": 10}),
)


@pytest.mark.parametrize(("name", "settings"), AS_RELEASED)
def test_variants_pass_the_contract(name: str, settings: dict[str, Any]) -> None:
    cmdp = make("marsrover-4x4")
    agents.check_agent(agents.find(RELEASED[name])(cmdp.problem("estimated"), **settings), steps=120)
    run = simulate(agents.find(RELEASED[name])(cmdp.problem("estimated"), **settings), cmdp, 300, 0)
    assert run.episodes["length"].sum() == 300


def test_ucrl_cmdp_in_the_episodes_of_c_ucrl() -> None:
    cmdp = make("marsrover-4x4")
    run = simulate(ReleasedUCRLCMDP(cmdp.problem("known"), h=10), cmdp, 160, 0)
    np.testing.assert_array_equal(run.episodes["length"], [10, 10, 10, 10, 20, 10, 30, 10, 40, 10])
    assert [phase == "explore" for phase in run.episodes["phase"]][:6] == [True, True, False, True, False, True]


@pytest.mark.parametrize(
    ("name", "settings", "said"),
    [
        ("ConRL", {"impute": "nothing"}, "impute is 'nothing'; it must be one of self_loop, dirichlet"),
        ("PSConRL", {"floor": 0.0}, r"floor is 0.0; it must be a number in \(0, 1\]"),
        ("PSConRL", {"prior": "learned"}, 'prior is "learned"; the released code has none'),
        ("UCRL-CMDP", {"h": 0}, "h is 0"),
    ],
)
def test_what_is_refused(name: str, settings: dict[str, Any], said: str) -> None:
    with pytest.raises((InvalidArgumentError, TypeError), match=said):
        agents.find(RELEASED[name])(Problem(3, 2, [0.5]), **settings)
