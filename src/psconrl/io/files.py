"""Models on disk: .npz for programs (plain arrays, never pickled), .json for people, .drn and .umb for model checkers.

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

A pair may have a "duration". Where costs belong to moves, "costs" is left out and each target is {"p": 0.7, "costs":
{...}}. "about", beside them, may say anything. Fields and arrays of other names are refused, as what they mean would be
lost. A model that says it is dense, but would need far more memory than its file, is read as a sparse one.
"""

import json
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from psconrl._core import checks
from psconrl._core.checks import short_repr
from psconrl._core.lazy import lazy_import
from psconrl.cmdp import CMDP
from psconrl.errors import ModelFileError
from psconrl.io import explicit, reading, writing
from psconrl.io.drn import read_drn, write_drn
from psconrl.io.explicit import Choices
from psconrl.io.umb import read_umb, write_umb

if TYPE_CHECKING:
    from psconrl.io import tables
else:
    tables = lazy_import("psconrl.io.tables")

_FORMAT = "psconrl.cmdp"
NUMBERS = (
    *("transitions", "data", "indices", "indptr", "costs", "thresholds", "initial", "available"),
    "durations",
    *("layout_agent", "layout_box"),
)
TEXTS = ("state_names", "action_names", "cost_names", "layout_rows")
"""The arrays of an .npz file."""
LEARNED = tuple(
    f"learned_{name}"
    for name in (
        *("moves", "spent", "costs", "available", "limits", "state", "ranges", "known", "confidence", "issues", "rows"),
    )
)
"""What the file of an estimate has in addition; for a model they do not matter."""
FIELDS = ("format", "version", "states", "actions", "costs", "thresholds", "initial", "sparse", "layout", "transitions")
"""The fields of a .json file."""


def save(cmdp: CMDP, path: str | Path) -> None:
    """Write a model; the file's ending chooses the format."""
    path = checks.path(path)
    match path.suffix.lower():
        case ".gz" if path.name.lower().endswith(".drn.gz"):
            write_drn(cmdp, path)
        case ".npz":
            writing.write_npz(path, cmdp.to_arrays())
        case ".json":
            writing.write_text(path, _to_json(cmdp))
        case ".drn":
            write_drn(cmdp, path)
        case ".umb":
            write_umb(cmdp, path)
        case _:
            raise _wrong_suffix(path)


def load(path: str | Path, thresholds: Mapping[str, float] | None = None) -> CMDP:
    """Read a model; the file's ending tells the format."""
    path = checks.path(path)
    suffix, is_model = path.suffix.lower(), path.name.lower().endswith(reading.MODEL_SUFFIXES)
    if suffix == ".toml" or (path.is_dir() and not is_model):
        return tables.load(path, thresholds)
    if not is_model:
        raise _wrong_suffix(path)
    if suffix in (".drn", ".gz", ".umb"):
        return (read_umb if suffix == ".umb" else read_drn)(path, thresholds=thresholds)
    with reading.reraise_as(ModelFileError, path):
        cmdp = _read_npz(path) if suffix == ".npz" else _read_json(path)
    return cmdp if thresholds is None else cmdp.with_limits(thresholds)


def _wrong_suffix(path: Path) -> ModelFileError:
    *suffixes, last = reading.MODEL_SUFFIXES
    tables = path.name.lower().endswith((".csv", ".tsv", ".parquet"))
    remedy = "; CMDP.from_tables, or --transitions and --costs, read tables" if tables else ""
    return ModelFileError(f"{path}: a model file must end in {', '.join(suffixes)} or {last}{remedy}")


def _read_npz(path: Path) -> CMDP:
    arrays = reading.read_npz(path, ModelFileError, (*NUMBERS, *TEXTS, *LEARNED))
    found = f"(found: {', '.join(sorted(arrays)) or 'nothing'})"
    if "transitions" not in arrays and not {"data", "indices", "indptr"} <= arrays.keys():
        raise ModelFileError(f"{path}: has no array 'transitions', nor 'data', 'indices' and 'indptr' {found}")
    if "costs" not in arrays:
        raise ModelFileError(f"{path}: has no array 'costs' {found}")
    for name, array in arrays.items():
        if name in TEXTS and array.dtype.kind != "U":
            raise ModelFileError(f"{path}: array {name!r} must be text")
        if name in ("indices", "indptr") and array.dtype.kind in "iu":
            if array.size and not 0 <= int(array.min()) <= int(array.max()) < 2**62:
                raise ModelFileError(f"{path}: array {name!r} holds numbers that are not indices of a matrix")
            arrays[name] = array.astype(np.int64)
    return CMDP.from_stored(arrays)


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
        if cmdp.durations is not None:
            pair["duration"] = float(cmdp.durations[s, a])
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
    _check_known(document, FIELDS, "the model")
    facts: dict[str, Any] = {key: document[key] for key in explicit.FACTS if key in document}
    facts |= {key: _names(document, key) for key in ("states", "actions", "costs")}
    defaults: dict[str, Any] = {"sparse": False, "thresholds": {}, "initial": {facts["states"][0]: 1.0}}
    facts = defaults | explicit.checked(facts, "")
    _check_known(facts["thresholds"], facts["costs"][1:], "thresholds")
    pairs = _of_type(list, _field(document, "transitions", "the model"), "transitions")
    found = _Pairs(facts["states"], facts["actions"], facts["costs"])
    for k, pair in enumerate(pairs):
        found.add(_of_type(dict, pair, f"transitions[{k}]"), f"transitions[{k}]")
    cmdp = explicit.model_of(found.choices(), len(facts["states"]), 0, facts["costs"], facts, path.stat().st_size)
    if not any("duration" in pair for pair in pairs):
        return cmdp
    durations = np.ones(cmdp.S * cmdp.A)
    durations[found.rows] = [
        _number(_field(pair, "duration", f"transitions[{k}]"), f"transitions[{k}].duration")
        for k, pair in enumerate(pairs)
    ]
    return cmdp.replace(durations=durations.reshape(cmdp.S, cmdp.A))


class _Pairs:
    """The pairs of state and action in a JSON file, one by one; ModelFileError for values of the wrong kind.

    rows: their numbers s * A + a.
    """

    def __init__(self, states: list[str], actions: list[str], costs: list[str]) -> None:
        self.labels = explicit.words(actions)
        self.state, self.action, self.cost = (
            {name: i for i, name in enumerate(names)} for names in (states, actions, costs)
        )
        self.rows: list[int] = []
        self.begin = [0]
        self.rewards: list[list[float]] = []
        self.targets: list[int] = []
        self.p: list[float] = []
        self.moves: list[list[float]] = []
        self.by_move = False

    def add(self, pair: dict[str, Any], where: str) -> None:
        """Add a pair."""
        _check_known(pair, ("state", "action", "to", "costs", "duration"), where)
        s, a = (_index(getattr(self, key), _field(pair, key, where), where) for key in ("state", "action"))
        self.rows.append(s * len(self.action) + a)
        self.by_move = self.by_move or "costs" not in pair
        shared = self._costs(pair["costs"], where) if "costs" in pair else None
        self.rewards.append(shared or [0.0] * len(self.cost))
        for target, value in _of_type(dict, _field(pair, "to", where), f"{where}.to").items():
            place = f"{where}.to[{short_repr(target)}]"
            move = value if isinstance(value, dict) else {"p": value}
            _check_known(move, ("p", "costs"), place)
            self.targets.append(_index(self.state, target, place))
            self.p.append(_number(_field(move, "p", place), place))
            self.moves.append(self._costs(_field(move, "costs", place), place) if shared is None else shared)
        self.begin.append(len(self.p))

    def choices(self) -> Choices:
        """What was added."""
        state, action = np.divmod(np.array(self.rows, dtype=np.int64), len(self.action))
        order = np.argsort(self.rows, kind="stable")
        again = order[1:][np.diff(np.array(self.rows)[order]) == 0]
        if len(again):
            raise ModelFileError(f"transitions[{again[0]}]: this state and action is listed twice")
        return Choices(
            state,
            [self.labels[a] for a in action.tolist()],
            np.array(self.rewards).reshape(-1, len(self.cost)).T,
            np.array(self.begin),
            np.array(self.targets, dtype=np.int64),
            np.array(self.p, dtype=np.float64),
            np.array(self.moves).reshape(-1, len(self.cost)).T if self.by_move else None,
        )

    def _costs(self, value: Any, where: str) -> list[float]:
        table = _of_type(dict, value, f"{where}.costs")
        _check_known(table, self.cost, f"{where}.costs")
        return [_number(_field(table, name, where), f"{where}.costs") for name in self.cost]


def _names(document: Mapping[str, Any], key: str) -> list[str]:
    names = _of_type(list, _field(document, key, "the model"), key)
    if not names:
        raise ModelFileError(f"there are no {key}; a model needs at least one")
    for name in names:
        _of_type((str, int, float), name, key)
    return list(checks.names([str(name) for name in names], len(names), key, ""))


def _field(table: Mapping[str, Any], name: str, where: str) -> Any:
    if name not in table:
        raise ModelFileError(f"{where} has no field or name {short_repr(name)}")
    return table[name]


def _check_known(table: Mapping[str, Any], known: Collection[str], where: str) -> None:
    for name in table:
        if name not in known and name != "about":
            raise ModelFileError(f"{where} has an unknown field {short_repr(name)} (known: {', '.join(known)})")


def _index(numbers: Mapping[str, int], name: Any, where: str) -> int:
    if isinstance(name, (int, float)) and not isinstance(name, bool):
        name = str(name)
    if not isinstance(name, str):
        raise ModelFileError(f"{where} has {short_repr(name)} where a name must stand")
    return int(_field(numbers, name, where))


def _number(value: Any, where: str) -> float:
    return float(_of_type((int, float), value, where))


def _of_type(kind: Any, value: Any, where: str) -> Any:
    """The value, if it is of this type; True and False are no numbers."""
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        expected = " or ".join(_JSON_TYPES[k] for k in (kind if isinstance(kind, tuple) else (kind,)))
        raise ModelFileError(f"a field has the wrong form: {where} is {short_repr(value)}; it must be {expected}")
    return value


_JSON_TYPES = {
    dict: "a table",
    list: "a list",
    str: "text",
    int: "a whole number",
    float: "a number",
    bool: "true or false",
}
