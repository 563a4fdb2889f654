"""Settings of the learner."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

Count = Annotated[int, Field(ge=1)]
Period = Annotated[float, Field(gt=0)]
Fraction = Annotated[float, Field(gt=0, lt=1)]


class LearnerSettings(BaseModel):
    """When and how the learner learns, and what it may deploy; the fields are options of `rankloop learn`.

    Example:
        >>> LearnerSettings().deploy
        'ask'
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    deploy: Literal["ask", "auto"] = Field(
        default="ask",
        description="ask: a person deploys what is proven better. auto: canary, then full, on evidence.",
    )
    model: str = Field(default="lightgbm", description="The model to learn, as in `rankloop fit`.")
    learning: str = Field(
        default="doubly-robust", description="How clicks become labels, as in `rankloop fit`."
    )
    bias: str | None = Field(
        default=None,
        description="How users click: a file, the name of simulated users, or nothing to estimate it.",
    )
    window: Annotated[float, Field(ge=0)] = Field(
        default=1800.0, description="How long after an impression its events count, in seconds."
    )
    every: Period = Field(default=10.0, description="Seconds between two looks at the store.")
    least: Count = Field(default=1000, description="Sealed impressions before the first policy is learned.")
    growth: Annotated[float, Field(gt=1)] = Field(
        default=2.0, description="By what factor the log must have grown before a policy is learned again."
    )
    level: Fraction = Field(
        default=0.05, description="The probability that anything is ever deployed on noise, at most."
    )
    canary: Fraction = Field(default=0.1, description="The share of the traffic that tries a new policy.")
    canary_impressions: Count = Field(
        default=1000, description="Impressions that a canary serves before it can be deployed fully."
    )
    explore: Annotated[float, Field(ge=0, lt=0.5)] = Field(
        default=0.1, description="The share of the traffic that explores: the live policy, softened."
    )
    spread: Period = Field(
        default=1.5, description="How soft that is: the spread of its scores within a query."
    )
    holdout: Annotated[float, Field(ge=0, lt=0.5)] = Field(
        default=0.05, description="The share that the previous policy keeps, to notice harm."
    )
    most: Annotated[float, Field(gt=0, le=1)] = Field(
        default=1.0,
        description="The share that learned policies may get without a person; the rest stays with the last "
        "policy that a person deployed, so that no more than this share of its value can be lost.",
    )
    failures: Fraction = Field(
        default=0.05, description="The share of failed or late answers at which a policy is rolled back."
    )
    seed: int = Field(default=0, description="Random seed of learning.")
    keep_seconds: Annotated[float, Field(ge=3600)] = Field(
        default=86_400.0, description="How long sealed impressions stay in the database, in seconds."
    )
    retain_days: Annotated[float, Field(gt=0)] | None = Field(
        default=None, description="Delete parts of the log that are older; by default nothing is deleted."
    )
    retain_bytes: Count | None = Field(
        default=None, description="Delete the oldest parts of the log if it is larger than this."
    )
