"""The terms of the proof against exact evaluation, and what they must add up to."""

import numpy as np
import pytest

from psconrl import CMDP, make, solve
from psconrl.agents import PSConRL
from psconrl.learning import simulate
from psconrl.planning import evaluate
from reproduction import proof


@pytest.fixture(scope="module")
def watched() -> tuple[CMDP, proof.Watched]:
    cmdp = make("dirichlet", S=6, A=2, prior=0.5, draw=1)
    agent = proof.Watched(cmdp.problem("known"), prior=0.5)
    simulate(agent, cmdp, 400, 0)
    return cmdp, agent


def test_averages_and_biases_against_exact_evaluation() -> None:
    cmdp = make("dirichlet", S=6, A=2, prior=0.5, draw=1)
    rng = np.random.default_rng(np.random.SeedSequence(0))
    policy = rng.dirichlet(np.ones(2), size=6)
    p = np.asarray(cmdp.matrix.toarray()).reshape(6, 2, 6)
    J, v = proof.averages_and_biases(p, cmdp.costs, policy)
    exact = evaluate(cmdp, policy)
    np.testing.assert_allclose(J, exact.average_costs[:, 0], atol=1e-12)
    np.testing.assert_allclose(v, exact.bias - exact.bias[:, :1], atol=1e-10)


def test_the_terms_add_up(watched: tuple[CMDP, proof.Watched]) -> None:
    cmdp, agent = watched
    optimum = solve(cmdp).value
    terms, total = proof.decomposition(cmdp, agent, optimum)
    np.testing.assert_allclose(terms.sum(axis=0), total, atol=1e-9)
    # All samples but infeasible ones, all whole episodes: counted anew from the last note.
    whole = agent.notes[-1][1]
    if all(plan.feasible for plan in agent.plans):
        paid = np.einsum("sax,nsa->n", whole, cmdp.costs)
        levels = np.concatenate([[optimum], cmdp.thresholds])
        np.testing.assert_allclose(total, paid - whole.sum() * levels, atol=1e-9)
    assert terms[0, 1] <= 1e-6, "a feasible sample's policy keeps the limit in it"


def test_a_policy_without_chance_has_no_fourth_term(watched: tuple[CMDP, proof.Watched]) -> None:
    cmdp, agent = watched
    p, counts, _, _ = agent.notes[-1]
    policy = np.eye(2)[np.zeros(6, dtype=int)]
    J, v = proof.averages_and_biases(p, cmdp.costs, policy)
    noise = cmdp.costs[:, :, 0] + (p[:, 0] @ v.T).T
    np.testing.assert_allclose(noise, J[:, np.newaxis] + v, atol=1e-10)
    assert counts.sum() > 0


def test_coverage_by_hand(watched: tuple[CMDP, proof.Watched]) -> None:
    cmdp, agent = watched
    shares = proof.coverage(cmdp, agent, 400)
    true = np.asarray(cmdp.matrix.toarray()).reshape(6, 2, 6)
    p, counts, _, t = agent.notes[5]
    for column, q in enumerate((true, p)):
        worst = 0.0
        for s in range(6):
            for a in range(2):
                N = max(counts[s, a].sum(), 1)
                radius = np.sqrt(14 * 6 * np.log(2 * 2 * 400 * (t + 1)) / N)
                worst = max(worst, np.abs(q[s, a] - counts[s, a] / N).sum() / radius)
        assert shares[5, column] == pytest.approx(worst)


def test_the_inequality_of_the_feasibility_lemma_holds(watched: tuple[CMDP, proof.Watched]) -> None:
    shares, margin = proof.feasibility(*watched)
    assert (shares <= 1).all()
    assert margin > 0


def test_quick_measurements_read() -> None:
    found = proof.measure(quick=True)
    assert found["coverage"]["failures"] == [0, 0]
    assert max(row["error"] for row in found["terms"]) < 1e-6
    for text in (proof.decomposed(found), proof.lemmas(found), proof.asked(found)):
        assert "nan" not in text


def test_the_first_steps_do_not_depend_on_the_horizon() -> None:
    cmdp = make("marsrover-4x4")
    agent = PSConRL(cmdp.problem("estimated"))
    short, long = (simulate(agent, cmdp, 500 * k, 0, checkpoints=50 * k) for k in (1, 2))
    np.testing.assert_array_equal(short.cumulative, long.cumulative[:, :50])
