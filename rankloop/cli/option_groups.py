"""Groups of options that several commands share: a parameter of a command becomes several options."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, Field, fields, is_dataclass
from functools import wraps
from typing import Any, get_type_hints

Command = Callable[..., None]
# From the values of options to the values of parameters.
Gather = Callable[[dict[str, Any]], dict[str, Any]]


def expand_groups(command: Command) -> Command:
    """Replace every parameter of a command whose type is a dataclass by one option for each of its fields.

    The command gets the dataclass, with the values of the options.
    """
    groups: dict[str, Any] = {
        name: one.annotation
        for name, one in inspect.signature(command, eval_str=True).parameters.items()
        if is_dataclass(one.annotation)
    }

    def gather(values: dict[str, Any]) -> dict[str, Any]:
        for name, group in groups.items():
            values[name] = group(**{field.name: values.pop(field.name) for field in fields(group)})
        return values

    return replace_parameters(command, {name: _options(group) for name, group in groups.items()}, gather)


def replace_parameters(
    command: Command, options: Mapping[str, Sequence[inspect.Parameter]], gather: Gather
) -> Command:
    """The same command with other parameters, as typer sees them.

    Args:
        command: the function of the command.
        options: by the name of a parameter, what replaces it.
        gather: turns the values of what replaces parameters into values of the parameters.
    """
    parameters: list[inspect.Parameter] = []
    for name, one in inspect.signature(command, eval_str=True).parameters.items():
        parameters += options.get(name, [one])

    @wraps(command)
    def wrapper(**values: Any) -> None:
        command(**gather(values))

    # Typer reads them both; parameters with defaults may come before others only if all are named.
    named = [each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in parameters]
    wrapper.__signature__ = inspect.Signature(named)  # type: ignore[attr-defined]
    wrapper.__annotations__ = {each.name: each.annotation for each in named}
    return wrapper


def _options(group: Any) -> list[inspect.Parameter]:
    hints = get_type_hints(group, include_extras=True)
    return [
        inspect.Parameter(
            field.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=_default(field),
            annotation=hints[field.name],
        )
        for field in fields(group)
    ]


def _default(field: Field[Any]) -> Any:
    return inspect.Parameter.empty if field.default is MISSING else field.default
