"""Element-wise confidence sets of transitions."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from psconrl._core import checks
from psconrl._core.checks import Floats
from psconrl._core.pairs import Pairs
from psconrl.errors import InvalidModelError
from psconrl.planning.compiled.confidence_sets import nearest_members
from psconrl.planning.tolerances import FEASIBLE


@dataclass(frozen=True, eq=False)
class Intervals:
    """The confidence set: l <= p' <= u, all (S, A, S) or rows (K, S), around a centre."""

    center: Floats
    lower: Floats
    upper: Floats

    @staticmethod
    def around(p_hat: ArrayLike, radius: ArrayLike, available: ArrayLike | None = None) -> Intervals:
        """The set of all transitions within `radius` of p_hat, checked; free where an action is not available."""
        center, r = checks.numbers(p_hat, "p_hat"), checks.numbers(radius, "radius")
        if center.ndim != 3 or center.shape[0] != center.shape[2]:
            raise InvalidModelError(f"p_hat has shape {center.shape}; it must be (S, A, S)")
        if r.shape not in (center.shape[:2], center.shape):
            raise InvalidModelError(f"radius has shape {r.shape}; it must be (S, A) = {center.shape[:2]} or (S, A, S)")
        mask = checks.available(available, *center.shape[:2])
        if mask is not None:
            center[~mask], r[~mask] = 0.0, 1.0
        checks.finite(center, "p_hat", "leave pairs never seen at zero, with radius 1")
        bad = ~(r >= 0)
        if bad.any():
            at = tuple(int(i) for i in np.argwhere(bad)[0])
            raise InvalidModelError(f"radius{list(at)} is {r[at]}; it must be >= 0")
        if r.ndim == 2:
            r = r[:, :, np.newaxis]
        lower, upper = np.clip(center - r, 0.0, 1.0), np.clip(center + r, 0.0, 1.0)
        empty = (lower.sum(axis=2) > 1 + FEASIBLE) | (upper.sum(axis=2) < 1 - FEASIBLE)
        if empty.any():
            s, a = (int(i) for i in np.argwhere(empty)[0])
            raise InvalidModelError(
                f"no distribution lies within the radius of p_hat[{s}, {a}]: lower ends sum to "
                f"{lower[s, a].sum():.6g}, upper ends to {upper[s, a].sum():.6g}; make p_hat a distribution or "
                "enlarge the radius (pairs never seen: radius 1)"
            )
        return Intervals(center, lower, upper)

    def nearest(self) -> Floats:
        """The members (S, A, S) with the least Euclidean distance to the centre: clip(centre + shift)."""
        S = self.center.shape[2]
        rows = (array.reshape(-1, S) for array in (self.center, self.lower, self.upper))
        return nearest_members(*rows).reshape(self.center.shape)

    def least_members(self, h: Floats) -> tuple[Floats, Floats]:
        """The members (K, S) of least mean of h (S,), for each of the rows (K, S), and these means (K,)."""
        order = np.argsort(h)
        room = (self.upper - self.lower)[:, order]
        rest = (1.0 - self.lower.sum(axis=1))[:, np.newaxis]
        members = self.lower.copy()
        members[:, order] += np.clip(rest - (np.cumsum(room, axis=1) - room), 0.0, room)
        return members, members @ h


def set_by_rows(intervals: Intervals, pairs: Pairs) -> Intervals:
    """A set by the rows (K, S) of pairs."""
    return Intervals(*(in_rows(array, pairs) for array in (intervals.center, intervals.lower, intervals.upper)))


def in_rows(array: Floats, pairs: Pairs) -> Floats:
    """The rows (K, S) of an array (S, A, S)."""
    flat = array.reshape(-1, array.shape[2])
    return flat if pairs.every else flat[pairs.numbers]


def in_slots(array: Floats, pairs: Pairs) -> Floats:
    """The rows (S * A', S) of an array (S, A, S), as kernels take them."""
    rows = in_rows(array, pairs)
    return rows if pairs.every else rows[pairs.slots]
