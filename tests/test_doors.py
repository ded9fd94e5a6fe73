"""Models from functions, rates and durations: known values of other people's books and libraries."""

from collections.abc import Callable, Hashable
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from scipy.optimize import linprog

import psconrl
from psconrl import CMDP, InvalidArgumentError, InvalidModelError


def forest(S: int) -> CMDP:
    """A forest of ages 0, ..., S - 1: wait, with fire one time in ten, or cut. Rewards are negative costs."""

    def step(age: int, action: str) -> list[tuple[float, int, float]]:
        if action == "cut":
            return [(1.0, 0, -2.0 if age == S - 1 else -1.0 if age else 0.0)]
        reward = -4.0 if age == S - 1 else 0.0
        return [(0.1, 0, reward), (0.9, min(age + 1, S - 1), reward)]

    return CMDP.from_function(0, lambda age: ["wait", "cut"], step)


@pytest.mark.parametrize(("S", "reward"), [(3, 3.24), (10, 1.549681956)])
def test_the_forest_of_a_toolbox(S: int, reward: float) -> None:
    assert psconrl.solve(forest(S)).value == pytest.approx(-reward, abs=1e-8)


@pytest.mark.parametrize(("discount", "value"), [(9 / 10, 18 / 5), (15 / 16, 15 / 4)])
def test_discounted_rewards_of_a_model_checker(discount: float, value: float) -> None:
    moves = {
        (0, "a"): [(1.0, 1, 0.0)],
        (0, "b"): [(1.0, 2, 0.0)],
        (1, "-"): [(1.0, 3, -4.0)],
        (2, "-"): [(0.8, 2, -1.0), (0.2, 3, -1.0)],
        (3, "-"): [(1.0, 3, 0.0)],
    }
    cmdp = CMDP.from_function(0, lambda s: [a for t, a in moves if t == s], lambda s, a: moves[s, a])
    assert psconrl.solve(cmdp, discount=discount).value == pytest.approx(-value, rel=1e-10)


def repaired_machine() -> CMDP:
    """Tijms, example 6.1.1: inspected daily, repaired in a day, or in two once it has failed."""
    Q = [[0.9, 0.1, 0, 0, 0], [0, 0.8, 0.1, 0.05, 0.05], [0, 0, 0.7, 0.1, 0.2], [0, 0, 0, 0.5, 0.5]]
    p, c = np.zeros((5, 3, 5)), np.zeros((1, 5, 3))
    p[:4, 0] = Q
    p[1:4, 1, 0] = p[4, 2, 0] = 1.0
    c[0, 1:4, 1], c[0, 4, 2] = [7, 7, 5], 10
    durations = np.ones((5, 3))
    durations[4, 2] = 2.0
    return CMDP(p, c, available=p.any(axis=2), durations=durations)


def travelled() -> CMDP:
    """Tijms, exercise 7.3: from town to town, (days, reward) of each way."""
    days = np.array([[1, 3, 6, 3, 2], [4, 1, 1, 7, 5], [5, 1, 1, 6, 8], [3, 8, 5, 1, 2], [2, 5, 9, 2, 1]])
    paid = np.array([[0, 8, 12, 6, 6], [20, 0, 2, 14, 16], [16, 2, 0, 18, 16], [6, 10, 20, 0, 6], [8, 16, 20, 8, 0]])
    p = np.broadcast_to(np.eye(5), (5, 5, 5))
    return CMDP(p, [-paid], available=~np.eye(5, dtype=bool), durations=days)


@pytest.mark.parametrize(("model", "value"), [(repaired_machine, 0.43378995433789954), (travelled, -4.0)])
def test_semi_markov_models_of_a_textbook(model: Callable[[], CMDP], value: float) -> None:
    solution = psconrl.solve(model())
    assert solution.value == pytest.approx(value, rel=1e-9)
    assert solution.average_costs[0] == pytest.approx(value, rel=1e-6)
    assert solution.proven


def test_markov_models_of_a_textbook() -> None:
    """Tijms, exercise 6.4: waste is emptied at 25 + 5 i, or removed at 30 where it is too much."""
    law = [1 / 8, 1 / 2, 1 / 4, 1 / 8]

    def step(i: int, action: str) -> list[tuple[float, int, float]]:
        if action == "empty":
            return [(q, k, 25.0 + 5 * i) for k, q in enumerate(law)]
        cost = 30 * sum(q * max(i + k - 4, 0) for k, q in enumerate(law))
        return [(q, min(i + k, 4), cost) for k, q in enumerate(law)]

    cmdp = CMDP.from_function(0, lambda i: ["nothing", "empty"] if i else ["nothing"], step)
    assert psconrl.solve(cmdp).value == pytest.approx(17.7686915887850460649, rel=1e-10)


def tandem(c: int) -> CMDP:
    """Two queues in a row, of c places each; the first server has two phases. The benchmark set's `tandem`."""
    places = [(n, phase, k) for n in range(c + 1) for phase in (1, 2) for k in range(c + 1)]
    number = {place: i for i, place in enumerate(places)}
    rates = np.zeros((len(places), 1, len(places)))
    for n, phase, k in places:
        jumps: list[tuple[float, Any]] = []
        if n < c:
            jumps.append((4.0 * c, (n + 1, phase, k)))
        if n and phase == 1:
            jumps.append((0.2, (n, 2, k)))
        if n and k < c:
            jumps.append((1.8 if phase == 1 else 2.0, (n - 1, 1, k + 1)))
        if k:
            jumps.append((4.0, (n, phase, k - 1)))
        for rate, target in jumps:
            rates[number[n, phase, k], 0, number[target]] = rate
    return CMDP.from_rates(rates, [[[n + k] for n, _, k in places]], initial=number[0, 1, 0])


def test_rates_of_a_benchmark_set() -> None:
    model = tandem(5)
    assert psconrl.solve(model).value == pytest.approx(5.679249959967679, rel=1e-10)
    found = psconrl.evaluate(model, model.uniform)
    assert found.average_costs[0] == pytest.approx(np.full(model.S, 5.679249959967679), rel=1e-10)


def random_semi_markov(seed: int) -> CMDP:
    rng = np.random.default_rng(seed)
    S, A = int(rng.integers(2, 5)), int(rng.integers(2, 4))
    p = rng.dirichlet(np.ones(S), (S, A))
    available = rng.random((S, A)) < 0.8
    available[:, 0] = True
    return CMDP(p, rng.random((2, S, A)), [rng.random()], available=available, durations=rng.random((S, A)) * 3 + 0.01)


@pytest.mark.parametrize("seed", range(15))
def test_durations_agree_with_the_program_in_decisions_per_unit_of_time(seed: int) -> None:
    cmdp = random_semi_markov(seed)
    assert cmdp.durations is not None
    S, A = cmdp.S, cmdp.A
    flow = np.kron(np.eye(S), np.ones((1, A))) - cmdp.matrix.toarray().T
    program = linprog(
        cmdp.costs[0].ravel(),
        A_ub=cmdp.costs[1:].reshape(1, -1),
        b_ub=cmdp.thresholds,
        A_eq=np.vstack([flow, cmdp.durations.ravel()]),
        b_eq=np.append(np.zeros(S), 1.0),
        bounds=[(0, None if a else 0) for a in cmdp.available.ravel()],
    )
    solution = psconrl.solve(cmdp)
    assert solution.feasible == (program.status == 0)
    # Decisions of the policy, followed by the chain of decisions, have the averages that the solution says.
    chain = psconrl.evaluate(cmdp.replace(durations=None), solution.policy).stationary[:, np.newaxis] * solution.policy
    per_time = (cmdp.costs * chain).sum(axis=(1, 2)) / (cmdp.durations * chain).sum()
    np.testing.assert_allclose(per_time, solution.average_costs, rtol=1e-6)
    np.testing.assert_allclose(psconrl.evaluate(cmdp, solution.policy).average_costs[:, 0], per_time, rtol=1e-7)
    if solution.feasible:
        assert solution.value == pytest.approx(program.fun, rel=1e-6, abs=1e-8)
        assert solution.multipliers == pytest.approx(-program.ineqlin.marginals, rel=1e-4, abs=1e-6)
        sweep = psconrl.threshold_sweep(cmdp, thresholds=cmdp.thresholds)
        assert sweep.values[0] == pytest.approx(solution.value, abs=1e-8)


def test_models_with_durations_are_kept_on_file_and_refused_where_steps_count(tmp_path: Any) -> None:
    cmdp = random_semi_markov(0)
    for name in ("m.npz", "m.json"):
        cmdp.save(tmp_path / name)
        assert CMDP.load(tmp_path / name) == cmdp
    for refused in (cmdp.problem, cmdp.rescaled, lambda: cmdp.save(tmp_path / "m.drn")):
        with pytest.raises(InvalidModelError):
            refused()
    with pytest.raises(InvalidArgumentError):
        psconrl.solve(cmdp, discount=0.9)
    assert cmdp.uniformized().rescaled().problem().S == cmdp.S
    with pytest.raises(InvalidModelError):
        CMDP(np.ones((1, 1, 1)), np.zeros((1, 1, 1)), durations=[[0.0]])
    with pytest.raises(InvalidModelError):
        CMDP.from_rates([[[0.0, -1.0]], [[1.0, 0.0]]], np.zeros((1, 2, 1)))


def test_functions_find_what_can_be_reached_with_its_names_and_say_what_is_wrong() -> None:
    told: list[tuple[int, int]] = []
    line = CMDP.from_function(
        ("a", 0),
        lambda s: ["on"] if s[1] < 2499 else ["back"],
        lambda s, a: [(1.0, ("a", s[1] + 1) if a == "on" else ("a", 0), (s[1], 1.0))],
        {"moves": 2.0},
        cost_names=["place", "moves"],
        progress=lambda done, found: told.append((done, found)),
    )
    assert (line.S, line.A, line.m, line.is_sparse) == (2500, 2, 1, True)
    assert line.state_names[7] == "('a', 7)"
    assert all(before < after for before, after in pairwise(told))
    start = CMDP.from_function({1: 0.25, "1": 0.75}, lambda s: [0], lambda s, a: [(0.5, s, 0), (0.5, s, 1)])
    assert start.state_names == ("1", "'1'")
    assert start.initial.tolist() == [0.25, 0.75]
    np.testing.assert_array_equal(start.costs, 0.5)

    def wrong(step: Callable[[Any, Any], Any], actions: Callable[[Any], list[Hashable]] = lambda s: ["go"]) -> str:
        with pytest.raises(psconrl.PsconrlError) as caught:
            CMDP.from_function("here", actions, step, max_states=50)
        return str(caught.value)

    assert "0.5" in wrong(lambda s, a: [(0.5, s, 0.0)])
    assert "here" in wrong(lambda s, a: [(1.0, s, [0.0, 1.0])])
    assert "here" in wrong(lambda s, a: [s])
    assert "here" in wrong(lambda s, a: [(1.0, s, np.nan)])
    assert "max_states" in wrong(lambda s, a: [(1.0, s + "e", 0.0)])
    assert "actions" in wrong(lambda s, a: [(1.0, s, 0.0)], lambda s: [])
