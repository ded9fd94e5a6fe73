"""Whether other versions of Python and of the libraries give the same results, to the bit.

    python benchmarks/versions.py run here.json           # in each of the installations to compare
    python benchmarks/versions.py compare here.json there.json

A run is compared in two ways: what happened (states, actions, costs), and what was planned (the values of all plans, to
the last bit). The first can be the same where the second is not.
"""

import argparse
import json
import platform
from hashlib import blake2b
from importlib.metadata import version
from pathlib import Path

import numpy as np

import psconrl
from psconrl import agents

WORLDS = ("toy", "marsrover-4x4", "riverswim", "queue")
LIBRARIES = ("numpy", "scipy", "numba", "llvmlite", "highspy", "pyarrow", "gymnasium")


def digest(*arrays: object) -> str:
    """Of the bytes of arrays."""
    return blake2b(b"".join(np.ascontiguousarray(array).tobytes() for array in arrays), digest_size=8).hexdigest()


def of_run(agent: agents.Agent, cmdp: psconrl.CMDP, horizon: int, seed: int) -> dict[str, str]:
    run = psconrl.simulate(agent, cmdp, horizon, seed)
    columns = ("start", "length", "feasible")
    happened = digest(run.cumulative, run.counts, *(run.episodes[name] for name in columns))
    return {"happened": happened, "planned": digest(run.episodes["value"])}


def of_solution(cmdp: psconrl.CMDP) -> dict[str, str]:
    found = psconrl.solve(cmdp)
    return {"happened": digest(found.policy > 1e-12), "planned": digest(found.value, found.policy, found.average_costs)}


def all_of(horizon: int, seeds: int) -> dict[str, dict[str, str]]:
    """Digests of the solution of every world, and of every agent's runs in it."""
    found = {}
    for world in WORLDS:
        cmdp = psconrl.make(world)
        found[f"solve({world})"] = of_solution(cmdp)
        ready = cmdp.rescaled().problem()
        cmdp = cmdp.rescaled()
        makers = {name: getattr(agents, name) for name in ("PSConRL", "ConRL", "CUCRL", "UCRLCMDP", "CMDPPSRL", "FHA")}
        some = {name: maker(ready) for name, maker in makers.items()}
        some |= {"TSDE": agents.TSDE(ready), "Uniform": agents.Uniform(ready), "Recommended": agents.recommended(ready)}
        some |= {
            "PSConRL, steered": agents.PSConRL(ready, execution="steered"),
            "Optimal": agents.Optimal(ready, model=cmdp),
        }
        for name, agent in some.items():
            for seed in range(seeds):
                found[f"{name} in {world}, seed {seed}"] = of_run(agent, cmdp, horizon, seed)
    return found


def compare(first: Path, second: Path) -> None:
    """Print what differs."""
    one, other = (json.loads(path.read_text(encoding="utf-8")) for path in (first, second))
    print(f"{first.stem}: {one['versions']}\n{second.stem}: {other['versions']}")
    for kind in ("happened", "planned"):
        differ = [name for name, row in one["digests"].items() if row[kind] != other["digests"][name][kind]]
        same = len(one["digests"]) - len(differ)
        print(f"{kind}: {same} of {len(one['digests'])} the same", *differ, sep="\n  ")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["run", "compare"])
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--horizon", type=int, default=1500)
    parser.add_argument("--seeds", type=int, default=3)
    options = parser.parse_args()
    if options.what == "compare":
        compare(*options.files)
        return
    versions = {"python": platform.python_version()} | {name: version(name) for name in LIBRARIES}
    document = {"versions": versions, "digests": all_of(options.horizon, options.seeds)}
    options.files[0].write_text(json.dumps(document, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
