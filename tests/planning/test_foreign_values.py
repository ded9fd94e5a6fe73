"""Long-run averages and discounted totals that other tools publish, in small models written here.

Sources: Storm's tests of long-run averages (cycle, fifteen states, clients), of several objectives (two places,
gathering), of Markov chains in continuous time (birth and death) and of discounted rewards; pymdptoolbox's tests of
relative value iteration (forest); the R package MDP2's tests of exercises in Tijms, A First Course in Stochastic Models
(repair, waste, tours); and the Quantitative Verification Benchmark Set (tandem, kanban).
"""

from collections.abc import Iterator

import numpy as np
import pytest

from psconrl import CMDP, solve
from psconrl._core.checks import Floats

Move = tuple[float, tuple[int, ...], list[float]]


def forest(S: int) -> CMDP:
    """Wait, and lose everything to a fire once in ten years, or cut: rewards 4 for the oldest, 1 and 2 for wood."""
    p, reward = np.zeros((S, 2, S)), np.zeros((S, 2))
    for s in range(S):
        p[s, 0, min(s + 1, S - 1)] += 0.9
        p[s, 0, 0] += 0.1
        p[s, 1, 0] = 1.0
    reward[1:, 1], reward[-1] = 1.0, [4.0, 2.0]
    return CMDP(p, -reward[np.newaxis])


def tandem(c: int) -> CMDP:
    """Two queues of c places in a row, the first with a server of two phases; uniformized."""
    number = {(x, phase, y): k for k, (x, phase, y) in enumerate(np.ndindex(c + 1, 2, c + 1))}
    rates: Floats = np.zeros((len(number), len(number)))
    for (x, phase, y), k in number.items():
        if x < c:
            rates[k, number[x + 1, phase, y]] += 4.0 * c
        if x > 0 and phase == 0:
            rates[k, number[x, 1, y]] += 0.2
        if x > 0 and y < c:
            rates[k, number[x - 1, 0, y + 1]] += 1.8 if phase == 0 else 2.0
        if y > 0:
            rates[k, number[x, phase, y - 1]] += 4.0
    p = rates / rates.sum(axis=1).max()
    p[np.arange(len(p)), np.arange(len(p))] = 1.0 - p.sum(axis=1)
    customers = np.array([[x + y] for x, _, y in number], dtype=np.float64)
    return CMDP(p[:, np.newaxis], customers[np.newaxis])


@pytest.mark.parametrize(("states", "least", "most"), [([2], 0.0, 1 / 3), ([0], 1 / 3, 1 / 2), ([0, 2], 1 / 2, 2 / 3)])
def test_a_cycle_with_a_short_cut(states: list[int], least: float, most: float) -> None:
    p = np.zeros((3, 2, 3))
    p[0, :, 1] = p[2, :, 0] = p[1, 0, 0] = p[1, 1, 2] = 1.0
    share = np.zeros((1, 3, 2))
    share[0, states] = 1.0
    assert solve(CMDP(p, share)).value == pytest.approx(least, abs=1e-9)
    assert -solve(CMDP(p, -share)).value == pytest.approx(most, abs=1e-9)


@pytest.mark.parametrize(("S", "reward"), [(3, 3.24), (10, 1.549681956)])
def test_forest(S: int, reward: float) -> None:
    assert -solve(forest(S)).value == pytest.approx(reward, abs=1e-8)


def test_tandem() -> None:
    assert solve(tandem(5)).value == pytest.approx(5.679249959967679, abs=1e-9)


FIFTEEN: list[list[dict[int, float]]] = [
    [{1: 1.0}],
    [{0: 1.0}, {2: 1.0}, {4: 0.7, 6: 0.3}],
    [{0: 1.0}],
    [{4: 1.0}, {5: 0.8, 9: 0.2}],
    [{3: 1.0}, {5: 1.0}],
    [{3: 1.0}],
    [{7: 1.0}],
    [{6: 1.0}, {8: 1.0}],
    [{6: 1.0}],
    [{10: 1.0}],
    [{9: 1.0}, {11: 1.0}],
    [{9: 1.0}],
    [{5: 0.4, 8: 0.3, 11: 0.3}],
    [{7: 0.7, 12: 0.3}],
    [{12: 0.1, 13: 0.9}, {12: 1.0}],
]
"""For each state the moves of its actions, {next state: probability}."""


@pytest.mark.parametrize(
    ("start", "least", "most"),
    [(0, 0.1, 37 / 60), (3, 0.0, 2 / 3), (6, 1 / 3, 1 / 2), (12, 0.1, 31 / 60), (13, 79 / 300, 101 / 200)],
)
def test_fifteen_states_in_several_places(start: int, least: float, most: float) -> None:
    p, available = np.zeros((15, 3, 15)), np.zeros((15, 3), dtype=np.bool_)
    for s, actions in enumerate(FIFTEEN):
        for a, moves in enumerate(actions):
            available[s, a] = True
            for x, probability in moves.items():
                p[s, a, x] = probability
    share = np.zeros((1, 15, 3))
    share[0, [1, 4, 5, 7, 11, 13, 14]] = 1.0
    assert solve(CMDP(p, share, initial=start, available=available)).value == pytest.approx(least, abs=1e-9)
    assert -solve(CMDP(p, -share, initial=start, available=available)).value == pytest.approx(most, abs=1e-9)


def clients() -> CMDP:
    """Three clients ask a server for its only resource; one in ten cancels without asking. What counts are grants.

    States are the server (0 idle, 1 asked, 2 serving, 3 asked while serving), whom it serves, who asked meanwhile, and
    the clients (-1 undecided, 0 idle, 1 waiting, 2 served, 3 about to cancel).
    """

    def commands(state: tuple[int, ...]) -> Iterator[tuple[str, list[Move]]]:
        s, i, j, *c = state
        if s == 0 and c == [1, 1, 1]:
            yield "deadlock", [(1.0, state, [0.0])]
        for k in (1, 2, 3):

            def move(server: tuple[int, int, int], own: int, k: int = k, c: list[int] = c) -> tuple[int, ...]:
                return *server, *c[: k - 1], own, *c[k:]

            own, here = c[k - 1], (s, i, j)
            if own == -1:
                yield f"decide {k}", [(0.9, move(here, 0), [0.0]), (0.1, move(here, 3), [0.0])]
            if own == 0 and s in (0, 2):
                yield f"ask {k}", [(1.0, move((1, k, j) if s == 0 else (3, i, k), 1), [0.0])]
            if own == 1 and s == 1 and i == k:
                yield f"grant {k}", [(1.0, move((2, i, j), 2), [-1.0])]
            if own == 1 and s == 3 and j == k:
                yield f"deny {k}", [(1.0, move((2, i, 0), 0), [0.0])]
            if own == 2:
                yield f"use {k}", [(1.0, state, [0.0])]
            if own in (2, 3) and s in (0, 2):
                left = (0, 0, j) if s == 2 and i == k else here
                yield f"cancel {k}", [(1.0, move(left, 0 if own == 2 else 1), [0.0])]

    return CMDP.from_function(
        (0, 0, 0, -1, -1, -1),
        lambda state: [name for name, _ in commands(state)],
        lambda state, action: dict(commands(state))[action],
    )


def test_clients_of_one_server() -> None:
    cmdp = clients()
    assert cmdp.S == 184
    assert -solve(cmdp).value == pytest.approx(0.333, abs=1e-9)
    assert solve(cmdp.replace(costs=-cmdp.costs)).value == pytest.approx(0.0, abs=1e-9)


def test_two_places_and_two_objectives() -> None:
    """The most of the second reward: at any price, and where the first one must be five."""
    p, available = np.zeros((4, 2, 4)), np.array([[True, True], [True, True], [True, True], [True, False]])
    p[0, 0, [0, 1]], p[0, 1, [0, 3]], p[1, 0, 1], p[1, 1, 2] = 0.5, [0.2, 0.8], 1.0, 1.0
    p[2, 0, 2], p[2, 1, [1, 2]], p[3, 0, 3] = 1.0, [0.1, 0.9], 1.0
    first, second = np.zeros((4, 2)), np.zeros((4, 2))
    first[0], first[1], first[2, 1] = 1.0, 5.0, 5.0
    second[0], second[2] = 1.0, [16.0, 8.0]
    cmdp = CMDP(p, [-second, -first], [-5.0], available=available)
    assert -solve(cmdp).value == pytest.approx(80 / 11, abs=1e-8)
    assert -solve(cmdp.replace(thresholds=[0.0])).value == pytest.approx(16.0, abs=1e-8)


def gathering() -> CMDP:
    """Gold and a gem to be brought home on a grid of 5 x 5; two places are guarded, and attacks cost what one has."""
    gold_at, gem_at, home = (3, 5), (5, 4), (3, 1)
    ways = {"right": (1, 0), "left": (-1, 0), "top": (0, 1), "down": (0, -1)}
    guarded = {"right": {(3, 5), (2, 4)}, "left": {(5, 5), (4, 4)}, "top": {(3, 3), (4, 4)}, "down": {(3, 5)}}

    def actions(state: tuple[int, ...]) -> list[str]:
        x, y, *_ = state
        return [name for name, (dx, dy) in ways.items() if 1 <= x + dx <= 5 and 1 <= y + dy <= 5]

    def step(state: tuple[int, ...], action: str) -> list[Move]:
        x, y, gold, gem, attacked = state
        there = x + ways[action][0], y + ways[action][1]
        brought = there == home
        costs = [-float(brought and gold), -float(brought and gem), float(attacked)]
        has_gold = int(there == gold_at or (gold and not brought))
        has_gem = int(there == gem_at or (gem and not brought))
        arrives = *there, has_gold, has_gem, 0
        if (x, y) in guarded[action]:
            return [(0.1, (*home, 0, 0, 1), costs), (0.9, arrives, costs)]
        return [(1.0, arrives, costs)]

    return CMDP.from_function((*home, 0, 0, 0), actions, step, [0.0, 1.0])


@pytest.mark.parametrize(
    ("gem", "attacks", "gold"),
    [(0.0, 1.0, 27 / 241), (27 / 349, 1.0, 27 / 349), (0.0, 19 / 723, 27 / 241), (0.0, 1 / 93, 3 / 31), (0, 0, 1 / 12)],
)
def test_gathering(gem: float, attacks: float, gold: float) -> None:
    """The most gold, where so much of the gem is wanted and there are no more attacks than so many."""
    cmdp = gathering()
    assert cmdp.S == 94
    assert -solve(cmdp.replace(thresholds=[-gem, attacks])).value == pytest.approx(gold, abs=1e-9)


def test_birth_and_death() -> None:
    rates = np.diag(np.full(3, 1.5), 1) + np.diag(np.full(3, 3.0), -1)
    cmdp = CMDP.from_rates(rates[:, np.newaxis], np.arange(4.0)[np.newaxis, :, np.newaxis])
    assert solve(cmdp).value == pytest.approx(11 / 15, abs=1e-12)


@pytest.mark.parametrize(("discount", "reward"), [(9 / 10, 18 / 5), (15 / 16, 15 / 4)])
def test_a_reward_at_once_or_later(discount: float, reward: float) -> None:
    p, rewards = np.zeros((4, 2, 4)), np.zeros((4, 2))
    p[0, 0, 1] = p[0, 1, 2] = 1.0
    p[1, :, 3] = p[3, :, 3] = 1.0
    p[2, :, [2, 3]] = [[0.8], [0.2]]
    rewards[1], rewards[2] = 4.0, 1.0
    assert -solve(CMDP(p, -rewards[np.newaxis]), discount=discount).value == pytest.approx(reward, abs=1e-8)


def test_repair() -> None:
    """Five conditions; a forced repair in the last one takes two days, at 10, a preventive one a day, at 7 or 5."""
    p, costs, durations = np.zeros((5, 2, 5)), np.zeros((1, 5, 2)), np.ones((5, 2))
    p[:4, 0] = [[0.9, 0.1, 0, 0, 0], [0, 0.8, 0.1, 0.05, 0.05], [0, 0, 0.7, 0.1, 0.2], [0, 0, 0, 0.5, 0.5]]
    p[4, 0, 0] = p[1:, 1, 0] = 1.0
    costs[0, 4, 0], durations[4, 0], costs[0, 1:, 1] = 10.0, 2.0, [7.0, 7.0, 5.0, 0.0]
    available = np.array([[True, False], *[[True, True]] * 3, [True, False]])
    p[0, 1, 0] = 1.0
    cmdp = CMDP(p, costs, durations=durations, available=available)
    assert solve(cmdp).value == pytest.approx(0.4337899543379, abs=1e-9)


def test_waste() -> None:
    """A tank for four loads: what comes in excess costs 30 a load, emptying it 25 and 5 a load."""
    arrivals = [1 / 8, 1 / 2, 1 / 4, 1 / 8]
    p, costs = np.zeros((5, 2, 5)), np.zeros((1, 5, 2))
    for i in range(5):
        for k, probability in enumerate(arrivals):
            p[i, 0, min(i + k, 4)] += probability
            p[i, 1, k] += probability
            costs[0, i, 0] += 30 * probability * max(i + k - 4, 0)
        costs[0, i, 1] = 25 + 5 * i
    assert solve(CMDP(p, costs)).value == pytest.approx(17.768691588785046, abs=1e-8)


def test_tours() -> None:
    """Five towns; from each to each other one it takes some time, and earns something."""
    days = [[1, 3, 6, 3, 2], [4, 1, 1, 7, 5], [5, 1, 1, 6, 8], [3, 8, 5, 1, 2], [2, 5, 9, 2, 1]]
    earned = [[0, 8, 12, 6, 6], [20, 0, 2, 14, 16], [16, 2, 0, 18, 16], [6, 10, 20, 0, 6], [8, 16, 20, 8, 0]]
    p = np.tile(np.eye(5), (5, 1, 1))
    cmdp = CMDP(p, -np.array([earned]), durations=np.array(days), available=~np.eye(5, dtype=np.bool_))
    assert -solve(cmdp).value == pytest.approx(4.0, abs=1e-9)


def kanban(tokens: int) -> CMDP:
    """Four cells of a factory, each with work waiting, in process, being redone and done; uniformized.

    The throughput is how often work enters the first cell.
    """
    redo, done = (0.36, 0.42, 0.39, 0.33), (0.84, 0.98, 0.91, 0.77)

    def jumps(state: tuple[int, ...]) -> Iterator[tuple[float, tuple[int, ...]]]:
        def after(**changes: int) -> tuple[int, ...]:
            new = list(state)
            for name, change in changes.items():
                new[4 * (int(name[1]) - 1) + "wxyz".index(name[0])] += change
            return tuple(new)

        w, x, y, z = state[0::4], state[1::4], state[2::4], state[3::4]
        room = [w[k] < tokens and x[k] < tokens for k in range(4)]
        ready = [w[k] > 0 and z[k] > 0 for k in range(4)]
        for k in range(4):
            if x[k] and y[k] < tokens:
                yield redo[k], after(**{f"x{k + 1}": -1, f"y{k + 1}": 1})
            if x[k] and z[k] < tokens:
                yield done[k], after(**{f"x{k + 1}": -1, f"z{k + 1}": 1})
            if y[k] and x[k] < tokens:
                yield 0.3, after(**{f"y{k + 1}": -1, f"x{k + 1}": 1})
        if room[0]:
            yield 1.0, after(w1=1, x1=1)
        if ready[0] and room[1] and room[2]:
            yield 0.4, after(z1=-1, w1=-1, w2=1, x2=1, w3=1, x3=1)
        if ready[1] and ready[2] and room[3]:
            yield 0.5, after(z2=-1, w2=-1, z3=-1, w3=-1, w4=1, x4=1)
        if ready[3]:
            yield 0.9, after(z4=-1, w4=-1)

    def step(state: tuple[int, ...], _: str) -> list[tuple[float, tuple[int, ...], float]]:
        moves, entering = list(jumps(state)), float(max(state[:2]) < tokens)
        stay = 1.0 - sum(rate for rate, _ in moves) / fastest
        return [*((rate / fastest, there, entering) for rate, there in moves), (stay, state, entering)]

    fastest = 1.0 + 0.4 + 0.5 + 0.9 + sum(redo) + sum(done) + 1.2
    return CMDP.from_function((0,) * 16, lambda _: ["wait"], step)


def test_kanban() -> None:
    cmdp = kanban(1)
    assert cmdp.S == 160
    assert solve(cmdp).value == pytest.approx(0.0925846346333826, abs=1e-11)
