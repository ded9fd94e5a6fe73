"""The worlds that ask for exploration: their laws by hand or by drawing, their optima by scipy and in closed form."""

from math import comb
from typing import Any

import numpy as np
import pytest

import psconrl
from psconrl import structure
from psconrl.cmdp import CMDP, DENSE_STATES
from psconrl.environments import make
from psconrl.errors import InvalidArgumentError
from tests.environments.reference import go, optimum

SIZES = {
    "riverswim": (6, 2, 1),
    "media-streaming": (10, 2, 1),
    "inventory": (6, 6, 1),
    "access-control": (44, 2, 4),
    "hospital": (35, 4, 2),
}
WORLDS = list(SIZES)


def without_limits(cmdp: CMDP) -> psconrl.Evaluation:
    """The averages of the policy that is best without limits."""
    free = psconrl.solve(CMDP(cmdp.transitions, cmdp.costs[:1], initial=cmdp.initial, available=cmdp.available))
    return psconrl.evaluate(cmdp, free.policy)


@pytest.mark.parametrize("name", WORLDS)
def test_optimum_and_prices_by_scipy(name: str) -> None:
    world = make(name)
    assert (world.S, world.A, world.m) == SIZES[name]
    solution = psconrl.solve(world)
    value, prices = optimum(world)
    assert solution.value == pytest.approx(value, abs=1e-7)
    np.testing.assert_allclose(solution.multipliers, prices, atol=1e-5)
    assert solution.loss <= 1e-7
    assert (solution.average_costs[1:] <= world.thresholds + 1e-7).all()


@pytest.mark.parametrize("name", WORLDS)
def test_learners_can_take_them_as_they_are(name: str) -> None:
    world = make(name)
    for costs in ("known", "estimated"):
        assert world.problem(costs).S == world.S
    assert structure.communicating(world)
    assert structure.diameter(world) < 100
    assert (without_limits(world).average_costs[1:, 0] > world.thresholds).any()
    assert psconrl.solve(world).margin > 0.01


def test_river() -> None:
    river = make("riverswim")
    assert go(river, "place 0", "left") == ({"place 0": 1.0}, [0.995, 0.0])
    assert go(river, "place 3", "left") == ({"place 2": 1.0}, [1.0, 0.0])
    assert go(river, "place 0", "right")[0] == pytest.approx({"place 0": 0.6, "place 1": 0.4})
    law, costs = go(river, "place 2", "right")
    assert law == pytest.approx({"place 1": 0.05, "place 2": 0.55, "place 3": 0.4})
    assert costs == [1.0, 1.0]
    law, costs = go(river, "place 5", "right")
    assert law == pytest.approx({"place 4": 0.05, "place 5": 0.95})
    assert costs == [0.0, 1.0]


@pytest.mark.parametrize(("S", "tau"), [(2, 0.3), (6, 0.6), (6, 0.05), (12, 0.99), (25, 0.6)])
def test_optimum_of_the_river(S: int, tau: float) -> None:
    river = make("riverswim", S=S, tau=tau)
    q = 7 / 8 / (1 - 8.0**-S)
    value = 0.995 * (1 - tau) + (1 - q) * tau
    assert optimum(river)[0] == pytest.approx(value, abs=1e-9)
    solution = psconrl.solve(river)
    assert solution.value == pytest.approx(value, abs=1e-7)
    assert solution.multipliers[0] == pytest.approx(q - 0.005, abs=1e-6)
    assert solution.margin == pytest.approx(tau, abs=1e-7)
    if (S, tau) == (6, 0.6):
        assert value == pytest.approx(0.473, abs=3e-6)


def test_a_long_river_is_sparse() -> None:
    S = DENSE_STATES + 1
    long, short = make("riverswim", S=S), make("riverswim")
    assert long.is_sparse
    assert not short.is_sparse
    assert long.matrix.nnz == S + 3 * S - 2
    assert structure.communicating(long)


def test_media() -> None:
    media = make("media-streaming")
    law, costs = go(media, "4 in buffer", "fast")
    assert law == pytest.approx({"5 in buffer": 0.18, "4 in buffer": 0.74, "3 in buffer": 0.08})
    assert costs == [0.0, 1.0]
    law, costs = go(media, "0 in buffer", "slow")
    assert law == pytest.approx({"1 in buffer": 0.02, "0 in buffer": 0.98})
    assert costs == [1.0, 0.0]
    assert go(media, "9 in buffer", "fast")[0] == pytest.approx({"9 in buffer": 0.92, "8 in buffer": 0.08})
    assert psconrl.solve(media).value == pytest.approx(5 / 12, abs=1e-7)


@pytest.mark.parametrize("tau", [0.1, 0.3, 0.5, 0.8])
def test_optimum_of_media(tau: float) -> None:
    """What flows in flows out, as the docstring has it, but for the rare times when the buffer is full."""
    media = make("media-streaming", tau=tau)
    value = (0.7 - 0.8 * tau) / 0.72
    assert optimum(media)[0] == pytest.approx(value, abs=1e-7)
    assert psconrl.solve(media).value == pytest.approx(value, abs=1e-7)


def test_inventory() -> None:
    shop = make("inventory")
    law, costs = go(shop, "1 left", "order 2")
    assert law == pytest.approx({"3 left": 0.3, "2 left": 0.2, "1 left": 0.2, "0 left": 0.3})
    assert costs == pytest.approx([1 - 0.08 * (0.2 + 2 * 0.2 + 3 * 0.3), (8 + 3) / 19])
    law, costs = go(shop, "0 left", "order 0")
    assert law == pytest.approx({"0 left": 1.0})
    assert costs == pytest.approx([1.0, 0.0])
    assert go(shop, "0 left", "order 5")[1][1] == pytest.approx(1.0)
    assert go(shop, "5 left", "order 0")[1][1] == pytest.approx(5 / 19)
    assert shop.move_costs is not None
    assert np.asarray(shop.move_costs)[0, 1, 2, 2] == pytest.approx(1 - 0.08)  # one sold


def test_orders_that_do_not_fit_are_not_available() -> None:
    shop = make("inventory")
    np.testing.assert_array_equal(shop.available, [[x + a <= 5 for a in range(6)] for x in range(6)])
    assert not shop.transitions[~shop.available].any()


def test_optimum_of_inventory_is_that_with_orders_cut() -> None:
    """Where "order 5" means "fill up", nothing else can be done, and the optimum is the same."""
    shop = make("inventory")
    x, a = np.indices((6, 6))
    cut = np.minimum(a, 5 - x)
    assert shop.move_costs is not None
    whole = psconrl.CMDP(shop.transitions[x, cut], shop.move_costs[:, x, cut], shop.thresholds)
    mine, theirs = psconrl.solve(shop), psconrl.solve(whole)
    assert mine.value == pytest.approx(theirs.value, abs=1e-10)
    assert mine.margin == pytest.approx(theirs.margin, abs=1e-10)
    np.testing.assert_allclose(mine.multipliers, theirs.multipliers, atol=1e-8)


def test_access_control() -> None:
    farm = make("access-control")
    law, costs = go(farm, "0 free, priority 8", "accept")
    assert (law, costs) == go(farm, "0 free, priority 8", "reject")
    assert costs == [1.0, 0.0, 0.0, 0.0, 1.0]
    assert sum(law[f"3 free, priority {k}"] for k in (1, 2, 4, 8)) == pytest.approx(comb(10, 3) * 0.06**3 * 0.94**7)
    law, costs = go(farm, "9 free, priority 4", "accept")  # two busy servers then
    assert costs == [0.5, 0.0, 0.0, 0.0, 0.0]
    assert {name[:2]: p * 4 for name, p in law.items()} == pytest.approx(
        {"8 ": 0.94**2, "9 ": 2 * 0.06 * 0.94, "10": 0.06**2}
    )
    law, costs = go(farm, "10 free, priority 1", "reject")
    assert law == pytest.approx({f"10 free, priority {k}": 0.25 for k in (1, 2, 4, 8)})
    assert costs == [1.0, 1.0, 0.0, 0.0, 0.0]
    np.testing.assert_allclose(farm.initial[-4:], 0.25)


def test_limits_of_access_control() -> None:
    """By revenue alone the two lowest classes are turned away too often; three limits have a price, one has slack."""
    farm = make("access-control")
    share = 4 * without_limits(farm).average_costs[1:, 0]
    assert share == pytest.approx([1.0, 0.798, 0.118, 0.118], abs=1e-3)
    solution = psconrl.solve(farm)
    assert (solution.multipliers[:3] > 0.03).all()
    assert solution.multipliers[3] == 0
    assert solution.value == pytest.approx(0.669096, abs=1e-6)
    assert solution.margin == pytest.approx(0.0149, abs=1e-4)


def test_hospital_by_hand() -> None:
    ward = make("hospital")
    law, costs = go(ward, "beds 0, waiting 0", "admit")
    assert law == pytest.approx({"beds 0, waiting 0": 0.4, "beds 0, waiting 1": 0.4, "beds 0, waiting 2": 0.2})
    assert costs == [0.0, 0.0, 0.0]
    # One of two patients is admitted and stays with probability 0.88.
    law, costs = go(ward, "beds 0, waiting 2", "admit")
    assert law["beds 1, waiting 2"] == pytest.approx(0.88 * 0.4)
    assert costs == pytest.approx([1 / 7, 0.0, 0.0])
    # Both are, by overtime, and recover sooner.
    law, costs = go(ward, "beds 0, waiting 2", "overtime")
    assert law["beds 1, waiting 0"] == pytest.approx(2 * 0.8 * 0.2 * 0.4)
    assert costs == pytest.approx([0.0, 1.0, 0.0])
    # A full ward admits nobody; all who arrive are sent away.
    assert go(ward, "beds 6, waiting 4", "admit")[1] == pytest.approx([(4 + 3 * 0.8) / 7, 0.0, 0.0])
    # After a discharge the bed is taken at once; three wait, and of 0 to 3 who come all but one are sent away.
    law, costs = go(ward, "beds 6, waiting 4", "discharge")
    assert costs == pytest.approx([(3 + 3 * 0.38) / 7, 0.0, 0.3])
    assert law["beds 6, waiting 3"] == pytest.approx(0.88**6 * 0.4 * 0.7)
    assert go(ward, "beds 6, waiting 4", "transfer")[1] == pytest.approx([(3 + 3 * 1.2) / 7, 0.0, 0.0])
    for b, w, action in ((0, 2, "discharge"), (3, 0, "transfer")):
        assert go(ward, f"beds {b}, waiting {w}", action) == go(ward, f"beds {b}, waiting {w}", "admit")


def shift(rng: np.random.Generator, b: int, w: int, action: str) -> tuple[int, int, int, bool]:
    """One shift of the ward, patient by patient: beds, waiting, sent away, come back."""
    back = False
    if action == "discharge" and b:
        b -= 1
        back = bool(rng.random() < 0.3)
    sent_away = 0
    if action == "transfer":
        if w:
            w -= 1
            sent_away = 1
    else:
        for _ in range(2 if action == "overtime" else 1):
            if w and b < 6:
                w, b = w - 1, b + 1
    b -= int((rng.random(b) < (0.2 if action == "overtime" else 0.12)).sum())
    w += int(rng.choice(3, p=(0.4, 0.4, 0.2))) + back
    return b, min(w, 4), sent_away + max(w - 4, 0), back


@pytest.mark.parametrize(
    ("b", "w", "action"),
    [(4, 1, "admit"), (6, 3, "admit"), (3, 4, "overtime"), (5, 2, "overtime"), (6, 4, "discharge"), (2, 3, "transfer")],
)
def test_hospital_patient_by_patient(b: int, w: int, action: str) -> None:
    """Frequencies within four standard deviations of the model, where something is expected at all."""
    n = 4000
    rng = np.random.default_rng(1)
    drawn = [shift(rng, b, w, action) for _ in range(n)]
    law, costs = go(make("hospital"), f"beds {b}, waiting {w}", action)
    found: dict[str, int] = {}
    for beds, waiting, *_ in drawn:
        name = f"beds {beds}, waiting {waiting}"
        found[name] = found.get(name, 0) + 1
    assert set(found) <= set(law)
    for name, p in law.items():
        assert n * p < 5 or abs(found.get(name, 0) - n * p) <= 4 * np.sqrt(n * p * (1 - p))
    assert np.mean([back for *_, back in drawn]) == pytest.approx(costs[2], abs=0.04)
    sent_away = np.mean([away for _, _, away, _ in drawn])
    waiting = w - {"admit": min(1, 6 - b), "overtime": min(2, 6 - b)}.get(action, 1)
    assert (waiting + 3 * sent_away) / 7 == pytest.approx(costs[0], abs=0.02)


def test_both_limits_of_the_hospital_have_a_price() -> None:
    ward = make("hospital")
    spent = without_limits(ward).average_costs[1:, 0]
    assert (spent > ward.thresholds).all()
    solution = psconrl.solve(ward)
    assert (solution.multipliers > 0.2).all()
    assert solution.value == pytest.approx(0.049243, abs=1e-6)
    assert solution.average_costs[1:] == pytest.approx(ward.thresholds, abs=1e-7)


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("riverswim", {"S": 1}, "S is 1; it must be at least 2"),
        ("riverswim", {"tau": 2}, "tau is 2; it must be a number from 0 to 1"),
        ("media-streaming", {"tau": -0.1}, "tau is -0.1"),
        ("inventory", {"tau": "much"}, "tau is 'much'"),
        ("access-control", {"rejected": 0.5}, r"rejected is 0.5; it must be a list of 4 numbers from 0 to 1"),
        ("access-control", {"rejected": [0.5] * 3}, r"must be a list of 4 numbers"),
        ("access-control", {"rejected": "full"}, r"rejected is 'full'; it must be a list of 4 numbers"),
        ("access-control", {"rejected": [1, 1, 1.5, 1]}, r"rejected\[2\] is 1.5; it must be a number from 0 to 1"),
        ("hospital", {"overtime": float("nan")}, "overtime is nan"),
        ("hospital", {"readmissions": None}, "readmissions is None"),
    ],
)
def test_options_are_checked(name: str, options: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        make(name, **options)


def test_limits_can_be_chosen() -> None:
    assert make("access-control", rejected=np.full(4, 0.6)).thresholds.tolist() == pytest.approx([0.15] * 4)
    assert make("hospital", overtime=0.1, readmissions=0).thresholds.tolist() == [0.1, 0.0]
