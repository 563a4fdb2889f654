"""Two policies compared by the clicks of a log: what `evaluate` gives."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any, Literal

from rankloop.offline.intervals import ValueInterval

# More than so many times the log, and nobody will wait for it.
MOST_LOGS = 100.0

Kind = Literal["better", "worse", "undecided"]


@dataclass(frozen=True)
class Contestant:
    """One policy, as the log's clicks estimate it.

    Attributes:
        name: the policy.
        ranking: ``sorted`` by score, ``drawn`` from scores, or ``as displayed``.
        estimate: what its rankings are worth, a query.
        effective: how many impressions of the policy itself the log is worth.
        outside: the share of what it shows of which the log says nothing.
        if_nothing: the estimate if all of that were irrelevant.
        if_everything: the estimate if all of that were relevant.
    """

    name: str
    ranking: str
    estimate: ValueInterval
    effective: float
    outside: float
    if_nothing: float
    if_everything: float


@dataclass(frozen=True)
class Difference:
    """The new policy minus the one that it is held against.

    Attributes:
        estimate: the difference.
        lowest: its lower end, if all documents of which the log says nothing were as bad for it as can be.
        highest: its upper end, if they were as good for it as can be.
    """

    estimate: ValueInterval
    lowest: float
    highest: float


@dataclass(frozen=True)
class Verdict:
    """One word on a comparison, and why.

    Attributes:
        kind: ``better``, ``worse`` or ``undecided``.
        more: about how many more impressions are needed; None where more would not help, or nobody will wait.
        text: the same as a sentence.
    """

    kind: Kind
    more: int | None
    text: str


@dataclass(frozen=True)
class Comparison:
    """A new policy and the one it is held against, by the clicks of a log.

    Attributes:
        measure: what is estimated, a query: ``dcg@5``, ``clicks``.
        new: the new policy.
        against: the other.
        difference: new − against.
        impressions: how many were used.
        queries: how many different queries they were of.
        guess: the relevance that is believed of a document before its clicks.
        support: the least expected α of a document for its clicks to count.
        estimator: the name of the estimator.
        notes: what every report on it must say.
    """

    measure: str
    new: Contestant
    against: Contestant
    difference: Difference
    impressions: int
    queries: int
    guess: float
    support: float
    estimator: str
    notes: tuple[str, ...]

    @property
    def verdict(self) -> Verdict:
        """Better, worse, or how many more impressions are needed.

        Better (or worse) if the whole 90 % interval of the difference is above (or below) 0, even if all that
        the log says nothing of were as bad for it as can be. Otherwise, intervals being as wide as 1/√T,

            T' = T · (half width / |difference|)²

        impressions would make an interval that ends at 0, and ``T' − T`` more are needed.
        """
        estimate, difference = self.difference.estimate, self.difference
        for kind, sure, likely in (
            ("better", difference.lowest > 0.0, estimate.low > 0.0),
            ("worse", difference.highest < 0.0, estimate.high < 0.0),
        ):
            if sure:
                return Verdict(kind, 0, f"{self.new.name} is {kind} than {self.against.name}.")  # type: ignore[arg-type]
            if likely:
                return Verdict("undecided", None, self._unseen(kind))
        if estimate.error == 0.0:
            return Verdict("undecided", None, "Both rank alike: there is no difference to be found.")
        half = (estimate.high - estimate.low) / 2.0
        logs = (half / abs(estimate.value)) ** 2 if estimate.value else math.inf
        if logs > MOST_LOGS:
            text = (
                f"Undecided: the difference is too small to tell; more than {MOST_LOGS:.0f} times these "
                f"{self.impressions:,} impressions would be needed."
            )
            return Verdict("undecided", None, text)
        more = _rounded(max(logs - 1.0, 0.0) * self.impressions)
        return Verdict("undecided", more, f"Undecided: about {more:,} more impressions are needed.")

    def _unseen(self, kind: str) -> str:
        return (
            f"Undecided: {self.new.name} is {kind} than {self.against.name} if the documents of which the "
            f"log says nothing are like the others; they are {self.new.outside:.1%} of what it shows (and "
            f"{self.against.outside:.1%} of what the other does). Let a policy log that shows them."
        )

    def to_dict(self) -> dict[str, Any]:
        """The same for JSON."""
        found = asdict(self)
        for part in ("new", "against", "difference"):
            found[part]["estimate"] = getattr(self, part).estimate._asdict()
        return {**found, "notes": list(self.notes), "verdict": asdict(self.verdict)}


def _rounded(count: float) -> int:
    """Up, to two digits: nobody knows the others.

    >>> _rounded(12_345.0), _rounded(7.2), _rounded(0.0)
    (13000, 8, 0)
    """
    if count < 1.0:
        return math.ceil(count)
    unit = 10.0 ** max(math.floor(math.log10(count)) - 1, 0)
    return int(math.ceil(count / unit) * unit)
