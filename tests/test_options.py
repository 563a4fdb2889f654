"""Options are read and written as the annotations of the fields say."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, make_dataclass
from typing import Annotated, Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rankloop.names import REQUIRED, BadNameError, Option, integer, one_of, options_of

Clip = float | Literal["paper", "off"]


def option(annotation: Any) -> Option:
    return options_of(make_dataclass("Holder", [("field", annotation)]))["field"]


@pytest.mark.parametrize(
    ("annotation", "text", "value"),
    [
        (int, "12", 12),
        (float, "0.5", 0.5),
        (bool, "on", True),
        (str, "sigmoid", "sigmoid"),
        (Literal["all", "query"], "query", "query"),
        (tuple[int, ...], "64-32", (64, 32)),
        (tuple[float, ...], "0.35:-1:1e-05", (0.35, -1.0, 1e-05)),
        (Sequence[float], "0.5", (0.5,)),
        (tuple[str, ...], "a:b", ("a", "b")),
        (int | None, "none", None),
        (int | None, "3", 3),
        (tuple[int, ...] | None, "3-4", (3, 4)),
        (tuple[int, ...] | None, "none", None),
        (Literal["a", "b"] | None, "b", "b"),
        (Clip, "paper", "paper"),
        (Clip, "0.01", 0.01),
        (int | float, "2", 2),
        (int | float, "2.5", 2.5),
    ],
)
def test_text_and_value_are_one(annotation: Any, text: str, value: object) -> None:
    read = option(annotation).read(text)
    assert read == value
    assert type(read) is type(value)
    assert option(annotation).spell(value) == text


@given(st.floats(allow_nan=False, allow_infinity=False) | st.sampled_from(["paper", "off"]))
def test_unions_of_words_and_numbers_read_back(value: float | str) -> None:
    assert option(Clip).read(option(Clip).spell(value)) == value


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1).map(tuple))
def test_lists_of_numbers_read_back(values: tuple[float, ...]) -> None:
    assert option(tuple[float, ...]).read(option(tuple[float, ...]).spell(values)) == values


@pytest.mark.parametrize(
    ("annotation", "text", "message"),
    [
        (int, "1.5", "expected a whole number, got '1.5'"),
        (float, "nan", "expected a finite number, got 'nan'"),
        (bool, "true", "expected 'on' or 'off', got 'true'"),
        (Literal["all", "query"], "queri", "unknown value 'queri', did you mean 'query'"),
        (tuple[int, ...], "64-", "expected a whole number, got ''"),
        (Clip, "Paper", "expected a number, got 'Paper'; or write paper or off"),
        (int | None, "x", "expected a whole number, got 'x'; or write none"),
        (Literal["a"] | None, "c", "unknown value 'c'; there are: a, none"),
        (int | float, "x", "expected a whole number, got 'x'; expected a number, got 'x'"),
    ],
)
def test_what_cannot_be_read_is_refused(annotation: Any, text: str, message: str) -> None:
    with pytest.raises(BadNameError, match=f"^{message}"):
        option(annotation).read(text)


def test_metadata_replaces_what_it_gives_and_no_more() -> None:
    chosen = option(Annotated[str, Option(read=one_of("deep", "flat"))])
    assert chosen.read("deep") == "deep"
    assert chosen.spell("deep") == "deep"
    with pytest.raises(BadNameError, match="did you mean 'deep'"):
        chosen.read("dep")
    hexadecimal = option(Annotated[object, Option(read=lambda text: int(text, 16), spell=hex)])
    assert (hexadecimal.read("0xff"), hexadecimal.spell(255)) == (255, "0xff")
    always = option(Annotated[int, "a note for other tools", Option(always=True)])
    assert always.always
    assert always.read is integer


def test_defaults_come_from_the_fields() -> None:
    @dataclass(frozen=True)
    class Holder:
        required: int
        plain: int = 3
        made: tuple[int, ...] = field(default_factory=lambda: (1, 2))
        derived: int = field(init=False, default=0)

    found = options_of(Holder)
    assert {name: each.default for name, each in found.items()} == {
        "required": REQUIRED,
        "plain": 3,
        "made": (1, 2),
    }


@pytest.mark.parametrize(
    "annotation", [dict[str, int], object, tuple[int, str], Literal[1, 2], int | list[int]]
)
def test_types_without_a_spelling_are_refused(annotation: Any) -> None:
    with pytest.raises(BadNameError, match=r"field 'field' of Holder: .* cannot be read from a name"):
        option(annotation)


def test_annotations_that_cannot_be_resolved_are_refused() -> None:
    holder = make_dataclass("Holder", [("field", "NoSuchType")])
    with pytest.raises(BadNameError, match="annotations of Holder cannot be resolved: name 'NoSuchType'"):
        options_of(holder)
