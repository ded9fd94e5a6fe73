import inspect

import pytest

import psconrl
from psconrl._core import graph
from psconrl.environments import make, registry
from psconrl.errors import UnknownNameError

NAMES = [
    *("marsrover-4x4", "marsrover-8x8", "box", "toy", "queue", "garnet", "dirichlet"),
    *("riverswim", "media-streaming", "inventory", "access-control", "hospital"),
]


def test_all_promised_names_are_there() -> None:
    assert set(NAMES) <= set(registry())
    assert psconrl.make is make


@pytest.mark.parametrize("name", list(registry()))
def test_every_environment(name: str) -> None:
    environment = registry()[name]
    assert environment.name == name
    assert environment.description
    assert "\n" not in environment.description
    assert inspect.Parameter.empty not in environment.options.values()
    cmdp = make(name)
    assert cmdp == make(name, **environment.options)
    assert ((cmdp.costs >= 0) & (cmdp.costs <= 1)).all()
    assert psconrl.solve(cmdp).margin > 0
    assert graph.is_communicating(cmdp.matrix)


@pytest.mark.parametrize("name", ["MarsRover_4x4", "marsrover4x4", "MARSROVER-4X4"])
def test_spelling_of_names(name: str) -> None:
    assert make(name) == make("marsrover-4x4")


def test_unknown_names_and_options() -> None:
    with pytest.raises(UnknownNameError, match="did you mean 'marsrover-4x4'"):
        make("marsrovr-4x4")
    with pytest.raises(TypeError, match=r"'slipp'; did you mean 'slip'\? \(its options are tau, slip, full, sparse\)"):
        make("box", slipp=0.1)
