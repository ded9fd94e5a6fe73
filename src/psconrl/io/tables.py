"""Models from tables: one row per move, and one row of costs per pair or per move.

    transitions   state, action, next_state, and probability or count
    costs         state, action, next_state where costs belong to moves, and one column per cost

A table is anything with the Arrow interface (pandas, polars, duckdb, pyarrow), a list of dicts, a dict of columns, or
the path of a CSV or Parquet file. Everything is done on whole columns, and sizes are checked before anything of that
size is made. Rows are numbered from 1, without the header, in every message.
"""

from __future__ import annotations

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
SUM_TOLERANCE = 1e-6
"""How far the probabilities of a pair may be from summing to one: tables are written with few digits."""
MAX_DENSE = 10**7
"""Numbers in dense transitions (S, A, S), at most."""

_KEYS = ("state", "action", "next_state")
_NUMBER = r"^\s*[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?\s*$"


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
    def of(source: Any, argument: str, names: Sequence[str] = _KEYS) -> Table:
        """Read a table from whatever people have.

        Args:
            source: see the module.
            argument: what messages call the table if it is no file.
            names: columns of a CSV file that hold names and not numbers, so that "007" stays what it is.

        Raises:
            ModelFileError: a file that cannot be read.
            InvalidTypeError: something that is no table.
        """
        if isinstance(source, Table):
            return source
        if isinstance(source, (str, Path)):
            table = Table(_read_file(Path(source), names), str(source))
        else:
            table = Table(_from_memory(source, argument), argument)
        columns = [name.strip() for name in table.data.column_names]
        twice = [name for name in columns if columns.count(name) > 1]
        if twice:
            raise InvalidModelError(f"{table.name}: there are two columns {twice[0]!r}; names must be distinct")
        if not table.data.num_rows:
            raise InvalidModelError(f"{table.name}: has no rows")
        return Table(table.data.rename_columns(columns), table.name)

    def __contains__(self, column: str) -> bool:
        return column in self.data.column_names

    def __len__(self) -> int:
        return int(self.data.num_rows)

    def column(self, name: str) -> pa.ChunkedArray:
        """A column, or an error that lists those that there are."""
        if name not in self:
            columns = self.data.column_names
            near = did_you_mean(name, columns)
            raise InvalidModelError(f"{self.name}: has no column {name!r}{near} (columns: {', '.join(columns)})")
        return self.data.column(name)

    def names(self, column: str) -> tuple[Ints, list[str]]:
        """A column of names.

        Returns:
            Numbers (n,) from 0 by first appearance, and the name of each number; a missing name has the number -1.
        """
        values = self.column(column)
        if pa.types.is_floating(values.type) and pc.all(pc.equal(values, pc.floor(values))).as_py():
            values = pc.cast(values, pa.int64())  # whole numbers that pandas made floats of
        if not pa.types.is_dictionary(values.type):
            values = pc.dictionary_encode(values)
        values = values.unify_dictionaries().combine_chunks()
        if isinstance(values, pa.ChunkedArray):
            values = values.chunk(0)
        codes = pc.fill_null(pc.cast(values.indices, pa.int64()), -1).to_numpy(zero_copy_only=False)
        texts = [str(name) for name in values.dictionary.to_pylist()]
        if "" in texts:
            codes = np.where(codes == texts.index(""), -1, codes)
        return codes, texts

    def codes(self, column: str, known: Mapping[str, int]) -> Ints:
        """A column of names as the numbers of names that are known; -1 for others."""
        codes, texts = self.names(column)
        numbers = np.array([*(known.get(name, -1) for name in texts), -1])
        return numbers[codes]

    def numbers(self, column: str, missing: bool = False) -> Floats:
        """A column of finite numbers.

        Args:
            column: its name.
            missing: whether values may be missing; they are nan then.

        Raises:
            InvalidModelError: a value that is missing, no number or not finite, with its row.
        """
        values = self.column(column)
        if pa.types.is_dictionary(values.type):
            values = pc.cast(values, values.type.value_type)
        if pa.types.is_string(values.type) or pa.types.is_large_string(values.type):
            wrong = pc.invert(pc.match_substring_regex(pc.fill_null(values, "0"), _NUMBER))
            row = _first(wrong.to_numpy())
            if row is not None:
                self.refuse(row, f"{column} is {values[row].as_py()!r}; it must be a number")
            values = pc.utf8_trim_whitespace(values)
        try:
            floats = pc.cast(values, pa.float64(), safe=False)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            raise InvalidModelError(f"{self.name}: column {column!r} holds no numbers, but {values.type}") from None
        row = None if missing else _first(pc.is_null(floats).to_numpy())
        if row is not None:
            self.refuse(row, f"{column} is missing")
        found = floats.to_numpy()
        row = _first(np.isinf(found) if missing else ~np.isfinite(found))
        if row is not None:
            self.refuse(row, f"{column} is {found[row]}; it must be a finite number")
        return np.asarray(found, dtype=np.float64)

    def refuse(self, row: int, message: str) -> NoReturn:
        """Raise an error about a row, numbered from 0, with the names in it."""
        said = [f"{name} {self.data.column(name)[row].as_py()!r}" for name in _KEYS if name in self]
        raise InvalidModelError(f"{self.name}: row {row + 1} ({', '.join(said)}): {message}")

    def require_names(self, columns: Sequence[str], codes: Sequence[Ints]) -> None:
        """Refuse names that are missing."""
        for column, numbers in zip(columns, codes, strict=True):
            row = _first(numbers < 0)
            if row is not None:
                self.refuse(row, f"{column} is missing")


def from_tables(
    transitions: Any,
    costs: Any,
    thresholds: Mapping[str, float] | ArrayLike = (),
    initial: Any = None,
    max_states: int = MAX_STATES,
) -> CMDP:
    """The model in two tables; see `psconrl.CMDP.from_tables`."""
    moves, priced = Table.of(transitions, "transitions"), Table.of(costs, "costs")
    states, actions, entries = _entries(moves, checks.whole(max_states, "max_states"))
    given = [name for name in priced.data.column_names if name not in (*_KEYS, "probability", "count")]
    names, tau = limits_of(given, thresholds, priced.name)
    S, A = len(states), len(actions)
    if S * A * len(names) > MAX_COSTS:
        raise InvalidModelError(
            f"{moves.name}: {S:,} states with {A:,} actions are {S * A:,} pairs, too many for memory; "
            "is there a number in the column 'action' that differs from row to row?"
        )
    s, a, t = entries
    order = _distinct(moves, (s * A + a) * S + t, "move")
    p = _probabilities(moves, s * A + a, S * A)
    order = order[p[order] > 0]
    rows = (s * A + a)[order]
    matrix = sparse.csr_array((p[order], t[order], np.searchsorted(rows, np.arange(S * A + 1))), shape=(S * A, S))
    available = np.zeros((S, A), dtype=np.bool_)
    available[s, a] = True
    cmdp = CMDP(
        matrix,
        _costs(priced, names, states, actions, available, rows * S + t[order]),
        tau,
        initial=_initial(initial, states, int(s[0]), moves.name),
        state_names=list(states),
        action_names=list(actions),
        cost_names=names,
        available=available,
    )
    return cmdp.to_dense() if S <= DENSE_STATES and S * A * S <= MAX_DENSE else cmdp


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
    if not isinstance(limits, dict):
        raise ModelFileError(f"{path}: limits must be a table, for instance overtime = 0.3 under [limits]")
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
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        reason = str(error).splitlines()[0]
        raise ModelFileError(f"{path}: cannot be read as a table: {reason}") from None


def _read_csv(path: Path, names: Sequence[str]) -> pa.Table:
    from pyarrow import csv

    with pa.input_stream(path) as stream:
        header = stream.read(64 * 1024).partition(b"\n")[0]
    delimiter = max(b",;\t", key=header.count)
    text = pa.dictionary(pa.int32(), pa.string())

    def read(types: dict[str, pa.DataType]) -> pa.Table:
        return csv.read_csv(
            path,
            parse_options=csv.ParseOptions(delimiter=chr(delimiter)),
            convert_options=csv.ConvertOptions(column_types=types, strings_can_be_null=False),
        )

    columns = [name.strip(' "\r') for name in header.decode("utf-8-sig", "replace").split(chr(delimiter))]
    try:
        return read(dict.fromkeys(names, text))
    except pa.ArrowInvalid as error:
        if "conversion error" not in str(error):
            raise
        # Text among numbers: as text the columns can be looked at row by row.
        return read({name: text if name in names else pa.string() for name in columns})


def _from_memory(source: Any, argument: str) -> pa.Table:
    if isinstance(source, pa.Table):
        return source
    try:
        if isinstance(source, Mapping):
            return pa.table({str(name): _mixed(values) for name, values in source.items()})
        if isinstance(source, list) and source and all(isinstance(row, Mapping) for row in source):
            names = list(dict.fromkeys(str(name) for row in source for name in row))
            return pa.table({name: _mixed([row.get(name) for row in source]) for name in names})
        if hasattr(source, "to_dict") and hasattr(source, "reset_index"):
            # Of pandas: without the index, and columns of mixed values as text.
            source = source.reset_index(drop=True)
            return pa.table({str(name): _mixed(source[name]) for name in source.columns})
        if hasattr(source, "__arrow_c_stream__") or hasattr(source, "__arrow_c_array__"):
            return pa.table(source)
        if hasattr(source, "__dataframe__"):
            from pyarrow.interchange import from_dataframe

            return from_dataframe(source)
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise InvalidTypeError(f"{argument} cannot be read as a table: {str(error).splitlines()[0]}") from None
    raise InvalidTypeError(
        f"{argument} is {checks.short_repr(source)}; it must be a table with the Arrow interface (pandas, polars, "
        "duckdb, pyarrow), a list of dicts, or the path of a CSV or Parquet file"
    )


def _mixed(values: Any) -> pa.Array:
    """A column; as text where its values are of several kinds."""
    try:
        return pa.array(values)
    except (pa.ArrowInvalid, pa.ArrowTypeError):
        return pa.array([None if value is None else str(value) for value in values])


def _entries(table: Table, max_states: int) -> tuple[dict[str, int], dict[str, int], tuple[Ints, Ints, Ints]]:
    """Numbers of states and of actions by name, and those in each row."""
    s, states = table.names("state")
    a, actions = table.names("action")
    if len(states) > max_states:
        raise InvalidModelError(
            f"{table.name}: there are {len(states):,} different states, more than max_states = {max_states:,}; if that "
            "is no mistake, such as a time in the column 'state', raise max_states"
        )
    table.require_names(["state", "action"], [s, a])
    s, state = _numbered(s, states)
    a, action = _numbered(a, actions)
    t = table.codes("next_state", state)
    row = _first(t < 0)
    if row is not None:
        missing = table.data.column("next_state")[row].as_py() in (None, "")
        table.refuse(
            row,
            "next_state is missing"
            if missing
            else "next_state has no rows of its own; add its actions (a state where all ends: probability 1 of itself)",
        )
    return state, action, (s, a, t)


def ordered(names: list[str]) -> tuple[Ints, list[str]]:
    """The number of each name, and the names by number: whole numbers in their order, others as they are."""
    order = np.arange(len(names))
    if all(name.isascii() and name.lstrip("-").isdigit() for name in names):
        order = np.array(sorted(range(len(names)), key=lambda k: int(names[k])), dtype=np.int64)
    places = np.empty(len(names), dtype=np.int64)
    places[order] = np.arange(len(names))
    return places, [names[k] for k in order]


def _numbered(codes: Ints, names: list[str]) -> tuple[Ints, dict[str, int]]:
    places, names = ordered(names)
    return places[codes], {name: i for i, name in enumerate(names)}


def _probabilities(table: Table, pairs: Ints, count: int) -> Floats:
    """The probability of each row; pairs: the pair of each row, below `count`."""
    given = [name for name in ("probability", "count") if name in table]
    if len(given) != 1:
        have = (
            "both columns 'probability' and 'count'; leave out one" if given else "no column 'probability' or 'count'"
        )
        raise InvalidModelError(f"{table.name}: has {have} (columns: {', '.join(table.data.column_names)})")
    p = table.numbers(given[0])
    row = _first(p < 0)
    if row is not None:
        table.refuse(row, f"{given[0]} is {p[row]:g}; it must be at least 0")
    sums = np.bincount(pairs, p, count)[pairs]
    row = _first(sums <= 0 if given[0] == "count" else np.abs(sums - 1.0) > SUM_TOLERANCE)
    if row is not None:
        rule = "at least one count must be above 0" if given[0] == "count" else "they must sum to 1"
        what = "counts" if given[0] == "count" else "probabilities"
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
    """Costs (m + 1, S, A), or (m + 1, nnz) by move; moves (nnz,): the key of each, in order."""
    S, A = available.shape
    s, a = table.codes("state", states), table.codes("action", actions)
    row = _first((s < 0) | (a < 0))
    if row is not None:
        table.refuse(row, f"there is no such {'state' if s[row] < 0 else 'action'} in the table of transitions")
    row = _first(~available[s, a])
    if row is not None:
        table.refuse(row, "the table of transitions has no such action in this state")
    values = np.stack([table.numbers(name) for name in names])
    state_of, action_of = list(states), list(actions)
    pairs = s * A + a
    if "next_state" not in table:
        _distinct(table, pairs, "state and action")
        costs: Floats = np.full((len(names), S * A), np.nan)
        costs[:, pairs] = values
        missing = _first(available.ravel() & np.isnan(costs[0]))
        if missing is not None:
            _refuse_uncosted(table, state_of[missing // A], action_of[missing % A])
        return np.nan_to_num(costs).reshape(len(names), S, A)
    t = table.codes("next_state", states)
    row = _first(t < 0)
    if row is not None:
        table.refuse(row, "there is no such next_state in the table of transitions")
    keys = pairs * S + t
    order = _distinct(table, keys, "move")
    at = np.searchsorted(keys[order], moves)
    found = at < len(order)
    found[found] = keys[order[at[found]]] == moves[found]
    missing = _first(~found)
    if missing is not None:
        pair, target = divmod(int(moves[missing]), S)
        _refuse_uncosted(table, state_of[pair // A], action_of[pair % A], state_of[target])
    return np.ascontiguousarray(values[:, order[at]])


def _refuse_uncosted(table: Table, state: str, action: str, target: str | None = None) -> NoReturn:
    move = "" if target is None else f", next_state {target!r}"
    raise InvalidModelError(f"{table.name}: has no row for state {state!r}, action {action!r}{move}; add its costs")


def _initial(given: Any, states: dict[str, int], first: int, where: str) -> Any:
    """The start as CMDP takes it, of a name, a table of probabilities by name, or an array."""
    if given is None:
        return first
    if isinstance(given, Mapping):
        start: Floats = np.zeros(len(states))
        for name, probability in given.items():
            start[_known_state(name, states, where)] = checks.real(
                probability, f"initial[{str(name)!r}]", "a probability", lambda x: 0 <= x <= 1
            )
        return start
    if np.ndim(given) == 0:
        return _known_state(given, states, where)
    return given


def _known_state(name: Any, states: dict[str, int], where: str) -> int:
    if str(name) not in states:
        raise InvalidArgumentError(
            f"initial is {checks.short_repr(name)}, which is no state of {where}{did_you_mean(str(name), states)}"
        )
    return states[str(name)]


def _first(mask: Any) -> int | None:
    """The first place where a mask is true."""
    if not len(mask):
        return None
    at = int(np.argmax(mask))
    return at if mask[at] else None
