"""Small models that make the planner's kernels be compiled, so that what runs after it finds them on disk."""

import numpy as np

from psconrl.planning.compiled.execute import execute
from psconrl.planning.compiled.pricing import Mixture
from psconrl.planning.compiled.rows import Rows
from psconrl.planning.shortest_paths import round_trip


def compile_execution() -> None:
    """What follows the search for an optimum: its columns are made a policy, and classes are joined."""
    p = np.full((3, 2, 3), 1.0 / 3.0)
    p[0, 0] = p[1, 0] = np.eye(3)[:1]
    rows, costs = Rows.from_dense(p), np.zeros((1, 6))
    mixture = Mixture(np.zeros((1, 1)), np.eye(3)[:1], rows.begin[np.newaxis, :-1].copy(), np.ones(1))
    execute(rows, costs, mixture, np.full(3, -1), 0.5)
    round_trip(rows, np.array([0, 2]))
