"""Models on disk: .npz for programs (plain arrays, never pickled), .json for people, .drn for Storm (see `drn`).

The .json form lists every pair once::

    {"format": "psconrl.cmdp", "version": 1,
     "states": ["idle", "busy"], "actions": ["wait", "work"], "costs": ["delay", "energy"],
     "thresholds": {"energy": 0.5},
     "initial": {"idle": 1.0},
     "sparse": false,
     "transitions": [
       {"state": "idle", "action": "wait", "to": {"idle": 0.7, "busy": 0.3},
        "costs": {"delay": 0.0, "energy": 0.0}},
       ...]}

Where costs belong to moves, "costs" is left out and each target is {"p": 0.7, "costs": {...}}.
"""

import json
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from psconrl import _checks
from psconrl.cmdp import CMDP, Layout
from psconrl.errors import InvalidModelError, ModelFileError
from psconrl.formats.drn import read_drn, write_drn

ENDINGS = (".npz", ".json", ".drn")
_FORMAT = "psconrl.cmdp"


def is_model_file(name: str) -> bool:
    """Whether a name is that of a model file, by its ending."""
    return name.lower().endswith(ENDINGS)


def save(cmdp: CMDP, path: str | Path) -> None:
    """Write a model; the file's ending chooses the format."""
    path = _checks.path(path)
    match path.suffix.lower():
        case ".npz":
            with path.open("wb") as file:
                np.savez_compressed(file, **cmdp.to_arrays())  # type: ignore[arg-type]
        case ".json":
            path.write_text(_to_json(cmdp), encoding="utf-8")
        case ".drn":
            write_drn(cmdp, path)
        case _:
            raise ModelFileError(_ending(path))


def load(path: str | Path, thresholds: Mapping[str, float] | None = None) -> CMDP:
    """Read a model; the file's ending tells the format."""
    path = _checks.path(path)
    ending = path.suffix.lower()
    if ending not in ENDINGS:
        raise ModelFileError(_ending(path))
    if not path.is_file():
        raise ModelFileError(f"{path}: there is no such file")
    if ending == ".drn":
        return read_drn(path, thresholds=thresholds)
    try:
        cmdp = _read_npz(path) if ending == ".npz" else _read_json(path)
    except InvalidModelError as error:
        raise ModelFileError(f"{path}: {error}") from error
    return cmdp if thresholds is None else cmdp.with_limits(thresholds)


def _ending(path: Path) -> str:
    return f"{path}: a model file must end in .npz, .json or .drn"


def _read_npz(path: Path) -> CMDP:
    try:
        with path.open("rb") as stream:  # numpy leaves a file open that it cannot read
            file = np.load(stream, allow_pickle=False)
            if not isinstance(file, np.lib.npyio.NpzFile):
                raise ModelFileError(f"{path}: not an .npz archive; write it with cmdp.save or numpy.savez")
            arrays = {name: file[name] for name in file.files}
    except (zipfile.BadZipFile, zlib.error, OSError, EOFError, KeyError, RuntimeError) as error:
        raise ModelFileError(f"{path}: truncated or not an .npz archive ({error}); write it again") from error
    except ModelFileError:
        raise
    except ValueError as error:
        raise ModelFileError(
            f"{path}: holds Python objects or no arrays at all ({error}); only plain numeric arrays are read"
        ) from error
    if "transitions" not in arrays and not {"data", "indices", "indptr"} <= arrays.keys():
        raise ModelFileError(
            f"{path}: has no array 'transitions', nor 'data', 'indices' and 'indptr' "
            f"(found: {', '.join(sorted(arrays)) or 'nothing'})"
        )
    if "costs" not in arrays:
        raise ModelFileError(f"{path}: has no array 'costs' (found: {', '.join(sorted(arrays))})")
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
    for row in range(cmdp.S * cmdp.A):
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
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except json.JSONDecodeError as error:
        raise ModelFileError(
            f"{path}: no complete JSON: {error.msg} at line {error.lineno}, column {error.colno}"
        ) from error
    except RecursionError as error:
        raise ModelFileError(f"{path}: nested too deeply to be a model") from error
    except UnicodeDecodeError as error:
        raise ModelFileError(f"{path}: not a text file in UTF-8") from error
    if not isinstance(document, dict) or document.get("format") != _FORMAT:
        raise ModelFileError(f'{path}: not a model: it must be an object with "format": "{_FORMAT}"')
    if document.get("version") != 1:
        raise ModelFileError(f"{path}: is of version {document.get('version')!r}; only 1 can be read")
    try:
        return _from_document(document)
    except KeyError as error:
        raise ModelFileError(f"{path}: has no field or name {error}") from error
    except (TypeError, AttributeError, ValueError) as error:
        if isinstance(error, InvalidModelError):
            raise
        raise ModelFileError(f"{path}: a field has the wrong form: {error}") from error


def _from_document(document: dict[str, Any]) -> CMDP:
    states, actions, cost_names = ([str(name) for name in document[key]] for key in ("states", "actions", "costs"))
    for key, found in (("states", states), ("actions", actions), ("costs", cost_names)):
        if not found:
            raise InvalidModelError(f"there are no {key}; a model needs at least one")
        _checks.names(found, len(found), key, "")
    state = {name: s for s, name in enumerate(states)}
    action = {name: a for a, name in enumerate(actions)}
    S, A, n = len(states), len(actions), len(cost_names)
    per_move = any("costs" not in pair for pair in document["transitions"])
    mean = np.zeros((n, S, A))
    seen = np.zeros((S, A), dtype=bool)
    rows, columns, p, moves = [], [], [], []

    def vector(costs: dict[str, float]) -> list[float]:
        unknown = costs.keys() - set(cost_names)
        if unknown:
            raise KeyError(sorted(unknown)[0])
        return [float(costs[name]) for name in cost_names]

    for pair in document["transitions"]:
        s, a = state[pair["state"]], action[pair["action"]]
        if seen[s, a]:
            raise InvalidModelError(f"state {states[s]!r}, action {actions[a]!r} is listed twice")
        seen[s, a] = True
        for target, entry in pair["to"].items():
            rows.append(s * A + a)
            columns.append(state[target])
            p.append(float(entry["p"]) if isinstance(entry, dict) else float(entry))
            if per_move:
                moves.append(vector(entry["costs"] if "costs" not in pair else pair["costs"]))
        if not per_move:
            mean[:, s, a] = vector(pair["costs"])
    if not seen.all():
        s, a = np.argwhere(~seen)[0]
        raise InvalidModelError(f"state {states[s]!r}, action {actions[a]!r} is missing from transitions")
    transitions: Any = sparse.csr_array((p, (rows, columns)), shape=(S * A, S))
    costs: Any = mean
    if per_move:
        costs = [sparse.csr_array((c, (rows, columns)), shape=(S * A, S)) for c in np.array(moves).T]
    if not document.get("sparse", False):
        shape = (S, A, S)
        transitions = transitions.toarray().reshape(shape)
        if per_move:
            costs = np.stack([c.toarray().reshape(shape) for c in costs])
    initial = np.zeros(S)
    for name, probability in document.get("initial", {states[0]: 1.0}).items():
        initial[state[name]] = probability
    thresholds = document.get("thresholds", {})
    unknown = thresholds.keys() - set(cost_names[1:])
    if unknown:
        raise KeyError(sorted(unknown)[0])
    return CMDP(
        transitions,
        costs,
        [thresholds[name] for name in cost_names[1:]],
        initial=initial,
        state_names=states,
        action_names=actions,
        cost_names=cost_names,
        layout=Layout.from_json(document["layout"]) if "layout" in document else None,
    )
