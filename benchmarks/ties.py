"""Whether a machine decides: every agent, with the authors' settings too, run as if on another processor.

    python benchmarks/ties.py [--first 0] [--seeds 3] [--share 1.0] [--plain 500]
    python benchmarks/ties.py --large [--first 0] [--seeds 3]
    python benchmarks/ties.py --count [--seeds 3] [--share 1.0] [--keep]

The same runs in two processes: one compiles for this processor, the other for a generic one without wide vector
instructions (NUMBA_CPU_NAME), with another kernel of OpenBLAS (OPENBLAS_CORETYPE). Sums then have other roundings. Runs
agree if every step of them does: their counts, their plans and what they cost. `--plain`: steps that the uncompiled
loop is compared on, too. `--large`: worlds of more than 130 states, whose policies are evaluated by sparse factors, and
the policies that `solve` gives for them.

`--count` counts, in plans of the agents whose models are single samples or estimates, what the rule for ties leaves
undecided. What does it cost to take a pair that the optimum does not use, in a state that it comes to? The advantage A.

    equal      |A| is rounding: the same level, or the same sum of levels on the way; the pair in use is kept
    near       |A| is less than what makes one action count as better (`tolerances.TIE`): so, too
    edge       |A| is that but for rounding, so that rounding may decide
"""

from __future__ import annotations

import argparse
import hashlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import kept

if TYPE_CHECKING:
    from psconrl._core.checks import Floats
    from psconrl.learning import Run
    from psconrl.planning.compiled.rows import Rows
    from psconrl.planning.for_agents import BestPolicy

HORIZONS = {"marsrover-4x4": 5_000, "marsrover-8x8": 20_000, "box": 100_000}
AGENTS = ("PSConRL", "ConRL", "CUCRL", "UCRLCMDP", "CMDPPSRL", "TSDE", "FHA", "Recommended")
ONLY_SMALL = ("UCRLCMDP", "FHA")
LARGE: tuple[tuple[str, dict[str, Any], int], ...] = (
    ("grid", {"rows": 12, "columns": 12}, 3_000),
    ("grid", {"rows": 13, "columns": 13, "slip": 0.1}, 3_000),
    ("grid", {"rows": 20, "columns": 20, "slip": 0.1}, 3_000),
    ("garnet", {"S": 200, "m": 2}, 3_000),
    ("taxi", {}, 3_000),
)
LARGE_AGENTS = ("PSConRL", "ConRL", "CUCRL", "Recommended")
OTHER = {"NUMBA_CPU_NAME": "generic", "NUMBA_CPU_FEATURES": "", "OPENBLAS_CORETYPE": "Nehalem"}


def digests(seeds: range, share: float, plain: int) -> Iterator[tuple[str, str]]:
    """Each run, and a hash of all its decisions."""
    from reproduction.comparisons import options
    from reproduction.gridworlds import algorithms

    import psconrl
    from psconrl import agents
    from reproduction.agents import RELEASED
    from reproduction.settings import ours as settings_of
    from reproduction.settings import released

    for env, horizon in HORIZONS.items():
        ours, theirs = psconrl.make(env), psconrl.make(env, **options(env))
        here = [name for name in AGENTS if name not in ONLY_SMALL or env == "marsrover-4x4"]
        cells = [(ours, name, name, settings_of(name, env)) for name in here]
        cells += [(theirs, f"{name}, the authors'", RELEASED[name], released(name, env)) for name in algorithms(env)]
        for cmdp, label, name, settings in cells:
            agent = agents.find(name)(cmdp.problem("estimated"), **settings)
            for seed in seeds:
                for compiled in (True, False) if plain else (True,):
                    steps = max(100, round(share * horizon)) if compiled else plain
                    run = psconrl.simulate(agent, cmdp, steps, seed, compiled=compiled)
                    yield f"{env} {label} seed {seed}{'' if compiled else ' plain'}", decisions(run)


def decisions(run: Run) -> str:
    """A hash of all that was decided in a run."""
    import numpy as np

    parts = (run.counts, run.cumulative, run.episodes["start"], run.episodes["length"])
    content = b"".join(np.ascontiguousarray(part).tobytes() for part in parts)
    return hashlib.blake2b(content, digest_size=8).hexdigest()


def large_digests(seeds: range) -> Iterator[tuple[str, str]]:
    """The same in worlds of many states; and the policies of solutions, as supports and to ten digits."""
    import numpy as np

    import psconrl
    from psconrl import agents

    for env, arguments, horizon in LARGE:
        cmdp = psconrl.make(env, **arguments)
        where = " ".join([env, *(f"{name} {value}" for name, value in arguments.items())])
        policy = np.round(psconrl.solve(cmdp).policy, 10) + 0.0
        yield f"{where} solved", hashlib.blake2b(policy.tobytes(), digest_size=8).hexdigest()
        for name in LARGE_AGENTS:
            agent = agents.find(name)(cmdp.problem("estimated"))
            for seed in seeds:
                yield f"{where} {name} seed {seed}", decisions(psconrl.simulate(agent, cmdp, horizon, seed))


def near_ties(seeds: int, share: float) -> dict[str, kept.Part]:
    """How many plans have ties that the rule leaves, and how many pairs there are in them."""
    from collections import Counter

    import numpy as np

    import psconrl
    from psconrl import agents
    from psconrl._core.graph import closed_classes
    from psconrl.planning import for_agents, ties
    from psconrl.planning.executable import chain_of
    from psconrl.planning.tolerances import EPS, TIE
    from reproduction.settings import ours as settings_of

    plan, found = for_agents._compiled, Counter[str]()

    def counting(rows: Rows, costs: Floats, *others: Any) -> BestPolicy | None:
        best = plan(rows, costs, *others)
        if best is None or best.policy is None:
            return best
        c, h = ties.decided(costs), best.start["bias"]
        A = c[0] + best.multipliers @ c[1:] + rows.matrix() @ h - h[rows.source]
        A -= A[best.start["policies"][0, best.start["reference"][0]]]
        policy = best.policy.ravel()
        inside = np.zeros(rows.S, dtype=np.bool_)
        for states in closed_classes(chain_of(rows, policy)):
            inside[states] = True
        size = np.abs(A[inside[rows.source] & (policy == 0.0)])
        span = float(np.ptp(h))
        tie, rounding = max(TIE, 1e-15 * span), 8 * EPS * max(span, 1.0)
        kinds = {
            "equal": size <= rounding,
            "near": (size > rounding) & (size < tie - rounding),
            "edge": np.abs(size - tie) <= rounding,
        }
        found.update(plans=1, pairs=len(size), any=any(kind.any() for kind in kinds.values()))
        for name, kind in kinds.items():
            found.update({name: int(kind.sum()), f"plans {name}": int(kind.any())})
        return best

    for_agents._compiled = counting
    rows, plans = [], 0
    for env, horizon in HORIZONS.items():
        cmdp = psconrl.make(env)
        for name in AGENTS:
            if name in ONLY_SMALL:
                continue  # their models are whole sets
            found.clear()
            agent = agents.find(name)(cmdp.problem("estimated"), **settings_of(name, env))
            for seed in range(seeds):
                psconrl.simulate(agent, cmdp, max(100, round(share * horizon)), seed)
            told = (f"{found[f'plans {kind}']:,} ({found[kind]:,} pairs)" for kind in ("equal", "near", "edge"))
            decided = f"{1 - found['any'] / found['plans']:.1%}"
            plans += found["plans"]
            rows.append([f"{env}, {cmdp.S} states", agent.name, f"{found['plans']:,}", decided, *told])
            print(*rows[-1], sep=", ", flush=True)
    head = ["world", "agent", "plans", "all decided", "with equal pairs", "near", "edge"]
    counted = f"{plans:,} plans, all that six agents made in {seeds} runs each of the three gridworlds."
    return {"ties-plans": kept.text(counted), "ties-counted": kept.table(head, rows)}


def main() -> None:
    """Compare, and print what differs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--share", type=float, default=1.0, help="share of the paper's horizons")
    parser.add_argument("--plain", type=int, default=500, help="steps of the uncompiled loop; 0: not run")
    parser.add_argument("--large", action="store_true", help="worlds of more than 130 states")
    parser.add_argument("--count", action="store_true", help="count what the rule leaves undecided")
    parser.add_argument("--keep", action="store_true", help="what was counted, for docs/benchmarks.md")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        seeds = range(options.first, options.first + options.seeds)
        found = large_digests(seeds) if options.large else digests(seeds, options.share, options.plain)
        for key, digest in found:
            print(f"{key}: {digest}", flush=True)
        return
    if options.count:
        parts = near_ties(options.seeds, options.share)
        for part in parts.values():
            kept.show(part)
        if options.keep:
            kept.keep("ties", parts)
        return
    names = ("first", "seeds", "share", "plain")
    given = [word for name in names for word in (f"--{name}", str(getattr(options, name)))]
    command = [sys.executable, __file__, "--child", *given, *(["--large"] if options.large else [])]
    with tempfile.TemporaryDirectory() as cache:
        # Side by side, so that what was compared counts even if the whole takes too long.
        other = {**os.environ, **OTHER, "NUMBA_CACHE_DIR": cache}
        here, there = (subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True) for env in (None, other))
        assert here.stdout is not None
        assert there.stdout is not None
        runs, different = 0, 0
        for mine, theirs in zip(here.stdout, there.stdout, strict=True):
            runs, different = runs + 1, different + (mine != theirs)
            print(f"{runs} runs, {different} differ; {mine.split(':')[0]}", flush=True)
    if here.wait() or there.wait():
        raise SystemExit("a process failed")


if __name__ == "__main__":
    main()
