"""What the problems of a source suggest about its ids."""

from __future__ import annotations

from rankloop.logs.problems import ProblemCounter

# The share of impressions with a problem from which on it is no accident.
SUSPICIOUS = 0.05


def describe_ids(found: ProblemCounter, impressions: int) -> tuple[str, ...]:
    """Say what ids that hold several searches look like, and what to do about it.

    Args:
        found: the problems.
        impressions: the number of impressions in the source.
    """
    mixed, repeated = found.count("mixed_impressions"), found.count("repeated_positions")
    hints = []
    if mixed > SUSPICIOUS * impressions:
        hints.append(
            f"{mixed:,} of {impressions:,} impression ids hold several queries or policies: this looks like "
            f"a session id. Make the impression id of several columns, as in --impression "
            f"session_id,query,timestamp."
        )
    if repeated > SUSPICIOUS * impressions:
        hints.append(
            f"{repeated:,} of {impressions:,} impression ids show two documents at one position: this looks "
            f"like an id that several searches or pages share. Add what tells them apart, such as the time "
            f"or the page, as in --impression session_id,query,timestamp."
        )
    conflicts = found.count("conflicting_impressions")
    if conflicts > SUSPICIOUS * impressions:
        hints.append(
            f"{conflicts:,} impression ids are in the log already with other content: every file seems to "
            f"count its ids from the beginning. Add what tells the files apart, such as the day, as in "
            f"--impression day,impression_id."
        )
    return tuple(hints)
