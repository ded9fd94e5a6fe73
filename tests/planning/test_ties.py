"""The rule for ties: all ways of planning answer with the same of several optimal policies."""

import numpy as np
import pytest

from psconrl import make
from psconrl._core.checks import Floats
from psconrl.planning import ties
from psconrl.planning.compiled.rows import Rows
from psconrl.planning.for_agents import Method, plan_rows
from psconrl.planning.model_rows import rows_of
from psconrl.planning.tolerances import TIE_BREAK

METHODS: tuple[Method, ...] = ("compiled", "components")


def twins(seed: int, m: int, S: int = 6) -> tuple[Rows, Floats, Floats]:
    """A model in which every action has four twins, each with a level of its own."""
    rng = np.random.default_rng(seed)
    A = 2
    p, c = rng.dirichlet(np.full(S, 2.4 / S), size=(S, A)), rng.random((m + 1, S, A))
    rows = Rows.from_dense(np.repeat(p, 4, axis=1))
    return rows, np.repeat(c, 4, axis=2).reshape(m + 1, -1), c[1:].mean(axis=(1, 2))


@pytest.mark.parametrize("m", [0, 1, 2])
@pytest.mark.parametrize("seed", range(5))
def test_of_equal_actions_all_methods_take_the_one_of_least_level(seed: int, m: int) -> None:
    rows, costs, thresholds = twins(seed, m)
    levels = (ties.decided(costs)[0] - costs[0]).reshape(-1, 4)
    least = levels <= levels.min(axis=1, keepdims=True) + 0.5 * TIE_BREAK / 64
    answers = [plan_rows(rows, costs, thresholds, join=1e-7, method=method) for method in METHODS]
    for method, best in zip(METHODS, answers, strict=True):
        assert best.method == method
        assert best.policy is not None
        assert not best.policy.reshape(-1, 4)[~least].any()
        np.testing.assert_allclose(best.value, answers[0].value, atol=1e-12)
        # Twins together: which of several of the least level is taken may differ.
        together = best.policy.reshape(-1, 4).sum(axis=1)
        np.testing.assert_allclose(together, answers[0].policy.reshape(-1, 4).sum(axis=1), atol=1e-6)  # type: ignore[union-attr]


@pytest.mark.parametrize("m", [0, 1, 2])
@pytest.mark.parametrize("S", [140, 400])
def test_in_large_models_too(S: int, m: int) -> None:
    rows, costs, thresholds = twins(3, m, S)
    levels = (ties.decided(costs)[0] - costs[0]).reshape(-1, 4)
    least = levels <= levels.min(axis=1, keepdims=True) + 0.5 * TIE_BREAK / 64
    best = plan_rows(rows, costs, thresholds, join=1e-7)
    assert best.method == "compiled"
    assert best.policy is not None
    visited = np.repeat(best.policy.reshape(S, -1) @ np.ones(8) > 0, 2)
    assert not best.policy.reshape(-1, 4)[~least & visited[:, np.newaxis]].any()


@pytest.mark.parametrize("side", [12, 15])
def test_rounding_decides_nothing_in_large_grids(side: int) -> None:
    """Grids are full of ways that are equally good: numbers that are rounded otherwise change nothing."""
    cmdp = make("grid", rows=side, columns=side, slip=0.1)
    rows, costs = rows_of(cmdp), cmdp.costs.reshape(2, -1)
    wanted = plan_rows(rows, costs, cmdp.thresholds, join=1e-7)
    rng = np.random.default_rng(1)
    for _ in range(5):
        data = rows.data * (1 + 2e-16 * rng.integers(-2, 3, len(rows.data)))
        shaken = costs * (1 + 2e-16 * rng.integers(-2, 3, costs.shape))
        found = plan_rows(rows._replace(data=data), shaken, cmdp.thresholds, join=1e-7)
        assert found.policy is not None
        assert wanted.policy is not None
        np.testing.assert_allclose(found.policy, wanted.policy, atol=1e-7)


def test_what_the_rule_costs_is_part_of_the_gap() -> None:
    rows, costs, thresholds = twins(0, 1)
    for method in METHODS:
        assert TIE_BREAK / 64 <= plan_rows(rows, costs, thresholds, join=1e-7, method=method).gap <= 1e-7
