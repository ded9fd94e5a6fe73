"""Gridworlds: Marsrover, Box and any map that a user writes.

The agent goes up, down, left or right; a bump into a wall leaves the state as it is. Every action at a
goal leads to the start (several starts: one of them, uniformly at random). With probability `slip` the
agent goes along a uniformly random action instead of the chosen one.

    c_0(s, s') = 0 if s is at a goal, else 1                                            "time"
    c_1(s, s') = 1 if s' != s and s' is a risky cell                                    "risk"
               = 1 if in s' the box stands between at least two walls                   "corner"

On a map with a box, the state is the pair of the agent's and the box's cell. A move onto the box pushes
it one cell further, and fails like a bump if there is a wall. A step to a goal does not reset the box, the
step from the goal does. A map with risky cells and a box has one auxiliary cost, "risk": 1 if either holds.
"""

import numpy as np
from scipy import sparse

from psconrl._core import checks, graph
from psconrl._core.checks import Bools, Floats, Ints
from psconrl.cmdp import CMDP, DENSE_STATES, Layout
from psconrl.environments.text_map import (
    Letters,
    MapSource,
    TextMap,
    named_map,
    neighbours,
    random_map,
    read_map,
)

ACTIONS = ("up", "down", "left", "right")


def gridworld(
    map: MapSource | None = None, tau: float = 0.2, slip: float = 0.0, full: bool = False, sparse: bool | None = None
) -> CMDP:
    """The model of a map.

    Args:
        map: text, a list of lines, or a file (a Path, or a string that ends in .txt), see `text_map`; by default that
            of Marsrover 4x4.
        tau: the limit of the auxiliary cost per step.
        slip: the probability of going along a uniformly random action instead; costs then belong to moves.
        full: keep the states that cannot be reached from a start, too.
        sparse: whether the transitions are sparse; by default they are from 401 states on.

    States are named by the row and column of the agent in the map, counted from 0: "(3, 2)", and
    "(3, 2) box (1, 1)". Without a box the model is communicating (unless `full`).
    """
    return _build(named_map("marsrover-4x4") if map is None else read_map(map), tau, slip, full, sparse)


def marsrover_4x4(tau: float = 0.2, slip: float = 0.0, sparse: bool | None = None) -> CMDP:
    """Marsrover on the 4x4 map: 16 states, J* = 0.775 at tau = 0.2."""
    return _build(named_map("marsrover-4x4"), tau, slip, False, sparse)


def marsrover_8x8(tau: float = 0.1, slip: float = 0.0, sparse: bool | None = None) -> CMDP:
    """Marsrover on the 8x8 map: 64 states, J* = 0.938095 at tau = 0.1."""
    return _build(named_map("marsrover-8x8"), tau, slip, False, sparse)


def box(tau: float = 0.6, slip: float = 0.0, full: bool = False, sparse: bool | None = None) -> CMDP:
    """Box: the 60 states reachable from the start, J* = 0.845 at tau = 0.6.

    full=True gives all 121 pairs of cells; there the agent may share the box's cell, and leaves it without
    moving the box. That model is not communicating.
    """
    return _build(named_map("box"), tau, slip, full, sparse)


def random_grid(
    rows: int = 8,
    columns: int = 8,
    risky: float = 0.3,
    tau: float = 0.05,
    slip: float = 0.0,
    seed: int = 0,
    sparse: bool | None = None,
) -> CMDP:
    """A Marsrover-like gridworld on a `random_map`; communicating, and strictly feasible for tau > 0."""
    return gridworld(random_map(rows, columns, risky, seed), tau, slip, sparse=sparse)


def _build(map: TextMap, tau: float, slip: float, full: bool, as_sparse: bool | None) -> CMDP:
    slip = checks.fraction(slip, "slip")
    full = checks.flag(full, "full")
    as_sparse = None if as_sparse is None else checks.flag(as_sparse, "sparse")
    free = map.letters != "W"
    cells, letter, to = np.argwhere(free), map.letters[free], neighbours(free)
    agent, cage, after, home = _all_states(letter, to)
    at_goal = letter[agent] == "G"

    state, action, target, p = _moves(after, at_goal, home, slip)
    keep = _reached(map, cells[agent], home, at_goal, state, target)
    if full:
        keep[:] = True
    new = np.cumsum(keep) - 1
    S = int(keep.sum())
    used = keep[state]
    matrix = sparse.csr_array((p[used], (new[state[used]] * 4 + action[used], new[target[used]])), shape=(S * 4, S))
    agent, at_goal = agent[keep], at_goal[keep]
    cage = None if cage is None else cage[keep]

    s, s_next = np.repeat(np.arange(S * 4) // 4, np.diff(matrix.indptr)), matrix.indices
    harm = (s_next != s) & (letter[agent] == "P")[s_next]
    if cage is not None:
        corner = (to == np.arange(len(to))[:, np.newaxis]).sum(axis=1) >= 2
        harm |= corner[cage[s_next]]
    costs = np.stack([~at_goal[s], harm]).astype(np.float64)
    if slip == 0:  # all moves of a pair (s, a) cost the same
        costs = costs[:, matrix.indptr[:-1]].reshape(2, S, 4)
    cmdp = CMDP(
        matrix,
        costs,
        [tau],
        initial=np.bincount(new[home], minlength=S) / len(home),
        state_names=_names(cells, agent, cage),
        action_names=ACTIONS,
        cost_names=("time", "risk" if cage is None or (letter == "P").any() else "corner"),
        layout=Layout(map.rows, cells[agent], None if cage is None else cells[cage]),
    )
    keep_sparse = S > DENSE_STATES if as_sparse is None else as_sparse
    return cmdp if keep_sparse else cmdp.to_dense()


def _all_states(letter: Letters, to: Ints) -> tuple[Ints, Ints | None, Ints, Ints]:
    """Cell of the agent and of the box in each state, states after the four moves, start states.

    With a box, state agent * n + box is the pair of those two of the n cells.
    """
    n = len(letter)
    agent, home = np.arange(n), np.flatnonzero(letter == "S")
    boxes = np.flatnonzero(letter == "X")
    if not len(boxes):
        return agent, None, to, home
    agent, cage = np.repeat(agent, n), np.tile(agent, n)
    return agent, cage, _push(to, agent, cage), home * n + boxes


def _push(to: Ints, agent: Ints, cage: Ints) -> Ints:
    """The pair after each of the four moves from each pair (agent, box), (n * n, 4)."""
    here, there = agent[:, np.newaxis], cage[:, np.newaxis]
    step, shifted = to[agent], to[cage]
    push = (step == there) & (step != here)
    stuck = push & (shifted == there)
    return np.where(stuck, here, step) * len(to) + np.where(push, shifted, there)


def _moves(after: Ints, at_goal: Bools, home: Ints, slip: float) -> tuple[Ints, Ints, Ints, Floats]:
    """All moves with positive probability: state, action, next state, probability."""
    gone = (1 - slip) * np.eye(4) + slip / 4  # [chosen action, action that the agent goes along]
    chosen, along = np.nonzero(gone)
    inside, goals = np.flatnonzero(~at_goal), np.flatnonzero(at_goal)
    n, k = len(inside), len(home)
    return (
        np.concatenate([np.repeat(inside, len(chosen)), np.repeat(goals, 4 * k)]),
        np.concatenate([np.tile(chosen, n), np.tile(np.repeat(np.arange(4), k), len(goals))]),
        np.concatenate([after[inside][:, along].ravel(), np.tile(home, 4 * len(goals))]),
        np.concatenate([np.tile(gone[chosen, along], n), np.full(len(goals) * 4 * k, 1 / k)]),
    )


def _reached(map: TextMap, place: Ints, home: Ints, at_goal: Bools, state: Ints, target: Ints) -> Bools:
    """The states reached from a start; MapError if no goal can be reached from one of the starts."""
    n = len(place)
    moves = sparse.csr_array((np.ones(len(state)), (state, target)), shape=(n, n))
    start = np.zeros(n, dtype=np.bool_)
    start[home] = True
    reached = graph.reachable(moves, start)
    leads_to_goal = graph.reachable(moves.T.tocsr(), at_goal & reached)
    lost = home[~leads_to_goal[home]]
    if len(lost):
        row, column = place[lost[0]]
        raise map.error(row, column, "no goal can be reached from this start; open a way with . cells")
    return reached


def _names(cells: Ints, agent: Ints, cage: Ints | None) -> list[str]:
    place = [f"({r}, {c})" for r, c in cells.tolist()]
    if cage is None:
        return [place[i] for i in agent]
    return [f"{place[i]} box {place[j]}" for i, j in zip(agent, cage, strict=True)]
