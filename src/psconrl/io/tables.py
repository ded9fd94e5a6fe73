"""Models from tables: one row per move, and one row of costs per pair or per move.

    transitions   state, action, next_state, and probability or count
    costs         state, action, next_state where costs belong to moves, and one column per cost

A table is anything with the Arrow interface (pandas, polars, duckdb, pyarrow), a list of dicts, a dict of columns, or
the path of a CSV or Parquet file. Everything is done on whole columns, and sizes are checked before anything of that
size is made. Messages number rows from 1, without the header.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import ArrayLike
from scipy import sparse

from psconrl._core import checks
from psconrl._core.checks import Bools, Floats, Ints
from psconrl.cmdp import CMDP, DENSE_STATES
from psconrl.errors import InvalidArgumentError, InvalidModelError, InvalidTypeError, ModelFileError, did_you_mean
from psconrl.io import reading

MAX_STATES = 100_000
"""More states than this are taken for a mistake, such as a time stamp in the column `state`."""
MAX_COSTS = 10**8
"""Numbers in the array of costs (m + 1, S, A), at most: 800 MB."""
MAX_DENSE = 10**7
"""Numbers in dense transitions (S, A, S), at most."""
SUM_TOLERANCE = 1e-6
"""How far the probabilities of a pair may be from summing to one: tables are written with few digits."""

KEYS = ("state", "action", "next_state")
_NUMBER = r"^\s*[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?\s*$"
_MISSING = pa.array(["", "NA", "N/A", "#N/A", "NaN", "nan", "null", "NULL"])
"""Texts that stand for a missing number."""
_INDEX = ("Unnamed: ", "__index_level_")
"""How pandas names the column of its index on file; it is left out, like columns without a name."""


@dataclass(frozen=True)
class Table:
    """A table and what messages call it.

    Attributes:
        data: its columns.
        name: the path of a file, or the name of the argument.
    """

    data: pa.Table
    name: str

    @staticmethod
    def of(source: Any, argument: str, names: Sequence[str] = KEYS) -> Table:
        """Read a table.

        Args:
            source: see the module.
            argument: what messages call the table if it is no file.
            names: columns of a CSV file that hold names and not numbers, so that "007" stays what it is.

        Raises:
            ModelFileError: a file that cannot be read.
            InvalidTypeError: something that is no table.
            InvalidModelError: a table without rows, or with two columns of the same name.
        """
        if isinstance(source, (str, Path)):
            name, data = str(source), _read_file(Path(source), names)
        else:
            name, data = argument, _from_memory(source, argument)
        columns = [column.strip() for column in data.column_names]
        twice = [column for column in columns if column and columns.count(column) > 1]
        if twice:
            raise InvalidModelError(f"{name}: there are two columns {twice[0]!r}; names must be distinct")
        if not data.num_rows:
            raise InvalidModelError(f"{name}: has no rows")
        named = [i for i, column in enumerate(columns) if column and not column.startswith(_INDEX)]
        return Table(data.select(named).rename_columns([columns[i] for i in named]), name)

    def __contains__(self, column: str) -> bool:
        return column in self.data.column_names

    def __len__(self) -> int:
        return int(self.data.num_rows)

    def column(self, name: str) -> pa.ChunkedArray:
        """A column, or an error that lists the columns there are."""
        if name not in self:
            columns = self.data.column_names
            near = did_you_mean(name, columns)
            raise InvalidModelError(f"{self.name}: has no column {name!r}{near} (columns: {', '.join(columns)})")
        return self.data.column(name)

    def names(self, *columns: str) -> tuple[list[Ints], list[str]]:
        """Columns of names of the same things.

        Returns:
            For each column the numbers (n,) of its names, -1 where one is missing; and the names by number: in the
            order of whole numbers if all are, else of their first appearance.
        """
        number: dict[str, int] = {}
        coded = [self._coded(column, number) for column in columns]
        names = list(number)
        if all(name.isascii() and name.lstrip("-").isdigit() for name in names):
            names.sort(key=int)
            places = np.array([*map({name: k for k, name in enumerate(names)}.get, number), -1], dtype=np.int64)
            coded = [places[codes] for codes in coded]
        return coded, names

    def codes(self, column: str, known: Mapping[str, int]) -> Ints:
        """A column of names as the numbers of known names; -1 for others."""
        number = dict(known)
        codes = self._coded(column, number)
        return np.where(codes < len(known), codes, -1)

    def _coded(self, column: str, number: dict[str, int]) -> Ints:
        """The numbers (n,) of names, -1 where one is missing; names that are not in `number` yet are added to it."""
        values = self.column(column)
        if not pa.types.is_dictionary(values.type):
            try:
                values = pc.dictionary_encode(values)
            except pa.ArrowNotImplementedError:
                raise InvalidModelError(
                    f"{self.name}: column {column!r} holds {values.type}; names must be text, numbers or dates"
                ) from None
        values = values.unify_dictionaries()
        texts = [_name(value) for value in values.chunk(0).dictionary.to_pylist()]
        chunks = [pc.fill_null(pc.cast(chunk.indices, pa.int64()), len(texts)) for chunk in values.chunks]
        indices = np.concatenate([chunk.to_numpy(zero_copy_only=False) for chunk in chunks])
        # Categories may be in any order, and may occur nowhere.
        first = np.full(len(texts) + 1, -1)
        first[indices[::-1]] = np.arange(len(indices) - 1, -1, -1)
        places = np.full(len(texts) + 1, -1)
        for k in np.argsort(first[:-1], kind="stable").tolist():
            if first[k] >= 0 and texts[k]:
                places[k] = number.setdefault(texts[k], len(number))
        return np.asarray(places[indices])

    def numbers(self, column: str, missing: bool = False, kind: str = "a number") -> Floats:
        """A column of finite numbers.

        Args:
            column: its name.
            missing: whether values may be missing; they are nan then.
            kind: what messages say that texts must be.

        Raises:
            InvalidModelError: a value that is missing, no number or not finite, with its row.
        """
        values = self.column(column)
        if pa.types.is_dictionary(values.type):
            values = pc.cast(values, values.type.value_type)
        if pa.types.is_string(values.type) or pa.types.is_large_string(values.type):
            values = pc.utf8_trim_whitespace(pc.cast(values, pa.string()))
            values = pc.if_else(pc.is_in(values, value_set=_MISSING), None, values)
            row = _first(pc.invert(pc.match_substring_regex(pc.fill_null(values, "0"), _NUMBER)).to_numpy())
            if row is not None:
                text = values[row].as_py()
                remedy = "; write it with a decimal point, and without separators" if "," in text else ""
                self.refuse(row, f"{column} is {text!r}; it must be {kind}{remedy}")
        try:
            floats = pc.cast(values, pa.float64(), safe=False)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            raise InvalidModelError(f"{self.name}: column {column!r} holds no numbers, but {values.type}") from None
        row = None if missing else _first(pc.is_null(floats).to_numpy())
        if row is not None:
            self.refuse(row, f"{column} is missing")
        array = np.asarray(floats.to_numpy(), dtype=np.float64)
        row = _first(np.isinf(array) if missing else ~np.isfinite(array))
        if row is not None:
            self.refuse(row, f"{column} is {array[row]}; it must be a finite number")
        return array

    def refuse(self, row: int, message: str) -> NoReturn:
        """Raise an error about a row, numbered from 0, with the names in it."""
        names = [f"{name} {self.data.column(name)[row].as_py()!r}" for name in KEYS if name in self]
        raise InvalidModelError(f"{self.name}: row {row + 1} ({', '.join(names)}): {message}")


def from_tables(
    transitions: Any,
    costs: Any,
    thresholds: Mapping[str, float] | ArrayLike = (),
    initial: Any = None,
    max_states: int = MAX_STATES,
) -> CMDP:
    """The model in two tables; see `psconrl.CMDP.from_tables`."""
    moves, priced = Table.of(transitions, "transitions"), Table.of(costs, "costs")
    states, actions, (s, a, t) = _moves(moves, checks.whole(max_states, "max_states"))
    columns = [name for name in priced.data.column_names if name not in (*KEYS, "probability", "count")]
    names, tau = limits_of(columns, thresholds, priced.name)
    S, A = len(states), len(actions)
    if S * A * len(names) > MAX_COSTS:
        raise InvalidModelError(
            f"{moves.name}: {S:,} states with {A:,} actions are {S * A:,} pairs, too many for memory; "
            "is there a number in the column 'action' that differs from row to row?"
        )
    pairs = s * A + a
    order = _distinct(moves, pairs * S + t, "move")
    p = _probabilities(moves, pairs, S * A)
    order = order[p[order] > 0]
    available = np.zeros((S, A), dtype=np.bool_)
    available[s, a] = True
    return dense_if_small(
        CMDP(
            sparse.csr_array((p[order], (pairs[order], t[order])), shape=(S * A, S)),
            _costs(priced, names, states, actions, available, (pairs * S + t)[order]),
            tau,
            initial=_initial(initial, states, int(s[0]), moves.name),
            state_names=list(states),
            action_names=list(actions),
            cost_names=names,
            available=available,
        )
    )


def dense_if_small(cmdp: CMDP) -> CMDP:
    """The model with dense transitions, unless they would be large."""
    return cmdp.to_dense() if cmdp.S <= DENSE_STATES and cmdp.S * cmdp.A * cmdp.S <= MAX_DENSE else cmdp


def load(path: Path, thresholds: Mapping[str, float] | None = None) -> CMDP:
    """The model of a folder that holds transitions.csv and costs.csv (or .parquet), or of a TOML file that names them.

    The file has `transitions` and `costs`, paths next to it, and may have `initial`, a name or a table of
    probabilities, and a table `limits`. A folder may hold it as model.toml.

    Args:
        path: of the folder or the TOML file.
        thresholds: limits by name of the cost that replace those in the file, or add to them.

    Raises:
        ModelFileError: a file that is missing or has the wrong form.
    """
    if path.is_dir() and not (path / "model.toml").is_file():
        found: dict[str, Any] = {name: _in_folder(path, name) for name in ("transitions", "costs")}
    else:
        path = path / "model.toml" if path.is_dir() else path
        found = reading.read_toml(path, ModelFileError)
        unknown = [key for key in found if key not in ("transitions", "costs", "initial", "limits")]
        if unknown:
            raise ModelFileError(
                f"{path}: has {unknown[0]!r}; a model file has transitions, costs, initial and limits only"
            )
        for key in ("transitions", "costs"):
            if not isinstance(found.get(key), str):
                raise ModelFileError(f'{path}: needs the path of a table: {key} = "{key}.csv"')
            found[key] = path.parent / found[key]
    limits = found.get("limits", {})
    if not isinstance(limits, dict) or not all(isinstance(limit, (int, float)) for limit in limits.values()):
        raise ModelFileError(f"{path}: limits must be a table of numbers, for instance overtime = 0.3 under [limits]")
    return from_tables(found["transitions"], found["costs"], limits | dict(thresholds or {}), found.get("initial"))


def _in_folder(folder: Path, name: str) -> Path:
    for ending in (".csv", ".csv.gz", ".tsv", ".parquet"):
        if (folder / f"{name}{ending}").is_file():
            return folder / f"{name}{ending}"
    raise ModelFileError(f"{folder}: holds neither {name}.csv nor {name}.parquet; nor is there a model.toml")


def _read_file(path: Path, names: Sequence[str]) -> pa.Table:
    ending = path.name.lower().removesuffix(".gz")
    if not ending.endswith((".csv", ".tsv", ".parquet")):
        raise ModelFileError(f"{path}: a table must end in .csv or .parquet")
    if not path.is_file():
        raise ModelFileError(f"{path}: there is no such file")
    try:
        if ending.endswith(".parquet"):
            import pyarrow.parquet

            return pyarrow.parquet.read_table(path)
        return _read_csv(path, names)
    except (pa.ArrowException, OSError, UnicodeDecodeError, csv.Error) as error:
        reason = str(error).splitlines()[0]
        if isinstance(error, UnicodeDecodeError) or "invalid UTF8" in reason:
            reason = "it is not in UTF-8; save it as CSV UTF-8"
        raise ModelFileError(f"{path}: cannot be read as a table: {reason}") from None


def _read_csv(path: Path, names: Sequence[str]) -> pa.Table:
    import pyarrow.csv as arrow

    with pa.input_stream(path) as stream:
        start = stream.read(64 * 1024)
    header = start.lstrip(b"\r\n").splitlines()[:1]
    text = b"".join(header).decode("utf-8-sig")
    delimiter = max(",;\t|", key=text.count)
    columns = next(csv.reader([text], delimiter=delimiter), [])
    wrong: list[Any] = []

    def stop(row: Any) -> str:
        wrong.append(row)
        return "error"

    def read(others: pa.DataType | None, threads: bool = True) -> pa.Table:
        """The table; columns that hold no names are of type `others`, or of what they look like."""
        coded = pa.dictionary(pa.int32(), pa.string())
        types = {column: coded if column.strip() in names else others for column in columns}
        return arrow.read_csv(
            path,
            read_options=arrow.ReadOptions(use_threads=threads),
            parse_options=arrow.ParseOptions(delimiter=delimiter, invalid_row_handler=stop),
            convert_options=arrow.ConvertOptions(
                column_types={column: type_ for column, type_ in types.items() if type_}, strings_can_be_null=False
            ),
        )

    try:
        return read(None)
    except pa.ArrowInvalid as error:
        if not wrong:
            if "conversion error" not in str(error) or "UTF8" in str(error):
                raise
            # Text among numbers: `Table.numbers` finds the row.
            return read(pa.string())
    wrong.clear()
    try:
        return read(pa.string(), threads=False)  # which knows the number of the row
    except pa.ArrowInvalid:
        row = wrong[0]
        raise ModelFileError(
            f"{path}: row {row.number - 1} has {row.actual_columns} columns, but the header, "
            f"{checks.short_repr(text)}, has {row.expected_columns}: {checks.short_repr(row.text)}"
        ) from None


def _from_memory(source: Any, argument: str) -> pa.Table:
    if hasattr(source, "collect") and hasattr(source, "collect_schema"):
        source = source.collect()  # a lazy frame of polars
    try:
        if isinstance(source, (list, tuple)) and source and all(isinstance(row, Mapping) for row in source):
            names = dict.fromkeys(name for row in source for name in row)
            source = {name: [row.get(name) for row in source] for name in names}
        elif hasattr(source, "columns") and hasattr(source, "reset_index"):
            # Of pandas: its index is columns if it has names, and columns may be of several kinds of values.
            source = dict(source.reset_index(drop=None in source.index.names).items())
        if isinstance(source, Mapping):
            return pa.table({str(name): _arrow(values) for name, values in source.items()})
        if hasattr(source, "__arrow_c_stream__") or hasattr(source, "__arrow_c_array__"):
            return pa.table(source)
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise InvalidTypeError(f"{argument} cannot be read as a table: {str(error).splitlines()[0]}") from None
    raise InvalidTypeError(
        f"{argument} is {checks.short_repr(source)}; it must be a table with the Arrow interface (pandas, polars, "
        "duckdb, pyarrow), a list of dicts, or the path of a CSV or Parquet file"
    )


def _arrow(values: Any) -> pa.Array:
    """A column; as text where its values are tuples or of several kinds."""
    try:
        array = pa.array(values, from_pandas=True)  # nan is missing
        if not pa.types.is_nested(array.type):
            return array
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):
        pass
    return pa.array([None if value is None else str(value) for value in values])


def _name(value: Any) -> str:
    """A name as text, "" for a missing one; whole numbers are the same if pandas made floats of them."""
    if value is None or value != value:
        return ""
    return str(int(value) if isinstance(value, float) and value.is_integer() else value).strip()


def _moves(table: Table, max_states: int) -> tuple[dict[str, int], dict[str, int], tuple[Ints, Ints, Ints]]:
    """Numbers of states and of actions by name, and those of state, action and next state in each row."""
    (s,), states = table.names("state")
    (a,), actions = table.names("action")
    if len(states) > max_states:
        raise InvalidModelError(
            f"{table.name}: there are {len(states):,} different states, more than max_states = {max_states:,}; if that "
            "is no mistake, such as a time in the column 'state', raise max_states"
        )
    state, action = ({name: k for k, name in enumerate(names)} for names in (states, actions))
    t = table.codes("next_state", state)
    for column, codes in zip(KEYS, (s, a, t), strict=True):
        row = _first(codes < 0)
        if row is not None:
            name = table.data.column(column)[row].as_py()
            unknown = "has no rows of its own; add its actions (a state where all ends: probability 1 of itself)"
            table.refuse(row, f"{column} {'is missing' if name is None or not str(name).strip() else unknown}")
    return state, action, (s, a, t)


def _probabilities(table: Table, pairs: Ints, count: int) -> Floats:
    """The probability of each row; pairs: the pair of each row, below `count`."""
    given = [name for name in ("probability", "count") if name in table]
    if len(given) != 1:
        have = "both 'probability' and 'count'; leave out one" if given else "no column 'probability' or 'count'"
        raise InvalidModelError(f"{table.name}: has {have} (columns: {', '.join(table.data.column_names)})")
    p = table.numbers(given[0])
    row = _first(p < 0)
    if row is not None:
        table.refuse(row, f"{given[0]} is {p[row]:g}; it must be at least 0")
    sums = np.bincount(pairs, p, count)[pairs]
    if given[0] == "count":
        row, what, rule = _first(sums <= 0), "counts", "at least one count must be above 0"
    else:
        row, what, rule = _first(np.abs(sums - 1.0) > SUM_TOLERANCE), "probabilities", "they must sum to 1"
    if row is not None:
        table.refuse(row, f"the {what} of this state and action sum to {sums[row]:.10g}; {rule}")
    return np.asarray(p / sums)


def _distinct(table: Table, keys: Ints, what: str) -> Ints:
    """The order that sorts keys, which must be distinct."""
    order = np.argsort(keys, kind="stable")
    again = _first(np.diff(keys[order]) == 0)
    if again is not None:
        table.refuse(int(order[again + 1]), f"repeats row {order[again] + 1}; there must be one row for each {what}")
    return order


def limits_of(costs: list[str], thresholds: Any, where: str) -> tuple[list[str], list[float]]:
    """The names of the costs that are used, and their limits: with limits by name, those that have one and the first.

    Args:
        costs: names, the main cost first.
        thresholds: limits by name, or a list, one per cost after the first, or none.
        where: what messages call the table.
    """
    if not costs:
        raise InvalidModelError(f"{where}: has no column of costs")
    if isinstance(thresholds, Mapping):
        if costs[0] in thresholds:
            raise InvalidModelError(
                f"thresholds has a limit for {costs[0]!r}, the first column of costs, which is minimised; only the "
                "others have one"
            )
        limits = checks.limits(thresholds, costs[1:])
        costs = [costs[0], *(name for name in costs[1:] if name in limits)]
        return costs, checks.thresholds(limits, costs).tolist()
    tau = checks.thresholds(thresholds).tolist()
    if len(tau) not in (0, len(costs) - 1):
        raise InvalidModelError(
            f"there are {len(tau)} thresholds, but {len(costs) - 1} costs after the first ({', '.join(costs[1:])}); "
            "give limits by name to use some of them"
        )
    return costs[: len(tau) + 1], tau


def _costs(
    table: Table, names: list[str], states: dict[str, int], actions: dict[str, int], available: Bools, moves: Ints
) -> Floats:
    """Costs (m + 1, S, A), or (m + 1, nnz) by move; moves (nnz,): the key (s * A + a) * S + s' of each, in order."""
    S, A = available.shape
    by_move = "next_state" in table
    codes = []
    for column, known in zip(KEYS[: 2 + by_move], (states, actions, states), strict=False):
        codes.append(table.codes(column, known))
        row = _first(codes[-1] < 0)
        if row is not None:
            table.refuse(row, f"there is no such {column} in the table of transitions")
    pairs = codes[0] * A + codes[1]
    row = _first(~available.ravel()[pairs])
    if row is not None:
        table.refuse(row, "the table of transitions has no such action in this state")
    values = np.stack([table.numbers(name) for name in names])
    keys, needed = (pairs * S + codes[2], moves) if by_move else (pairs, np.flatnonzero(available))
    order = _distinct(table, keys, "move" if by_move else "state and action")
    at = np.searchsorted(keys[order], needed)
    missing = _first(np.append(keys[order], -1)[at] != needed)
    if missing is not None:
        pair, target = divmod(int(needed[missing]), S if by_move else 1)
        names_of = [list(states)[pair // A], list(actions)[pair % A], *([list(states)[target]] if by_move else [])]
        row_of = ", ".join(f"{column} {name!r}" for column, name in zip(KEYS, names_of, strict=False))
        raise InvalidModelError(f"{table.name}: has no row for {row_of}; add its costs")
    found = values[:, order[at]]
    if by_move:
        return np.ascontiguousarray(found)
    costs: Floats = np.zeros((len(names), S * A))
    costs[:, needed] = found
    return costs.reshape(len(names), S, A)


def _initial(given: Any, states: dict[str, int], first: int, where: str) -> Any:
    """The start as CMDP takes it, of a name, a table of probabilities by name, or an array."""
    if given is None:
        return first
    if np.ndim(given) > 0 and str(given) not in states:
        return given
    start: Floats = np.zeros(len(states))
    for name, probability in (given if isinstance(given, Mapping) else {given: 1.0}).items():
        text = _name(name)
        if text not in states:
            near = did_you_mean(text, states)
            raise InvalidArgumentError(f"initial is {checks.short_repr(name)}, which is no state of {where}{near}")
        start[states[text]] = checks.real(probability, f"initial[{text!r}]", "a probability", lambda x: 0 <= x <= 1)
    return start


def _first(mask: Any) -> int | None:
    """The first place where a mask is true."""
    at = int(np.argmax(mask)) if len(mask) else 0
    return at if len(mask) and mask[at] else None
