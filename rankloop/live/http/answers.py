"""What the service answers, for the description of its interface."""

from __future__ import annotations

from typing import Any

from msgspec import Struct


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
