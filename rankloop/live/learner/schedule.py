"""When the learner learns again: when the log has grown enough, or when enough time has passed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from rankloop.live.learner.settings import LearnerSettings

HOUR = 3600.0


@dataclass(frozen=True)
class LastLearned:
    """What the log was like when the learner learned last.

    Attributes:
        sealed: impressions that were ever sealed, also those that retention has deleted.
        held: impressions that were in the log.
        at: when, in seconds since 1970.
    """

    sealed: int
    held: int
    at: float

    def is_past(self, sealed: int, now: float, settings: LearnerSettings) -> bool:
        """Whether it is time to learn again.

        What counts is what is new: retention deletes old impressions, so the log itself may never double.

        Example:
            >>> last = LastLearned(sealed=5_000, held=1_000, at=0.0)
            >>> [last.is_past(sealed, 0.0, LearnerSettings()) for sealed in (5_999, 6_000)]
            [False, True]
            >>> last.is_past(5_001, 7_200.0, LearnerSettings(learn_hours=2.0))
            True
        """
        new = sealed - self.sealed
        # A clock that was set back must not stop the schedule.
        late = settings.learn_hours is not None and abs(now - self.at) >= settings.learn_hours * HOUR
        return new >= (settings.growth - 1.0) * self.held or (late and new > 0)

    def to_dict(self) -> dict[str, Any]:
        """Plain values, from which `from_note` makes it again."""
        return asdict(self)

    @classmethod
    def from_note(cls, note: Mapping[str, Any] | int | None) -> LastLearned | None:
        """What `to_dict` gave; None if nothing was learned yet. Earlier versions noted the impressions."""
        if not note:
            return None
        return cls(note, note, 0.0) if isinstance(note, int) else cls(**note)
