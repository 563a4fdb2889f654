"""What clients send and receive: decoded and checked in one step, with messages that say what is wrong."""

from __future__ import annotations

from typing import Annotated, Any, TypeVar

import msgspec
from msgspec import Meta, Struct

from rankloop.live.ranking.rules import RequestError

# The characters of an id, a text that may be empty, a query, and a text for people.
LONGEST_QUERY = 1000
Id = Annotated[str, Meta(min_length=1, max_length=256)]
ShortText = Annotated[str, Meta(max_length=256)]
QueryText = Annotated[str, Meta(max_length=LONGEST_QUERY)]
Words = Annotated[str, Meta(min_length=1, max_length=1000)]
Position = Annotated[int, Meta(ge=1, le=10_000)]
Number = float | None
# Values of actions: sums of their squares over any log are finite.
Amount = Annotated[float, Meta(ge=-1e12, le=1e12)]
# Rules of a request: each takes time for every candidate, while others wait.
MOST_FILTERS, MOST_PINS, MOST_EXCLUDED = 100, 1000, 10_000
# Times are seconds since 1970, up to the year 9999.
LATEST = 253_402_300_799.0
Seconds = Annotated[float, Meta(ge=0.0, le=LATEST)]
# Text of this kind cannot be stored in PostgreSQL.
NUL = b"\\u0000"


class CandidateMessage(Struct, forbid_unknown_fields=True):
    """A candidate: its id, and its features by name or in the order that `GET /policies` lists."""

    id: Id
    features: dict[str, Number] | list[Number] | None = None


class PinMessage(Struct, forbid_unknown_fields=True):
    """A document with a fixed position."""

    id: Id
    position: Position


class FilterMessage(Struct, forbid_unknown_fields=True):
    """Limits of a feature; candidates outside are not shown."""

    feature: Id
    at_least: float | None = None
    at_most: float | None = None


class RankMessage(Struct, forbid_unknown_fields=True):
    """A request to rank."""

    query: QueryText
    candidates: Annotated[list[CandidateMessage], Meta(min_length=1)]
    id: Id | None = None
    top: Position | None = None
    pins: Annotated[list[PinMessage], Meta(max_length=MOST_PINS)] = []
    exclude: Annotated[list[Id], Meta(max_length=MOST_EXCLUDED)] = []
    filters: Annotated[list[FilterMessage], Meta(max_length=MOST_FILTERS)] = []
    context: dict[str, str | float | bool | None] = {}


class RankAnswer(Struct, omit_defaults=True):
    """The answer: what to show, from position 1. If the policy failed, ``note`` says why."""

    impression: str
    ranking: list[str]
    policy: str
    deployment: int
    note: str | None = None


class EventMessage(Struct, forbid_unknown_fields=True):
    """Something that a user did with a document."""

    impression: Id
    document: Id
    kind: Id = "click"
    id: Id | None = None
    value: Amount | None = None
    time: Seconds | None = None
    position: Position | None = None


class EventsMessage(Struct, forbid_unknown_fields=True):
    """A batch of events."""

    events: list[EventMessage]


class EventsAnswer(Struct):
    """How many events were accepted, and how many had which problem."""

    accepted: int
    problems: dict[str, int]


class ShareMessage(Struct, forbid_unknown_fields=True):
    """A policy's share of the traffic."""

    policy: Id
    share: Annotated[float, Meta(gt=0, le=1)]
    role: Annotated[str, Meta(pattern="^(live|explore|canary|holdout)$")] = "live"


class DeployMessage(Struct, forbid_unknown_fields=True):
    """A request to deploy; without ``hold``, the learner may change it like its own deployments."""

    shares: Annotated[list[ShareMessage], Meta(min_length=1, max_length=100)]
    why: Words
    hold: bool = True


class RollbackMessage(Struct, forbid_unknown_fields=True):
    """A request to restore an earlier deployment."""

    why: Words = "rolled back by hand"
    to: Annotated[int, Meta(ge=1, le=2**31 - 1)] | None = None
    hold: bool = True


class LearnerMessage(Struct, forbid_unknown_fields=True):
    """What a person decides about the learner."""

    action: Annotated[str, Meta(pattern="^(pause|resume|end-trial)$")]
    why: Words


class ErrorAnswer(Struct):
    """What is wrong, and what to do."""

    error: str


class PolicyAnswer(Struct):
    """A policy without its model."""

    number: int
    name: str
    kind: str
    fingerprint: str
    created_at: float
    created_by: str
    scale: float
    feature_names: list[str]
    fill_values: list[float] | None
    details: dict[str, Any]


class PoliciesAnswer(Struct):
    """The policies, oldest first, and the features that requests may give, in their order."""

    policies: list[PolicyAnswer]
    features: list[str]


class RegisteredAnswer(Struct):
    """A policy that was registered."""

    name: str
    number: int
    fingerprint: str


class ShareAnswer(Struct):
    """A policy's share of the traffic."""

    policy: str
    share: float
    role: str


class DeploymentAnswer(Struct):
    """A deployment: what is live, since when, by whom, why, and with which numbers."""

    number: int
    shares: list[ShareAnswer]
    kind: str
    created_at: float
    who: str
    why: str
    numbers: dict[str, Any]


class DeploymentsAnswer(Struct):
    """The last deployments, newest first."""

    deployments: list[DeploymentAnswer]


class DiaryAnswer(Struct):
    """Something that the learner did or found."""

    created_at: float
    kind: str
    text: str
    numbers: dict[str, Any]


class LearnerAnswer(Struct):
    """The learner: what people decided, whether it lives, its trial, and the evidence about what is live."""

    state: str
    who: str
    why: str
    alive: bool
    heartbeat: dict[str, Any] | None
    seal_lag: float
    unsealed: int
    trial: dict[str, Any] | None
    watched: list[dict[str, Any]]
    equal_shares: dict[str, Any] | None
    warnings: list[str]


class EvidenceAnswer(Struct):
    """The trial and the trust in clicks, if any; the diary of the learner; events by what became of them."""

    trial: dict[str, Any] | None
    trust: dict[str, Any] | None
    diary: list[DiaryAnswer]
    events: dict[str, int]


class HealthAnswer(Struct):
    """The process runs."""

    status: str


class ReadyAnswer(Struct):
    """Whether the service can serve, what prevents it, and what is wrong with the learner beside it."""

    ready: bool
    problems: list[str]
    warnings: list[str]


_DECODERS: dict[Any, msgspec.json.Decoder[Any]] = {}
_Message = TypeVar("_Message")


def decode(body: bytes, kind: type[_Message]) -> _Message:
    """Decode the body of a request.

    Raises:
        RequestError: it is not JSON, or not of this kind; the message says where and why.

    Example:
        >>> decode(b'{"query": "cat", "candidates": [{"id": 7}]}', RankMessage)
        Traceback (most recent call last):
            ...
        rankloop.live.ranking.rules.RequestError: Expected `str`, got `int` - at `$.candidates[0].id`
    """
    decoder = _DECODERS.get(kind)
    if decoder is None:
        decoder = _DECODERS[kind] = msgspec.json.Decoder(kind)
    # Few bodies have any escape, and looking for one character is fast.
    if b"\\" in body and NUL in body:
        raise RequestError(r"text must not contain the character \u0000")
    try:
        message: _Message = decoder.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise RequestError(str(error)) from None
    return message


def encode(message: Any) -> bytes:
    """Encode an answer as JSON."""
    return msgspec.json.encode(message)
