"""Options of commands: how they are declared, and those that several commands share.

An option is declared once, in one of two places that `expand_options` reads alike:

- a parameter of a command, or a field of a dataclass, annotated with `option` or `argument`;
- a field of a pydantic model made by `rankloop.option_field.option_field`.

A parameter whose type is such a class becomes one option per field, and the command gets the value.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import MISSING, dataclass, fields, is_dataclass
from functools import cache, wraps
from importlib import import_module
from pathlib import Path
from types import NoneType
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, TypeVar, get_args, get_origin, get_type_hints

import typer
from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo
from typer.core import TyperCommand

from rankloop.errors import RankloopError
from rankloop.experiments.spec import DATA_HELP, FOLD_HELP

if TYPE_CHECKING:
    from rankloop.offline import Log

Spec = TypeVar("Spec", bound=BaseModel)
Command = Callable[..., None]
# The values of options that are not at a default of None, by the names of the fields.
Given = dict[str, Any]

# What a help text may list, as {estimators}: names that exist, those of plug-ins included.
NAMES = {
    "estimators": "rankloop.estimators:ESTIMATORS",
    "evidence": "rankloop.evidence:EVIDENCE",
    "explorations": "rankloop.loop:EXPLORATIONS",
    "formats": "rankloop.exchange.writer:EXPORT_FORMATS",
    "guesses": "rankloop.relevance:GUESSES",
    "learning": "rankloop.training:LEARNING",
    "methods": "rankloop.online:METHODS",
    "metrics": "rankloop.evaluation:METRICS",
    "models": "rankloop.models.specs:MODELS",
    "objectives": "rankloop.objectives:TRAINING_OBJECTIVES",
    "optimisers": "rankloop.models.optimisers:OPTIMISERS",
    "relevances": "rankloop.clicks:RELEVANCES",
    "users": "rankloop.clicks:USERS",
}
# The data set that every command takes where it is given none.
DATA = "synthetic(queries=2000, features=100)"
ARGUMENT = "data"
SIMPLE = (str, int, float, bool)


def option(
    help_text: str, *flags: str, shown: str | None = None, panel: str | None = None, **more: Any
) -> Any:
    r"""An option of a command.

    Args:
        help_text: what `--help` says.
        flags: its spellings, if not that of the parameter.
        shown: the default in words, where the parameter has None; empty to show none.
        panel: the group of options that it belongs to.
        more: what typer checks and shows, such as ``min=1``.
    """
    text = _with_default(help_text, shown)
    # Services take every option from the environment, too: docs/live.md has the table.
    more.setdefault("show_envvar", "envvar" in more)
    return typer.Option(*flags, help=text, show_default=shown is None, rich_help_panel=panel, **more)


def argument(metavar: str, help_text: str, **more: Any) -> Any:
    """An argument of a command."""
    return typer.Argument(metavar=metavar, help=help_text, **more)


@dataclass(frozen=True)
class FieldsOf:
    """Marks a parameter: its options are the fields of a pydantic model.

    The parameter has the model as its type, or `Given` for the values alone.

    Attributes:
        model: the model; its fields are made by `option_field`.
        only: the fields that become options; None for all that are made for it.
        without: fields that do not.
        defaults: defaults of this command that differ from those of the model.
    """

    model: type[BaseModel]
    only: Collection[str] | None = None
    without: Collection[str] = ()
    defaults: Mapping[str, Any] | None = None

    def options(self) -> dict[str, inspect.Parameter]:
        """A parameter for each field."""
        return {
            name: _parameter(name, field, self.defaults or {})
            for name, field in self.model.model_fields.items()
            if (field.json_schema_extra is not None if self.only is None else name in self.only)
            and name not in self.without
        }


class NamesInHelp(TyperCommand):
    """A command with ``--quiet``, whose help lists the names that exist.

    They are looked up when help is shown, not before.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.params.append(_quiet_option())

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Print the help."""
        for parameter in self.params:
            if isinstance(text := getattr(parameter, "help", None), str):
                parameter.help = list_names(text)  # type: ignore[attr-defined]
        super().format_help(ctx, formatter)


@cache
def _quiet_option() -> Any:
    app = typer.Typer(add_completion=False)

    @app.command()
    def command(
        quiet: Annotated[
            bool,
            option("Print results and errors only: no progress, no notes.", "--quiet", callback=_be_quiet),
        ] = False,
    ) -> None:
        """Take the option, and nothing else."""

    found = next(each for each in typer.main.get_command(app).params if each.name == "quiet")
    found.expose_value = False
    return found


def _be_quiet(quiet: bool) -> None:
    if quiet:
        from rankloop.cli import console

        console.err.quiet = True


def list_names(text: str) -> str:
    """A help text with the names that exist.

    >>> list_names("How labels become relevance: {relevances}.")
    'How labels become relevance: binary, exponential or linear.'
    """

    def names(match: re.Match[str]) -> str:
        module, _, registry = NAMES[match[1]].partition(":")
        *others, last = sorted(getattr(import_module(module), registry))
        return f"{', '.join(others)} or {last}" if others else last

    return re.sub(r"\{(\w+)\}", names, text)


def expand_options(command: Command) -> Command:
    """Replace each parameter that is a class of options, or marked by `FieldsOf`, by one option per field.

    The command gets the dataclass, or the model, with their values.
    """
    parameters: list[inspect.Parameter] = []
    groups: dict[str, _Group] = {}
    for name, parameter in inspect.signature(command, eval_str=True).parameters.items():
        group = _group(parameter.annotation)
        if group is None:
            parameters.append(parameter)
        else:
            groups[name] = group
            parameters += group.options.values()

    @wraps(command)
    def wrapper(**values: Any) -> None:
        for name, group in groups.items():
            values[name] = group.make({option: values.pop(option) for option in group.options})
        command(**values)

    # Typer reads them both; parameters with defaults may come before others only if all are named.
    named = [each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in parameters]
    wrapper.__signature__ = inspect.Signature(named)  # type: ignore[attr-defined]
    wrapper.__annotations__ = {each.name: each.annotation for each in named}
    return wrapper


def read_spec(model: type[Spec], given: Mapping[str, Any]) -> Spec:
    """The spec that options describe.

    Raises:
        RankloopError: a value is wrong; the message names its option.
    """
    try:
        return model(**given)
    except ValidationError as error:
        first = error.errors()[0]
        # Errors of rankloop say everything; those of pydantic do not say what was given.
        message = first.get("ctx", {}).get("error") or f"{first['msg']}, got {first['input']!r}"
        where = f"--{str(first['loc'][0]).replace('_', '-')}: " if first["loc"] else ""
        raise RankloopError(f"{where}{message}") from error


class _Group(NamedTuple):
    """The options that replace a parameter, and what makes its value from theirs."""

    options: Mapping[str, inspect.Parameter]
    make: Callable[[Given], Any]


def _group(annotation: Any) -> _Group | None:
    """The group that a parameter stands for; None if it is an option itself."""
    kind: Any
    kind, *marks = get_args(annotation) if get_origin(annotation) is Annotated else (annotation,)
    mark = next((each for each in marks if isinstance(each, FieldsOf)), None)
    if mark is None and inspect.isclass(kind) and issubclass(kind, BaseModel):
        mark = FieldsOf(kind)
    if mark is not None:
        return _Group(mark.options(), _reader(mark.model if kind is mark.model else None))
    if not is_dataclass(kind):
        return None
    hints = get_type_hints(kind, include_extras=True)
    options = {}
    for field in fields(kind):
        default = inspect.Parameter.empty if field.default is MISSING else field.default
        options[field.name] = _named(field.name, hints[field.name], default)
    make: Any = kind
    return _Group(options, lambda values: make(**values))


def _reader(model: type[BaseModel] | None) -> Callable[[Given], Any]:
    def read(values: Given) -> Any:
        # The model decides on the defaults of what is not given.
        given = {name: value for name, value in values.items() if value is not None}
        return given if model is None else read_spec(model, given)

    return read


def _parameter(name: str, field: FieldInfo, defaults: Mapping[str, Any]) -> inspect.Parameter:
    extra: Mapping[str, Any] = field.json_schema_extra or {}  # type: ignore[assignment]
    shown = None if name in defaults else extra.get("shown_default")
    default = defaults.get(name, None if shown is not None or field.is_required() else field.default)
    text = _with_default(field.description or "", shown)
    if name == ARGUMENT:
        settings = argument("DATA", text, show_default=default is not None)
    else:
        least = next((limit.ge for limit in field.metadata if hasattr(limit, "ge")), None)
        settings = option(
            text,
            shown=None if default is not None else "",
            panel=extra.get("panel"),
            min=least,
            hidden=bool(extra.get("hidden")),
        )
    simple = _simple_type(field.annotation)
    kind = simple if default is not None else simple | None
    return _named(name, Annotated[kind, settings], default)


def _named(name: str, annotation: Any, default: Any) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def _with_default(text: str, shown: str | None) -> str:
    return f"{text} \\[default: {shown}]" if shown else text


def _simple_type(annotation: Any) -> Any:
    """The type of an option: that of its field, or text for a field that can be one of several things."""
    while get_origin(annotation) is Annotated:
        annotation = get_args(annotation)[0]
    if annotation in SIMPLE:
        return annotation
    kinds = [kind for kind in get_args(annotation) if kind is not NoneType]
    return _simple_type(kinds[0]) if len(kinds) == 1 else str


# Options that several commands share.
ENGINE = "Engine"
DataArgument = Annotated[str, argument("DATA", DATA_HELP)]
FoldOption = Annotated[int, option(FOLD_HELP, min=1)]
SeedOption = Annotated[int, option("Random seed.", min=0)]
JsonOption = Annotated[bool, option("Print the result as JSON.", "--json")]
PageOption = Annotated[Path | None, option("The HTML report to write.", "--report")]


@dataclass(frozen=True)
class LogSource:
    """Which log to read, and by which engine."""

    log: Annotated[Path, argument("LOG", "The folder of a log.")]
    engine: Annotated[
        str,
        option(
            "The engine that counts the log: duckdb, spark, or the postgres that holds its impressions.",
            panel=ENGINE,
        ),
    ] = "duckdb"
    master: Annotated[
        str | None,
        option(
            "Where Spark runs, such as 'local[4]' or spark://host:7077; or postgresql://user@host/database.",
            panel=ENGINE,
        ),
    ] = None

    def open(self) -> Log:
        """Open the log."""
        from rankloop import open_log

        return open_log(self.log, engine=self.engine, master=self.master)


@dataclass(frozen=True)
class TargetedLogSource(LogSource):
    """Which log to fit to and to judge by, and what its displays are worth."""

    displays: Annotated[
        bool,
        option(
            "Estimate exposures from displays, for policies that do not draw rankings from their scores.",
            "--displays",
        ),
    ] = False
    target: Annotated[
        str,
        option(
            "What policies are fitted to and judged by: clicks, amount (what displays were worth, by the "
            "weights of the import), or auto: the amount of logs that have one."
        ),
    ] = "auto"

    def open(self) -> Log:
        """Open the log."""
        from rankloop import open_log

        return open_log(
            self.log,
            engine=self.engine,
            master=self.master,
            exposure="displays" if self.displays else "candidates",
            target=self.target,
        )
