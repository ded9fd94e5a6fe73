"""Components in compiled code against exact rational arithmetic, the plain frame, and evaluations."""

from typing import Any

import numpy as np
import pytest

from psconrl import CMDP, evaluate
from psconrl.planning import best_policy, for_agents, second_opinion
from psconrl.planning.compiled.by_components import law_from
from psconrl.planning.compiled.generation import plain_generate
from psconrl.planning.compiled.rows import Rows, part_of
from psconrl.planning.components import end_components
from tests.planning import attacks
from tests.planning.judge import judge_best
from tests.planning.test_components import model

JOIN = 1e-7
SAMPLE = 25


@pytest.mark.parametrize("family", attacks.FAMILIES)
def test_hard_models_by_exact_arithmetic(family: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What components prove, asked at once; nearly always they need no slower method."""
    monkeypatch.setattr(for_agents, "_compiled", lambda *args: None)
    asked = []

    def slowly(*args: Any) -> Any:
        asked.append(family)
        return plain_generate(*args)

    monkeypatch.setattr(second_opinion, "plain_generate", slowly)
    for number in range(SAMPLE):
        cmdp = attacks.model(family, number, entropy=40)
        p, costs, tau = np.array(cmdp.transitions), np.array(cmdp.costs), np.array(cmdp.thresholds)
        assert judge_best(p, costs, tau, best_policy(p, costs, tau, join=JOIN), JOIN) == [], number
    assert len(asked) <= SAMPLE // 2


@pytest.mark.parametrize("seed", range(20))
def test_samples_that_fall_apart_against_the_plain_frame(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Several components, several limits, a start from another model: the same values, and no second best columns."""
    rng = np.random.default_rng(np.random.SeedSequence([22, seed]))
    S, A, m = 12, 3, seed % 4
    p, other = model(seed, S, A), model(seed + 100, S, A)
    costs = rng.random((m + 1, S, A))
    tau = 0.3 + 0.4 * rng.random(m)
    wanted = best_policy(p, costs, tau, join=JOIN, method="components")
    start = best_policy(other, costs, tau, join=JOIN).start
    monkeypatch.setattr(for_agents, "_compiled", lambda *args: None)
    found = best_policy(p, costs, tau, join=JOIN, start=start)
    assert (found.feasible, found.method) == (wanted.feasible, "components")
    if wanted.feasible:
        assert found.value == pytest.approx(wanted.value, abs=2e-9)
        assert found.classes == wanted.classes
        if found.classes == 1:
            assert found.gap <= 2e-9


@pytest.mark.parametrize("seed", range(30))
def test_the_law_of_the_class_of_a_state(seed: int) -> None:
    """Against evaluations from that state; none from states that are left for ever."""
    rng = np.random.default_rng(seed)
    S, A = 6, 2
    p = model(seed, S, A)
    p[rng.integers(S), 0] = np.eye(S)[0] * (1 - 1e-12) + np.eye(S)[-1] * 1e-12
    policy = rng.dirichlet(np.ones(A), S)
    policy[rng.random(S) < 0.5] = [1.0, 0.0]
    cmdp, rows, law = CMDP(p, np.zeros((1, S, A))), Rows.from_dense(p), np.empty(S)
    for s in range(S):
        exact = evaluate(CMDP(p, cmdp.costs, initial=s), policy)
        recurrent = any(s in states for states in exact.classes)
        assert law_from(rows, policy.ravel(), s, law) == recurrent
        np.testing.assert_allclose(law, exact.stationary if recurrent else 0.0, rtol=1e-10, atol=0.0)


@pytest.mark.parametrize("seed", range(10))
def test_parts_of_models(seed: int) -> None:
    """Against slices of the matrix."""
    rows = Rows.from_dense(model(seed, 9, 3))
    for states, pairs in end_components(rows):
        part = part_of(rows, states, pairs)
        np.testing.assert_array_equal(part.matrix().toarray(), rows.matrix().toarray()[pairs][:, states])
        np.testing.assert_array_equal(states[part.source], rows.source[pairs])
