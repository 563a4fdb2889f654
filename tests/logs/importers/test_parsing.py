"""Parsing of single values."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import pytest

from rankloop.logs.importers.parsing import BadValueError, clicked, microseconds, score, text_id, whole

NOON = 1_714_564_800  # 2024-05-01T12:00:00Z


@pytest.mark.parametrize(
    "value",
    [
        NOON,
        str(NOON),
        NOON * 10**3,
        str(NOON * 10**3),
        NOON * 10**6,
        NOON * 10**9,
        float(NOON),
        "2024-05-01T12:00:00Z",
        "2024-05-01T12:00:00",
        "2024-05-01 14:00:00+02:00",
        " 2024-05-01T12:00:00.000Z ",
        Decimal(NOON),
        datetime(2024, 5, 1, 12),
        datetime(2024, 5, 1, 12, tzinfo=UTC),
        datetime(2024, 5, 1, 7, tzinfo=timezone(timedelta(hours=-5))),
    ],
)
def test_formats_of_a_time(value: Any) -> None:
    assert microseconds(value) == NOON * 10**6


def test_times_before_1970_and_fractions() -> None:
    assert microseconds("1969-12-31T23:59:59.999999Z") == -1
    assert microseconds("2024-05-01T12:00:00.000001Z") == NOON * 10**6 + 1
    assert microseconds(None) is None
    assert microseconds("") is None
    assert microseconds(date(2024, 5, 1)) == (NOON - 12 * 3600) * 10**6


@pytest.mark.parametrize("value", ["yesterday", "2024-13-01", True, [1], 0.5, float("nan"), 10**30])
def test_invalid_times(value: Any) -> None:
    with pytest.raises(BadValueError, match=r"^when is .*(expected ISO 8601|not between)"):
        microseconds(value, "when")


@pytest.mark.parametrize(
    ("value", "expected"), [("7", 7), (7, 7), (7.0, 7), ("-1", -1), ("7.0", 7), (Decimal("7.0"), 7)]
)
def test_whole_numbers(value: Any, expected: int) -> None:
    assert whole(value, "position") == expected


@pytest.mark.parametrize("value", ["x", "7.5", 7.5, True, [7], 10**9, "9999999999", float("nan"), "²"])
def test_numbers_that_are_not_whole(value: Any) -> None:
    with pytest.raises(BadValueError, match=r"^position is .*; expected a whole number"):
        whole(value, "position")


@pytest.mark.parametrize("value", [None, ""])
def test_missing_values_are_reported_as_missing(value: Any) -> None:
    for read in (whole, text_id, clicked):
        with pytest.raises(BadValueError, match=r"^no this"):
            read(value, "this")


def test_ids() -> None:
    assert text_id("007", "id") == "007"
    assert text_id(7, "id") == text_id(Decimal("7"), "id") == "7"
    assert text_id("müsli 😀", "id") == "müsli 😀"
    for value in (7.5, True, ["a"], {"a": 1}, Decimal("7.5"), Decimal("NaN"), b"a"):
        with pytest.raises(BadValueError, match=r"^id is .*; expected text or a whole number"):
            text_id(value, "id")


def test_half_a_character_is_not_an_id() -> None:
    """JSON can spell it, as programs do that cut text; no file can hold it."""
    with pytest.raises(BadValueError, match=r"^id is 'abc.ud83d', which ends within a character"):
        text_id("abc\ud83d", "id")


def test_long_values_are_shortened_in_messages() -> None:
    with pytest.raises(BadValueError, match=r"…; expected") as raised:
        text_id(["a" * 1000], "id")
    assert len(str(raised.value)) < 120


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (True, True),
        ("1", True),
        (3, True),
        ("yes", True),
        ("TRUE", True),
        ("0", False),
        (0.0, False),
        ("no", False),
    ],
)
def test_clicks(value: Any, expected: bool) -> None:
    assert clicked(value) is expected


@pytest.mark.parametrize("value", ["maybe", -1, "0.5", [1]])
def test_invalid_clicks(value: Any) -> None:
    with pytest.raises(BadValueError, match="expected true, false or a number of clicks"):
        clicked(value)


def test_scores() -> None:
    assert score("0.25") == 0.25
    assert score("-inf") == score(float("-inf")) == float("-inf")
    assert score(0.25) == score(Decimal("0.25")) == 0.25
    for value in (float("nan"), float("inf"), "high", None, True, 10**400):
        with pytest.raises(BadValueError, match="expected a finite number, or -inf"):
            score(value)
