"""`python -m psconrl`: the paper's environments, solved, with their optimal policies drawn on the map."""

import sys

import psconrl
from psconrl.cmdp import CMDP
from psconrl.environments import render

PAPER = ("marsrover-4x4", "marsrover-8x8", "box")


def main() -> None:
    """Print a table of optima, then each map with its policy."""
    models = {name: psconrl.make(name) for name in PAPER}
    solutions = {name: psconrl.solve(cmdp) for name, cmdp in models.items()}
    print("Long-run averages per step, solved exactly (minimise c_0 subject to c_1 <= tau)\n")
    header = ("environment", "states", "tau", "J*", "margin", "price", "fast", "safe")
    widths = (14, 6, 6, 12, 8, 10, 12, 12)
    print(_line(header, widths))
    print(_line(tuple("-" * width for width in widths), widths))
    for name, cmdp in models.items():
        solution = solutions[name]
        cells = (
            name,
            str(cmdp.S),
            f"{cmdp.thresholds[0]:g}",
            f"{solution.value:.9f}",
            f"{solution.margin:.4f}",
            f"{solution.multipliers[0]:.6f}",
            f"{_free(cmdp):.9f}",
            f"{psconrl.solve(cmdp.replace(thresholds=[0.0])).value:.9f}",
        )
        print(_line(cells, widths))
    print(
        "\nJ*      the least average cost within the limit\n"
        "margin  how much lower the limit could be set and still be met\n"
        "price   how much J* falls for each unit that the limit is raised\n"
        "fast    the best without a limit; safe: the best with tau = 0"
    )
    for name, cmdp in models.items():
        averages = solutions[name].average_costs
        print(f"\n{name}: optimal policy, {cmdp.cost_names[0]} {averages[0]:.6f}", end="")
        print(f", {cmdp.cost_names[1]} {averages[1]:.6f} (limit {cmdp.thresholds[0]:g})\n")
        drawn = render.ansi(cmdp, solutions[name].policy, color=sys.stdout.isatty())
        print("\n".join(f"  {line}" for line in drawn.splitlines()))
    print("\nW wall, S start, G goal, P risky, X box (drawn where it starts); * the policy randomises there")


def _free(cmdp: CMDP) -> float:
    """The optimum without constraints."""
    return psconrl.solve(cmdp.replace(costs=cmdp.costs[:1], thresholds=(), cost_names=None)).value


def _line(cells: tuple[str, ...], widths: tuple[int, ...]) -> str:
    first, *others = (f"{cell:>{width}}" for cell, width in zip(cells, widths, strict=True))
    return "  ".join([cells[0].ljust(len(first)), *others])


if __name__ == "__main__":
    main()
