"""Whether the learner is alive: it notes its heartbeat in the store, and servers read it there."""

from __future__ import annotations

import time
from dataclasses import dataclass
from datetime import UTC, datetime

from sqlalchemy import Connection, select

from rankloop.errors import DataError
from rankloop.live.learner.notes import HEARTBEAT, load_note, save_note
from rankloop.live.store.tables import impressions
from rankloop.storage.plain import from_plain, to_plain

# A learner renews its heartbeat every few seconds, also while it learns; after this long it is gone.
GONE_SECONDS = 60.0
# Impressions are sealed at the latest this long after their window has passed, unless something is wrong.
LATE_SECONDS = 600.0


@dataclass(frozen=True)
class Heartbeat:
    """What a learner says about itself; times are seconds since 1970.

    Attributes:
        learns: whether it learns, or only seals and watches.
        every: seconds between two of its steps.
        window: seconds after which impressions are sealed.
        restarts: how often it was started again after it had died.
        started_at: when it was started.
        seen_at: when it last said that it lives.
        stepped_at: when its last step ended; 0 before that.
        step_seconds: how long that took.
        steps: how many there were.
        failed: how many failed since the last that did not.
        error: why the last one failed.
    """

    learns: bool
    every: float
    window: float
    restarts: int
    started_at: float
    seen_at: float
    stepped_at: float = 0.0
    step_seconds: float = 0.0
    steps: int = 0
    failed: int = 0
    error: str = ""


@dataclass(frozen=True)
class Health:
    """Whether impressions are sealed and policies are watched.

    Attributes:
        heartbeat: of the last learner; None if there never was one.
        now: the time.
        oldest: the time of the first impression that is not sealed; None if all are.
    """

    heartbeat: Heartbeat | None
    now: float
    oldest: float | None

    @property
    def alive(self) -> bool:
        """Whether the learner said that it lives, a moment ago."""
        beat = self.heartbeat
        return beat is not None and self.now - beat.seen_at <= GONE_SECONDS + 3.0 * beat.every

    @property
    def seal_lag(self) -> float:
        """For how many seconds the oldest impression could have been sealed."""
        if self.oldest is None:
            return 0.0
        window = self.heartbeat.window if self.heartbeat is not None else 0.0
        return max(self.now - self.oldest - window, 0.0)

    @property
    def problems(self) -> list[str]:
        """What is wrong, and what to do, as sentences."""
        beat, found = self.heartbeat, []
        if beat is None:
            if self.seal_lag > LATE_SECONDS:
                found.append(
                    "nothing seals the log or watches what is live: start `rankloop serve` without "
                    "--no-upkeep, or `rankloop learn`"
                )
            return found
        if not self.alive:
            what = "learner" if beat.learns else "sealing process"
            found.append(
                f"the {what} was last seen at {_moment(beat.seen_at)}: nothing is sealed or watched; see its "
                f"log, and start it again (`rankloop learn`)"
            )
        elif beat.failed:
            found.append(f"the last {beat.failed} steps of the learner failed: {beat.error}")
        if self.alive and self.seal_lag > LATE_SECONDS:
            found.append(f"impressions wait to be sealed for {self.seal_lag:,.0f} s longer than their window")
        return found


def read_health(connection: Connection, now: float | None = None) -> Health:
    """Whether the learner of a store is alive."""
    try:
        stored = load_note(connection, HEARTBEAT)
        beat = None if stored is None else from_plain(Heartbeat, stored, "the heartbeat of a learner")
    except DataError:
        beat = None  # of another version
    first = (
        select(impressions.c.time).where(impressions.c.part.is_(None)).order_by(impressions.c.number).limit(1)
    )
    return Health(beat, time.time() if now is None else now, connection.scalar(first))


def save_heartbeat(connection: Connection, beat: Heartbeat) -> None:
    """Say that a learner lives."""
    save_note(connection, HEARTBEAT, to_plain(beat))


def _moment(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
