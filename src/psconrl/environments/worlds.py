"""Five worlds that ask for exploration: a river, a media buffer, a shop, a server farm and a hospital ward.

On grids without slip every pair of state and action needs to be tried once. Here outcomes are random, some states
are far away, and what a limit costs is learned only by going near it.
"""

from collections.abc import Sequence

import numpy as np
from scipy import sparse

from psconrl._core import checks
from psconrl._core.checks import Floats
from psconrl.cmdp import CMDP, DENSE_STATES
from psconrl.errors import InvalidArgumentError

MAX_STATES = 10**7
"""Of the river."""


def riverswim(S: int = 6, tau: float = 0.6) -> CMDP:
    """RiverSwim: a large reward far upstream, a small one here, and a limit on swimming.

    S places in a row, the current flows to the left (Strehl and Littman, 2008). "left" moves one place to the left
    for sure. "right" moves to the right with probability 0.4 (not from the last place), to the left with 0.05 (not
    from the first), and else nowhere.

        c_0 = 1, but 0.995 for (first, left) and 0 for (last, right)      reward missed
        c_1 = 1[right] <= tau                                             effort

    There are two ways to have c_0 < 1 in the long run. Staying at the left end costs 0.995 and no effort. Whoever
    collects the reward of the right end again and again must swim everywhere: the river carries the swimmer back to
    every place, and a place of rest is never passed again. That means being at the right end for the share
    q = (7/8) / (1 - 8^-S) of the time. The optimum mixes the two: J* = 0.995 (1 - tau) + (1 - q) tau, with shadow
    price q - 0.005 for tau < 1. By default it is 0.473.
    """
    S = checks.whole(S, "S", 2, MAX_STATES)
    tau = checks.fraction(tau, "tau")
    up, down = np.tile([0.0, 0.4], (S, 1)), np.tile([1.0, 0.05], (S, 1))
    c = np.zeros((2, S, 2))
    c[0] = 1.0
    c[0, 0, 0] = 0.995
    c[0, -1, 1] = 0.0
    c[1, :, 1] = 1.0
    return CMDP(
        _steps_of_one(up, down),
        c,
        [tau],
        state_names=[f"place {s}" for s in range(S)],
        action_names=("left", "right"),
        cost_names=("reward missed", "effort"),
    )


BUFFER = 9
"""How many packets the buffer of media streaming holds."""

DOWNLOAD = (0.1, 0.9)
"""Probability that a packet arrives under slow and under fast service."""

PLAYBACK = 0.8
"""Probability that a packet is played."""


def media_streaming(tau: float = 0.5) -> CMDP:
    """A player whose buffer must not run empty, and fast service for at most a share tau of the time.

    The buffer holds x = 0, ..., 9 packets (after Bura et al., 2022). In each step one arrives with probability mu, 0.1
    under slow and 0.9 under fast service, and one is played with probability 0.8, independently: x grows with
    probability 0.2 mu, falls with 0.8 (1 - mu), and stays within its ends.

        c_0 = 1[x = 0]               the picture freezes
        c_1 = 1[fast] <= tau         fast service

    What flows in must flow out: while the buffer is never full, fast service for the share f of the time means
    0.7 - 0.8 f = 0.08 P(x = 0, fast) + 0.72 P(x = 0, slow). So it is best to be slow while the buffer is empty, and
    J* = (0.7 - 0.8 tau) / 0.72 as long as time enough is left to be fast elsewhere (to 1e-7 for tau <= 0.8): 5 / 12 by
    default, with shadow price 10 / 9.
    """
    tau = checks.fraction(tau, "tau")
    S = BUFFER + 1
    mu = np.tile(DOWNLOAD, (S, 1))
    c = np.zeros((2, S, 2))
    c[0, 0] = 1.0
    c[1, :, 1] = 1.0
    return CMDP(
        _steps_of_one(mu * (1 - PLAYBACK), (1 - mu) * PLAYBACK),
        c,
        [tau],
        state_names=[f"{x} in buffer" for x in range(S)],
        action_names=("slow", "fast"),
        cost_names=("frozen", "fast service"),
    )


STOCK = 5
"""How many items the shop can hold."""

DEMAND = (0.3, 0.2, 0.2, 0.2, 0.05, 0.05)
"""Probability of a demand of 0, 1, ..., 5 items a day."""


def inventory(tau: float = 0.5) -> CMDP:
    """A shop that sells as much as it can while orders and storage stay within a budget.

    In the evening x = 0, ..., 5 items are left. An order of a <= 5 - x arrives overnight, the demand D of the day is 0
    to 5 with probabilities (.3, .2, .2, .2, .05, .05), and what cannot be served is lost: x' = max(x + a - D, 0). An
    order costs 4 + 2 a, storing an item for a day 1, and a sale brings 8 (the prices of Puterman, 1994, section 3.2);
    the largest daily expense is 19.

        c_0 = 1 - 0.08 min(D, x + a)                          sales missed; charged as they happen
        c_1 = ((4 + 2 a) 1[a > 0] + x + a) / 19 <= tau        expenses

    Orders that do not fit are not available: with x items left, 6 - x of the six actions are.
    """
    tau = checks.fraction(tau, "tau")
    S = A = STOCK + 1
    p = np.zeros((S, A, S))
    c = np.zeros((2, S, A, S))
    available = np.add.outer(np.arange(S), np.arange(A)) <= STOCK
    for x, a in np.argwhere(available):
        stock = x + a
        for demand, probability in enumerate(DEMAND):
            p[x, a, max(stock - demand, 0)] += probability
        c[0, x, a, : stock + 1] = 1 - 0.08 * (stock - np.arange(stock + 1))
        c[1, x, a] = ((4 + 2 * a) * (a > 0) + stock) / 19
    return CMDP(
        p,
        c,
        [tau],
        state_names=[f"{x} left" for x in range(S)],
        action_names=[f"order {a}" for a in range(A)],
        cost_names=("sales missed", "expenses"),
        available=available,
    )


SERVERS = 10
PRIORITIES = (1, 2, 4, 8)
RELEASE = 0.06
"""Probability that a busy server is free again after a step."""


def access_control(rejected: Sequence[float] = (0.8, 0.6, 0.4, 0.25)) -> CMDP:
    """Ten servers, customers of four priorities, and a limit on how many of each priority are turned away.

    In each step a customer of priority 1, 2, 4 or 8, all equally likely, asks for a server (Sutton and Barto, 2018,
    example 10.2). If accepted, it pays its priority and occupies a server; without a free one it is rejected
    whatever is done. Then each busy server is released with probability 0.06, and the next customer comes.

        c_0 = 1 - paid / 8                                               revenue missed
        c_k = 1[a customer of class k is rejected] <= rejected_k / 4     k = 1, ..., 4

    A quarter of all customers belong to each class, so the limits are `rejected`, the share of each class that may be
    turned away, over four. By revenue alone all customers of priority 1 are rejected, and 80% of priority 2.
    """
    K = len(PRIORITIES)
    if not isinstance(rejected, (Sequence, np.ndarray)) or isinstance(rejected, str) or len(rejected) != K:
        raise InvalidArgumentError(
            f"rejected is {checks.short_repr(rejected)}; it must be a list of {K} numbers from 0 to 1"
        )
    shares = [checks.fraction(share, f"rejected[{k}]") for k, share in enumerate(rejected)]
    S = (SERVERS + 1) * K
    p = np.zeros((SERVERS + 1, K, 2, SERVERS + 1, K))
    c = np.zeros((1 + K, SERVERS + 1, K, 2))
    for free in range(SERVERS + 1):
        for a in range(2):
            accepted = a == 1 and free > 0
            busy = SERVERS - free + accepted
            p[free, :, a, SERVERS - busy :, :] = (_binomial(busy, RELEASE) / K)[:, np.newaxis]
            for k, priority in enumerate(PRIORITIES):
                c[0, free, k, a] = 1 - accepted * priority / max(PRIORITIES)
                c[1 + k, free, k, a] = not accepted
    start = np.zeros((SERVERS + 1, K))
    start[SERVERS] = 1 / K
    return CMDP(
        p.reshape(S, 2, S),
        c.reshape(1 + K, S, 2),
        [share / K for share in shares],
        initial=start.ravel(),
        state_names=[f"{free} free, priority {k}" for free in range(SERVERS + 1) for k in PRIORITIES],
        action_names=("reject", "accept"),
        cost_names=("revenue missed", *(f"rejected of priority {k}" for k in PRIORITIES)),
    )


BEDS, ROOM = 6, 4
"""Beds of the ward, and places in its waiting room."""

ARRIVALS = (0.4, 0.4, 0.2)
"""Probability that 0, 1, 2 patients arrive during a shift."""

RECOVERY = {False: 0.12, True: 0.2}
"""Probability that a patient in bed recovers during a shift: without overtime, and with."""

RETURN = 0.3
"""Probability that a patient who was discharged early comes back."""

SENT_AWAY = 3
"""How many shifts of waiting a patient counts for who is sent to another hospital."""


def hospital(overtime: float = 0.2, readmissions: float = 0.05) -> CMDP:
    """A ward with six beds, a waiting room for four, and limits on overtime and on readmissions.

    A step is a shift of eight hours; b = 0, ..., 6 beds are taken and w = 0, ..., 4 patients wait. There are four
    actions:

        admit         one patient from the waiting room, if there is one and a bed for it
        overtime      admit up to two; more staff also means that patients recover sooner
        discharge     send the fittest patient home early, then admit one; with probability 0.3 the patient comes back
        transfer      send one waiting patient to another hospital, admit none

    Then each patient in bed recovers and leaves with probability 0.12, 0.2 with overtime, and 0, 1 or 2 patients
    arrive with probabilities (.4, .4, .2), beside the one who comes back. Those for whom the waiting room has no place
    are sent to another hospital, too. With w' the patients still waiting after admission and n those sent away,

        c_0 = (w' + 3 E[n]) / 7                                     waiting
        c_1 = 1[overtime]                         <= overtime
        c_2 = 0.3 1[discharge, b > 0]             <= readmissions

    Discharge from an empty ward, and transfer from an empty waiting room, change nothing beyond what "admit" does.
    """
    limits = [checks.fraction(overtime, "overtime"), checks.fraction(readmissions, "readmissions")]
    actions = ("admit", "overtime", "discharge", "transfer")
    states = [(b, w) for b in range(BEDS + 1) for w in range(ROOM + 1)]
    S, A = len(states), len(actions)
    p = np.zeros((S, A, BEDS + 1, ROOM + 1))
    c = np.zeros((3, S, A))
    for s, (b, w) in enumerate(states):
        for a, action in enumerate(actions):
            early = action == "discharge" and b > 0
            transferred = int(action == "transfer" and w > 0)
            capacity = {"overtime": 2, "transfer": 0}.get(action, 1)
            admitted = min(capacity, w, BEDS - b + early)
            beds, waiting = b - early + admitted, w - transferred - admitted
            coming = np.convolve(ARRIVALS, (1 - RETURN, RETURN)) if early else np.array(ARRIVALS)
            room = np.zeros(ROOM + 1)
            np.add.at(room, np.minimum(waiting + np.arange(len(coming)), ROOM), coming)
            sent_away = transferred + coming @ np.maximum(waiting + np.arange(len(coming)) - ROOM, 0)
            left = _binomial(beds, 1 - RECOVERY[action == "overtime"])
            p[s, a, : beds + 1] = np.outer(left, room)
            c[:, s, a] = (waiting + SENT_AWAY * sent_away) / (ROOM + SENT_AWAY), action == "overtime", RETURN * early
    return CMDP(
        p.reshape(S, A, S),
        c,
        limits,
        state_names=[f"beds {b}, waiting {w}" for b, w in states],
        action_names=actions,
        cost_names=("waiting", "overtime", "readmissions"),
    )


def _steps_of_one(up: Floats, down: Floats) -> Floats | sparse.csr_array:
    """Transitions on a row of states: up and down (S, A) by one, clamped at the ends."""
    S, A = up.shape
    row, s = np.arange(S * A), np.repeat(np.arange(S), A)
    entries = [
        (up.ravel(), np.minimum(s + 1, S - 1)),
        (down.ravel(), np.maximum(s - 1, 0)),
        (1 - (up + down).ravel(), s),
    ]
    p = sum(sparse.coo_array((data, (row, to)), shape=(S * A, S)).tocsr() for data, to in entries)
    return p if S > DENSE_STATES else p.toarray().reshape(S, A, S)


def _binomial(n: int, probability: float) -> Floats:
    """The law of the number of successes among n, (n + 1,)."""
    law = np.ones(1)
    for _ in range(n):
        law = np.convolve(law, (1 - probability, probability))
    return law
