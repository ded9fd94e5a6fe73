"""What a stored run says about its model."""

from __future__ import annotations

import json

import pytest

from psconrl import make, solve
from psconrl.experiments.world import DESCRIBED, describe


def test_the_actions_of_each_state() -> None:
    shop, toy = make("inventory"), make("toy")
    said = describe(shop, solve(shop), ())
    assert said is not None
    assert said["available"] == [list(range(6 - x)) for x in range(6)]
    assert json.loads(json.dumps(said)) == said
    plain = describe(toy, solve(toy), ())
    assert plain is not None
    assert plain["available"] is None


def test_large_models_are_not_described(monkeypatch: pytest.MonkeyPatch) -> None:
    toy = make("toy")
    monkeypatch.setattr("psconrl.experiments.world.DESCRIBED", 1)
    assert toy.S <= DESCRIBED
    assert describe(toy, solve(toy), ()) is None
