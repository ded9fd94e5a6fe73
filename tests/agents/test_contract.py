"""Every registered agent keeps the contract, and the checker finds those that do not."""

import inspect
import re
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest

from psconrl import CMDP, Problem, UnknownNameError, agents, make
from psconrl.agents import Agent, Memory, Plan, check_agent
from psconrl.agents.catalogue import canonical, parameters
from psconrl.agents.planning import LimitedAgent
from psconrl.errors import AgentError
from psconrl.learning import simulate
from tests.learning.walk import Recording

NAMES = list(agents.registry())
STEERED = [name for name in NAMES if issubclass(agents.find(name), LimitedAgent)]


def problem_of(m: int, costs: str) -> tuple[Problem, CMDP]:
    rng = np.random.default_rng(np.random.SeedSequence([8, m]))
    cmdp = CMDP(rng.dirichlet(np.ones(4), (4, 2)), rng.random((m + 1, 4, 2)), np.full(m, 0.6))
    return cmdp.problem(costs), cmdp  # type: ignore[arg-type]


def build(name: str, problem: Problem, cmdp: CMDP) -> Agent:
    return agents.find(name)(problem, **({"model": cmdp} if name == "Optimal" else {}))


@pytest.mark.parametrize("m", [0, 1, 2])
@pytest.mark.parametrize("costs", ["known", "estimated"])
@pytest.mark.parametrize("name", NAMES)
def test_every_agent_keeps_the_contract(name: str, costs: str, m: int) -> None:
    check_agent(build(name, *problem_of(m, costs)), steps=40)


@pytest.mark.parametrize("m", [0, 1, 3])
@pytest.mark.parametrize("name", STEERED)
def test_agents_that_plan_with_limits_can_be_steered(name: str, m: int) -> None:
    problem, cmdp = problem_of(m, "estimated")
    settings: dict[str, Any] = {"execution": "steered", "margin": 0.1}
    settings |= {"h": 10, "scale": 0.05} if name == "C-UCRL" else {}
    agent = replace(build(name, problem, cmdp), **settings)
    check_agent(agent, steps=60)
    recorded = Recording(agent)
    simulate(recorded, cmdp, 60, 0)
    assert any(plan.steered is not None for _, plan in recorded.plans) == (m > 0)


def test_fha_refuses_to_be_steered() -> None:
    with pytest.raises(ValueError, match="execution is 'steered'; FHA knows \"stationary\" only"):
        agents.FHA(problem_of(1, "known")[0], execution="steered")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"execution": "fast"}, "execution is 'fast'"),
        ({"margin": -1}, "margin is -1; it must be a number >= 0"),
        ({"margin": float("nan")}, "margin is nan"),
    ],
)
def test_wrong_execution_and_margin(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        agents.PSConRL(problem_of(1, "known")[0], **settings)


@pytest.mark.parametrize("name", NAMES)
def test_every_agent_is_usable_without_parameters(name: str) -> None:
    problem, cmdp = problem_of(1, "estimated")
    if name == "Optimal":
        with pytest.raises(ValueError, match=r"Optimal needs the model: Optimal\(problem, model=cmdp\)"):
            agents.find(name)(problem)
    agent = build(name, problem, cmdp)
    assert agent.name == name
    run = simulate(agent, cmdp, 40, 0)
    assert run.counts.sum() == 40
    assert run.episodes["length"].sum() == 40
    # Its docstring, or that of its file, tells every parameter, and is where a reader looks for the defaults.
    told = f"{inspect.getmodule(type(agent)).__doc__} {type(agent).__doc__}"
    for parameter in parameters(type(agent)):
        assert parameter in told or parameter == "model", f"{name} does not explain {parameter}"


def test_optimal_needs_a_model_that_fits() -> None:
    problem, _ = problem_of(1, "known")
    with pytest.raises(ValueError, match="does not fit Problem"):
        agents.Optimal(problem, model=make("toy"))


@dataclass(frozen=True, eq=False)
class Broken(Agent):
    """Uniform, but for what a test breaks."""

    how: str = "nothing"
    kept: dict[Any, Any] = field(default_factory=dict)

    def plan(self, memory: Memory, rng: np.random.Generator) -> Plan:
        policy = self.problem.uniform[np.newaxis].copy()
        fields: dict[str, Any] = {"max_length": 3}
        match self.how:
            case "nan":
                policy[0, 1] = np.nan
            case "negative":
                policy[0, 1] = [1.5, -0.5]
            case "row":
                policy[0, 1] = 0.4
            case "flat":
                policy = policy[0]
            case "wide":
                policy = np.full((1, 4, 3), 1 / 3)
            case "impure":
                self.kept["calls"] = self.kept.get("calls", 0) + 1
                policy[0, :, 0] = 1 / (1 + self.kept["calls"])
                policy[0, :, 1] = 1 - policy[0, :, 0]
            case "state":
                # The same for the same memory within a run, but it depends on all the runs so far.
                self.kept.setdefault((memory.t, memory.counts.tobytes()), len(self.kept))
                share = (len(self.kept) % 7) / 7
                policy[0] = [share, 1 - share]
            case "memory":
                memory.visits[0, 0] += 1
            case "sums":
                memory.cost_sums[0, 0, 0] += 1
            case "impure limit":
                self.kept["calls"] = self.kept.get("calls", 0) + 1
                fields["count_limit"] = np.full((4, 2), self.kept["calls"])
            case "impure carry":
                self.kept["calls"] = self.kept.get("calls", 0) + 1
                fields["carry"] = {"calls": np.array([self.kept["calls"]])}
            case "old carry":
                fields["carry"] = {"calls": memory.carry.get("calls", np.zeros(1))}
                fields["carry"]["calls"] += 1
            case "carry":
                fields["carry"] = {"names": np.array(["a", None])}
            case "not arrays":
                fields["carry"] = {"number": 3}
            case "phase":
                fields["phase"] = "sleep"
            case "length":
                fields["max_length"] = 0
            case "limit":
                fields["count_limit"] = np.zeros(4, dtype=np.int64)
            case "random":
                rng.random(1 + len(self.kept))
                self.kept[len(self.kept)] = None
            case "none":
                return None  # type: ignore[return-value]
        return Plan(policy, **fields)


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ("nan", "Plan.policy has a negative or NaN probability"),
        ("negative", "Plan.policy has a negative or NaN probability"),
        ("row", "a row of Plan.policy does not sum to one"),
        ("flat", "Plan.policy has shape (4, 2); it must be (L, S, A) with (S, A) = (4, 2)"),
        ("wide", "Plan.policy has shape (1, 4, 3); it must be (L, S, A) with (S, A) = (4, 2)"),
        ("impure", "planning must be a pure function of (memory, rng): the same ones gave another plan"),
        ("impure limit", "planning must be a pure function of (memory, rng): the same ones gave another plan"),
        ("impure carry", "planning must be a pure function of (memory, rng): the same ones gave another plan"),
        ("old carry", "planning must not change the memory"),
        ("state", "a run that is saved and restored half-way must go on unchanged: keep no state outside the carry"),
        ("memory", "planning must not change the memory"),
        ("sums", "planning must not change the memory"),
        ("carry", "Plan.carry must hold plain arrays only"),
        ("not arrays", "Plan.carry must hold plain arrays only"),
        ("phase", 'Plan.phase is \'sleep\'; it must be "exploit" or "explore"'),
        ("length", "Plan.max_length is 0; it must be at least 1"),
        ("limit", "Plan.count_limit has shape (4,)"),
        ("random", "planning twice must use the same random numbers"),
        ("none", "plan() must return a Plan, not NoneType"),
    ],
)
def test_the_checker_finds_broken_agents(how: str, message: str) -> None:
    with pytest.raises(AgentError, match=re.escape(message)):
        check_agent(Broken(problem_of(1, "known")[0], how))


@pytest.mark.parametrize("how", ["nan", "row", "flat", "wide", "length", "limit"])
def test_runs_refuse_plans_that_are_none(how: str) -> None:
    problem, cmdp = problem_of(1, "known")
    with pytest.raises(ValueError, match=r"^Plan\."):
        simulate(Broken(problem, how), cmdp, 10, 0)


def test_the_checker_passes_an_agent_of_ones_own() -> None:
    check_agent(Broken(problem_of(1, "estimated")[0]))


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ("psconrl", "PSConRL"),
        ("PSCONRL", "PSConRL"),
        ("ps-conrl", "PSConRL"),
        ("cucrl", "C-UCRL"),
        ("c-ucrl", "C-UCRL"),
        ("UCRL_CMDP", "UCRL-CMDP"),
        ("ucrlcmdp", "UCRL-CMDP"),
        ("cmdp psrl", "CMDP-PSRL"),
        ("fha", "FHA"),
    ],
)
def test_names_ignore_case_and_hyphens(given: str, name: str) -> None:
    assert canonical(given) == name
    assert agents.find(given) is agents.registry()[name]


@pytest.mark.parametrize(("given", "near"), [("psconr", "PSConRL"), ("C-UCRL2", "C-UCRL"), ("unifrom", "Uniform")])
def test_unknown_names_suggest(given: str, near: str) -> None:
    with pytest.raises(UnknownNameError, match=f"unknown agent '{given}'; did you mean '{near}'"):
        agents.find(given)


def test_the_registry_stays_a_function() -> None:
    """A module of the same name once hid it after the first call."""
    agents.registry()
    assert callable(agents.registry)
    agents.find("fha")
    assert set(agents.registry()) >= set(NAMES)


def test_agents_are_frozen() -> None:
    agent = agents.PSConRL(Problem(2, 2))
    with pytest.raises(AttributeError):
        agent.prior = 3.0  # type: ignore[misc]


def test_optimal_has_no_regret() -> None:
    """Over 20 runs the mean regret is within 5 standard errors of zero (t law: false alarms below 8e-5)."""
    cmdp = make("dirichlet")
    agent = agents.Optimal(cmdp.problem(), model=cmdp)
    J = agent.solution.value
    last = [float(simulate(agent, cmdp, 5000, seed, optimum=J, checkpoints=1).regret[-1]) for seed in range(20)]
    assert abs(np.mean(last)) <= 5 * np.std(last) / np.sqrt(20)


@pytest.mark.parametrize(
    ("name", "settings", "message"),
    [
        ("C-UCRL", {"scale": -1.0}, "scale is -1.0; it must be a number >= 0"),
        ("ConRL", {"delta": 0.0}, "delta is 0.0; it must be a number between 0 and 1"),
        ("ConRL", {"H": 0.0}, "H is 0.0; it must be a number > 0"),
        ("FHA", {"H": 2.5}, "H is 2.5; it must be a whole number"),
        ("C-UCRL", {"h": 0}, "h is 0; it must be at least 1"),
        ("UCRL-CMDP", {"b": -1.0}, "b is -1.0; it must be a number above 1"),
        ("UCRL-CMDP", {"bonus": "foo"}, "bonus is 'foo'"),
    ],
)
def test_bad_settings_are_refused_at_once(name: str, settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        agents.find(name)(Problem(2, 2, [0.5]), **settings)


@pytest.mark.parametrize("name", NAMES)
def test_an_agent_takes_a_problem_not_a_model(name: str) -> None:
    toy: Any = make("toy")
    settings = {"model": toy} if name == "Optimal" else {}
    with pytest.raises(TypeError, match="it must be a Problem"):
        agents.find(name)(toy, **settings)
