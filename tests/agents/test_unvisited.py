"""Pairs never visited, costs after bonuses, and policies of adversarial samples."""

from typing import Any

import numpy as np
import pytest
from scipy import sparse

from psconrl import CMDP, Problem, agents, make
from psconrl._core.checks import Floats, Ints
from psconrl._core.graph import is_communicating
from psconrl.agents import Memory, planning
from psconrl.agents.bonuses import check_bonus
from psconrl.agents.counts import Counts
from psconrl.agents.planning import empirical_transitions
from psconrl.learning import simulate
from psconrl.planning import best_policy, evaluate
from psconrl.planning.compiled.rows import Rows
from psconrl.planning.for_agents import Method
from tests.agents.drawing import dense, draw_array
from tests.learning.walk import Recording

S, A = 5, 2


def memory(steps: list[tuple[int, int, int]], state: int, costs: Floats | None = None) -> Memory:
    """After some steps (s, a, s'), each with the costs (0.5, 1)."""
    counts: Ints = np.zeros((S, A, S), dtype=np.int64)
    sums = np.zeros((2, S, A))
    for s, a, x in steps:
        counts[s, a, x] += 1
        sums[:, s, a] += (0.5, 1.0) if costs is None else costs
    return Memory(len(steps), 1000, state, 3, 1, Counts.from_dense(counts), counts.sum(axis=2), sums, {})


SEEN = [(0, 0, 0), (0, 0, 1), (1, 1, 0)]


def test_transitions_of_unvisited_pairs_are_uniform_over_the_states_seen() -> None:
    p = dense(empirical_transitions(memory(SEEN, state=3)))
    np.testing.assert_array_equal(p[0, 0], [0.5, 0.5, 0, 0, 0])
    np.testing.assert_array_equal(p[1, 1], [1, 0, 0, 0, 0])
    third = [1 / 3, 1 / 3, 0, 1 / 3, 0]  # states 0 and 1 were seen, 3 is where we are
    for s, a in np.ndindex(S, A):
        if (s, a) not in {(0, 0), (1, 1)}:
            np.testing.assert_array_equal(p[s, a], third)


def test_at_the_start_only_the_current_state_is_seen() -> None:
    p = dense(empirical_transitions(memory([], state=2)))
    np.testing.assert_array_equal(p, np.broadcast_to(np.eye(S)[2], (S, A, S)))


@pytest.mark.parametrize("bonuses", ["original", "simple"])
@pytest.mark.parametrize("name", ["conrl", "c_ucrl"])
def test_what_conrl_and_c_ucrl_plan_with(name: str, bonuses: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Estimated costs are 0 where nothing was seen; the main cost is lowered, clipped to [0, 1]."""
    given: list[tuple[Rows, Floats]] = []
    plan_in = planning.plan_in

    def recording(transitions: Rows, costs: Floats, *rest: Any, **options: Any) -> Any:
        given.append((transitions, costs.copy()))
        return plan_in(transitions, costs, *rest, **options)

    monkeypatch.setattr(planning, "plan_in", recording)
    problem = Problem(S, A, [0.9])
    agent: agents.Agent
    if name == "conrl":
        agent = agents.ConRL(problem, bonus=bonuses, scale=0.3)  # type: ignore[arg-type]
        remembered = memory(SEEN, state=1)
    else:
        agent = agents.CUCRL(problem, bonus=bonuses, scale=0.3)  # type: ignore[arg-type]
        remembered = memory(SEEN, state=1)
        remembered = Memory(**(vars(remembered) | {"carry": {"position": np.array([2, 3, 1])}}))
    agent.plan(remembered, np.random.default_rng(0))
    (transitions, costs) = given[0]
    np.testing.assert_array_equal(dense(transitions), dense(empirical_transitions(remembered)))
    assert ((costs >= 0) & (costs <= 1)).all()
    mean = remembered.mean_costs()
    assert (mean[:, remembered.visits == 0] == 0).all()
    if name == "conrl":
        log = 2 * np.log(8 * S * A * 2 * 4**2 / 0.05)  # H = 1, m + 1 = 2, k = 4
        sign = -1
    else:
        log = np.log(S * A * 2 * np.pi**2 * 3**3 / (3 * 0.05)) / 2  # t_k = 3
        sign = 1
    N = remembered.visits
    b = 0.3 * np.sqrt(log / np.maximum(N, 1)) if bonuses == "original" else np.where(N, 0.3 / np.sqrt(N.clip(1)), 1.0)
    np.testing.assert_allclose(costs[0], (mean[0] - b).clip(0, 1), rtol=1e-14)
    np.testing.assert_allclose(costs[1], (mean[1] + sign * b).clip(0, 1), rtol=1e-14)


def test_unknown_bonus() -> None:
    with pytest.raises(ValueError, match='bonus is \'huge\'; it must be "original" or "simple"'):
        check_bonus("huge", 1.0)


@pytest.mark.parametrize("bonuses", ["original", "simple"])
def test_radius_one_where_nothing_was_seen(bonuses: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """UCRL-CMDP and FHA: l = 0 and u = 1 there, however small the scale."""
    remembered = memory(SEEN, state=1)
    fresh = remembered.visits == 0
    given: list[Floats] = []

    from psconrl.planning.optimistic import best_optimistic

    def recording(p_hat: Floats, radius: Floats, *rest: Any, **more: Any) -> Any:
        given.append(radius.copy())
        return best_optimistic(p_hat, radius, *rest, **more)

    monkeypatch.setattr("psconrl.agents.ucrl_cmdp.best_optimistic", recording)
    problem = Problem(S, A, [0.9])
    agents.UCRLCMDP(problem, bonus=bonuses, scale=0.01).plan(  # type: ignore[arg-type]
        remembered, np.random.default_rng(0)
    )
    assert (given[0][fresh] == 1.0).all()
    assert (given[0][~fresh] < 0.1).all()
    fha = agents.FHA(problem, bonus=bonuses, scale=0.001)  # type: ignore[arg-type]
    radius = fha.radius(remembered, remembered.mean_transitions())
    assert (radius[fresh] == 1.0).all()
    assert (radius[~fresh] < 1.0).all()


def adversarial(seed: int, states: int, alpha: float) -> tuple[Floats, Floats]:
    rng = np.random.default_rng(np.random.SeedSequence(seed))
    shape = (states, 3, states)
    return draw_array(np.full(shape, alpha), np.zeros(shape, dtype=np.int64), rng, cut=0.0), rng.random((2, states, 3))


@pytest.mark.parametrize("method", ["compiled", "components"])
@pytest.mark.parametrize("alpha", [0.01, 0.001, 0.1])
def test_policies_of_adversarial_samples_are_distributions(alpha: float, method: Method) -> None:
    """Near-deterministic samples with entries of 1e-300: several classes, states without occupancy.

    Without limits there is always a policy, a limit never makes the optimum better, and a policy of one class does
    exactly what is said of it, from every state.
    """
    exact = 0
    for seed in range(40):
        p, costs = adversarial(seed, 8, alpha)
        matrix = sparse.csr_array(p.reshape(-1, 8))
        free = -np.inf
        for thresholds in (np.zeros(0), np.array([0.5])):
            best = best_policy(p, costs[: len(thresholds) + 1], thresholds, join=0.1, method=method)
            if not best.feasible:
                assert len(thresholds), "without limits every model has a policy"
                assert best.policy is None
                continue
            assert best.policy is not None
            assert np.isfinite(best.policy).all()
            assert (best.policy >= 0).all()
            np.testing.assert_allclose(best.policy.sum(axis=1), 1.0, rtol=0, atol=1e-12)
            assert best.value >= free - 1e-9
            assert costs[0].min() - 1e-9 <= best.value <= costs[0].max() + 1e-9
            free = max(free, best.value)
            if is_communicating(matrix):
                assert best.connected, "every state can be reached from every other one"
            if best.connected and best.classes == 1:
                averages = evaluate(CMDP(p, costs[: len(thresholds) + 1], thresholds), best.policy).average_costs
                np.testing.assert_allclose(averages, np.repeat(best.average_costs[:, np.newaxis], 8, axis=1), atol=1e-7)
                assert (averages[0] <= best.value + best.gap + 1e-9).all()
                assert best.gap <= 1e-8
                assert (averages[1:] <= thresholds[:, np.newaxis] + 1e-7).all()
                exact += 1
    assert exact > 20


def test_not_connected_only_if_there_is_no_way() -> None:
    """Two traps, one of them cheap: the other cannot be left, and says so."""
    p = np.zeros((3, 2, 3))
    p[0, :, 0], p[1, :, 1] = 1.0, 1.0
    p[2, 0, 0], p[2, 1, 1] = 1.0, 1.0
    costs = np.array([[[0.0, 0.0], [1.0, 1.0], [0.5, 0.5]]])
    best = best_policy(p, costs, np.zeros(0), join=0.1)
    assert best.policy is not None
    assert not best.connected
    np.testing.assert_array_equal(best.policy[1], [0.5, 0.5])  # no way: uniform
    np.testing.assert_array_equal(best.policy[2], [1.0, 0.0])  # the way into the cheap trap
    p[1, 1] = [1e-12, 1 - 1e-12, 0]  # a way, if a narrow one
    best = best_policy(p, costs, np.zeros(0), join=0.1)
    assert best.policy is not None
    assert best.connected
    np.testing.assert_array_equal(best.policy[1], [0.0, 1.0])


@pytest.mark.parametrize("name", ["PSConRL", "TSDE", "CMDP-PSRL", "ConRL"])
def test_no_plan_of_a_run_is_ever_broken(name: str) -> None:
    """Marsrover from nothing: near-deterministic samples, most states without occupancy."""
    cmdp = make("marsrover-4x4")
    agent = Recording(agents.find(name)(cmdp.problem("estimated")))
    simulate(agent, cmdp, 150, 1)
    for _, plan in agent.plans:
        assert (plan.policy >= 0).all()
        np.testing.assert_allclose(plan.policy.sum(axis=2), 1.0, rtol=0, atol=1e-9)
