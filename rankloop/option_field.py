"""Fields of specs and settings that are options of commands, too: help, default and limits, written once.

`rankloop.cli.options` makes the options. In a help text, ``{estimators}`` stands for all their names.
"""

from __future__ import annotations

from typing import Any

from pydantic import Field


def option_field(
    default: Any,
    help_text: str,
    *,
    panel: str | None = None,
    shown_default: str | None = None,
    hidden: bool = False,
    **limits: Any,
) -> Any:
    """A field of a pydantic model that is also an option of a command.

    Args:
        default: the value if the option is not given; ``...`` if there is none.
        help_text: what `--help` says.
        panel: the group of options that it belongs to; None for the general one.
        shown_default: the default in words, where it depends on other options.
        hidden: whether `--help` leaves it out, because hardly anybody needs it.
        limits: what pydantic checks, such as ``ge=1``.
    """
    extra: dict[str, Any] = {"panel": panel, "shown_default": shown_default, "hidden": hidden}
    return Field(default, description=help_text, json_schema_extra=extra, **limits)
