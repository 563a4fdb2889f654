"""Settings of the service."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

Positive = Annotated[int, Field(ge=1)]
Span = Annotated[float, Field(gt=0)]
LIMITS = "Limits"


def option(
    description: str, default: Any = None, *, panel: str | None = None, shown_default: str | None = None
) -> Any:
    """A field that is an option of a command.

    Args:
        description: the help text.
        default: its default.
        panel: the heading under which help lists it.
        shown_default: what help shows in place of the default.
    """
    extra: dict[str, Any] = {"panel": panel, "shown_default": shown_default}
    return Field(default=default, description=description, json_schema_extra=extra)


WindowSeconds = Annotated[
    float,
    Field(
        ge=0,
        description="How long after an impression its events count, in seconds; then it is sealed.",
        json_schema_extra={},
    ),
]


class ServiceSettings(BaseModel):
    """Limits and defaults of the service; most fields are options of `rankloop serve`.

    Example:
        >>> ServiceSettings(top=5).top
        5
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    top: Positive = option("How many documents to show if the request does not set it.", 10)
    window: WindowSeconds = 1800.0
    max_candidates: Annotated[int, Field(ge=1, le=10_000)] = option(
        "The largest number of candidates of a request.", 1000, panel=LIMITS
    )
    max_body: Positive = option("The largest body of a request, in bytes.", 4_000_000, panel=LIMITS)
    max_model: Positive = Field(default=200_000_000, description="The largest model file, in bytes.")
    max_events: Positive = Field(default=1000, description="The largest number of events of a request.")
    rate: Annotated[float, Field(ge=0)] = option(
        "Requests per second and key; further ones are refused. 0 for no limit.", 0.0, panel=LIMITS
    )
    model_seconds: Span = option(
        "How long a model may take; after that, the incoming order is served.", 0.2, panel=LIMITS
    )
    request_seconds: Span = Field(default=10.0, description="How long a request may take.")
    origins: tuple[str, ...] = Field(
        default=(),
        description="Origins of web pages that may send events from browsers (CORS).",
    )
