"""The agent that needs no tuning beside PSConRL as published, and beside tuned rivals.

python benchmarks/recommended.py OUT [--only WORLD ...] [--agents NAME ...] [--seeds 30] [--list] [--rivals FILE]

In the order in which the worlds are listed, the two agents are run first; then all settings of the rivals named by
--agents with few seeds, and the best of each with further ones. OUT is a store: what is there is not done again. At the
end the table is printed as it stands, and `python -m reproduction.write_docs OUT` takes it over into the documentation.
With --rivals FILE, the untuned.json of an earlier OUT, the rivals in there stay in worlds in which OUT has none, with
the code that made them.
"""

import argparse
import json
from pathlib import Path

import kept  # noqa: F401  # finds `reproduction`

from psconrl.analysis import group
from psconrl.experiments import Cell, Experiment, Store, run_experiment
from reproduction import beyond
from reproduction.write_docs import as_json


def run(out: str, name: str, cells: list[tuple[Cell, int]]) -> None:
    outcome = run_experiment(Experiment(name, *zip(*cells, strict=True)), out, workers=1)
    print(f"{name}: {outcome}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out")
    parser.add_argument("--only", nargs="*", help="names of worlds, all by default")
    parser.add_argument("--agents", nargs="*", default=[], choices=list(beyond.AGENTS), help="rivals to be tuned")
    parser.add_argument("--seeds", type=int, default=beyond.REPORTED)
    parser.add_argument("--list", action="store_true", help="print the worlds, and the table as it stands")
    parser.add_argument("--rivals", type=Path, help="a table whose rivals stay where there are no runs of any")
    args = parser.parse_args()
    worlds = [world for world in beyond.WORLDS if not args.only or world.name in args.only]
    for world in worlds if not args.list else ():
        both = [next(cell for cell in beyond.cells(world) if cell.agent == beyond.UNTUNED), beyond.published(world)]
        run(args.out, f"{world.name}: untuned", [(cell, beyond.TUNING + args.seeds) for cell in both])
        rivals = [cell for cell in beyond.cells(world) if cell.agent in args.agents]
        if rivals:
            run(args.out, f"{world.name}: tuning", [(cell, beyond.TUNING) for cell in rivals])
            scores = beyond.scores(
                group(r for r in Store(args.out).records({c.identity(s) for c in rivals for s in range(beyond.TUNING)}))
            )
            best = [
                min((cell for cell in rivals if cell.agent == agent), key=lambda cell: scores[cell.id])
                for agent in dict.fromkeys(cell.agent for cell in rivals)
            ]
            run(args.out, f"{world.name}: chosen", [(cell, beyond.TUNING + args.seeds) for cell in best])
    for world in worlds if args.list else ():
        print(world.name)
    found = beyond.document(group(Store(args.out, create=True).records()))
    if found is not None:
        if args.rivals:
            found = beyond.completed(found, json.loads(args.rivals.read_text(encoding="utf-8")))
        folder = Path(args.out) / "tables"
        folder.mkdir(exist_ok=True)
        (folder / "untuned.json").write_text(as_json(found), encoding="utf-8")
        print(beyond.untuned_table(found), beyond.rivals_table(found), sep="\n")


if __name__ == "__main__":
    main()
