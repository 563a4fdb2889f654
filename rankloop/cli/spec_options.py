"""Options of a command from the fields of its spec: help, default, limits and panel are written once."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from types import NoneType
from typing import Annotated, Any, TypeVar, get_args, get_origin

import typer
from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo

from rankloop.cli.option_groups import Command, replace_parameters
from rankloop.errors import RankloopError

Spec = TypeVar("Spec", bound=BaseModel)
# The values that a user gave, by the names of the fields.
Given = dict[str, Any]

# The field that is an argument and not an option.
ARGUMENT = "data"
SIMPLE = (str, int, float, bool)


def spec_options(
    kind: type[BaseModel],
    only: Iterable[str] | None = None,
    defaults: Mapping[str, Any] | None = None,
    *,
    parameter: str = "given",
) -> Callable[[Command], Command]:
    """Replace a parameter of a command, ``given``, by one option for each field of a spec.

    The command gets a dictionary with the values of the options; those without a value are left out, so that
    the spec decides on their defaults.

    Args:
        kind: the spec; its fields are made as by `rankloop.experiments.spec.option_field`.
        only: the fields that become options; None for all that are made for it.
        defaults: defaults of this command that differ from those of the spec.
        parameter: the parameter to replace; a command may have several, one for each of its specs.
    """
    chosen = {
        name: field
        for name, field in kind.model_fields.items()
        if (field.json_schema_extra is not None if only is None else name in set(only))
    }

    def decorate(command: Command) -> Command:
        def gather(values: dict[str, Any]) -> dict[str, Any]:
            given = {name: values.pop(name) for name in chosen}
            values[parameter] = {name: value for name, value in given.items() if value is not None}
            return values

        options = [_parameter(name, field, defaults or {}) for name, field in chosen.items()]
        return replace_parameters(command, {parameter: options}, gather)

    return decorate


def read_spec(kind: type[Spec], given: Mapping[str, Any]) -> Spec:
    """The spec that options describe.

    Raises:
        RankloopError: a value is wrong; the message names its option.
    """
    try:
        return kind(**given)
    except ValidationError as error:
        first = error.errors()[0]
        # Errors of rankloop say everything; those of pydantic do not say what was given.
        message = first.get("ctx", {}).get("error") or f"{first['msg']}, got {first['input']!r}"
        where = f"--{str(first['loc'][0]).replace('_', '-')}: " if first["loc"] else ""
        raise RankloopError(f"{where}{message}") from error


def _parameter(name: str, field: FieldInfo, defaults: Mapping[str, Any]) -> inspect.Parameter:
    extra: Mapping[str, Any] = field.json_schema_extra or {}  # type: ignore[assignment]
    shown = None if name in defaults else extra.get("shown_default")
    default = defaults.get(name, None if shown is not None or field.is_required() else field.default)
    text = f"{field.description} \\[default: {shown}]" if shown else field.description
    simple = _simple_type(field.annotation)
    if name == ARGUMENT:
        settings: Any = typer.Argument(metavar="DATA", help=text, show_default=default is not None)
    else:
        panel, least = extra.get("panel"), _least(field)
        settings = typer.Option(help=text, rich_help_panel=panel, min=least, show_default=default is not None)
    kind = simple if default is not None else simple | None
    annotation = Annotated[kind, settings]  # type: ignore[valid-type]
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def _simple_type(annotation: Any) -> Any:
    """The type of an option: that of its field, or text for a field that can be one of several things."""
    while get_origin(annotation) is Annotated:
        annotation = get_args(annotation)[0]
    if annotation in SIMPLE:
        return annotation
    kinds = [kind for kind in get_args(annotation) if kind is not NoneType]
    return _simple_type(kinds[0]) if len(kinds) == 1 else str


def _least(field: FieldInfo) -> Any:
    """The least value of a number, if it has one."""
    return next((limit.ge for limit in field.metadata if hasattr(limit, "ge")), None)
