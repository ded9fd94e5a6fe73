r"""The quantities of the paper's proof, measured in its own setting: models drawn from the learner's prior.

In an episode k whose sample p_k is feasible, with J_k and v_k the average and the bias of pi_k in p_k for one cost c,
the sum of (c - l) over the episode, l the level (J* for c_0, tau_i for c_i), is exactly

    R_0   T_k (J_k - l)                                             lemma: in the mean at most K_T for c_0; <= 0 for c_i
    R_1   v_k(s_{t_k}) - v_k(s_{t_{k+1}})                           lemma: H K_T
    R_2   sum_t v_k(s_{t+1}) - p_k(. | s_t, a_t) . v_k              lemma: 49 H S sqrt(A T log(A T))
    R_3   sum_t c(s_t, a_t) + p_k(. | s_t, a_t) . v_k - J_k - v_k(s_t)

The paper has no R_3: its Bellman equation is that of the action taken, which holds for policies without chance. In the
mean over actions R_3 is 0.

Beside them: whether the true model and the sample lie in the confidence sets of the proof (Jaksch et al., Lemma 17,
delta = 1 / T), and the inequality of the feasibility lemma, J(pi_bar; p_k) - J(pi_bar; p*) <= span max ||p_k - p*||_1
with pi_bar the safest policy and its own span for H.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np

from psconrl import CMDP
from psconrl.agents import Memory, Plan, PSConRL, as_array
from psconrl.analysis import format_mean_ci, short
from psconrl.environments import make
from psconrl.experiments import code_identity
from psconrl.learning import simulate
from psconrl.planning import evaluate, solve
from reproduction import Document, Floats, Ints, bounds, references
from reproduction.measures import markdown_table, rounded, summary
from reproduction.settings import PAPER

S, A, PRIOR = 10, 3, 0.5
SCALE = {False: (20_000, 30), True: (1_000, 3)}
"""Steps and runs, quick or not."""

TERMS = ("R_0", "R_1", "R_2", "R_3")


@dataclass(frozen=True, eq=False)
class Watched(PSConRL):
    """PSConRL, with a note of every sample, plan, and what was known when they were made.

    Notes are no settings: what describes an agent must not go through them.
    """

    @cached_property
    def notes(self) -> list[tuple[Floats, Ints, int, int]]:
        """p_k, counts, state and time at every plan."""
        return []

    @cached_property
    def plans(self) -> list[Plan]:
        """All plans."""
        return []

    def sample(self, memory: Memory, rng: np.random.Generator) -> Any:
        """p_k, noted."""
        sampled = super().sample(memory, rng)
        self.notes.append((as_array(sampled, memory), memory.counts, memory.state, memory.t))
        return sampled

    def plan(self, memory: Memory, rng: np.random.Generator) -> Plan:
        """The plan, noted."""
        plan = super().plan(memory, rng)
        self.plans.append(plan)
        return plan


def averages_and_biases(p: Floats, costs: Floats, policy: Floats) -> tuple[Floats, Floats]:
    """J (n,) and v (n, S), v = 0 in state 0, of a policy (S, A) whose chain is irreducible, for costs (n, S, A)."""
    chain = np.einsum("sa,sax->sx", policy, p)
    mean = np.einsum("sa,nsa->sn", policy, costs)
    size = len(chain)
    equations = np.zeros((size + 1, size + 1))
    equations[:size, :size] = np.eye(size) - chain
    equations[:size, size] = 1.0
    equations[size, 0] = 1.0
    found = np.linalg.solve(equations, np.vstack([mean, np.zeros((1, mean.shape[1]))]))
    return found[size], found[:size].T


def decomposition(cmdp: CMDP, watched: Watched, optimum: float) -> tuple[Floats, Floats]:
    """R_0, ..., R_3 (4, m + 1) of a run's whole feasible episodes, and the sums of (c - l) (m + 1,) they make up."""
    levels = np.concatenate([[optimum], cmdp.thresholds])
    terms, total = np.zeros((4, cmdp.m + 1)), np.zeros(cmdp.m + 1)
    whole = zip(pairwise(watched.notes), watched.plans, strict=False)
    for ((p, before, start, _), (_, after, end, _)), plan in whole:
        if not plan.feasible:
            continue
        J, v = averages_and_biases(p, cmdp.costs, plan.policy[0])
        moves = after - before
        visits = moves.sum(axis=2)
        expected = np.einsum("sax,nx->nsa", p, v)
        terms[0] += visits.sum() * (J - levels)
        terms[1] += v[:, start] - v[:, end]
        terms[2] += np.einsum("sax,nx->n", moves, v) - np.einsum("sa,nsa->n", visits, expected)
        noise = cmdp.costs + expected - J[:, np.newaxis, np.newaxis] - v[:, :, np.newaxis]
        terms[3] += np.einsum("sa,nsa->n", visits, noise)
        total += np.einsum("sa,nsa->n", visits, cmdp.costs) - visits.sum() * levels
    return terms, total


def coverage(cmdp: CMDP, watched: Watched, horizon: int) -> Floats:
    """||p - p_bar||_1 in shares of the proof's radius, the largest over pairs, of p* and p_k at every plan (K, 2)."""
    true = np.asarray(cmdp.matrix.toarray()).reshape(cmdp.S, cmdp.A, cmdp.S)
    shares = []
    for p, counts, _, t in watched.notes:
        visits = np.maximum(counts.sum(axis=2), 1)
        mean = counts / visits[..., np.newaxis]
        radius = np.sqrt(14 * cmdp.S * np.log(2 * cmdp.A * horizon * (t + 1)) / visits)
        shares.append([(np.abs(q - mean).sum(axis=2) / radius).max() for q in (true, p)])
    return np.array(shares)


def feasibility(cmdp: CMDP, watched: Watched) -> tuple[Floats, float]:
    """The lemma's left side in shares of its right side for every plan (K,), and the margin.

    The right side is the span of the safest policy's bias times the largest L1 distance of p_k and p*.
    """
    true = np.asarray(cmdp.matrix.toarray()).reshape(cmdp.S, cmdp.A, cmdp.S)
    solution = solve(cmdp)
    safest = solve(cmdp.replace(thresholds=cmdp.thresholds - solution.margin + 1e-9)).policy
    J, v = averages_and_biases(true, cmdp.costs[1:], safest)
    span = np.ptp(v, axis=1)
    shares = []
    for p, _, _, _ in watched.notes:
        loss = averages_and_biases(p, cmdp.costs[1:], safest)[0] - J
        shares.append((loss / (span * np.abs(p - true).sum(axis=2).max())).max())
    return np.array(shares), float(solution.margin)


def measure(quick: bool = False) -> Document:
    """All of it, with the code that made it; a pure function of the code."""
    horizon, runs = SCALE[quick]
    terms, sums, covered, lemma, episodes = [], [], [], [], []
    for seed in range(runs):
        cmdp = make("dirichlet", S=S, A=A, prior=PRIOR, draw=seed)
        watched = Watched(cmdp.problem("known"), prior=PRIOR)
        simulate(watched, cmdp, horizon, seed)
        found, total = decomposition(cmdp, watched, solve(cmdp).value)
        terms.append(found)
        sums.append(total)
        covered.append(coverage(cmdp, watched, horizon))
        lemma.append(feasibility(cmdp, watched)[0])
        episodes.append(len(watched.plans))
    return {
        "code": code_identity(),
        "quick": quick,
        "horizon": horizon,
        "runs": runs,
        "states": S,
        "actions": A,
        "prior": PRIOR,
        "episodes": summary(np.array(episodes, dtype=np.float64)),
        "terms": _terms(np.array(terms), np.array(sums)),
        "bounds": _bounds(horizon, float(np.mean(episodes))),
        "coverage": _coverage(covered),
        "feasibility": {"plans": sum(map(len, lemma)), "largest": rounded(float(max(x.max() for x in lemma)))},
        "environments": [_environment(setting.env, setting.horizon) for setting in PAPER],
    }


def _terms(terms: Floats, sums: Floats) -> list[Document]:
    """For each cost the terms, their sum and how far it is from what was paid."""
    rows = []
    for cost in range(terms.shape[2]):
        row = {name: summary(terms[:, k, cost]) for k, name in enumerate(TERMS)}
        error = float(np.abs(terms[:, :, cost].sum(axis=1) - sums[:, cost]).max())
        rows.append({"cost": cost, **row, "sum": summary(sums[:, cost]), "error": float(f"{error:.1g}")})
    return rows


def _bounds(horizon: int, episodes: float) -> Document:
    """The lemmas' bounds, the diameter of the first models for H."""
    models = [references.structure_of("dirichlet", tuple(sorted(_options(k).items()))) for k in range(5)]
    D, h = (float(np.mean([getattr(m, name) for m in models])) for name in ("diameter", "uniform_hitting"))
    transitions = 49 * D * S * np.sqrt(A * horizon * np.log(A * horizon))
    return {
        "diameter": rounded(D),
        "uniform_hitting": rounded(h),
        "K_T": rounded(episodes),
        "episodes": rounded(float(bounds.episodes_bound(S, A, horizon))),
        "R_1": rounded(D * episodes),
        "R_2": rounded(float(transitions)),
    }


def _options(draw: int) -> dict[str, Any]:
    return {"S": S, "A": A, "prior": PRIOR, "draw": draw}


def _coverage(covered: list[Floats]) -> Document:
    shares = np.concatenate(covered)
    return {
        "plans": len(shares),
        "failures": [int(n) for n in (shares > 1).sum(axis=0)],
        "largest": [rounded(float(x)) for x in shares.max(axis=0)],
    }


def _environment(env: str, horizon: int) -> Document:
    """What the proof asks of a gridworld, and what it has."""
    found, cmdp = references.structure_of(env), references.model(env)
    optimal = evaluate(cmdp, solve(cmdp).policy)
    return {
        "env": env,
        "horizon": horizon,
        "margin": rounded(found.margin),
        "margin_needed": rounded(bounds.feasibility_premise(found.S, found.A, horizon, found.diameter)),
        "diameter": rounded(found.diameter),
        "uniform_hitting": rounded(found.uniform_hitting),
        "bound": rounded(float(bounds.theorem_bound(found.S, found.A, horizon, found.diameter, found.uniform_hitting))),
        "span": rounded(float(np.ptp(optimal.bias[1]))),
    }


def decomposed(found: Document) -> str:
    """The table of the terms, in Markdown."""
    proved = found["bounds"]
    allowed = {"R_0": proved["K_T"], "R_1": proved["R_1"], "R_2": proved["R_2"]}
    rows = [
        [
            f"${name}$",
            *(format_mean_ci(row[name]) for row in found["terms"]),
            short(allowed[name]) if name in allowed else "0 in the mean",
        ]
        for name in TERMS
    ]
    rows.append(["sum", *(format_mean_ci(row["sum"]) for row in found["terms"]), ""])
    costs = [f"$c_{row['cost']}$" for row in found["terms"]]
    worst = max(row["error"] for row in found["terms"])
    return (
        f"Models of {found['states']} states and {found['actions']} actions drawn from Dirichlet({found['prior']}), "
        f"T = {found['horizon']:,}, {found['runs']} runs, mean ± half a 95% interval.\n\n"
        + markdown_table(["term", *costs, "bound of the lemma for $c_0$"], rows)
        + f"\nThe terms add up to what was paid above the levels to within {worst:g} in every run. $K_T$ is "
        f"{short(proved['K_T'])} in the mean (bound {short(proved['episodes'])}); for $H$ stands the mean diameter "
        f"{proved['diameter']:g}.\n"
    )


def lemmas(found: Document) -> str:
    """The confidence sets and the feasibility lemma, in Markdown."""
    covered, lemma = found["coverage"], found["feasibility"]
    true, sampled = (f"{share:.2f}" for share in covered["largest"])
    lines = (
        "- **Confidence sets** (Lemma 17 of Jaksch et al., $\\delta = 1/T$), at the start of all "
        f"{covered['plans']:,} episodes: the true model was outside in {covered['failures'][0]} of them, the sample in "
        f"{covered['failures'][1]}. The farthest true row was at {true} of the radius, the farthest sampled row at "
        f"{sampled}.",
        "- **Feasibility lemma**, the inequality itself, with the span of the safest policy's own bias for $H$, at "
        f"{lemma['plans']:,} samples: its left side was at most {lemma['largest']:.2f} of its right side.",
    )
    return "\n".join(lines) + "\n"


def asked(found: Document) -> str:
    """What the proof asks of the gridworlds, in Markdown."""
    names = {
        "margin": "margin",
        "margin_needed": "margin that the feasibility lemma asks for",
        "diameter": "diameter",
        "uniform_hitting": "hitting time of the uniform policy",
        "bound": "bound of the theorem at T",
        "horizon": "T",
        "span": "span of the optimal cost bias",
    }
    rows = []
    for row in found["environments"]:
        numbers = [float(row[key]) for key in names]
        rows.append([row["env"], *(f"{x:,.0f}" if x >= 100 else f"{x:.3g}" for x in numbers)])
        rows[-1][0] += " (60 states)" * (row["env"] == "box")
    return markdown_table(["", *names.values()], rows)
