"""The interaction loop, compiled: one plan executed in a tabular model.

Every step takes one uniform number for the action and one for the next state, each from a stream of its own, so
that a run may be cut anywhere and go on with the same numbers.
"""

from psconrl._core.checks import Floats, Ints
from psconrl._core.njit import njit, njit_inline
from psconrl.agents._counts_kernels import count
from psconrl.learning.loop_data import Curves, Moves, RandomBuffers, Statistics
from psconrl.planning.steered import Steered, chosen, settle

LENGTH, COUNT, HORIZON, REFILL = 0, 1, 2, 3
"""Why the loop stopped: the plan's length, a count; or, the plan not being over, the end of the run, or because random
numbers or room for counts ran out, or in a state that the learner has not seen before."""

T, LENGTH_SO_FAR, STATE, CHECKPOINT, FORCED = 0, 1, 2, 3, 4
"""What the clock holds: steps done, steps of the plan done, current state, next checkpoint, transfer of steering."""


@njit_inline
def draw(cumulative: Floats, first: int, last: int, u: float) -> int:
    """The first index in [first, last) whose cumulative probability exceeds u."""
    while first < last - 1:
        middle = (first + last - 1) // 2
        if u < cumulative[middle]:
            last = middle + 1
        else:
            first = middle + 1
    return first


@njit
def cumulate(data: Floats, indptr: Ints) -> None:
    """Replace the entries of each row by their sums so far, and the last by 2, which exceeds every number drawn."""
    for row in range(len(indptr) - 1):
        for entry in range(indptr[row] + 1, indptr[row + 1]):
            data[entry] += data[entry - 1]
        data[indptr[row + 1] - 1] = 2.0


@njit
def cumulate_policy(policy: Floats, cumulative: Floats) -> bool:
    """Whether the rows of a policy (L, S, A) are distributions; their sums over the actions so far to (L, S * A).

    From the last possible action on, the sums exceed every number drawn.
    """
    L, S, A = policy.shape
    sound = True
    for k in range(L):
        for s in range(S):
            total, last = 0.0, 0
            for a in range(A):
                p = policy[k, s, a]
                sound = sound and p >= 0.0
                if p > 0.0:
                    last = a
                total += p
                cumulative[k, s * A + a] = total
            for a in range(last, A):
                cumulative[k, s * A + a] = 2.0
            sound = sound and abs(total - 1.0) < 1e-9
    return sound


@njit
def run_plan(
    plan: tuple[Floats, int, Ints, Floats],
    mixture: Steered | None,
    moves: Moves,
    buffers: RandomBuffers,
    statistics: Statistics,
    record: Curves,
    clock: Ints,
    until: int,
) -> int:
    """Execute a plan from where the clock stands until it ends or step `until` is done; why it stopped.

    The parts come as plain tuples, the plan without the mixture: without one, the loop is compiled without steering.
    Updated in place: clock, positions in the buffers, statistics, and the curves.
    """
    policy, max_length, count_limit, limits = plan
    steering = False
    if mixture is not None:
        weights, columns, drifts, limits, binding, transfers, directions, bounds, slope = mixture
        steered = Steered(weights, columns, drifts, limits, binding, transfers, directions, bounds, slope)
        # Always true; but the loop takes twice the time if the compiler knows.
        steering = len(columns) > 0
    indptr, indices, cumulative, costs, per_move = moves
    environment, actions, environment_at, actions_at = buffers
    head, link, target, number, used, visits, cost_sums, excess, spent = statistics
    totals, levels, grid, curves = record
    (known, A), n = visits.shape, costs.shape[0]
    t, length, s, checkpoint = clock[T], clock[LENGTH_SO_FAR], clock[STATE], clock[CHECKPOINT]
    i_env, i_act = environment_at[0], actions_at[0]
    forced = clock[FORCED]
    last = min(until, t + min(len(environment) - i_env, len(actions) - i_act))
    while True:
        if t >= last or used[0] == len(link) or s >= known:
            reason = HORIZON if t >= until else REFILL
            break
        a = -1
        if mixture is not None and steering:
            a = chosen(steered, excess, forced, s)
        if a < 0:
            a = draw(policy[length % policy.shape[0]], s * A, s * A + A, actions[i_act]) - s * A
        pair = s * A + a
        entry = draw(cumulative, indptr[pair], indptr[pair + 1], environment[i_env])
        i_env += 1
        i_act += 1
        x = indices[entry]
        where = entry if per_move else pair
        t += 1
        length += 1
        for i in range(n):
            c, level = costs[i, where], levels[i]
            total = totals[0, i] + c
            totals[0, i] = total
            if c > level:
                totals[1, i] += c - level
            if total - level * t > totals[2, i]:
                totals[2, i] = total - level * t
            cost_sums[i, s, a] += c
        for i in range(len(excess)):
            excess[i] += costs[i + 1, where] - limits[i]
        move = count(pair, x, head, link, target, number, used)
        for i in range(spent.shape[1]):
            spent[move, i] += costs[i, where]
        visits[s, a] += 1
        if mixture is not None and steering:
            forced = settle(steered, excess, forced, t)
        if checkpoint < len(grid) and t == grid[checkpoint]:
            for i in range(n):
                for k in range(3):
                    curves[k, i, checkpoint] = totals[k, i]
            checkpoint += 1
        over = visits[s, a] > count_limit[s, a]
        s = x
        if length >= max_length:
            reason = LENGTH
            break
        if over:
            reason = COUNT
            break
    clock[T], clock[LENGTH_SO_FAR], clock[STATE], clock[CHECKPOINT] = t, length, s, checkpoint
    clock[FORCED] = forced
    environment_at[0], actions_at[0] = i_env, i_act
    return reason
