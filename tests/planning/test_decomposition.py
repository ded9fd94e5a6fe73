"""Occupancies of linear programs as mixtures of deterministic policies."""

import numpy as np
import pytest

from psconrl import CMDP, evaluate
from psconrl.planning.compiled.rows import Rows
from psconrl.planning.lp.decomposition import deterministic
from psconrl.planning.lp.highs import run
from tests.planning.reference import program_of, random_cmdps


@pytest.mark.parametrize("entropy", [31, 32])
def test_the_mixture_has_the_occupancy_of_the_vertex(entropy: int) -> None:
    mixed = 0
    for cmdp in random_cmdps(40, entropy):
        vertex = run(program_of(cmdp).value)
        if vertex.status != "optimal":
            continue
        rows, x = Rows.from_sparse(cmdp.matrix), vertex.x[: cmdp.S * cmdp.A].clip(0.0)
        found = deterministic(rows, x)
        mixed += len(found) > 1
        total = np.zeros(rows.K)
        for weight, policy, law in found:
            assert weight > 0
            assert law.sum() == pytest.approx(1.0, abs=1e-12)
            np.testing.assert_array_equal(rows.source[policy], np.arange(rows.S))
            np.testing.assert_allclose(rows.matrix()[policy].T @ law, law, atol=1e-10)
            total[policy] += weight * law
        assert sum(weight for weight, _, _ in found) == pytest.approx(1.0, abs=1e-12)
        np.testing.assert_allclose(total, x / x.sum(), atol=1e-7)
        assert len(found) <= cmdp.m + 1 + len(evaluate(cmdp, np.full((cmdp.S, cmdp.A), 1 / cmdp.A)).classes)
    assert mixed > 3


def test_two_classes_by_hand() -> None:
    """Half of the time in each of two states that are stayed in: two policies, each led into its class."""
    p = np.array([[[1.0, 0.0], [0.0, 1.0]], [[0.0, 1.0], [1.0, 0.0]]])
    found = deterministic(Rows.from_dense(p), np.array([0.5, 0.0, 0.5, 0.0]))
    assert sorted((weight, law.tolist()) for weight, _, law in found) == [(0.5, [0.0, 1.0]), (0.5, [1.0, 0.0])]


def test_a_state_that_is_hardly_ever_visited() -> None:
    """Its occupancy is below what counts, and yet it belongs to the class."""
    p = np.array([[[1 - 1e-17, 1e-17]], [[0.5, 0.5]]])
    ((weight, policy, law),) = deterministic(Rows.from_dense(p), np.array([1.0, 0.0]))
    assert (weight, policy.tolist()) == (1.0, [0, 1])
    np.testing.assert_allclose(law, [1.0, 2e-17], rtol=1e-12)


def test_rounding_is_no_occupancy() -> None:
    p = np.array([[[0.5, 0.5], [1.0, 0.0]], [[0.5, 0.5], [0.0, 1.0]]])
    cmdp = CMDP(p, np.zeros((1, 2, 2)))
    x = np.array([0.5, 1e-16, 0.5, -0.0])
    ((weight, policy, law),) = deterministic(Rows.from_sparse(cmdp.matrix), x)
    assert weight == 1.0
    assert policy.tolist() == [0, 2]
    np.testing.assert_allclose(law, [0.5, 0.5], atol=1e-15)
