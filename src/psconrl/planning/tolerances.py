"""Every tolerance and every limit of work of the planner, with its unit and its reason.

Costs are planned with in units of their own range (a power of two, see `units`), so a tolerance is a share of a cost's
range unless it says otherwise. "Work" counts multiplications: some 10^9 of them take a second.
"""

# Rounding.

EPS = 2.0**-53
"""Relative: half a unit in the last place, what one rounding may do."""

ROUNDED = 8 * EPS
"""Relative: what some roundings may do to a sum."""

NOISE = 1e-11
"""What rounding may do to an average. Averages that differ by less are equal, smaller numbers are printed as 0, and an
action is better only by more than this, and by more than rounding can feign."""

SOLVED = 1e-12
"""Relative: so well hold small systems of equations, stationary distributions, limits that are met, and the bounds of
iterations that end when nothing changes any more."""

PIVOT = 1e-13
"""Relative: pivots, determinants and errors of equations below this are rounding."""

DOUBTFUL = 1e-7
"""Pivots below this are taken only if there is no larger one; weights that are off by more are wrong."""

TINY = 2.0**-1022
"""The least positive float of full accuracy. A margin is below zero by so much if the limits conflict by less."""

TIE_BREAK = 1e-9
"""The most that the rule for ties can cost: far above rounding, and a tenth of what counts as proved."""

SUPPORT = 1e-14
"""Probability: occupancies, weights and reduced costs below this are rounding where a policy was evaluated by an
inverse, by iteration or by a program."""

# Proofs.

CLOSE = 1e-10
"""Bounds this near to each other end the generation of columns: beyond it, rounding is most of what is left."""

PROVEN = 1e-8
"""Bounds further apart than this prove nothing that may be called optimal; a fallback is tried. Averages differ by
rounding only if they differ by less than ten times as much."""

REPORTED = 1e-6
"""People are told what exceeds this: that a value is not proven, or not attained by a stationary policy."""

FEASIBLE = 1e-9
"""Limits missed by less than this count as met, and as binding: rounding may be all that is missing. HiGHS is asked for
as much."""

EVAL_TOL = 1e-9
"""Evaluations by iteration are exact to this in the end; advantages with a smaller slope in a multiplier do not cross
zero."""

UNLIKELY = 1e-2
"""Share of the likeliest state's mass: less likely states are on the way to a place, and no references, from which all
others would look alike and numbers grow with the time until they are met."""

PREFERRED = 0.3
"""Probability: paths prefer moves at least this likely. Against a drift of nine to one they would take exponentially
long."""

MIN_OVERLAP = 1e-8
"""Probability: columns that meet only in states less likely than this are executed as if they did not meet, for how
often they do is known to a share of rounding over this only."""

MIN_LINK = 1e-6
"""Probability: where columns meet more rarely than this, distributions need their digits in the states where they do,
which inverses and iteration do not give."""

WORN = 4e-14
"""What averages may be off by, for every unit of the largest number in an inverse that was updated often."""

LARGE, HUGE = 1e7, 1e11
"""Numbers in an inverse above the first may come from a bad reference state: then another one is tried. Those above the
second, also in a bias, come from a policy whose chain falls apart."""

LEAST_PRODUCT = 2.0**-1000
"""Products of probabilities below this may have lost digits."""

FIRST_ACCURACY, SHARE = 1e-3, 0.1
"""Evaluations by sparse factors are at first exact to 1e-3 of a cost's range, then to a share of the improvement found
last."""

MIN_LIKELY, WHOLE = 0.25, 0.9
"""Steering changes columns in states that have this share of 1 / S in the distributions of both, and takes a column as
one if it spends this share of its time in one component."""

# Choices.

JOIN = 1e-7
"""Share of time for the moves that join several recurrent classes, by default: what it costs is a tenth of what people
are told."""

FAR = 4.0
"""Scaled costs are below two: limits further than this above their least value never bind, and would take digits."""

MAX_UNIT_RATIO = 2.0**16
"""Units of limits that differ by no more than this leave enough digits to be compared as they are."""

LP_SCALE = 2.0**20
"""HiGHS, whose tolerances are absolute (1e-9), gets costs times this, which makes them relative to 1e-15."""

# Limits of work.

MAX_INVERTED = 130
"""States: in smaller models policies are evaluated by inverses, in larger ones by sparse factors."""

FULL_ROW, MAX_FULL = 0.02, 2000
"""Factors of models in which half of the pairs have such a share of all moves fill up: inverses serve these up to so
many states."""

MAX_DENSE = 300
"""States: up to here dense methods that keep all digits take milliseconds: elimination, powers of a chain."""

MAX_ROUNDS = 1000
"""Policies, or steps of a search, that are tried. All searches end by themselves in exact arithmetic, after some tens;
rounding might lead them round in circles."""

MAX_SEARCH = 100
"""Models that are solved in search of one number: searches end after some ten."""

MAX_COLUMNS = 128
"""Policies that sparse factors keep as columns, beyond two for each limit; models need some ten."""

FEW_SWEEPS = 2
"""How often improvements are passed on in small models before the next evaluation, and policies made greedy for a
guess."""

MAX_STRETCH = 64.0
"""Multipliers so many times the guess, or the first that were hinted at, are tried before the extremes; and their
inverses."""

MAX_INVERSES = 8
"""In one policy iteration, which goes round in circles if it needs more; of 3,000 plans none needed so many."""

SWEEPS_PER_CHECK, PROGRESS, MORE_PROGRESS = 20, 0.5, 0.01
"""Sweeps of Gauss and Seidel go on as long as every check finds no more than this share of the error at the one before;
the last where a factor takes less time than many sweeps."""

MAX_ROUGH = 15
"""So many policies are evaluated roughly; where a model nearly falls apart, that may go round in circles."""

MAX_REPAIRS = 3
"""How often a policy is changed, or a state exchanged, for what makes numbers large: where that does not help, nothing
does."""

CHEAP_WORK, MAX_WORK, MAX_FACTOR_WORK = 1e8, 5e9, 1e12
"""Work that is done without looking for something faster (a tenth of a second), the most that a sum of steps may take
(some seconds), where what has not converged by then is covered by the bound, and the most of a factor (minutes)."""

MAX_ELIMINATION_WORK, MAX_PRECISE_WORK = 3e6, 1e7
"""Work of an elimination: beyond it sparse factors and iteration come first, which then are faster; and the most with
numbers of many bits (ten seconds)."""

PRECISE_BITS = 4096
"""Of a number, where floats do not do: enough to add one to 10^1200 without loss."""

MAX_FLOAT_TIME = 1e60
"""Steps: where kept states are met sooner, the 1e-300 that floats lose come to no more than a share of 1e-100."""

HIGHS_STEPS, HIGHS_SECONDS = 20, 60.0
"""A run of HiGHS ends after so many steps for each row and column, or so long, and the next attempt begins: its dual
simplex method has been seen to go round in circles, its interior points to go on for ever."""

PLANNING_BYTES = 64
"""Bytes for each transition that planning takes at least: rows, generator and chain, 16 each, and what solves them."""

MAX_HORIZON = 10**12
"""Steps: beyond it, restarts drown in rounding."""
