"""An agent and its problem in plain words and numbers, so that a state is continued by the agent that it belongs to."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import fields
from typing import Any

import numpy as np
from scipy import sparse

from psconrl._core.checks import short_repr
from psconrl.agents.contract import Agent
from psconrl.cmdp import CMDP
from psconrl.problem import Problem


def described(agent: Agent) -> dict[str, Any]:
    """Kind, settings and problem of an agent as JSON values; large things by their fingerprints."""
    settings = {field.name: _plain(getattr(agent, field.name)) for field in fields(agent) if field.name != "problem"}
    parts = [name for name in Problem.__dataclass_fields__ if name not in ("pairs", "offers")]
    problem = {name: _plain(getattr(agent.problem, name)) for name in parts}
    offers, every = agent.problem.available_function, agent.problem.pairs.every
    problem["available"] = "all" if every else _plain(agent.problem.available)
    if offers is not None:
        problem["available"] = f"by {getattr(offers, '__qualname__', type(offers).__qualname__)}"
    return {"agent": type(agent).__qualname__, "settings": settings, "problem": problem}


def difference(mine: Mapping[str, Any], other: Mapping[str, Any]) -> str | None:
    """The first thing in which two descriptions differ, in words; None if they are the same."""
    if _text(mine["agent"]) != _text(other.get("agent")):
        return f"agent {short_repr(other.get('agent'))}, not {mine['agent']}"
    for part in ("problem", "settings"):
        theirs = other.get(part)
        whose = "a problem" if part == "problem" else str(mine["agent"])
        if not isinstance(theirs, Mapping):
            return f"an agent without {part}"
        for name in sorted({*mine[part], *map(str, theirs)}):
            some, others = (_text(table.get(name, "nothing")) for table in (mine[part], theirs))
            if some != others:
                return f"{whose} with {name} = {short_repr(theirs.get(name))}, not {short_repr(mine[part].get(name))}"
    return None


def _text(value: Any) -> str:
    """Equal for equal descriptions, NaN included, and for tuples and lists of the same."""
    try:
        return json.dumps(value, sort_keys=True)
    except (TypeError, ValueError, RecursionError):
        return short_repr(value)


def _plain(value: Any) -> Any:
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, (tuple, list)):
        return [_plain(item) for item in value]
    if isinstance(value, np.ndarray) and value.size <= 8 and value.dtype.kind in "biuf":
        return value.tolist()
    if isinstance(value, np.ndarray):
        return f"array {value.shape} {_fingerprint(value)}"
    if sparse.issparse(value):
        matrix: Any = sparse.csr_array(value)
        parts = (matrix.data, matrix.indices.astype(np.int64), matrix.indptr.astype(np.int64))
        return f"sparse {matrix.shape} {_fingerprint(*parts)}"
    if isinstance(value, CMDP):
        arrays = value.to_arrays()
        return f"{value} {_fingerprint(*(arrays[name] for name in sorted(arrays)))}"
    # What a user's own class looks like is not known: its address must not count.
    text = short_repr(value)
    return type(value).__qualname__ if " at 0x" in text else text


def _fingerprint(*arrays: np.ndarray[Any, Any]) -> str:
    digest = hashlib.sha256()
    for array in arrays:
        digest.update(f"{array.dtype.str} {array.shape}".encode())
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()[:16]
