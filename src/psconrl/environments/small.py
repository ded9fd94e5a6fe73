"""Two small models with known answers: the toy of two states and the admission-controlled queue."""

from itertools import product

import numpy as np

from psconrl._core import checks
from psconrl.cmdp import CMDP


def toy(theta: float = 0.9, tau: float = 0.5275) -> CMDP:
    """Two states, one unknown probability, and a limit that can barely be met.

    Action 1, "go", leads from state 0 to state 1 with probability theta; everything else returns to or
    stays in state 0. c_0 is 1 in state 1, and c_1 = 1 - c_0 is 1 in state 0. Always going spends the share
    1 / (1 + theta) of the time in state 0: the least auxiliary cost. Hence the model is feasible
    iff tau >= 1 / (1 + theta), and then J* = 1 - tau.
    """
    theta = checks.fraction(theta, "theta")
    tau = checks.fraction(tau, "tau")
    p = np.zeros((2, 2, 2))
    p[:, :, 0] = 1.0
    p[0, 1] = 1 - theta, theta
    c = np.zeros((2, 2, 2))
    c[0, 1] = 1.0
    c[1, 0] = 1.0
    return CMDP(
        p,
        c,
        [tau],
        state_names=("left", "right"),
        action_names=("stay", "go"),
        cost_names=("right", "left"),
    )


SERVICE = (0.2, 0.4, 0.6, 0.8)
FLOW = (0.4, 0.5, 0.6, 0.7)
CAPACITY = 5


def queue(service_limit: float = 0.6, flow_limit: float = 0.25) -> CMDP:
    """A queue of at most 5 whose service a and arrivals b are both controlled (Altman, 1999).

    In each step the queue x grows with probability (1 - a) b and shrinks with probability a (1 - b); an
    empty queue does not shrink. A full one has no arrivals whatever b says: it shrinks with probability a.

        c_0 = x / 5                                   the length of the queue
        c_1 = a          <= service_limit             effort
        c_2 = (1 - b)^2  <= flow_limit                customers turned away

    The action is the pair (a, b) of {.2, .4, .6, .8} x {.4, .5, .6, .7}, a first. J* = 0.1052523.
    """
    actions = list(product(SERVICE, FLOW))
    a, b = np.array(actions).T
    S, A = CAPACITY + 1, len(actions)
    p = np.zeros((S, A, S))
    for x in range(S):
        arrivals = b if x < CAPACITY else np.zeros(A)
        up = (1 - a) * arrivals
        down = a * (1 - arrivals) if x > 0 else np.zeros(A)
        if x < CAPACITY:
            p[x, :, x + 1] = up
        if x > 0:
            p[x, :, x - 1] = down
        p[x, :, x] = 1 - up - down
    length = np.repeat(np.arange(S) / CAPACITY, A).reshape(S, A)
    return CMDP(
        p,
        np.stack([length, np.tile(a, (S, 1)), np.tile((1 - b) ** 2, (S, 1))]),
        [service_limit, flow_limit],
        state_names=[f"x={x}" for x in range(S)],
        action_names=[f"a={a:g} b={b:g}" for a, b in actions],
        cost_names=("length", "service", "rejection"),
    )
