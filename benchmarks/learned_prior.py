"""The learned prior beside fixed ones: what it learns, what it costs, and what its assumption costs where it is false.

python benchmarks/learned_prior.py false       worlds in which the actions of a state share nothing [--seeds 20]
python benchmarks/learned_prior.py spare       ten declared states that never occur, the recommended agent [--seeds 30]
python benchmarks/learned_prior.py owed        the recommended agent with and without paying back [--seeds 24]
python benchmarks/learned_prior.py factors     from PSConRL to the recommended agent and back, one part at a time
                                               [--seeds 10] [--only NAME ...] [--variants NAME ...]
python benchmarks/learned_prior.py doors       the recommended agent where a door often stays shut [--seeds 60]
python benchmarks/learned_prior.py coverage    of hyperparameters, in models drawn from their prior [--seeds 200]
python benchmarks/learned_prior.py speed       processor time per plan at 16, 64, 121 and 1,024 states

With --keep the table goes into the documentation.

L = regret + lambda* violation, lambda* the shadow prices of the optimum: what counts where the two are traded.
Numbers are means and standard errors over seeds.
"""

import argparse
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import gymnasium
import kept
import numpy as np
from scipy import special

import psconrl
from psconrl import CMDP, agents
from psconrl._core import graph
from psconrl._core.checks import Floats
from psconrl.agents import Memory, Plan, hierarchy
from psconrl.agents.sampled_model import SampledModel

HOLES = (5, 7, 11, 12)


def frozen_lake(slippery: bool) -> CMDP:
    env = gymnasium.make("FrozenLake-v1", is_slippery=slippery)
    return CMDP.from_gymnasium(env, costs=lambda s, a, x: (float(x != 15), float(x in HOLES)), thresholds=[0.03])


def cliff_walking(slippery: bool) -> CMDP:
    env = gymnasium.make("CliffWalking-v1", is_slippery=slippery)
    return CMDP.from_gymnasium(env, costs=lambda s, a, x, r: (float(x != 47), float(r == -100)), thresholds=[0.05])


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


def with_spare(cmdp: CMDP, spare: int = 10) -> CMDP:
    """The same with states that never occur, in which nothing costs anything and everything leads to state 0."""
    S, A = cmdp.S + spare, cmdp.A
    p, c = np.zeros((S, A, S)), np.zeros((cmdp.m + 1, S, A))
    p[: cmdp.S, :, : cmdp.S], p[cmdp.S :, :, 0] = cmdp.to_dense().transitions, 1.0
    c[:, : cmdp.S] = cmdp.costs
    return CMDP(p, c, cmdp.thresholds, initial=np.append(cmdp.initial, np.zeros(spare)))


def leaps(seed: int, S: int = 20, A: int = 3) -> CMDP:
    """Every action of every state leaps to a random state, with probability 0.9, and to another with 0.1."""
    rng = np.random.default_rng(np.random.SeedSequence([77, seed]))
    while True:
        p = np.zeros((S, A, S))
        for s, a in np.ndindex(S, A):
            p[s, a, rng.choice(S, 2, replace=False)] = 0.9, 0.1
        cmdp = CMDP(p, rng.random((2, S, A)), [1.0])
        if graph.is_communicating(cmdp.matrix):
            spent = psconrl.solve(cmdp).average_costs[1]
            least = psconrl.solve(CMDP(p, cmdp.costs[1:])).value
            return cmdp.replace(thresholds=[(spent + least) / 2])


WORLDS: dict[str, tuple[Callable[[], CMDP], int]] = {
    "marsrover-4x4": (lambda: psconrl.make("marsrover-4x4"), 5_000),
    "marsrover-4x4, slip 0.1": (lambda: psconrl.make("marsrover-4x4", slip=0.1), 5_000),
    "marsrover-8x8": (lambda: psconrl.make("marsrover-8x8"), 20_000),
    "marsrover-8x8, slip 0.1": (lambda: psconrl.make("marsrover-8x8", slip=0.1), 20_000),
    "box, 60 states": (lambda: psconrl.make("box"), 100_000),
    "box, 60 states, slip 0.1": (lambda: psconrl.make("box", slip=0.1), 100_000),
    "box, 121 states": (lambda: psconrl.make("box", full=True), 100_000),
    "FrozenLake, dry": (lambda: frozen_lake(False), 50_000),
    "FrozenLake, slippery": (lambda: frozen_lake(True), 50_000),
    "CliffWalking": (lambda: cliff_walking(False), 20_000),
    "CliffWalking, slippery": (lambda: cliff_walking(True), 20_000),
    "maintenance": (lambda: maintenance(0), 30_000),
    "maintenance, 10 spare states": (lambda: maintenance(10), 30_000),
    "courier": (courier, 20_000),
    "courier, ample limits": (lambda: courier((0.8, 0.45)), 20_000),
    "corridor": (corridor, 20_000),
    "queue": (lambda: psconrl.make("queue"), 20_000),
    "garnet": (lambda: psconrl.make("garnet"), 20_000),
    "riverswim": (lambda: psconrl.make("riverswim"), 20_000),
    "media-streaming": (lambda: psconrl.make("media-streaming"), 20_000),
    "inventory": (lambda: psconrl.make("inventory"), 20_000),
    "access-control": (lambda: psconrl.make("access-control"), 20_000),
    "hospital": (lambda: psconrl.make("hospital"), 20_000),
}


def shown(values: np.ndarray) -> str:
    mean, error = values.mean(), values.std(ddof=1) / np.sqrt(len(values))
    digits = 0 if abs(mean) >= 100 else 1
    return f"{mean:,.{digits}f} ± {error:,.{digits}f}"


def measured(
    models: Callable[[int], CMDP], agent: Callable[[psconrl.Problem], agents.Agent], T: int, seeds: range
) -> tuple[str, str, str]:
    """L with its worst, regret, and [V]+ in per cent of T, summed over limits."""
    ends = []
    for seed in seeds:
        cmdp = models(seed)
        run = psconrl.simulate(agent(cmdp.problem()), cmdp, T, seed, optimum=psconrl.solve(cmdp))
        ends.append((run.lagrangian[-1], run.regret[-1], 100 * run.positive_violation[:, -1].sum() / T))
    L, regret, over = np.array(ends).T
    return f"{shown(L)} (worst {L.max():,.0f})", shown(regret), f"{over.mean():.2f}%"


VARIANTS: dict[str, Callable[[psconrl.Problem], agents.Agent]] = {
    "PSConRL, 0.01": agents.PSConRL,
    "learned": lambda problem: agents.PSConRL(problem, prior=hierarchy.LEARNED),
    "learned, steered": lambda problem: agents.PSConRL(problem, prior=hierarchy.LEARNED, execution="steered"),
    "recommended": agents.recommended,
    "without restarts": lambda problem: agents.Recommended(problem, restarts=False),
    "uniform if infeasible": lambda problem: agents.Recommended(problem, infeasible="uniform"),
}
"""From PSConRL to the recommended agent, and the latter without one of its parts."""


def factors(seeds: int, only: list[str], variants: list[str]) -> kept.Part:
    rows = []
    for name in only:
        make, T = WORLDS[name]
        cmdp = make()
        for variant in variants:
            ends = measured(lambda _, cmdp=cmdp: cmdp, VARIANTS[variant], T, range(200, 200 + seeds))
            rows.append([name, f"{T:,}", variant, *ends])
            print(rows[-1], flush=True)
    return kept.table(["environment", "T", "agent", "L", "regret", "[V]+"], rows)


def false_assumption(seeds: int) -> kept.Part:
    """Worlds in which what the other actions of a state do tells nothing; eps fixed at 1 ignores it from the start."""
    rows = [(name, *measured(leaps, VARIANTS[name], 20_000, range(seeds))) for name in ("PSConRL, 0.01", "learned")]
    hierarchy.EPS = np.ones(1)
    rows.append(("learned, nothing shared", *measured(leaps, VARIANTS["learned"], 20_000, range(seeds))))
    return kept.table(["prior", "L", "regret", "[V]+"], rows)


def spare_states(seeds: int) -> kept.Part:
    """L with and without ten declared states that never occur; 95% intervals are two standard errors wide each way."""
    rows = []
    for name in ("marsrover-4x4", "maintenance", "queue", "garnet"):
        make, T = WORLDS[name]
        told = []
        for cmdp in (make(), with_spare(make())):
            solution = psconrl.solve(make())
            runs = [
                psconrl.simulate(agents.recommended(cmdp.problem()), cmdp, T, seed, optimum=solution)
                for seed in range(seeds)
            ]
            told += [
                shown(np.array([run.lagrangian[-1] for run in runs])),
                shown(np.array([run.positive_violation[:, -1].sum() for run in runs])),
            ]
        rows.append([name, f"{T:,}", *told])
    return kept.table(["environment", "T", "L", "[V]+", "with ten spare states: L", "[V]+"], rows)


def owed(seeds: int) -> kept.Part:
    """What it changes that the recommended agent pays back; [V]+ is in per cent of T, for each limit."""
    rows = []
    for name, T in (("hospital", 5_000), ("queue", 20_000), ("riverswim", 20_000), ("media-streaming", 20_000)):
        cmdp, told = psconrl.make(name), []
        solution = psconrl.solve(cmdp)
        steered = agents.PSConRL(cmdp.problem(), prior=hierarchy.LEARNED, execution="steered")
        for agent in (steered, agents.recommended(cmdp.problem())):
            runs = [psconrl.simulate(agent, cmdp, T, 200 + seed, optimum=solution) for seed in range(seeds)]
            over = np.array([run.positive_violation[:, -1] for run in runs]).mean(axis=0) / T
            told += [shown(np.array([run.lagrangian[-1] for run in runs])), ", ".join(f"{share:.2%}" for share in over)]
        rows.append([name, f"{T:,}", *told])
    return kept.table(["environment", "T", "without: L", "[V]+", "with: L", "[V]+"], rows)


def doors(seeds: int) -> kept.Part:
    """Worlds with a door that often stays shut: L, and the runs that never came through."""
    rows = []
    for name, behind in (("courier", 1), ("courier, ample limits", 1), ("corridor", 4)):
        make, T = WORLDS[name]
        cmdp, told = make(), []
        solution = psconrl.solve(cmdp)
        for agent in (agents.PSConRL(cmdp.problem(), prior=0.01), agents.recommended(cmdp.problem())):
            runs = [psconrl.simulate(agent, cmdp, T, seed, optimum=solution) for seed in range(seeds)]
            never = sum(not run.counts[:, :, behind:].any() for run in runs)
            told += [shown(np.array([run.lagrangian[-1] for run in runs])), f"{never} of {seeds}"]
        rows.append([name, f"{T:,}", *told])
    return kept.table(["environment", "T", "0.01: L", "never through", "recommended: L", "never through"], rows)


def weighed(counts: Floats, base: Floats) -> Floats:
    """How likely theta and eps are by counts (S, A, S), all at once, if the prior's base of each pair is known."""
    N = counts.sum(axis=2)
    log = np.empty((len(hierarchy.THETA), len(hierarchy.EPS)))
    for g, theta in enumerate(hierarchy.THETA):
        for e, eps in enumerate(hierarchy.EPS):
            alpha = theta * ((1 - eps) * base + eps / counts.shape[2])
            rows = special.gammaln(theta) - special.gammaln(N + theta)
            log[g, e] = rows.sum() + (special.gammaln(counts + alpha) - special.gammaln(alpha)).sum()
    return special.softmax(log)


def bases(counts: Floats, p: Floats) -> dict[str, Floats]:
    """What the other actions of a state tell (S, A, S), by what is known of them; uniform where that is nothing."""
    S = len(counts)
    laws = counts / np.maximum(counts.sum(axis=2, keepdims=True), 1)
    found = {}
    for name, told in (
        ("their supports", counts > 0),
        ("their empirical distributions", laws),
        ("their true distributions", p),
    ):
        each = np.asarray(told, dtype=np.float64)
        others = {
            f"{name}, in the end": each.sum(axis=1, keepdims=True) - each,
            f"{name}, of earlier actions": np.cumsum(each, axis=1) - each,
        }
        for which, sums in others.items():
            total = sums.sum(axis=2, keepdims=True)
            found[which] = np.where(total > 1e-9, sums / np.maximum(total, 1e-9), 1.0 / S)
    return found


def coverage(seeds: int) -> kept.Part:
    """Runs in models drawn from the hierarchical prior: how often 80% intervals hold theta and eps that were drawn.

    By the posterior as the agent has it, and by others that know more of what the other actions of a state tell.
    """
    held: dict[str, list[list[float]]] = {}
    for seed in range(seeds):
        rng = np.random.default_rng(np.random.SeedSequence([78, seed]))
        p, g, e = psconrl.environments.random.hierarchical(rng, 10, 3)
        cmdp = CMDP(p, rng.random((1, 10, 3)))
        run = psconrl.simulate(agents.PSConRL(cmdp.problem(), prior=hierarchy.LEARNED), cmdp, 2_000, seed)
        found = {"as the agent has it": special.softmax(run.state["learner"]["carry"]["evidence"])}
        counts = run.counts.astype(np.float64)
        found |= {name: weighed(counts, base) for name, base in bases(counts, p).items()}
        u = rng.random(2)
        for name, weights in found.items():
            laws = (g, weights.sum(axis=1)), (e, weights.sum(axis=0))
            ranks = [law[:truth].sum() + x * law[truth] for x, (truth, law) in zip(u, laws, strict=True)]
            held.setdefault(name, []).append([*(0.1 <= rank <= 0.9 for rank in ranks), ranks[1]])
    rows = []
    for name, each in held.items():
        theta, eps, rank = np.mean(each, axis=0)
        errors = [np.sqrt(share * (1 - share) / seeds) for share in (theta, eps)]
        rows.append([name, f"{theta:.0%} ± {errors[0]:.0%}", f"{eps:.0%} ± {errors[1]:.0%}", f"{rank:.2f}"])
    return kept.table(
        ["what the other actions tell", r"$\theta$", r"$\varepsilon$", r"mean rank of $\varepsilon$"], rows
    )


def speed() -> kept.Part:
    worlds = {
        "marsrover-4x4": (psconrl.make("marsrover-4x4"), 5_000),
        "marsrover-8x8": (psconrl.make("marsrover-8x8"), 20_000),
        "marsrover-8x8, slip 0.1": (psconrl.make("marsrover-8x8", slip=0.1), 20_000),
        "box, 121 states": (psconrl.make("box", full=True), 20_000),
        "grid 32 x 32, slip 0.1": (psconrl.make("grid", rows=32, columns=32, slip=0.1, sparse=True), 3_000),
    }
    rows = []
    for name, (cmdp, T) in worlds.items():
        fixed = ("0.01", 0.01) if cmdp.S < 1_000 else ("0.01 for possible moves", cmdp.matrix > 0)
        for prior, given in (fixed, (hierarchy.LEARNED, hierarchy.LEARNED)):
            agent = Timed(cmdp.problem(), prior=given)
            psconrl.simulate(agent, cmdp, min(T, 1_000), 1)
            Timed.spent.clear()
            Timed.sampled.clear()
            psconrl.simulate(agent, cmdp, T, 0)
            plan, sample = (1e3 * np.array(times) for times in (Timed.spent, Timed.sampled))
            times = f"{np.median(plan):.3f}", f"{plan.mean():.3f}", f"{np.median(sample):.3f}"
            rows.append([name, str(cmdp.S), prior, str(len(plan)), *times])
    head = ["environment", "S", "prior", "plans", "ms per plan: median", "mean", "of it sample and costs: median"]
    return kept.table(head, rows)


@dataclass(frozen=True, eq=False)
class Timed(agents.PSConRL):
    """PSConRL with a clock."""

    spent: ClassVar[list[float]] = []
    sampled: ClassVar[list[float]] = []

    def sample(self, memory: Memory, rng: np.random.Generator) -> SampledModel:
        begin = time.thread_time()
        found = super().sample(memory, rng)
        self.sampled.append(time.thread_time() - begin)
        return found

    def plan(self, memory: Memory, rng: np.random.Generator) -> Plan:
        begin = time.thread_time()
        found = super().plan(memory, rng)
        self.spent.append(time.thread_time() - begin)
        return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["false", "spare", "owed", "factors", "doors", "coverage", "speed"])
    parser.add_argument("--seeds", type=int)
    parser.add_argument("--only", nargs="*", default=list(WORLDS), choices=list(WORLDS))
    parser.add_argument("--variants", nargs="*", default=list(VARIANTS), choices=list(VARIANTS))
    parser.add_argument("--keep", action="store_true", help="take the table over into the documentation")
    args = parser.parse_args()
    if args.what == "factors":
        found = factors(args.seeds or 10, args.only, args.variants)
    elif args.what == "false":
        found = false_assumption(args.seeds or 20)
    elif args.what == "spare":
        found = spare_states(args.seeds or 30)
    elif args.what == "owed":
        found = owed(args.seeds or 24)
    elif args.what == "doors":
        found = doors(args.seeds or 60)
    elif args.what == "coverage":
        found = coverage(args.seeds or 200)
    else:
        found = speed()
    kept.show(found)
    if args.keep:
        kept.keep(f"learned-{args.what}", {f"learned-{args.what}": found})


if __name__ == "__main__":
    main()
