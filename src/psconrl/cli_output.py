"""What the commands print: tables for people, JSON for programs."""

from __future__ import annotations

import inspect
import json
import math
import sys
import textwrap
from collections.abc import Iterable, Sequence
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import numpy as np

from psconrl import environments, learning, planning
from psconrl._core.numbers import format_interval, plural
from psconrl.cmdp import CMDP

if TYPE_CHECKING:
    from pathlib import Path

    from rich.console import Console
    from rich.table import Table

    from psconrl.analysis import World
    from psconrl.experiments import Outcome
    from psconrl.learning import Estimate, Metric
    from psconrl.planning import Solution

PIPED_WIDTH = 160
"""Columns of a table that does not go to a terminal."""

PROSE = 88
"""Columns of text, at most."""

LISTED_STATES = 30
"""The policy is listed for models with at most this many states that are not maps."""

HOLDS = 0.01
"""Averages hold that are this near to the long-run ones, as a share of their cost's range."""

NOISE = 1e-12
"""What rounding leaves of zero."""

LONG = 100_000
"""More steps than this until averages hold are worth a warning."""


def console() -> Console:
    """Standard output: in colours and of the terminal's width if it is one, plain and wide if not."""
    from rich.console import Console

    terminal = sys.stdout.isatty()
    return Console(
        file=sys.stdout, highlight=False, markup=False, soft_wrap=False, width=None if terminal else PIPED_WIDTH
    )


def say(text: str, indent: str = "") -> None:
    """Prose, broken between words to the width of the terminal."""
    width = min(console().width, PROSE)
    print(
        textwrap.fill(
            text,
            width,
            initial_indent=indent,
            subsequent_indent=indent,
            break_long_words=False,
            break_on_hyphens=False,
        )
    )


def print_table(header: Sequence[str], rows: Iterable[Sequence[str]], *, numbers: Sequence[str] = ()) -> None:
    """A table; the columns in `numbers` are aligned to the right. Where lines must be broken, rows stand apart."""
    table = table_of(header, rows, numbers=numbers)
    table.leading = 0 if _fits(table) else 1
    _print(table)


def table_of(header: Sequence[str], rows: Iterable[Sequence[str]], *, numbers: Sequence[str] = ()) -> Table:
    """A table to print."""
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, header_style="bold")
    for name in header:
        table.add_column(name, justify="right" if name in numbers else "left", overflow="fold")
    for row in rows:
        table.add_row(*row)
    return table


def _fits(table: Table) -> bool:
    """Whether a table has room without lines being broken."""
    terminal = console()
    return terminal.measure(table, options=terminal.options.update(width=10_000)).maximum <= terminal.width


def _print(item: Any) -> None:
    from rich.text import Text

    terminal = console()
    with terminal.capture() as drawn:
        terminal.print(Text(item) if isinstance(item, str) else item)
    print("\n".join(line.rstrip() for line in drawn.get().splitlines()))


def print_json(document: Any) -> None:
    """JSON that every parser takes: no NaN, no infinity."""
    print(json.dumps(document, indent=2, allow_nan=False))


def print_entries(entries: dict[str, tuple[str, dict[str, Any]]]) -> None:
    """Names with what they are and their options or settings."""
    table = table_of(("name", "about"), (), numbers=())
    table.show_header = False
    table.columns[0].style, table.columns[0].no_wrap = "bold", True
    for name, (about, options) in entries.items():
        settings = ", ".join(f"{key}={_default(value)}" for key, value in options.items())
        table.add_row(name, f"{about}\n{settings}" if settings else about)
    _print(table)


def jsonable(values: dict[str, Any]) -> dict[str, Any]:
    """Values for JSON; what it cannot say, such as a default that must be given, is written as text."""
    return {key: json.loads(json.dumps(value, default=_default)) for key, value in values.items()}


def _default(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.6g}"
    return "?" if value is inspect.Parameter.empty else str(value)


# psconrl solve


def solution_json(cmdp: CMDP, solution: Solution) -> dict[str, Any]:
    """The answer of `psconrl solve --json`."""
    constraints: list[dict[str, Any]] = [
        {
            "name": cmdp.cost_names[i],
            "limit": float(tau),
            "use": float(_limited(solution)[i]),
            "slack": float(tau - _limited(solution)[i]),
            "price": _number(solution.multipliers[i - 1]),
        }
        for i, tau in enumerate(cmdp.thresholds, start=1)
    ]
    if not solution.feasible:
        found = planning.nearest_limits(cmdp, solution)
        for constraint, together, alone in zip(constraints, found.together, found.alone, strict=True):
            constraint |= {"nearest": float(together), "alone": _number(alone)}
    steps = math.inf if solution.total_costs is not None else solution.holds_after(_tolerances(cmdp))
    return {
        "status": solution.status,
        "value": _number(solution.value),
        "gap": _number(float(f"{solution.gap:.2g}")),
        "horizon": solution.horizon,
        "discount": solution.discount,
        "episode": solution.episode,
        "total_costs": None if solution.total_costs is None else solution.total_costs.tolist(),
        "average_costs": [float(cost) for cost in solution.average_costs],
        "long_run_costs": [float(cost) for cost in solution.long_run_costs],
        "attained": solution.attained,
        "holds_after": {"share_of_range": HOLDS, "steps": None if steps == math.inf else steps},
        "constraints": constraints,
        "margin": _number(solution.margin),
        "conflict": [cmdp.cost_names[i] for i in solution.conflict],
        "states": list(cmdp.state_names),
        "actions": list(cmdp.action_names),
        "policy": solution.policy.tolist(),
        "mixture": [
            {
                "weight": member.weight,
                "actions": np.array(cmdp.action_names)[member.policy].tolist(),
                "average_costs": [float(cost) for cost in member.average_costs],
                "core": [cmdp.state_names[s] for s in np.flatnonzero(member.core) % cmdp.S],
            }
            for member in solution.mixture
        ],
        "switching_times": [[_number(time) for time in row] for row in solution.switching_times],
    }


def _limited(solution: Solution) -> Any:
    """What the limits are on: averages, or totals."""
    return solution.average_costs if solution.total_costs is None else solution.total_costs


def _criterion(cmdp: CMDP, solution: Solution) -> str:
    """What is minimised, in words."""
    if solution.discount is not None:
        return f"in total, discounted by {solution.discount:g} per step"
    if solution.episode is not None:
        return f"in total over {solution.episode:,} steps"
    return f"per {'step' if cmdp.durations is None else 'unit of time'} in the long run"


def _tolerances(cmdp: CMDP) -> list[float]:
    """How near averages must be to hold: by a share of the range of each cost."""
    widths = np.ptp(cmdp.pairs.taken(cmdp.costs), axis=1).tolist()
    return [HOLDS * width if width > 0 else 1.0 for width in widths]


def print_solution(name: str, cmdp: CMDP, solution: Solution) -> None:
    """The optimum, the limits, and the policy."""
    some = "" if cmdp.pairs.every else f" ({cmdp.pairs.K} of {cmdp.S * cmdp.A} pairs)"
    sizes = (plural(cmdp.S, "state"), plural(cmdp.A, "action") + some, plural(cmdp.m, "limit"))
    print(f"{name}: {', '.join(sizes)}")
    if solution.feasible:
        print(f"minimum {cmdp.cost_names[0]}: {solution.value:.9g} {_criterion(cmdp, solution)}")
        if not solution.proven:
            say(
                f"Warning: not proven, the least may be up to {solution.gap:.2g} lower. Probabilities or costs of very "
                "different size leave no digits to compare policies with; leave out what hardly ever happens."
            )
    else:
        _print_conflict(cmdp, solution)
    if cmdp.m:
        print()
        _print_limits(cmdp, solution)
    if solution.feasible and cmdp.m:
        _print_prices(cmdp, solution)
    if solution.horizon is None and solution.total_costs is None:
        _print_steps(cmdp, solution)
    elif solution.horizon is not None:
        _print_horizon(cmdp, solution)
    _print_policy(cmdp, solution)


def _print_steps(cmdp: CMDP, solution: Solution) -> None:
    steps = solution.holds_after(_tolerances(cmdp))
    many = "one step" if steps == 1 else f"{steps:,} steps" if steps < 1e15 else f"{steps:.2g} steps"
    print()
    say(
        f"These are long-run averages. The expected averages of a run are within {HOLDS:.0%} of each cost's range of "
        f"them after at most {many}."
        if steps < math.inf
        else "These are long-run averages. No number of steps is known after which a run is close to them."
    )
    if steps > LONG:
        say("Warning: shorter runs may behave differently. --horizon T computes a policy for runs of T steps.")


def _print_horizon(cmdp: CMDP, solution: Solution) -> None:
    used = " and the limits are used as above" if cmdp.m else ""
    print()
    say(
        f"The policy below is made for {solution.horizon:,} steps from the start. Over these, {cmdp.cost_names[0]} is "
        f"expected to be {solution.average_costs[0]:.6g} per step{used}; single runs scatter around that."
    )
    apart = float(solution.switching_times.max(initial=0.0))
    if 0 < apart < math.inf:
        say(f"It goes between sets of states that are up to {apart:.3g} expected steps apart.")
    if cmdp.m and not solution.attained:
        excess = float((solution.average_costs[1:] - cmdp.thresholds).max())
        say(f"Warning: no policy was found that keeps the limits over so few steps; it exceeds them by {excess:.4g}.")


def _print_limits(cmdp: CMDP, solution: Solution) -> None:
    rows = []
    for i, tau in enumerate(cmdp.thresholds, start=1):
        slack = tau - _limited(solution)[i]
        row = (
            cmdp.cost_names[i],
            f"{_limited(solution)[i]:.6g}",
            f"{tau:.6g}",
            f"{0.0 if abs(slack) < 1e-7 else slack:.4g}",
        )
        price = solution.multipliers[i - 1]
        rows.append((*row, f"{0.0 if abs(price) < 1e-9 else price:.6g}") if solution.feasible else row)
    header = ("limit on", "use", "limit", "slack", "shadow price")[: 5 if solution.feasible else 4]
    print_table(header, rows, numbers=header[1:])


def _print_prices(cmdp: CMDP, solution: Solution) -> None:
    all_limits = "The limit" if cmdp.m == 1 else "All limits together"
    lowered = 0.0 if abs(solution.margin) < NOISE else solution.margin
    by = f"{lowered:.6g}"
    if cmdp.m > 1 and lowered > 0:
        by = f"{planning.relative_margin(cmdp, solution):.3g} times the range of their costs"
    print()
    say(f"Shadow price: how much {cmdp.cost_names[0]} falls per unit that the limit is raised.")
    if lowered > 0:
        say(f"{all_limits} could be lowered by {by} and still be met.")
    else:
        say(
            "There is no room: were the limit lower, no policy would meet it."
            if cmdp.m == 1
            else "There is no room: were all limits lower, no policy would meet them."
        )
    if solution.classes > 1:
        say(f"The optimum lives in {solution.classes} separate sets of states; the policy changes between them rarely.")
    if solution.loss > 1e-6 and solution.horizon is None and solution.total_costs is None:
        say(f"One stationary policy cannot reach the optimum: the one below has {solution.average_costs[0]:.9g}.")


def _print_conflict(cmdp: CMDP, solution: Solution) -> None:
    broken = [f"{cmdp.cost_names[i]} <= {cmdp.thresholds[i - 1]:g}" for i in solution.conflict]
    say(f"infeasible: {' and '.join(broken)} cannot hold{' together' if len(broken) > 1 else ''}")
    least = f"{-solution.margin:.6g}"
    if cmdp.m > 1:
        least = f"{-planning.relative_margin(cmdp, solution):.3g} times the range of its cost"
    say(f"every policy exceeds some limit by at least {least}; nearest limits that can be met:")
    found = planning.nearest_limits(cmdp, solution)
    moved = [
        f"{cmdp.cost_names[i + 1]} <= {found.together[i]:.6g}"
        for i in range(cmdp.m)
        if found.together[i] > cmdp.thresholds[i]
    ]
    say(" and ".join(moved), indent="  ")
    if len(moved) > 1:
        for i in solution.conflict:
            if not math.isnan(found.alone[i - 1]):
                say(f"or {cmdp.cost_names[i]} <= {found.alone[i - 1]:.6g}, and the others as they are", indent="  ")
    say("below: the policy that minimises the worst violation")


def _print_policy(cmdp: CMDP, solution: Solution) -> None:
    policy, step = solution.policy, ""
    if solution.episode is not None:
        policy, step = policy[0], "in the first step; "
    if cmdp.layout is not None:
        print("\n" + environments.render.ansi(cmdp, policy, color=sys.stdout.isatty()), end="")
        letters = {letter for row in cmdp.layout.rows for letter in row}
        legend = {"W": "wall", "S": "start", "G": "goal", "P": "risky", "X": "box (drawn where it starts)"}
        known = ", ".join(f"{letter} {text}" for letter, text in legend.items() if letter in letters)
        say(f"{known}; * the policy randomises there")
    else:
        print()
        listed = min(cmdp.S, LISTED_STATES)
        print_table(("in state", "do"), [(cmdp.state_names[s], _action(cmdp, policy[s])) for s in range(listed)])
        if listed < cmdp.S:
            step += f"{listed} of {cmdp.S:,} states; "
    if step:
        say(f"({step}--policy policy.csv writes the whole policy, also as .md, .tex, .json or .parquet)")


def _action(cmdp: CMDP, shares: Any) -> str:
    """The actions that a policy takes in a state, likeliest first."""
    order = [int(a) for a in np.argsort(-shares, kind="stable") if shares[a] >= 1e-12]
    often = [a for a in order if shares[a] >= 0.0005]
    if len(often) == 1:
        said = cmdp.action_names[often[0]]
    else:
        said = ", ".join(f"{cmdp.action_names[a]} ({shares[a]:.3f})" for a in often)
    # What is hardly ever done may decide where a policy lives.
    return ", rarely ".join([said, *(f"{cmdp.action_names[a]} ({shares[a]:.1e})" for a in order[len(often) :])])


def _number(value: float) -> float | None:
    return None if math.isnan(value) or math.isinf(value) else float(value)


# psconrl fit

ROWS_TOLD = 5
"""Numbers of rows that are listed of each kind of gap in a log."""


def estimate_json(estimate: Estimate, solution: Solution) -> dict[str, Any]:
    """The answer of `psconrl fit --json`."""
    old, new = estimate.behaviour, estimate.evaluate(solution.policy)
    return {
        "rows": int(estimate.visits.sum()),
        "left_out": {reason: rows.tolist() for reason, rows in estimate.issues.items()},
        "costs": list(estimate.cost_names),
        "limits": estimate.limits.tolist(),
        "confidence": estimate.confidence,
        "old": {"average_costs": old.average_costs.tolist(), "intervals": old.intervals.tolist()},
        "plan": {"average_costs": new.average_costs.tolist(), "intervals": new.intervals.tolist()},
        "coverage": {name: column.tolist() for name, column in estimate.coverage.items()},
        "to_try": {name: column.tolist() for name, column in estimate.to_try(solution.policy).items()},
        "solution": solution_json(estimate, solution),
    }


def print_estimate(name: str, estimate: Estimate, solution: Solution) -> None:
    """What the old decisions cost, what the plan would, what to try, and the plan."""
    rows = int(estimate.visits.sum())
    tried = int((estimate.visits > 0).sum())
    sizes = (plural(estimate.S, "state"), plural(estimate.A, "action"))
    print(f"{name}: {rows:,} decisions, {', '.join(sizes)}; {tried} of {estimate.S * estimate.A} pairs were tried")
    for reason, numbers in estimate.issues.items():
        more = f" and {len(numbers) - ROWS_TOLD:,} more" if len(numbers) > ROWS_TOLD else ""
        say(f"row {', '.join(map(str, numbers[:ROWS_TOLD]))}{more}: {reason}")
    if not solution.feasible:
        _print_conflict(estimate, solution)
    old, new = estimate.behaviour, estimate.evaluate(solution.policy)

    def cell(averages: Any, intervals: Any, i: int) -> str:
        return f"{averages[i]:.4g} ({intervals[i, 0]:.4g} to {intervals[i, 1]:.4g})"

    header = ("long-run average of", "limit", "so far", "with the plan")
    limits = ["", *(f"{limit:.4g}" for limit in estimate.limits)]
    print()
    print_table(
        header,
        [
            (cost, limits[i], cell(old.average_costs, old.intervals, i), cell(new.average_costs, new.intervals, i))
            for i, cost in enumerate(estimate.cost_names)
        ],
        numbers=header[1:],
    )
    sure = (
        "" if estimate.confidence is None else f"The plan keeps the limits with probability {estimate.confidence:g}. "
    )
    print()
    say(f"{sure}In brackets: 95% credible intervals. Tried least where the plan spends its time:")
    best = estimate.to_try(solution.policy, most=ROWS_TOLD)
    print()
    print_table(
        ("in state", "action", "tried"),
        [(str(s), str(a), f"{n:,}") for s, a, n in zip(best["state"], best["action"], best["visits"], strict=True)],
        numbers=("tried",),
    )
    _print_policy(estimate, solution)


# psconrl run


def print_results(results: dict[str, Any], worlds: Sequence[World], out: Path, notes: Sequence[str] = ()) -> None:
    """What `psconrl run` found: for each environment a table of agents, or a list where a table has no room."""
    told = [cell | world._asdict() for cell, world in zip(results["cells"], worlds, strict=True)]
    for (env, horizon, optimum), grouped in groupby(told, key=itemgetter("env", "horizon", "optimum")):
        cells = list(grouped)
        seeds = sorted({cell["seeds"] for cell in cells})
        known = f"optimum {optimum:.6g} per step" if optimum is not None else _why(cells)
        runs = f"{' or '.join(map(str, seeds))} {'seed' if seeds == [1] else 'seeds'}"
        say(f"{env}: {horizon:,} steps, {runs}, {known}")
        print()
        columns = [_columns(cell) for cell in cells]
        tables = [_table(rows) for rows in zip(*columns, strict=True)]
        if all(map(_fits, tables)):
            for table in tables:
                _print(table)
                print()
        else:
            for sums, measures in columns:
                _print_listed(sums | measures)
    say(
        "Regret and violation: what was paid above the optimum and the limit, summed over the run; mean over seeds "
        "[95% bootstrap interval]. Infeasible: plans made where the limits seemed out of reach. Seconds: of all runs, "
        "compilation included. L: regret plus violation at the limits' shadow prices. [V]+: violation, or 0 where it "
        "is negative; by policies: the excess of each plan by its exact averages."
    )
    for note in notes:
        say(f"Note: {note}.")
    print(f"All runs are in {out}. To draw them:\n  psconrl report {out}")


def _metrics(per: str) -> list[Metric]:
    """What is measured of a run, or of each of its limits."""
    return [metric for metric in learning.METRICS if metric.per == per]


def _why(cells: Sequence[dict[str, Any]]) -> str:
    return next((cell["without_optimum"] for cell in cells if cell["without_optimum"]), "optimum unknown")


_Columns = dict[str, str | list[str]]
"""What a cell has in each column; a list where each limit has its own."""


def _columns(cell: dict[str, Any]) -> tuple[_Columns, _Columns]:
    """What was paid and planned in a cell, and what else is measured."""
    there = cell["seeds"] > 0
    counts = {name: f"{cell[name]['mean']:.4g}" if there else "-" for name in ("episodes", "infeasible_episodes")}
    sums = {
        "agent": cell["agent"],
        "regret": format_interval(cell["regret"]),
        "limit": cell["limits"],
        "violation": [*map(format_interval, cell["violation"])],
        "plans": counts["episodes"],
        "infeasible": counts["infeasible_episodes"],
        "seconds": f"{cell['seconds']:.2f}",
    }
    of_run = {metric.symbol: format_interval(cell[metric.name]) for metric in _metrics("run")}
    of_limits = {metric.symbol: [*map(format_interval, cell[metric.name])] for metric in _metrics("limit")}
    return sums, {"agent": cell["agent"], **of_run, "limit": cell["limits"], **of_limits}


def _table(rows: Sequence[_Columns]) -> Any:
    texts = [["\n".join(v) or "-" if isinstance(v, list) else v for v in row.values()] for row in rows]
    return table_of(list(rows[0]), texts, numbers=[name for name in rows[0] if name not in ("agent", "limit")])


def _print_listed(columns: _Columns) -> None:
    """One agent, a line for each number."""
    print(columns.pop("agent"))
    limits = columns.pop("limit")
    for name, value in columns.items():
        if isinstance(value, str):
            print(f"  {name:<12} {value}")
    for i, limit in enumerate(limits):
        say(limit, indent="  ")
        for name, values in columns.items():
            if isinstance(values, list):
                print(f"    {name:<12} {values[i]}")
    print()


def print_failures(outcome: Outcome) -> None:
    """One line about runs that failed, on the error stream."""
    first = outcome.failures[0]
    error = " ".join(first.error.split())
    print(
        f"psconrl: {plural(len(outcome.failures), 'run')} of {outcome.total} failed, the first ({first.cell.label}, "
        f"seed {first.seed}) with {error}; see {first.path.parent}; the same command tries them again",
        file=sys.stderr,
    )
