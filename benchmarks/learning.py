"""The learning table: signed regret and violation of every agent in the paper's gridworlds, from stored runs.

    psconrl reproduce figure-1 table-1 tractable --out results
    psconrl run --env marsrover-4x4 --agent TSDE --agent Uniform --horizon 5000 --seeds 100 --out results
    python benchmarks/learning.py results

Prints the tables of docs/learning.md; --write puts them there.
"""

import argparse
from pathlib import Path

import numpy as np

from psconrl.agents import preset
from psconrl.analysis.groups import Group, group
from psconrl.analysis.statistics import mean_interval
from psconrl.experiments.presets import PAPER
from psconrl.experiments.store import Store

AGENTS = ("PSConRL", "ConRL", "C-UCRL", "UCRL-CMDP", "CMDP-PSRL", "FHA", "TSDE", "Uniform", "Optimal")


def number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.1f}"


def interval(values: np.ndarray) -> str:
    found = mean_interval(values)
    return f"{number(found.mean)} [{number(found.low)}, {number(found.high)}]"


def row(runs: Group) -> str:
    levels = np.concatenate([runs.optimum[:, None], runs.thresholds], axis=1)
    signed = runs.cumulative - levels[:, :, None] * runs.grid
    late = int(np.searchsorted(runs.grid, 0.8 * runs.horizon))
    last = (signed[:, :, -1] - signed[:, :, late]).mean(axis=0) / (runs.horizon - runs.grid[late])
    plans = np.mean([len(table) for table in runs.episodes])
    infeasible = np.mean([(~table["feasible"]).sum() for table in runs.episodes])
    cells = [
        runs.agent,
        str(runs.runs),
        interval(signed[:, 0, -1]),
        interval(signed[:, 1, -1]),
        f"{plans:.0f}",
        f"{infeasible:.1f}",
        ", ".join(f"{excess:+.4f}" for excess in last),
    ]
    return "| " + " | ".join(cells) + " |"


def tables(folders: list[Path]) -> list[str]:
    stores = [Store(folder) for folder in folders]
    groups = [runs for store in stores for runs in group(store.records(), store.timings()).values()]
    header = "| agent | seeds | regret | violation | plans | infeasible | last fifth above J*, tau |"
    lines = []
    for setting in PAPER:
        lines += ["", f"## {setting.env}, T = {setting.horizon:,}", "", header, "|" + "---|" * 7]
        for agent in AGENTS:
            wanted = (setting.env, agent, setting.horizon, "estimated", preset(agent, setting.env))
            found = [
                runs
                for runs in groups
                if (runs.env, runs.agent, runs.horizon, runs.costs, dict(runs.settings)) == wanted
                and not runs.env_options[0]
            ]
            lines += [row(max(found, key=lambda runs: runs.runs))] if found else []
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", type=Path, nargs="+")
    parser.add_argument("--write", type=Path, metavar="FILE", help="replace the tables of this page")
    args = parser.parse_args()
    lines = tables(args.folders)
    print("\n".join(lines))
    if args.write:
        page = args.write.read_text(encoding="utf-8")
        before, after = page.split("\n## ", 1)[0], page[page.index("\n## What explains") :]
        args.write.write_text(before.rstrip() + "\n" + "\n".join(lines) + "\n" + after, encoding="utf-8")


if __name__ == "__main__":
    main()
