"""Validation of a model's arrays: messages give the rule, the first index that breaks it, and the remedy."""

import copy
import math
import operator
import os
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence, Set
from itertools import islice
from numbers import Real
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from psconrl.errors import InvalidArgumentError, InvalidModelError, InvalidTypeError, UnknownNameError

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

FLOAT, INT, BOOL = np.dtype(np.float64), np.dtype(np.int64), np.dtype(np.bool_)
"""Made once: comparing a dtype with a type makes one each time."""

ROW_TOLERANCE = 1e-6
"""How far a row of probabilities may be from summing to one, as in single precision; it is renormalised then."""

MAX_NUMBER = 1e200
"""Of costs, limits and their ranges: what is computed with them stays within the range of floats."""

NEGATIVE_TOLERANCE = 1e-12
"""Probabilities below zero by no more than this are what rounding leaves of zero, and become zero."""

LARGEST = 2**62
"""The largest whole number that compiled code is given."""

MAX_REPR_LENGTH = 80
"""Characters of a value that a message shows."""

_COSTS = ("cost_names", "c")

_EXACT = 1e-14  # rows this close to one are left alone, so that saving and loading changes no bit

_ROW_REMEDY = "make every row p(. | s, a) a probability distribution over the next states"


def numbers(values: Any, what: str) -> Floats:
    """A fresh array of floats."""
    try:
        array = np.array(values)
        if array.size == 0 or array.dtype.kind in "biuf":
            return np.array(array, dtype=np.float64, order="C")
    except (ValueError, TypeError):
        pass
    raise InvalidModelError(f"{what} must be real numbers in a regular array")


def whole_numbers(values: Any, what: str) -> Ints:
    """A fresh array of integers."""
    array = numbers(values, what)
    if not (np.isfinite(array) & (array == np.floor(array))).all():
        raise InvalidModelError(f"{what} must be whole numbers")
    return array.astype(np.int64)


def whole(value: Any, what: str, least: int = 1, most: int | None = LARGEST) -> int:
    """A whole number that is neither too small nor too large; True and False do not count as numbers."""
    try:
        number = operator.index(value)
    except TypeError:
        number = None
    if number is None or isinstance(value, bool):
        raise InvalidTypeError(f"{what} is {short_repr(value)}; it must be a whole number")
    if number < least:
        raise InvalidArgumentError(f"{what} is {number}; it must be at least {least}")
    if most is not None and number > most:
        raise InvalidArgumentError(f"{what} is {short_repr(number)}; it must be at most {most}")
    return number


def real(value: Any, what: str, rule: str, holds: Callable[[float], bool]) -> float:
    """A finite number that keeps a rule, which is given in words and as a test."""
    if not isinstance(value, Real) or isinstance(value, bool):
        raise InvalidTypeError(f"{what} is {short_repr(value)}; it must be {rule}")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not (math.isfinite(number) and holds(number)):
        raise InvalidArgumentError(f"{what} is {short_repr(value)}; it must be {rule}")
    return number


def fraction(value: Any, what: str, low: float = 0.0, high: float = 1.0) -> float:
    """A number in [low, high]."""
    return real(value, what, f"a number from {low:g} to {high:g}", lambda number: low <= number <= high)


def open_unit_interval(value: Any, what: str) -> float:
    """A number between 0 and 1, neither of them."""
    return real(value, what, "a number between 0 and 1", lambda number: 0 < number < 1)


def one_of(value: Any, what: str, choices: Sequence[str]) -> None:
    """Refuse a word that is not among the choices."""
    if not isinstance(value, str) or value not in choices:
        listed = " or ".join(f'"{choice}"' for choice in choices)
        raise InvalidArgumentError(f"{what} is {short_repr(value)}; it must be {listed}")


def seed_sequence(seed: Any) -> np.random.SeedSequence:
    """The randomness of a seed 0, 1, ..."""
    return np.random.SeedSequence(whole(seed, "seed", 0, 2**128))


def flag(value: Any, what: str) -> bool:
    """True or False."""
    if not isinstance(value, (bool, np.bool_)):
        raise InvalidTypeError(f"{what} is {short_repr(value)}; it must be True or False")
    return bool(value)


def text(value: Any, what: str) -> str:
    """A text, such as the name of a column."""
    if not isinstance(value, str):
        raise InvalidTypeError(f"{what} is {short_repr(value)}; it must be a text")
    return value


def short_repr(value: Any) -> str:
    """A value in a message: short, whatever it is."""
    try:
        text = repr(value)
    except Exception:  # what a user's class does is not known
        text = f"a {type(value).__name__}"
    text = " ".join(text.split())
    return text if len(text) <= MAX_REPR_LENGTH else f"{text[: MAX_REPR_LENGTH - 1]}…"


def finite(array: Floats, what: str, remedy: str) -> None:
    """Refuse NaN, infinities, and numbers whose sums and ranges could overflow."""
    bad = ~(np.abs(array) <= MAX_NUMBER)
    if bad.any():
        at = _first(bad)
        rule = f"at most {MAX_NUMBER:g} in size" if np.isfinite(array[at]) else "finite"
        raise InvalidModelError(f"{what}[{_text(at)}] is {array[at]}; it must be {rule}; {remedy}")


def within_ranges(costs: Floats, what: str, ranges: Floats | None) -> None:
    """Refuse costs (m + 1, ...) outside the range of each; [0, 1] where none are declared."""
    column = (-1,) + (1,) * (costs.ndim - 1)
    low, high = (0.0, 1.0) if ranges is None else (ranges[:, 0].reshape(column), ranges[:, 1].reshape(column))
    bad = ~((costs >= low) & (costs <= high))
    if bad.any():
        at = _first(bad)
        raise InvalidModelError(f"{what}[{_text(at)}] is {costs[at]:.6g}; {range_rule(ranges, at[0])}")


def range_rule(ranges: Floats | None, i: int) -> str:
    """What must hold for cost i, and the remedy."""
    if ranges is None:
        return (
            "learners need costs in [0, 1]; cmdp.rescaled() brings costs and thresholds there, and cost_ranges "
            "keeps your units: cmdp.problem(cost_ranges=cmdp.cost_ranges)"
        )
    low, high = ranges[i].tolist()
    return f"cost {i} was declared to lie in [{low:g}, {high:g}]; declare a range that it does not leave"


def cost_ranges(given: Any, n: int) -> Floats:
    """(low, high) of n costs, (n, 2)."""
    ranges = numbers(given, "cost_ranges")
    if ranges.shape != (n, 2):
        raise InvalidModelError(
            f"cost_ranges has shape {ranges.shape}; it must be (m + 1, 2) = {(n, 2)}: (low, high) of each cost, the "
            "main cost first"
        )
    finite(ranges, "cost_ranges", "give bounds that are never left")
    with np.errstate(over="ignore"):
        bad = ~((ranges[:, 0] < ranges[:, 1]) & np.isfinite(ranges[:, 1] - ranges[:, 0]))
    if bad.any():
        (i,) = _first(bad)
        raise InvalidModelError(
            f"cost_ranges[{i}] is {tuple(ranges[i].tolist())}; low must be below high, and high - low a finite number"
        )
    return ranges


_MOST_NAMES = 10_000_000
"""What has so many entries is taken for something that does not end."""


def hashables(given: Any, what: str, count: int | None = None) -> tuple[Hashable, ...]:
    """Distinct names of states or actions, any hashable values; numbers of numpy become Python's."""
    try:
        ordered = not isinstance(given, (str, bytes, Mapping, Set)) and not sparse.issparse(given)
        items = list(islice(given, _MOST_NAMES)) if ordered else None
    except Exception:  # not iterable, or what a user's class does
        items = None
    if items is None:
        raise InvalidTypeError(f"{what} is {short_repr(given)}; it must be a list of names")
    if len(items) == _MOST_NAMES:
        raise InvalidArgumentError(f"{what} does not end; it must be a list of names, of fewer than {_MOST_NAMES:,}")
    found = tuple(hashable(name, f"{what}[{i}]") for i, name in enumerate(items))
    if not found:
        raise InvalidArgumentError(f"{what} is empty; there must be at least one")
    if count is not None and len(found) != count:
        raise InvalidArgumentError(f"there are {len(found)} {what}; there must be {count}")
    if len(set(found)) < len(found):
        seen: set[Hashable] = set()
        again = next(name for name in found if name in seen or seen.add(name))  # type: ignore[func-returns-value]
        raise InvalidArgumentError(f"{what} has {short_repr(again)} twice; names must be distinct")
    return found


def hashable(value: Any, what: str) -> Hashable:
    """A value that can be a name: hashable and equal to itself."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, tuple):
        return tuple(hashable(part, what) for part in value)
    try:
        hash(value)
        sound = bool(value == value)  # NaN is not
    except Exception:  # what a user's class does is not known
        sound = False
    if not sound:
        remedy = "; tuple(array.tolist()) makes one of an array" if isinstance(value, np.ndarray) else ""
        raise InvalidArgumentError(
            f"{what} is {short_repr(value)}; it must be hashable and equal to itself: text, a number or a tuple{remedy}"
        )
    return value


def distributions(p: Floats, what: str, remedy: str, among: Bools | None = None) -> Floats:
    """The array with its last axis renormalised; among: which rows must be distributions, if not all."""
    bad = ~(p >= -NEGATIVE_TOLERANCE)
    if bad.any():
        at = _first(bad)
        raise InvalidModelError(f"{what}[{_text(at)}] is {p[at]}; a probability must be >= 0; {remedy}")
    p = np.maximum(p, 0.0)
    sums = p.sum(axis=-1)
    if among is not None:
        sums = np.where(among, sums, 1.0)
    scale = _row_scale(sums, lambda at: f"{what}[{_text(at)}]" if at else what, remedy)
    return np.asarray(p / scale[..., np.newaxis])


def thresholds(values: Any, cost_names: Any = None) -> Floats:
    """Tau as an array (m,); given by name of the cost, in the order of cost_names[1:]."""
    if isinstance(values, Mapping):
        values = _by_name(values, cost_names)
    tau = numbers(values, "thresholds")
    if tau.ndim != 1:
        raise InvalidModelError(
            f"thresholds have shape {tau.shape}; they must be a list of m numbers, one per constraint"
        )
    finite(tau, "thresholds", "leave out the costs that have no limit")
    return tau + 0.0  # no -0


def _by_name(limits: Mapping[Any, Any], cost_names: Any) -> list[Any]:
    """Limits by name of the cost in the order of the costs; names that are left out are c0, c1, ..."""
    known = names(cost_names, len(limits) + 1 if cost_names is None else len(texts(cost_names, "cost_names")), *_COSTS)
    for name in limits:
        if name == known[0]:
            raise InvalidModelError(
                f"thresholds has a limit for {name!r}, which is minimised; only the others have one"
            )
        if name not in known and cost_names is None:
            raise InvalidModelError(
                f"thresholds has a limit for {short_repr(name)}, but costs have no names; give cost_names"
            )
        if name not in known:
            raise UnknownNameError("cost in thresholds", str(name), known[1:])
    for name in known[1:]:
        if name not in limits:
            raise InvalidModelError(f"thresholds has no limit for the cost {name!r}; each but the first needs one")
    return [limits[name] for name in known[1:]]


def available(given: Any, S: int, A: int) -> Bools | None:
    """Which actions are available in each state, (S, A); None if all are."""
    if given is None:
        return None
    try:
        mask = np.array(given)
    except ValueError:
        mask = np.array(None)
    if mask.shape != (S, A):
        told = f"has shape {mask.shape}" if mask.dtype.kind in "biuf" else f"is {short_repr(given)}"
        raise InvalidModelError(f"available {told}; it must be a mask (S, A) = {(S, A)} of True and False")
    if mask.dtype.kind not in "biuf" or not ((mask == 0) | (mask == 1)).all():
        raise InvalidModelError("available must hold True and False only: whether the action is available in the state")
    mask = mask.astype(np.bool_)
    stuck = np.flatnonzero(~mask.any(axis=1))
    if len(stuck):
        raise InvalidModelError(f"available[{stuck[0]}] has no action; every state needs at least one")
    mask.setflags(write=False)
    return None if mask.all() else mask


def durations(values: Any, S: int, A: int, mask: Bools | None) -> Floats:
    """Durations (S, A), above zero; 1 where an action is not available."""
    given = numbers(values, "durations")
    if given.shape not in ((), (S, A)):
        raise InvalidModelError(f"durations have shape {given.shape}; they must be (S, A) = {(S, A)}, or one number")
    d = np.broadcast_to(given, (S, A)).copy()
    if mask is not None:
        d[~mask] = 1.0
    bad = ~((d > 0) & np.isfinite(d))
    if bad.any():
        at = _first(bad)
        raise InvalidModelError(f"durations[{_text(at)}] is {d[at]}; a duration must be above 0 and finite")
    return d


def jumps(rates: Any) -> tuple[sparse.csr_array, Floats]:
    """The jump probabilities (S * A, S) and mean durations (S, A) that rates stand for."""
    if sparse.issparse(rates):
        matrix = sparse.csr_array(rates, dtype=np.float64)
        S = matrix.shape[1] if matrix.ndim == 2 else 0
    else:
        array = numbers(rates, "rates")
        S = array.shape[-1] if array.ndim == 3 and array.shape[0] == array.shape[2] else 0
        matrix = sparse.csr_array(array.reshape(-1, max(S, 1)))
    if S == 0 or matrix.shape[0] % S:
        raise InvalidModelError("rates must have shape (S, A, S), or (S * A, S) as a sparse matrix")
    A = matrix.shape[0] // S
    entries = matrix.tocoo()
    moves = entries.row // A != entries.col
    bad = moves & ~((entries.data >= 0) & np.isfinite(entries.data))
    if bad.any():
        k = int(np.argmax(bad))
        row, column = int(entries.row[k]), int(entries.col[k])
        raise InvalidModelError(
            f"rates[{row // A}, {row % A}, {column}] is {entries.data[k]}; a rate must be >= 0 and finite"
        )
    moves &= entries.data > 0
    rows = entries.row[moves]
    exits = np.bincount(rows, entries.data[moves], S * A)
    stays = np.flatnonzero(exits == 0)
    data = np.append(entries.data[moves] / exits[rows], np.ones(len(stays)))
    places = np.append(rows, stays), np.append(entries.col[moves], stays // A)
    # Where nothing ever happens, any duration will do: a long one makes few steps.
    longest = 1.0 if len(stays) == S * A else 1.0 / exits[exits > 0].min()
    durations = np.full(S * A, longest)
    durations[exits > 0] = 1.0 / exits[exits > 0]
    return sparse.csr_array((data, places), shape=(S * A, S)), durations.reshape(S, A)


def dense_transitions(values: Any, mask: Any = None) -> tuple[Floats, Bools | None]:
    """Transitions as an array (S, A, S), distributions where an action is available; and the mask, checked."""
    p = numbers(values, "transitions")
    if p.ndim != 3 or (p.shape[0] != p.shape[2] and p.size):
        raise InvalidModelError(
            f"transitions have shape {p.shape}; they must be (S, A, S), or a scipy sparse (S * A, S) matrix"
        )
    _sizes(p.shape[0], p.shape[1])
    among = available(mask, *p.shape[:2])
    if among is not None:
        p[~among] = 0.0
    return distributions(p, "transitions", _ROW_REMEDY, among), among


def sound_sparse(matrix: Any, what: str) -> None:
    """Refuse a sparse matrix whose parts do not fit together; scipy's compiled code takes them on trust."""
    try:
        if matrix.format == "coo":
            sparse.coo_array((matrix.data, matrix.coords), shape=matrix.shape)
        elif matrix.format in ("csr", "csc", "bsr"):
            # Arrays of other kinds or shapes are not even measured; of a copy, as scipy cuts what is too long.
            parts = matrix.indices, matrix.indptr
            if not all(isinstance(part, np.ndarray) and part.ndim == 1 and part.dtype.kind in "iu" for part in parts):
                raise InvalidTypeError("indices must be one-dimensional arrays of whole numbers")
            copy.copy(matrix).check_format(full_check=True)
    except (ValueError, TypeError, IndexError) as error:
        raise InvalidModelError(
            f"{what} is a damaged sparse matrix: its indices do not fit its shape {matrix.shape}; build it anew from "
            "rows, columns and values"
        ) from error


def sparse_transitions(matrix: Any, mask: Any = None) -> tuple[sparse.csr_array, Bools | None]:
    """Transitions as a canonical CSR matrix (S * A, S): sorted, without duplicates and stored zeros; and the mask.

    Rows of actions that are not available are empty.
    """
    if matrix.ndim != 2:
        raise InvalidModelError(f"sparse transitions have shape {matrix.shape}; they must be (S * A, S)")
    if matrix.dtype.kind not in "biuf":
        raise InvalidModelError("transitions must be real numbers in a regular array")
    rows, S = matrix.shape
    _sizes(S, rows)
    if rows % S:
        raise InvalidModelError(
            f"sparse transitions have shape {(rows, S)}; they must be (S * A, S), "
            f"and {rows} rows are not a multiple of {S} states"
        )
    A = rows // S
    sound_sparse(matrix, "transitions")
    among = available(mask, S, A)
    entries = matrix.tocoo()  # entries of the same place not yet added up: a negative one would hide in the sum
    bad = ~(entries.data >= -NEGATIVE_TOLERANCE)
    if among is not None:
        inside = among.ravel()[entries.coords[0]]
        bad &= inside
    if bad.any():
        k = int(np.flatnonzero(bad)[0])
        row, column = (int(part[k]) for part in entries.coords)
        at = (row // A, row % A, column)
        raise InvalidModelError(
            f"transitions[{_text(at)}] is {entries.data[k]}; a probability must be >= 0; {_ROW_REMEDY}"
        )
    p = sparse.csr_array(matrix, dtype=np.float64, copy=True)
    if among is not None:
        p.data[~np.repeat(among.ravel(), np.diff(p.indptr))] = 0.0
    p.data = np.maximum(p.data, 0.0)
    p.sum_duplicates()
    p.eliminate_zeros()
    sums = np.asarray(p.sum(axis=1), dtype=np.float64).reshape(S, A)
    if among is not None:
        sums = np.where(among, sums, 1.0)
    scale = _row_scale(sums, lambda at: f"transitions[{_text(at)}]", _ROW_REMEDY)
    return with_data(p, p.data / np.repeat(scale.ravel(), np.diff(p.indptr))), among


def dense_costs(values: Any, p: Floats, m: int, among: Bools | None = None) -> tuple[Floats, Floats | None]:
    """Mean costs (m + 1, S, A), and the costs per move if those were given; none where an action is not available."""
    S, A, _ = p.shape
    c = numbers(values, "costs")
    if c.ndim < 2 or c.shape[1:] not in ((S, A), (S, A, S)):
        raise InvalidModelError(
            f"costs have shape {c.shape}; they must be (m + 1, S, A) = {(m + 1, S, A)}, "
            f"or {(m + 1, S, A, S)} for one cost per move"
        )
    _cost_count(len(c), m)
    if among is not None:
        c[:, ~among] = 0.0
    finite(c, "costs", "give every pair (s, a) a finite cost")
    if c.ndim == 3:
        return c, None
    c = np.where(p > 0, c, 0.0)  # impossible moves cost nothing, in every representation
    return np.einsum("isax,sax->isa", c, p), c


def sparse_costs(
    values: Any, p: sparse.csr_array, given: Any, m: int, among: Bools | None = None
) -> tuple[Floats, Floats | None]:
    """Mean costs (m + 1, S, A), and the costs per move as (m + 1, nnz) if those were given.

    given: the transitions before they were brought into order.
    """
    rows, S = p.shape
    A = rows // S
    if isinstance(values, Sequence) and len(values) and all(sparse.issparse(c) for c in values):
        if any(c.shape != (rows, S) for c in values):
            raise InvalidModelError(f"each sparse cost must have the shape of the transitions, {(rows, S)}")
        for c in values:
            sound_sparse(c, "costs")
        at = p.tocoo()
        move = np.stack([numbers(sparse.csr_array(c)[at.row, at.col], "costs") for c in values])
    else:
        c = numbers(values, "costs")
        if c.ndim == 3 and c.shape[1:] == (S, A):
            _cost_count(len(c), m)
            if among is not None:
                c[:, ~among] = 0.0
            finite(c, "costs", "give every pair (s, a) a finite cost")
            return c, None
        if among is not None and given.format == "csr" and c.ndim == 2 and c.shape[1] == given.nnz:
            kept = np.repeat(among.ravel(), np.diff(given.indptr))
            ends = np.append(0, np.cumsum(kept))[given.indptr]
            given = sparse.csr_array((given.data[kept], given.indices[kept], ends), shape=given.shape)
            c = c[:, kept]
        if c.ndim != 2 or c.shape[1] != p.nnz or given.format != "csr" or given.nnz != p.nnz:
            raise InvalidModelError(
                f"costs have shape {c.shape}; they must be (m + 1, S, A) = {(m + 1, S, A)}, or, for one cost "
                f"per move, m + 1 sparse matrices of shape {(rows, S)}, or an array "
                f"(m + 1, nnz) = {(m + 1, p.nnz)} in the order of a CSR matrix without stored zeros"
            )
        # Sort the costs with the entries they belong to.
        order = sparse.csr_array((np.arange(p.nnz), given.indices.copy(), given.indptr.copy()), shape=p.shape)
        order.sort_indices()
        move = c[:, order.data]
    _cost_count(len(move), m)
    finite(move, "costs", "give every move a finite cost")
    mean = np.array([with_data(p, p.data * c).sum(axis=1) for c in move], dtype=np.float64)
    return mean.reshape(len(move), S, A), move


def initial(value: Any, S: int, state_names: tuple[str, ...]) -> Floats:
    """The start distribution (S,)."""
    if isinstance(value, str):
        if value not in state_names:
            raise InvalidModelError(f"initial is {short_repr(value)}; there is no state of that name")
        value = state_names.index(value)
    array = numbers(value, "initial")
    if array.ndim == 0:
        state = int(array) if np.isfinite(array) else -1
        if state != array or not 0 <= state < S:
            raise InvalidModelError(f"initial is {value}; a start state must be one of 0, ..., {S - 1}")
        start: Floats = np.zeros(S)
        start[state] = 1.0
        return start
    if array.shape != (S,):
        raise InvalidModelError(
            f"initial has shape {array.shape}; it must be a state or a distribution over the {S} states"
        )
    return distributions(array, "initial", "give a state, or a distribution over the states")


def names(given: Sequence[str] | None, count: int, what: str, prefix: str) -> tuple[str, ...]:
    """Distinct names, `count` of them."""
    if given is None:
        return tuple(f"{prefix}{i}" for i in range(count))
    found = tuple(str(name) for name in texts(given, what))
    if len(found) != count:
        raise InvalidModelError(f"there are {len(found)} {what}; there must be {count}")
    if len(set(found)) < count:
        again = next(name for name in found if found.count(name) > 1)
        raise InvalidModelError(f"{what} has {again!r} twice; names must be distinct")
    return found


def texts(given: Any, what: str) -> list[Any]:
    """The items of a list of names; numbers are names, too."""
    ordered = isinstance(given, Iterable) and not isinstance(given, (str, bytes, Mapping, Set))
    if not ordered or sparse.issparse(given) or (isinstance(given, np.ndarray) and given.ndim != 1):
        raise InvalidModelError(f"{what} must be a list of names")
    found = list(islice(given, _MOST_NAMES))
    if len(found) == _MOST_NAMES:
        raise InvalidModelError(f"{what} does not end; it must be a list of names, of fewer than {_MOST_NAMES:,}")
    for name in found:
        if not isinstance(name, (str, int, float, np.number)):
            raise InvalidModelError(f"{what} must be a list of names, not {short_repr(name)}")
    return found


def limits(given: Any, known: Iterable[str]) -> dict[str, float]:
    """Limits by name of the cost, all of them known."""
    if not isinstance(given, Mapping):
        raise InvalidTypeError(f"thresholds is {short_repr(given)}; it must be a table of limits by name of the cost")
    known = list(known)
    for name in given:
        if name not in known:
            raise UnknownNameError("limit", str(name), known)
    return dict(given)


def path(given: Any) -> Path:
    """The path of a file."""
    try:
        return Path(given)
    except TypeError:
        raise InvalidTypeError(f"{short_repr(given)} is not the path of a file") from None


def csr_parts(data: NDArray[Any], indices: NDArray[Any], indptr: NDArray[Any]) -> None:
    """Refuse arrays that cannot be those of a CSR matrix, before scipy sees them."""
    flat = all(part.ndim == 1 for part in (data, indices, indptr))
    whole = all(part.dtype.kind in "iu" for part in (indices, indptr))
    if not (flat and whole and data.dtype.kind in "biuf" and len(indptr) and (np.diff(indptr) >= 0).all()):
        raise InvalidModelError("data, indices and indptr must be the flat arrays of a CSR matrix")


def layout(positions: Ints | None, what: str, S: int) -> None:
    """Refuse positions that are not one row and column per state."""
    if positions is not None and positions.shape != (S, 2):
        raise InvalidModelError(f"{what} has shape {positions.shape}; it must be {(S, 2)}")


def policy(values: Any, S: int, A: int) -> Floats:
    """A stationary policy (S, A)."""
    pi = numbers(values, "policy")
    if pi.shape != (S, A):
        raise InvalidModelError(f"the policy has shape {pi.shape}; it must be (S, A) = {(S, A)}")
    return distributions(pi, "policy", "give each state a distribution over the actions")


def unavailable(state: Any, action: Any) -> str:
    """What is said of an action that is not available in a state, both by name or by number."""
    return f"action {short_repr(action)} is not available in state {short_repr(state)}"


def fits_memory(size: float, what: str, remedy: str) -> None:
    """Refuse what takes more bytes than this machine has memory, before it is allocated."""
    try:
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):  # not a POSIX system: it allocates, and says so itself
        return
    if size > memory:
        raise InvalidArgumentError(
            f"{what} takes {size / 2**30:,.0f} GiB at least; this machine has {memory / 2**30:,.0f} GiB; {remedy}"
        )


def with_data(structure: sparse.csr_array, data: Floats) -> sparse.csr_array:
    """A CSR matrix with the structure of another one."""
    return sparse.csr_array((data, structure.indices, structure.indptr), shape=structure.shape)


def _row_scale(sums: Floats, name: Any, remedy: str) -> Floats:
    """What to divide rows by; rows that sum to one but for rounding are left alone."""
    bad = ~(np.abs(sums - 1) <= ROW_TOLERANCE * (1 + 1e-6))  # 1 - 1e-6 itself is rounded
    if bad.any():
        at = _first(bad)
        raise InvalidModelError(
            f"{name(at)} sums to {float(sums[at]):.10g}; it must sum to 1 (to {ROW_TOLERANCE:g}); {remedy}"
        )
    return np.where(np.abs(sums - 1) > _EXACT, sums, 1.0)


def _first(mask: Any) -> tuple[int, ...]:
    return tuple(int(i) for i in np.argwhere(mask)[0])


def _text(at: tuple[int, ...]) -> str:
    return ", ".join(map(str, at))


def _sizes(S: int, A: int) -> None:
    if S == 0 or A == 0:
        raise InvalidModelError("there are no states or no actions; a model needs at least one of each")


def _cost_count(found: int, m: int) -> None:
    if found != m + 1:
        raise InvalidModelError(
            f"there are {found} costs and {m} thresholds; each cost but the first, which is minimised, "
            f"needs one threshold: give {max(found - 1, 0)}"
        )
