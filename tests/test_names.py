"""A name reads back as it was written, and a bad one is refused where it goes wrong."""

from __future__ import annotations

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rankloop import names
from rankloop.errors import RankloopError
from rankloop.names import BadNameError, Name, arguments, parse

WORDS = st.from_regex(r"[A-Za-z][A-Za-z0-9_-]{0,8}", fullmatch=True)
VALUES = st.text(st.characters(exclude_categories=["C", "Z"], exclude_characters=",()="), min_size=1)
NAMES = st.builds(
    Name,
    WORDS,
    st.none() | st.integers(1, 10**9),
    st.dictionaries(WORDS, VALUES, max_size=3).map(lambda options: tuple(options.items())),
)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("mrr", Name("mrr")),
        ("ndcg@5", Name("ndcg", 5)),
        ("mlp(hidden=32-32)", Name("mlp", None, (("hidden", "32-32"),))),
        ("ndcg@10(gain=exponential)", Name("ndcg", 10, (("gain", "exponential"),))),
        ("sgd(clip=off, rate=1e-3)", Name("sgd", None, (("clip", "off"), ("rate", "1e-3")))),
    ],
)
def test_canonical_spelling_reads_and_writes(text: str, name: Name) -> None:
    assert parse(text) == name
    assert str(name) == text


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("  mrr ", "mrr"),
        ("mlp()", "mlp"),
        ("ndcg @ 5 ( gain = linear )", "ndcg@5(gain=linear)"),
        ("sgd(rate=1,clip=off)", "sgd(clip=off, rate=1)"),
    ],
)
def test_other_spellings_become_canonical(text: str, canonical: str) -> None:
    assert str(parse(text)) == canonical


@given(NAMES)
def test_round_trip(name: Name) -> None:
    assert parse(str(name)) == name


@given(st.text("ab@(=,) 012-", max_size=12))
def test_any_text_is_read_or_refused_and_what_is_read_is_stable(text: str) -> None:
    try:
        name = parse(text)
    except BadNameError:
        return
    assert parse(str(name)) == name


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "expected a name that starts with a letter at character 1, it ends there"),
        ("5", "expected a name that starts with a letter at character 1, found '5'"),
        ("ndcg@", "expected a cut-off (a whole number from 1) at character 6, it ends there"),
        ("ndcg@0", "expected a cut-off (a whole number from 1) at character 6, found '0'"),
        ("ndcg@-1", "expected a cut-off (a whole number from 1) at character 6, found '-'"),
        ("ndcg5@5 x", "expected '(' or the end at character 9, found 'x'"),
        ("ndcg!", "expected '@', '(' or the end at character 5, found '!'"),
        ("mlp(", "expected an option's name or ')' at character 5, it ends there"),
        ("mlp(hidden)", "expected '=' and a value for the option 'hidden' at character 11, found ')'"),
        ("mlp(hidden=)", "expected a value for the option 'hidden' at character 12, found ')'"),
        ("mlp(a=1 b=2)", "expected ',' or ')' at character 9, found 'b'"),
        ("mlp(a=1,)", "expected an option's name at character 9, found ')'"),
        ("mlp(a=1)@5", "expected the end at character 9, found '@'"),
        ("mlp(a=1, a=2)", "it gives the option 'a' more than once"),
    ],
)
def test_errors_say_what_was_expected_and_where(text: str, message: str) -> None:
    with pytest.raises(BadNameError) as caught:
        parse(text)
    assert str(caught.value) == f"cannot read {text!r}: {message}"
    assert isinstance(caught.value, RankloopError)


def test_unknown_names_come_with_the_nearest() -> None:
    with pytest.raises(BadNameError, match=r"unknown estimator 'afine', did you mean 'affine'\?"):
        parse("afine(clip=off)", known=("affine", "naive"), kind="estimator")
    with pytest.raises(BadNameError, match="unknown name 'zzz'; there are: affine, naive"):
        parse("zzz", known=("naive", "affine"))


def test_known_names_pass() -> None:
    assert parse("affine", known=("affine", "naive")) == Name("affine")


@pytest.mark.parametrize(
    "make",
    [
        lambda: Name("5a"),
        lambda: Name("a", 0),
        lambda: Name("a", None, (("b", "c d"),)),
        lambda: Name("a", None, (("b", ""),)),
        lambda: Name("a", None, (("b c", "d"),)),
        lambda: Name("a", None, (("b", "1"), ("b", "2"))),
    ],
)
def test_a_name_that_cannot_be_written_cannot_be_made(make: object) -> None:
    with pytest.raises(BadNameError):
        make()  # type: ignore[operator]


def test_names_are_values() -> None:
    a, b = parse("x(b=1, a=2)"), parse("x(a=2, b=1)")
    assert a == b
    assert len({a, b}) == 1
    assert pickle.loads(pickle.dumps(a)) == a


def test_arguments_are_converted_by_their_readers() -> None:
    name = parse("model(rate=1e-2, layers=3, bias=off, kind=deep, hidden=32-16)")
    readers = {
        "rate": names.number,
        "layers": names.integer,
        "bias": names.switch,
        "kind": names.one_of("deep", "flat"),
        "hidden": lambda text: [int(width) for width in text.split("-")],
        "unused": str,
    }
    assert arguments(name, readers) == {
        "rate": 0.01,
        "layers": 3,
        "bias": False,
        "kind": "deep",
        "hidden": [32, 16],
    }


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("m(rate=x)", r"option 'rate' of 'm\(rate=x\)': expected a number, got 'x'"),
        ("m(rate=nan)", "expected a finite number, got 'nan'"),
        ("m(layers=1.5)", "expected a whole number, got '1.5'"),
        ("m(bias=true)", "expected 'on' or 'off', got 'true'"),
        ("m(kind=dep)", "unknown value 'dep', did you mean 'deep'"),
        ("m(ratte=1)", r"unknown option of 'm' 'ratte', did you mean 'rate'\?"),
    ],
)
def test_arguments_that_do_not_fit_are_refused(text: str, message: str) -> None:
    readers = {
        "rate": names.number,
        "layers": names.integer,
        "bias": names.switch,
        "kind": names.one_of("deep", "flat"),
    }
    with pytest.raises(BadNameError, match=message):
        arguments(parse(text), readers)


def test_a_name_that_takes_no_options_says_so() -> None:
    with pytest.raises(BadNameError, match="unknown option of 'naive' 'clip'; there are: none"):
        arguments(parse("naive(clip=off)"), {})


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_spelt_numbers_read_back_exactly(value: float) -> None:
    assert names.number(names.spell(value)) == value


@given(st.booleans())
def test_spelt_switches_read_back(value: bool) -> None:
    assert names.switch(names.spell(value)) is value
