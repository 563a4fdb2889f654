"""The command line: argv → one call."""

from __future__ import annotations

import inspect
import signal
import sys
from collections.abc import Callable, Mapping
from types import FrameType
from typing import Annotated, Any, NoReturn

import typer

from rankloop import extras
from rankloop._version import __version__
from rankloop.cli import experiments, live, logs, offline, policies, supervised
from rankloop.cli.configuration import CONTEXT, SERVICES
from rankloop.cli.options import NamesInHelp, option
from rankloop.errors import RankloopError

# Exit codes of a process that was stopped are above this one, as shells have it: 130 after Ctrl-C, 143 after
# SIGTERM.
STOPPED = 128
PROGRAM = "rankloop"


def _help(command: Callable[..., Any]) -> str:
    """The docstring of a command with one line per paragraph, which fits terminals of any width."""
    paragraphs = inspect.cleandoc(command.__doc__ or "").split("\n\n")
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs)


app = typer.Typer(
    name="rankloop",
    help="Learn ranking policies from clicks, with exact Plackett–Luce mathematics.",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
)
# The groups of `rankloop --help`, by what one has, and their commands in the order of use.
LOG, LIVE, SIMULATED, LABELLED = "A click log", "Real users", "Simulated users", "Labelled data"
GROUPS: Mapping[str, tuple[Callable[..., Any], ...]] = {
    LOG: (
        offline.check,
        offline.bias,
        offline.fit,
        offline.evaluate,
        offline.pipeline,
        offline.backtest,
        offline.relevance,
        policies.rank,
        policies.export,
    ),
    LIVE: (
        live.serve,
        live.learn,
        live.learner,
        live.rollback,
        live.key,
        live.health,
        live.backup,
        live.drive,
    ),
    SIMULATED: (experiments.demo, experiments.run, experiments.report, experiments.reproduce),
    LABELLED: (supervised.describe, supervised.train, supervised.measure),
}
for group, members in GROUPS.items():
    for command in members:
        app.command(
            help=_help(command),
            cls=NamesInHelp,
            rich_help_panel=group,
            context_settings=dict(CONTEXT) if command.__name__ in SERVICES else None,
        )(command)
app.add_typer(logs.importing, name="import", rich_help_panel=LOG)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"rankloop {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    _show: Annotated[
        bool, option("Print the version and exit.", "--version", callback=_version, is_eager=True)
    ] = False,
) -> None:
    pass


def main() -> None:
    """Run the command line; an error of the user is printed in one line, with exit code 2."""
    stopped = _stop_by_signal()
    try:
        with extras.explained():
            code = app(prog_name=PROGRAM, standalone_mode=False)
        sys.exit(code if isinstance(code, int) else 0)
    except SystemExit as end:
        # A service that was stopped has done what it was asked to.
        if stopped and end.code:
            sys.exit(STOPPED + stopped[-1])
        raise
    except Exception as error:
        if stopped:
            # A package that is interrupted while it is imported may turn that into an error of its own.
            sys.exit(STOPPED + stopped[-1])
        if isinstance(getattr(error, "exit_code", None), int):
            _end(error)
        reason = _reason(error)
        if reason is None:
            raise
        typer.echo(f"rankloop: {reason}", err=True)
        sys.exit(2)


def _end(error: Any) -> NoReturn:
    """End after what Typer raises: an error of usage is printed in one line."""
    context = getattr(error, "ctx", None)
    message = error.format_message() if hasattr(error, "format_message") else ""
    if type(error).__name__ == "NoArgsIsHelpError" or not message:
        typer.echo(message, err=True)
    else:
        where = PROGRAM if context is None else context.command_path.strip()
        sentence = " ".join(message.split()).rstrip(".?") + ("?" if message.rstrip().endswith("?") else ".")
        typer.echo(f"rankloop: {sentence} See `{where} --help`.", err=True)
    sys.exit(error.exit_code)


def _stop_by_signal() -> list[int]:
    """Let SIGTERM, from a scheduler for instance, end the process like Ctrl-C: nothing is left behind.

    Returns:
        The numbers of what came, SIGTERM or SIGINT, to which they are added.
    """
    stopped: list[int] = []

    def stop(number: int, _frame: FrameType | None) -> None:
        stopped.append(number)
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, stop)
    # A process that was started in the background ignores Ctrl-C, and goes on doing so.
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, stop)
    return stopped


def _reason(error: Exception) -> str | None:
    """What to tell a user whose files, options or machine are the cause; None for a defect of ours."""
    from rankloop.reports.terminal import printable

    match error:
        case RankloopError():
            reason = str(error)
        case MemoryError():
            reason = "there is not enough memory: give the process more, or use less data"
        case OSError():
            where = "" if error.filename is None else f"{error.filename}: "
            reason = f"{where}{error.strerror or error}"
        case _:
            return None
    return printable(reason, lines=True)
