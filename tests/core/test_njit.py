"""How kernels are compiled."""

from typing import Any

from psconrl._core.njit import njit


@njit
def _sum(n: int, k: int) -> int:
    return n + k


@njit
def _sums(n: int) -> int:
    return _sum(n, 1) + _sum(2, n) + _sum(n, k=n)


def test_constants_are_not_of_a_kind_of_their_own() -> None:
    inner: Any = _sum
    assert _sums(3) == 4 + 5 + 6
    assert len(inner.signatures) == 1
