"""The command line: parsing only; `cli_output` prints.

Modules are imported when a command first uses them, so that `psconrl --help` answers at once.
"""

from __future__ import annotations

import io
import json
import logging
import os
import shutil
import sys
import textwrap
from collections.abc import Sequence
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer

import psconrl
from psconrl import agents as agents_package
from psconrl import cli_output as output
from psconrl import environments, experiments, gymnasium_ids
from psconrl import report as report_package
from psconrl._core import compiling, interrupts
from psconrl.cmdp import CMDP
from psconrl.errors import CommandError, PsconrlError, UnknownNameError
from psconrl.io import reading, writing
from psconrl.io.text import SafeStream
from psconrl.service import commands

FAILED, USAGE = 1, 2

HELP = """\b
Examples:
  psconrl solve marsrover-4x4
  psconrl run --env toy --horizon 1000 --seeds 5
  psconrl init first-steps

\b
Exit codes:
  0    done; also if a model is found infeasible
  1    a wrong name, file or setting, or failed runs
  2    the command line itself is wrong
  130  interrupted
Errors are one line on the error stream."""

app = typer.Typer(
    name="psconrl",
    invoke_without_command=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    epilog=HELP,
)


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run a command; every error is one line on the error stream and a non-zero exit."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal without arrows shows question marks
    with redirect_stdout(SafeStream(sys.stdout)), redirect_stderr(SafeStream(sys.stderr)):
        _main(arguments)


def _main(arguments: Sequence[str] | None) -> NoReturn:
    _log_to_terminal()
    try:
        code = app(args=arguments, prog_name="psconrl", standalone_mode=False)
        sys.stdout.flush()
    except BrokenPipeError:
        # Whoever read our output has seen enough; what is left goes nowhere.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(FAILED)
    except CommandError as error:
        _stop(str(error), USAGE)
    except PsconrlError as error:
        _stop(str(error), FAILED)
    except OSError as error:
        if error.filename is None:
            raise
        _stop(f"{error.filename}: {error.strerror}", FAILED)
    except (KeyboardInterrupt, typer.Abort):
        _stop(interrupts.message, interrupts.INTERRUPTED)
    except Exception as error:
        # Typer's own errors; their class lives in different places in its versions.
        if not hasattr(error, "format_message"):
            raise
        _stop(_in_our_words(error), USAGE)
    sys.exit(code if isinstance(code, int) else 0)


def _log_to_terminal() -> None:
    """What psconrl logs; other libraries' tracebacks, of a Dask client that reconnects for example, help nobody."""
    handler = logging.StreamHandler()
    handler.addFilter(logging.Filter("psconrl"))
    logging.basicConfig(format="psconrl: %(message)s", level=logging.WARNING, handlers=[handler])


def _in_our_words(error: Any) -> str:
    """A message of Typer's as ours are: what is wrong, then the nearest right thing, or where to read on."""
    message = str(error.format_message()).rstrip(".")
    if not message:
        return "psconrl --help lists the commands"
    if hasattr(error, "possibilities") and hasattr(error, "option_name"):
        near = [f"; did you mean {name}?" for name in (error.possibilities or ())[:1]]
        message = "".join([f"no such option {error.option_name}", *near])
    message = message.replace(". Did you mean", "; did you mean").partition(", unable to parse")[0]
    message = message.replace(": Input should be", ": it must be")
    context = getattr(error, "ctx", None)
    more = "" if message.endswith("?") or context is None else f"; {context.command_path} --help says more"
    return message[0].lower() + message[1:] + more


def _stop(message: str, code: int) -> NoReturn:
    _say(message)
    sys.exit(code)


def _say(message: str) -> None:
    """One line on the error stream; a terminal that is too narrow for it gets whole words."""
    line = "psconrl: " + " ".join(message.split("\n")).strip()
    if sys.stderr.isatty():
        line = textwrap.fill(line, shutil.get_terminal_size().columns, subsequent_indent="  ", break_on_hyphens=False)
    print(line, file=sys.stderr)


def _show_version(wanted: bool) -> None:
    if wanted:
        print(f"psconrl {psconrl.__version__}")
        raise typer.Exit


@app.callback()
def top(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Planning and learning under long-run constraints."""
    if context.invoked_subcommand is None:
        print(context.get_help())


def _count(text: str) -> int:
    """A whole number, which may be written as 1e4 or 10,000."""
    try:
        number = float(text.replace(",", "").replace("_", ""))
        if number == int(number):
            return int(number)
    except (ValueError, OverflowError):
        pass
    raise typer.BadParameter(f"{text!r} is not a whole number")


def _import(modules: list[str] | None) -> None:
    for module in modules or []:
        experiments.import_module(module)


def _env_names() -> list[str]:
    return list(environments.registry())


def _agent_names() -> list[str]:
    return list(agents_package.registry())


Imports = Annotated[
    list[str] | None,
    typer.Option("--import", metavar="MODULE", help="Module with agents or environments of your own; may be repeated."),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]
Model = Annotated[
    str,
    typer.Argument(
        metavar="MODEL",
        help="An environment's name, a .npz, .json, .drn, .umb or .toml file, or a folder with tables.",
        autocompletion=_env_names,
    ),
]
Assignments = Annotated[
    list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Option of the environment; may be repeated.")
]
Results = Annotated[Path, typer.Argument(metavar="DIR", help="Folder of results.")]
Limits = Annotated[
    list[str] | None,
    typer.Option("--limit", metavar="COST=VALUE", help="Limit on the average of a cost; may be repeated."),
]
PolicyFile = Annotated[
    Path | None, typer.Option(metavar="FILE", help="Write the policy as a table: .csv, .parquet, .json, .md or .tex.")
]
Workers = Annotated[int | None, typer.Option(metavar="N", help="Processes; all cores by default.")]


def _examples(*lines: str) -> str:
    return "\b\nExamples:\n" + "\n".join(f"  {line}" for line in lines)


@app.command(name="help", hidden=True)
def help_(context: typer.Context, command: Annotated[str | None, typer.Argument(metavar="COMMAND")] = None) -> None:
    """Show the help of a command."""
    parent = context.parent
    assert parent is not None
    if command is None:
        print(parent.get_help())
    else:
        app(args=[command, "--help"], prog_name="psconrl", standalone_mode=False)


Names = Annotated[list[str] | None, typer.Argument(metavar="[NAME]...", help="Show only these.", show_default=False)]


@app.command(epilog=_examples("psconrl envs", "psconrl envs queue", "psconrl envs --json"))
def envs(names: Names = None, modules: Imports = None, as_json: AsJson = False) -> None:
    """List environments and their options."""
    _import(modules)
    chosen = [environments.find(name) for name in names] if names else list(environments.registry().values())
    identifiers = {name: identifier for identifier, name in gymnasium_ids.identifiers().items()}
    if as_json:
        output.print_json(
            {
                e.name: {
                    "description": e.description,
                    "options": output.jsonable(e.options),
                    "gymnasium": identifiers[e.name],
                }
                for e in chosen
            }
        )
    else:
        output.print_entries({e.name: (e.description, e.options) for e in chosen})
        print()
        output.say(f'In Gymnasium: gymnasium.make("psconrl:{identifiers[chosen[0].name]}"), and so on.')


@app.command(epilog=_examples("psconrl agents", "psconrl agents psconrl", "psconrl agents --json"))
def agents(names: Names = None, modules: Imports = None, as_json: AsJson = False) -> None:
    """List agents and their settings."""
    _import(modules)
    chosen = map(agents_package.canonical, names) if names else agents_package.registry()
    found = {name: (_about(agent), _settings(agent)) for name in chosen for agent in [agents_package.find(name)]}
    if as_json:
        output.print_json(
            {name: {"description": about, "settings": output.jsonable(s)} for name, (about, s) in found.items()}
        )
    else:
        output.print_entries(found)


def _about(agent: type[agents_package.Agent]) -> str:
    return ((agent.__doc__ or "").strip().splitlines() or [""])[0]


def _settings(agent: type[agents_package.Agent]) -> dict[str, Any]:
    return {name: value for name, value in agents_package.parameters(agent).items() if name != "model"}


@app.command(
    epilog=_examples(
        "psconrl solve marsrover-4x4",
        "psconrl solve box --set slip=0.1 --limit corner=0.5",
        "psconrl solve riverswim --horizon 20000",
        "psconrl solve model.json --json",
        "psconrl solve --transitions moves.csv --costs costs.csv \\",
        "              --limit overtime=0.3",
    )
)
def solve(
    model: Annotated[
        str | None,
        typer.Argument(
            metavar="[MODEL]",
            help="An environment's name, a .npz, .json, .drn, .umb or .toml file, or a folder with tables.",
            autocompletion=_env_names,
        ),
    ] = None,
    transitions: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Table: state, action, next_state, probability or count. .csv or .parquet."),
    ] = None,
    costs: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Table: state, action, and one column per cost, the main cost first."),
    ] = None,
    initial: Annotated[
        str | None, typer.Option(metavar="STATE", help="The start; that of the first row of the table by default.")
    ] = None,
    set_: Assignments = None,
    limit: Limits = None,
    horizon: Annotated[
        int | None,
        typer.Option(parser=_count, metavar="T", help="Find a policy for T steps, not for the long run."),
    ] = None,
    discount: Annotated[
        float | None, typer.Option(metavar="G", help="Discounted totals instead of averages; limits are on totals.")
    ] = None,
    episode: Annotated[
        int | None,
        typer.Option(parser=_count, metavar="H", help="Totals over H steps; the policy depends on the step."),
    ] = None,
    policy: PolicyFile = None,
    as_json: AsJson = False,
) -> None:
    """Solve a known model within its limits.

    Prints the minimum cost, each limit with its use, slack and shadow price, and the best policy, drawn on the map if
    there is one. If the limits cannot be met, says which conflict, and the nearest ones that can be met. Says how
    many steps it takes until the averages hold; --horizon finds a policy whose averages hold over T steps from the
    start.
    """
    if transitions is not None or costs is not None:
        if model is not None or transitions is None or costs is None or set_:
            raise CommandError("give a MODEL, or both --transitions and --costs")
        limits = dict(map(_limit, limit or []))
        model, cmdp = str(transitions), psconrl.CMDP.from_tables(transitions, costs, limits, initial=initial)
    elif model is None:
        raise CommandError("what is to be solved? give a MODEL, or --transitions and --costs")
    else:
        cmdp = _found(model, set_, limit)
        cmdp = cmdp if initial is None else cmdp.replace(initial=initial)
    compiling.silence()
    with compiling.on_compile(lambda: _say(compiling.COMPILING)):
        solution = psconrl.solve(cmdp, horizon=horizon, discount=discount, episode=episode)
        if policy is not None:
            solution.save_policy(policy)
        if as_json:
            output.print_json(output.solution_json(cmdp, solution))
        else:
            output.print_solution(model, cmdp, solution)


@app.command(
    epilog=_examples(
        "psconrl fit log.csv --limit overtime=0.3",
        "psconrl fit log.csv --stream nurse --time shift \\",
        "            --confidence 0.95 --out model.npz",
    )
)
def fit(
    log: Annotated[Path, typer.Argument(metavar="LOG", help="Table of old decisions, .csv or .parquet.")],
    limit: Limits = None,
    cost: Annotated[
        list[str] | None,
        typer.Option(metavar="COLUMN", help="Column of the main cost, then of others; by default all columns left."),
    ] = None,
    state: Annotated[str, typer.Option(metavar="COLUMN", help="Column of the state.")] = "state",
    action: Annotated[str, typer.Option(metavar="COLUMN", help="Column of the action.")] = "action",
    next_state: Annotated[
        str, typer.Option(metavar="COLUMN", help="Column of the next state; without one, that of the next row.")
    ] = "next_state",
    stream: Annotated[str | None, typer.Option(metavar="COLUMN", help="Column that identifies the trajectory.")] = None,
    time: Annotated[str | None, typer.Option(metavar="COLUMN", help="Column to sort by.")] = None,
    confidence: Annotated[
        float | None, typer.Option(metavar="P", help="Plan so that the limits hold with this probability.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(metavar="MODEL", help="Write the model: .npz keeps all that was learned.")
    ] = None,
    policy: PolicyFile = None,
    as_json: AsJson = False,
) -> None:
    """Learn a model from a log of decisions, and plan in it.

    Prints what the old decisions cost and what the best plan would, with 95% intervals, the actions that were
    tried least where the plan spends its time, and the plan. Incomplete rows are left out and reported.
    """
    compiling.silence()
    with compiling.on_compile(lambda: _say(compiling.COMPILING)):
        estimate = psconrl.fit(
            log,
            dict(map(_limit, limit or [])),
            state=state,
            action=action,
            next_state=next_state,
            costs=cost,
            stream=stream,
            time=time,
        )
        if confidence is not None:
            estimate = estimate.tightened(confidence)
        solution = psconrl.solve(estimate)
        if out is not None:
            estimate.save(out)
        if policy is not None:
            solution.save_policy(policy)
        if as_json:
            output.print_json(output.estimate_json(estimate, solution))
        else:
            output.print_estimate(str(log), estimate, solution)


@app.command(epilog=_examples("psconrl convert box box.drn", "psconrl convert model.json model.npz"))
def convert(
    model: Model,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="What to write: .npz, .json, .drn or .umb.")],
    set_: Assignments = None,
) -> None:
    """Write a model in another format."""
    cmdp = _found(model, set_, None)
    cmdp.save(file)
    print(file)


def _found(model: str, assignments: list[str] | None, limits: list[str] | None) -> CMDP:
    """The model of a name or file, with options and limits as given."""
    options = dict(_pair(text, "--set", "KEY=VALUE, for instance slip=0.1") for text in assignments or [])
    changed = dict(_limit(text) for text in limits or [])
    tables = Path(model).is_dir() and not _is_name(model)
    if (Path(model).is_file() or tables) and not options:
        return psconrl.CMDP.load(model, thresholds=changed)
    if not reading.is_model_file(model) and not _is_name(model) and ("." in model or os.sep in model):
        return psconrl.CMDP.load(model)  # which says what a model file must end in
    cmdp = environments.find_model(model, **options)
    return cmdp.with_limits(changed) if changed else cmdp


def _is_name(model: str) -> bool:
    try:
        return bool(environments.find(model))
    except UnknownNameError:
        return False


def _pair(assignment: str, option: str, form: str) -> tuple[str, Any]:
    """Key and value of KEY=VALUE; the value as JSON, or else as text."""
    key, equals, text = assignment.partition("=")
    if not (key and equals):
        raise CommandError(f"{option} {assignment}: write {form}")
    try:
        return key, json.loads(text)
    except ValueError:
        return key, text


def _limit(assignment: str) -> tuple[str, float]:
    form = "COST=VALUE, for instance risk=0.1"
    name, value = _pair(assignment, "--limit", form)
    if not isinstance(value, (int, float)):
        raise CommandError(f"--limit {assignment}: write {form}")
    return name, value


@app.command(
    epilog=_examples(
        "psconrl run --env toy --horizon 1000 --seeds 10",
        "psconrl run --env toy --agent psconrl --agent conrl \\",
        "            --horizon 1000 --seeds 10",
        "psconrl run --env model.json --agent psconrl \\",
        "            --set psconrl.prior=0.3 --horizon 5000 \\",
        "            --seeds 20 --out mine",
        "psconrl run --import my_agents --agent mine --env toy \\",
        "            --horizon 1e4 --seeds 10",
        "psconrl run experiment.toml --out mine",
    )
)
def run(
    file: Annotated[
        Path | None,
        typer.Argument(
            metavar="FILE",
            help="A TOML file that says what to run; `psconrl init` writes one. Or a store's experiment.json.",
        ),
    ] = None,
    env: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Environment or model file; may be repeated.", autocompletion=_env_names),
    ] = None,
    agent: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME", help="Agent; may be repeated. The recommended one by default.", autocompletion=_agent_names
        ),
    ] = None,
    horizon: Annotated[int | None, typer.Option(parser=_count, metavar="T", help="Steps of each run.")] = None,
    seeds: Annotated[
        int | None, typer.Option(parser=_count, metavar="N", help="Runs of each agent in each environment.")
    ] = None,
    out: Annotated[Path, typer.Option(metavar="DIR", help="Folder for the results.")] = Path("results"),
    costs: Annotated[
        str | None, typer.Option(metavar="known|estimated", help="Whether agents know the costs; estimated by default.")
    ] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME.KEY=VALUE", help="Setting of an agent or environment; may be repeated."),
    ] = None,
    modules: Imports = None,
    workers: Workers = None,
    dask: Annotated[str | None, typer.Option(metavar="ADDRESS", help="Dask scheduler to use instead.")] = None,
    limit_seconds: Annotated[
        float | None, typer.Option(metavar="N", help="Seconds that one run may take; then it counts as failed.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Run agents and store the results.

    A FILE or options say what to run. Runs that are already in the folder are not repeated: after an interruption, give
    the same command again.
    """
    _import(modules)
    if file is not None:
        given = {"env": env, "agent": agent, "horizon": horizon, "seeds": seeds, "costs": costs, "set": set_}
        doubled = [name for name, value in given.items() if value is not None]
        if doubled:
            raise CommandError(f"--{doubled[0]} cannot be combined with {file}, which says what to run")
        experiment = experiments.read_experiment(file)
    else:
        experiment = _experiment(env, agent, horizon, seeds, costs or "estimated", set_ or [])
    compiling.silence()
    interrupts.message = f"interrupted; what is done is in {out}, and the same command goes on from there"
    outcome = experiments.run_experiment(
        experiment,
        out,
        workers=workers,
        dask=dask,
        limit_seconds=limit_seconds,
        progress=experiments.for_terminal(),
    )
    results = psconrl.analysis.summarize(experiment, experiments.Store(out))
    if as_json:
        output.print_json(results)
    else:
        worlds = psconrl.analysis.worlds(experiment, experiments.Store(out))
        output.print_results(results, worlds, out, experiments.notes(experiment))
    if not outcome.ok:
        output.print_failures(outcome)
        raise typer.Exit(FAILED)


@app.command(epilog=_examples("psconrl export results curves.csv", "psconrl export results curves.parquet"))
def export(
    directory: Results,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Table to write, .csv, .parquet or .tex.")],
) -> None:
    """Write all curves as one tidy table, or the results as a LaTeX table.

    Curves have one row per run, checkpoint and cost, sorted, without timings. The LaTeX table has regret and
    violations at the horizon.
    """
    if file.suffix.lower() == ".tex":
        groups = psconrl.analysis.group(experiments.Store(directory).records())
        writing.write_text(file, psconrl.analysis.latex(groups))
        print(file)
        return
    codes = experiments.Store(directory).export(file)
    if len(codes) > 1:
        print(
            f"psconrl: the runs were made by {len(codes)} versions of the code; the column `code` tells them apart",
            file=sys.stderr,
        )
    print(file)


@app.command(hidden=True, context_settings={"allow_extra_args": True, "ignore_unknown_options": True})
def reproduce() -> None:
    """Say where to find the reproduction."""
    raise PsconrlError(
        "the reproduction is not part of the library; in a copy of the repository: python -m reproduction --out results"
    )


@app.command(epilog=_examples("psconrl report results", "psconrl report results --json"))
def report(directory: Results, as_json: AsJson = False) -> None:
    """Write the report of stored runs.

    One HTML page, and its figures as PNG and PDF.
    """
    paths = [str(path) for path in report_package.write(directory, directory)]
    if as_json:
        output.print_json({"files": paths})
    else:
        print("\n  ".join(["Written:", *paths]))


app.command(epilog=_examples("psconrl serve problem.toml --store ward.db"))(commands.serve)
app.add_typer(commands.learner_app)


@app.command(epilog=_examples("psconrl init first-steps", "psconrl run first-steps/experiment.toml --out results"))
def init(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="Folder to write to; created if it does not exist.")],
    force: Annotated[bool, typer.Option("--force", help="Overwrite existing files.")] = False,
    service: Annotated[bool, typer.Option("--service", help="Write the problem file of a service instead.")] = False,
) -> None:
    """Write files to start from.

    A commented experiment and a model to edit; both run in seconds.
    """
    from importlib import resources

    names = ("problem.toml",) if service else ("model.json", "experiment.toml")
    templates = [resources.files("psconrl") / "starter" / name for name in names]
    there = [directory / template.name for template in templates if (directory / template.name).exists()]
    if there and not force:
        raise PsconrlError(f"{there[0]} already exists; use --force to overwrite")
    directory.mkdir(parents=True, exist_ok=True)
    for template in templates:
        writing.write_text(directory / template.name, template.read_text(encoding="utf-8"))
    if service:
        problem = directory / "problem.toml"
        print(f"{problem}: what a service learns\n  psconrl serve {problem} --store learner.db")
        return
    model, experiment = (directory / name for name in names)
    print(f"{model}: a machine to keep in repair\n  psconrl solve {model}")
    print(f"{experiment}: agents that learn how to\n  psconrl run {experiment} --out {directory / 'results'}")


def _experiment(
    envs: list[str] | None,
    agents: list[str] | None,
    horizon: int | None,
    seeds: int | None,
    costs: str,
    assignments: list[str],
    **fields: Any,
) -> experiments.Experiment:
    for name, value in (("env", envs), ("horizon", horizon), ("seeds", seeds)):
        if not value and value != 0:
            raise CommandError(f"--{name} is missing; give --env, --horizon and --seeds, or a TOML file")
    settings, options = _assigned(assignments)
    return experiments.Experiment.grid(
        "run",
        envs or [],
        agents or ["recommended"],
        horizon=horizon or 0,
        seeds=seeds or 0,
        costs=costs,
        settings=settings,
        env_options=options,
        **fields,
    )


def _assigned(assignments: list[str]) -> tuple[dict[str, dict[str, Any]], dict[str, dict[str, Any]]]:
    """Settings by agent and options by environment, from NAME.KEY=VALUE."""
    settings: dict[str, dict[str, Any]] = {}
    options: dict[str, dict[str, Any]] = {}
    form = "NAME.KEY=VALUE, for instance psconrl.prior=0.1"
    for assignment in assignments:
        target, value = _pair(assignment, "--set", form)
        name, dot, key = target.partition(".")
        if not (dot and name and key):
            raise CommandError(f"--set {assignment}: write {form}")
        try:
            settings.setdefault(agents_package.canonical(name), {})[key] = value
        except UnknownNameError:
            try:
                options.setdefault(environments.find(name).name, {})[key] = value
            except UnknownNameError:
                known = [*environments.registry(), *(agent.lower() for agent in _agent_names())]
                raise UnknownNameError("agent or environment", name, known) from None
    return settings, options
