"""The command line: parsing and printing only.

Heavy modules are imported inside the commands, so that `psconrl --help` answers at once.
"""

from __future__ import annotations

import json
import logging
import math
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from psconrl.errors import PsconrlError

if TYPE_CHECKING:
    from psconrl.cmdp import CMDP
    from psconrl.experiments.reproduce import Reproduction
    from psconrl.experiments.runner import Outcome
    from psconrl.experiments.spec import Experiment
    from psconrl.planning.solution import Solution

FAILED, USAGE, INTERRUPTED = 1, 2, 130

app = typer.Typer(
    name="psconrl",
    help="Planning and learning under long-run constraints.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run a command; every error is one line on the error stream and a non-zero exit."""
    logging.basicConfig(format="psconrl: %(message)s", level=logging.WARNING)
    try:
        code = app(args=arguments, standalone_mode=False)
    except PsconrlError as error:
        _stop(str(error), FAILED)
    except (ValueError, OSError) as error:
        _stop(str(error) or type(error).__name__, FAILED)
    except (KeyboardInterrupt, typer.Abort):
        _stop("interrupted", INTERRUPTED)
    except Exception as error:
        # Typer's own errors; their class lives in different places in its versions.
        if not hasattr(error, "format_message"):
            raise
        _stop(error.format_message() or "psconrl --help lists the commands", USAGE)
    sys.exit(code if isinstance(code, int) else 0)


def _stop(message: str, code: int) -> NoReturn:
    print("psconrl: " + " ".join(message.split("\n")).strip(), file=sys.stderr)
    sys.exit(code)


@app.command()
def envs(as_json: AsJson = False) -> None:
    """List the environments and their options."""
    from psconrl.environments import registry

    if as_json:
        _print_json(
            {e.name: {"description": e.description, "options": _jsonable(e.options)} for e in registry().values()}
        )
        return
    for environment in registry().values():
        print(f"{environment.name:14} {environment.description}")
        options = ", ".join(f"{name}={_default(value)}" for name, value in environment.options.items())
        print(f"{'':14}   {options}")


@app.command()
def agents(as_json: AsJson = False) -> None:
    """List the agents and their settings."""
    from psconrl.agents.catalogue import parameters, registry

    if as_json:
        _print_json(
            {
                name: {"description": _first_line(agent), "settings": _jsonable(_settings(parameters(agent)))}
                for name, agent in registry().items()
            }
        )
        return
    for name, agent in registry().items():
        print(f"{name:14} {_first_line(agent)}")
        settings = ", ".join(f"{key}={_default(value)}" for key, value in _settings(parameters(agent)).items())
        if settings:
            print(f"{'':14}   {settings}")


@app.command()
def solve(
    model: Annotated[str, typer.Argument(help="Name of an environment, or a .npz or .json file.")],
    as_json: AsJson = False,
) -> None:
    """Solve a known model exactly: the least long-run cost within the limits."""
    import psconrl
    from psconrl.experiments.spec import is_model_file

    cmdp = psconrl.CMDP.load(model) if is_model_file(model) or Path(model).is_file() else psconrl.make(model)
    solution = psconrl.solve(cmdp)
    if as_json:
        _print_json(_solution_json(cmdp, solution))
    else:
        _print_solution(model, cmdp, solution)


@app.command()
def run(
    file: Annotated[Path | None, typer.Argument(help="A TOML file that says what to run, instead of options.")] = None,
    env: Annotated[list[str] | None, typer.Option(help="Environment or model file; may be repeated.")] = None,
    agent: Annotated[list[str] | None, typer.Option(help="Agent; may be repeated.")] = None,
    horizon: Annotated[int | None, typer.Option(help="Steps of each run.")] = None,
    seeds: Annotated[int | None, typer.Option(help="Runs of each agent in each environment.")] = None,
    out: Annotated[Path, typer.Option(help="Folder for the results; work in it is taken up again.")] = Path("results"),
    costs: Annotated[str | None, typer.Option(help="known or estimated (default): whether agents know them.")] = None,
    set_: Annotated[
        list[str] | None, typer.Option("--set", metavar="NAME.KEY=VALUE", help="Setting of an agent or environment.")
    ] = None,
    workers: Annotated[int | None, typer.Option(help="Processes; all cores by default.")] = None,
    dask: Annotated[str | None, typer.Option(metavar="ADDRESS", help="Dask scheduler to use instead.")] = None,
    as_json: AsJson = False,
) -> None:
    """Run agents in environments, many seeds each, and store the results.

    A run that is already in the folder is not done again: after an interruption, give the same command.
    """
    from psconrl.analysis.summary import summary
    from psconrl.experiments.progress import for_terminal
    from psconrl.experiments.runner import run_experiment
    from psconrl.experiments.spec import read_toml
    from psconrl.experiments.store import Store

    if file is not None:
        given = {"env": env, "agent": agent, "horizon": horizon, "seeds": seeds, "costs": costs, "set": set_}
        doubled = [name for name, value in given.items() if value is not None]
        if doubled:
            raise ValueError(f"--{doubled[0]} cannot be combined with {file}, which says what to run")
        experiment = read_toml(file)
    else:
        experiment = _experiment(env, agent, horizon, seeds, costs or "estimated", set_ or [])
    try:
        outcome = run_experiment(experiment, out, workers=workers, dask=dask, progress=for_terminal())
    except KeyboardInterrupt:
        _stop(f"interrupted; what is done is in {out}, and the same command goes on from there", INTERRUPTED)
    results = summary(experiment, Store(out))
    if as_json:
        _print_json(results)
    else:
        _print_results(results, out)
    if not outcome.ok:
        _print_failures(outcome)
        raise typer.Exit(FAILED)


@app.command()
def export(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="Folder of results.")],
    file: Annotated[Path, typer.Argument(help="Table to write, .csv or .parquet.")],
) -> None:
    """Write the curves of all runs as a tidy table: one row per run, checkpoint and cost."""
    from psconrl.experiments.store import Store

    codes = Store(directory).export(file)
    if len(codes) > 1:
        print(
            f"psconrl: the runs were made by {len(codes)} versions of the code; the column `code` tells them apart",
            file=sys.stderr,
        )


@app.command()
def reproduce(
    preset: Annotated[list[str] | None, typer.Argument(help="Presets; all of them by default.")] = None,
    quick: Annotated[bool, typer.Option("--quick", help="A small version of each, in about a minute.")] = False,
    out: Annotated[Path, typer.Option(help="Folder for runs, figures and tables.")] = Path("results"),
    workers: Annotated[int | None, typer.Option(help="Processes; all cores by default.")] = None,
) -> None:
    """Run the paper's experiments, at its own scale unless --quick, and write figures, claims and tables.

    Presets: figure-1, figure-appendix, environments, stochastic, counterexample, bayesian, bonus, table-1.
    """
    from psconrl.experiments.progress import for_terminal
    from psconrl.experiments.reproduce import reproduce as run_presets

    try:
        result = run_presets(preset or [], out, quick, workers, progress=for_terminal())
    except KeyboardInterrupt:
        _stop(f"interrupted; what is done is in {out}, and the same command goes on from there", INTERRUPTED)
    _print_written(result)
    for outcome in result.outcomes.values():
        if not outcome.ok:
            _print_failures(outcome)
    if not result.ok:
        raise typer.Exit(FAILED)


@app.command()
def report(directory: Annotated[Path, typer.Argument(metavar="DIR", help="Folder of results.")]) -> None:
    """Write the figures, claims and tables of the runs in a folder."""
    from psconrl.experiments.reproduce import write_results

    _print_written(write_results(directory))


def _print_written(result: Reproduction) -> None:
    from shutil import get_terminal_size

    from psconrl.analysis.claims import as_text

    print(as_text(result.claims, min(get_terminal_size().columns, 140)))
    for path in result.paths:
        print(path)


def _experiment(
    envs: list[str] | None,
    agents: list[str] | None,
    horizon: int | None,
    seeds: int | None,
    costs: str,
    assignments: list[str],
) -> Experiment:
    from psconrl.experiments.spec import Experiment

    for name, value in (("env", envs), ("agent", agents), ("horizon", horizon), ("seeds", seeds)):
        if not value and value != 0:
            raise ValueError(f"--{name} is missing (or give a TOML file)")
    assert envs is not None
    assert agents is not None
    assert horizon is not None
    assert seeds is not None
    settings, options = _assigned(assignments)
    return Experiment.grid(
        "run", envs, agents, horizon=horizon, seeds=seeds, costs=costs, settings=settings, env_options=options
    )


def _assigned(assignments: list[str]) -> tuple[dict[str, dict[str, Any]], dict[str, dict[str, Any]]]:
    """Settings by agent and options by environment, from NAME.KEY=VALUE."""
    from psconrl import environments
    from psconrl.agents.catalogue import canonical
    from psconrl.errors import UnknownNameError

    settings: dict[str, dict[str, Any]] = {}
    options: dict[str, dict[str, Any]] = {}
    for assignment in assignments:
        target, equals, text = assignment.partition("=")
        name, dot, key = target.partition(".")
        if not (equals and dot and name and key):
            raise ValueError(f"--set {assignment}: write NAME.KEY=VALUE, for instance psconrl.prior=0.1")
        try:
            value = json.loads(text)
        except ValueError:
            value = text
        try:
            settings.setdefault(canonical(name), {})[key] = value
        except UnknownNameError:
            try:
                options.setdefault(environments.find(name).name, {})[key] = value
            except UnknownNameError:
                known = [*environments.registry(), *_lower_agents()]
                raise UnknownNameError("agent or environment", name, known) from None
    return settings, options


def _lower_agents() -> list[str]:
    from psconrl.agents.catalogue import registry

    return [name.lower() for name in registry()]


def _print_results(results: dict[str, Any], out: Path) -> None:
    print(f"at the horizon, mean over seeds [95% bootstrap interval]; all runs are in {out}")
    for cell in results["cells"]:
        optimum = "-" if cell["optimum"] is None else f"{cell['optimum']:.6g}"
        print(f"{cell['env']} / {cell['agent']}: T={cell['horizon']}, {cell['seeds']} seeds, optimum {optimum}")
        print(f"  regret     {_interval(cell['regret'])}")
        for i, violation in enumerate(cell["violation"], start=1):
            print(f"  violation {i:<1} {_interval(violation)}")
        if cell["seeds"]:
            print(
                f"  episodes   {cell['episodes']['mean']:.1f}, of them infeasible "
                f"{cell['infeasible_episodes']['mean']:.1f}; {cell['seconds']:.2f} s"
            )


def _interval(values: dict[str, float | None]) -> str:
    if values["mean"] is None:
        return "-"
    return f"{values['mean']:.5g} [{values['low']:.5g}, {values['high']:.5g}]"


def _print_failures(outcome: Outcome) -> None:
    first = outcome.failures[0]
    runs = "1 run" if len(outcome.failures) == 1 else f"{len(outcome.failures)} runs"
    error = " ".join(first.error.split())
    print(
        f"psconrl: {runs} of {outcome.total} failed, the first ({first.cell.label}, seed {first.seed}) with "
        f"{error}; see {first.path.parent}; the same command tries them again",
        file=sys.stderr,
    )


def _solution_json(cmdp: CMDP, solution: Solution) -> dict[str, Any]:
    constraints = [
        {
            "name": cmdp.cost_names[i],
            "limit": float(tau),
            "use": float(solution.average_costs[i]),
            "slack": float(tau - solution.average_costs[i]),
            "price": _number(solution.multipliers[i - 1]),
        }
        for i, tau in enumerate(cmdp.thresholds, start=1)
    ]
    return {
        "status": solution.status,
        "value": _number(solution.value),
        "average_costs": [float(cost) for cost in solution.average_costs],
        "constraints": constraints,
        "margin": _number(solution.margin),
        "conflict": [cmdp.cost_names[i] for i in solution.conflict],
        "policy": solution.policy.tolist(),
    }


def _print_solution(name: str, cmdp: CMDP, solution: Solution) -> None:
    print(f"{name}: {cmdp.S} states, {cmdp.A} actions, {cmdp.m} limits")
    if solution.feasible:
        print(f"least {cmdp.cost_names[0]} {solution.value:.9g}")
    else:
        names = ", ".join(f"{cmdp.cost_names[i]} <= {cmdp.thresholds[i - 1]:g}" for i in solution.conflict)
        together = "cannot hold" if len(solution.conflict) == 1 else "cannot hold together"
        print(f"infeasible: {names} {together}; some limit is exceeded by at least {-solution.margin:.6g}")
        print("the policy below keeps the largest excess least")
    if cmdp.m:
        print(f"\n{'limit on':16} {'limit':>10} {'use':>12} {'slack':>12} {'shadow price':>13}")
        for i, tau in enumerate(cmdp.thresholds, start=1):
            use = solution.average_costs[i]
            price = solution.multipliers[i - 1]
            shown = "-" if math.isnan(price) else f"{price:.6g}"
            slack = tau - use
            slack = 0.0 if abs(slack) < 1e-12 else slack
            print(f"{cmdp.cost_names[i]:16} {tau:10.6g} {use:12.6g} {slack:12.4g} {shown:>13}")
        if solution.feasible:
            print(f"all limits could be lowered together by {solution.margin:.6g} and still be met")
    if cmdp.layout is not None:
        from psconrl.environments import render

        print("\n" + render.ansi(cmdp, solution.policy, color=sys.stdout.isatty()), end="")


def _print_json(document: Any) -> None:
    print(json.dumps(document, indent=2, allow_nan=False))


def _jsonable(values: dict[str, Any]) -> dict[str, Any]:
    """Values for JSON; what it cannot say, such as a default that must be given, is written as text."""
    return {key: json.loads(json.dumps(value, default=_default)) for key, value in values.items()}


def _default(value: Any) -> str:
    import inspect

    return "?" if value is inspect.Parameter.empty else str(value)


def _settings(parameters: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in parameters.items() if name != "model"}


def _first_line(item: type) -> str:
    return (item.__doc__ or "").strip().splitlines()[0]


def _number(value: float) -> float | None:
    return None if math.isnan(value) or math.isinf(value) else float(value)
