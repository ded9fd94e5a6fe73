"""Policy iteration in rational arithmetic, against all deterministic policies."""

from fractions import Fraction
from itertools import product

import numpy as np
import pytest

from psconrl import CMDP
from psconrl._core.graph import is_communicating
from psconrl.planning.compiled.rows import Rows
from psconrl.planning.exact import ExactModel
from tests.planning.oracle import Oracle


@pytest.mark.parametrize("seed", range(40))
def test_the_least_average_of_all_policies(seed: int) -> None:
    """Probabilities of every size down to 1e-300; policies to begin with that have several classes."""
    rng = np.random.default_rng(np.random.SeedSequence([31, seed]))
    S, A = 2 + seed % 3, 2
    p = rng.dirichlet(np.ones(S), (S, A)) * 10.0 ** rng.integers(-300 if seed % 2 else -12, 1, (S, A, S))
    p *= rng.random(p.shape) < 0.7
    for s, a in product(range(S), range(A)):
        p[s, a, s] = 1.0 - (p[s, a].sum() - p[s, a, s])
    if not is_communicating(CMDP(p, np.zeros((1, S, A))).matrix):
        pytest.skip("this model falls apart")
    c = rng.random((S, A))
    wanted = Oracle(p, c[np.newaxis], np.zeros(0)).optimum.value or Fraction(0)
    rows = Rows.from_dense(p)
    for start in product(range(A), repeat=S):
        found = ExactModel(rows).best(c.ravel(), rows.begin[:-1] + np.array(start))
        assert found.gain == pytest.approx(float(wanted), rel=1e-15)
        assert float(found.mu.sum()) == pytest.approx(1.0, abs=1e-12)
        assert float(found.mu @ c.ravel()[found.policy]) == pytest.approx(found.gain, rel=1e-12)
