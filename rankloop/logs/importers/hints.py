"""What the problems of a source suggest about it."""

from __future__ import annotations

from rankloop.logs.problems import ProblemCounter

# The share of impressions with a problem from which on it is no accident.
SUSPICIOUS = 0.05
# The share of clicked rows from which on nothing else was logged, and the number of rows that it takes.
NEARLY_ALL = 0.95
ENOUGH = 20
NOT_UTF8 = "not UTF-8"


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


def describe_source(found: ProblemCounter, rows: int, clicks: int) -> tuple[str, ...]:
    """Say what text in another encoding, and rows that are all clicked, look like.

    Args:
        found: the problems.
        rows: the number of rows of the log.
        clicks: the number of them that are clicked.
    """
    hints = []
    examples = [example for problem in found.problems() for example in problem.examples]
    if any(example.endswith(NOT_UTF8) for example in examples):
        hints.append(
            "Some text is not UTF-8. If it was written on Windows, convert it: iconv -f WINDOWS-1252 -t "
            "UTF-8 FILE > CONVERTED."
        )
    if rows >= ENOUGH and clicks >= NEARLY_ALL * rows:
        hints.append(
            f"{clicks:,} of {rows:,} rows are clicked: only clicks seem to have been logged, and nothing can "
            f"be learned without what was shown and not clicked. If there is a table of that, import it, and "
            f"this one as --clicks TABLE."
        )
    return tuple(hints)
