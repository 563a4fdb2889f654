"""What the learner gains, a metric, and what it may not lose, guards such as ``clicks>=-1%``."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from rankloop.errors import RankloopError

# What is learned, proven and watched: what users click, or what their actions are worth.
MetricName = Literal["clicks", "amount"]
CLICKS: MetricName = "clicks"
AMOUNT: MetricName = "amount"
# What people may choose: by default, amounts as soon as there are any.
MetricChoice = Literal["auto", "clicks", "amount"]
PATTERN = re.compile(r"(\w+)\s*>=\s*-\s*(\d+(?:\.\d+)?)\s*%")


def metric_of(choice: MetricChoice, *seen: MetricName) -> MetricName:
    """What counts, by what people chose and by what actions carried so far.

    >>> metric_of("auto", CLICKS, AMOUNT), metric_of("auto", CLICKS), metric_of("clicks", AMOUNT)
    ('amount', 'clicks', 'clicks')
    """
    if choice != "auto":
        return choice
    return AMOUNT if AMOUNT in seen else CLICKS


@dataclass(frozen=True)
class Guard:
    """The share of a metric that a new policy may lose.

    Attributes:
        metric: ``clicks`` or ``amount``.
        tolerated: the share, above 0 and below 1.

    Example:
        >>> Guard.parse("clicks>=-1%")
        Guard(metric='clicks', tolerated=0.01)
        >>> str(Guard.parse("amount >= -2.5%"))
        'amount>=-2.5%'
    """

    metric: MetricName
    tolerated: float

    @classmethod
    def parse(cls, text: str) -> Guard:
        """A guard as people write it.

        Raises:
            RankloopError: it is written otherwise.
        """
        match = PATTERN.fullmatch(text.strip())
        name, percent = match.groups() if match else ("", "0")
        if name not in (CLICKS, AMOUNT) or not 0.0 < float(percent) < 100.0:
            raise RankloopError(
                f"a guard is the largest loss of a metric, such as clicks>=-1% or amount>=-2.5%, not {text!r}"
            )
        return cls(AMOUNT if name == AMOUNT else CLICKS, float(percent) / 100.0)

    @classmethod
    def parse_all(cls, text: str | None) -> tuple[Guard, ...]:
        """Guards with commas between them; none for None."""
        return tuple(dict.fromkeys(cls.parse(each) for each in (text or "").split(",") if each.strip()))

    def __str__(self) -> str:
        return f"{self.metric}>=-{100.0 * self.tolerated:g}%"
