"""Steered against stationary execution of the optimum: excess, regret, their scatter and their growth.

    python benchmarks/steering.py [--seeds N] [--quick]

Prints three tables: `Optimal` in fifteen models with both executions, and the bounds

    [V]+ < 3 sqrt((d + span) T)      |regret| < the same times (1 + |lambda*|_1)      in every steered run

(d: expected round trip between the cores of the columns; span: largest bias span of the columns as executed; T is at
least 36 (d + span)); growth exponents of [V]+ and of the mean regret from T = 10^3 to 10^6; and PSConRL with prior 0.01
on both Marsrovers. Exits with 1 if a bound is broken, or PSConRL's [V]+ is not below 5, its regret more than 20% above
the stationary one's, or its violation's standard deviation above a fifth.
"""

import argparse
import sys
from typing import Any, Literal

import numpy as np

import psconrl
from psconrl import agents
from psconrl._core.checks import Floats
from psconrl.planning.for_agents import Steer
from psconrl.planning.steering import from_solution

Execution = Literal["stationary", "steered"]

MODELS: list[tuple[str, dict[str, Any], int]] = [
    ("riverswim", {}, 20_000),
    ("riverswim", {"S": 25}, 100_000),
    ("marsrover-4x4", {}, 5_000),
    ("marsrover-4x4", {"slip": 0.1}, 5_000),
    ("marsrover-8x8", {}, 20_000),
    ("marsrover-8x8", {"slip": 0.1}, 20_000),
    ("box", {}, 20_000),
    ("box", {"slip": 0.1}, 20_000),
    ("queue", {}, 20_000),
    *(("garnet", {"S": 20, "A": 3, "m": m, "seed": m}, 20_000) for m in (1, 2, 3, 4)),
]
LEARNING: list[tuple[str, int]] = [("marsrover-4x4", 5_000), ("marsrover-8x8", 20_000)]
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

    def text(self) -> str:
        """Means and standard deviations."""
        V = ", ".join(
            f"{mean:.1f} ± {sd:.1f}" for mean, sd in zip(self.violation.mean(0), self.violation.std(0), strict=True)
        )
        return f"{self.regret.mean():.1f} ± {self.regret.std():.1f} | {V}"


def optimal(cmdp: psconrl.CMDP, execution: Execution) -> agents.Agent:
    """The optimum of a model, executed."""
    return agents.Optimal(cmdp.problem(), model=cmdp, execution=execution)


def reach(cmdp: psconrl.CMDP, solution: psconrl.Solution, T: int) -> tuple[float, float]:
    """d, and the largest span of the columns' biases."""
    steered = from_solution(solution, Steer(0, T, np.zeros(cmdp.m)), np.ones(cmdp.m + 1))
    assert steered is not None
    columns = list(steered.policies(solution.policy))
    if steered.slope > 1 and (steered.ways >= 0).all():
        columns = [np.eye(cmdp.A)[way] for way in steered.ways[: len(columns)]]
    span = max(float(np.ptp(psconrl.evaluate(cmdp, column).bias, axis=1).max()) for column in columns)
    return steered.slope - 1, span


def bounds(seeds: int, quick: bool) -> bool:
    """The table of the models; whether all bounds hold."""
    fine = True
    print(
        "model | T | d + span | stationary: regret | V (sd) | steered: regret | V (sd) | worst [V]+, |regret| / bound"
    )
    for name, options, T in MODELS:
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
        label = f"{name} {options}" if options else name
        both = f"{ends['stationary'].text()} | {steered.text()}"
        print(f"{label} | {T:,} | {d + span:.1f} | {both} | {share:.2f}, {paid:.2f}")
    return bool(fine)


def growth(seeds: int, quick: bool) -> None:
    """Means at T = 10^3, ... and their exponents of T, by least squares in logarithms, where all are above 0.5.

    Where columns lie far apart, V swings in its band, and where it is at the end is chance: max_t [V_t]+ and L are not.
    """
    print("\nmodel | [V]+ | max_t [V_t]+ | regret | L, each at T = 10^3, 10^4, ... (exponent)")
    horizons = GROWTH[:-1] if quick else GROWTH
    for name, options, _ in MODELS:
        cmdp = psconrl.make(name, **options)
        solution, agent = psconrl.solve(cmdp), optimal(cmdp, "steered")
        ends = [Ends(agent, cmdp, T, seeds, solution) for T in horizons]
        means = (
            np.array([getattr(end, what).mean() for end in ends])
            for what in ("positive", "largest", "regret", "lagrangian")
        )
        label = f"{name} {options}" if options else name
        print(label, *(f"{_list(values)} ({_slope(horizons, values)})" for values in means), sep=" | ")


def learning(seeds: int, quick: bool) -> bool:
    """PSConRL with both executions; whether steering keeps what it promises."""
    fine = True
    print("\nPSConRL, prior 0.01 | T | stationary | steered | largest [V]+ | regret's ratio | ratio of V's sd")
    for name, T in LEARNING:
        cmdp = psconrl.make(name)
        solution, ends = psconrl.solve(cmdp), {}
        for execution in _BOTH:
            agent = agents.PSConRL(cmdp.problem(), execution=execution)
            ends[execution] = Ends(agent, cmdp, T // (4 if quick else 1), seeds, solution)
        before, after = ends["stationary"], ends["steered"]
        ratio, scatter = after.regret.mean() / before.regret.mean(), after.violation.std() / before.violation.std()
        fine &= after.positive.max() < 5 and ratio <= 1.2 and scatter <= 0.2
        promised = f"{after.positive.max():.1f} | {ratio:.2f} | {scatter:.2f}"
        print(f"{name} | {T:,} | {before.text()} | {after.text()} | {promised}")
    return bool(fine)


_BOTH: tuple[Execution, Execution] = ("stationary", "steered")


def _list(values: Floats) -> str:
    return ", ".join(f"{value:.1f}" for value in values)


def _slope(horizons: tuple[int, ...], values: Floats) -> str:
    if not (values > 0.5).all():
        return "-"
    return f"{np.polyfit(np.log(horizons), np.log(values), 1)[0]:.2f}"


def main() -> int:
    """Print the tables; 0 if every promise is kept."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--quick", action="store_true", help="shorter runs")
    given = parser.parse_args()
    fine = bounds(given.seeds, given.quick)
    growth(given.seeds, given.quick)
    fine &= learning(given.seeds, given.quick)
    return 0 if fine else 1


if __name__ == "__main__":
    sys.exit(main())
