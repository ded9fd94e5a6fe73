"""The public entries, found by looking: functions, constructors and methods of all public modules, and `make` for every
environment. A new one is covered by itself, if its parameters have defaults or names that are known here; else a test
asks for one.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from types import ModuleType
from typing import Any

import gymnasium
import numpy as np

import psconrl
from psconrl import CMDP, AddCosts, CMDPEnv, Learner, Problem, Run, Solution, Steering, agents, environments
from psconrl.agents import catalogue
from psconrl.environments import catalogue as environment_catalogue
from psconrl.learning.estimate import Estimate

MODULES = ("psconrl", *(f"psconrl.{name}" for name in ("agents", "environments", "planning", "structure")))

RESULTS = {
    *("Run", "Evaluation", "Solution", "Sweep", "BestPolicy", "NearestLimits", "TextMap", "Member"),
    *(
        "Environment",
        "Plan",
        "Memory",
        "Agent",
        "LimitedAgent",
        "EstimatingAgent",
        "PosteriorAgent",
        "Stop",
        "SampledModel",
        "Decision",
        "Estimate",
    ),
}
"""What the library hands out, or an agent's author fills in: plain values, checked where they are taken up. Only their
methods are called."""

FOR_AUTHORS = {"as_array", "exploit", "plan_in"}
"""Pieces of agents, which take what a loop hands to an agent."""

TOY = psconrl.make("toy")
SOLUTION = psconrl.solve(TOY)


RUN = psconrl.simulate(agents.PSConRL(TOY.problem()), TOY, 40, 0)
ESTIMATE = RUN.estimate()


def learner() -> Learner:
    """A learner in the middle of a run that waits for a step in state 0."""
    found = Learner(agents.PSConRL(TOY.problem()), 40, 0)
    s = 0
    for _ in range(9):
        a = found.act(s)
        after = int(s == 0 and a == 1)
        found.observe(s, a, [0.5, float(a)], after)
        s = after
    found.act(s)
    found.act(0)
    return found


def steering() -> Steering:
    """One that waits for the costs of a step in state 0."""
    found = Steering(SOLUTION)
    found.act(0)
    return found


def running() -> CMDPEnv:
    """An environment that was reset."""
    env = CMDPEnv(TOY, render_mode="ansi")
    env.reset(seed=0)
    return env


OBJECTS: dict[type, Callable[[], Any]] = {
    CMDP: lambda: TOY,
    Learner: learner,
    Steering: steering,
    Problem: lambda: TOY.problem(),
    CMDPEnv: running,
    AddCosts: lambda: AddCosts(running(), lambda s, a: 0.5),
    Run: lambda: RUN,
    Solution: lambda: SOLUTION,
    Estimate: lambda: ESTIMATE,
}
"""An object of each class whose methods are called."""

HALF = np.full((2, 2), 0.5)

VALUES: dict[str, Any] = {
    # models
    "transitions": lambda: TOY.transitions,
    "costs": lambda: TOY.costs,
    "thresholds": lambda: [0.6],
    "initial": 0,
    "state_names": None,
    "action_names": None,
    "cost_names": None,
    "available": lambda: np.ones((2, 2), dtype=np.bool_),
    "layout": None,
    "cmdp": TOY,
    "model": TOY,
    "path": "model.json",
    "policy": lambda: HALF.copy(),
    "S": 2,
    "A": 2,
    "states": lambda: np.array([0, 1]),
    "source": "toy",
    "arrays": lambda: dict(TOY.to_arrays()),
    "rewards": None,
    "cost_ranges": None,
    "seen": 2,
    "reward_range": None,
    "draws": 5,
    "level": 0.9,
    "confidence": None,
    "tolerance": 0.1,
    # planning
    "join": 0.01,
    "solution": SOLUTION,
    "constraint": 1,
    "points": 3,
    "method": "compiled",
    "start": None,
    "targets": None,
    "p_hat": lambda: TOY.transitions,
    "radius": lambda: HALF.copy(),
    # learning
    "problem": lambda: TOY.problem(),
    "agent": lambda: agents.PSConRL(TOY.problem()),
    "horizon": 12,
    "seed": 3,
    "checkpoints": 4,
    "optimum": 0.5,
    "evaluate_policies": False,
    "stop": None,
    "state": None,
    "compiled": True,
    "s": 0,
    "a": 1,
    "s_next": 1,
    "steps": 20,
    "env": running,
    "action": 1,
    "options": None,
    "step": None,
    "prior": 0.5,
    "infeasible": "uniform",
    "bonus": "simple",
    "scale": 0.5,
    "H": 2,
    "h": 3,
    "delta": 0.1,
    "alpha": 0.5,
    "b": 2.0,
    "span": 1.0,
    "agent_name": "PSConRL",
    "env_name": "toy",
    # environments
    "name": "toy",
    "render_mode": "ansi",
    "map": lambda: ["S.", ".G"],
    "tau": 0.5,
    "slip": 0.1,
    "full": False,
    "sparse": False,
    "rows": 3,
    "columns": 3,
    "risky": 0.2,
    "count": 1,
    "first": 0,
    "theta": 0.9,
    "branching": 2,
    "m": 1,
    "margin": 0.05,
    "gamma": 0.01,
    "draw": 0,
    "service_limit": 0.6,
    "flow_limit": 0.25,
}
"""A right value, or what makes one, for parameters of each name."""

NUMBERS = count()

SPECIAL: dict[str, Any] = {
    "CMDP.problem.costs": "known",
    "CMDP.with_limits.thresholds": lambda: {"left": 0.5},
    "CMDP.load.thresholds": None,
    "CMDP.load.path": "model.npz",
    "CMDP.from_arrays.rewards": lambda: TOY.costs[0],
    "CMDP.from_arrays.costs": lambda: [TOY.costs[1]],
    "CMDP.from_gymnasium.costs": None,
    "CMDP.from_gymnasium.thresholds": (),
    "CMDP.from_tables.transitions": lambda: [
        {"state": "x", "action": "go", "next_state": "y", "probability": 1.0},
        {"state": "y", "action": "go", "next_state": "x", "probability": 1.0},
    ],
    "CMDP.from_tables.costs": lambda: [
        {"state": "x", "action": "go", "time": 1.0, "risk": 0.0},
        {"state": "y", "action": "go", "time": 0.0, "risk": 1.0},
    ],
    "CMDP.from_tables.thresholds": lambda: {"risk": 0.7},
    "CMDP.from_tables.initial": "x",
    "CMDP.from_function.actions": lambda: lambda state: ["go"],
    "CMDP.from_function.step": lambda: lambda state, action: [(1.0, state, [0.5, 0.5])],
    "CMDP.from_rates.rates": lambda: TOY.transitions,
    "CMDP.from_rates.cost_rates": lambda: TOY.costs,
    "Estimate.load.path": "estimate.npz",
    "Estimate.load.thresholds": None,
    "Estimate.problem.costs": "known",
    "Estimate.tightened.confidence": 0.5,
    "Estimate.with_limits.thresholds": lambda: {"left": 0.9},
    "Solution.explain.state": 0,
    "Solution.explain.step": 1,
    "agents.canonical.name": "psconrl",
    "agents.SafePSRL.step": 1.0,
    "agents.parameters.agent": lambda: agents.Uniform,
    "Estimate.save.path": "estimate.npz",
    "fit.log": lambda: [
        {"state": k % 2, "action": "go", "next_state": (k + 1) % 2, "time": 1.0, "risk": 0.5} for k in range(9)
    ],
    "fit.thresholds": lambda: {"risk": 0.7},
    "fit.state": "state",
    "fit.action": "action",
    "fit.time": None,
    "fit.costs": lambda: ["time", "risk"],
    "Learner.open.path": lambda: f"learner{next(NUMBERS)}.db",
    "Learner.open.problem": None,
    "Learner.open.window": None,
    "Learner.extend.horizon": 50,
    "Learner.observe.costs": lambda: [0.5, 0.5],
    "Steering.act.state": 0,
    "Steering.observe.costs": lambda: [0.5, 0.5],
    "Learner.__init__.problem": None,
    "Learner.problem": None,
    "learn.problem": None,
    "Learner.save.path": "learner.npz",
    "Learner.load.path": "learner.npz",
    "Learner.restore.state": lambda: learner().state(),
    "simulate.state": lambda: (
        psconrl.simulate(agents.PSConRL(TOY.problem()), TOY, 12, 3, checkpoints=4, optimum=0.5, stop=6).state
    ),
    "learn.costs": None,
    "AddCosts.costs": lambda: lambda s, a: 0.5,
    "Problem.costs": lambda: TOY.costs,
    "environments.named_map.name": "box",
    "agents.find.name": "psconrl",
    "agents.register.agent": lambda: agents.Uniform,
    "agents.register.name": lambda: f"mine{next(NUMBERS)}",
    "environments.register.name": lambda: f"mine-{next(NUMBERS)}",
    "environments.register.build": lambda: lambda: TOY,
    "environments.register.description": "the toy",
    "threshold_sweep.thresholds": lambda: [0.53, 0.6],
    "environments.read_map.source": lambda: ["S.", ".G"],
    "planning.best_policy.thresholds": lambda: np.array([0.6]),
    "make(dirichlet).thresholds": None,
    "make(gridworld).map": None,
    "make(dirichlet).prior": 0.5,
}
"""The same for one parameter of one entry, where its name means something else."""


@dataclass(frozen=True)
class Entry:
    """What can be called: a name, the function, and whether it belongs to an object."""

    name: str
    function: Any
    owner: type | None = None

    @property
    def parameters(self) -> list[inspect.Parameter]:
        kinds = (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL)
        found = inspect.signature(self.function).parameters.values()
        return [p for p in found if p.kind not in kinds and not (self.owner and p.name == "self")]

    def right(self) -> dict[str, Any]:
        """Right arguments, by name."""
        arguments = {}
        for parameter in self.parameters:
            special = f"{self.name}.{parameter.name}"
            value = SPECIAL[special] if special in SPECIAL else VALUES.get(parameter.name, parameter.default)
            arguments[parameter.name] = value() if callable(value) else value
        return arguments

    def call(self, target: Any, arguments: dict[str, Any]) -> Any:
        """Call it, on an object if it belongs to one."""
        return self.function(**arguments) if target is None else self.function(target, **arguments)


def entries() -> list[Entry]:
    """All of them, by name."""
    found = {entry.name: entry for module in MODULES for entry in _of_module(importlib.import_module(module))}
    # Nobody makes one but `estimate`; what it has from CMDP is called there.
    found |= {
        entry.name: entry for entry in _methods("Estimate", Estimate) if entry.function in vars(Estimate).values()
    }
    for name, environment in environments.registry().items():
        found[f"make({name})"] = Entry(f"make({name})", environment.build)
    return [found[name] for name in sorted(found)]


def _of_module(module: ModuleType) -> Iterator[Entry]:
    prefix = module.__name__.removeprefix("psconrl").lstrip(".")
    for name in getattr(module, "__all__", dir(module)):
        value = getattr(module, name)
        if name.startswith("_") or name in FOR_AUTHORS or not callable(value):
            continue
        if not getattr(value, "__module__", "").startswith("psconrl"):
            continue
        if hasattr(psconrl, name) and getattr(psconrl, name) is value:
            full = name
        else:
            full = f"{prefix}.{name}"
        if not hasattr(module, "__all__") and value.__module__ != module.__name__:
            continue
        if not inspect.isclass(value):
            yield Entry(full, value)
        elif not issubclass(value, BaseException):
            if name not in RESULTS:
                yield Entry(full, value)
            if name not in RESULTS or value in OBJECTS:
                yield from _methods(full, value)


def _methods(full: str, cls: type) -> Iterator[Entry]:
    if issubclass(cls, agents.Agent):
        return  # its methods are called by the loops, with what these have checked
    for name, member in inspect.getmembers(cls, callable):
        if not name.startswith("_") and str(getattr(member, "__module__", "")).startswith("psconrl"):
            bound = inspect.ismethod(member)  # a class method
            if bound and name not in vars(cls):
                continue
            yield Entry(f"{full}.{name}", member, None if bound else cls)


@contextmanager
def registries_restored() -> Iterator[None]:
    """What calls register inside is forgotten afterwards."""
    tables: tuple[dict[str, Any], ...] = (catalogue._AGENTS, environment_catalogue._REGISTRY, gymnasium.registry)
    before = [set(table) for table in tables]
    yield
    for table, names in zip(tables, before, strict=True):
        for name in table.keys() - names:
            del table[name]


def target_of(entry: Entry) -> Any:
    """An object to call a method on; None for a function."""
    return None if entry.owner is None else OBJECTS[entry.owner]()


def inner_state(target: Any) -> Any:
    """What a refused call must not have changed."""
    if isinstance(target, Learner):
        return target.state()
    if isinstance(target, Steering):
        return target.t, target.excess, target.violation, target.act(0)
    if isinstance(target, CMDP):
        return target.to_arrays()
    if isinstance(target, gymnasium.Env):
        return target.unwrapped._state, target.unwrapped.np_random.bit_generator.state  # type: ignore[attr-defined]
    return None
