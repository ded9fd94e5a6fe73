"""The paper's theorem, lemmas and assumptions, as far as runs and models can test them.

Theorem 1 is tested twice: as printed, with the positive part of every step, and with signed sums, which is what its
proof bounds. Growth exponents are held against 1/2, with room for logarithms and noise.
"""

from __future__ import annotations

import numpy as np

from psconrl.analysis import Group, Groups, Interval, curves, growth_exponent, mean_interval, number
from reproduction import Floats, bounds, references
from reproduction.agents import ALGORITHM
from reproduction.claims import EXACT, Claim, Scale, scale_of_one
from reproduction.measures import episodes_begun, last_infeasible
from reproduction.presets import Selected, by_agent, select
from reproduction.references import MIXTURES, Structure
from reproduction.settings import HERO, PAPER

THEORY = "Theory"
SQUARE_ROOT = 0.6
"""Up to which growth exponent a curve counts as growing like sqrt(T), up to logarithms."""

TENFOLD = 10.0

EPISODES = (1, 30)
"""Episodes, by their number so that they begin at stopping times, in which sampled and true models are compared."""


def claims(groups: Groups) -> list[Claim]:
    """All claims about theory, and about the environments as models."""
    structures = {s.env: references.structure_of(s.env) for s in PAPER}
    return [
        _mixture(structures),
        _hitting_bound(structures),
        _slater(structures),
        _cover(structures),
        _posterior(groups),
        _episodes(groups),
        *_theorem(groups),
        *_feasible_after(groups),
    ]


def _hitting_bound(structures: dict[str, Structure]) -> Claim:
    small, smaller = MIXTURES
    grown = {env: s.mixed_hitting[1] / s.mixed_hitting[0] for env, s in structures.items()}
    diameters = ", ".join(f"{number(s.diameter)} ({env})" for env, s in structures.items())
    return Claim(
        THEORY,
        "assumption/hitting",
        "A finite H bounds the hitting times of all policies for which they are finite",
        "Section 2, Assumption 1",
        f"worst hitting time of the optimal policy mixed with {small:g}, then {smaller:g} of uniform grows less than "
        f"{TENFOLD:g} times",
    ).tested(
        all(ratio < TENFOLD for ratio in grown.values()),
        measured="; ".join(
            f"{env}: {number(s.mixed_hitting[0])}, then {number(s.mixed_hitting[1])}" for env, s in structures.items()
        ),
        brief=f"grows at least {number(round(min(grown.values())))} times",
        note="Policies that leave a part of the model ever more seldom have finite hitting times without a common "
        f"bound, so t_hit is infinite. The diameters {diameters} stand for H below, and the uniform policy's own "
        "hitting time where the proof uses that policy.",
        scale=EXACT,
    )


def _slater(structures: dict[str, Structure]) -> Claim:
    margins = {env: s.margin for env, s in structures.items()}
    return Claim(
        THEORY,
        "assumption/slater",
        "A strictly feasible policy exists",
        "Assumption 2",
        "Slater margin > 0 in every environment",
    ).tested(
        all(margin > 0 for margin in margins.values()),
        measured="; ".join(f"{env}: {number(margin)}" for env, margin in margins.items()),
        brief=f"margin {number(min(margins.values()))} at least",
        note="Some environment has no strictly feasible policy.",
        scale=EXACT,
    )


def _mixture(structures: dict[str, Structure]) -> Claim:
    states = {env: s.randomised for env, s in structures.items()}
    return Claim(
        "Appendix",
        "environments/mixture",
        "With constraints the optimal policy mixes the fast and the safe way",
        "Appendix B",
        "the constraint binds and the optimal policy randomises in a state that it visits, in every environment",
    ).tested(
        all(s.randomised > 0 and s.binding for s in structures.values()),
        measured="; ".join(f"{env}: randomises in {n} state{'s' if n > 1 else ''}" for env, n in states.items()),
        brief=f"in {min(states.values())} state at least",
        note="In some environment the optimal policy is deterministic, or the constraint does not bind.",
        scale=EXACT,
    )


def _cover(structures: dict[str, Structure]) -> Claim:
    times = {env: (s.uniform_hitting, s.uniform_cover) for env, s in structures.items()}
    return Claim(
        THEORY,
        "lemma/cover",
        "Hitting and cover times of the uniform policy are finite in communicating CMDPs",
        "Lemma on hitting and cover times",
        "communicating; largest expected hitting time and Matthews' bound on the cover time finite",
    ).tested(
        bool(all(s.communicating for s in structures.values()) and np.isfinite(list(times.values())).all()),
        measured="; ".join(
            f"{env}: hitting {number(hitting)}, cover at most {number(cover)} (diameter "
            f"{number(structures[env].diameter)})"
            for env, (hitting, cover) in times.items()
        ),
        brief=f"hitting {number(max(hitting for hitting, _ in times.values()))} at most",
        note="Some environment is not communicating.",
        scale=EXACT,
    )


def _posterior(groups: Groups) -> Claim:
    episodes = " and ".join(map(str, EPISODES))
    claim = Claim(
        THEORY,
        "lemma/posterior",
        "At the start of an episode the sampled and the true model have the same law",
        "Posterior sampling lemma",
        f"mean optimal value of the sampled minus that of the true model, episodes {episodes}: intervals hold 0",
    )
    found = select("bayesian", groups)
    if not found:
        return claim.undecided()
    gaps = {f"episode {k}": _value_gap(found[0].group, k) for k in EPISODES}
    measured = "; ".join(f"{name}: {gap}" for name, gap in gaps.items())
    return claim.tested(
        all(gap.low <= 0 <= gap.high for gap in gaps.values()),
        measured=measured,
        brief=" and ".join(number(gap.mean) for gap in gaps.values()),
        note=f"The means differ: {measured}. Models with too small a margin are discarded when nature draws, "
        "and infeasible samples have no value, so the two laws are not quite the same.",
        scale=scale_of_one(found[0]),
    )


def _value_gap(group: Group, k: int) -> Interval:
    """Optimal value of the sample minus J* in episode k; infeasible samples and shorter runs are left out."""
    values = np.array([table["value"][k - 1] if len(table) >= k else np.nan for table in group.episodes])
    gaps = values - group.optimum
    return mean_interval(gaps[np.isfinite(gaps)])


def _episodes(groups: Groups) -> Claim:
    claim = Claim(
        THEORY,
        "lemma/episodes",
        "The number of episodes is at most sqrt(2 S A T log T)",
        "Section 4, from Ouyang et al.",
        "K_t <= sqrt(2 S A t log2 t) at every checkpoint of every run of PSConRL",
    )
    found = [group for group in groups.values() if ALGORITHM.get(group.agent, group.agent) == HERO]
    if not found:
        return claim.undecided()
    ratios = {g.cell: float((episodes_begun(g) / bounds.episodes_bound(g.S, g.A, g.grid)).max()) for g in found}
    worst = max(found, key=lambda g: ratios[g.cell])
    share, runs = number(ratios[worst.cell]), sum(g.runs for g in found)
    longest = max(g.horizon for g in found)
    return claim.tested(
        ratios[worst.cell] <= 1,
        measured=f"largest share of the bound {share} ({worst.label})",
        brief=f"{share} of the bound",
        note=f"The bound is exceeded in {worst.label}.",
        scale=Scale(f"T up to {longest:,}, {runs} runs"),
    )


def _theorem(groups: Groups) -> list[Claim]:
    found = select("bayesian", groups)
    gridworlds = [f for (_, agent), f in by_agent("figure-1", groups).items() if agent == HERO]
    rows = [_printed([*found, *gridworlds])] if found or gridworlds else [_theorem_claim("printed").undecided()]
    if not found:
        return rows + [_theorem_claim(name).undecided() for name in ("signed", "constants")]
    return rows + [row(found[0]) for row in (_signed, _constants)]


_THEOREM = {
    "printed": (
        "BR_+, the positive part of every step, grows like sqrt(T) for every cost",
        f"growth exponent of the mean from T / 10 to T at most {SQUARE_ROOT:g}, for every cost",
    ),
    "signed": (
        "Regret and violation, signed as in the proof, grow like sqrt(T)",
        f"growth exponent of pseudo-regret and each signed violation from T / 10 to T at most {SQUARE_ROOT:g}",
    ),
    "constants": (
        "Regret and violation stay below the bound with the constants of the proof",
        "mean signed regret and violation at most (D + 1) sqrt(2 S A t log2 t) + 49 D S sqrt(A t log(A t)) + "
        "h (log S + 2) sqrt(t) + 1, D the diameter and h the uniform policy's hitting time, at every checkpoint at "
        "which this is less than t",
    ),
}


def _theorem_claim(name: str) -> Claim:
    text, test = _THEOREM[name]
    where = "Theorem 1, its proof" if name == "constants" else "Theorem 1"
    return Claim(THEORY, f"theorem/{name}", text, where, test)


def _printed(found: list[Selected]) -> Claim:
    exponents = {
        f"{f.group.env}, c_{i}": growth_exponent(f.group.grid, f.group.cumulative_excess[:, i])
        for f in found
        for i in range(f.group.m + 1)
    }
    return _theorem_claim("printed").tested(
        all(exponent.mean <= SQUARE_ROOT for exponent in exponents.values()),
        measured="; ".join(f"{name}: exponent {e}" for name, e in exponents.items()),
        brief=_largest(exponents),
        note="Per-step positive parts grow linearly, as they do for the optimal policy itself.",
        scale=scale_of_one(found[0]),
    )


def _signed(selected: Selected) -> Claim:
    group = selected.group
    quantities: dict[str, Floats] = {"pseudo-regret": curves.pseudo_regret(group)}
    quantities |= {f"violation {i + 1}": v for i, v in enumerate(group.violation.swapaxes(0, 1))}
    exponents = {name: growth_exponent(group.grid, q) for name, q in quantities.items()}
    totals = {name: mean_interval(q[:, -1]) for name, q in quantities.items()}
    totals["regret"] = mean_interval(group.regret[:, -1])
    measured = "; ".join(f"{name}: {totals[name]}, exponent {e}" for name, e in exponents.items())
    return _theorem_claim("signed").tested(
        all(exponent.mean <= SQUARE_ROOT for exponent in exponents.values()),
        measured=f"{measured}; signed regret: {totals['regret']}",
        brief=_largest(exponents),
        note="; ".join(f"{n} grows with exponent {e}" for n, e in exponents.items() if e.mean > SQUARE_ROOT) + ".",
        scale=scale_of_one(selected),
    )


def _constants(selected: Selected) -> Claim:
    group = selected.group
    models = [references.structure_of(group.env, tuple(sorted(options.items()))) for options in group.env_options[:10]]
    D, h = (float(np.mean([getattr(m, name) for m in models])) for name in ("diameter", "uniform_hitting"))
    bound = bounds.theorem_bound(group.S, group.A, group.grid, D, h)
    informative = bound < group.grid
    mean = group.signed.mean(axis=0)
    measured = f"bound at T: {number(bound[-1])} (mean diameter {number(D)}, mean hitting time of the uniform "
    measured += f"policy {number(h)}); costs of a run at most {group.horizon:,}"
    brief = f"bound {number(bound[-1])}, T = {group.horizon:,}"
    claim, scale = _theorem_claim("constants"), scale_of_one(selected)
    if not informative.any():
        why = "The bound exceeds t at every checkpoint, and no run of costs in [0, 1] can."
        return claim.undecided(why, measured=measured, scale=scale, brief=brief)
    return claim.tested(
        bool((mean[:, informative] <= bound[informative]).all()),
        measured=measured,
        brief=brief,
        note="A mean curve lies above the bound.",
        scale=scale,
    )


def _feasible_after(groups: Groups) -> list[Claim]:
    found = select("feasibility", groups)
    return [_feasibility(selected) for selected in found] or [_feasibility_claim().undecided()]


def _feasibility_claim(env: str = "") -> Claim:
    text = "ampled models are feasible after O(sqrt(T)) steps"
    return Claim(
        THEORY,
        f"feasibility/{env}" if env else "feasibility",
        f"{env}: s{text}" if env else f"S{text}",
        "Section 3, feasibility lemma",
        f"growth exponent of the mean number of steps in infeasible episodes, T / 10 to T, at most {SQUARE_ROOT:g}",
    )


def _feasibility(selected: Selected) -> Claim:
    group = selected.group
    claim, scale = _feasibility_claim(group.env), scale_of_one(selected)
    steps = curves.infeasible_steps(group)
    total = mean_interval(steps[:, -1])
    if not steps.any():
        why = "No sampled model was infeasible in any run, so the lemma is never needed."
        return claim.undecided(why, measured="0 infeasible steps", scale=scale, brief="0 steps")
    exponent = growth_exponent(group.grid, steps)
    early = group.grid <= group.horizon / 10
    before = growth_exponent(group.grid[early], steps[:, early])
    share, last = float((steps[:, -1] > 0).mean()), last_infeasible(group)
    return claim.tested(
        # No exponent: there was nothing before T / 10, and something after it.
        bool(np.isfinite(exponent.mean)) and exponent.mean <= SQUARE_ROOT,
        measured=f"{total} infeasible steps, exponent {exponent} (from T / 100 to T / 10: {before}); "
        f"some in {share:.0%} of runs, the last at step {last:,}; least margin {number(float(group.margin.min()))}",
        brief=f"exponent {number(exponent.mean)}",
        note=f"Infeasible samples keep coming: their steps grow with exponent {exponent}, "
        f"after {before} from T / 100 to T / 10.",
        scale=scale,
    )


def _largest(exponents: dict[str, Interval]) -> str:
    return f"exponent {number(max(exponent.mean for exponent in exponents.values()))}"
