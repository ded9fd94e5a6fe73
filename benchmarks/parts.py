"""The recommended agent, one part at a time: what it gains where, where doors stay shut, and under limits out of reach.

python benchmarks/parts.py factors     without one of its parts [--seeds 10] [--only NAME ...] [--variants NAME ...]
python benchmarks/parts.py doors       where a door often stays shut [--seeds 60]
python benchmarks/parts.py conflict    limits that cannot be met [--seeds 5]

With --keep the table goes into the documentation.

L = regret + lambda* violation, lambda* the shadow prices of the optimum: what counts where the two are traded.
Numbers are means and standard errors over seeds.
"""

import argparse
import warnings
from collections.abc import Callable
from dataclasses import dataclass

import gymnasium
import kept
import numpy as np

import psconrl
from psconrl import CMDP, agents
from psconrl.agents import Memory, hierarchy
from psconrl.agents.sampled_model import SampledModel
from psconrl.errors import LimitsOutOfReachWarning

HOLES = (5, 7, 11, 12)


def frozen_lake() -> CMDP:
    """Without slipping; its holes and its goal are never left, or never entered."""
    env = gymnasium.make("FrozenLake-v1", is_slippery=False)
    return CMDP.from_gymnasium(env, costs=lambda s, a, x: (float(x != 15), float(x in HOLES)), thresholds=[0.03])


def maintenance(spare: int) -> CMDP:
    """A machine that wears out in five stages, to be run, repaired or left idle; `spare` states never occur."""
    S = 5 + spare
    p, c = np.zeros((S, 3, S)), np.zeros((3, S, 3))
    for s in range(5):
        p[s, 0, [min(s + 1, 4), s]] = (1.0, 1.0) if s == 4 else (0.4, 0.6)
        p[s, 1, 0], p[s, 1, s] = 0.9, p[s, 1, s] + 0.1
        p[s, 1] /= p[s, 1].sum()
        p[s, 2, s] = 1.0
        c[:, s] = [[0.2 * s, 1.0, 0.9], [0.0, 1.0, 0.0], [s >= 3, 0.0, s >= 3]]
    p[5:, :, 0] = 1.0
    return CMDP(p, c, [0.12, 0.15])


def courier(limits: tuple[float, float] = (0.4, 0.3)) -> CMDP:
    """A yard that can be left only by waiting, in which charging is cheaper; seven places behind it are worth the wait.

    Driving leads on, for 15 km; waiting leads on with probability 0.3; charging leads to the yard, with 0.8. Costs are
    money, kilometres and complaints. There is no driving in the yard. With ample limits to stay there is a loss.
    """
    S = 8
    p, c, available = np.zeros((S, 3, S)), np.zeros((3, S, 3)), np.ones((S, 3), dtype=np.bool_)
    for s in range(S):
        p[s, 0, [(s + 1) % S, (s + 2) % S]] = 0.8, 0.2
        p[s, 1, [s, (s + 1) % S]] = 0.7, 0.3
        p[s, 2, s], p[s, 2, 0] = 0.2, p[s, 2, 0] + 0.8
        p[s, 2] /= p[s, 2].sum()
        c[:, s] = [[0.3, 0.6, 0.44], [0.75, 0.0, 0.1], [0.3, 0.5, 1 / 6]]
    available[0, 0] = False
    return CMDP(p, c, limits, available=available)


def corridor(n: int = 3, behind: int = 3) -> CMDP:
    """Moves to and fro are certain but for one door, after n places, that stays shut with probability 0.7."""
    S = n + 1 + behind
    p, c = np.zeros((S, 2, S)), np.zeros((1, S, 2))
    for s in range(S):
        p[s, 0, max(s - 1, 0)] = p[s, 1, min(s + 1, S - 1)] = 1.0
        c[0, s] = 0.6 if s < n else 0.1
    p[n, 1, [n, n + 1]], c[0, n] = [0.7, 0.3], [0.5, 0.7]
    return CMDP(p, c)


def river(S: int = 40) -> CMDP:
    """Resting at the bank is cheaper than swimming, the other end cheaper still; going up fails 1 in 10."""
    p, c = np.zeros((S, 2, S)), np.full((1, S, 2), 0.98)
    for s in range(S):
        p[s, 0, max(s - 1, 0)] += 0.9
        p[s, 0, s] += 0.1
        p[s, 1, min(s + 1, S - 1)] += 0.9
        p[s, 1, max(s - 1, 0)] += 0.1
    c[0, 0, 0], c[0, -1, 1] = 0.8, 0.1
    return CMDP(p, c)


def ladder(n: int = 10) -> CMDP:
    """One of three actions climbs a rung, the others fall to the ground; below the middle each step counts."""
    p, c = np.zeros((n, 3, n)), np.ones((2, n, 3))
    for s in range(n):
        p[s, :, 0] = 1.0
        p[s, s % 3] = 0.0
        p[s, s % 3, min(s + 1, n - 1)] += 0.9
        p[s, s % 3, s] += 0.1
    c[0, -1], c[1, n // 2 :] = 0.2, 0.0
    return CMDP(p, c, [0.1])


WORLDS: dict[str, tuple[Callable[[], CMDP], int]] = {
    "marsrover-8x8": (lambda: psconrl.make("marsrover-8x8"), 20_000),
    "marsrover-8x8, slip 0.1": (lambda: psconrl.make("marsrover-8x8", slip=0.1), 20_000),
    "FrozenLake, dry": (frozen_lake, 50_000),
    "maintenance, 10 spare states": (lambda: maintenance(10), 30_000),
    "corridor": (corridor, 20_000),
    "river, 40 places": (river, 20_000),
    "ladder": (ladder, 20_000),
    "queue": (lambda: psconrl.make("queue"), 20_000),
    "riverswim": (lambda: psconrl.make("riverswim"), 20_000),
    "access-control": (lambda: psconrl.make("access-control"), 20_000),
    "hospital": (lambda: psconrl.make("hospital"), 20_000),
}


def shown(values: np.ndarray) -> str:
    mean, error = values.mean(), values.std(ddof=1) / np.sqrt(len(values))
    digits = 0 if abs(mean) >= 100 else 1
    return f"{mean:,.{digits}f} ± {error:,.{digits}f}"


@dataclass(frozen=True, eq=False)
class WithoutDiscovery(agents.Recommended):
    """What may be found is as likely as the moves that were seen make it."""

    def for_steps(self, model: SampledModel, memory: Memory, steps: float, rng: np.random.Generator) -> SampledModel:
        return model.with_restarts(memory.state, steps)


def without_paying_back(problem: psconrl.Problem) -> agents.Agent:
    return agents.PSConRL(problem, prior=hierarchy.LEARNED, infeasible="nearest", execution="steered", restarts=True)


VARIANTS: dict[str, Callable[[psconrl.Problem], agents.Agent]] = {
    "recommended": agents.recommended,
    "without discovery": WithoutDiscovery,
    "without restarts and discovery": lambda problem: agents.Recommended(problem, restarts=False),
    "uniform if infeasible": lambda problem: agents.Recommended(problem, infeasible="uniform"),
    "without paying back": without_paying_back,
    "stationary": lambda problem: agents.Recommended(problem, execution="stationary"),
    "prior 0.01": lambda problem: agents.Recommended(problem, prior=0.01),
    "PSConRL, 0.01": agents.PSConRL,
}
"""The recommended agent, the same without one of its parts, and PSConRL."""


def factors(seeds: int, only: list[str], variants: list[str]) -> kept.Part:
    """L with its worst, regret, and [V]+ in per cent of T, summed over limits."""
    rows = []
    for name in only:
        make, T = WORLDS[name]
        cmdp = make()
        solution = psconrl.solve(cmdp)
        for variant in variants:
            agent = VARIANTS[variant](cmdp.problem())
            runs = [psconrl.simulate(agent, cmdp, T, 200 + seed, optimum=solution) for seed in range(seeds)]
            L = np.array([run.lagrangian[-1] for run in runs])
            regret = np.array([run.regret[-1] for run in runs])
            over = 100 * np.mean([run.positive_violation[:, -1].sum() for run in runs]) / T
            rows.append([name, f"{T:,}", variant, f"{shown(L)} (worst {L.max():,.0f})", shown(regret), f"{over:.2f}%"])
            print(rows[-1], flush=True)
    return kept.table(["environment", "T", "agent", "L", "regret", "[V]+"], rows)


def out_of_reach() -> dict[str, CMDP]:
    """Limits that are a part of the least that each cost can have."""
    found = {"toy, tau 0.1": psconrl.make("toy", tau=0.1)}
    for name, options in (("queue", {}), ("garnet", {"m": 3, "seed": 1})):
        cmdp = psconrl.make(name, **options)
        p = cmdp.to_dense().transitions
        least = [psconrl.solve(CMDP(p, cmdp.costs[[i]])).value for i in range(1, cmdp.m + 1)]
        found[f"{name}, 60% of the least"] = cmdp.replace(thresholds=0.6 * np.array(least))
    return found


def conflict(seeds: int) -> kept.Part:
    """The largest violation per step of runs of 20,000 steps, beside the least that is possible forever."""
    rows, T = [], 20_000
    for name, cmdp in out_of_reach().items():
        least = float((psconrl.nearest_limits(cmdp).together - cmdp.thresholds).max())
        told = []
        for make in (agents.recommended, agents.PSConRL):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", LimitsOutOfReachWarning)
                runs = [psconrl.simulate(make(cmdp.problem()), cmdp, T, seed, checkpoints=2) for seed in range(seeds)]
            largest = np.array([run.violation[:, -1].max() / T for run in runs])
            told.append(f"{largest.mean():.4f} (worst {largest.max():.4f})")
        rows.append([name, f"{T:,}", f"{least:.4f}", *told])
        print(rows[-1], flush=True)
    return kept.table(["environment", "T", "least possible", "recommended", "PSConRL"], rows)


def doors(seeds: int) -> kept.Part:
    """Environments with a door that often stays shut: L, and the runs that never came through."""
    rows, T = [], 20_000
    for name, cmdp, behind in (
        ("courier", courier(), 1),
        ("courier, ample limits", courier((0.8, 0.45)), 1),
        ("corridor", corridor(), 4),
    ):
        solution, told = psconrl.solve(cmdp), []
        for agent in (agents.PSConRL(cmdp.problem()), agents.recommended(cmdp.problem())):
            runs = [psconrl.simulate(agent, cmdp, T, seed, optimum=solution) for seed in range(seeds)]
            never = sum(not run.counts[:, :, behind:].any() for run in runs)
            L = np.array([run.lagrangian[-1] for run in runs])
            told += [f"{shown(L)} (worst {L.max():,.0f})", f"{never} of {seeds}"]
        rows.append([name, f"{T:,}", *told])
    return kept.table(["environment", "T", "PSConRL: L", "never through", "recommended: L", "never through"], rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["factors", "doors", "conflict"])
    parser.add_argument("--seeds", type=int)
    parser.add_argument("--only", nargs="*", default=list(WORLDS), choices=list(WORLDS))
    parser.add_argument("--variants", nargs="*", default=list(VARIANTS), choices=list(VARIANTS))
    parser.add_argument("--keep", action="store_true", help="take the table over into the documentation")
    args = parser.parse_args()
    if args.what == "factors":
        found = factors(args.seeds or 10, args.only, args.variants)
    elif args.what == "doors":
        found = doors(args.seeds or 60)
    else:
        found = conflict(args.seeds or 5)
    kept.show(found)
    if args.keep:
        kept.keep(f"parts-{args.what}", {f"parts-{args.what}": found})


if __name__ == "__main__":
    main()
