"""Options of services from the environment and from a file, and the table of all of them.

An option that is declared for `rankloop serve` or `rankloop learn` can be set in three places. What is typed
counts before the environment, the environment before the file, and the file before the default.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any

import typer
import typer.main

from rankloop.cli.options import list_names, option
from rankloop.errors import RankloopError

# Beginning of the variables: --log-format is RANKLOOP_LOG_FORMAT.
PREFIX = "RANKLOOP"
# The commands that take their options from all three places, and their options that a file cannot have.
SERVICES, OTHERS = ("serve", "learn"), ("_config", "help", "once", "quiet")
TABLE = "<!-- settings -->\n"
CONTEXT = {"auto_envvar_prefix": PREFIX}


def read_configuration(context: typer.Context, path: Path | None) -> Path | None:
    """Take the defaults of the other options from a TOML file; one file serves all services.

    Raises:
        RankloopError: the file cannot be read, or contains what is not an option of any service.
    """
    if path is None:
        return None
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise RankloopError(f"{path}: this is not TOML: {error}") from error
    given = {name.replace("-", "_"): value for name, value in content.items()}
    own = parameters(context.command)
    known = {name for service in _services(context.find_root().command) for name in parameters(service)}
    for name, value in given.items():
        if name not in known:
            shown = ", ".join(sorted(each.replace("_", "-") for each in known))
            raise RankloopError(f"{path}: there is no setting {name!r}; the settings are: {shown}")
        if isinstance(value, dict) or (isinstance(value, list) and name in own and not own[name].multiple):
            raise RankloopError(f"{path}: {name}: expected one value, got {value!r}")
    context.default_map = {
        name: [value] if own[name].multiple and not isinstance(value, list) else value
        for name, value in given.items()
        if name in own
    }
    return path


ConfigOption = Annotated[
    Path | None,
    option(
        "A TOML file with any of these options by name, such as port = 8017; what is typed, or set in the "
        "environment (RANKLOOP_PORT), counts before it.",
        "--config",
        shown="",
        envvar=f"{PREFIX}_CONFIG",
        show_envvar=False,
        callback=read_configuration,
        is_eager=True,
    ),
]


def parameters(command: Any) -> dict[str, Any]:
    """The parameters of a command that a file can set, by their names there."""
    return {
        each.name: _Parameter(each)
        for each in command.params
        if each.name is not None and each.name not in OTHERS
    }


class _Parameter:
    """A parameter of a command, whatever click's class of it."""

    def __init__(self, parameter: Any) -> None:
        self.parameter = parameter
        self.multiple = bool(getattr(parameter, "multiple", False))

    def row(self, name: str, services: str) -> tuple[str, ...]:
        """Its row of the table."""
        parameter = self.parameter
        typed = (
            f"`{max(parameter.opts, key=len)}`"
            if parameter.param_type_name == "option"
            else f"`{name.upper()}`"
        )
        text = list_names(parameter.help or "").replace("\\[", "[").replace("|", "\\|")
        default = parameter.default
        if default is None or callable(default) or default == () or "[default:" in text or parameter.required:
            shown = ""
        else:
            shown = f"`{str(default).lower() if isinstance(default, bool) else default}`"
        return typed, f"`{PREFIX}_{name.upper()}`", f"`{name.replace('_', '-')}`", services, shown, text


def settings_table(app: typer.Typer) -> str:
    """All settings of services as a Markdown table, each where it can be set."""
    rows: dict[str, tuple[_Parameter, list[str]]] = {}
    for service in _services(typer.main.get_command(app)):
        for name, parameter in parameters(service).items():
            rows.setdefault(name, (parameter, []))[1].append(str(service.name))
    head = ("option", "environment", "file", "of", "default", "meaning")
    lines = [head, ("---",) * len(head)]
    lines += [parameter.row(name, ", ".join(services)) for name, (parameter, services) in rows.items()]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def update_table(app: typer.Typer, page: str) -> str:
    """The page with the current table, after the comment ``<!-- settings -->``."""
    before, marker, after = page.partition(TABLE)
    rest = re.sub(r"\A\n(\|.*\n)*", "", after)
    return f"{before}{marker}\n{settings_table(app)}\n{rest}"


def _services(root: Any) -> Iterator[Any]:
    found: Mapping[str, Any] = getattr(root, "commands", {})
    return (found[name] for name in SERVICES if name in found)
