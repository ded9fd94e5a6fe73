"""Plain Q-learning under a limit, through Gymnasium alone.

Any method that learns from rewards works in the environments of psconrl: here differential Q-learning, for long-run
averages, with a price on the limited cost. The price rises while the limit is exceeded and falls while there is slack.
Unlike psconrl's agents, it comes without guarantees: compare its averages with those of the best policy.

Run it: python examples/q_learning.py
"""

from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

import psconrl  # registers the environments


def q_learning(env: Any, steps: int, seed: int = 0) -> tuple[NDArray[np.float64], float]:
    """The main and auxiliary costs of each step (steps, 2), and the final price of the auxiliary cost."""
    rng = np.random.default_rng(seed)
    limit = float(env.unwrapped.thresholds[0])
    Q = np.zeros((env.observation_space.n, env.action_space.n))
    average, price = 0.0, 0.0
    paid = np.zeros((steps, 2))
    state, _ = env.reset(seed=seed)
    for t in range(steps):
        explore = rng.random() < max(0.02, 1 - t / (0.2 * steps))
        action = int(rng.integers(env.action_space.n) if explore else Q[state].argmax())
        following, reward, _, _, info = env.step(action)
        gain = reward - price * (info["cost"] - limit)
        error = gain - average + Q[following].max() - Q[state, action]
        Q[state, action] += 0.1 * error
        average += 0.002 * error
        price = max(0.0, price + 0.0005 * (info["cost"] - limit))
        paid[t] = -reward, info["cost"]
        state = following
    return paid, price


def main() -> None:
    """Learn in Marsrover 4x4, and compare with the optimum."""
    env: Any = gymnasium.make("psconrl/Marsrover4x4-v0")
    paid, price = q_learning(env, steps=100_000)
    best = psconrl.solve(env.unwrapped.cmdp)
    late = paid[len(paid) // 2 :].mean(axis=0)
    limit = env.unwrapped.thresholds[0]
    print(f"second half: reward {-late[0]:.3f} per step, cost {late[1]:.3f} per step (limit {limit:g})")
    print(f"the best policy: reward {-best.value:.3f}, cost {best.average_costs[1]:.3f}")
    print(f"price of the cost: learned {price:.2f}, exact {best.multipliers[0]:.2f}")


if __name__ == "__main__":
    main()
