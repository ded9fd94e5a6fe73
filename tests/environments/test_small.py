import pytest

from psconrl._core import graph
from psconrl.environments import make
from psconrl.errors import InvalidArgumentError
from tests.environments.reference import go, optimum


def test_toy() -> None:
    toy = make("toy")
    assert go(toy, "left", "go") == ({"left": pytest.approx(0.1), "right": 0.9}, [0.0, 1.0])
    assert go(toy, "left", "stay")[0] == {"left": 1.0}
    for action in toy.action_names:
        assert go(toy, "right", action) == ({"left": 1.0}, [1.0, 0.0])
    assert graph.is_communicating(toy.matrix)


@pytest.mark.parametrize(("theta", "tau"), [(0.9, 0.5275), (0.9, 0.9), (0.3, 0.8), (1.0, 0.5)])
def test_optimum_of_toy(theta: float, tau: float) -> None:
    assert optimum(make("toy", theta=theta, tau=tau))[0] == pytest.approx(1 - tau, abs=1e-9)


def test_toy_checks_its_options() -> None:
    with pytest.raises(InvalidArgumentError, match=r"theta is 1.5; it must be a number from 0 to 1"):
        make("toy", theta=1.5)
    with pytest.raises(InvalidArgumentError, match="tau is nan"):
        make("toy", tau=float("nan"))


def test_queue() -> None:
    queue = make("queue")
    assert (queue.S, queue.A, queue.m) == (6, 16, 2)
    assert queue.action_names[1] == "a=0.2 b=0.5"
    law, costs = go(queue, "x=2", "a=0.2 b=0.7")
    assert law == pytest.approx({"x=3": 0.56, "x=1": 0.06, "x=2": 0.38})
    assert costs == pytest.approx([0.4, 0.2, 0.09])
    assert go(queue, "x=0", "a=0.8 b=0.4")[0] == pytest.approx({"x=0": 0.92, "x=1": 0.08})
    assert go(queue, "x=5", "a=0.8 b=0.4")[0] == pytest.approx({"x=5": 0.2, "x=4": 0.8})
    assert graph.is_communicating(queue.matrix)
    assert optimum(queue)[0] == pytest.approx(0.1052523, abs=1e-7)
