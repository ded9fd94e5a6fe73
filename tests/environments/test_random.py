import numpy as np
import pytest

from psconrl._core import graph
from psconrl.agents.hierarchy import EPS, THETA
from psconrl.environments import make, random
from psconrl.errors import InvalidArgumentError, InvalidModelError
from psconrl.planning import solve
from tests.environments.reference import optimum


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("m", [0, 1, 3])
def test_garnet(seed: int, m: int) -> None:
    cmdp = make("garnet", m=m, seed=seed)
    assert (cmdp.S, cmdp.A, cmdp.m) == (20, 3, m)
    assert graph.is_communicating(cmdp.matrix)
    assert (np.diff(cmdp.matrix.indptr) == 3).all()
    assert ((cmdp.costs >= 0) & (cmdp.costs <= 1)).all()
    assert solve(cmdp).margin >= 0.05 - 1e-9
    value, multipliers = optimum(cmdp)
    assert solve(cmdp).value == pytest.approx(value, abs=1e-9)
    if m == 1:
        assert multipliers[0] > 1e-6  # the limit binds


def test_garnet_is_fixed_by_its_seed() -> None:
    assert make("garnet", seed=3) == make("garnet", seed=3)
    assert make("garnet", seed=3) != make("garnet", seed=4)


@pytest.mark.parametrize(("S", "A", "branching"), [(1, 1, 1), (5, 1, 1), (4, 2, 4), (450, 2, 2)])
def test_garnet_of_all_sizes(S: int, A: int, branching: int) -> None:
    cmdp = make("garnet", S=S, A=A, branching=branching)
    assert (cmdp.S, cmdp.A) == (S, A)
    assert cmdp.is_sparse == (S > 400)
    assert graph.is_communicating(cmdp.matrix)
    assert solve(cmdp).margin >= 0.05 - 1e-9


def test_garnet_checks_its_options() -> None:
    with pytest.raises(InvalidArgumentError, match="branching is 9; it must be at most 4"):
        make("garnet", S=4, branching=9)


def test_dirichlet_fixes_costs_and_limits_first() -> None:
    first, *others = (make("dirichlet", seed=1, draw=draw) for draw in range(12))
    assert (first.S, first.A, first.m) == (10, 3, 1)
    for cmdp in others:
        np.testing.assert_array_equal(cmdp.costs, first.costs)
        np.testing.assert_array_equal(cmdp.thresholds, first.thresholds)
        assert graph.is_communicating(cmdp.matrix)
        assert solve(cmdp).margin >= 0.01
        assert cmdp != first
    assert make("dirichlet", seed=1, draw=7) == others[6]
    assert make("dirichlet", seed=2).thresholds != first.thresholds


def test_dirichlet_limits_bind_for_most_draws() -> None:
    binding = [bool(optimum(make("dirichlet", draw=draw))[1][0] > 1e-9) for draw in range(40)]
    assert np.mean(binding) >= 0.7


def test_dirichlet_discards_what_has_too_small_a_margin(monkeypatch: pytest.MonkeyPatch) -> None:
    tight = float(make("dirichlet").thresholds[0]) - 0.12
    assert all(solve(make("dirichlet", draw=draw, thresholds=[tight])).margin >= 0.01 for draw in range(10))
    monkeypatch.setattr(random, "MAX_DISCARDED", 5)
    with pytest.raises(InvalidModelError, match="5 draws in a row had a margin below gamma"):
        make("dirichlet", S=2, A=1, thresholds=[0.0])


def test_dirichlet_without_constraints() -> None:
    assert make("dirichlet", m=0).m == 0


def test_a_hierarchical_prior_draws_what_it_says() -> None:
    """Rows are distributions; with theta large all rows of a state are near their base, with theta small near a corner.

    Draws of `dirichlet` are communicating by moves of probability 0.01 or more, and repeat.
    """
    rng = np.random.default_rng(np.random.SeedSequence(81))
    largest: dict[int, list[float]] = {}
    for _ in range(300):
        p, g, e = random.hierarchical(rng, 6, 3)
        np.testing.assert_allclose(p.sum(axis=2), 1.0)
        assert (p >= 0).all()
        assert 0 <= e < len(EPS)
        largest.setdefault(g, []).append(float(p.max(axis=2).mean()))
    assert np.mean(largest[0]) > 0.99
    assert np.mean(largest[len(THETA) - 1]) < 0.5
    one, again, other = (make("dirichlet", S=5, prior="learned", draw=draw) for draw in (3, 3, 4))
    np.testing.assert_array_equal(one.transitions, again.transitions)
    assert (one.transitions != other.transitions).any()
    for cmdp in (one, other):
        assert graph.is_communicating(cmdp.matrix >= 0.01)
        assert solve(cmdp).margin >= 0.01
    with pytest.raises(
        InvalidArgumentError, match=r"prior is 'lerned'; it must be a number from 0.001 to 1000, or \"learned\""
    ):
        make("dirichlet", prior="lerned")
