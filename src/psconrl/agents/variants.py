"""What released code does otherwise than the papers, as pieces behind parameters; no default uses any of them.

impute       where pairs never visited lead in an estimated model: "seen", uniformly to the states seen so far;
             "self-loop", nowhere; "dirichlet", to a law drawn afresh from Dirichlet(1, ..., 1)
clip         whether costs after the bonus are cut to [0, 1]
elsewhere    what a policy does in states without occupancy: the "fastest way" into those with some; "uniform"; or
             "action 0", as a ratio 0 / 0 and a sampler that falls through make of it. With the last two several
             recurrent classes stay apart
floor        Dirichlet(max(N, floor)) instead of Dirichlet(prior + N)
"""

from typing import TYPE_CHECKING, Literal

import numpy as np
from scipy import sparse

from psconrl._core import checks
from psconrl._core.checks import Bools, Floats
from psconrl._core.graph import closed_classes
from psconrl._core.lazy import lazy_import
from psconrl.agents.contract import Memory
from psconrl.agents.planning import empirical_transitions, plan_in
from psconrl.agents.posterior import CUT
from psconrl.agents.sampled_model import SampledModel
from psconrl.agents.schedules import Stop
from psconrl.planning.compiled.rows import Rows
from psconrl.planning.for_agents import BestPolicy, Method, Steer, plan_rows
from psconrl.planning.model_rows import with_pairs

if TYPE_CHECKING:
    from psconrl.agents import _floor_kernels as kernels
    from psconrl.agents import _random_kernels as random_kernels
else:
    kernels = lazy_import("psconrl.agents._floor_kernels")
    random_kernels = lazy_import("psconrl.agents._random_kernels")

Impute = Literal["seen", "self-loop", "dirichlet"]
Elsewhere = Literal["fastest way", "uniform", "action 0"]


def check_impute(impute: str, clip: bool) -> None:
    """Refuse words that name no rule for pairs never visited."""
    checks.one_of(impute, "impute", ("seen", "self-loop", "dirichlet"))
    checks.flag(clip, "clip")


def check_elsewhere(elsewhere: str) -> None:
    """Refuse words that name no rule for states without occupancy."""
    checks.one_of(elsewhere, "elsewhere", ("fastest way", "uniform", "action 0"))


def imputed_transitions(memory: Memory, impute: Impute, rng: np.random.Generator) -> Rows:
    """p_hat by rows, with one of the rules for pairs never visited."""
    if impute == "seen":
        return empirical_transitions(memory)
    S, A = memory.visits.shape
    visits = memory.visits.ravel()
    fresh = np.flatnonzero((visits == 0) & memory.pairs.available.ravel())
    if impute == "self-loop":
        filled = sparse.csr_array((np.ones(len(fresh)), (fresh, fresh // A)), shape=(S * A, S))
    else:
        drawn = rng.standard_exponential((len(fresh), S))
        drawn /= drawn.sum(axis=1, keepdims=True)
        places = np.repeat(fresh, S), np.tile(np.arange(S), len(fresh))
        filled = sparse.csr_array((drawn.ravel(), places), shape=(S * A, S))
    counts = memory.observed.sparse()
    shares = counts.data / visits[np.repeat(np.arange(S * A), np.diff(counts.indptr))]
    seen = sparse.csr_array((shares, counts.indices, counts.indptr), shape=counts.shape)
    return with_pairs(Rows.from_sparse(sparse.csr_array(seen + filled)), memory.pairs)


def clipped(costs: Floats, clip: bool) -> Floats:
    """Costs after the bonus, cut to [0, 1] or as they are."""
    return costs.clip(0.0, 1.0) if clip else costs


def plan_elsewhere(
    rows: Rows | SampledModel,
    costs: Floats,
    thresholds: Floats,
    memory: Memory,
    stop: Stop,
    elsewhere: Elsewhere,
    impute: Impute = "seen",
    steer: Steer | None = None,
) -> BestPolicy:
    """`plan_in`, with one of the rules for states without occupancy."""
    # Self-loops cut a model into many parts with few moves each, where the linear program is faster.
    method: Method = "highs" if impute == "self-loop" else "compiled"
    if elsewhere == "fastest way" or isinstance(rows, SampledModel):
        return plan_in(rows, costs, thresholds, memory, stop, steer=steer, method=method)
    pairs = memory.pairs
    rows = with_pairs(rows, pairs)
    best = plan_rows(rows, pairs.taken(costs), thresholds, join=0.0, start=memory.carry, method=method, steer=steer)
    if best.policy is None:
        return best
    policy = pairs.table(best.policy).copy()
    outside = ~occupied(rows, best)
    first = np.eye(policy.shape[1])[pairs.actions(pairs.begin[:-1])]  # action 0, or the first that is available
    policy[outside] = (pairs.uniform if elsewhere == "uniform" else first)[outside]
    return best._replace(policy=policy)


def occupied(rows: Rows, best: BestPolicy) -> Bools:
    """The states in which a best policy whose classes were not joined has occupancy: its recurrent classes."""
    assert best.policy is not None
    policy, begin = best.policy, rows.begin[:-1]
    chain = sparse.csr_array((policy, (rows.source, np.arange(rows.K))), shape=(rows.S, rows.K)) @ rows.matrix()
    # On a trip from class to class of which no share of time is left nothing is planned, and where no way is known
    # the policy is uniform: neither has occupancy, though no edge may lead out.
    planned = np.add.reduceat(policy, begin) > 0.5
    if not best.connected:
        planned &= np.logical_or.reduceat(policy != (1.0 / np.diff(rows.begin))[rows.source], begin)
    inside = np.zeros(rows.S, dtype=np.bool_)
    for states in closed_classes(sparse.csr_array(chain)):
        inside[states] = planned[states].all()
    return inside


def draw_floored(memory: Memory, floor: float, rng: np.random.Generator, cut: float = CUT) -> Rows:
    """One model from Dirichlet(max(N, floor)) for each pair, without entries below `cut`."""
    counts = memory.observed
    arrays = kernels.draw_floored(floor, *counts.chains, counts.S, random_kernels.seeded(rng), cut)
    return Rows(counts.begin, *arrays)
