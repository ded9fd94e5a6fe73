"""What the paper says about its experiments (Section 5, Appendix B and the captions), tested on stored runs.

Every comparison is made at the horizon, on the mean over runs. One outperforms another if its 95% interval lies
wholly below; two cannot be told apart if their intervals meet.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from psconrl._checks import Floats
from psconrl.analysis import curves, references
from psconrl.analysis.claims import Claim, Scale, decide, intervals_json, missing, scale_of
from psconrl.analysis.records import Group, Groups
from psconrl.analysis.selection import Selected, by_agent, select
from psconrl.analysis.statistics import Interval, growth_exponent, mean_interval, number, ratio_interval
from psconrl.experiments import presets

HERO = "PSConRL"
NEAR = 0.01
"""How near to a level an average must be to have reached it."""

STUCK = (0.01, 0.05)
"""How near c_0 and c_1 must be to the safe policy's for an agent to be stuck on it, rare exploration allowed."""

COMPARABLE = (0.5, 2.0)
"""Between which ratios of means two agents are comparable."""

NEAR_LINEAR = 0.9
"""From which growth exponent on a curve is near-linear."""

MOST = 0.5
"""From which share of runs on an agent as a whole is said to behave so."""

DAY = 86_400.0

Found = dict[tuple[str, str], Selected]
NAMES = ("regret", "violation")


def claims(groups: Groups) -> list[Claim]:
    """All claims about experiments."""
    found = by_agent("figure-1", groups)
    return [
        *_orders(found),
        *_comparable(found),
        *_box(found),
        *_convergence(found),
        _costly(found),
        _original_bonuses(groups),
        *_tractable(groups),
        *_counterexample(groups),
    ]


def final(group: Group, cost: int, window: int | None = None) -> Floats:
    """Signed (R,), or as plotted with a window, at the horizon."""
    if window is None:
        return curves.signed(group)[:, cost, -1]
    return curves.as_plotted(group, window)[1][:, cost, -1]


def _orders(found: Found) -> list[Claim]:
    rows = []
    for setting in presets.PAPER:
        rivals = [agent for env, agent in _cells() if env == setting.env and agent != HERO]
        for rival in rivals:
            same = setting.env == presets.SMALLEST and rival == "ConRL"
            rows.append(_order(found, setting, rival, 0, same))
            rows.append(_order(found, setting, rival, 1, None))
    return rows


def _order(found: Found, setting: presets.Setting, rival: str, cost: int, same: bool | None) -> Claim:
    """Whether PSConRL is below a rival; same: the paper says they cannot be told apart; None: it ranks nothing."""
    what = NAMES[cost]
    key = f"order/{what}/{setting.env}/{rival}"
    if same is None:
        text = f"{setting.env}: {HERO}'s {what} is not above {rival}'s (shown in the bottom row; no order is stated)"
        test = "PSConRL's 95% interval not wholly above the rival's, signed"
    elif same:
        text = f"{setting.env}: {HERO} and {rival} have indistinguishable {what}"
        test = "95% intervals of the means at T meet, signed"
    else:
        text = f"{setting.env}: {HERO} outperforms {rival} in {what}"
        test = "95% interval of the mean at T wholly below the rival's, signed"
    where = "Section 5, Figure 1"
    if not {(setting.env, HERO), (setting.env, rival)} <= found.keys():
        return missing(key, text, where, test)
    ours, theirs = found[setting.env, HERO], found[setting.env, rival]
    pairs = {
        name: (mean_interval(final(ours.group, cost, w)), mean_interval(final(theirs.group, cost, w)))
        for name, w in (("signed", None), ("as plotted", setting.window))
    }
    holds = {name: _holds(x, y, same) for name, (x, y) in pairs.items()}
    return Claim(
        key,
        text,
        where,
        test,
        "; ".join(f"{name}: {HERO} {x}, {rival} {y}" for name, (x, y) in pairs.items()),
        decide(holds["signed"], holds["as plotted"]),
        _order_note(rival, what, pairs, holds),
        scale_of([ours.group, theirs.group], ours.horizon, min(ours.runs, theirs.runs)),
        {name: intervals_json({HERO: x, rival: y}) for name, (x, y) in pairs.items()},
    )


def _holds(x: Interval, y: Interval, same: bool | None) -> bool:
    if same is None:
        return not y.below(x)
    return not x.apart(y) if same else x.below(y)


def _order_note(rival: str, what: str, pairs: dict[str, tuple[Interval, Interval]], holds: dict[str, bool]) -> str:
    if all(holds.values()):
        return ""
    said = [f"{name}, {_relation(x, y, rival)}" for name, (x, y) in pairs.items()]
    return f"{what.capitalize()}: " + "; ".join(said) + "."


def _relation(x: Interval, y: Interval, rival: str) -> str:
    if not x.apart(y):
        return f"{HERO} and {rival} cannot be told apart"
    return f"{HERO} is {'below' if x.below(y) else 'above'} {rival}"


def _comparable(found: Found) -> list[Claim]:
    low, high = COMPARABLE
    rows = []
    for setting in presets.PAPER[:2]:
        key = f"comparable/{setting.env}/C-UCRL"
        text = f"{setting.env}: {HERO}'s violation is comparable with C-UCRL's"
        where, test = "Section 5", f"ratio of mean violations at T in [{low:g}, {high:g}], or both at most 0, signed"
        if not {(setting.env, HERO), (setting.env, "C-UCRL")} <= found.keys():
            rows.append(missing(key, text, where, test))
            continue
        ours, theirs = found[setting.env, HERO], found[setting.env, "C-UCRL"]
        measured, holds, numbers = [], [], {}
        for name, w in (("signed", None), ("as plotted", setting.window)):
            x, y = final(ours.group, 1, w), final(theirs.group, 1, w)
            ratio = ratio_interval(x, y)
            both = x.mean() <= 0 and y.mean() <= 0
            holds.append(bool(both or (x.mean() > 0 and y.mean() > 0 and low <= ratio.mean <= high)))
            measured.append(f"{name}: {mean_interval(x)} against {mean_interval(y)}, ratio {ratio}")
            numbers[name] = intervals_json({HERO: mean_interval(x), "C-UCRL": mean_interval(y), "ratio": ratio})
        note = "" if all(holds) else f"Ratio of mean violations: {'; '.join(measured)}."
        scale = scale_of([ours.group, theirs.group], ours.horizon, ours.runs)
        rows.append(Claim(key, text, where, test, "; ".join(measured), decide(*holds), note, scale, numbers))
    return rows


def _box(found: Found) -> list[Claim]:
    setting = presets.PAPER[-1]
    rows = []
    for rival in presets.RIVALS:
        rows += [_near_linear(found, setting, rival), _stuck(found, setting, rival)]
    return rows


def _near_linear(found: Found, setting: presets.Setting, rival: str) -> Claim:
    key, where = f"near-linear/{setting.env}/{rival}", "Section 5"
    text = f"{setting.env}: {rival} incurs near-linear regret"
    test = f"growth exponent of the mean over the last half >= {NEAR_LINEAR:g}, signed"
    if (setting.env, rival) not in found:
        return missing(key, text, where, test)
    selected = found[setting.env, rival]
    group = selected.group
    exponents = {"signed": growth_exponent(group.grid, curves.regret(group), 0.5)}
    times, plotted = curves.as_plotted(group, setting.window)
    exponents["as plotted"] = growth_exponent(times, plotted[:, 0], 0.5)
    holds = [exponent.mean >= NEAR_LINEAR for exponent in exponents.values()]
    measured = "; ".join(f"{name}: exponent {exponent}" for name, exponent in exponents.items())
    note = "" if all(holds) else f"The regret of {rival} bends: {measured}."
    scale = scale_of([group], selected.horizon, selected.runs)
    return Claim(key, text, where, test, measured, decide(*holds), note, scale, intervals_json(exponents))


def _stuck(found: Found, setting: presets.Setting, rival: str) -> Claim:
    key, where = f"stuck/{setting.env}/{rival}", "Appendix B"
    text = f"{setting.env}: {rival} is stuck on the safe policy"
    test = (
        f"last fifth: c_0 within {STUCK[0]:g} and c_1 within {STUCK[1]:g} of the safe policy's, "
        f"in at least {MOST:.0%} of runs"
    )
    if (setting.env, rival) not in found:
        return missing(key, text, where, test)
    selected = found[setting.env, rival]
    safe = references.levels(setting.env).safe
    late = curves.late_average(selected.group)
    share = float((np.abs(late - safe) <= STUCK).all(axis=1).mean())
    strict = float((np.abs(late - safe) <= NEAR).all(axis=1).mean())
    means = [mean_interval(late[:, i]) for i in range(late.shape[1])]
    measured = f"{share:.0%} of runs ({strict:.0%} within {NEAR:g} in both); last fifth c_0 {means[0]}, c_1 {means[1]}"
    measured += f"; safe policy {_levels(safe)}"
    holds = share >= MOST
    note = (
        ""
        if holds
        else f"In the last fifth {rival} averages {_levels(late.mean(axis=0))}, the safe policy {_levels(safe)}."
    )
    numbers = {"share": share, "share_strict": strict, "safe": safe.tolist()} | intervals_json(
        {"c_0": means[0], "c_1": means[1]}
    )
    scale = scale_of([selected.group], selected.horizon, selected.runs)
    return Claim(key, text, where, test, measured, decide(holds), note, scale, numbers)


def _convergence(found: Found) -> list[Claim]:
    rows = []
    for env, agent in _cells():
        if env == presets.PAPER[-1].env and agent != HERO:
            continue  # the paper says that they do not converge there
        rows += [_converges(found, env, agent), _feasible(found, env, agent)]
    rows.append(_quickly(found, presets.PAPER[-1]))
    return rows


def _converges(found: Found, env: str, agent: str) -> Claim:
    key, where = f"converges/{env}/{agent}", "Appendix B"
    text = f"{env}: {agent} converges to the optimal solution"
    test = f"mean c_0 of the last fifth within {NEAR:g} of J*"
    if (env, agent) not in found:
        return missing(key, text, where, test)
    selected = found[env, agent]
    gap = mean_interval(curves.late_average(selected.group)[:, 0] - selected.group.optimum)
    holds = abs(gap.mean) <= NEAR
    note = "" if holds else f"In the last fifth its main cost is {number(abs(gap.mean))} {_side(gap.mean)} the optimum."
    scale = scale_of([selected.group], selected.horizon, selected.runs)
    measured = f"c_0 - J* in the last fifth: {gap}"
    return Claim(key, text, where, test, measured, decide(holds), note, scale, intervals_json({"gap": gap}))


def _feasible(found: Found, env: str, agent: str) -> Claim:
    key, where = f"feasible/{env}/{agent}", "Appendix B"
    text = f"{env}: the average consumption of {agent} satisfies the constraint in the long run"
    test = f"mean c_1 of the last fifth at most tau + {NEAR:g}"
    if (env, agent) not in found:
        return missing(key, text, where, test)
    selected = found[env, agent]
    gap = mean_interval(curves.late_average(selected.group)[:, 1] - selected.group.thresholds[:, 0])
    holds = gap.mean <= NEAR
    note = "" if holds else f"In the last fifth its auxiliary cost is {number(gap.mean)} above the threshold."
    scale = scale_of([selected.group], selected.horizon, selected.runs)
    measured = f"c_1 - tau in the last fifth: {gap}"
    return Claim(key, text, where, test, measured, decide(holds), note, scale, intervals_json({"gap": gap}))


def _quickly(found: Found, setting: presets.Setting) -> Claim:
    key, where = f"quickly/{setting.env}/{HERO}", "Appendix B"
    text = f"{setting.env}: {HERO} converges to the optimal solution relatively quickly"
    test = "the mean moving average of c_0 stays within 1% of J* from before T / 2 on"
    if (setting.env, HERO) not in found:
        return missing(key, text, where, test)
    selected = found[setting.env, HERO]
    if setting.window > selected.group.horizon / 2:
        return missing(key, text, where, test, "the moving average is over more than half of the run")
    settled = curves.settling_time(selected.group, setting.window)
    holds = settled.mean <= selected.group.horizon / 2
    note = "" if holds else f"It settles at round {number(settled.mean)} of {selected.group.horizon:,}."
    scale = scale_of([selected.group], selected.horizon, selected.runs)
    measured = f"settled at round {settled}"
    return Claim(key, text, where, test, measured, decide(holds), note, scale, intervals_json({"settled": settled}))


def _costly(found: Found) -> Claim:
    large, box = presets.PAPER[1], presets.PAPER[2]
    key, where = "costly", "Section 5"
    text = "Exploration is relatively costly in Box compared to Marsrover"
    test = "95% interval of PSConRL's mean signed regret at T in box wholly above that in marsrover-8x8"
    if not {(large.env, HERO), (box.env, HERO)} <= found.keys():
        return missing(key, text, where, test)
    there, here = found[large.env, HERO], found[box.env, HERO]
    x, y = mean_interval(final(there.group, 0)), mean_interval(final(here.group, 0))
    p = mean_interval(final(there.group, 0, large.window)), mean_interval(final(here.group, 0, box.window))
    holds = x.below(y), p[0].below(p[1])
    measured = f"signed: {large.env} {x}, {box.env} {y}; as plotted: {p[0]}, {p[1]}"
    note = "" if all(holds) else "The regret in Box is not clearly above that in Marsrover 8x8."
    numbers = intervals_json({large.env: x, box.env: y})
    scale = scale_of([here.group], here.horizon, here.runs)
    return Claim(key, text, where, test, measured, decide(*holds), note, scale, numbers)


def _original_bonuses(groups: Groups) -> Claim:
    key, where = "original-bonuses", "Appendix B"
    text = "The rivals use the original bonus terms of their papers"
    test = "mean signed regret at T of ConRL and C-UCRL with the published and with Figure 1's bonus: intervals meet"
    found = select("bonus", groups)
    figure = by_agent("figure-1", groups)
    published = {f.cell.agent: f for f in found if f.cell.settings.get("bonus") == "published"}
    rivals = [a for a in presets.RIVALS if a in published and (presets.SMALLEST, a) in figure]
    if len(rivals) < len(presets.RIVALS):
        return missing(key, text, where, test)
    pairs = {
        a: (mean_interval(final(published[a].group, 0)), mean_interval(final(figure[presets.SMALLEST, a].group, 0)))
        for a in rivals
    }
    holds = all(not x.apart(y) for x, y in pairs.values())
    measured = "; ".join(f"{a}: published {x}, as in Figure 1 {y}" for a, (x, y) in pairs.items())
    note = (
        ""
        if holds
        else "Published bonuses give other curves: the figures need bonuses scaled down, as the released code has."
    )
    numbers = {a: intervals_json({"published": x, "figure": y}) for a, (x, y) in pairs.items()}
    first = published[rivals[0]]
    return Claim(
        key,
        text,
        where,
        test,
        measured,
        decide(holds),
        note,
        scale_of([first.group], first.horizon, first.runs),
        numbers,
    )


def _tractable(groups: Groups) -> list[Claim]:
    from psconrl.agents.catalogue import find, parameters

    found = by_agent("tractable", groups)
    alpha = float(parameters(find(presets.OPTIMISTIC))["alpha"])
    rows = []
    for setting in presets.PAPER[1:]:
        key, where = f"intractable/{setting.env}", "Section 5, Appendix B"
        text = f"{setting.env}: {presets.OPTIMISTIC} is computationally intractable beyond Marsrover 4x4"
        test = "seconds per plan times the plans of a run of the paper's length exceed one day on one core"
        selected = found.get((setting.env, presets.OPTIMISTIC))
        if selected is None or not np.isfinite(selected.group.seconds).all():
            rows.append(missing(key, text, where, test, "there are no timed runs of it"))
            continue
        group = selected.group
        per_plan = float(group.seconds.sum() / sum(len(table) for table in group.episodes))
        plans = math.ceil(setting.horizon / math.ceil(setting.horizon**alpha))
        total = per_plan * plans
        measured = f"{number(per_plan)} s per plan, {plans:,} plans: {number(total)} s per run"
        note = (
            ""
            if total > DAY
            else f"The exact linear program over the confidence set needs {number(total / 60)} minutes per run."
        )
        numbers: dict[str, Any] = {"seconds_per_plan": per_plan, "plans": plans, "seconds": total}
        rows.append(
            Claim(key, text, where, test, measured, decide(total > DAY), note, Scale(scale_of([group]).text), numbers)
        )
    return rows


def _counterexample(groups: Groups) -> list[Claim]:
    found = select("counterexample", groups)
    rivals = [f for f in found if f.cell.agent == "CMDP-PSRL"]
    rows = []
    for rule in ("uniform", "explore"):
        key, where = f"counterexample/{rule}", "later version, Example 3.2"
        text = f"toy: with infeasible samples answered by {rule}, {HERO} goes on learning where CMDP-PSRL stops"
        test = "95% interval of the mean signed violation at T wholly below CMDP-PSRL's"
        ours = [f for f in found if f.cell.agent == HERO and f.cell.settings.get("infeasible") == rule]
        if not ours or not rivals:
            rows.append(missing(key, text, where, test))
            continue
        x, y = (mean_interval(final(f[0].group, 1)) for f in (ours, rivals))
        holds = x.below(y)
        note = "" if holds else f"Violation: {_relation(x, y, 'CMDP-PSRL')}."
        scale = scale_of([ours[0].group], ours[0].horizon, ours[0].runs)
        measured = f"{HERO} {x}, CMDP-PSRL {y}"
        numbers = intervals_json({HERO: x, "CMDP-PSRL": y})
        rows.append(Claim(key, text, where, test, measured, decide(holds), note, scale, numbers))
    return rows


def _cells() -> list[tuple[str, str]]:
    """Environment and agent of all cells of Figure 1."""
    experiment = presets.find("figure-1").experiment()
    assert experiment is not None
    return [(cell.env, cell.agent) for cell in experiment.cells]


def _levels(averages: Floats) -> str:
    return "(" + ", ".join(number(round(float(x), 6) + 0.0) for x in averages) + ")"


def _side(gap: float) -> str:
    return "above" if gap > 0 else "below"
