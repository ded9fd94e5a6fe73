"""Models on disk: .npz for programs (plain arrays, never pickled), .json for people, .drn for Storm (see `drn`).

The .json form lists every state with each of the actions that are available there once::

    {"format": "psconrl.cmdp", "version": 1,
     "states": ["idle", "busy"], "actions": ["wait", "work"], "costs": ["delay", "energy"],
     "thresholds": {"energy": 0.5},
     "initial": {"idle": 1.0},
     "sparse": false,
     "transitions": [
       {"state": "idle", "action": "wait", "to": {"idle": 0.7, "busy": 0.3},
        "costs": {"delay": 0.0, "energy": 0.0}},
       ...]}

Where costs belong to moves, "costs" is left out and each target is {"p": 0.7, "costs": {...}}. "about", beside them,
may say anything. Fields and arrays of other names are refused, as what they mean would be lost. A model that says it
is dense, but would need far more memory than its file, is read as a sparse one.
"""

import json
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from psconrl._core import checks
from psconrl._core.checks import Floats
from psconrl._core.lazy import lazy_import
from psconrl.cmdp import CMDP, Layout
from psconrl.errors import InvalidModelError, ModelFileError
from psconrl.io import reading, writing
from psconrl.io.drn import read_drn, write_drn

if TYPE_CHECKING:
    from psconrl.io import tables
else:
    tables = lazy_import("psconrl.io.tables")

ENDINGS = (".npz", ".json", ".drn")
_FORMAT = "psconrl.cmdp"


def is_model_file(name: str) -> bool:
    """Whether a name is that of a model file, by its ending."""
    return name.lower().endswith(ENDINGS)


NUMBERS = (
    *("transitions", "data", "indices", "indptr", "costs", "thresholds", "initial", "available"),
    *("layout_agent", "layout_box"),
)
TEXTS = ("state_names", "action_names", "cost_names", "layout_rows")
"""The arrays of an .npz file."""
FIELDS = ("format", "version", "states", "actions", "costs", "thresholds", "initial", "sparse", "layout", "transitions")
"""The fields of a .json file."""


def save(cmdp: CMDP, path: str | Path) -> None:
    """Write a model; the file's ending chooses the format."""
    path = checks.path(path)
    match path.suffix.lower():
        case ".npz":
            arrays = cmdp.to_arrays()
            # What unpacks to too much for its size is refused when it is read, so large models are not packed.
            large = sum(array.nbytes for array in arrays.values()) > reading.allowance(0)
            with writing.replacing(path) as file:
                (np.savez if large else np.savez_compressed)(file, **arrays)  # type: ignore[arg-type]
        case ".json":
            writing.write_text(path, _to_json(cmdp))
        case ".drn":
            write_drn(cmdp, path)
        case _:
            raise ModelFileError(_ending(path))


def load(path: str | Path, thresholds: Mapping[str, float] | None = None) -> CMDP:
    """Read a model; the file's ending tells the format."""
    path = checks.path(path)
    ending = path.suffix.lower()
    if path.is_dir() or ending == ".toml":
        return tables.load(path, thresholds)
    if ending not in ENDINGS:
        raise ModelFileError(_ending(path))
    if ending == ".drn":
        return read_drn(path, thresholds=thresholds)
    with reading.refusing(path, ModelFileError):
        cmdp = _read_npz(path) if ending == ".npz" else _read_json(path)
    return cmdp if thresholds is None else cmdp.with_limits(thresholds)


def _ending(path: Path) -> str:
    return f"{path}: a model file must end in .npz, .json or .drn"


def _read_npz(path: Path) -> CMDP:
    arrays = reading.read_arrays(path, ModelFileError, (*NUMBERS, *TEXTS))
    if "transitions" not in arrays and not {"data", "indices", "indptr"} <= arrays.keys():
        raise ModelFileError(
            f"{path}: has no array 'transitions', nor 'data', 'indices' and 'indptr' "
            f"(found: {', '.join(sorted(arrays)) or 'nothing'})"
        )
    if "costs" not in arrays:
        raise ModelFileError(f"{path}: has no array 'costs' (found: {', '.join(sorted(arrays))})")
    for name, array in arrays.items():
        if name in TEXTS and array.dtype.kind != "U":
            raise ModelFileError(f"{path}: array {name!r} must be text")
        if name in ("indices", "indptr") and array.dtype.kind in "iu":
            arrays[name] = _indices(array, path, name)
    return CMDP.from_stored(arrays)


def _indices(array: NDArray[Any], path: Path, name: str) -> NDArray[np.int64]:
    """Places in a sparse matrix, of a type that holds them all with a sign."""
    if array.size and not 0 <= int(array.min()) <= int(array.max()) < 2**62:
        raise ModelFileError(f"{path}: array {name!r} holds numbers that are no places in a matrix")
    return array.astype(np.int64)


def _to_json(cmdp: CMDP) -> str:
    matrix = cmdp.matrix
    dense_moves = cmdp.move_costs is not None and not cmdp.is_sparse
    moves = cmdp.to_sparse().move_costs if dense_moves else cmdp.move_costs
    head: dict[str, Any] = {
        "format": _FORMAT,
        "version": 1,
        "states": list(cmdp.state_names),
        "actions": list(cmdp.action_names),
        "costs": list(cmdp.cost_names),
        "thresholds": dict(zip(cmdp.cost_names[1:], cmdp.thresholds.tolist(), strict=True)),
        "initial": {cmdp.state_names[s]: float(cmdp.initial[s]) for s in np.flatnonzero(cmdp.initial)},
        "sparse": cmdp.is_sparse,
    }
    if cmdp.layout is not None:
        head["layout"] = cmdp.layout.as_json()

    def named(costs: Any) -> dict[str, float]:
        return dict(zip(cmdp.cost_names, costs.tolist(), strict=True))

    lines = []
    for row in cmdp.pairs.numbers.tolist():
        s, a = divmod(row, cmdp.A)
        entries = range(matrix.indptr[row], matrix.indptr[row + 1])
        pair: dict[str, Any] = {"state": cmdp.state_names[s], "action": cmdp.action_names[a]}
        if moves is None:
            pair["to"] = {cmdp.state_names[matrix.indices[k]]: float(matrix.data[k]) for k in entries}
            pair["costs"] = named(cmdp.costs[:, s, a])
        else:
            pair["to"] = {
                cmdp.state_names[matrix.indices[k]]: {"p": float(matrix.data[k]), "costs": named(moves[:, k])}
                for k in entries
            }
        lines.append("    " + json.dumps(pair, ensure_ascii=False))
    fields = [f"  {json.dumps(key)}: {json.dumps(value, ensure_ascii=False)}" for key, value in head.items()]
    fields.append('  "transitions": [\n' + ",\n".join(lines) + "\n  ]")
    return "{\n" + ",\n".join(fields) + "\n}\n"


def _read_json(path: Path) -> CMDP:
    document = reading.read_json(path, ModelFileError)
    if not isinstance(document, dict) or document.get("format") != _FORMAT:
        raise ModelFileError(f'{path}: not a model: it must be an object with "format": "{_FORMAT}"')
    if document.get("version") != 1 or document["version"] is True:
        raise ModelFileError(f"{path}: is of version {document.get('version')!r}; only 1 can be read")
    return _Document(document, path).model()


class _Document:
    """A model as JSON values, which are looked at one by one."""

    def __init__(self, document: dict[str, Any], path: Path) -> None:
        self.document, self.path = document, path
        self._known(document, FIELDS, "")
        self.states, self.actions, self.costs = (self._names(key) for key in ("states", "actions", "costs"))
        self.pairs = self._list(self._field(document, "transitions", ""), "transitions")
        self.state, self.action, self.cost = (
            {name: i for i, name in enumerate(names)} for names in (self.states, self.actions, self.costs)
        )

    def model(self) -> CMDP:
        S, A, n = len(self.states), len(self.actions), len(self.costs)
        seen = self._pairs_seen(S, A)
        available = np.zeros((S, A), dtype=np.bool_)
        per_move = any("costs" not in pair for pair in self.pairs)
        mean: Floats = np.zeros((n, S, A))
        rows: list[int] = []
        columns: list[int] = []
        p: list[float] = []
        moves: list[list[float]] = []
        for where, pair in self._places():
            s, a = seen[where]
            available[s, a] = True
            to = self._table(self._field(pair, "to", where), f"{where}.to")
            shared = self._costs(pair["costs"], where) if "costs" in pair else None
            for target, entry in to.items():
                place = f"{where}.to[{target!r}]" if isinstance(entry, dict) else where
                rows.append(s * A + a)
                columns.append(self._number_of(self.state, target))
                if isinstance(entry, dict):
                    self._known(entry, ("p", "costs"), place)
                p.append(self._number(self._field(entry, "p", place) if isinstance(entry, dict) else entry, place))
                if per_move:
                    own = shared if shared is not None else self._move_costs(entry, place)
                    moves.append(own)
            if not per_move and shared is not None:
                mean[:, s, a] = shared
        transitions: Any = sparse.csr_array((p, (rows, columns)), shape=(S * A, S))
        costs: Any = mean
        if per_move:
            by_cost = np.array(moves, dtype=np.float64).reshape(len(moves), n).T
            costs = [sparse.csr_array((c, (rows, columns)), shape=(S * A, S)) for c in by_cost]
        as_sparse = self.document.get("sparse", False)
        if not isinstance(as_sparse, bool):
            self._wrong("sparse must be true or false")
        entries = S * A * S * (1 + n * per_move)
        if not as_sparse and entries * 8 <= reading.allowance(self.path.stat().st_size):
            shape = (S, A, S)
            transitions = transitions.toarray().reshape(shape)
            if per_move:
                costs = np.stack([c.toarray().reshape(shape) for c in costs])
        return CMDP(
            transitions,
            costs,
            self._thresholds(),
            initial=self._initial(),
            state_names=self.states,
            action_names=self.actions,
            cost_names=self.costs,
            layout=self._layout(),
            available=available,
        )

    def _pairs_seen(self, S: int, A: int) -> dict[str, tuple[int, int]]:
        """State and action of each entry, an action at least for each state, before arrays (S, A) are made."""
        seen: dict[str, tuple[int, int]] = {}
        known: set[tuple[int, int]] = set()
        for where, pair in self._places():
            self._known(pair, ("state", "action", "to", "costs"), where)
            at = (
                self._number_of(self.state, self._field(pair, "state", where)),
                self._number_of(self.action, self._field(pair, "action", where)),
            )
            if at in known:
                raise InvalidModelError(f"state {self.states[at[0]]!r}, action {self.actions[at[1]]!r} is listed twice")
            known.add(at)
            seen[where] = at
        left = set(range(S)) - {s for s, _ in known}
        if left:
            raise InvalidModelError(
                f"state {self.states[min(left)]!r} has no action in transitions; give it at least one"
            )
        if 8 * S * A * (2 + len(self.costs)) > reading.allowance(self.path.stat().st_size):
            raise InvalidModelError(f"{S} states and {A} actions are too many for a file of this size")
        return seen

    def _places(self) -> Iterator[tuple[str, dict[str, Any]]]:
        for k, pair in enumerate(self.pairs):
            yield f"transitions[{k}]", self._table(pair, f"transitions[{k}]")

    def _names(self, key: str) -> list[str]:
        found = self._list(self._field(self.document, key, ""), key)
        if not found:
            raise InvalidModelError(f"there are no {key}; a model needs at least one")
        for name in found:
            if not isinstance(name, (str, int, float)) or isinstance(name, bool):
                self._wrong(f"{key} must be a list of names")
        return list(checks.names([str(name) for name in found], len(found), key, ""))

    def _thresholds(self) -> list[float]:
        given = self._table(self.document.get("thresholds", {}), "thresholds")
        for name in given:
            if name not in self.cost or name == self.costs[0]:
                self._missing(name)
        return [self._number(self._field(given, name, "thresholds"), "thresholds") for name in self.costs[1:]]

    def _initial(self) -> Floats:
        initial = np.zeros(len(self.states))
        given = self._table(self.document.get("initial", {self.states[0]: 1.0}), "initial")
        for name, probability in given.items():
            initial[self._number_of(self.state, name)] = self._number(probability, "initial")
        return initial

    def _layout(self) -> Layout | None:
        if "layout" not in self.document:
            return None
        said = self._table(self.document["layout"], "layout")
        self._known(said, ("rows", "agent", "box"), "layout")
        rows = self._list(self._field(said, "rows", "layout"), "layout.rows")
        if not all(isinstance(row, str) for row in rows):
            self._wrong("layout.rows must be lines of text")
        return Layout(tuple(rows), self._field(said, "agent", "layout"), said.get("box"))

    def _costs(self, given: Any, where: str) -> list[float]:
        table = self._table(given, f"{where}.costs")
        for name in table:
            if name not in self.cost:
                self._missing(name)
        return [self._number(self._field(table, name, where), f"{where}.costs") for name in self.costs]

    def _move_costs(self, entry: Any, where: str) -> list[float]:
        if not isinstance(entry, dict):
            self._wrong(f"{where} has no costs, so each of its targets must have them")
        return self._costs(self._field(entry, "costs", where), where)

    def _known(self, table: Mapping[str, Any], known: Collection[str], where: str) -> None:
        for name in table:
            if name not in known and name != "about":
                place = f"{where}: " if where else ""
                raise ModelFileError(
                    f"{self.path}: {place}unknown field {reading.shown(name)} (known: {', '.join(known)})"
                )

    def _field(self, table: Mapping[str, Any], name: str, where: str) -> Any:
        if name not in table:
            self._missing(name)
        return table[name]

    def _number_of(self, places: Mapping[str, int], name: Any) -> int:
        if isinstance(name, (int, float)) and not isinstance(name, bool):
            name = str(name)
        if not isinstance(name, str) or name not in places:
            self._missing(name)
        return places[name]

    def _number(self, value: Any, where: str) -> float:
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            self._wrong(f"{where} holds {reading.shown(value)} where a number must stand")
        return float(value)

    def _table(self, value: Any, where: str) -> dict[str, Any]:
        if not isinstance(value, dict):
            self._wrong(f"{where} must be a table")
        return value

    def _list(self, value: Any, where: str) -> list[Any]:
        if not isinstance(value, list):
            self._wrong(f"{where} must be a list")
        return value

    def _missing(self, name: Any) -> NoReturn:
        raise ModelFileError(f"{self.path}: has no field or name {reading.shown(name)}")

    def _wrong(self, message: str) -> NoReturn:
        raise ModelFileError(f"{self.path}: a field has the wrong form: {message}")
