"""Every tolerance of the planner, with its reason.

Costs are planned with in units of their own range (a power of two, see `units`), so all numbers here are relative.
"""

EPS = 2.0**-53
"""Half a unit in the last place: what one rounding may do."""

CLOSE = 1e-10
"""Bounds this near to each other end the generation of columns: beyond it, rounding is most of what is left."""

PROVEN = 1e-8
"""Bounds further apart than this prove nothing that may be called optimal; a second opinion is asked."""

FEASIBLE = 1e-9
"""Limits missed by less than this count as met: they may be met exactly, and rounding be all that is missing."""

TIE = 1e-11
"""An action is better only by more than this, and by more than rounding can feign."""

FLAT = 1e-9
"""Advantages whose slope in a multiplier is below this do not cross zero."""

SUPPORT = 1e-14
"""Occupancies below this are rounding where a policy was evaluated by an inverse or by iteration."""

THIN = 1e-8
"""Columns that meet only in states less likely than this are executed as if they did not meet: how often they do is
known to a share of rounding over this only."""

EXACT = 1e-9
"""Evaluations by iteration are exact to this in the end; ten times as much is a certificate."""

EXACT_LAW = 1e-12
"""So are stationary laws."""

NO_WEIGHT = 1e-14
"""Columns of less weight than this carry none: rounding in the master program gives them."""
