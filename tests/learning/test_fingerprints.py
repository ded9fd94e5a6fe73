"""What agents decide stays as it is, from one version to the next: fingerprints of short runs are stored.

A fingerprint is that of whole numbers: how often each move was made, when plans began and ended, why, and which were
feasible. They are the same on all processors but where rounding decides between plans that are equally good for six
digits and more; floats, which the libraries of another processor may round otherwise, are left out.

A change of decisions needs a reason, and a line in the change log that gives it. Then the file is written anew:

    python -m tests.learning.test_fingerprints
"""

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from psconrl import agents, make, simulate
from psconrl.cmdp import CMDP

STORED = Path(__file__).with_name("fingerprints.json")
STEPS = {"marsrover-4x4": 600, "marsrover-8x8": 500, "box": 500, "queue": 400, "garnet": 400}
SETTINGS: dict[str, tuple[str, dict[str, Any]]] = {
    "PSConRL": ("PSConRL", {}),
    "PSConRL, prior 0.0001": ("PSConRL", {"prior": 0.0001}),
    "PSConRL, prior 1": ("PSConRL", {"prior": 1.0}),
    "PSConRL, prior learned": ("PSConRL", {"prior": "learned"}),
    "PSConRL, steered": ("PSConRL", {"execution": "steered"}),
    **{name: (name, {}) for name in ("TSDE", "CMDPPSRL", "ConRL", "CUCRL", "UCRLCMDP", "FHA")},
}


def world(name: str) -> CMDP:
    return make(name, S=12, A=3, m=3) if name == "garnet" else make(name)


def fingerprint(env: str, setting: str) -> str:
    """The number of plans, and a hash of what was decided."""
    cmdp, (name, parameters) = world(env), SETTINGS[setting]
    steps = STEPS[env] // 4 if name in ("UCRLCMDP", "FHA") else STEPS[env]
    run = simulate(getattr(agents, name)(cmdp.problem("estimated"), **parameters), cmdp, steps, seed=1)
    counts = run.counts if isinstance(run.counts, np.ndarray) else run.counts.toarray()
    decided = hashlib.blake2b(np.ascontiguousarray(counts, dtype=np.int64).tobytes(), digest_size=8)
    for column in ("start", "length", "feasible", "reason", "phase"):
        decided.update(np.ascontiguousarray(run.episodes[column]).tobytes())
    return f"{len(run.episodes)} {decided.hexdigest()}"


@pytest.mark.parametrize("env", STEPS)
def test_decisions_are_those_of_the_version_before(env: str) -> None:
    stored = json.loads(STORED.read_text(encoding="utf-8"))[env]
    assert {setting: fingerprint(env, setting) for setting in SETTINGS} == stored


def main() -> None:
    found = {env: {setting: fingerprint(env, setting) for setting in SETTINGS} for env in STEPS}
    STORED.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
