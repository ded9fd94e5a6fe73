"""The command: `python -m reproduction [PRESET ...] [--quick] [--out DIR] [--workers N]`."""

from __future__ import annotations

import argparse
import shutil
import sys
from pathlib import Path

from psconrl.errors import PsconrlError
from psconrl.experiments import for_terminal
from reproduction.claims import as_text
from reproduction.presets import presets
from reproduction.reproduce import Reproduction, reproduce

FAILED, INTERRUPTED = 1, 130


def parser() -> argparse.ArgumentParser:
    """The command line."""
    width = max(map(len, presets())) + 3
    listed = [f"  {preset.name:<{width}}{preset.description}" for preset in presets().values()]
    command = argparse.ArgumentParser(
        "python -m reproduction",
        description="Run the paper's experiments, and write figures, tables, claims and a report. Runs that are "
        "already in the folder are not done again.",
        epilog="\n".join(["presets:", *listed]),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    command.add_argument("preset", nargs="*", help="presets; all by default")
    command.add_argument("--quick", action="store_true", help="a fraction of the scale, in about a minute")
    command.add_argument("--out", metavar="DIR", type=Path, default=Path("results"), help="folder for runs and results")
    command.add_argument("--workers", metavar="N", type=int, help="processes; all cores by default")
    return command


def main(arguments: list[str] | None = None) -> int:
    """Run presets; the exit code."""
    asked = parser().parse_args(arguments)
    try:
        result = reproduce(asked.preset, asked.out, asked.quick, asked.workers, progress=for_terminal())
    except PsconrlError as error:
        print(f"reproduction: {error}", file=sys.stderr)
        return FAILED
    except KeyboardInterrupt:
        print(f"reproduction: interrupted; the same command goes on from what is in {asked.out}", file=sys.stderr)
        return INTERRUPTED
    _print(result)
    for outcome in result.outcomes:
        for failure in outcome.failures[:1]:
            print(
                f"reproduction: {len(outcome.failures)} of {outcome.total} runs failed, the first "
                f"({failure.cell.label}, seed {failure.seed}) with {failure.error}; see {failure.path.parent}",
                file=sys.stderr,
            )
    return 0 if result.ok else FAILED


def _print(result: Reproduction) -> None:
    """The claims that the runs decide, how many they leave open, and the files written."""
    decided = [claim for claim in result.claims if claim.decided]
    if decided:
        print(as_text(decided, shutil.get_terminal_size((120, 24)).columns))
    left = len(result.claims) - len(decided)
    if left:
        print(f"\n{left} claims cannot be decided by these runs; claims.md says why.")
    print("\n  ".join(["Written:", *map(str, result.paths)]))


if __name__ == "__main__":
    sys.exit(main())
