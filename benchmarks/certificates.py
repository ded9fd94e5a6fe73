"""Plans along real runs, each checked: does the policy that is executed do what was proved of the plan?

    python benchmarks/certificates.py [--plans 100000] [--keep]

PSConRL with priors from 0.0001 to 1 learns grids, Garnets and Dirichlet models of 5 to 200 states with one to three
limits; costs are estimated in runs of even seeds, known in the others. Every plan is made by the planner as the agent
calls it, then its policy is evaluated exactly in the model it was made for. The table says, model by model:

    plans, infeasible      how many were made, and how many samples had no policy within the limits (a uniform plan)
    second opinion         plans that the compiled planner could not prove, and another method made
    gap > 1e-6             plans whose certified gap exceeds that, or that have none
    joined                 plans of several recurrent classes, whose rare moves may cost up to `join`, on purpose
    not connected          plans in samples where some states have no way into the optimal ones
    differ                 plans whose policy costs more than value + gap, or exceeds a limit by more than the gap, by
                           1e-9 (joined plans: plus join); from the worst state, or if some states are not led into the
                           optimal ones, from the best
    median, worst          processor time of a plan in milliseconds, and their ratio. A plan that took more than ten
                           times the median is made three times more, and the least time counts: it is a pure function
                           of its arguments, so what else went on in the machine is all that differs

Plans with a large gap and those that differ are listed, with the run that made them.
"""

import argparse
import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import kept
import numpy as np

import psconrl
from psconrl import CMDP, agents
from psconrl.agents import planning
from psconrl.planning import BestPolicy
from psconrl.planning.compiled.rows import Rows

PRIORS = (0.0001, 0.001, 0.01, 0.1, 1.0)
PROVED = 1e-6
ROUNDING = 1e-9
LISTED = 40
SLOW, AGAIN, RECKONED = 10, 3, 50
"""Plans slower than so many times the median are made so often again; the median is reckoned anew after so many."""

MODELS: dict[str, Callable[[], CMDP]] = {
    "garnet 5, m = 1": lambda: psconrl.make("garnet", S=5, A=3, branching=2, m=1),
    "garnet 20, m = 2": lambda: psconrl.make("garnet", S=20, A=3, m=2),
    "garnet 60, m = 3": lambda: psconrl.make("garnet", S=60, A=3, m=3),
    "garnet 140, m = 1": lambda: psconrl.make("garnet", S=140, A=3, m=1),
    "garnet 200, m = 2": lambda: psconrl.make("garnet", S=200, A=3, m=2),
    "dirichlet 10, m = 1": lambda: psconrl.make("dirichlet", S=10, A=3, m=1),
    "dirichlet 40, m = 3": lambda: psconrl.make("dirichlet", S=40, A=3, m=3),
    "4x4, m = 1": lambda: psconrl.make("marsrover-4x4"),
    "8x8, m = 1": lambda: psconrl.make("marsrover-8x8"),
    "box, m = 1": lambda: psconrl.make("box"),
    "grid 14x14, slip 0.1, m = 1": lambda: psconrl.make("grid", rows=14, columns=14, slip=0.1),
}


class EnoughError(Exception):
    """The quota of plans is reached."""


@dataclass
class Ledger:
    """What was seen of the plans in one model."""

    where: str = ""
    quota: int = 0
    infeasible: int = 0
    second: int = 0
    unproved: int = 0
    joined: int = 0
    differ: int = 0
    lost: int = 0
    worst_gap: float = 0.0
    usual: float = 0.0
    times: list[float] = field(default_factory=list)
    listed: list[str] = field(default_factory=list)

    def plan(self, rows: Rows, costs: Any, thresholds: Any, **options: Any) -> BestPolicy:
        """The planner's answer, timed and checked."""
        best, spent = timed(rows, costs, thresholds, **options)
        if len(self.times) % RECKONED == 0:
            self.usual = float(np.median(self.times)) if self.times else spent
        if spent > SLOW * self.usual:
            spent = min([spent, *(timed(rows, costs, thresholds, **options)[1] for _ in range(AGAIN))])
        self.times.append(spent)
        self.check(rows, np.array(costs), np.array(thresholds), best, options["join"])
        if len(self.times) >= self.quota:
            raise EnoughError
        return best

    def check(self, rows: Rows, costs: Any, thresholds: Any, best: BestPolicy, join: float) -> None:
        """Count the plan, and compare what it promises with what its policy does."""
        self.second += best.method != "compiled"
        if not best.feasible or best.policy is None:
            self.infeasible += 1
            return
        self.joined += best.classes > 1
        gap = best.gap if math.isfinite(best.gap) else math.inf
        if gap > PROVED:
            self.unproved += 1
            self.note(f"gap {best.gap:.2g}", best)
        else:
            self.worst_gap = max(self.worst_gap, gap)
        exact = psconrl.evaluate(CMDP(rows.matrix(), costs, thresholds), best.policy)
        excess = (exact.average_costs - np.append(best.value, thresholds)[:, np.newaxis]).max(axis=0)
        self.lost += not best.connected
        more = float(excess.max() if best.connected else excess.min())
        allowed = (gap if math.isfinite(gap) else 0.0) + ROUNDING + (join if best.classes > 1 else 0.0)
        if not more <= allowed:
            self.differ += 1
            self.note(f"the policy is {more:.2g} worse than promised, gap {best.gap:.2g}", best)

    def note(self, what: str, best: BestPolicy) -> None:
        """Remember a plan."""
        self.listed.append(
            f"{self.where}, plan {len(self.times)}: {what} ({best.method}, {best.classes} classes, "
            f"{'connected' if best.connected else 'not connected'})"
        )

    def row(self, name: str, S: int) -> list[str]:
        """The line of the table."""
        median, worst = float(np.median(self.times)), max(self.times)
        said = [
            name,
            S,
            len(self.times),
            self.infeasible,
            self.second,
            self.unproved,
            self.joined,
            self.lost,
            self.differ,
            f"{self.worst_gap:.1g}",
            f"{median:.3f}",
            f"{worst:.2f} ({worst / median:.0f}x)",
        ]
        return [str(word) for word in said]


PLANNER = planning.plan_rows


def timed(*given: Any, **options: Any) -> tuple[BestPolicy, float]:
    """The planner's answer, and the processor time that it took in milliseconds."""
    begin = time.thread_time()
    best = PLANNER(*given, **options)
    return best, 1e3 * (time.thread_time() - begin)


HEADER = (
    "model",
    "S",
    "plans",
    "infeasible",
    "second opinion",
    "gap > 1e-6",
    "joined",
    "not connected",
    "differ",
    "largest other gap",
    "median ms",
    "worst ms",
)


def watch(name: str, quota: int, horizon: int) -> tuple[Ledger, int]:
    """Runs in one model, with every prior its share of the plans."""
    cmdp = MODELS[name]()
    problems = cmdp.problem("estimated"), cmdp.problem("known")
    psconrl.simulate(agents.PSConRL(problems[0]), cmdp, 200, 1)  # what is compiled is compiled before
    # States that can be kept, or left for the next: classes are joined, and what is unused leads to them.
    stay_or_go = np.array([[np.eye(3)[s], np.eye(3)[(s + 1) % 3]] for s in range(3)])
    apart = np.array([[[0.0, 1.0], [1.0, 1.0], [1.0, 1.0]], [[1.0, 1.0], [0.0, 1.0], [1.0, 1.0]]])
    psconrl.planning.best_policy(stay_or_go, apart, [0.5], join=0.1)
    large = psconrl.make("grid", rows=20, columns=20, slip=0.1)
    psconrl.planning.best_policy(large.to_dense().transitions, large.costs, large.thresholds, join=0.1)
    psconrl.planning.best_policy(
        cmdp.to_dense().transitions, cmdp.costs, cmdp.thresholds, join=0.1, method="components"
    )
    ledger = Ledger()
    planning.plan_rows = ledger.plan
    try:
        for number, prior in enumerate(PRIORS, start=1):
            ledger.quota = quota * number // len(PRIORS)
            seed = 0
            while len(ledger.times) < ledger.quota:
                ledger.where = f"{name}, prior {prior:g}, seed {seed}"
                agent = agents.PSConRL(problems[seed % 2], prior=prior)
                try:
                    psconrl.simulate(agent, cmdp, horizon, seed)
                except EnoughError:
                    break
                seed += 1
    finally:
        planning.plan_rows = PLANNER
    return ledger, cmdp.S


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--plans", type=int, default=100_000)
    parser.add_argument("--horizon", type=int, default=20_000, help="steps of a run (default: 20,000)")
    parser.add_argument("--models", nargs="*", default=list(MODELS), choices=list(MODELS), metavar="MODEL")
    parser.add_argument("--keep", action="store_true", help="for the documentation")
    args = parser.parse_args()
    ledgers, rows = [], []
    for number, name in enumerate(args.models, start=1):
        share = args.plans * number // len(args.models) - args.plans * (number - 1) // len(args.models)
        ledger, S = watch(name, share, args.horizon)
        rows.append(ledger.row(name, S))
        print("| " + " | ".join(rows[-1]) + " |", flush=True)
        ledgers.append(ledger)
    plans = sum(len(ledger.times) for ledger in ledgers)
    ratio = max(max(ledger.times) / float(np.median(ledger.times)) for ledger in ledgers)
    listed = [line for ledger in ledgers for line in ledger.listed]
    listed.sort(key=lambda line: "promised" not in line)
    alone = sum("1 classes" in line for line in listed)
    said = (
        f"Of {plans:,} plans {sum(x.differ for x in ledgers)} differ from what was proved of them; "
        f"{sum(x.unproved for x in ledgers)} have a gap above {PROVED:g}, {alone} of these with one recurrent class; "
        f"{sum(x.second for x in ledgers)} needed a second opinion; "
        f"the worst plan took {ratio:.0f} times the median of its model."
    )
    print(f"\n{said}")
    print("\n".join(f"  {line}" for line in listed[:LISTED]))
    if len(listed) > LISTED:
        print(f"  and {len(listed) - LISTED} more")
    if args.keep:
        kept.keep("certificates", {"certificates": kept.table(HEADER, rows), "certificates-counted": kept.text(said)})


if __name__ == "__main__":
    main()
