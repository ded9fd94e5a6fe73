"""Makes hostile calls in a process that may die: python -m tests.borders.child FILE FIRST LAST.

Call number k is the same in every process. Before each call its number is written to FILE, so that who finds the
process dead knows which call it was; what went wrong otherwise is added to FILE.log, one JSON document a line.
"""

from __future__ import annotations

import faulthandler
import json
import sys
import traceback
import warnings
from typing import Any

import numpy as np

from psconrl import PsconrlError
from tests.borders.entries import ESTIMATE, TOY, Entry, entries, inner_state, learner, registries_restored, target_of
from tests.borders.hostile import wrong
from tests.states import same

SECONDS = 20.0
"""No call takes longer."""


def call(entry: Entry, rng: np.random.Generator) -> str:
    """Make one hostile call; what is wrong with how it went, if anything is."""
    arguments = entry.right()
    names = list(arguments)
    many = 1 if rng.random() < 0.7 else int(rng.integers(1, 4))
    chosen = rng.permutation(len(names))[:many]
    for k in chosen:
        arguments[names[k]] = wrong(rng, arguments[names[k]])
    target = target_of(entry)
    before = inner_state(target)
    try:
        entry.call(target, arguments)
    except PsconrlError as error:
        if not 10 < len(str(error)) < 2000:
            return f"says {str(error)[:80]!r}"
        return "" if same(before, inner_state(target)) else "was refused, and changed the object"
    except Exception as error:
        where = traceback.extract_tb(error.__traceback__)[-1]
        ours = [f for f in traceback.extract_tb(error.__traceback__) if "psconrl" in f.filename]
        at = f"{ours[-1].filename.rsplit('psconrl/', 1)[-1]}:{ours[-1].lineno}" if ours else str(where.lineno)
        given = {names[k]: _told(arguments[names[k]]) for k in chosen}
        return f"{type(error).__name__} at {at}: {str(error)[:100]} for {given}"
    return ""


def _told(value: Any) -> str:
    try:
        return repr(value)[:80]
    except Exception:
        return type(value).__name__


def main() -> None:
    """The calls FIRST, ..., LAST - 1."""
    warnings.simplefilter("ignore")
    file, first, last = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    callable_ones = [e for e in entries() if e.parameters]
    TOY.save("model.npz")
    learner().save("learner.npz")
    ESTIMATE.save("estimate.npz")
    for entry in callable_ones:  # what has to be compiled is not what takes long later
        entry.call(target_of(entry), entry.right())
    for k in range(first, last):
        with open(file, "w", encoding="utf-8") as note:
            note.write(str(k))
        rng = np.random.default_rng([7, k])
        entry = callable_ones[k % len(callable_ones)]
        faulthandler.dump_traceback_later(SECONDS, exit=True)
        with registries_restored():
            fault = call(entry, rng)
        faulthandler.cancel_dump_traceback_later()
        if fault:
            with open(f"{file}.log", "a", encoding="utf-8") as log:
                log.write(json.dumps({"call": k, "entry": entry.name, "fault": fault}) + "\n")
    TOY.save("model.npz")
    learner().save("learner.npz")
    ESTIMATE.save("estimate.npz")
    for entry in callable_ones:  # after all that, everything still works
        entry.call(target_of(entry), entry.right())
    with open(file, "w", encoding="utf-8") as note:
        note.write("done")


if __name__ == "__main__":
    main()
