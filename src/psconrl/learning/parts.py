"""What the compiled loop is given, in parts."""

from typing import Any, NamedTuple

from psconrl._core.checks import Floats, Ints
from psconrl.planning.steered import Steered


class Orders(NamedTuple):
    """A plan as the loop reads it: policy (L, S * A), cumulative over the actions of each state, count_limit (S, A).

    limits (m,): what the excess is counted from. steered: None for a plan that is not.
    """

    policy: Floats
    max_length: int
    count_limit: Ints
    limits: Floats
    steered: Steered | None


class Moves(NamedTuple):
    """A model by rows s * A + a, probabilities cumulative; costs (m + 1, rows) or, per move, (m + 1, entries)."""

    indptr: Ints
    indices: Ints
    cumulative: Floats
    costs: Floats
    per_move: bool


class Supply(NamedTuple):
    """Random numbers of the environment and the actions, and where to read on in each (1,), which moves."""

    environment: Floats
    actions: Floats
    environment_at: Ints
    actions_at: Ints


class Seen(NamedTuple):
    """What a learner has seen, updated in place: counts (see `agents.counts`), visits (S, A), cost_sums (m + 1, S, A).

    excess (m,): sums of costs less limits, for steering. spent (capacity, n): sums of the first n costs of each move.
    """

    head: Ints
    link: Ints
    target: Ints
    number: Ints
    used: Ints
    visits: Ints
    cost_sums: Floats
    excess: Floats
    spent: Floats


class Curves(NamedTuple):
    """Totals (3, m + 1): costs, their excesses over levels (m + 1,), and peaks, the largest that costs less levels have
    been in all so far; curves (3, m + 1, G): the same at the times of the grid (G,)."""

    totals: Floats
    levels: Floats
    grid: Ints
    curves: Floats


def plain(parts: Any) -> Any:
    """The same as plain tuples: named ones take half a microsecond each to be recognised, at every call."""
    return tuple([plain(part) if isinstance(part, tuple) else part for part in parts])
