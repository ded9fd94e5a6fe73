"""Steered plans in all loops, cut and continued anywhere; the excess in its band; steering by hand."""

import copy
from typing import Any

import numpy as np
import pytest

import psconrl
from psconrl import CMDP, Learner, PsconrlError, Steering, agents, evaluate, make, solve
from psconrl.agents import Agent
from psconrl.agents.contract import Memory, Plan
from psconrl.errors import InvalidArgumentError
from psconrl.learning import simulate
from psconrl.planning.steered import Steered
from tests.learning.walk import Recording, walk


def optimal(cmdp: CMDP, execution: str = "steered") -> Agent:
    return agents.Optimal(cmdp.problem(), model=cmdp, execution=execution)  # type: ignore[arg-type]


CASES: list[tuple[str, dict[str, Any], str]] = [
    ("riverswim", {}, "Optimal"),
    ("riverswim", {}, "PSConRL"),
    ("marsrover-4x4", {"slip": 0.1}, "PSConRL"),
    ("queue", {}, "UCRL-CMDP"),
    ("garnet", {"S": 8, "A": 3, "m": 3}, "CMDP-PSRL"),
    ("queue", {}, "ConRL"),
]


def agent_of(name: str, cmdp: CMDP) -> Agent:
    settings: dict[str, Any] = {"execution": "steered"} | ({"model": cmdp} if name == "Optimal" else {})
    return agents.find(name)(cmdp.problem(), **settings)


@pytest.mark.parametrize(("env", "options", "name"), CASES)
def test_twins_agree_and_a_learner_walks_the_same_way(env: str, options: dict[str, Any], name: str) -> None:
    cmdp = make(env, **options)
    agent, T = agent_of(name, cmdp), 800
    run, plain = (simulate(agent, cmdp, T, 1, compiled=compiled) for compiled in (True, False))
    way = walk(agent, cmdp, T, 1)
    for other in (plain.state["learner"], way.learner.state()):
        for part in ("visits", "excess", "direction"):
            np.testing.assert_array_equal(run.state["learner"][part], other[part])
    np.testing.assert_array_equal(run.cumulative, plain.cumulative)
    assert run.state["learner"]["clock"][4] == way.learner.clock[4]


@pytest.mark.parametrize(("env", "options", "name"), CASES[:4])
def test_cut_anywhere_a_run_goes_on_bit_for_bit(env: str, options: dict[str, Any], name: str) -> None:
    cmdp = make(env, **options)
    agent, T = agent_of(name, cmdp), 600
    whole = simulate(agent, cmdp, T, 2)
    run = simulate(agent, cmdp, T, 2, stop=1)
    while run.state["learner"]["clock"][0] < T:
        stop = int(run.state["learner"]["clock"][0]) + 37
        run = simulate(agent, cmdp, T, 2, stop=stop, state=copy.deepcopy(run.state))
    np.testing.assert_array_equal(whole.counts, run.counts)
    np.testing.assert_array_equal(whole.cumulative, run.cumulative)
    np.testing.assert_array_equal(whole.state["learner"]["excess"], run.state["learner"]["excess"])


def test_a_way_across_the_river_survives_the_end_of_a_plan() -> None:
    """Plans of 5 steps, trips of 10 and more: who forgets where it was going never gets across."""

    class Short(agents.Optimal):
        def plan(self, memory: Memory, rng: np.random.Generator) -> Plan:
            plan = super().plan(memory, rng)
            return Plan(plan.policy, max_length=5, steered=plan.steered)

    cmdp = make("riverswim", S=12)
    J = solve(cmdp).value
    short = simulate(Short(cmdp.problem(), model=cmdp, execution="steered"), cmdp, 1500, 0, optimum=J)
    long = simulate(optimal(cmdp), cmdp, 1500, 0, optimum=J)
    np.testing.assert_array_equal(short.counts, long.counts)
    assert long.state["learner"]["excess"][0] <= 1.2 * np.sqrt(40 * 1500)


def test_gymnasium_and_a_learner_by_hand() -> None:
    cmdp = make("riverswim")
    env = psconrl.CMDPEnv(cmdp)
    agent = agents.PSConRL(cmdp.problem(), execution="steered")
    run = psconrl.learn(agent, env, 400, 3)
    again = psconrl.learn(agent, env, 400, 3)
    np.testing.assert_array_equal(run.counts, again.counts)
    sums = run.state["learner"]["cost_sums"][1].sum() - 0.6 * 400
    assert run.state["learner"]["excess"][0] >= sums - 1e-9


BOUNDED: list[tuple[str, dict[str, Any], int]] = [
    ("riverswim", {}, 20_000),
    ("riverswim", {"S": 25}, 40_000),
    ("marsrover-4x4", {}, 5_000),
    ("marsrover-8x8", {"slip": 0.1}, 20_000),
    ("queue", {}, 20_000),
    ("garnet", {"S": 20, "A": 3, "m": 1}, 20_000),
    ("garnet", {"S": 20, "A": 3, "m": 4}, 20_000),
]


@pytest.mark.parametrize(("env", "options", "T"), BOUNDED)
def test_excess_and_regret_stay_in_their_bands(env: str, options: dict[str, Any], T: int) -> None:
    """[V]+ < 3 sqrt((d + span) T) and |regret| < that times (1 + |lambda|_1): three standard deviations and more."""
    cmdp = make(env, **options)
    solution = solve(cmdp)
    recorded = Recording(optimal(cmdp))
    runs = [simulate(recorded, cmdp, T, seed, optimum=solution.value) for seed in range(3)]
    made = recorded.plans[0][1].steered
    assert made is not None
    executed = list(
        made.transfers if len(made.transfers) and (made.transfers >= 0).all() else made.policies(solution.policy)
    )
    policies = [np.eye(cmdp.A)[policy] if policy.ndim == 1 else policy for policy in executed]
    span = max(np.ptp(evaluate(cmdp, policy).bias, axis=1).max() for policy in policies)
    assert made.slope - 1 + span <= T / 36
    bound = 3 * np.sqrt((made.slope - 1 + span) * T)
    for run in runs:
        assert (run.violation[:, -1] < bound).all()
        assert abs(run.regret[-1]) < bound * (1 + solution.multipliers.sum())


def excess_after(cmdp: CMDP, T: int, seeds: int) -> Any:
    """Signed violations (seeds, m)."""
    return np.array([simulate(optimal(cmdp), cmdp, T, seed, checkpoints=1).violation[:, -1] for seed in range(seeds)])


def test_the_excess_is_bounded_where_zero_lies_inside_the_hull_of_the_drifts() -> None:
    """Largest of 2 x 10 at any T: 6 to 12; a random walk would have come to 150 with T = 10^5."""
    queue = make("queue")
    made = optimal(queue).plan(_nothing(queue), np.random.default_rng(0)).steered
    assert made is not None
    assert np.linalg.matrix_rank(made.drifts) == 2  # and positive weights that sum to zero drift: it is inside
    assert (made.weights > 0.01).all()
    for T in (10**3, 10**4, 10**5):
        assert np.abs(excess_after(queue, T, 10)).max() < 40


def test_the_excess_grows_like_the_root_where_no_column_lowers_it() -> None:
    """Cost 0 or 1 by the toss of a coin, limit 1/2: a random walk. E|V| = 0.4 sqrt(T), its mean of 40 known to 12%.

    The reserve keeps it below 2 B, four standard deviations. False alarms below 1e-3.
    """
    toss = np.full((2, 2, 2), 0.5)
    costs = [[[0.0, 1.0], [0.0, 1.0]], [[0.0, 0.0], [1.0, 0.0]]]
    cmdp = CMDP(toss, costs, [0.5])
    small, large = (np.abs(excess_after(cmdp, T, 40)).mean() for T in (10**3, 10**5))
    assert 5 < large / small < 20
    assert excess_after(cmdp, 10**4, 40).max() < 2.1 * np.sqrt(10**4)


@pytest.mark.parametrize(
    ("env", "T", "seeds", "price"),
    [
        ("marsrover-4x4", 5_000, 6, 1.5),
        pytest.param("marsrover-4x4", 5_000, 20, 1.2, marks=pytest.mark.long),
        pytest.param("marsrover-8x8", 20_000, 20, 1.2, marks=pytest.mark.long),
    ],
)
def test_zero_violation_at_the_price_of_a_few_per_cent(env: str, T: int, seeds: int, price: float) -> None:
    """PSConRL with prior 0.01, steered: [V]+ < 5 in every run, a fifth of the scatter, and little more regret.

    With 20 seeds means are known to 6% at worst, and regrets differ by 5% and 16% in the mean; with 6 seeds to 12%.
    """
    cmdp = make(env)
    J = solve(cmdp).value
    violation, regret = {}, {}
    for execution in ("stationary", "steered"):
        agent = agents.PSConRL(cmdp.problem(), execution=execution)
        runs = [simulate(agent, cmdp, T, seed, optimum=J) for seed in range(seeds)]
        violation[execution] = np.array([run.violation[0, -1] for run in runs])
        regret[execution] = np.mean([run.regret[-1] for run in runs])
    assert violation["steered"].max() < 5
    assert violation["steered"].std() < violation["stationary"].std() / 5
    assert regret["steered"] < price * regret["stationary"]


def test_the_exact_averages_of_a_steered_plan_are_those_of_its_columns() -> None:
    cmdp = make("riverswim").replace(initial=3)
    (row,) = simulate(optimal(cmdp), cmdp, 10, 0, evaluate_policies=True).episodes
    np.testing.assert_allclose(row["average_costs"], [solve(cmdp).value, 0.6], atol=1e-9)


def _nothing(cmdp: CMDP) -> Memory:
    learner = Learner(agents.Uniform(cmdp.problem()), 1000, 0)
    observed, visits, sums = learner.observed, learner.visits, learner.cost_sums
    return Memory(0, 1000, 0, 0, 1, observed, visits, sums, {}, excess=np.zeros(cmdp.m))


def test_a_margin_lowers_the_limits() -> None:
    cmdp = make("marsrover-4x4", slip=0.1)
    solution = solve(cmdp)
    (row,) = simulate(
        agents.Optimal(cmdp.problem(), model=cmdp, margin=0.5), cmdp, 1000, 0, evaluate_policies=True
    ).episodes
    eps = min(0.5 * np.sqrt(np.log(1000) / 1000), solution.margin / 2)
    np.testing.assert_allclose(row["average_costs"][1], cmdp.thresholds[0] - eps, atol=1e-7)
    recorded = Recording(agents.PSConRL(cmdp.problem("known"), margin=1e6, execution="steered"))
    simulate(recorded, cmdp, 300, 0)
    limits = [plan.steered.limits[0] for _, plan in recorded.plans if plan.steered is not None]
    assert max(limits) < cmdp.thresholds[0]
    assert min(limits) > 0  # never more than half of the sample's margin


def damaged_mixtures(given: Steered) -> list[Any]:
    made: Any = given
    k, S = made.actions.shape
    return [
        tuple(made),
        made._replace(actions=np.full((k, S), 99)),
        made._replace(actions=np.full((k, S), -2)),
        made._replace(actions=made.actions.astype(np.int32)),
        made._replace(actions=made.actions[:, :2]),
        made._replace(actions=made.actions[:0], weights=made.weights[:0], drifts=made.drifts[:0]),
        made._replace(transfers=np.full((2, S), 5)),
        made._replace(transfers=made.transfers[0]),
        made._replace(levels=made.levels[:, :1]),
        made._replace(directions=made.directions * np.nan),
        made._replace(drifts=made.drifts * np.inf),
        made._replace(weights=made.weights * 2),
        made._replace(weights=None),
        made._replace(actions=[[1], [1, 2]]),
        made._replace(transfers=None),
        made._replace(limits=np.zeros(5)),
        made._replace(binding=np.zeros(1)),
        made._replace(slope=-1.0),
        made._replace(slope=np.nan),
        made._replace(slope=None),
    ]


def test_a_damaged_mixture_is_refused() -> None:
    cmdp = make("riverswim")
    agent = optimal(cmdp)
    learner = Learner(agent, 1000, 0)
    learner.act(0)
    state = learner.state()
    made = agent.plan(_nothing(cmdp), np.random.default_rng(0)).steered
    assert made is not None
    for wrong in damaged_mixtures(made):
        fields = wrong._asdict() if isinstance(wrong, Steered) else wrong
        with pytest.raises(PsconrlError):
            Learner.restore(agent, state | {"plan": state["plan"] | {"steered": fields}})
    for part, value in (("excess", np.array([np.nan])), ("excess", np.zeros(2)), ("direction", None)):
        with pytest.raises(PsconrlError, match=part):
            Learner.restore(agent, state | {part: value})
    for forced in (-2, made.choices, 10**9):
        clock = state["clock"].copy()
        clock[4] = forced
        with pytest.raises(PsconrlError, match="transfer of steering"):
            Learner.restore(agent, state | {"clock": clock})
    policy = np.repeat(state["plan"]["policy"], 2, axis=0)
    with pytest.raises(PsconrlError, match="only stationary ones"):
        Learner.restore(agent, state | {"plan": state["plan"] | {"policy": policy}})


def test_a_mixture_may_lie_in_memory_as_it_likes() -> None:
    cmdp = make("riverswim")
    agent = optimal(cmdp)
    learner = Learner(agent, 1000, 0)
    learner.act(0)
    state = learner.state()
    fields = state["plan"]["steered"]
    for name, array in fields.items():
        if name != "slope":
            turned, fixed = np.asfortranarray(array), array.copy()
            fixed.setflags(write=False)
            for other in (turned, fixed):
                plan = state["plan"] | {"steered": fields | {name: other}}
                assert Learner.restore(agent, state | {"plan": plan}).act(0) == learner.act(0)


def test_what_steering_does_not_take_changes_nothing() -> None:
    steering = Steering(solve(make("riverswim")))
    steering.act(0)
    for costs in (None, "x", [0.0], [0.0] * 3, [[0.0, 0.0]], [0.0, np.nan], [np.inf, 0.0], [0.0, 1e300], [0.0, None]):
        with pytest.raises(InvalidArgumentError, match="costs is"):
            steering.observe(costs)  # type: ignore[arg-type]
    assert steering.t == 0
    assert not steering.violation.any()
    steering.observe([0.0, 1.0])
    assert steering.t == 1


def steps_of(steering: Steering, cmdp: CMDP, T: int, seed: int, scale: float = 1.0) -> list[int]:
    """The states on the way."""
    rng, p, s = np.random.default_rng(np.random.SeedSequence(seed)), np.asarray(cmdp.transitions), 0
    states = []
    for _ in range(T):
        states.append(s)
        a = steering.act(s)
        assert steering.act(s) == a
        steering.observe(cmdp.costs[:, s, a])
        s = int(rng.choice(cmdp.S, p=p[s, a]))
    return states


def test_steering_by_hand_keeps_the_excess_in_its_band() -> None:
    cmdp = make("riverswim")
    steering = Steering(solve(cmdp), horizon=4000)
    states = steps_of(steering, cmdp, 4000, 0)
    assert steering.t == 4000
    assert abs(steering.violation[0]) < 3 * np.sqrt(10 * 4000)
    assert steering.excess[0] <= 1.2 * steering.band[0]
    assert 0.3 < np.mean(np.array(states) == 5) < 0.7  # the right end, for 0.525 of the time in the optimum
    assert "Steering(2 policies, t=4000" in repr(steering)


def test_costs_of_any_scale_are_steered_alike() -> None:
    cmdp = make("queue")
    scale, shift = np.array([7.0, 1e5, 1e-4]), np.array([-3.0, 50.0, 0.0])
    other = cmdp.replace(
        costs=cmdp.costs * scale[:, None, None] + shift[:, None, None],
        thresholds=cmdp.thresholds * scale[1:] + shift[1:],
    )
    one, two = Steering(solve(cmdp)), Steering(solve(other))
    first, second = steps_of(one, cmdp, 300, 1), steps_of(two, other, 300, 1)
    assert first == second
    np.testing.assert_allclose(two.violation, one.violation * scale[1:], rtol=1e-6, atol=1e-6)
    assert (one.violation < 3 * np.sqrt(10 * 300)).all()


def test_steering_without_limits_runs_the_optimal_policy() -> None:
    cmdp = CMDP([[[0.5, 0.5], [1.0, 0.0]], [[1.0, 0.0], [0.0, 1.0]]], [[[1.0, 0.5], [0.0, 0.2]]])
    solution = solve(cmdp)
    steering = Steering(solution)
    for s in (0, 1):
        assert solution.policy[s, steering.act(s)] == 1.0
        steering.observe([0.5])
    assert steering.excess.shape == steering.violation.shape == (0,)


def test_steering_has_rules() -> None:
    cmdp = make("toy")
    steering = Steering(solve(cmdp))
    with pytest.raises(psconrl.CallOrderError, match="only after act"):
        steering.observe([0.0, 0.0])
    a = steering.act(0)
    assert steering.act(cmdp.state_names[0]) == cmdp.action_names[a]
    for wrong in ([0.0], [0.0, np.nan], "costs", [0.0, 1e300], None):
        with pytest.raises(PsconrlError):
            steering.observe(wrong)  # type: ignore[arg-type]
    steering.observe([0.0, 1.0])
    assert steering.t == 1
    for state in (-1, 2, 0.5, True, None):
        with pytest.raises(PsconrlError, match="state is"):
            steering.act(state)
    infeasible = solve(cmdp.replace(thresholds=[-1.0]))
    with pytest.raises(PsconrlError, match="solution is infeasible"):
        Steering(infeasible)
    with pytest.raises(PsconrlError, match="it must be a Solution"):
        Steering(cmdp)  # type: ignore[arg-type]
    with pytest.raises(PsconrlError, match="horizon is 0"):
        Steering(solve(cmdp), 0)
    apart = CMDP(np.eye(2)[:, None, :].repeat(2, 1), [[[0.0, 0.0], [1.0, 1.0]]] * 2, [1.0], initial=[0.5, 0.5])
    assert solve(apart).attained
    Steering(solve(apart)).act(0)


def test_only_available_actions_are_steered_to() -> None:
    shop = make("inventory")
    assert not shop.available.all()
    steering = Steering(solve(shop), horizon=2000)
    assert all(shop.available[s, steering.act(s)] for s in range(shop.S))
    steps_of(steering, shop, 2000, 0)
    assert (steering.violation < 3 * np.sqrt(20 * 2000)).all()
    agent = agents.PSConRL(shop.problem(), execution="steered", margin=0.1)
    run, plain = (simulate(agent, shop, 400, 0, compiled=compiled) for compiled in (True, False))
    np.testing.assert_array_equal(run.counts, plain.counts)
    assert (run.counts.sum(axis=2)[~shop.available] == 0).all()
    learner = Learner(optimal(shop), 1000, 0)
    learner.act(0)
    state = learner.state()
    actions = state["plan"]["steered"]["actions"].copy()
    actions[:, -1] = np.flatnonzero(~shop.available[-1])[0]
    broken = state["plan"] | {"steered": state["plan"]["steered"] | {"actions": actions}}
    with pytest.raises(PsconrlError, match=r"Plan\.steered is wrong"):
        Learner.restore(learner.agent, state | {"plan": broken})
