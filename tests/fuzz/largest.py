"""`python -m tests.fuzz.largest`: files of a megabyte made to take long and much; seconds and memory that each takes.

TOML and maps, which people write by hand, are read up to half of that.
"""

from __future__ import annotations

import io
import json
import multiprocessing
import resource
import sys
import time
from collections.abc import Callable
from contextlib import suppress

import numpy as np

from psconrl.errors import PsconrlError
from psconrl.io import reading
from tests.fuzz.targets import TARGETS

MEGABYTE = 10**6


def pair(s: int, S: int, A: int = 1) -> str:
    return json.dumps({"state": str(s // A), "action": str(s % A), "to": {str((s + 1) % S): 1}, "costs": {"c": 0}})


def model(S: int, A: int, pairs: list[str]) -> bytes:
    names = {"states": [str(s) for s in range(S)], "actions": [str(a) for a in range(A)], "costs": ["c"]}
    head = json.dumps({"format": "psconrl.cmdp", "version": 1, **names})
    return (head[:-1] + ', "transitions": [' + ", ".join(pairs) + "]}").encode()


def packed(arrays: dict[str, np.ndarray]) -> bytes:
    file = io.BytesIO()
    np.savez_compressed(file, **arrays)  # type: ignore[arg-type]
    return file.getvalue()


def dense() -> bytes:
    """As many zeros as a megabyte may hold, and noise to make it one."""
    S = int((reading.allowance(MEGABYTE) / 8) ** 0.5) - 60
    return packed({"transitions": np.zeros((S, 1, S)), "costs": np.random.default_rng(0).random((1, S * 28, 1))})


def lines(text: str) -> bytes:
    return (text * (MEGABYTE // len(text))).encode()


FILES: dict[str, tuple[str, Callable[[], bytes]]] = {
    "npz, dense and packed": ("npz", dense),
    "json, a chain": ("json", lambda: model(9000, 1, [pair(s, 9000) for s in range(9000)])),
    "json, a grid": ("json", lambda: model(90, 100, [pair(s, 90, 100) for s in range(9000)])),
    "json, names": ("json", lambda: model(100_000, 1, [])),
    "json, empty lists": ("json", lambda: b'{"format": "psconrl.cmdp", "version": 1, "x": [' + lines("[],") + b"[]]}"),
    "json, empty tables": ("json", lambda: b"[" + lines("{},") + b"{}]"),
    "json, one name": ("json", lambda: b"{" + b",".join(b'"%d":0' % k for k in range(100_000)) + b',"0":0}'),
    "drn, a chain": (
        "drn",
        lambda: b"@type: MDP\n@reward_models\nr\n@nr_states\n30000\n@model\nstate 0 init\naction 0\n0 : 1\n"
        + b"".join(b"state %d\naction 0\n0 : 1\n" % s for s in range(1, 30_000)),
    ),
    "drn, a start law": (
        "drn",
        lambda: b"// initial: "
        + json.dumps({str(s): 1 / 15_000 for s in range(15_000)}).encode()
        + b"\n@type: MDP\n@reward_models\nr\n@nr_states\n15000\n@model\n"
        + b"".join(b"state %d\naction 0\n0 : 1\n" % s for s in range(15_000)),
    ),
    "drn, actions": (
        "drn",
        lambda: b"@type: MDP\n@reward_models\nr\n@nr_states\n400\n@model\nstate 0 init\n"
        + b"action 0\n0 : 1\n" * 400
        + b"".join(b"state %d\naction 0\n0 : 1\n" % s for s in range(1, 400))
        + b"//" + b"x" * 900_000,
    ),
    "toml, keys": ("toml", lambda: b"".join(b"a%d = 1\n" % k for k in range(48_000))),
    "toml, tables": ("toml", lambda: b"".join(b"[a%d]\n" % k for k in range(56_000))),
    "toml, one long line": ("toml", lambda: b"a = [" + lines("1,")[: MEGABYTE // 2] + b"]"),
    "toml, dotted tables": ("toml", lambda: b"".join(b"[a" + b".a" * k + b"]\n" for k in range(700))),
    "toml, quotes": ("toml", lambda: b'a = "' + b"x" * 500_000 + b'"'),
    "map": ("map", lambda: lines("." * 999 + "\n")[: MEGABYTE // 2] + b"S" + b"G" * 998),
    "specification": ("specification", lambda: b'{"name": "x", "cells": [' + lines("{},") + b"{}]}"),
    "timings": ("timings", lambda: lines('{"identity": "a", "seconds": 1, "finished": "2026-01-01T00:00:00+0000"}\n')),
}  # fmt: skip


def measured(name: str) -> tuple[int, float, float]:
    """Bytes of the file, seconds to read it, and MiB of memory that reading took, at its highest."""
    target, make = FILES[name]
    content = make()
    feed = TARGETS[target].feed
    for example in TARGETS[target].examples():
        feed(example)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    start = time.perf_counter()
    with suppress(PsconrlError):
        feed(content)
    seconds = time.perf_counter() - start
    return len(content), seconds, (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024


def main() -> None:
    context = multiprocessing.get_context("spawn")
    for name in sys.argv[1:] or FILES:
        with context.Pool(1) as pool:
            size, seconds, memory = pool.apply(measured, (name,))
        print(f"{name:22} {size:9,} bytes {seconds:6.2f} s {memory:6.0f} MiB", flush=True)


if __name__ == "__main__":
    main()
