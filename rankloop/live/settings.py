"""Settings of the service."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

Positive = Annotated[int, Field(ge=1)]
Span = Annotated[float, Field(gt=0)]


class ServiceSettings(BaseModel):
    """Limits and defaults of the service; the fields are the options of `rankloop serve`.

    Example:
        >>> ServiceSettings(top=5).top
        5
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    top: Positive = Field(default=10, description="How many documents to show, if a request does not say.")
    max_candidates: Annotated[int, Field(ge=1, le=10_000)] = Field(
        default=1000,
        description="The largest number of candidates of a request.",
    )
    max_body: Positive = Field(default=4_000_000, description="The largest body of a request, in bytes.")
    max_model: Positive = Field(default=200_000_000, description="The largest model file, in bytes.")
    max_events: Positive = Field(default=1000, description="The largest number of events of a request.")
    rate: Annotated[float, Field(ge=0)] = Field(
        default=0.0,
        description="Requests per second and key; further ones are refused. 0 for no limit.",
    )
    model_seconds: Span = Field(
        default=0.2,
        description="How long a model may take; after that, the incoming order is served.",
    )
    request_seconds: Span = Field(default=10.0, description="How long a request may take.")
    window: Annotated[float, Field(ge=0)] = Field(
        default=1800.0,
        description="How long after an impression its events count, in seconds; then it is sealed.",
    )
    origins: tuple[str, ...] = Field(
        default=(),
        description="Origins of web pages that may send events from browsers (CORS).",
    )
