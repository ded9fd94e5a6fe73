"""Discounted totals, totals of episodes, and averages per unit of time, as long-run averages of another model.

Discounted. Each step ends the run with probability 1 - g; a run that ends passes one step in an extra state and starts
again from the initial distribution. Whatever the policy, a run takes 1 / (1 - g) steps on average, so a cycle takes
n = 1 / (1 - g) + 1, and by renewal the long-run average J of a cost that is k in the extra state belongs to the total

    V = n J - k.

Episodes. The states are (time, state), time = 0, ..., H - 1, and after the last step comes the extra state: n = H + 1.

Durations. With h the least duration, the model that moves from (s, a) with probability h / d(s, a), and stays
otherwise, has one step every h units of time, costs c(s, a) / d(s, a) per unit of time, and the same long-run averages
(Schweitzer's data transformation; Tijms, A First Course in Stochastic Models, section 7.1). There a policy shares out
time; as decisions, its probabilities are those of time divided by the durations.

All three maps are affine, so limits, prices, margins, conflicts, mixtures and proofs carry over. Totals leave open what
to do in states that are never met; there the policy is the best one at the shadow prices.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from psconrl._core import checks
from psconrl._core.checks import Bools, Floats, Ints
from psconrl._core.graph import reachable
from psconrl.cmdp import CMDP
from psconrl.planning.evaluation import check_criterion, normalized
from psconrl.planning.solution import Member, Solution
from psconrl.planning.tolerances import PLANNING_BYTES


@dataclass(frozen=True, eq=False)
class Restarted:
    """A model whose runs end and start again, so that its long-run averages tell the totals of a run.

    Attributes:
        cmdp: the model whose totals are asked for, limits on totals.
        discount: the discount factor, None for episodes. episode: H; 1 for discounted totals.
        model: the restarted model; its last state is the extra one.
        places: (n,), the number time * S + state of each of its other states, all that can be met.
        cycle: n, the mean number of steps from start to start.
        floor: (m + 1,), the costs k in the extra state: the least ones, so that no range grows.
    """

    cmdp: CMDP
    discount: float | None
    episode: int
    model: CMDP
    places: Ints
    cycle: float
    floor: Floats

    @staticmethod
    def of(cmdp: CMDP, discount: float | None, episode: int | None) -> Restarted:
        """The restarted model of a criterion, of which exactly one is given.

        Args:
            cmdp: a model without durations.
            discount: the discount factor, between 0 and 1.
            episode: the number of steps.

        Raises:
            InvalidArgumentError: both criteria, one out of range, or a model with durations.
        """
        check_criterion(cmdp, discount, episode)
        layers, length = 1, 1 / (1 - (discount or 0.0))
        if episode is not None:
            layers, length = episode, float(episode)
            checks.fits_memory(
                PLANNING_BYTES * cmdp.matrix.nnz * layers,
                f"planning in {layers} x {cmdp.matrix.nnz:,} transitions",
                "ask for an episode of fewer steps, or for a horizon",
            )
        places = _met(cmdp, layers)
        floor: Floats = cmdp.pairs.taken(cmdp.costs).min(axis=1)
        state = places % cmdp.S
        end = np.broadcast_to(floor[:, np.newaxis, np.newaxis], (cmdp.m + 1, 1, cmdp.A))
        model = CMDP(
            _restarted(cmdp, places, layers, discount),
            np.concatenate([cmdp.costs[:, state], end], axis=1),
            (cmdp.thresholds + floor[1:]) / (length + 1),
            initial=len(places),
            available=np.vstack([cmdp.available[state], np.arange(cmdp.A) == 0]),
            cost_names=cmdp.cost_names,
        )
        return Restarted(cmdp, discount, layers, model, places, length + 1, floor)

    @property
    def length(self) -> float:
        """The number of steps that totals are divided by to be averages per step."""
        return self.cycle - 1

    def totals(self, averages: Floats) -> Floats:
        """Totals (m + 1,) of long-run averages (m + 1,) of the restarted model."""
        return np.asarray(self.cycle * averages - self.floor)

    def solution(self, solved: Solution, solve: Callable[[CMDP], Solution]) -> Solution:
        """The solution for the totals.

        Args:
            solved: the solution of the restarted model.
            solve: what solves models; for states that are never met.
        """
        total = self.totals(solved.average_costs)
        met = self._spread(solved.occupancy.sum(axis=1) > 0, False)
        best = self._at_prices(np.nan_to_num(solved.multipliers), met, solve)
        policy = np.where(met[..., np.newaxis], self._spread(solved.policy, 0.0), np.eye(self.cmdp.A)[best])
        members = []
        for member in solved.mixture:
            core = self._spread(member.core, False)
            actions = np.where(core | met, self._spread(member.policy, 0), best)
            average = self.totals(member.average_costs) / self.length
            members.append(Member(member.weight, actions, average, core))
        return replace(
            solved,
            value=float(self.cycle * solved.value - self.floor[0]),
            policy=policy,
            program="multichain",
            total_costs=total,
            average_costs=total / self.length,
            long_run_costs=total / self.length,
            occupancy=self._spread(solved.occupancy, 0.0) * (self.cycle / self.length),
            margin=self.cycle * solved.margin,
            gap=self.cycle * solved.gap,
            bias_spans=np.full(self.cmdp.m + 1, np.nan),
            mixture=members,
            switching_times=np.zeros((len(members), len(members))),
            discount=self.discount,
            episode=None if self.discount is not None else self.episode,
            model=self.cmdp,
        )

    def _spread(self, values: NDArray[Any], otherwise: float) -> NDArray[Any]:
        """Values (n + 1, ...) of the restarted model by state, or by time and state of an episode."""
        tail = values.shape[1:]
        spread = np.full((self.episode * self.cmdp.S, *tail), otherwise, dtype=values.dtype)
        spread[self.places] = values[:-1]
        return spread.reshape(*self._shape, *tail)

    @property
    def _shape(self) -> tuple[int, ...]:
        return (self.cmdp.S,) if self.discount is not None else (self.episode, self.cmdp.S)

    def _at_prices(self, prices: Floats, met: Bools, solve: Callable[[CMDP], Solution]) -> Ints:
        """The best actions, by state or by time and state, at prices (m,) of the costs, where there is no limit."""
        if met.all():
            return np.zeros(self._shape, dtype=np.int64)
        cost = np.tensordot(np.append(1.0, prices), self.cmdp.costs, axes=1)
        if self.discount is not None:
            priced = self.cmdp.replace(
                costs=cost[np.newaxis],
                thresholds=(),
                cost_names=None,
                initial=np.full(self.cmdp.S, 1 / self.cmdp.S),
            )
            return np.asarray(solve(Restarted.of(priced, self.discount, None).model).policy[:-1].argmax(axis=1))
        best, value = np.empty(self._shape, dtype=np.int64), np.zeros(self.cmdp.S)
        for t in reversed(range(self.episode)):
            q = cost + (self.cmdp.matrix @ value).reshape(cost.shape)
            q[~self.cmdp.available] = np.inf
            best[t], value = q.argmin(axis=1), q.min(axis=1)
        return best


def _met(cmdp: CMDP, layers: int) -> Ints:
    """The states time * S + state that can be met; with one layer, at any time."""
    if layers == 1:
        return np.flatnonzero(reachable(cmdp.matrix, cmdp.initial > 0))
    met = np.zeros((layers, cmdp.S), dtype=np.bool_)
    met[0] = cmdp.initial > 0
    for t in range(1, layers):
        taken = np.repeat(met[t - 1], cmdp.A).astype(np.float64)
        met[t] = cmdp.matrix.T @ taken > 0
    return np.flatnonzero(met)


def _restarted(cmdp: CMDP, places: Ints, layers: int, discount: float | None) -> sparse.csr_array:
    """The transitions ((n + 1) * A, n + 1) of the restarted model."""
    n, S, A = len(places), cmdp.S, cmdp.A
    number = np.full(layers * S, -1)
    number[places] = np.arange(n)
    layer, state = np.divmod(places, S)
    moves = cmdp.matrix[(state[:, np.newaxis] * A + np.arange(A)).ravel()].tocoo()
    if discount is None:
        over = layer == layers - 1
        goes_on = np.flatnonzero(~over[moves.row // A])
        target = (layer[moves.row[goes_on] // A] + 1) * S + moves.col[goes_on]
    else:
        over = np.ones(n, dtype=np.bool_)
        goes_on, target = np.arange(moves.nnz), moves.col
    ending = np.flatnonzero(cmdp.available[state] & over[:, np.newaxis])
    first = np.flatnonzero(cmdp.initial)
    end = 1.0 if discount is None else 1.0 - discount
    data = [
        (1.0 if discount is None else discount) * moves.data[goes_on],
        np.full(len(ending), end),
        cmdp.initial[first],
    ]
    rows = [moves.row[goes_on], ending, np.full(len(first), n * A)]
    columns = [number[target], np.full(len(ending), n), number[first]]
    return sparse.csr_array(
        (np.concatenate(data), (np.concatenate(rows), np.concatenate(columns))), shape=((n + 1) * A, n + 1)
    )


def per_time(cmdp: CMDP, solved: Solution) -> Solution:
    """The solution of a model with durations, given that of the uniformized model."""
    assert cmdp.durations is not None
    step = cmdp.time_step
    return replace(
        solved,
        policy=normalized(solved.policy / np.where(cmdp.available, cmdp.durations, 1.0)),
        bias_spans=step * solved.bias_spans,
        switching_times=step * solved.switching_times,
        model=cmdp,
    )
