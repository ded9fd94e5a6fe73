"""What the paper says about its experiments (Section 5, Appendix B and the captions), tested on stored runs.

Every comparison is made at the horizon, on the mean over runs. One outperforms another if its 95% interval lies
wholly below; two cannot be told apart if their intervals meet.
"""

from __future__ import annotations

import math

import numpy as np

from psconrl._checks import Floats
from psconrl.agents.catalogue import find, parameters
from psconrl.analysis import curves, references
from psconrl.analysis.claims import Claim, Scale, Statement, intervals_json, scale_of, scale_of_one
from psconrl.analysis.records import Group, Groups
from psconrl.analysis.selection import Selected, by_agent, select
from psconrl.analysis.statistics import Interval, growth_exponent, mean_interval, number, ratio_interval
from psconrl.experiments import presets

HERO = "PSConRL"
NEAR = 0.01
"""How near to a level an average must be to have reached it."""

STUCK = 0.5
"""Who has come less than this share of the way from the safe to the optimal policy, in every cost, is stuck."""

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
    if same is None:
        text = f"{HERO}'s {what} is not above {rival}'s (shown in the bottom row; no order is stated)"
        test = "PSConRL's 95% interval not wholly above the rival's, signed"
    elif same:
        text = f"{HERO} and {rival} have indistinguishable {what}"
        test = "95% intervals of the means at T meet, signed"
    else:
        text = f"{HERO} outperforms {rival} in {what}"
        test = "95% interval of the mean at T wholly below the rival's, signed"
    statement = Statement(f"order/{what}/{setting.env}/{rival}", f"{setting.env}: {text}", "Section 5, Figure 1", test)
    if not {(setting.env, HERO), (setting.env, rival)} <= found.keys():
        return statement.undecided()
    ours, theirs = found[setting.env, HERO], found[setting.env, rival]
    pairs = {
        name: (mean_interval(final(ours.group, cost, w)), mean_interval(final(theirs.group, cost, w)))
        for name, w in (("signed", None), ("as plotted", setting.window))
    }
    relations = "; ".join(f"{name}, {_relation(x, y, rival)}" for name, (x, y) in pairs.items())
    return statement.tested(
        *(_holds(x, y, same) for x, y in pairs.values()),
        measured="; ".join(f"{name}: {HERO} {x}, {rival} {y}" for name, (x, y) in pairs.items()),
        brief=_against(*pairs["signed"]),
        note=f"{what.capitalize()}: {relations}.",
        scale=scale_of([ours.group, theirs.group], ours.horizon, min(ours.runs, theirs.runs)),
        numbers={name: intervals_json({HERO: x, rival: y}) for name, (x, y) in pairs.items()},
    )


def _holds(x: Interval, y: Interval, same: bool | None) -> bool:
    if same is None:
        return not y.below(x)
    return not x.apart(y) if same else x.below(y)


def _relation(x: Interval, y: Interval, rival: str) -> str:
    if not x.apart(y):
        return f"{HERO} and {rival} cannot be told apart"
    return f"{HERO} is {'below' if x.below(y) else 'above'} {rival}"


def _against(x: Interval, y: Interval) -> str:
    return f"{number(x.mean)} against {number(y.mean)}"


def _comparable(found: Found) -> list[Claim]:
    low, high = COMPARABLE
    rows = []
    for setting in presets.PAPER[:2]:
        statement = Statement(
            f"comparable/{setting.env}/C-UCRL",
            f"{setting.env}: {HERO}'s violation is comparable with C-UCRL's",
            "Section 5",
            f"ratio of mean violations at T in [{low:g}, {high:g}], or both at most 0, signed",
        )
        if not {(setting.env, HERO), (setting.env, "C-UCRL")} <= found.keys():
            rows.append(statement.undecided())
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
        rows.append(
            statement.tested(
                *holds,
                measured="; ".join(measured),
                brief=_against(*(mean_interval(final(f.group, 1)) for f in (ours, theirs))),
                note=f"Ratio of mean violations: {'; '.join(measured)}.",
                scale=scale_of([ours.group, theirs.group], ours.horizon, ours.runs),
                numbers=numbers,
            )
        )
    return rows


def _box(found: Found) -> list[Claim]:
    setting = presets.PAPER[-1]
    rows = []
    for rival in presets.RIVALS:
        rows += [_near_linear(found, setting, rival), _stuck(found, setting, rival)]
    return rows


def _near_linear(found: Found, setting: presets.Setting, rival: str) -> Claim:
    statement = Statement(
        f"near-linear/{setting.env}/{rival}",
        f"{setting.env}: {rival} incurs near-linear regret",
        "Section 5",
        f"growth exponent of the mean over the last half >= {NEAR_LINEAR:g}, signed",
    )
    if (setting.env, rival) not in found:
        return statement.undecided()
    selected = found[setting.env, rival]
    group = selected.group
    exponents = {"signed": growth_exponent(group.grid, curves.regret(group), 0.5)}
    times, plotted = curves.as_plotted(group, setting.window)
    exponents["as plotted"] = growth_exponent(times, plotted[:, 0], 0.5)
    measured = "; ".join(f"{name}: exponent {exponent}" for name, exponent in exponents.items())
    return statement.tested(
        *(exponent.mean >= NEAR_LINEAR for exponent in exponents.values()),
        measured=measured,
        brief=f"exponent {number(exponents['signed'].mean)}",
        note=f"The regret of {rival} bends: {measured}.",
        scale=scale_of_one(selected),
        numbers=intervals_json(exponents),
    )


def _stuck(found: Found, setting: presets.Setting, rival: str) -> Claim:
    statement = Statement(
        f"stuck/{setting.env}/{rival}",
        f"{setting.env}: {rival} is stuck on the safe policy",
        "Appendix B",
        f"last fifth: every average cost nearer to the safe policy's than {STUCK:g} of the distance between the safe "
        f"and the optimal policy's, in at least {MOST:.0%} of runs",
    )
    if (setting.env, rival) not in found:
        return statement.undecided()
    selected = found[setting.env, rival]
    levels = references.levels(setting.env)
    late = curves.late_average(selected.group)
    share = stuck_share(late, levels)
    means = [mean_interval(late[:, i]) for i in range(late.shape[1])]
    measured = f"{share:.0%} of runs; last fifth c_0 {means[0]}, c_1 {means[1]}"
    measured += f"; safe policy {_levels(levels.safe)}, optimal {_levels(levels.optimal)}"
    numbers = {"share": share, "safe": levels.safe.tolist(), "optimal": levels.optimal.tolist()}
    if (setting.env, HERO) in found:
        numbers["share_psconrl"] = stuck_share(curves.late_average(found[setting.env, HERO].group), levels)
        measured += f"; {HERO}, by the same test: {numbers['share_psconrl']:.0%} of runs"
    return statement.tested(
        share >= MOST,
        measured=measured,
        brief=f"{share:.0%} of runs",
        note=f"In the last fifth {rival} averages {_levels(late.mean(axis=0))}, the safe policy "
        f"{_levels(levels.safe)}, the optimal one {_levels(levels.optimal)}.",
        scale=scale_of_one(selected),
        numbers=numbers | intervals_json({"c_0": means[0], "c_1": means[1]}),
    )


def stuck_share(averages: Floats, levels: references.Levels) -> float:
    """The share of runs, with average costs (R, m + 1), that are stuck on the safe policy."""
    room = STUCK * np.abs(levels.optimal - levels.safe)
    return float((np.abs(averages - levels.safe) < room).all(axis=1).mean())


def _convergence(found: Found) -> list[Claim]:
    rows = []
    for env, agent in _cells():
        if env == presets.PAPER[-1].env and agent != HERO:
            continue  # the paper says that they do not converge there
        rows += [_late(found, env, agent, cost) for cost in range(len(_LATE))]
    rows.append(_quickly(found, presets.PAPER[-1]))
    return rows


_LATE = (
    (
        "converges",
        "{agent} converges to the optimal solution",
        f"mean c_0 of the last fifth within {NEAR:g} of J*",
        "c_0 - J*",
        "the optimum",
    ),
    (
        "feasible",
        "the average consumption of {agent} satisfies the constraint in the long run",
        f"mean c_1 of the last fifth at most tau + {NEAR:g}",
        "c_1 - tau",
        "the threshold",
    ),
)
"""By cost: key, text, test, what is measured, and the level it is held against."""


def _late(found: Found, env: str, agent: str, cost: int) -> Claim:
    """Whether a cost comes near to its level in the last fifth; constraints may be below it."""
    key, text, test, name, level = _LATE[cost]
    statement = Statement(f"{key}/{env}/{agent}", f"{env}: {text.format(agent=agent)}", "Appendix B", test)
    if (env, agent) not in found:
        return statement.undecided()
    selected = found[env, agent]
    group = selected.group
    gap = mean_interval(curves.late_average(group)[:, cost] - curves.levels(group)[:, cost])
    side = "above" if gap.mean > 0 else "below"
    return statement.tested(
        (abs(gap.mean) if cost == 0 else gap.mean) <= NEAR,
        measured=f"{name} in the last fifth: {gap}",
        brief=f"{name}: {number(gap.mean)}",
        note=f"In the last fifth c_{cost} is {number(abs(gap.mean))} {side} {level}.",
        scale=scale_of_one(selected),
        numbers=intervals_json({"gap": gap}),
    )


def _quickly(found: Found, setting: presets.Setting) -> Claim:
    statement = Statement(
        f"quickly/{setting.env}/{HERO}",
        f"{setting.env}: {HERO} converges to the optimal solution relatively quickly",
        "Appendix B",
        "the mean moving average of c_0 stays within 1% of J* from before T / 2 on",
    )
    if (setting.env, HERO) not in found:
        return statement.undecided()
    selected = found[setting.env, HERO]
    horizon = selected.group.horizon
    if setting.window > horizon / 2:
        return statement.undecided("the moving average is over more than half of the run")
    settled = curves.settling_time(selected.group, setting.window)
    return statement.tested(
        settled.mean <= horizon / 2,
        measured=f"settled at round {settled}",
        brief=f"at round {number(settled.mean)}",
        note=f"It settles at round {number(settled.mean)} of {horizon:,}.",
        scale=scale_of_one(selected),
        numbers=intervals_json({"settled": settled}),
    )


def _costly(found: Found) -> Claim:
    large, box = presets.PAPER[1], presets.PAPER[2]
    statement = Statement(
        "costly",
        "Exploration is relatively costly in Box compared to Marsrover",
        "Section 5",
        "95% interval of PSConRL's mean signed regret at T in box wholly above that in marsrover-8x8",
    )
    if not {(large.env, HERO), (box.env, HERO)} <= found.keys():
        return statement.undecided()
    there, here = found[large.env, HERO], found[box.env, HERO]
    x, y = mean_interval(final(there.group, 0)), mean_interval(final(here.group, 0))
    p = mean_interval(final(there.group, 0, large.window)), mean_interval(final(here.group, 0, box.window))
    return statement.tested(
        x.below(y),
        p[0].below(p[1]),
        measured=f"signed: {large.env} {x}, {box.env} {y}; as plotted: {p[0]}, {p[1]}",
        brief=_against(y, x),
        note="The regret in Box is not clearly above that in Marsrover 8x8.",
        scale=scale_of_one(here),
        numbers=intervals_json({large.env: x, box.env: y}),
    )


def _original_bonuses(groups: Groups) -> Claim:
    statement = Statement(
        "original-bonuses",
        "The rivals use the original bonus terms of their papers",
        "Appendix B",
        "mean signed regret at T of ConRL and C-UCRL with the published and with Figure 1's bonus: intervals meet",
    )
    figure = by_agent("figure-1", groups)
    published = {f.cell.agent: f for f in select("bonus", groups) if f.cell.settings.get("bonus") == "published"}
    rivals = [a for a in presets.RIVALS if a in published and (presets.SMALLEST, a) in figure]
    if len(rivals) < len(presets.RIVALS):
        return statement.undecided()
    pairs = {
        a: (mean_interval(final(published[a].group, 0)), mean_interval(final(figure[presets.SMALLEST, a].group, 0)))
        for a in rivals
    }
    return statement.tested(
        all(not x.apart(y) for x, y in pairs.values()),
        measured="; ".join(f"{a}: published {x}, as in Figure 1 {y}" for a, (x, y) in pairs.items()),
        brief="; ".join(f"{a} {_against(x, y)}" for a, (x, y) in pairs.items()),
        note="Published bonuses give other curves: the figures need bonuses scaled down, as the released code has.",
        scale=scale_of_one(published[rivals[0]]),
        numbers={a: intervals_json({"published": x, "figure": y}) for a, (x, y) in pairs.items()},
    )


def _tractable(groups: Groups) -> list[Claim]:
    found = by_agent("tractable", groups)
    return [_intractable(setting, found.get((setting.env, presets.OPTIMISTIC))) for setting in presets.PAPER[1:]]


def _intractable(setting: presets.Setting, selected: Selected | None) -> Claim:
    statement = Statement(
        f"intractable/{setting.env}",
        f"{setting.env}: {presets.OPTIMISTIC} is computationally intractable beyond Marsrover 4x4",
        "Section 5, Appendix B",
        f"a run of T = {setting.horizon:,} takes more than one day on one core, by the timings of the runs; of shorter "
        "runs: seconds per plan times the plans of such a run",
    )
    if selected is None or not np.isfinite(selected.group.seconds).any():
        return statement.undecided("no run of it is both completed and timed")
    group = selected.group
    timed = np.isfinite(group.seconds)
    plans = np.array([len(table) for table in group.episodes])
    per_plan = float(group.seconds[timed].sum() / plans[timed].sum())
    if group.horizon >= setting.horizon:
        seconds = float(group.seconds[timed].mean())
        source = f"{group.runs} of {selected.runs} runs completed, {_clock(seconds)} each in the mean"
    else:
        seconds = per_plan * _plans(setting.horizon)
        source = f"{group.runs} shorter run{'s' if group.runs > 1 else ''} completed"
        source += f", so {_clock(seconds)} for {_plans(setting.horizon):,} plans"
    return statement.tested(
        seconds > DAY,
        measured=f"{source}; {number(per_plan)} s per plan",
        brief=f"{_clock(seconds)} per run",
        note=f"Planning exactly over the confidence set, a run takes {_clock(seconds)}.",
        # Seconds need no interval to be told from a day.
        scale=Scale(scale_of_one(selected).text),
        numbers={
            "seconds_per_plan": per_plan,
            "seconds_per_run": seconds,
            "completed": group.runs,
            "asked": selected.runs,
        },
    )


def _plans(horizon: int) -> int:
    """How often UCRL-CMDP plans until a horizon."""
    alpha = float(parameters(find(presets.OPTIMISTIC))["alpha"])
    return math.ceil(horizon / math.ceil(horizon**alpha))


def _clock(seconds: float) -> str:
    """A duration in the unit that people would use."""
    for unit, size in (("days", DAY), ("hours", 3600.0), ("minutes", 60.0)):
        if seconds >= 2 * size:
            return f"{number(round(seconds / size, 1))} {unit}"
    return f"{number(seconds)} s"


def _counterexample(groups: Groups) -> list[Claim]:
    found = select("counterexample", groups)
    rivals = [f for f in found if f.cell.agent == "CMDP-PSRL"]
    rows = []
    for rule in ("uniform", "explore"):
        statement = Statement(
            f"counterexample/{rule}",
            f"toy: with infeasible samples answered by {rule}, {HERO} goes on learning where CMDP-PSRL stops",
            "later version, Example 3.2",
            "95% interval of the mean signed violation at T wholly below CMDP-PSRL's",
        )
        ours = [f for f in found if f.cell.agent == HERO and f.cell.settings.get("infeasible") == rule]
        if not ours or not rivals:
            rows.append(statement.undecided())
            continue
        x, y = (mean_interval(final(f[0].group, 1)) for f in (ours, rivals))
        rows.append(
            statement.tested(
                x.below(y),
                measured=f"{HERO} {x}, CMDP-PSRL {y}",
                brief=_against(x, y),
                note=f"Violation: {_relation(x, y, 'CMDP-PSRL')}.",
                scale=scale_of_one(ours[0]),
                numbers=intervals_json({HERO: x, "CMDP-PSRL": y}),
            )
        )
    return rows


def _cells() -> list[tuple[str, str]]:
    """Environment and agent of all cells of Figure 1."""
    experiment = presets.find("figure-1").experiment()
    assert experiment is not None
    return [(cell.env, cell.agent) for cell in experiment.cells]


def _levels(averages: Floats) -> str:
    return "(" + ", ".join(number(round(float(x), 6) + 0.0) for x in averages) + ")"
