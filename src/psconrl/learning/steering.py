"""Running the mixture of a solution, step by step, outside of any agent.

    steering = psconrl.Steering(psconrl.solve(cmdp))
    a = steering.act(s)         # in state s do a
    steering.observe(costs)     # what it cost: c_0, ..., c_m

The mixture's policies are run one at a time, and the excess of the limits so far decides which; the rule, and why it
keeps the excess of every limit within a band of the order of sqrt(t), is that of `psconrl.planning.steered`.

Rules. act and observe take turns; asked again in the same state, act gives the same action, asked in another one, it
forgets the step that was not observed. Costs are m + 1 finite numbers. What breaks a rule is refused, and leaves all as
it was. Calls from several threads take place one after the other.

Where no way leads from the states of one policy to those of another, there is nothing to steer: chance decides at the
start, as it does in the stationary policy, and limits hold in the mean over runs.
"""

from __future__ import annotations

from threading import RLock
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from psconrl._core.checks import Floats, short_repr, whole
from psconrl._core.lazy import lazy_import
from psconrl.errors import CallOrderError, InvalidArgumentError, InvalidTypeError
from psconrl.learning.labels import Labels
from psconrl.learning.learner import cost_numbers
from psconrl.planning.solution import Solution
from psconrl.planning.steered import FREE

if TYPE_CHECKING:
    from psconrl.planning import for_agents
    from psconrl.planning import steered as rule
    from psconrl.planning import steering as mixtures
else:
    for_agents = lazy_import("psconrl.planning.for_agents")
    mixtures = lazy_import("psconrl.planning.steering")
    rule = lazy_import("psconrl.planning.steered")


_MOST = 1e9
"""Costs are at most this many times their range away from their limits."""


class Steering:
    """Runs the policies of a solution's mixture so that the excess of every limit stays in its band.

    Args:
        solution: of `psconrl.solve`, feasible, and attained by a stationary policy.
        horizon: the approximate number of steps. It decides which states are a policy's core and which it only passes
            through. Running longer is allowed.
        seed: of the random numbers for states from which no path to those of the mixture is known.
    """

    def __init__(self, solution: Solution, horizon: int = 10**6, *, seed: int = 0) -> None:
        if not isinstance(solution, Solution):
            raise InvalidTypeError(
                f"solution is {short_repr(solution)}; it must be a Solution, as psconrl.solve gives it"
            )
        horizon = whole(horizon, "horizon")
        if not solution.feasible:
            raise InvalidArgumentError("solution is infeasible: no steering can keep its limits; loosen them first")
        if not solution.attained:
            raise InvalidArgumentError(
                "solution is not attained: there is no way from policy to policy of its mixture; draw one of them, and "
                "run it for ever"
            )
        model = solution.model
        if model is None:
            raise InvalidArgumentError("solution has no model; give one that psconrl.solve made")
        self._rng = np.random.default_rng(whole(seed, "seed", 0, most=None))
        self.solution, self.horizon = solution, horizon
        ranges = np.ptp(model.pairs.taken(model.costs), axis=1)
        self._unit: Floats = np.where(ranges > 0, ranges, 1.0)
        steer = for_agents.Steer(0, horizon, np.zeros(model.m))
        self._steered = mixtures.from_solution(solution, steer, self._unit)  # None without limits
        self._states, self._actions = Labels(model.S, model.state_names), Labels(model.A, model.action_names)
        self._thresholds = model.thresholds
        self._excess: Floats = np.zeros(model.m)
        self._violation: Floats = np.zeros(model.m)
        self._forced, self._t = FREE, 0
        self._asked: tuple[int, int] | None = None
        self._lock = RLock()

    @property
    def t(self) -> int:
        """Steps observed so far."""
        return self._t

    @property
    def excess(self) -> Floats:
        """V (m,), the excess of each limit as steering counts it: never further below zero than the band."""
        return self._excess * self._unit[1:]

    @property
    def violation(self) -> Floats:
        """The signed violation (m,), sum_t (c_i - tau_i), of all steps observed."""
        return self._violation.copy()

    @property
    def band(self) -> Floats:
        """The band (m,) at this time."""
        slope = 0.0 if self._steered is None else self._steered.slope
        return np.asarray(np.sqrt(slope * self._t) * self._unit[1:])

    def act(self, state: Any) -> Any:
        """The action in a state; by name if the state is given by name."""
        with self._lock:
            s, named = self._states.find(state, "state")
            if self._asked is None or self._asked[0] != s:
                a = -1 if self._steered is None else rule.chosen(self._steered, self._excess, self._forced, s)
                if a < 0:
                    law = self.solution.policy[s]
                    a = int(law.argmax()) if law.max() == 1.0 else int(self._rng.choice(len(law), p=law / law.sum()))
                self._asked = s, a
            return self._actions.name(self._asked[1]) if named else self._asked[1]

    def observe(self, costs: ArrayLike) -> None:
        """Take in the costs (m + 1,) of the step whose action was asked for last."""
        with self._lock:
            if self._asked is None:
                raise CallOrderError("observe a step only after act has chosen its action, and only once")
            c = cost_numbers(costs, len(self._thresholds)).astype(np.float64)
            over = c[1:] - self._thresholds
            if not (np.isfinite(c).all() and (np.abs(over) <= _MOST * self._unit[1:]).all()):
                raise InvalidArgumentError(
                    f"costs is {short_repr(costs)}; costs must be finite, and not far outside of what the model's "
                    "are: give "
                    "what the step cost"
                )
            self._asked = None
            self._t += 1
            self._violation += over
            self._excess += over / self._unit[1:]
            if self._steered is not None:
                self._forced = rule.settle(self._steered, self._excess, self._forced, self._t)

    def __repr__(self) -> str:
        return f"Steering({len(self.solution.mixture)} policies, t={self._t}, violation={self._violation.round(6)})"
