"""Equal budgets for all agents, and the setting with the least score."""

from __future__ import annotations

from collections import Counter

from psconrl.agents import registry
from psconrl.environments import make
from reproduction import beyond
from reproduction.agents import ALGORITHM
from reproduction.presets import find

PLAIN = set(registry()) - set(ALGORITHM)
"""The agents of the library."""


def test_all_agents_with_at_most_five_settings() -> None:
    assert set(beyond.AGENTS) == PLAIN
    assert all(1 <= len(settings) <= 5 for settings in beyond.AGENTS.values())


def test_worlds_say_how_large_they_are() -> None:
    for world in beyond.WORLDS:
        cmdp = make(world.env, **world.options)
        assert world.states == cmdp.S, world.name
        assert world.horizon <= 100_000
        agents = {cell.agent for cell in beyond.cells(world)}
        assert agents == PLAIN - (set(beyond.SLOW) if world.states > 64 else set())
        assert cmdp.S <= 512  # so that all policies are evaluated


def test_the_second_stage_is_the_best_setting_with_fresh_seeds() -> None:
    preset = find("beyond")
    first = preset.experiment()
    assert first is not None
    assert set(first.seeds) == {beyond.TUNING}
    scores = {cell.id: float(k) for k, cell in enumerate(first.cells)}
    second = preset.second_stage(False, scores)
    assert second is not None
    assert set(second.seeds) == {beyond.TUNING + beyond.REPORTED}
    # As chosen, the first setting, and as published, another one.
    assert Counter(cell.agent for cell in second.cells)["PSConRL"] == 2 * len(beyond.WORLDS)
    assert Counter(cell.agent for cell in second.cells)["ConRL"] == len(beyond.WORLDS)
    for world in beyond.WORLDS:
        here = list(beyond.cells(world))
        chosen = [cell for cell in second.cells if cell in here]
        published = beyond.published(world)
        assert published in chosen
        for cell in chosen:
            if cell == published:
                continue
            rivals = [other for other in here if other.agent == cell.agent]
            assert scores[cell.id] == min(scores[rival.id] for rival in rivals)
    assert preset.second_stage(False, {}) is None


def test_other_presets_have_no_second_stage() -> None:
    assert find("figure-1").second_stage(True, {}) is None
