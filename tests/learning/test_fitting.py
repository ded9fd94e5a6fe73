"""Logs: what is read of them, what they say of the old policy and of others, and how often that is right."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest

import psconrl
from psconrl import CMDP, Estimate, InvalidArgumentError, InvalidModelError, Learner, ModelFileError, agents
from psconrl._core.checks import Floats


def logged(cmdp: CMDP, policy: Floats, steps: int, seed: int) -> pd.DataFrame:
    """A log of a policy, with the names of a model."""
    rng = np.random.default_rng(seed)
    P = cmdp.matrix.toarray().reshape(cmdp.S, cmdp.A, cmdp.S)
    s, rows = int(cmdp.initial.argmax()), []
    for _ in range(steps):
        a = int(rng.choice(cmdp.A, p=policy[s]))
        t = int(rng.choice(cmdp.S, p=P[s, a]))
        happened = rng.random(cmdp.m + 1) < cmdp.costs[:, s, a]  # costs of 0 or 1 with the right means
        names = cmdp.state_names
        rows.append([names[s], cmdp.action_names[a], *happened.astype(float), names[t]])
        s = t
    return pd.DataFrame(rows, columns=["state", "action", *cmdp.cost_names, "next_state"])


def small(draw: int) -> CMDP:
    return psconrl.make("dirichlet", S=4, A=2, draw=draw)


def fitted(cmdp: CMDP, log: Any, **options: Any) -> Estimate:
    limits = dict(zip(cmdp.cost_names[1:], cmdp.thresholds.tolist(), strict=True))
    return psconrl.fit(log, limits, cost_ranges=[(0, 1)] * (cmdp.m + 1), **options)


def in_order(cmdp: CMDP, estimate: Estimate, policy: Floats) -> Floats:
    """A policy of a model as one of an estimate with other numbers."""
    s = [cmdp.state_names.index(name) for name in estimate.state_names]
    a = [cmdp.action_names.index(name) for name in estimate.action_names]
    return policy[np.ix_(s, a)]


@pytest.mark.parametrize("kind", ["uniform", "mostly one", "state by state"])
def test_intervals_cover_what_old_and_new_policies_really_cost(kind: str) -> None:
    """95% intervals in 40 logs of 500 rows: fewer than 32 of 40 covering would be a false alarm once in 5,000."""
    covered, behaviour = np.zeros(2), np.zeros(2)
    for draw in range(40):
        cmdp = small(draw)
        if kind == "mostly one":  # a cost that the action alone decides
            cmdp = cmdp.replace(costs=np.stack([cmdp.costs[0], np.tile([0.0, 1.0], (cmdp.S, 1))]))
        rng = np.random.default_rng(draw)
        old = {
            "uniform": cmdp.uniform,
            "mostly one": np.tile([0.85, 0.15], (cmdp.S, 1)),
            "state by state": rng.dirichlet(np.ones(cmdp.A), cmdp.S) * 0.8 + 0.1,
        }[kind]
        estimate = fitted(cmdp, logged(cmdp, old, 500, draw))
        new = rng.dirichlet(np.ones(cmdp.A), cmdp.S)
        truth = psconrl.evaluate(cmdp, new).average_costs @ cmdp.initial
        low, high = estimate.evaluate(in_order(cmdp, estimate, new), draws=100).intervals.T
        covered += (low <= truth) & (truth <= high)
        truth = psconrl.evaluate(cmdp, old).average_costs @ cmdp.initial
        low, high = estimate.behaviour.intervals.T
        behaviour += (low <= truth) & (truth <= high)
    assert (covered >= 32).all(), covered
    assert (behaviour >= 32).all(), behaviour


def test_sure_plans_keep_their_limits() -> None:
    """Plans at 95% in 40 models: fewer than 32 of 40 keeping their limits would be a false alarm once in 5,000."""
    kept = total = 0
    for draw in range(40):
        cmdp = small(draw)
        estimate = fitted(cmdp, logged(cmdp, cmdp.uniform, 600, 1000 + draw))
        try:
            plan = psconrl.solve(estimate.tightened(0.95, draws=100))
        except InvalidArgumentError:  # no plan is that sure
            continue
        s = [estimate.state_names.index(name) for name in cmdp.state_names]
        a = [estimate.action_names.index(name) for name in cmdp.action_names]
        truth = psconrl.evaluate(cmdp, plan.policy[np.ix_(s, a)]).average_costs @ cmdp.initial
        kept += bool((truth[1:] <= cmdp.thresholds).all())
        total += 1
    assert total >= 25
    assert kept >= 0.8 * total, (kept, total)


def test_what_was_tried_is_counted_whatever_form_the_log_has(tmp_path: Path) -> None:
    cmdp = small(0)
    log = logged(cmdp, cmdp.uniform, 300, 0)
    expected = fitted(cmdp, log)
    assert int(expected.visits.sum()) == len(log)
    assert expected.coverage["visits"].sum() == len(log)
    log.to_csv(tmp_path / "log.csv", index=False)
    shuffled = log.assign(t=range(len(log)), who="anna").sample(frac=1, random_state=1)
    for other, options in (
        (tmp_path / "log.csv", {}),
        (log.to_dict("records"), {}),
        (shuffled, {"time": "t", "stream": "who", "costs": list(cmdp.cost_names)}),
    ):
        found = fitted(cmdp, other, **options)
        assert not found.issues
        assert found == expected
    trajectory = fitted(cmdp, log.drop(columns="next_state"))
    assert int(trajectory.visits.sum()) == len(log) - 1
    assert [rows.tolist() for rows in trajectory.issues.values()] == [[len(log)]]


def test_datasets_of_minari_are_logs() -> None:
    def episode(states: list[int], actions: list[int], **ends: Any) -> Any:
        rewards = np.array(states[:-1]) % 2
        flags = np.arange(len(actions)) == len(actions) - 1
        done = {name: flags & ends.get(name, False) for name in ("terminations", "truncations")}
        infos = {"risk": np.arange(len(states)) * 1.0, "text": ["x"] * len(states)}
        return SimpleNamespace(
            observations=np.array(states), actions=np.array(actions), rewards=rewards, infos=infos, **done
        )

    episodes = [episode([3, 1, 2], [0, 1], terminations=True), episode([0, 1, 0], [1, 0], truncations=True)]
    found = psconrl.fit(SimpleNamespace(iterate_episodes=lambda: iter(episodes)), {"risk": 9})
    assert found.state_names == ("0", "1", "3")  # the end, 2, is the start of the next episode
    assert found.cost_names == ("minus_reward", "risk")
    assert found.visits.tolist() == [[0, 1], [1, 1], [1, 0]]
    assert found.costs[:, 1, 0].tolist() == [-1.0, 2.0]


def test_times_are_numbers_or_dates_in_any_form() -> None:
    cmdp = small(0)
    log = logged(cmdp, cmdp.uniform, 120, 0).drop(columns="next_state")
    expected = fitted(cmdp, log, costs=cmdp.cost_names)
    days = pd.date_range("2024-01-01", periods=len(log))
    for times in (range(120), map(str, range(120)), days, days.strftime("%Y-%m-%d"), days.strftime("%Y-%m-%d %H:%M")):
        shuffled = log.assign(t=list(times)).sample(frac=1, random_state=1)
        assert fitted(cmdp, shuffled, costs=cmdp.cost_names, time="t") == expected
        lost = shuffled.astype({"t": object}).reset_index(drop=True)
        lost.loc[30, "t"] = None
        issues = fitted(cmdp, lost, costs=cmdp.cost_names, time="t").issues
        assert next(iter(issues.values())).tolist() == [31]
    with pytest.raises(InvalidModelError, match=r"row 1 .*01\.01\.2024.*date"):
        fitted(cmdp, log.assign(t=days.strftime("%d.%m.%Y")), costs=cmdp.cost_names, time="t")


def test_rows_that_say_too_little_are_left_out_and_told() -> None:
    cmdp = small(0)
    log = logged(cmdp, cmdp.uniform, 40, 0)
    log.loc[4, "next_state"] = None
    log.loc[9, "action"] = None
    log.loc[14, "c0"] = np.nan
    other = next(name for name in cmdp.state_names if name != log.loc[19, "next_state"])
    log.loc[19, "next_state"] = other
    found = fitted(cmdp, log.assign(who="a"), stream="who", costs=["c0", "c1"])
    assert sorted(rows.tolist() for rows in found.issues.values()) == [[5], [10], [15], [20]]
    assert int(found.visits.sum()) == 38
    with pytest.raises(InvalidModelError, match="'stat'; did you mean"):
        psconrl.fit(log, state="stat")
    with pytest.raises(InvalidModelError, match="no column 'c2'"):
        psconrl.fit(log, {"c1": 0.5}, costs=["c2"])
    assert psconrl.fit(log, {"c1": 0.5}, costs=["c0"]).cost_names == ("c0", "c1")
    text = log.astype(object)
    text.loc[2, "c1"] = "much"
    with pytest.raises(InvalidModelError, match=r"row 3 .*much"):
        fitted(cmdp, text)
    with pytest.raises(InvalidModelError):
        psconrl.fit(log.assign(action=None))
    numbered = log.assign(number=range(len(log)))[["number", *log.columns]]
    with pytest.raises(InvalidModelError, match="time"):
        psconrl.fit(numbered)
    assert psconrl.fit(numbered, time="number").cost_names[0] == "c0"


def test_an_estimate_on_file_is_the_same_and_is_a_model(tmp_path: Path) -> None:
    cmdp = small(1)
    estimate = fitted(cmdp, logged(cmdp, cmdp.uniform, 300, 0)[:-1].assign(who=0), stream="who", costs=["c0", "c1"])
    for model in (estimate, estimate.tightened(0.6, draws=50)):
        model.save(tmp_path / "m.npz")
        again = Estimate.load(tmp_path / "m.npz")
        assert again == model
        assert (again.confidence, again.issues.keys()) == (model.confidence, model.issues.keys())
        np.testing.assert_array_equal(again.limits, model.limits)
        np.testing.assert_array_equal(again.averages(cmdp.uniform, 20), model.averages(cmdp.uniform, 20))
        assert CMDP.load(tmp_path / "m.npz") == model
    cmdp.save(tmp_path / "plain.npz")
    with pytest.raises(ModelFileError):
        Estimate.load(tmp_path / "plain.npz")
    changed = Estimate.load(tmp_path / "m.npz", thresholds={"c1": 0.9})
    assert changed.thresholds.tolist() == [0.9]
    np.testing.assert_array_equal(changed.visits, estimate.visits)


def test_what_to_try_next_is_what_was_hardly_tried_where_time_is_spent() -> None:
    cmdp = psconrl.make("toy", tau=0.6).replace(state_names=["0", "1"], action_names=["0", "1"])
    log = logged(cmdp, np.array([[0.5, 0.5], [0.99, 0.01]]), 1000, 0)
    first = fitted(cmdp, log).to_try(most=1)
    assert (first["state"].item(), first["action"].item()) == ("1", "1")


def test_a_learner_starts_from_a_log() -> None:
    cmdp = small(2)
    estimate = fitted(cmdp, logged(cmdp, cmdp.uniform, 500, 0))
    learner = Learner(None, horizon=100, log=estimate)
    np.testing.assert_array_equal(learner.visits, estimate.visits)
    assert learner.t == 500
    state = estimate.state_names[0]
    for _ in range(100):
        action = learner.act(state)
        learner.observe(state, action, [0.5, 0.5], state)
    assert learner.visits.sum() == 600
    again = Learner.restore(learner.agent, learner.state())
    np.testing.assert_array_equal(again.visits, learner.visits)
    with pytest.raises(InvalidArgumentError):
        Learner(agents.PSConRL(psconrl.make("box").problem()), log=estimate)


def test_notebooks_show_tables_and_plots() -> None:
    cmdp = psconrl.make("toy", tau=0.6).replace(cost_names=["work <b>", "sleep"])
    estimate = fitted(cmdp, logged(cmdp, cmdp.uniform, 200, 0))
    run = psconrl.simulate(agents.Uniform(cmdp.problem()), cmdp, 50, 0)
    sweep = psconrl.threshold_sweep(cmdp, "sleep", points=4)
    learner = Learner(agents.Uniform(cmdp.problem()), 10)
    for shown in (cmdp, psconrl.solve(cmdp), psconrl.solve(cmdp, episode=3), sweep, run, estimate, learner):
        html = shown._repr_html_()
        assert "<div" in html
        assert "work <b>" not in html
    axes = sweep.plot()
    assert axes.get_xlabel().endswith("sleep")
    np.testing.assert_array_equal(axes.lines[0].get_ydata(), sweep.values)
    assert len(run.plot()) == len(estimate.plot()) == 2
    from matplotlib import pyplot

    pyplot.close("all")
