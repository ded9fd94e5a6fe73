"""The benchmarks: one command, ratios measured in one run; kept for docs/benchmarks.md.

    python benchmarks/bench.py [--samples 10000] [--only PART ...]

Times are medians of processor time, one thread, in milliseconds unless said otherwise.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import authors_way
import kept
import numpy as np
from against import lean_highs
from scipy.optimize import linprog

import psconrl
from psconrl import agents
from psconrl.agents import planning as agents_planning
from psconrl.agents import posterior
from psconrl.learning.simulation import one_thread
from psconrl.planning import for_agents
from psconrl.planning.compiled.rows import Rows
from psconrl.planning.for_agents import best_policy, plan_rows
from psconrl.planning.lp.occupancy import occupancy_program

Sample = tuple[Rows, Any, Any]
MODELS: dict[str, tuple[psconrl.CMDP, int]] = {
    "marsrover-4x4": (psconrl.make("marsrover-4x4"), 5_000),
    "marsrover-8x8": (psconrl.make("marsrover-8x8"), 20_000),
    "box, all 121 pairs": (psconrl.make("box", full=True), 100_000),
}


def timed(call: Callable[[], Any]) -> tuple[float, Any]:
    start = time.thread_time()
    result = call()
    return 1e3 * (time.thread_time() - start), result


def median(calls: Iterable[Callable[[], Any]]) -> float:
    return float(np.median([timed(call)[0] for call in calls]))


def table(header: list[str], rows: list[list[str]]) -> list[str]:
    lines = [header, ["---"] * len(header), *rows]
    return ["| " + " | ".join(line) + " |" for line in lines] + [""]


def samples_along(cmdp: psconrl.CMDP, horizon: int, seed: int, wanted: int) -> list[Sample]:
    """The models that PSConRL plans in, in order, with its costs: `wanted` of them in stretches of 20."""
    every = max(1, round(4 * horizon**0.66 / wanted))
    kept: list[Sample] = []
    seen = 0

    def recording(rows: Rows, costs: Any, thresholds: Any, **options: Any) -> Any:
        nonlocal seen
        seen += 1
        if (seen // 20) % every == 0:
            kept.append((rows, costs.copy(), thresholds))
        return plan_rows(rows, costs, thresholds, **options)

    agents_planning.plan_rows = recording
    try:
        psconrl.simulate(agents.PSConRL(cmdp.problem("estimated")), cmdp, horizon, seed)
    finally:
        agents_planning.plan_rows = plan_rows
    return kept


def by_linprog(rows: Rows, costs: Any, thresholds: Any) -> None:
    program = occupancy_program(rows, costs.reshape(len(costs), -1), thresholds).value
    equal = np.isfinite(program.row_lower)
    matrix = program.matrix.tocsr()
    linprog(
        program.cost, matrix[~equal], program.row_upper[~equal], matrix[equal], program.row_upper[equal], method="highs"
    )


def planning(count: int) -> list[str]:
    """Planning in posterior samples: compiled, HiGHS warm, linprog cold, PuLP and CBC."""
    rows_out = []
    for name, (cmdp, horizon) in MODELS.items():
        samples = samples_along(cmdp, horizon, 0, count)
        times, start = [], None
        for rows, costs, thresholds in samples:
            spent, answer = timed(lambda r=rows, c=costs, t=thresholds, s=start: plan_rows(r, c, t, join=0.1, start=s))
            times.append(spent)
            start = answer.start
        lean = lean_highs([(*rows[1:], costs) for rows, costs, _ in samples], samples[0][2])
        few = samples[:: max(1, len(samples) // 12)]
        cold = median([lambda s=s: by_linprog(*s) for s in few])
        wall = []
        for rows, costs, thresholds in few[:6]:
            start = time.perf_counter()  # CBC is another process
            authors_way.plan(rows.matrix().toarray().reshape(rows.S, -1, rows.S), costs, thresholds)
            wall.append(1e3 * (time.perf_counter() - start))
        ours, highs = float(np.median(times)), 1e3 * float(np.median(lean))
        theirs = float(np.median(wall))
        rows_out.append(
            [
                name,
                str(cmdp.S),
                f"{ours:.3f}",
                f"{highs:.2f} ({highs / ours:.1f}x)",
                f"{cold:.1f} ({cold / ours:.0f}x)",
                f"{theirs:.0f} ({theirs / ours:.0f}x)",
            ]
        )
    header = ["samples of", "S", "compiled", "HiGHS, leanest", "linprog, cold", "PuLP + CBC"]
    return [
        *table(header, rows_out),
        "Compiled and HiGHS go from the sampled model to a policy, each from what the plan before left; HiGHS in its",
        "leanest form: one solver, arrays as they are, the last basis, no presolve, scaling or perturbation. PuLP and",
        "CBC is wall-clock time, as CBC is a process of its own.",
    ]


def certificates(count: int) -> list[str]:
    """Gaps and failures on many samples along real runs."""
    gaps: list[float] = []
    highs = plans = seed = 0
    original = for_agents._compiled

    def recording(*arguments: Any) -> Any:
        nonlocal highs, plans
        answer = original(*arguments)
        plans += 1
        if answer is None:
            highs += 1
        elif answer.feasible:
            gaps.append(answer.gap)
        return answer

    for_agents._compiled = recording
    try:
        while plans < count:
            for name, (cmdp, horizon) in MODELS.items():
                long = horizon if name.startswith("marsrover") else 10_000
                psconrl.simulate(agents.PSConRL(cmdp.problem("estimated")), cmdp, long, seed)
            seed += 1
    finally:
        for_agents._compiled = original
    return [
        f"{plans:,} samples along PSConRL's runs in the three models above: largest certified duality gap "
        f"{max(gaps):.1e}, {highs} left to HiGHS.",
        "",
    ]


def draws() -> list[str]:
    """A posterior sample after 100,000 steps, against numpy's gammas."""
    cmdp, _ = MODELS["box, all 121 pairs"]
    prior = posterior.Prior.of(posterior.DEFAULT, cmdp.problem())
    run = psconrl.simulate(agents.Uniform(cmdp.problem()), cmdp, 100_000, 0)
    counts = np.asarray(run.counts if isinstance(run.counts, np.ndarray) else run.counts.toarray())
    counts = counts.reshape(cmdp.S, cmdp.A, cmdp.S)
    observed = posterior.Counts.from_dense(counts)
    rng = np.random.default_rng(np.random.SeedSequence(1))
    posterior.draw(prior, observed, rng)

    def gammas() -> Any:
        g = rng.standard_gamma(0.01 + counts)
        return g / g.sum(axis=2, keepdims=True)

    ours = median([lambda: posterior.draw(prior, observed, rng)] * 200)
    theirs = median([gammas] * 50)
    return [
        f"S = 121, A = 4, after 100,000 steps: {ours:.3f} ms, vectorised numpy gammas {theirs:.2f} ms: "
        f"{theirs / ours:.1f} times.",
        "",
    ]


def printed(script: str, *arguments: str) -> list[str]:
    """What another benchmark prints."""
    command = [sys.executable, str(Path(__file__).with_name(script)), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return ["```text", *done.stdout.strip("\n").splitlines(), "```"]


def whole_runs() -> list[str]:
    """PSConRL against the authors' way, and where its time goes."""
    rows = []
    for name, horizon, theirs in (
        ("marsrover-4x4", 5_000, 1_000),
        ("marsrover-8x8", 20_000, 300),
        ("box", 100_000, 200),
    ):
        cmdp = psconrl.make(name)
        agent = agents.PSConRL(cmdp.problem("estimated"))
        psconrl.simulate(agent, cmdp, 500, 0)
        share, spent, plans = kernel_share(agent, cmdp, horizon)
        start = time.perf_counter()
        _, slow_plans = authors_way.learn(cmdp, theirs, 0)
        slow = 1e3 * (time.perf_counter() - start) / slow_plans
        rows.append(
            [
                f"{name}, T = {horizon:,}",
                f"{plans}",
                f"{spent:.2f} s",
                f"{1e3 * spent / plans:.2f}",
                f"{slow:.0f} ({slow * plans / (1e3 * spent):.0f}x)",
                f"{share:.0%}",
            ]
        )
    header = ["PSConRL", "plans", "run", "per plan, all in", "authors' way, per plan", "inside kernels"]
    return table(header, rows)


def kernel_share(agent: Any, cmdp: psconrl.CMDP, horizon: int) -> tuple[float, float, int]:
    """The share of a run's time inside compiled code, its seconds and its plans.

    The same run again and again, in turn plainly and with a watch on the kernels, which takes time of its own: the
    median over pairs of runs.
    """
    from psconrl.agents import contract, posterior
    from psconrl.learning import loop_data, simulation
    from psconrl.planning import for_agents

    inside = 0.0
    # Where they are called from: modules that are imported late remember what they gave.
    kernels: list[tuple[Any, str]] = [
        (posterior.kernels, "draw_rows"),
        (for_agents, "plan_by_inverses"),
        (simulation.kernels, "run_plan"),
        (loop_data.kernels, "cumulate_policy"),
        (contract.kernels, "mean_costs"),
    ]
    originals = [getattr(module, name) for module, name in kernels]

    def watch(kernel: Any) -> Any:
        def call(*arguments: Any) -> Any:
            nonlocal inside
            start = time.perf_counter()
            result = kernel(*arguments)
            inside += time.perf_counter() - start
            return result

        return call

    plain, within = [], []
    for _ in range(25):
        start = time.perf_counter()
        run = psconrl.simulate(agent, cmdp, horizon, 0)
        plain.append(time.perf_counter() - start)
        inside = 0.0
        for (module, name), kernel in zip(kernels, originals, strict=True):
            setattr(module, name, watch(kernel))
        try:
            psconrl.simulate(agent, cmdp, horizon, 0)
        finally:
            for (module, name), kernel in zip(kernels, originals, strict=True):
                setattr(module, name, kernel)
        within.append(inside)
    shares = [part / whole for part, whole in zip(within, plain, strict=True)]
    return float(np.median(shares)), float(np.median(plain)), len(run.episodes)


def slope(x: list[float], y: list[float]) -> float:
    return float(np.polyfit(np.log(x), np.log(y), 1)[0])


def growth_in_a_m_t() -> list[str]:
    """Cost per plan against A and m, and of a run against T."""
    rng = np.random.default_rng(np.random.SeedSequence(3))
    lines = []

    def cost(S: int, A: int, m: int) -> float:
        spent = []
        for _ in range(12):
            p = rng.dirichlet(np.full(S, 0.05), (S, A))
            c = rng.random((m + 1, S, A))
            tau = np.full(m, 0.45)
            rows = Rows.from_dense(p)
            best_policy(rows, c, tau, join=0.1)
            spent.append(timed(lambda r=rows, c=c, t=tau: best_policy(r, c, t, join=0.1))[0])
        return float(np.median(spent))

    sizes = [2, 4, 8, 16]
    by_a = [cost(40, A, 1) for A in sizes]
    lines += [
        "Random models of 40 states, cold start, one constraint: "
        + ", ".join(f"A = {A}: {t:.2f} ms" for A, t in zip(sizes, by_a, strict=True))
        + f"; exponent {slope([float(A) for A in sizes], by_a):.2f}.",
        "",
    ]
    limits = [1, 2, 3, 4]
    by_m = [cost(40, 4, m) for m in limits]
    lines += [
        "The same with A = 4: "
        + ", ".join(f"m = {m}: {t:.2f} ms" for m, t in zip(limits, by_m, strict=True))
        + f"; exponent {slope([float(m) for m in limits], by_m):.2f}.",
        "",
    ]
    horizons = [1_000, 10_000, 100_000, 1_000_000]
    cmdp = psconrl.make("marsrover-4x4")
    agent = agents.PSConRL(cmdp.problem("estimated"))
    by_t = [timed(lambda T=T: psconrl.simulate(agent, cmdp, T, 0))[0] for T in horizons]
    lines += [
        "PSConRL on marsrover-4x4: "
        + ", ".join(f"T = {T:,}: {t / 1e3:.2f} s" for T, t in zip(horizons, by_t, strict=True))
        + f"; exponent {slope([float(T) for T in horizons], by_t):.2f}.",
        "",
    ]
    return lines


def starting() -> list[str]:
    """Import, help, and compilation in a fresh cache."""

    def wall(arguments: list[str], **environment: str) -> float:
        start = time.perf_counter()
        subprocess.run(arguments, check=True, capture_output=True, env=os.environ | environment)
        return time.perf_counter() - start

    nothing = min(wall([sys.executable, "-c", ""]) for _ in range(5))
    load = min(wall([sys.executable, "-c", "import psconrl"]) for _ in range(5)) - nothing
    command = str(Path(sys.executable).with_name("psconrl"))
    help_ = min(wall([command, "--help"]) for _ in range(5))
    first = [command, "run", "--env", "marsrover-4x4", "--horizon", "100", "--seeds", "1", "--workers", "2"]
    for name in ("PSConRL", "ConRL", "C-UCRL", "UCRL-CMDP"):
        first += ["--agent", name]
    with tempfile.TemporaryDirectory() as folder:
        cache = {"NUMBA_CACHE_DIR": folder}
        compile_, again = (wall([*first, "--out", f"{folder}/{k}"], **cache) for k in range(2))
    return [
        f"`import psconrl` {load:.2f} s, `psconrl --help` {help_:.2f} s; a first run of the four agents of figure-1 "
        f"{compile_:.0f} s, of which {compile_ - again:.0f} s are compilation; afterwards {again:.1f} s.",
        "",
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--samples", type=int, default=10_000, help="for the certificates")
    parser.add_argument("--only", nargs="+", metavar="PART", help="some of the parts; the others are kept as they are")
    args = parser.parse_args()
    parts: dict[str, Callable[[], list[str]]] = {
        "planning": lambda: planning(150),
        "certificates": lambda: certificates(args.samples),
        "draws": draws,
        "optimistic": lambda: printed("optimistic.py", "--sets", "8"),
        "runs": whole_runs,
        "states": lambda: printed("growth.py"),
        "taxi": lambda: printed("taxi.py"),
        "sizes": growth_in_a_m_t,
        "starting": starting,
    }
    with one_thread():
        for name in args.only or parts:
            found = "\n".join(parts[name]()).rstrip()
            print(found, flush=True)
            kept.keep(f"bench-{name}", {f"bench-{name}": kept.text(found)})


if __name__ == "__main__":
    main()
