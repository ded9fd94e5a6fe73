"""Long-run averages that other tools publish, in small models written here.

Sources: Storm's LraMdpPrctlModelCheckerTest (cycle), pymdptoolbox's tests of relative value iteration (forest), and the
Quantitative Verification Benchmark Set (tandem).
"""

import numpy as np
import pytest

from psconrl import CMDP, solve
from psconrl._core.checks import Floats


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
