"""What a solution says to those who act on it: the policy as a table, and why each action is taken.

Taking action a once in state s, and then going on with the policy, costs more than the policy by

    c_i(s, a) - g_i d(s, a) + sum_s' p(s' | s, a) h_i(s') - h_i(s)

of each cost i in total, where g_i is its average, h_i its bias, and d the duration; with discounted totals V_i instead,
c_i(s, a) + g sum_s' p(s' | s, a) V_i(s') - V_i(s). At the shadow prices no action is better than those of an optimal
policy.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from psconrl._core import checks, display
from psconrl._core.checks import Bools, Floats, Ints
from psconrl.cmdp import CMDP
from psconrl.errors import InvalidArgumentError, UnknownNameError
from psconrl.io import writing
from psconrl.planning.evaluation import evaluate
from psconrl.planning.tolerances import EVAL_TOL

if TYPE_CHECKING:
    from psconrl.planning.solution import Solution


class ActionCost(NamedTuple):
    """What an action would change if it were taken once.

    action: its name. extra_costs: (m + 1,), in total, more than the policy. probability: how often the policy takes it.
    priced: the extra main cost and the extra use of each limit at its shadow price, together.
    """

    action: str
    extra_costs: Floats
    probability: float
    priced: float


class Explanation(list[ActionCost]):
    """The actions of a state, the cheapest at the shadow prices first; printed, it says why."""

    def __init__(self, state: str, cost_names: tuple[str, ...], rows: list[ActionCost]) -> None:
        super().__init__(rows)
        self.state, self.cost_names = state, cost_names

    def __repr__(self) -> str:
        taken = [
            f"{row.action} ({row.probability:.3g})" if row.probability < 1 else row.action
            for row in self
            if row.probability > 0
        ]
        lines = [f"In {self.state}: {' or '.join(taken)}."]
        for row in self:
            said = ", ".join(f"{x:+.4g} {name}" for x, name in zip(row.extra_costs, self.cost_names, strict=True))
            priced = (
                f"; at the shadow prices {row.priced:+.4g} {self.cost_names[0]}" if len(self.cost_names) > 1 else ""
            )
            lines.append(f"  {row.action} once, then the policy: {said}{priced}")
        return "\n".join(lines)


def _model(solution: Solution) -> CMDP:
    if solution.model is None:
        raise InvalidArgumentError("this solution has no model; psconrl.solve gives one that has")
    return solution.model


def table(solution: Solution) -> dict[str, Any]:
    """The policy as columns; see `Solution.table`."""
    cmdp = _model(solution)
    steps = 1.0 if solution.discount is None else 1 / (1 - solution.discount)
    visits = solution.occupancy * (steps if solution.episode is None else solution.episode)
    *step, s, a = np.nonzero(solution.policy)
    columns = {"step": step[0] + 1} if step else {}
    return columns | {
        "state": np.array(cmdp.state_names)[s],
        "action": np.array(cmdp.action_names)[a],
        "probability": solution.policy[*step, s, a],
        "visits": visits[*step, s, a],
    }


def save(solution: Solution, path: str | Path) -> None:
    """Write the policy as a table; see `Solution.save_policy`."""
    import pyarrow as pa

    path = checks.path(path)
    columns = table(solution)
    match path.suffix.lower():
        case ".csv" | ".parquet":
            import pyarrow.csv
            import pyarrow.parquet

            write = pyarrow.csv.write_csv if path.suffix.lower() == ".csv" else pyarrow.parquet.write_table
            with writing.replacing(path) as file:
                write(pa.table(columns), file)
        case ".json":
            listed = pa.table(columns).to_pylist()
            writing.write_text(
                path, "[\n" + ",\n".join(json.dumps(row, ensure_ascii=False) for row in listed) + "\n]\n"
            )
        case ".md":
            head = [f"| {' | '.join(columns)} |", f"|{' --- |' * len(columns)}"]
            rows = [[text.replace("|", "\\|") for text in row] for row in _short(columns)]
            writing.write_text(path, "\n".join([*head, *(f"| {' | '.join(row)} |" for row in rows), ""]))
        case ".tex":
            writing.write_text(path, display.latex_table(list(columns), _short(columns)))
        case _:
            raise InvalidArgumentError(f"{path}: a policy's file must end in .csv, .parquet, .json, .md or .tex")


def _short(columns: dict[str, Any]) -> list[list[str]]:
    """The rows for people: probabilities in three digits."""
    rows = zip(*(values.tolist() for values in columns.values()), strict=True)
    return [[f"{value:.3g}" if isinstance(value, float) else str(value) for value in row] for row in rows]


def explain(solution: Solution, state: int | str, step: int) -> Explanation:
    """What each action of a state would change; see `Solution.explain`."""
    cmdp = _model(solution)
    s = _state(cmdp, state)
    step = checks.whole(step, "step", most=solution.episode or 1) - 1
    policy = solution.policy
    weight, time = 1.0, np.zeros(cmdp.A)
    average: Floats = np.zeros(cmdp.m + 1)
    if solution.episode is not None:
        here = evaluate(cmdp, policy[step:], episode=solution.episode - step).total_costs
        values = np.zeros_like(here)
        if step + 1 < solution.episode:
            values = evaluate(cmdp, policy[step + 1 :], episode=solution.episode - step - 1).total_costs
        now, policy = here[:, s], policy[step]
    elif solution.discount is not None:
        values = evaluate(cmdp, policy, discount=solution.discount).total_costs
        weight, now = solution.discount, values[:, s]
    else:
        found = evaluate(cmdp, policy)
        values, average = found.bias, found.average_costs[:, s]
        time, now = np.ones(cmdp.A) if cmdp.durations is None else cmdp.durations[s], values[:, s]
    following = cmdp.matrix[s * cmdp.A : (s + 1) * cmdp.A] @ values.T
    extra = cmdp.costs[:, s] - np.outer(average, time) + weight * following.T - now[:, np.newaxis]
    ranges = np.ptp(cmdp.pairs.taken(cmdp.costs), axis=1)[:, np.newaxis]
    prices = np.append(1.0, np.nan_to_num(solution.multipliers))
    priced = prices @ extra
    priced[np.abs(priced) <= EVAL_TOL * float((prices @ ranges)[0])] = 0.0
    extra[np.abs(extra) <= EVAL_TOL * ranges] = 0.0
    rows = [
        ActionCost(cmdp.action_names[a], extra[:, a], float(policy[s, a]), float(priced[a]))
        for a in np.flatnonzero(cmdp.available[s])
    ]
    rows.sort(key=lambda row: (row.probability == 0, row.priced))
    return Explanation(cmdp.state_names[s], cmdp.cost_names, rows)


class Rules(NamedTuple):
    """A policy without randomisation as a few rules, and what it loses; printed, it says so.

    Attributes:
        rules: (states in words, action), the last one for all other states.
        policy: (S,), the actions.
        costs: (m + 1,), its exact averages from the initial distribution, or totals if these were asked for.
        exact: whether it is the policy itself.
        cost_names: those of the costs.
        before: (m + 1,), the costs of the policy itself.
    """

    rules: list[tuple[str, str]]
    policy: Ints
    costs: Floats
    exact: bool
    cost_names: tuple[str, ...]
    before: Floats

    def __str__(self) -> str:
        lines = [f"{states}: {action}" for states, action in self.rules]
        if not self.exact:
            changes = zip(self.cost_names, self.costs, self.before, strict=True)
            lines.append("without randomising: " + ", ".join(f"{n} {x:.4g} ({x - b:+.2g})" for n, x, b in changes))
        return "\n".join(lines)


def rules(solution: Solution) -> Rules:
    """The likeliest actions as rules; see `Solution.rules`."""
    cmdp = _model(solution)
    if solution.episode is not None:
        raise InvalidArgumentError("the policy of an episode changes from step to step; table() has all of it")
    actions = solution.policy.argmax(axis=1)
    if solution.discount is None:
        costs, before = evaluate(cmdp, actions).average_costs @ cmdp.initial, solution.average_costs
    else:
        costs = evaluate(cmdp, actions, discount=solution.discount).total_costs @ cmdp.initial
        before = costs if solution.total_costs is None else solution.total_costs
    often = np.bincount(actions, minlength=cmdp.A)
    most = int(often.argmax())
    listed = [(_in_words(cmdp, actions == a), cmdp.action_names[a]) for a in np.flatnonzero(often) if a != most]
    last = ("otherwise" if listed else "always", cmdp.action_names[most])
    exact = bool((solution.policy.max(axis=1) >= 1 - EVAL_TOL).all())
    return Rules([*listed, last], actions, costs, exact, cmdp.cost_names, before)


def _in_words(cmdp: CMDP, chosen: Bools) -> str:
    """States by name; runs of whole numbers as from ... to."""
    names = cmdp.state_names
    if not all(name.lstrip("-").isdigit() for name in names):
        return "in " + ", ".join(names[s] for s in np.flatnonzero(chosen))
    edges = np.flatnonzero(np.diff(np.concatenate([[0], chosen.astype(int), [0]]))).reshape(-1, 2)
    runs = [names[a] if b == a + 1 else f"{names[a]} to {names[b - 1]}" for a, b in edges]
    return "in " + ", ".join(runs)


def _state(cmdp: CMDP, state: int | str) -> int:
    """The number of a state that is given by name or number."""
    if isinstance(state, str):
        if state not in cmdp.state_names:
            raise UnknownNameError("state", state, cmdp.state_names)
        return cmdp.state_names.index(state)
    return checks.whole(state, "state", 0, cmdp.S - 1)
