"""Planning in a model that falls apart, as sampled ones may: in its largest component.

Where some states cannot be left for the others, no policy leads all states to one, as inverses and factors need. In the
long run a policy stays in an end component (`components`), so the optimum of the largest one is that of the model if no
pair of another component is cheaper, at the prices of the limits, than the optimum.
"""

from __future__ import annotations

import numpy as np

from psconrl._core.checks import Floats
from psconrl.planning.compiled.generation import OPTIMAL
from psconrl.planning.compiled.master import VALUE, Limits
from psconrl.planning.compiled.planned import MixturePlan
from psconrl.planning.compiled.pricing import Mixture, Start
from psconrl.planning.compiled.rows import Rows
from psconrl.planning.components import end_components, planner


def plan_largest_component(
    rows: Rows, costs: Floats, levels: Floats, limits: Limits, start: Start
) -> MixturePlan | None:
    """What planners give, in a model with costs (m + 1, K) that falls apart; None where that proves nothing.

    levels (K,) that decide between equals, or (0,); start: of the whole model, its numbers were not looked at yet.
    """
    parts = end_components(rows)
    if not parts:
        return None
    states, pairs = max(parts, key=lambda part: len(part[0]))
    if len(pairs) == rows.K:
        return None
    own, place = rows.part(states, pairs), np.full(rows.K, -1)
    place[pairs] = np.arange(len(pairs))
    chosen = place[start.policies[:, states].clip(0, rows.K - 1)]
    r = int(np.searchsorted(states, start.reference[0]).clip(0, len(states) - 1))
    policies = np.ascontiguousarray(np.where(chosen >= 0, chosen, own.begin[:-1]))
    given = Start(policies, start.multipliers, np.array([r]), start.bias[states])
    deciding = levels[pairs] if len(levels) else levels
    found = planner(own)(own, np.ascontiguousarray(costs[:, pairs]), limits, given, VALUE, deciding)
    if found.status != OPTIMAL:
        return None
    bound, prices = found.bound, found.multipliers
    for _, others in parts:
        if others is not pairs:
            least = (costs[0, others] + prices @ costs[1:, others]).min() - prices @ limits.tau
            bound = min(bound, float(least))
    J, distributions, policies, weights = found.mixture
    whole_laws, whole_policies = np.zeros((len(weights), rows.S)), np.tile(rows.begin[:-1], (len(weights), 1))
    whole_laws[:, states], whole_policies[:, states] = distributions, pairs[policies]
    bias = np.zeros(rows.S)
    bias[states] = found.bias
    return found._replace(bound=bound, bias=bias, mixture=Mixture(J, whole_laws, whole_policies, weights))
