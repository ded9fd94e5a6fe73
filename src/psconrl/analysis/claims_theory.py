"""The paper's theorem, lemmas and assumptions, as far as runs and models can test them.

Theorem 1 is tested twice: as printed, with the positive part of every step, and with signed sums, which is what its
proof bounds. Growth exponents are held against 1/2, with room for logarithms and noise.
"""

from __future__ import annotations

import numpy as np

from psconrl._checks import Floats
from psconrl.analysis import bounds, curves, references
from psconrl.analysis.claims import EXACT, Claim, Scale, decide, intervals_json, missing, scale_of
from psconrl.analysis.records import Group, Groups
from psconrl.analysis.references import MIXTURES, Structure
from psconrl.analysis.selection import Selected, by_agent, select
from psconrl.analysis.statistics import Interval, growth_exponent, mean_interval, number
from psconrl.experiments import presets

HERO = "PSConRL"
SQUARE_ROOT = 0.6
"""Up to which growth exponent a curve counts as growing like sqrt(T), up to logarithms."""

TENFOLD = 10.0

EPISODES = (1, 30)
"""Episodes, by their number so that they begin at stopping times, in which sampled and true models are compared."""


def claims(groups: Groups) -> list[Claim]:
    """All claims about theory."""
    structures = {s.env: references.structure_of(s.env) for s in presets.PAPER}
    return [
        _hitting_bound(structures),
        _slater(structures),
        _mixture(structures),
        *_cover(structures),
        _posterior(groups),
        _episodes(groups),
        *_theorem(groups),
        *_feasible_after(groups),
        _premise(structures, groups),
    ]


def _hitting_bound(structures: dict[str, Structure]) -> Claim:
    small, smaller = MIXTURES
    grown = {env: s.mixed_hitting[1] / s.mixed_hitting[0] for env, s in structures.items()}
    holds = all(ratio < TENFOLD for ratio in grown.values())
    measured = "; ".join(
        f"{env}: {number(s.mixed_hitting[0])}, then {number(s.mixed_hitting[1])}" for env, s in structures.items()
    )
    note = (
        ""
        if holds
        else (
            "Policies that leave a part of the model ever more seldom have finite hitting times without a common "
            "bound, so t_hit is infinite; the diameters "
            + ", ".join(f"{number(s.diameter)} ({env})" for env, s in structures.items())
            + " are finite and stand for H below."
        )
    )
    return Claim(
        "assumption/hitting",
        "A finite H bounds the hitting times of all policies for which they are finite",
        "Section 2, Assumption 1",
        f"worst hitting time of the optimal policy mixed with {small:g}, then {smaller:g} of uniform grows less than "
        f"{TENFOLD:g} times",
        measured,
        decide(holds),
        note,
        EXACT,
        {env: {"hitting": list(s.mixed_hitting), "diameter": s.diameter} for env, s in structures.items()},
    )


def _slater(structures: dict[str, Structure]) -> Claim:
    margins = {env: s.margin for env, s in structures.items()}
    holds = all(margin > 0 for margin in margins.values())
    measured = "; ".join(f"{env}: {number(margin)}" for env, margin in margins.items())
    note = "" if holds else "Some environment has no strictly feasible policy."
    return Claim(
        "assumption/slater",
        "A strictly feasible policy exists",
        "Assumption 2",
        "Slater margin > 0 in every environment",
        measured,
        decide(holds),
        note,
        EXACT,
        margins,
    )


def _mixture(structures: dict[str, Structure]) -> Claim:
    holds = all(s.randomised > 0 and s.binding for s in structures.values())
    measured = "; ".join(f"{env}: {s.randomised} state randomises" for env, s in structures.items())
    note = "" if holds else "In some environment the optimal policy is deterministic, or the constraint does not bind."
    return Claim(
        "environments/mixture",
        "With constraints the optimal policy mixes the fast and the safe way",
        "Appendix B",
        "the constraint binds and the optimal policy randomises in a state that it visits, in every environment",
        measured,
        decide(holds),
        note,
        EXACT,
        {env: s.randomised for env, s in structures.items()},
    )


def _cover(structures: dict[str, Structure]) -> list[Claim]:
    return [
        Claim(
            f"lemma/cover/{env}",
            f"{env}: hitting and cover times of the uniform policy are finite",
            "Lemma on hitting and cover times",
            "communicating; largest expected hitting time and Matthews' bound on the cover time finite",
            f"hitting {number(s.uniform_hitting)}, cover at most {number(s.uniform_cover)}; "
            f"diameter {number(s.diameter)}",
            decide(bool(s.communicating and np.isfinite([s.uniform_hitting, s.uniform_cover]).all())),
            "" if s.communicating else "The model is not communicating.",
            EXACT,
            {"hitting": s.uniform_hitting, "cover": s.uniform_cover, "diameter": s.diameter},
        )
        for env, s in structures.items()
    ]


def _posterior(groups: Groups) -> Claim:
    key, where = "lemma/posterior", "Posterior sampling lemma"
    text = "At the start of an episode the sampled and the true model have the same law"
    numbers = " and ".join(map(str, EPISODES))
    test = f"mean optimal value of the sampled minus that of the true model, episodes {numbers}: intervals hold 0"
    found = select("bayesian", groups)
    if not found:
        return missing(key, text, where, test)
    group = found[0].group
    gaps = {f"episode {k}": _value_gap(group, k) for k in EPISODES}
    holds = all(gap.low <= 0 <= gap.high for gap in gaps.values())
    measured = "; ".join(f"{name}: {gap}" for name, gap in gaps.items())
    note = (
        ""
        if holds
        else (
            f"The means differ: {measured}. Models with too small a margin are discarded when nature draws, "
            "and infeasible samples have no value, so the two laws are not quite the same."
        )
    )
    scale = scale_of([group], found[0].horizon, found[0].runs)
    return Claim(key, text, where, test, measured, decide(holds), note, scale, intervals_json(gaps))


def _value_gap(group: Group, k: int) -> Interval:
    """Optimal value of the sample minus J* in episode k; infeasible samples and shorter runs are left out."""
    values = np.array([table["value"][k - 1] if len(table) >= k else np.nan for table in group.episodes])
    gaps = values - group.optimum
    return mean_interval(gaps[np.isfinite(gaps)])


def _episodes(groups: Groups) -> Claim:
    key, where = "lemma/episodes", "Section 4, from Ouyang et al."
    text = "The number of episodes is at most sqrt(2 S A T log T)"
    test = "K_t <= sqrt(2 S A t log2 t) at every checkpoint of every run of PSConRL"
    found = [group for group in groups.values() if group.agent == HERO]
    if not found:
        return missing(key, text, where, test)
    ratios = {g.cell: float((curves.episodes_begun(g) / bounds.episodes_bound(g.S, g.A, g.grid)).max()) for g in found}
    worst = max(found, key=lambda g: ratios[g.cell])
    holds = ratios[worst.cell] <= 1
    measured = (
        f"largest share of the bound {number(ratios[worst.cell])} ({worst.label}), {sum(g.runs for g in found)} runs"
    )
    note = "" if holds else f"The bound is exceeded in {worst.label}."
    numbers = {g.label: ratios[g.cell] for g in found}
    return Claim(key, text, where, test, measured, decide(holds), note, Scale(scale_of(found).text), numbers)


def _theorem(groups: Groups) -> list[Claim]:
    rows: list[Claim] = []
    found = select("bayesian", groups)
    gridworlds = [f for (_, agent), f in by_agent("figure-1", groups).items() if agent == HERO]
    where = "Theorem 1"
    if not found:
        for name in ("printed", "signed", "constants"):
            rows.append(missing(f"theorem/{name}", _THEOREM[name], where, _TESTS[name]))
    for selected in found:
        rows += [_printed(selected), _signed(selected), _constants(selected)]
    rows += [_printed(selected) for selected in gridworlds]
    return rows


_THEOREM = {
    "printed": "BR_+, the positive part of every step, grows like sqrt(T) for every cost",
    "signed": "Regret and violation, signed, grow like sqrt(T)",
    "constants": "Regret and violation stay below the bound with the constants of the proof, the diameter for H",
}
_TESTS = {
    "printed": f"growth exponent of the mean from T / 10 to T at most {SQUARE_ROOT:g}, for every cost",
    "signed": f"growth exponent of pseudo-regret and each signed violation from T / 10 to T at most {SQUARE_ROOT:g}",
    "constants": "mean signed regret and violation at most (D + 1) sqrt(2 S A t log2 t) + 49 D S sqrt(A t log(A t)) + "
    "D (log S + 2) sqrt(t) + 1, at every checkpoint at which this is less than t",
}


def _printed(selected: Selected) -> Claim:
    group = selected.group
    sums = curves.positive_parts(group)
    exponents = {f"c_{i}": growth_exponent(group.grid, sums[:, i]) for i in range(group.m + 1)}
    holds = all(exponent.mean <= SQUARE_ROOT for exponent in exponents.values())
    measured = "; ".join(f"{name}: exponent {e}" for name, e in exponents.items())
    note = "" if holds else "Per-step positive parts grow linearly, as they do for the optimal policy itself."
    return Claim(
        f"theorem/printed/{group.env}",
        f"{group.env}: {_THEOREM['printed']}",
        "Theorem 1",
        _TESTS["printed"],
        measured,
        decide(holds),
        note,
        scale_of([group], selected.horizon, selected.runs),
        intervals_json(exponents),
    )


def _signed(selected: Selected) -> Claim:
    group = selected.group
    quantities: dict[str, Floats] = {"pseudo-regret": curves.pseudo_regret(group)}
    quantities |= {f"violation {i + 1}": v for i, v in enumerate(curves.violation(group).swapaxes(0, 1))}
    exponents = {name: growth_exponent(group.grid, q) for name, q in quantities.items()}
    totals = {name: mean_interval(q[:, -1]) for name, q in quantities.items()}
    totals["regret"] = mean_interval(curves.regret(group)[:, -1])
    holds = all(exponent.mean <= SQUARE_ROOT for exponent in exponents.values())
    measured = "; ".join(f"{name}: {totals[name]}, exponent {e}" for name, e in exponents.items())
    measured += f"; signed regret: {totals['regret']}"
    note = "" if holds else f"Some exponent exceeds {SQUARE_ROOT:g}."
    numbers = {"exponents": intervals_json(exponents), "totals": intervals_json(totals)}
    scale = scale_of([group], selected.horizon, selected.runs)
    text = f"{group.env}: {_THEOREM['signed']}"
    return Claim(
        f"theorem/signed/{group.env}",
        text,
        "Theorem 1",
        _TESTS["signed"],
        measured,
        decide(holds),
        note,
        scale,
        numbers,
    )


def _constants(selected: Selected) -> Claim:
    group = selected.group
    diameters = [
        references.structure_of(group.env, tuple(sorted(options.items()))).diameter
        for options in group.env_options[:10]
    ]
    D = float(np.mean(diameters))
    bound = bounds.theorem_bound(group.S, group.A, group.grid, D)
    informative = bound < group.grid
    mean = curves.signed(group).mean(axis=0)
    measured = f"bound at T: {number(bound[-1])} (mean diameter {number(D)}), costs of a run at most {group.horizon:,}"
    if informative.any():
        holds = bool((mean[:, informative] <= bound[informative]).all())
        verdict, note = decide(holds), "" if holds else "A mean curve lies above the bound."
    else:
        verdict, note = "not exercised", "The bound exceeds t at every checkpoint, and no run of costs in [0, 1] can."
    scale = scale_of([group], selected.horizon, selected.runs)
    text = f"{group.env}: {_THEOREM['constants']}"
    numbers = {"bound": float(bound[-1]), "diameter": D, "largest": float(mean[:, -1].max())}
    return Claim(
        f"theorem/constants/{group.env}",
        text,
        "Theorem 1, its proof",
        _TESTS["constants"],
        measured,
        verdict,
        note,
        scale,
        numbers,
    )


def _feasible_after(groups: Groups) -> list[Claim]:
    where = "Section 3, feasibility lemma"
    test = f"growth exponent of the mean number of steps in infeasible episodes, T / 10 to T, at most {SQUARE_ROOT:g}"
    found = select("feasibility", groups)
    rows = []
    if not found:
        rows.append(missing("feasibility", "Sampled models are feasible after O(sqrt(T)) steps", where, test))
    found += [f for (_, agent), f in by_agent("figure-1", groups).items() if agent == HERO]
    for selected in found:
        group = selected.group
        key, text = f"feasibility/{group.env}", f"{group.env}: sampled models are feasible after O(sqrt(T)) steps"
        scale = scale_of([group], selected.horizon, selected.runs)
        steps = curves.infeasible_steps(group)
        total = mean_interval(steps[:, -1])
        if not steps.any():
            note = "No sampled model was infeasible in any run, so the lemma is never needed."
            numbers = intervals_json({"steps": total})
            rows.append(Claim(key, text, where, test, "0 infeasible steps", "not exercised", note, scale, numbers))
            continue
        exponent = growth_exponent(group.grid, steps)
        holds = exponent.mean <= SQUARE_ROOT
        measured = f"{total} infeasible steps, exponent {exponent}; margin {number(float(group.margin.min()))} at least"
        note = "" if holds else f"Infeasible samples keep coming: their steps grow with exponent {exponent}."
        numbers = intervals_json({"steps": total, "exponent": exponent})
        rows.append(Claim(key, text, where, test, measured, decide(holds), note, scale, numbers))
    return rows


def _premise(structures: dict[str, Structure], groups: Groups) -> Claim:
    needed = {
        s.env: bounds.feasibility_premise(
            structures[s.env].S, structures[s.env].A, s.horizon, structures[s.env].diameter
        )
        for s in presets.PAPER
    }
    met = [env for env, gamma in needed.items() if structures[env].margin >= gamma]
    measured = "; ".join(
        f"{env}: needs {number(gamma)}, has {number(structures[env].margin)}" for env, gamma in needed.items()
    )
    holds = len(met) == len(needed)
    note = "" if holds else "Margins are at most 1: at these horizons the lemma says nothing, whatever the environment."
    return Claim(
        "feasibility/premise",
        "The margin is large enough for the feasibility lemma at the horizons of the experiments",
        "Feasibility lemma",
        "gamma >= D sqrt(14 S log(2 A T^2) / sqrt(T)) with the diameter for H, in some environment",
        measured,
        "held" if met else "not exercised",
        note,
        EXACT,
        needed,
    )
