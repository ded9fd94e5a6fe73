"""The rule for ties: all ways of planning answer with the same of several optimal policies."""

import numpy as np
import pytest

from psconrl._core.checks import Floats
from psconrl.planning import ties
from psconrl.planning.compiled.rows import Rows
from psconrl.planning.for_agents import Method, plan_rows

METHODS: tuple[Method, ...] = ("compiled", "components", "highs")


def twins(seed: int, m: int) -> tuple[Rows, Floats, Floats]:
    """A model in which every action has four twins, each with a level of its own."""
    rng = np.random.default_rng(seed)
    S, A = 6, 2
    p, c = rng.dirichlet(np.full(S, 0.4), size=(S, A)), rng.random((m + 1, S, A))
    rows = Rows.from_dense(np.repeat(p, 4, axis=1))
    return rows, np.repeat(c, 4, axis=2).reshape(m + 1, -1), c[1:].mean(axis=(1, 2))


@pytest.mark.parametrize("m", [0, 1, 2])
@pytest.mark.parametrize("seed", range(5))
def test_of_equal_actions_all_methods_take_the_one_of_least_level(seed: int, m: int) -> None:
    rows, costs, thresholds = twins(seed, m)
    levels = (ties.decided(costs)[0] - costs[0]).reshape(-1, 4)
    least = levels <= levels.min(axis=1, keepdims=True) + 0.5 * ties.SIZE / ties.LEVELS
    answers = [plan_rows(rows, costs, thresholds, join=1e-7, method=method) for method in METHODS]
    for method, best in zip(METHODS, answers, strict=True):
        assert best.method == method
        assert best.policy is not None
        assert not best.policy.reshape(-1, 4)[~least].any()
        np.testing.assert_allclose(best.value, answers[0].value, atol=1e-12)
        # Twins together: which of several of the least level is taken may differ.
        together = best.policy.reshape(-1, 4).sum(axis=1)
        np.testing.assert_allclose(together, answers[0].policy.reshape(-1, 4).sum(axis=1), atol=1e-6)  # type: ignore[union-attr]


def test_what_the_rule_costs_is_part_of_the_gap() -> None:
    rows, costs, thresholds = twins(0, 1)
    for method in METHODS:
        assert ties.SIZE / ties.LEVELS <= plan_rows(rows, costs, thresholds, join=1e-7, method=method).gap <= 1e-7
