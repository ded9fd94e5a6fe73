"""Random numbers inside compiled loops: the bits against numpy's generator of the same name, the laws by tests."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy import stats

from psconrl._core.checks import Floats
from psconrl.agents import _random_kernels as kernels


def test_the_bits_are_those_of_sfc64() -> None:
    theirs = np.random.SFC64(7)
    state: Any = theirs.state["state"]["state"].copy()
    assert [int(kernels.raw(state)) for _ in range(1000)] == theirs.random_raw(1000).tolist()


def test_seeds_give_different_and_repeatable_states() -> None:
    first, again, other = (kernels.seeded(np.random.default_rng(seed)) for seed in (1, 1, 2))
    assert first.tolist() == again.tolist()
    assert first.tolist() != other.tolist()


def drawn(kernel: Any, *parameters: float) -> Floats:
    """A hundred thousand numbers of a kernel."""
    state = kernels.seeded(np.random.default_rng(np.random.SeedSequence(20)))
    return np.array([kernel(state, *parameters) for _ in range(100_000)])


@pytest.mark.parametrize(
    ("kernel", "parameters", "law"),
    [
        (kernels.uniform, (), stats.uniform().cdf),
        (kernels.exponential, (), stats.expon().cdf),
        (kernels.normal, (), stats.norm().cdf),
        *((kernels.gamma, (shape,), stats.gamma(shape).cdf) for shape in (1.0, 1.6, 7.0, 3000.0)),
    ],
)
def test_laws(kernel: Any, parameters: tuple[float, ...], law: Callable[[Floats], Floats]) -> None:
    """Kolmogorov-Smirnov, and the tails beyond the ziggurats' lowest layers; false alarms below 7 * 3e-6."""
    numbers = drawn(kernel, *parameters)
    assert stats.kstest(numbers, law).pvalue > 1e-6
    for share in (1e-4, 1e-3):
        tail = int((law(numbers) > 1 - share).sum())
        assert stats.binomtest(tail, len(numbers), share).pvalue > 1e-6


@pytest.mark.parametrize("ends", [kernels._EXP_X, kernels._NORMAL_X])
def test_the_layers_fall_and_close(ends: Floats) -> None:
    assert (np.diff(ends) < 0).all()
    density = kernels._EXP_F if ends is kernels._EXP_X else kernels._NORMAL_F
    areas = ends[1:-1] * np.diff(density[1:])
    np.testing.assert_allclose(areas, areas[0], rtol=1e-8)
