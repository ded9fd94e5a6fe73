"""Whether a machine decides: every agent, with the authors' settings too, run as if on another processor.

    python benchmarks/ties.py [--seeds 3] [--share 1.0] [--plain 500]

The same runs in two processes: one compiles for this processor, the other for a generic one without wide vector
instructions (NUMBA_CPU_NAME), with another kernel of OpenBLAS (OPENBLAS_CORETYPE). Sums then have other roundings. Runs
agree if every step of them does: their counts, their plans and what they cost. `--plain`: steps that the uncompiled
loop is compared on, too.
"""

import argparse
import hashlib
import json
import os
import subprocess
import sys
import tempfile

HORIZONS = {"marsrover-4x4": 5_000, "marsrover-8x8": 20_000, "box": 100_000}
AGENTS = ("PSConRL", "ConRL", "CUCRL", "UCRLCMDP", "CMDPPSRL", "TSDE", "FHA", "Recommended")
ONLY_SMALL = ("UCRLCMDP", "FHA")
OTHER = {"NUMBA_CPU_NAME": "generic", "NUMBA_CPU_FEATURES": "", "OPENBLAS_CORETYPE": "Nehalem"}


def digests(seeds: int, share: float, plain: int) -> dict[str, str]:
    """A hash of all decisions of each run."""
    import numpy as np

    import psconrl
    from psconrl import agents
    from psconrl.experiments.comparisons import options
    from psconrl.experiments.gridworlds import shown
    from psconrl.experiments.paper_settings import authors, preset

    found = {}
    for env, horizon in HORIZONS.items():
        ours, theirs = psconrl.make(env), psconrl.make(env, **options(env))
        here = [name for name in AGENTS if name not in ONLY_SMALL or env == "marsrover-4x4"]
        cells = [(ours, name, name, preset(name, env)) for name in here]
        cells += [(theirs, f"{name}, the authors'", name, authors(name, env)) for name in shown(env)]
        for cmdp, label, name, settings in cells:
            agent = agents.catalogue.find(name)(cmdp.problem("estimated"), **settings)
            for seed in range(seeds):
                for compiled in (True, False) if plain else (True,):
                    steps = max(100, round(share * horizon)) if compiled else plain
                    run = psconrl.simulate(agent, cmdp, steps, seed, compiled=compiled)
                    parts = (run.counts, run.cumulative, run.episodes["start"], run.episodes["length"])
                    content = b"".join(np.ascontiguousarray(part).tobytes() for part in parts)
                    key = f"{env} {label} seed {seed}{'' if compiled else ' plain'}"
                    found[key] = hashlib.blake2b(content, digest_size=8).hexdigest()
    return found


def main() -> None:
    """Compare, and print what differs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--share", type=float, default=1.0, help="share of the paper's horizons")
    parser.add_argument("--plain", type=int, default=500, help="steps of the uncompiled loop; 0: not run")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        print(json.dumps(digests(options.seeds, options.share, options.plain)))
        return
    given = [str(option) for option in ("--seeds", options.seeds, "--share", options.share, "--plain", options.plain)]
    results = []
    for changed in ({}, OTHER):
        with tempfile.TemporaryDirectory() as cache:
            here = {**os.environ, **changed, "NUMBA_CACHE_DIR": cache}
            command = [sys.executable, __file__, "--child", *given]
            results.append(json.loads(subprocess.run(command, env=here, check=True, capture_output=True).stdout))
    different = [key for key, digest in results[0].items() if results[1][key] != digest]
    print(f"{len(results[0])} runs, {len(different)} differ" + "".join(f"\n  {key}" for key in different))


if __name__ == "__main__":
    main()
