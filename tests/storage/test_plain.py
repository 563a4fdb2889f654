"""Plain values: what is written as JSON is read back, or refused with the name of the field."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, NamedTuple

import numpy as np
import pytest

from rankloop.errors import DataError
from rankloop.storage.plain import from_plain, plain_fields, to_json, to_plain


class Colour(StrEnum):
    RED = "red"
    BLUE = "blue"


class Interval(NamedTuple):
    low: float
    high: float


@dataclass(frozen=True)
class Part:
    name: str
    count: int
    share: float
    kept: bool = True


@dataclass(frozen=True)
class Whole:
    kind: ClassVar[str] = "whole"
    plain_properties: ClassVar[tuple[str, ...]] = ("kind", "total")

    parts: tuple[Part, ...]
    gain: Interval
    colour: Colour
    log: Path
    begun: datetime | None
    below: Mapping[float, float]
    curve: list[float]
    pair: tuple[int, str]
    times: int | Literal["all"]
    level: Annotated[float, "a share"]
    names: Sequence[str] = ()
    more: dict[str, Any] = field(default_factory=dict)

    @property
    def total(self) -> int:
        return sum(part.count for part in self.parts)


WHOLE = Whole(
    parts=(Part("a", 2, 0.5), Part("b", 3, 1e-300, kept=False)),
    gain=Interval(-0.25, 0.5),
    colour=Colour.BLUE,
    log=Path("a log"),
    begun=datetime(2026, 3, 29, 2, 30, tzinfo=UTC),
    below={0.1: 0.5, 1e-05: 0.0},
    curve=[1.0, 0.5],
    pair=(3, "three"),
    times="all",
    level=1.0,
    names=("ä", 'a "b"\n'),
    more={"n": None, "list": [1, [2]]},
)


def plain() -> dict[str, Any]:
    content: dict[str, Any] = json.loads(to_json(WHOLE))
    return content


def test_what_is_written_is_read_back() -> None:
    assert from_plain(Whole, plain()) == WHOLE
    assert from_plain(Whole, to_plain(WHOLE)) == WHOLE


def test_the_plain_form_has_fields_by_name_and_the_properties_of_the_class() -> None:
    content = plain()
    assert (content["kind"], content["total"]) == ("whole", 5)
    assert content["gain"] == {"low": -0.25, "high": 0.5}
    assert (content["begun"], content["colour"]) == ("2026-03-29T02:30:00+00:00", "blue")
    assert content["below"] == {"0.1": 0.5, "1e-05": 0.0}


def test_arrays_and_numbers_of_numpy_are_plain() -> None:
    value = {"a": np.array([[1.0, np.nan]]), "b": np.int64(3), "c": np.bool_(True), "d": np.float64(0.5)}
    assert to_json(value) == json.dumps({"a": [[1.0, None]], "b": 3, "c": True, "d": 0.5}, indent=2)


def test_there_is_no_nan_in_json_and_null_is_read_as_one() -> None:
    stored = json.loads(to_json(Part("a", 1, math.inf)))
    assert stored["share"] is None
    assert math.isnan(from_plain(Part, stored).share)


def test_a_class_may_have_a_plain_form_of_its_own() -> None:
    class Sentence(str):
        __slots__ = ()

        def to_dict(self) -> dict[str, Any]:
            return {"text": str(self)}

    @dataclass
    class Fields:
        value: float

        def to_dict(self) -> dict[str, Any]:
            return {"more": 1, **plain_fields(self)}

    assert to_plain([Sentence("x"), Fields(math.nan)]) == [{"text": "x"}, {"more": 1, "value": None}]


def test_what_has_no_plain_form_is_refused() -> None:
    with pytest.raises(TypeError, match="object has no plain form"):
        to_plain({"a": object()})


@pytest.mark.parametrize(
    ("name", "wrong", "message"),
    [
        ("colour", "green", "x.json: colour: 'green' is not a valid Colour"),
        ("begun", "yesterday", "x.json: begun: "),
        ("log", 3, "x.json: log: "),
        ("times", "some", "x.json: times: expected "),
        ("pair", [3], "x.json: pair: expected a list of 2, got "),
        ("parts", {}, "x.json: parts: expected a list, got {}"),
        ("parts", [None], "x.json: parts.0: expected an object, got None"),
        ("below", {"0.1": "most"}, "x.json: below.0.1: expected a number, got 'most'"),
        ("curve", [True], "x.json: curve.0: expected a number, got True"),
        ("gain", {"low": 0.0}, "x.json: gain: Interval has no 'high'"),
        ("gain", {"low": 0.0, "high": 1.0, "middle": 0.5}, "gain: Interval has the unknown 'middle'"),
    ],
)
def test_wrong_content_names_the_file_and_the_field(name: str, wrong: object, message: str) -> None:
    with pytest.raises(DataError) as refused:
        from_plain(Whole, {**plain(), name: wrong}, where="x.json")
    assert message in str(refused.value)


@pytest.mark.parametrize("wrong", [1.0, True, "1", None, [1]])
def test_a_whole_number_is_nothing_else(wrong: object) -> None:
    with pytest.raises(DataError, match="count: expected a whole number, got "):
        from_plain(Part, {"name": "a", "count": wrong, "share": 0.5, "kept": True})


def test_a_key_that_is_no_number_is_refused() -> None:
    with pytest.raises(DataError, match="below: "):
        from_plain(Whole, {**plain(), "below": {"most": 0.5}})
