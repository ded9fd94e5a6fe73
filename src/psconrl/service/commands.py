"""`psconrl serve` and `psconrl learner`: parsing and printing only."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Annotated, Any

import typer

from psconrl._core.lazy import lazy_import
from psconrl._core.numbers import plural

store_status: Any = lazy_import("psconrl.learning.store_status")
server: Any = lazy_import("psconrl.service.server")

learner_app = typer.Typer(name="learner", no_args_is_help=True, help="Inspect the store of a durable learner.")

REFRESH_SECONDS = 2.0

StoreArgument = Annotated[str, typer.Argument(metavar="STORE", help="A file, or postgresql://USER@HOST/DATABASE.")]


def serve(
    problem: Annotated[
        Path, typer.Argument(metavar="FILE", help="A problem file; `psconrl init --service` writes one.")
    ],
    store: Annotated[str, typer.Option(metavar="URL", help="The store: a file, or postgresql://...")],
    host: Annotated[
        str, typer.Option(metavar="HOST", help="Address to listen on; if others can reach it, give a token.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(metavar="N", min=1, max=65535, help="The port.")] = 8000,
    token_file: Annotated[
        Path | None, typer.Option(metavar="F", help="A file with the token that clients must send.")
    ] = None,
) -> None:
    """Serve a durable learner over HTTP.

    POST /ask returns a decision, POST /tell reports its outcome; the page at / shows the state of the learner.
    """

    def announce() -> None:
        typer.echo(f"http://{host}:{port}/  (Ctrl-C ends it)")

    server.serve(problem, store, host=host, port=port, token_file=token_file, on_ready=announce)


@learner_app.command()
def status(
    store: StoreArgument,
    watch: Annotated[bool, typer.Option("--watch", help="Print again every two seconds, until Ctrl-C.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")] = False,
) -> None:
    """Show the steps, limits, conflicts and pending decisions of a learner."""
    while True:
        found = store_status.read_status(store)
        if watch and not as_json:
            typer.echo("\x1b[2J\x1b[H", nl=False)
        typer.echo(json.dumps(found, allow_nan=False) if as_json else _lines(found))
        if not watch:
            return
        time.sleep(REFRESH_SECONDS)


@learner_app.command()
def export(
    store: StoreArgument,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Table to write, .csv or .parquet.")],
) -> None:
    """Write the log of steps as a table."""
    typer.echo(f"{store_status.export_log(store, file)} steps: {file}")


def _lines(status: dict[str, Any]) -> str:
    lines = [
        f"{status['agent']}: {plural(status['steps'], 'step')}, {plural(status['plans'], 'plan')}",
        f"decisions without an outcome: {status['pending']}, {status['expired']} of them expired",
    ]
    for name, limit in status["limits"].items():
        average = limit["average"]
        said = "no steps yet" if average is None else f"{average:.4g} of at most {limit['limit']:.4g}"
        mark = "  EXCEEDED" if average is not None and average > limit["limit"] else ""
        lines.append(f"{name}: {said}{mark}")
    if status["infeasible_plans"]:
        lines.append(f"plans whose limits could not be met: {status['infeasible_plans']}")
    if status["conflict"]:
        lines.append(f"limits in conflict: {', '.join(status['conflict'])}")
    if status["drift"]["alarms"]:
        lines.append(f"the environment changed, as noticed after {status['drift']['alarms'][-1]} steps")
    return "\n".join(lines)
