"""The policies of an environment as JSON values, which scripts of the page draw: the optimal one, and all plans.

All of it is in the store: what a run says about its model is written with the run (`psconrl.experiments.world`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from psconrl.environments.text_map import LETTERS
from psconrl.experiments.record import RunRecord
from psconrl.experiments.world import DESCRIBED, encoded, rounded
from psconrl.learning.run import Snapshot
from psconrl.report.environments import EnvironmentRuns

MAX_ENTRIES = 40_000
"""States times snapshots of one run on the page."""


def document(env: EnvironmentRuns) -> dict[str, Any]:
    """What the page draws of an environment: the model, the optimal policy and the plans of each agent's first run."""
    record, model = env.record, env.model or {}
    return {
        "states": model.get("states") or [str(s) for s in range(min(record.states, DESCRIBED))],
        "actions": model.get("actions") or [str(a) for a in range(record.actions)],
        "available": model.get("available"),
        "costs": list(record.cost_names),
        "limits": [rounded(tau) for tau in record.thresholds],
        "optimum": rounded(record.optimum),
        "map": model.get("map"),
        "optimal": model.get("optimal"),
        "agents": [_plans(agent.record) for agent in env.agents],
    }


def snapshots(record: RunRecord) -> Sequence[Snapshot]:
    """The plans of a run that the page shows: all that were kept, fewer of large models, none if it is not drawn."""
    if record.states > DESCRIBED:
        return ()
    most = max(2, MAX_ENTRIES // record.states)
    if len(record.snapshots) <= most:
        return record.snapshots
    chosen = np.linspace(0, len(record.snapshots) - 1, most).round().astype(np.int64)
    return [record.snapshots[k] for k in chosen]


def room(env: EnvironmentRuns) -> str:
    """How much room the drawings need: the name of a size in the style sheet."""
    model = env.model or {}
    rows = (model.get("map") or {}).get("rows")
    if rows:
        return "large" if max(len(rows), len(rows[0])) > 8 else ""
    return "wide" if env.record.actions > 6 else ""


def legend(env: EnvironmentRuns) -> list[tuple[str, str]]:
    """The marks in the drawings, with their meanings."""
    drawn = (env.model or {}).get("map")
    if not drawn:
        return [("share", "probability of an action")]
    present = set("".join(drawn["rows"])) - {"."}
    return [(name, name) for letter, name in LETTERS.items() if letter in present]


def _plans(record: RunRecord) -> dict[str, Any]:
    starts = record.episodes["start"]
    stored = record.world["averages"] if record.world else []
    averages = {snapshot.start: found for snapshot, found in zip(record.snapshots, stored, strict=False)}
    plans = []
    for snapshot in snapshots(record):
        k = min(int(np.searchsorted(starts, snapshot.start)), len(starts) - 1)
        row = record.episodes[k]
        plans.append(
            {
                "start": int(snapshot.start),
                "plan": k + 1,
                "length": int(row["length"]),
                "phase": str(row["phase"]),
                "feasible": bool(row["feasible"]),
                "policy": encoded(snapshot.policy[0]),
                "visits": snapshot.visits.sum(axis=1).tolist(),
                "averages": averages.get(snapshot.start),
                "layers": len(snapshot.policy),
            }
        )
    return {"horizon": record.horizon, "plans": len(starts), "snapshots": plans}
