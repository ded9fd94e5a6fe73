"""Plans made component by component, judged in exact rational arithmetic."""

import numpy as np
import pytest

from psconrl.planning import best_policy
from psconrl.planning.compiled.rows import Rows
from psconrl.planning.components import end_components
from tests.planning import attacks
from tests.planning.judge import judge_best
from tests.planning.test_components import model

JOIN = 1e-7
SAMPLE = 25


@pytest.mark.parametrize("family", attacks.FAMILIES)
def test_hard_models_component_by_component(family: str) -> None:
    for number in range(SAMPLE):
        cmdp = attacks.model(family, number, entropy=40)
        p, costs, tau = np.array(cmdp.transitions), np.array(cmdp.costs), np.array(cmdp.thresholds)
        best = best_policy(p, costs, tau, join=JOIN, method="components")
        assert judge_best(p, costs, tau, best, JOIN) == [], number


@pytest.mark.parametrize("seed", range(20))
def test_models_that_fall_apart_by_both_methods(seed: int) -> None:
    """Several components, several limits, a start from another model."""
    rng = np.random.default_rng(np.random.SeedSequence([22, seed]))
    S, A, m = 12, 3, seed % 4
    p, other = model(seed, S, A), model(seed + 100, S, A)
    costs, tau = rng.random((m + 1, S, A)), 0.3 + 0.4 * rng.random(m)
    wanted = best_policy(p, costs, tau, join=JOIN, method="components")
    found = best_policy(p, costs, tau, join=JOIN, start=best_policy(other, costs, tau, join=JOIN).start)
    assert found.feasible == wanted.feasible
    if wanted.feasible:
        assert found.value == pytest.approx(wanted.value, abs=2e-9)
        assert found.classes == wanted.classes


@pytest.mark.parametrize("seed", range(10))
def test_submodels_of_components(seed: int) -> None:
    """Against slices of the matrix."""
    rows = Rows.from_dense(model(seed, 9, 3))
    for states, pairs in end_components(rows):
        part = rows.part(states, pairs)
        np.testing.assert_array_equal(part.matrix().toarray(), rows.matrix().toarray()[pairs][:, states])
        np.testing.assert_array_equal(states[part.source], rows.source[pairs])
