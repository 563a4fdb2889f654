"""Settings of the service."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from rankloop.option_field import option_field

Positive = Annotated[int, Field(ge=1)]
Span = Annotated[float, Field(gt=0)]
LIMITS, OUTPUT = "Limits", "Output"


WindowSeconds = Annotated[
    float,
    option_field(..., "How long after an impression its events count, in seconds; then it is sealed.", ge=0),
]


class OutputSettings(BaseModel):
    """What a process of the service says on standard error."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    log_format: Literal["text", "json"] = option_field(
        "text", "What lines on standard error look like: text or json.", panel=OUTPUT
    )
    log_level: Literal["debug", "info", "warning", "error"] = option_field(
        "info",
        "From which level on lines are written: debug, info, warning or error. debug has a line per request.",
        panel=OUTPUT,
    )


class ServiceSettings(OutputSettings):
    """Limits and defaults of the service; most fields are options of `rankloop serve`.

    Example:
        >>> ServiceSettings(top=5).top
        5
    """

    top: Positive = option_field(10, "How many documents to show if the request does not set it.")
    window: WindowSeconds = 1800.0
    max_candidates: Annotated[int, Field(ge=1, le=10_000)] = option_field(
        1000, "The largest number of candidates of a request.", panel=LIMITS
    )
    max_body: Positive = option_field(4_000_000, "The largest body of a request, in bytes.", panel=LIMITS)
    max_model: Positive = option_field(
        200_000_000, "The largest model file, in bytes.", panel=LIMITS, hidden=True
    )
    max_events: Positive = option_field(
        1000, "The largest number of events of a request.", panel=LIMITS, hidden=True
    )
    rate: Annotated[float, Field(ge=0)] = option_field(
        0.0, "Requests per second and key; further ones are refused. 0 for no limit.", panel=LIMITS
    )
    model_seconds: Span = option_field(
        0.2, "How long a model may take; after that, the incoming order is served.", panel=LIMITS
    )
    header_seconds: Span = option_field(
        10.0, "How long a client may take to send the headers of a request.", panel=LIMITS
    )
    body_seconds: Span = option_field(
        10.0, "How long a client may take to send the body of a request.", panel=LIMITS
    )
    max_connections: Positive = option_field(
        500,
        "The largest number of open connections; further ones replace those whose client is silent longest.",
        panel=LIMITS,
    )
    user_share: Annotated[float, Field(gt=0, le=1)] = option_field(
        0.01,
        "The share of the pages of a day from which one user, `user` in the context of a request, can teach "
        "or prove anything, at most.",
        panel=LIMITS,
    )
    user_pages: Positive = option_field(
        20, "Pages of a user that count per day in any case.", panel=LIMITS, hidden=True
    )
    request_seconds: Span = option_field(
        10.0, "How long the answer to a request may take.", panel=LIMITS, hidden=True
    )
    origins: tuple[str, ...] = Field(
        default=(),
        description="Origins of web pages that may send events from browsers (CORS).",
    )
