"""Discounted totals, episodes and durations against linear programs and values from elsewhere."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from scipy import sparse
from scipy.optimize import linprog

import psconrl
from psconrl import CMDP, InvalidArgumentError, InvalidModelError, UnknownNameError
from psconrl._core.checks import Floats

DISCOUNTS = (0.0, 0.5, 0.9, 0.99, 0.999, 0.9999)
EPISODES = (1, 2, 3, 7, 20, 50)
TOLERANCE = 1e-5
"""Relative, for totals and prices; of the range of a cost over a run."""


def random_model(seed: int) -> CMDP:
    """Up to 6 states, 4 actions and 3 limits; sparse or deterministic moves, actions missing, several starts."""
    rng = np.random.default_rng(seed)
    S, A, m = int(rng.integers(1, 7)), int(rng.integers(1, 5)), int(rng.integers(0, 4))
    p = rng.dirichlet(np.full(S, 0.3), (S, A)) if rng.random() < 0.7 else np.eye(S)[rng.integers(S, size=(S, A))]
    available = rng.random((S, A)) < 0.8
    available[np.arange(S), rng.integers(A, size=S)] = True
    initial: Any = rng.dirichlet(np.ones(S)) if rng.random() < 0.5 else int(rng.integers(S))
    costs = rng.random((m + 1, S, A)) - 0.3
    costs = costs.round(1) if rng.random() < 0.3 else costs * 10.0 ** rng.integers(-2, 4)
    tau = costs[1:].min(axis=(1, 2)) + np.ptp(costs[1:], axis=(1, 2)) * rng.uniform(0.1, 0.8, m)
    return CMDP(p, costs, tau, initial=initial, available=available)


def occupancy_program(cmdp: CMDP, criterion: dict[str, Any], limited: Sequence[int], margin: bool = False) -> Any:
    """The program in discounted visits of (state, action), or in visits of (time, state, action).

    limited: the limits to keep. margin: for the largest amount by which all of them can be kept, with its sign changed.
    """
    H, discount = criterion.get("episode", 1), criterion.get("discount", 0.0)
    S, A = cmdp.S, cmdp.A
    here = sparse.kron(sparse.eye(H * S), np.ones((1, A)))
    flow = here - sparse.kron(np.eye(H, k=-1) if "episode" in criterion else discount * np.eye(1), cmdp.matrix.T)
    costs = np.tile(cmdp.costs.reshape(cmdp.m + 1, -1), H)
    spent, tau, goal = costs[list(limited)], cmdp.thresholds[np.array(limited, dtype=int) - 1], costs[0]
    bounds: list[Any] = [(0, None if a else 0) for a in np.tile(cmdp.available.ravel(), H)]
    if margin:
        flow = sparse.hstack([flow, sparse.csr_array((H * S, 1))])
        spent, goal = np.hstack([spent, np.ones((len(spent), 1))]), np.append(0.0 * goal, -1.0)
        bounds.append((None, None))
    start = np.append(cmdp.initial, np.zeros((H - 1) * S))
    limits = {"A_ub": spent, "b_ub": tau} if len(limited) else {}
    return linprog(goal, A_eq=flow.tocsr(), b_eq=start, bounds=bounds, **limits)


def policy_totals(cmdp: CMDP, policy: Floats, criterion: dict[str, Any]) -> Floats:
    """The totals (m + 1,) of a policy from the initial distribution, by linear algebra or step by step."""
    P = cmdp.matrix.toarray().reshape(cmdp.S, cmdp.A, cmdp.S)
    if "discount" in criterion:
        chain = np.einsum("sa,sat->st", policy, P)
        cost = np.einsum("isa,sa->si", cmdp.costs, policy)
        return cmdp.initial @ np.linalg.solve(np.eye(cmdp.S) - criterion["discount"] * chain, cost)
    here, total = cmdp.initial, np.zeros(cmdp.m + 1)
    for layer in policy:
        total = total + np.einsum("s,sa,isa->i", here, layer, cmdp.costs)
        here = np.einsum("s,sa,sat->t", here, layer, P)
    return total


def least_priced(cmdp: CMDP, prices: Floats, criterion: dict[str, Any]) -> float:
    """The dual function: the least total of c_0 + prices (c - tau), by policy iteration or backward induction."""
    P = cmdp.matrix.toarray().reshape(cmdp.S, cmdp.A, cmdp.S)
    cost = np.where(cmdp.available, np.tensordot(np.append(1.0, prices), cmdp.costs, axes=1), np.inf)
    if "episode" in criterion:
        value = np.zeros(cmdp.S)
        for _ in range(criterion["episode"]):
            value = (cost + P @ value).min(axis=1)
    else:
        g, states, policy = criterion["discount"], np.arange(cmdp.S), cost.argmin(axis=1)
        for _ in range(1000):
            value = np.linalg.solve(np.eye(cmdp.S) - g * P[states, policy], cost[states, policy])
            q = cost + g * P @ value
            better = q.min(axis=1) < q[states, policy] - 1e-13 * np.abs(value).max()
            if not better.any():
                break
            policy = np.where(better, q.argmin(axis=1), policy)
    return float(cmdp.initial @ value - prices @ cmdp.thresholds)


def check_sweep(cmdp: CMDP, criterion: dict[str, Any], off: Floats) -> None:
    """Hold the sweep of the last limit, at the limit itself and where it is least, against the programs."""
    m = cmdp.m
    others = range(1, m)
    swapped = cmdp.replace(costs=np.roll(cmdp.costs, 1, axis=0), thresholds=[0.0, *cmdp.thresholds[:-1]])
    least = occupancy_program(swapped, criterion, range(2, m + 1))
    if least.status == 2:
        with pytest.raises(InvalidModelError):
            psconrl.threshold_sweep(cmdp, m, [cmdp.thresholds[-1]], **criterion)
        return
    sweep = psconrl.threshold_sweep(cmdp, m, [cmdp.thresholds[-1]], **criterion)
    assert abs(sweep.least - least.fun) <= off[m]
    program = occupancy_program(cmdp, criterion, [*others, m])
    if program.status == 0 and np.isfinite(sweep.values[0]):
        assert abs(sweep.values[0] - program.fun) <= off[0]
        assert abs(least_priced(cmdp, sweep.multipliers[0], criterion) - program.fun) <= off[0]
    elif abs(cmdp.thresholds[-1] - sweep.least) > off[m]:
        assert program.status == 2
        assert np.isnan(sweep.values[0])
    free = occupancy_program(cmdp, criterion, others)
    at_idle = cmdp.with_limits({cmdp.cost_names[m]: sweep.idle + 0.1 * off[m]})
    assert occupancy_program(at_idle, criterion, [*others, m]).fun <= free.fun + off[0]


def check_totals(seed: int, criterion: dict[str, Any]) -> str:
    """Hold a solution against the programs; what its status is."""
    length = criterion.get("episode") or 1 / (1 - criterion["discount"])
    model = random_model(seed)
    cmdp, m = model.replace(thresholds=model.thresholds * length), model.m
    every = range(1, m + 1)
    solution = psconrl.solve(cmdp, **criterion)
    ranges = length * np.maximum(np.ptp(cmdp.pairs.taken(cmdp.costs), axis=1), 1e-9)
    off = TOLERANCE * np.maximum(ranges, length * np.abs(cmdp.pairs.taken(cmdp.costs)).max(axis=1))
    assert solution.total_costs is not None
    np.testing.assert_array_less(np.abs(policy_totals(cmdp, solution.policy, criterion) - solution.total_costs), off)
    evaluated = psconrl.evaluate(cmdp, solution.policy, **criterion).total_costs @ cmdp.initial
    np.testing.assert_array_less(np.abs(evaluated - solution.total_costs), off)
    if m:
        check_sweep(cmdp, criterion, off)
        margin = -occupancy_program(cmdp, criterion, every, margin=True).fun
        assert abs(solution.margin - margin) <= off[1:].max()
        if abs(margin) > off[1:].max():
            assert solution.feasible == (margin > 0)
    else:
        assert solution.margin == np.inf
    if not solution.feasible:
        conflict = list(solution.conflict)
        assert conflict
        assert occupancy_program(cmdp, criterion, conflict).status == 2
        for i in conflict:
            assert occupancy_program(cmdp, criterion, [k for k in conflict if k != i]).status == 0
        assert (solution.total_costs[1:] - cmdp.thresholds).max() <= -solution.margin + off.max()
        return "infeasible"
    program = occupancy_program(cmdp, criterion, every)
    assert abs(solution.value - program.fun) <= off[0]
    # The certificate: nobody can do better than value - gap, and the prices prove it.
    assert solution.proven
    assert program.fun >= solution.value - solution.gap - 0.01 * off[0]
    assert (solution.multipliers >= 0).all()
    assert abs(least_priced(cmdp, solution.multipliers, criterion) - program.fun) <= off[0]
    assert (solution.total_costs[1:] <= cmdp.thresholds + off[1:]).all()
    assert abs(solution.loss) <= off[0]
    mean, weight = np.zeros(m + 1), 0.0
    for member in solution.mixture:
        mine = policy_totals(cmdp, np.eye(cmdp.A)[member.policy], criterion)
        np.testing.assert_array_less(np.abs(mine - length * member.average_costs), off)
        mean, weight = mean + member.weight * mine, weight + member.weight
    assert weight == pytest.approx(1.0)
    assert len(solution.mixture) <= m + 1
    assert abs(mean[0] - program.fun) <= off[0]
    assert (mean[1:] <= cmdp.thresholds + off[1:]).all()
    return "optimal"


def criterion_of(seed: int) -> dict[str, Any]:
    return {"episode": EPISODES[seed // 2 % 6]} if seed % 2 else {"discount": DISCOUNTS[seed // 2 % 6]}


@pytest.mark.parametrize("seed", range(48))
def test_totals_are_those_of_the_occupancy_program(seed: int) -> None:
    check_totals(seed, criterion_of(seed))


@pytest.mark.long
def test_totals_of_a_thousand_models() -> None:
    found = [check_totals(seed, criterion_of(seed)) for seed in range(1000, 2000)]
    assert found.count("infeasible") > 100


def test_discounted_totals_of_a_policy_are_those_of_linear_algebra() -> None:
    for seed in range(20):
        cmdp = random_model(seed)
        pi = cmdp.uniform
        direct = np.linalg.solve(
            np.eye(cmdp.S) - 0.97 * cmdp.policy_matrix(pi).toarray(), np.einsum("isa,sa->si", cmdp.costs, pi)
        ).T
        found = psconrl.evaluate(cmdp, pi, discount=0.97)
        np.testing.assert_allclose(found.total_costs, direct, rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(found.average_costs, 0.03 * direct, rtol=1e-9, atol=1e-9)


def test_states_that_are_never_met_have_the_best_action() -> None:
    # From state 0 nobody comes to 1 and 2, where action 1 is better.
    p = np.zeros((3, 2, 3))
    p[0, :, 0] = p[1, :, 2] = p[2, :, 1] = 1.0
    cmdp = CMDP(p, [[[0.0, 1.0], [1.0, 0.0], [1.0, 0.5]]])
    assert psconrl.solve(cmdp, discount=0.9).policy.argmax(axis=1).tolist() == [0, 1, 1]
    assert psconrl.solve(cmdp, episode=3).policy.argmax(axis=2).tolist() == [[0, 1, 1]] * 3


def test_sweeps_of_totals_take_names_and_give_the_values_of_solve() -> None:
    cmdp = psconrl.make("toy", tau=0.5)
    for criterion in ({"discount": 0.8}, {"episode": 6}):
        named = cmdp.replace(cost_names=["work", "sleep"])
        sweep = psconrl.threshold_sweep(named, "sleep", points=5, **criterion)
        for tau, value, price in zip(sweep.thresholds, sweep.values, sweep.multipliers, strict=True):
            solution = psconrl.solve(named.replace(thresholds=[tau + 1e-9]), **criterion)
            assert solution.value == pytest.approx(value, abs=1e-7)
            if sweep.least < tau < sweep.idle:
                assert price == pytest.approx(solution.multipliers, abs=1e-6)
    with pytest.raises(UnknownNameError):
        psconrl.threshold_sweep(named, "slep")


def test_limits_on_totals_that_cannot_be_met_have_nearest_ones_that_can() -> None:
    cmdp = psconrl.make("toy", tau=0.1)
    for criterion in ({"discount": 0.8}, {"episode": 6}):
        near = psconrl.nearest_limits(cmdp, psconrl.solve(cmdp, **criterion)).together
        assert psconrl.solve(cmdp.replace(thresholds=near + 1e-9), **criterion).feasible
        assert not psconrl.solve(cmdp.replace(thresholds=near - 1e-3), **criterion).feasible


def test_explanations_are_zero_where_the_policy_acts_and_never_negative_at_its_prices() -> None:
    for seed in range(12):
        cmdp = random_model(100 + seed)
        for criterion in ({}, {"discount": 0.9}, {"episode": 4}):
            solution = psconrl.solve(cmdp, **criterion)
            if not solution.feasible:
                continue
            met = solution.occupancy.sum(axis=-1) > 1e-6
            for *step, s in np.argwhere(met):
                rows = solution.explain(int(s), *(int(t) + 1 for t in step))
                for row in rows:
                    assert row.priced >= -1e-6
                    if row.probability > 0:
                        assert row.priced == pytest.approx(0.0, abs=1e-6)
                shares = np.array([row.probability for row in rows])
                extra = np.array([row.extra_costs for row in rows])
                np.testing.assert_allclose(shares @ extra, 0.0, atol=1e-7)


def test_odd_criteria_are_refused() -> None:
    toy = psconrl.make("toy")
    for wrong in ({"discount": 1.0}, {"discount": 0.9, "episode": 3}, {"episode": 0}, {"horizon": 5, "episode": 5}):
        with pytest.raises(InvalidArgumentError):
            psconrl.solve(toy, **wrong)
    with pytest.raises(InvalidArgumentError):
        psconrl.solve(psconrl.make("queue"), episode=10**9)
    with pytest.raises(InvalidModelError):
        psconrl.evaluate(toy, np.zeros((3, 1, 1)), episode=3)


def test_rules_say_what_they_cost_where_the_policy_randomises() -> None:
    toy = psconrl.make("toy", tau=0.6)
    exact = psconrl.solve(toy.replace(thresholds=[2.0])).rules()
    assert exact.exact
    np.testing.assert_allclose(exact.costs, exact.before, atol=1e-9)
    random = psconrl.solve(toy)
    found = random.rules()
    assert not found.exact
    np.testing.assert_allclose(found.costs, psconrl.evaluate(toy, found.policy).average_costs[:, 0], atol=1e-12)
    assert str(found).count("\n") >= 1
    discounted = psconrl.solve(toy.replace(thresholds=[2.5]), discount=0.8).rules()
    totals = psconrl.evaluate(toy, discounted.policy, discount=0.8).total_costs @ toy.initial
    np.testing.assert_allclose(discounted.costs, totals)
    with pytest.raises(InvalidArgumentError):
        psconrl.solve(toy, episode=3).rules()
