"""Experiments: validation, identities, TOML."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest

import psconrl
from psconrl.errors import PsconrlError, SpecError
from psconrl.experiments import Cell, Experiment, read_toml
from tests.experiments.sweeps import sweep


def test_equal_cells_have_equal_identities_and_others_do_not() -> None:
    cell = Cell("toy", "psconrl", 100, settings={"prior": 0.5})
    assert cell == Cell("TOY", "PSConRL", 100, settings={"prior": 0.5})
    assert cell.identity(3) == Cell("TOY", "ps-conrl", 100, settings={"prior": 0.5}).identity(3)
    others = [
        cell.identity(4),
        Cell("toy", "psconrl", 101, settings={"prior": 0.5}).identity(3),
        Cell("toy", "psconrl", 100, settings={"prior": 0.6}).identity(3),
        Cell("toy", "psconrl", 100, settings={"prior": 0.5}, env_options={"theta": 0.8}).identity(3),
        Cell("toy", "psconrl", 100, settings={"prior": 0.5}, costs="known").identity(3),
    ]
    assert len({cell.identity(3), *others}) == 6


def test_runs_go_seed_by_seed() -> None:
    """What is stopped half way has as many runs of each cell, or one more."""
    one, two = (Cell("toy", agent, 50) for agent in ("psconrl", "uniform"))
    runs = list(Experiment("uneven", (one, two), (3, 1)).runs)
    assert runs == [(one, 0), (two, 0), (one, 1), (one, 2)]


def test_json_and_back() -> None:
    experiment = sweep(settings={"psconrl": {"infeasible": "explore"}}, env_options={"toy": {"theta": 0.8}})
    assert Experiment.from_json(experiment.as_json()) == experiment


def test_a_model_file_is_known_by_its_content(tmp_path: Path) -> None:
    for name in ("one.json", "two.json"):
        psconrl.make("toy").save(tmp_path / name)
    (tmp_path / "elsewhere").mkdir()
    psconrl.make("toy").save(tmp_path / "elsewhere" / "one.json")
    one, two, moved = (Cell(str(tmp_path / n), "uniform", 9) for n in ("one.json", "two.json", "elsewhere/one.json"))
    assert one.model == two.model
    assert one.env_name == "one"
    assert one.identity(0) == moved.identity(0)


def test_tables_are_no_model_of_an_experiment(tmp_path: Path) -> None:
    (tmp_path / "clinic.toml").write_text('transitions = "moves.csv"\n')
    with pytest.raises(SpecError, match="psconrl convert"):
        Experiment.grid("tables", [str(tmp_path / "clinic.toml")], ["uniform"], horizon=9, seeds=1)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"env": "toi"}, "did you mean 'toy'"),
        ({"agent": "psconl"}, "(?i)did you mean 'psconrl'"),
        ({"horizon": 0}, "horizon is 0; it must be at least 1"),
        ({"horizon": 2.5}, "horizon is 2.5; it must be a whole number"),
        ({"settings": {"pior": 1}}, "unknown setting 'pior' of PSConRL; did you mean 'prior'"),
        ({"env_options": {"teta": 1}}, "unknown option 'teta' of toy; did you mean 'theta'"),
        ({"costs": "guessed"}, "costs is 'guessed'"),
        ({"env": "no-such.json"}, "no-such.json: there is no such file"),
    ],
)
def test_mistakes_in_cells(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(PsconrlError, match=message):
        Cell(**cast(Any, {"env": "toy", "agent": "psconrl", "horizon": 10} | fields))


GOOD = 'envs = ["toy"]\nagents = ["psconrl", "uniform"]\nhorizon = 50\nseeds = 2\n'


def test_toml(tmp_path: Path) -> None:
    psconrl.make("toy").save(tmp_path / "mine.json")
    file = tmp_path / "study.toml"
    file.write_text(GOOD.replace('["toy"]', '["toy", "mine.json"]') + "[settings.psconrl]\nprior = 0.3\n")
    experiment = read_toml(file)
    assert experiment.name == "study"
    assert [cell.label for cell in experiment.cells] == [
        "toy / PSConRL",
        "toy / Uniform",
        "mine / PSConRL",
        "mine / Uniform",
    ]
    assert experiment.cells[0].settings == {"prior": 0.3}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("envs = [", "not a TOML file"),
        (GOOD + "horizn = 3", "unknown field 'horizn'; did you mean 'horizon'"),
        ('agents = ["psconrl"]', "the field 'envs' is missing"),
        (GOOD.replace('["toy"]', '"toy"'), "envs must be a list of names"),
        (GOOD.replace("50", '"many"'), "horizon is 'many'; it must be a whole number"),
        (GOOD.replace("2", "0"), "seeds is 0"),
        (GOOD + "[settings.fha]\nH = 3", "settings for FHA, which is not run"),
        (GOOD + "[settings]\npsconrl = 3", "settings must be tables by name"),
        (GOOD.replace("psconrl", "psconl"), "(?i)did you mean 'psconrl'"),
    ],
)
def test_mistakes_in_toml(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "study.toml"
    file.write_text(text)
    with pytest.raises(SpecError, match=message) as caught:
        read_toml(file)
    assert str(caught.value).startswith(str(file))
