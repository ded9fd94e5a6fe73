"""Primal-dual Q-learning: no model, a table of values and a multiplier for each limit.

The model-free baseline, in the line of H. Wei, X. Liu, L. Ying: A Provably-Efficient Model-Free Algorithm for
Infinite-Horizon Average-Reward Constrained Markov Decision Processes. AAAI 2022 (Triple-QA), which learns values of a
discounted Lagrangian and keeps a virtual queue for each limit. After every step from (s, a) to s' at costs c

    Q(s, a)   <- (1 - alpha) Q(s, a) + alpha (c_0 + sum_i lambda_i (c_i - tau_i) - b + gamma min_a' Q(s', a'))
    lambda_i  <- clip(lambda_i + step (c_i - tau_i), 0, largest)

with alpha = (w + 1) / (w + N(s, a)), w = 1 / (1 - gamma), and the bonus b = scale / sqrt(N(s, a)); the action of least
Q(s, a) is taken, the first of several.

Parameters
    discount   gamma
    step       of the multipliers; None: 1 / sqrt(T)
    largest    multiplier
    scale      of the bonus

Deviations. One table of values for the Lagrangian where Triple-QA keeps one for each cost, no frames at whose ends
queues are updated and tables forgotten, and no tightened limits.
"""

from dataclasses import dataclass

import numpy as np

from psconrl._core.checks import FLOAT, INT, Floats, real
from psconrl.agents.contract import Agent, Memory, Plan
from psconrl.agents.schedules import fixed


@dataclass(frozen=True, eq=False)
class PrimalDualQ(Agent):
    """Q-learning on the Lagrangian, with multipliers that follow the excess of each step (after Wei et al. 2022)."""

    uses_planner = False

    discount: float = 0.99
    step: float | None = None
    largest: float = 10.0
    scale: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        real(self.discount, "discount", "a number between 0 and 1", lambda x: 0 < x < 1)
        real(self.largest, "largest", "a number > 0", lambda x: x > 0)
        real(self.scale, "scale", "a number >= 0", lambda x: x >= 0)
        if self.step is not None:
            real(self.step, "step", "a number > 0", lambda x: x > 0)

    @property
    def name(self) -> str:
        """The name in tables."""
        return "Primal-dual-Q"

    def plan(self, memory: Memory, rng: np.random.Generator) -> Plan:
        """Learn from the step before, and act greedily for one step."""
        Q, multipliers = self.learned(memory)
        s = memory.state
        a = int(np.where(memory.pairs.available[s], Q[s], np.inf).argmin())
        policy = memory.pairs.uniform
        policy[s] = np.arange(len(Q[s])) == a
        last = np.array([s, a, memory.visits[s, a]])
        carry = {"Q": Q, "multipliers": multipliers, "last": last, "sums": memory.cost_sums[:, s, a].copy()}
        return Plan(policy[np.newaxis], **fixed(1), carry=carry, multipliers=multipliers)

    def learned(self, memory: Memory) -> tuple[Floats, Floats]:
        """Q (S, A) and the multipliers (m,) after the step before, if it was as planned."""
        (S, A), m, carry = memory.visits.shape, self.problem.m, memory.carry
        Q, multipliers = np.zeros((S, A)), np.zeros(m)
        if not _fits(carry, S, A, m):
            return Q, multipliers
        Q[: len(carry["Q"])] = carry["Q"]
        s, a, before = carry["last"].tolist()
        N = memory.visits.item(s, a)
        if before + 1 != N:  # another action was taken
            return Q, carry["multipliers"].copy()
        costs = memory.cost_sums[:, s, a] - carry["sums"]
        over = costs[1:] - self.problem.thresholds
        window = 1.0 / (1.0 - self.discount)
        alpha = (window + 1.0) / (window + N)
        best = np.where(memory.pairs.available[memory.state], Q[memory.state], np.inf).min()
        target = costs[0] + carry["multipliers"] @ over - self.scale / np.sqrt(N) + self.discount * best
        Q[s, a] += alpha * (target - Q[s, a])
        step = memory.horizon**-0.5 if self.step is None else self.step
        return Q, (carry["multipliers"] + step * over).clip(0.0, self.largest)


def _fits(carry: object, S: int, A: int, m: int) -> bool:
    """Whether a carry is that of a plan for at most S states."""
    try:
        Q, multipliers, last, sums = (carry[name] for name in ("Q", "multipliers", "last", "sums"))  # type: ignore[index]
    except (KeyError, TypeError):
        return False
    kinds = Q.dtype == multipliers.dtype == sums.dtype == FLOAT and last.dtype == INT
    shapes = Q.shape == (len(Q), A) and multipliers.shape == (m,) and sums.shape == (m + 1,) and last.shape == (3,)
    return bool(kinds and shapes and len(Q) <= S and 0 <= last[0] < S and 0 <= last[1] < A)
