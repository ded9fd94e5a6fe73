import numpy as np
import pytest

from reproduction.references import levels, structure_of


@pytest.mark.parametrize(
    ("env", "optimal", "fast", "safe"),
    [
        ("marsrover-4x4", 0.775, 0.75, 0.875),
        ("marsrover-8x8", 0.9380952380952381, 12 / 13, 20 / 21),
        ("box", 0.845, 5 / 6, 7 / 8),
    ],
)
def test_the_three_policies_of_the_gridworlds(env: str, optimal: float, fast: float, safe: float) -> None:
    found = levels(env)
    assert (found.optimal[0], found.fast[0], found.safe[0]) == pytest.approx((optimal, fast, safe), abs=1e-6)
    assert found.safe[1] == pytest.approx(0, abs=1e-6)
    assert found.fast[1] > found.optimal[1]


def test_structure_of_the_toy() -> None:
    found = structure_of("toy")
    assert (found.S, found.A, found.communicating) == (2, 2, True)
    assert found.diameter == pytest.approx(1 / 0.9)
    assert found.uniform_hitting == pytest.approx(1 / 0.45)
    assert found.margin == pytest.approx(0.5275 - 1 / 1.9)
    assert np.isfinite(found.uniform_cover)
