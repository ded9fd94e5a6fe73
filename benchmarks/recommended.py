"""The recommended agent beside the paper's PSConRL, no setting chosen for any world: L, [V]+ and policy violation.

python benchmarks/recommended.py [--seeds 5] [--horizon 20000]

Means over seeds, the worst of them in brackets; violations are summed over limits.
"""

import argparse
from typing import Any

import numpy as np

import psconrl
from psconrl import CMDP, agents

WORLDS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("marsrover-4x4", {}),
    ("marsrover-8x8", {}),
    ("marsrover-8x8", {"slip": 0.1}),
    ("box", {}),
    ("frozen-lake", {"full": True}),
    ("frozen-lake", {"full": True, "slippery": False}),
    ("cliff-walking", {"full": True}),
    ("queue", {}),
    ("riverswim", {}),
    ("media-streaming", {}),
    ("inventory", {}),
    ("hospital", {}),
    ("access-control", {}),
    ("garnet", {"S": 5, "A": 2, "margin": 0.02}),
)


def measured(agent: agents.Agent, cmdp: CMDP, horizon: int, seeds: int) -> list[str]:
    """The three measures at the horizon."""
    solution = psconrl.solve(cmdp)
    runs = [
        psconrl.simulate(agent, cmdp, horizon, seed, optimum=solution, evaluate_policies=True) for seed in range(seeds)
    ]
    ends = np.array(
        [(r.lagrangian[-1], r.positive_violation[:, -1].sum(), r.policy_violation[:, -1].sum()) for r in runs]
    )
    return [f"{mean:,.0f} ({worst:,.0f})" for mean, worst in zip(ends.mean(axis=0), ends.max(axis=0), strict=True)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--horizon", type=int, default=20_000)
    args = parser.parse_args()
    print("| world | L | [V]+ | by policies | PSConRL: L | [V]+ | by policies |")
    print("|---|---|---|---|---|---|---|")
    for env, options in WORLDS:
        cmdp = psconrl.make(env, **options)
        pair = (agents.recommended(cmdp.problem()), agents.PSConRL(cmdp.problem()))
        found = [text for agent in pair for text in measured(agent, cmdp, args.horizon, args.seeds)]
        name = " ".join([env, *(f"{key}={value}" for key, value in options.items())])
        print(f"| {name} | {' | '.join(found)} |", flush=True)


if __name__ == "__main__":
    main()
