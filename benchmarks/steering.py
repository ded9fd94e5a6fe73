"""Steered against stationary execution of the optimum: excess, regret, their scatter and their growth.

    python benchmarks/steering.py [--seeds N] [--quick] [--keep]
    python benchmarks/steering.py --garnets [--keep]

Prints three tables: `Optimal` in thirteen models with both executions, and the bounds

    [V]+ < 3 sqrt((d + span) T)      |regret| < the same times (1 + |lambda*|_1)      in every steered run

(d: expected round trip between the cores of the columns; span: largest bias span of the columns as executed; T is at
least 36 (d + span)); growth exponents of [V]+ and of the mean regret from T = 10^3 to 10^6; and PSConRL with prior 0.01
on both Marsrovers. Exits with 1 if a bound is broken, or PSConRL's [V]+ is not below 5, its regret more than 20% above
the stationary one's, or its violation's standard deviation above a fifth.

With --garnets, instead: `Optimal` steered in twenty random models with 2 to 6 limits, up to T = 10^6.
"""

import argparse
import sys
from typing import Any, Literal

import kept
import numpy as np

import psconrl
from psconrl import agents
from psconrl._core.checks import Floats
from psconrl.planning.for_agents import Steer
from psconrl.planning.steering import from_solution

Execution = Literal["stationary", "steered"]

MODELS: dict[str, tuple[str, dict[str, Any], int]] = {
    "RiverSwim, 6 places": ("riverswim", {}, 20_000),
    "RiverSwim, 25 places": ("riverswim", {"S": 25}, 100_000),
    "Marsrover 4x4": ("marsrover-4x4", {}, 5_000),
    "4x4, slip 0.1": ("marsrover-4x4", {"slip": 0.1}, 5_000),
    "Marsrover 8x8": ("marsrover-8x8", {}, 20_000),
    "8x8, slip 0.1": ("marsrover-8x8", {"slip": 0.1}, 20_000),
    "Box, 60 states": ("box", {}, 20_000),
    "Box, 60 states, slip 0.1": ("box", {"slip": 0.1}, 20_000),
    "Queue": ("queue", {}, 20_000),
} | {f"Garnet, m = {m}": ("garnet", {"S": 20, "A": 3, "m": m, "seed": m}, 20_000) for m in (1, 2, 3, 4)}
LEARNING = ("Marsrover 4x4", "Marsrover 8x8")
GROWTH = (10**3, 10**4, 10**5, 10**6)


class Ends:
    """Regret, L (R,), violation and max_t [V_t]+ (R, m) at the end of runs."""

    def __init__(self, agent: agents.Agent, cmdp: psconrl.CMDP, T: int, seeds: int, solution: psconrl.Solution) -> None:
        runs = [psconrl.simulate(agent, cmdp, T, seed, optimum=solution) for seed in range(seeds)]
        self.regret = np.array([run.regret[-1] for run in runs])
        self.lagrangian = np.array([run.lagrangian[-1] for run in runs])
        self.violation = np.array([run.violation[:, -1] for run in runs])
        self.largest = np.array([run.largest_violation[:, -1].max() for run in runs])

    @property
    def positive(self) -> Floats:
        """The largest [V]+ of each run (R,)."""
        return np.asarray(np.maximum(self.violation, 0.0).max(axis=1))

    def texts(self) -> list[str]:
        """Means and standard deviations of regret and violation."""
        V = ", ".join(
            f"{mean:.1f} ± {sd:.1f}" for mean, sd in zip(self.violation.mean(0), self.violation.std(0), strict=True)
        )
        return [f"{self.regret.mean():.1f} ± {self.regret.std():.1f}", V]


def optimal(cmdp: psconrl.CMDP, execution: Execution) -> agents.Agent:
    """The optimum of a model, executed."""
    return agents.Optimal(cmdp.problem(), model=cmdp, execution=execution)


def reach(cmdp: psconrl.CMDP, solution: psconrl.Solution, T: int) -> tuple[float, float]:
    """d, and the largest span of the columns' biases."""
    steered = from_solution(solution, Steer(0, T, np.zeros(cmdp.m)), np.ones(cmdp.m + 1))
    assert steered is not None
    columns = list(steered.policies(solution.policy))
    if steered.slope > 1 and (steered.transfers >= 0).all():
        columns = [np.eye(cmdp.A)[way] for way in steered.transfers[: len(columns)]]
    span = max(float(np.ptp(psconrl.evaluate(cmdp, column).bias, axis=1).max()) for column in columns)
    return steered.slope - 1, span


def bounds(seeds: int, quick: bool) -> tuple[kept.Part, bool]:
    """The table of the models, and whether all bounds hold."""
    fine, rows = True, []
    for label, (name, options, T) in MODELS.items():
        cmdp = psconrl.make(name, **options)
        solution = psconrl.solve(cmdp)
        d, span = reach(cmdp, solution, T)
        T = max(T // (10 if quick else 1), int(np.ceil(36 * (d + span))))
        bound = 3 * np.sqrt((d + span) * T)
        ends = {execution: Ends(optimal(cmdp, execution), cmdp, T, seeds, solution) for execution in _BOTH}
        steered = ends["steered"]
        share = steered.positive.max() / bound
        paid = np.abs(steered.regret).max() / (bound * (1 + solution.multipliers.sum()))
        fine &= share < 1 and paid < 1
        both = [*ends["stationary"].texts(), *steered.texts()]
        rows.append([label, f"{T:,}", f"{d + span:.1f}", *both, f"{share:.2f}, {paid:.2f}"])
    head = ["", "T", "d + span", "stationary: regret", "violation", "steered: regret", "violation", "bounds"]
    return kept.table(head, rows), bool(fine)


def growth(seeds: int, quick: bool) -> kept.Part:
    """Means at T = 10^3, ... and their exponents of T, by least squares in logarithms, where all are above 0.5.

    Where columns lie far apart, V swings in its band, and where it is at the end is chance: max_t [V_t]+ and L are not.
    """
    rows = []
    horizons = GROWTH[:-1] if quick else GROWTH
    for label, (name, options, _) in MODELS.items():
        cmdp = psconrl.make(name, **options)
        solution, agent = psconrl.solve(cmdp), optimal(cmdp, "steered")
        ends = [Ends(agent, cmdp, T, seeds, solution) for T in horizons]
        means = (
            np.array([getattr(end, what).mean() for end in ends])
            for what in ("positive", "largest", "regret", "lagrangian")
        )
        rows.append([label, *(_list(values) + _slope(horizons, values) for values in means)])
    return kept.table(["", "$[V]_+$", r"$\max_t [V_t]_+$", "regret", r"L = regret + $\lambda \cdot V$"], rows)


def learning(seeds: int, quick: bool) -> tuple[kept.Part, bool]:
    """PSConRL with both executions, and whether steering keeps what it promises."""
    fine, rows = True, []
    for label in LEARNING:
        name, _, T = MODELS[label]
        cmdp = psconrl.make(name)
        solution, ends = psconrl.solve(cmdp), {}
        for execution in _BOTH:
            agent = agents.PSConRL(cmdp.problem(), execution=execution)
            ends[execution] = Ends(agent, cmdp, T // (4 if quick else 1), seeds, solution)
        before, after = ends["stationary"], ends["steered"]
        ratio, scatter = after.regret.mean() / before.regret.mean(), after.violation.std() / before.violation.std()
        fine &= after.positive.max() < 5 and ratio <= 1.2 and scatter <= 0.2
        promised = [f"{after.positive.max():.1f}", f"{ratio:.2f}", f"{scatter:.2f}"]
        rows.append([label, f"{T:,}", ", ".join(before.texts()), ", ".join(after.texts()), *promised])
    head = [
        "",
        "T",
        "stationary",
        "steered",
        "largest $[V]_+$",
        "ratio of regrets",
        "ratio of the violations' deviations",
    ]
    return kept.table(head, rows), bool(fine)


def garnets() -> kept.Part:
    """Four random models for each number of limits: shares of T at the end, and exponents of T by least squares."""
    rows = []
    for m in range(2, 7):
        ends = np.empty((4, len(GROWTH), 3))
        for model, T in np.ndindex(ends.shape[:2]):
            cmdp = psconrl.make("garnet", S=20, A=3, m=m, margin=0.02, seed=model)
            ends[model, T] = _end(cmdp, GROWTH[T])
        last = 100 * ends[:, -1] / GROWTH[-1]
        slopes = [_slope(GROWTH[1:], values).strip(" ()") for values in ends.mean(axis=0)[1:].T]
        rows.append([str(m), *(f"{x.mean():.3f}% (largest {x.max():.3f}%)" for x in last.T[:2]), slopes[0], slopes[2]])
    head = ["limits", r"regret (absolute) at $10^6$", "$[V]_+$", "exponent of regret", r"of $\max_t [V_t]_+$"]
    return kept.table(head, rows)


def _end(cmdp: psconrl.CMDP, T: int) -> tuple[float, float, float]:
    """|regret|, the largest [V]+ of the limits, and the largest that it was."""
    run = psconrl.simulate(optimal(cmdp, "steered"), cmdp, T, 0, optimum=psconrl.solve(cmdp))
    return abs(run.regret[-1]), run.positive_violation[:, -1].max(), run.largest_violation[:, -1].max()


_BOTH: tuple[Execution, Execution] = ("stationary", "steered")


def _list(values: Floats) -> str:
    return ", ".join(f"{value:,.0f}" if abs(value) >= 100 else f"{value:.1f}" for value in values + 0.0)


def _slope(horizons: tuple[int, ...], values: Floats) -> str:
    if not (values > 0.5).all():
        return ""
    return f" ({np.polyfit(np.log(horizons), np.log(values), 1)[0]:.2f})"


def main() -> int:
    """Print the tables; 0 if every promise is kept."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--quick", action="store_true", help="shorter runs")
    parser.add_argument("--keep", action="store_true", help="for docs/benchmarks.md")
    parser.add_argument("--garnets", action="store_true", help="random models with many limits only")
    given = parser.parse_args()
    if given.garnets:
        found = garnets()
        kept.show(found)
        if given.keep:
            kept.keep("steering-garnets", {"steering-garnets": found})
        return 0
    runs, bounded = bounds(given.seeds, given.quick)
    learned, promised = learning(given.seeds, given.quick)
    parts = {
        "steering-runs": runs,
        "steering-growth": growth(given.seeds, given.quick),
        "steering-learning": learned,
    }
    for part in parts.values():
        kept.show(part)
    if given.keep:
        kept.keep("steering", parts)
    return 0 if bounded and promised else 1


if __name__ == "__main__":
    sys.exit(main())
