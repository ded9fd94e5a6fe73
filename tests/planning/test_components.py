"""End components and the model of components against brute force."""

from itertools import combinations, product

import numpy as np
import pytest

from psconrl import CMDP, evaluate, solve
from psconrl._core.checks import Floats
from psconrl.planning.compiled.generation import INFEASIBLE, OPTIMAL, plain_generate
from psconrl.planning.compiled.master import VALUE, Limits
from psconrl.planning.compiled.rows import Rows
from psconrl.planning.components import Component, ComponentPricing, Quotient, end_components
from tests.planning.reference import by_linprog


def model(seed: int, S: int, A: int) -> Floats:
    """Rows with one or two successors: few components, of every size."""
    rng = np.random.default_rng(np.random.SeedSequence([21, seed]))
    p = np.zeros((S, A, S))
    for s, a in np.ndindex(S, A):
        ends = rng.choice(S, size=min(S, int(rng.integers(1, 3))), replace=False)
        p[s, a, ends] = rng.dirichlet(np.ones(len(ends)))
    return p


def by_subsets(p: Floats) -> set[tuple[tuple[int, ...], tuple[int, ...]]]:
    """The maximal sets of states that can be kept for ever, going from each to each, with all pairs that keep them."""
    S, A, _ = p.shape
    found: dict[tuple[int, ...], tuple[int, ...]] = {}
    for size in range(1, S + 1):
        for states in combinations(range(S), size):
            outside = np.setdiff1d(np.arange(S), states)
            pairs = [(s, a) for s in states for a in range(A) if not p[s, a, outside].any()]
            reach = np.eye(S, dtype=np.bool_)
            for s, a in pairs:
                reach[s] |= p[s, a] > 0
            reach = np.linalg.matrix_power(reach.astype(np.int64), S) > 0
            if {s for s, _ in pairs} == set(states) and reach[np.ix_(states, states)].all():
                found[states] = tuple(s * A + a for s, a in pairs)
    return {(one, found[one]) for one in found if not any(set(one) < set(other) for other in found)}


@pytest.mark.parametrize("seed", range(60))
def test_end_components_by_all_sets_of_states(seed: int) -> None:
    S, A = 1 + seed % 6, 1 + seed % 3
    p = model(seed, S, A)
    found = end_components(Rows.from_dense(p))
    assert {(tuple(states), tuple(pairs)) for states, pairs in found} == by_subsets(p)
    firsts = [int(states[0]) for states, _ in found]
    assert firsts == sorted(firsts)
    for states, pairs in found:
        assert (np.diff(states) > 0).all()
        assert (np.diff(pairs) > 0).all()


def test_probabilities_of_zero_lead_nowhere() -> None:
    rows = Rows(np.array([0, 1, 2]), np.array([0, 2, 3]), np.array([0, 1, 1]), np.array([1.0, 0.0, 1.0]))
    assert [(states.tolist(), pairs.tolist()) for states, pairs in end_components(rows)] == [([0], [0]), ([1], [1])]


@pytest.mark.parametrize("seed", range(40))
def test_the_best_policy_of_a_component(seed: int) -> None:
    """Against all deterministic policies; the bound is one, and the policy has one class and this average."""
    p = model(seed, 5, 2)
    c = np.random.default_rng(seed).random(10)
    rows = Rows.from_dense(p)
    for states, pairs in end_components(rows):
        part = Component(rows, states, pairs)
        assert (len(states), len(pairs)) == (part.rows.S, part.rows.K)
        own = c[pairs]
        found = part.price(own)
        choices = [range(a, b) for a, b in zip(part.rows.begin[:-1], part.rows.begin[1:], strict=True)]
        least = np.inf
        for chosen in product(*choices):
            chain = CMDP(part.chain(np.array(chosen)).toarray()[:, np.newaxis], own[list(chosen)][np.newaxis, :, None])
            least = min(least, float(evaluate(chain, np.zeros(len(states), dtype=np.int64)).average_costs.min()))
        assert found.gain == pytest.approx(least, abs=1e-12)
        assert found.bound <= least
        assert found.bound == pytest.approx(least, abs=1e-9)
        chain = CMDP(part.chain(found.policy).toarray()[:, np.newaxis], own[found.policy][np.newaxis, :, None])
        exact = evaluate(chain, np.zeros(len(states), dtype=np.int64))
        assert len(exact.classes) == 1
        np.testing.assert_allclose(exact.average_costs, found.gain, atol=1e-12)


@pytest.mark.parametrize("seed", range(60))
def test_where_to_end(seed: int) -> None:
    """The price of stopping against all deterministic policies of the model, from every state."""
    S, A = 2 + seed % 4, 2
    p = model(seed, S, A)
    rng = np.random.default_rng(seed)
    rows, c = Rows.from_dense(p), rng.random((1, S, A))
    parts = [Component(rows, states, pairs) for states, pairs in end_components(rows)]
    priced = [part.price(c.ravel()[part.pairs]) for part in parts]
    quotient = Quotient(rows, parts)
    choice, V, proved = quotient.best(np.array([found.gain for found in priced]))
    assert proved
    least = np.full(S, np.inf)
    cmdp = CMDP(p, c)
    for actions in product(range(A), repeat=S):
        least = np.minimum(least, evaluate(cmdp, np.array(actions)).average_costs[0])
    np.testing.assert_allclose(V[quotient.node], least, atol=1e-9)
    # The policy that goes with it attains them all at once.
    policy = quotient.policy(choice, [found.policy for found in priced])
    np.testing.assert_allclose(evaluate(cmdp, policy - rows.begin[:-1]).average_costs[0], least, atol=1e-9)


def test_where_to_end_in_a_long_corridor() -> None:
    """Both ends are absorbing, and from most places rounding hides that the far one can be reached."""
    S = 600
    p = np.zeros((S, 2, S))
    for s in range(1, S - 1):
        p[s, 0, s - 1] = p[s, 1, s + 1] = 0.9
        p[s, 0, s + 1] = p[s, 1, s - 1] = 0.1
    p[0, :, 0] = p[-1, :, -1] = 1.0
    costs = np.zeros((2, S, 2))
    costs[0, 0], costs[0, -1], costs[1, 0] = 0.2, 1.0, 1.0
    assert solve(CMDP(p, costs, [0.5], initial=S // 2)).value == pytest.approx(0.6, abs=1e-9)


@pytest.mark.parametrize("leak", [1e-3, 1e-20, 1e-300])
def test_a_way_out_that_takes_several_steps_and_hardly_ever_leads_out(leak: float) -> None:
    """From state 0, which can be stayed in, to 1, and back but for a leak to 2, which costs nothing."""
    p = np.zeros((3, 2, 3))
    p[0, 0, 0] = p[0, 1, 1] = p[2, :, 2] = 1.0
    p[1, :, 0], p[1, :, 2] = 1.0 - leak, leak
    costs = np.ones((1, 3, 2))
    costs[0, 2] = 0.0
    solution = solve(CMDP(p, costs, initial=0))
    assert solution.value == pytest.approx(0.0, abs=1e-12)
    assert solution.policy[0, 1] == 1.0


@pytest.mark.parametrize("stateless", [True, False])
def test_the_best_mixture(stateless: bool) -> None:
    """Against the linear programs: stateless, and from a start law."""
    statuses = []
    for seed in range(60):
        rng = np.random.default_rng(np.random.SeedSequence([22, seed]))
        S, A, m = int(rng.integers(1, 7)), 2, int(rng.integers(0, 3))
        p, costs, tau = model(seed, S, A), rng.random((m + 1, S, A)), rng.uniform(0.3, 0.6, m)
        start = rng.dirichlet(np.ones(S))
        way = ComponentPricing(Rows.from_dense(p), costs.reshape(m + 1, -1), None if stateless else start)
        found = plain_generate(ComponentPricing.price, way, Limits(tau, np.ones(m)), VALUE, np.zeros(m), 1e-10)
        wanted = by_linprog(CMDP(p, costs, tau, initial=start), stateless=stateless)
        if abs(wanted.margin) < 1e-8:
            continue
        statuses.append(found.status)
        assert found.status == (OPTIMAL if wanted.margin > 0 else INFEASIBLE)
        if found.status == OPTIMAL:
            assert found.objective == pytest.approx(wanted.value, abs=1e-8)
            assert found.bound <= wanted.value + 1e-8
            assert found.objective - found.bound <= 1e-8
    assert set(statuses) == {OPTIMAL, INFEASIBLE}
