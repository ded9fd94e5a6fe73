"""Wrong and hostile values: of every kind, and right ones with one thing changed."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse


class Mute:
    """Cannot be shown."""

    def __repr__(self) -> str:
        raise RuntimeError("no")


def _damaged() -> Any:
    matrix = sparse.csr_array(np.eye(4, 2))
    matrix.indices[0] = 10**6
    return matrix


def _cycle() -> list[Any]:
    inside: list[Any] = []
    inside.append(inside)
    return inside


# Large numbers here are too large: a run of 2**31 steps would be long, not wrong.
KINDS: tuple[Any, ...] = (
    *(None, True, False, 0, 1, -1, 2, 3, 7, 2**62 + 1, 2**63, -(2**63), 2**70, 0.5, 1.5, -0.5, 1e300, -1e300, 5e-324),
    *(float("nan"), float("inf"), -float("inf"), 1j, "", "abc", "1", "\0", "x" * 300, b"abc", object(), Mute(), int),
    *(np.float32(0.5), np.int8(-1), np.uint64(2**63), np.bool_(True), np.str_("a"), np.datetime64("2020-01-01")),
    *([], [1], [None], [1, [2]], ["a"], [float("nan")], [True], (), (0, 1), (0.5, 0.5), {}, {"a": 1}, {1: 2}, {1, 2}),
    *(range(3), slice(2), Ellipsis, NotImplemented, lambda *a: None, lambda *a: float("nan"), lambda *a: [2.0, -1.0]),
    *(
        np.zeros(0),
        np.zeros(1),
        np.zeros(2),
        np.zeros((2, 2)),
        np.zeros((0, 2)),
        np.zeros((2, 2, 2)),
        np.zeros((1,) * 9),
    ),
    *(np.ones((2, 2), dtype=np.float32), np.ones(2, dtype=np.int8), np.ones((2, 2), dtype=object), np.ones(2) * 1j),
    *(np.full((2, 2), np.nan), np.full((2, 2), -1.0), np.full(2, 2**62), np.array("a"), np.array([["a", "b"]])),
    *(np.array([2**63], dtype=np.uint64), np.zeros((2, 2), dtype=[("a", float)]), np.array(object())),
    *(sparse.eye_array(2), sparse.eye_array(4, 2, format="csr"), sparse.coo_array((2, 2)), Path("no such file.npz")),
    *(Path("/"), Path("a.json"), "a.npz", "a.drn", "a.txt", _damaged(), _cycle()),
)


def changed(rng: np.random.Generator, right: Any) -> Any:
    """A right value with one thing changed, or, where nothing can be, something else."""
    if isinstance(right, np.ndarray) and right.dtype.kind in "biuf":
        return _changed_array(rng, right)
    if isinstance(right, Mapping) and right:
        key = list(right)[rng.integers(len(right))]
        copy = dict(right)
        if rng.random() < 0.2:
            del copy[key]
        else:
            copy[key] = wrong(rng, copy[key])
        return copy
    if isinstance(right, (list, tuple)) and right:
        items = list(right)
        at = int(rng.integers(len(items)))
        how = rng.random()
        if how < 0.2:
            del items[at]
        elif how < 0.4:
            items.append(items[at])
        else:
            items[at] = wrong(rng, items[at])
        return type(right)(items) if type(right) in (list, tuple) else items
    if isinstance(right, (int, float)) and not isinstance(right, bool):
        return [right + 1, right - 1, -right, str(right), [right], right * 1j][rng.integers(6)]
    if isinstance(right, str):
        return [right + "x", right.upper(), right[1:], right.encode(), [right]][rng.integers(5)]
    return KINDS[rng.integers(len(KINDS))]


def _changed_array(rng: np.random.Generator, right: Any) -> Any:
    copy = right.astype(np.float64) if right.dtype == bool else right.copy()
    how = int(rng.integers(9))
    if how < 4 and copy.size:
        values = (np.nan, np.inf, -1.0, 2.0, 1e300, -1e-3) if copy.dtype.kind == "f" else (-1, 99, 2**62, -(2**62))
        copy.flat[rng.integers(copy.size)] = values[rng.integers(len(values))]
        return copy
    return (
        copy.T,
        copy[..., :-1] if copy.ndim else copy,
        copy[np.newaxis],
        copy.astype(object),
        copy.astype(np.float32) if copy.dtype.kind == "f" else copy.astype(np.int8),
    )[how - 4]


def wrong(rng: np.random.Generator, right: Any) -> Any:
    """Something in the place of a right value."""
    return changed(rng, right) if rng.random() < 0.5 else KINDS[rng.integers(len(KINDS))]
