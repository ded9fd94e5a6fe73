"""How much stock to keep if few customers may be turned away.

A shop sells one item. In the evening it counts its stock and places an order; the goods arrive overnight. Holding an
item for a day costs money, and so does placing an order. At most a given share of the demand may be lost.

Run it: python examples/solve_inventory.py --lost 0.05
"""

import argparse
from collections.abc import Sequence

import numpy as np

import psconrl

DEMAND = np.array([0.1, 0.3, 0.3, 0.2, 0.1])  # of 0, 1, ..., 4 items a day


def inventory(capacity: int, lost: float, holding: float = 1.0, order: float = 4.0) -> psconrl.CMDP:
    """States: stock in the evening. Actions: items ordered; what does not fit is sent back."""
    S = A = capacity + 1
    transitions = np.zeros((S, A, S))
    money, turned_away = np.zeros((S, A)), np.zeros((S, A))
    wanted = np.arange(len(DEMAND))
    for stock in range(S):
        for ordered in range(A):
            morning = min(stock + ordered, capacity)
            np.add.at(transitions[stock, ordered], np.maximum(morning - wanted, 0), DEMAND)
            money[stock, ordered] = holding * morning + order * (ordered > 0)
            turned_away[stock, ordered] = DEMAND @ np.maximum(wanted - morning, 0)
    return psconrl.CMDP(
        transitions,
        [money, turned_away],
        thresholds=[lost * float(DEMAND @ wanted)],
        state_names=[f"{stock} left" for stock in range(S)],
        action_names=[f"order {ordered}" for ordered in range(A)],
        cost_names=["money", "turned away"],
    )


def main(arguments: Sequence[str] | None = None) -> None:
    """Solve the shop's problem, and show what the limit costs."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--capacity", type=int, default=8, help="items that fit into the shop")
    parser.add_argument("--lost", type=float, default=0.05, help="share of the demand that may be lost")
    options = parser.parse_args(arguments)

    shop = inventory(options.capacity, options.lost)
    solution = psconrl.solve(shop)
    if not solution.feasible:
        parser.exit(1, f"even a full shop loses {-solution.margin:.3f} customers a day too many\n")
    print(f"money {solution.value:.3f} a day, one more customer lost would save {solution.multipliers[0]:.2f}\n")
    for stock, row in zip(shop.state_names, solution.policy, strict=True):
        choices = [f"{name} ({p:.0%})" for name, p in zip(shop.action_names, row, strict=True) if p > 1e-9]
        print(f"{stock}: {', '.join(choices)}")

    demand = float(DEMAND @ np.arange(len(DEMAND)))
    sweep = psconrl.threshold_sweep(shop, thresholds=demand * np.array([0, 0.01, 0.02, 0.05, 0.1, 0.2]))
    print("\nlost     money   price")
    for tau, value, price in zip(sweep.thresholds, sweep.values, sweep.multipliers[:, 0], strict=True):
        print(f"{tau / demand:5.1%}  {value:7.3f}  {price:6.2f}")


if __name__ == "__main__":
    main()
