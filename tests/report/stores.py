"""Small stores with runs of every kind of environment, made by running."""

from pathlib import Path

import numpy as np

from psconrl.analysis.groups import group
from psconrl.cmdp import CMDP
from psconrl.experiments.record import to_bytes
from psconrl.experiments.run_one import run_cell
from psconrl.experiments.spec import Experiment
from psconrl.experiments.store import Store
from psconrl.report import Section
from psconrl.report.environments import environments
from psconrl.report.html import render
from psconrl.report.writer import overview_sections


def run(path: Path, *experiments: Experiment) -> Store:
    """A store with all runs of the experiments, made one after the other in this process."""
    store = Store(path, create=True)
    for experiment in experiments:
        store.register(experiment)
        for cell, seed in experiment.runs:
            store.write(cell, seed, to_bytes(run_cell(cell, seed)))
            with (store.path / "timings.jsonl").open("ab") as file:
                file.write(store.timing(cell, seed, 0.5))
    return store


def small(path: Path) -> Store:
    """A map, a map with a box, models without maps, two limits, and a model for each seed."""
    return run(
        path,
        Experiment.grid("small", ["marsrover-4x4"], ["PSConRL", "ConRL"], horizon=400, seeds=2, checkpoints=100),
        Experiment.grid("others", ["box", "toy", "queue"], ["PSConRL", "CMDP-PSRL"], horizon=60, seeds=1),
        Experiment.grid("infeasible", ["toy"], ["PSConRL"], horizon=60, seeds=1, env_options={"toy": {"tau": 0.2}}),
        Experiment.grid(
            "own-models",
            ["dirichlet"],
            ["PSConRL"],
            horizon=60,
            seeds=2,
            env_options={"dirichlet": {"S": 5, "A": 3}},
            seed_option="draw",
        ),
    )


def page(store: Store, *sections: Section) -> str:
    """The report of a store, without what changes from day to day."""
    found = environments(store, group(store.records(), store.timings()))
    return render(store, found, [*overview_sections(found), *sections])


def long_names(path: Path) -> Store:
    """A model of thirty states with long names and two limits, as people have them."""
    rng = np.random.default_rng(0)
    shifts = ("night shift", "day shift with one nurse away", "full day shift")
    crowds = ("empty waiting room", "a few people waiting", "waiting room half full", "full", "people in the corridor")
    states = [f"{crowd}, {shift}, {day}" for crowd in crowds for shift in shifts for day in ("usual day", "flu season")]
    costs = ["people waiting", "hours of the second doctor on call", "complaints of patients who were sent away"]
    model = CMDP(
        rng.dirichlet(np.ones(30), (30, 3)),
        rng.random((3, 30, 3)),
        [0.6, 0.6],
        state_names=states,
        action_names=["usual triage", "call in a second doctor", "send light cases to the clinic"],
        cost_names=costs,
    )
    model.save(path / "intake.json")
    agents = ["Recommended", "PSConRL", "ConRL", "Uniform", "Optimal"]
    return run(path / "study", Experiment.grid("intake", [str(path / "intake.json")], agents, horizon=200, seeds=2))
