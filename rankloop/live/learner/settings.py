"""Settings of the learner."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, field_validator

from rankloop.live.learner.metric import Guard, MetricChoice
from rankloop.live.settings import OutputSettings, WindowSeconds
from rankloop.option_field import option_field

Count = Annotated[int, Field(ge=1)]
Period = Annotated[float, Field(gt=0)]
Fraction = Annotated[float, Field(gt=0, lt=1)]
LEARNING, RETENTION = "Learning", "Retention"


class LearnerSettings(OutputSettings):
    """When and how the learner learns, and what it may deploy; most fields are options of `rankloop learn`.

    Example:
        >>> LearnerSettings().deploy
        'ask'
    """

    deploy: Literal["ask", "auto"] = option_field(
        "ask",
        "ask: a person deploys what is proven better. auto: canary, then full, on evidence.",
        panel=LEARNING,
    )
    model: str = option_field(
        "lightgbm", "The model to learn, as in `rankloop fit`: {models}.", panel=LEARNING
    )
    learning: str = option_field(
        "doubly-robust", "How clicks become labels, as in `rankloop fit`: {learning}.", panel=LEARNING
    )
    bias: str | None = option_field(
        None,
        "How users click: a file that `rankloop bias` wrote, or the name of simulated users such as paper@5.",
        panel=LEARNING,
        shown_default="estimated from the log",
    )
    window: WindowSeconds = 1800.0
    every: Period = option_field(10.0, "Seconds between two looks at the store.", panel=LEARNING)
    least: Count = option_field(
        1000, "Sealed impressions before the first policy is learned.", panel=LEARNING
    )
    growth: Annotated[float, Field(gt=1)] = option_field(
        2.0,
        "By what factor what was learned from must have grown before a policy is learned again.",
        panel=LEARNING,
        hidden=True,
    )
    learn_hours: Period | None = option_field(
        None,
        "Learn again after this many hours, also if there are fewer new pages than were learned from.",
        panel=LEARNING,
        shown_default="when the log has doubled",
    )
    level: Fraction = option_field(
        0.05, "The probability that anything is ever deployed on noise, at most.", panel=LEARNING, hidden=True
    )
    canary: Fraction = option_field(0.1, "The share of the traffic that tries a new policy.", panel=LEARNING)
    canary_impressions: Count = option_field(
        1000, "Impressions that a canary serves before it can be deployed fully.", panel=LEARNING, hidden=True
    )
    explore: Annotated[float, Field(ge=0, lt=0.5)] = option_field(
        0.1, "The share of the traffic that explores: the live policy, softened.", panel=LEARNING
    )
    spread: Period = option_field(
        1.5, "How soft that is: the spread of its scores within a query.", panel=LEARNING, hidden=True
    )
    holdout: Annotated[float, Field(ge=0, lt=0.5)] = option_field(
        0.02, "The share that the previous policy keeps, to notice harm.", panel=LEARNING
    )
    metric: MetricChoice = option_field(
        "auto",
        "What counts: clicks, or amount for what actions are worth. auto: amount as soon as an action has "
        "one.",
        panel=LEARNING,
    )
    guard: str | None = option_field(
        None,
        "What a new policy may not lose while it gains something else, such as clicks>=-1%; several with "
        "commas.",
        panel=LEARNING,
        shown_default="nothing but what it is judged by",
    )
    risk: Annotated[float, Field(gt=0, le=1)] = option_field(
        0.1,
        "The share of the traffic that learned policies may get without a person, as long as clicks do not "
        "agree with the last policy that a person deployed. If clicks mean the opposite of what they seem "
        "to, no more than this share of its value is lost.",
        panel=LEARNING,
    )
    most: Annotated[float, Field(gt=0, le=1)] = option_field(
        1.0, "The share that learned policies may get without a person, whatever clicks say.", panel=LEARNING
    )
    failures: Fraction = option_field(
        0.05,
        "The share of failed or late answers at which a policy is rolled back.",
        panel=LEARNING,
        hidden=True,
    )
    pages_per_alarm: Annotated[float, Field(gt=1)] = option_field(
        1_000_000.0,
        "The mean number of pages until the monitor takes a policy for harmful that is as good.",
        panel=LEARNING,
        hidden=True,
    )
    comparison_pages: Count = option_field(
        200_000,
        "Pages after which two policies that lists do not tell apart are no longer compared.",
        panel=LEARNING,
        hidden=True,
    )
    seed: int = option_field(0, "Random seed of learning.", panel=LEARNING, hidden=True)
    keep_seconds: Annotated[float, Field(ge=3600)] = option_field(
        86_400.0, "How long sealed impressions stay in the database, in seconds.", panel=LEARNING, hidden=True
    )
    retain_days: Annotated[float, Field(gt=0)] | None = option_field(
        None, "Delete parts of the log that are older.", panel=RETENTION, shown_default="keep everything"
    )
    retain_bytes: Count | None = option_field(
        None,
        "Delete the oldest parts of the log if it is larger than this.",
        panel=RETENTION,
        shown_default="keep everything",
    )

    @field_validator("guard")
    @classmethod
    def _check_guard(cls, text: str | None) -> str | None:
        Guard.parse_all(text)
        return text

    @property
    def guards(self) -> tuple[Guard, ...]:
        """What a new policy may not lose."""
        return Guard.parse_all(self.guard)
