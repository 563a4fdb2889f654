"""Names are values: one spelling in Python, on the command line, in figures and in results.

    name   name@cutoff   name(option=value, …)   name@cutoff(option=value, …)

``ndcg@5(gain=exponential)``, ``adam(rate=0.01)`` and ``mlp(hidden=32-32)`` are such names. Reading one gives
a `Name`, and ``str`` of it gives the canonical spelling back. Nothing in a name is ever evaluated as code.
`rankloop.registry` has the names that exist, and their values.
"""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

from rankloop.errors import RankloopError

_WORD = re.compile(r"[A-Za-z][A-Za-z0-9_-]*")
_CUTOFF = re.compile(r"[1-9][0-9]*")
_VALUE = re.compile(r"[^\s,()=]+")
_SPACES = re.compile(r"\s*")

# Above this, neighbouring whole numbers share one float, so such floats are written with their exponent.
_EXACT_WHOLE = 2.0**53


class BadNameError(RankloopError):
    """A name cannot be read, is not known, or has unsuitable options."""


@dataclass(frozen=True)
class Name:
    """A name that has been read.

    Attributes:
        name: the word in front.
        cutoff: the whole number after ``@``, at least 1, or None.
        options: (option, value) pairs, values as they were written; kept sorted by option, so that names
            that differ only in the order of their options are equal.

    Example:
        >>> Name("adam", options=(("rate", "0.01"), ("clip", "off")))
        Name(name='adam', cutoff=None, options=(('clip', 'off'), ('rate', '0.01')))
        >>> str(Name("ndcg", 5))
        'ndcg@5'
    """

    name: str
    cutoff: int | None = None
    options: tuple[tuple[str, str], ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "options", tuple(sorted(self.options)))
        check_word(self.name)
        if self.cutoff is not None:
            _fit(_CUTOFF, str(self.cutoff), "a cut-off")
        for option, value in self.options:
            _fit(_WORD, option, "an option")
            _fit(_VALUE, value, f"a value (of {option!r})")
        options = [option for option, _ in self.options]
        for option in options:
            if options.count(option) > 1:
                raise BadNameError(f"{self.name!r} gives the option {option!r} more than once")

    def __str__(self) -> str:
        cutoff = "" if self.cutoff is None else f"@{self.cutoff}"
        options = ", ".join(f"{option}={value}" for option, value in self.options)
        return self.name + cutoff + (f"({options})" if options else "")


def parse(text: str, known: Collection[str] | None = None, *, kind: str = "name") -> Name:
    """Read a name; spaces between its parts do not matter.

    Args:
        text: what was written.
        known: the names that exist; any other is refused, and the nearest are suggested. None accepts all.
        kind: what is being named, for the message: "metric", "estimator", …

    Example:
        >>> parse("ndcg@5(gain=exponential)")
        Name(name='ndcg', cutoff=5, options=(('gain', 'exponential'),))
        >>> str(parse(" sgd ( rate=0.1,clip = off )"))
        'sgd(clip=off, rate=0.1)'
        >>> parse("ndgc@5", known=["dcg", "ndcg"], kind="metric")
        Traceback (most recent call last):
            ...
        rankloop.names.BadNameError: unknown metric 'ndgc', did you mean 'ndcg'? There are: dcg, ndcg
    """
    reader = _Reader(text)
    name = reader.take(_WORD, "a name that starts with a letter")
    if known is not None and name not in known:
        raise unknown(kind, name, known)
    cutoff = None
    expected = "'@', '(' or the end"
    if reader.accept("@"):
        cutoff = int(reader.take(_CUTOFF, "a cut-off (a whole number from 1)"))
        expected = "'(' or the end"
    options: dict[str, str] = {}
    if reader.accept("("):
        expected = "the end"
        while not reader.accept(")"):
            if options and not reader.accept(","):
                raise reader.error("',' or ')'")
            option = reader.take(_WORD, "an option's name" if options else "an option's name or ')'")
            if option in options:
                raise BadNameError(f"cannot read {text!r}: it gives the option {option!r} more than once")
            if not reader.accept("="):
                raise reader.error(f"'=' and a value for the option {option!r}")
            options[option] = reader.take(_VALUE, f"a value for the option {option!r}")
    if not reader.at_end():
        raise reader.error(expected)
    return Name(name, cutoff, tuple(options.items()))


def arguments(name: Name, readers: Mapping[str, Callable[[str], Any]]) -> dict[str, Any]:
    """The options of a name as keyword arguments, each read by the reader of its option.

    A reader takes the text of a value and returns the value, or raises ValueError: `integer`, `number`,
    `switch`, `one_of`, ``str``, or a function of your own.

    Example:
        >>> arguments(parse("adam(rate=0.01, average=on)"), {"rate": number, "average": switch})
        {'average': True, 'rate': 0.01}
        >>> arguments(parse("adam(rate=fast)"), {"rate": number})
        Traceback (most recent call last):
            ...
        rankloop.names.BadNameError: option 'rate' of 'adam(rate=fast)': expected a number, got 'fast'
    """
    values = {}
    for option, value in name.options:
        if option not in readers:
            raise unknown(f"option of {name.name!r}", option, readers)
        try:
            values[option] = readers[option](value)
        except ValueError as error:
            raise BadNameError(f"option {option!r} of {str(name)!r}: {error}") from error
    return values


def integer(text: str) -> int:
    """Read a whole number.

    >>> integer("12")
    12
    """
    try:
        return int(text)
    except ValueError:
        raise BadNameError(f"expected a whole number, got {text!r}") from None


def number(text: str) -> float:
    """Read a finite number.

    >>> number("1e-3")
    0.001
    """
    try:
        value = float(text)
    except ValueError:
        raise BadNameError(f"expected a number, got {text!r}") from None
    if not math.isfinite(value):
        raise BadNameError(f"expected a finite number, got {text!r}")
    return value


def switch(text: str) -> bool:
    """Read ``on`` or ``off``.

    >>> switch("off")
    False
    """
    if text not in ("on", "off"):
        raise BadNameError(f"expected 'on' or 'off', got {text!r}")
    return text == "on"


def one_of(*choices: str) -> Callable[[str], str]:
    """A reader that accepts these words only.

    >>> one_of("linear", "exponential")("linear")
    'linear'
    """

    def read(text: str) -> str:
        if text not in choices:
            raise unknown("value", text, choices)
        return text

    return read


def spell(value: bool | int | float | str) -> str:
    """Format a value for a name; the readers read it back.

    >>> [spell(value) for value in (True, 5, 4.0, 0.01, "linear")]
    ['on', '5', '4', '0.01', 'linear']
    """
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, float) and value.is_integer() and abs(value) < _EXACT_WHOLE:
        return str(int(value))
    return str(value)


def unknown(kind: str, word: str, known: Collection[str]) -> BadNameError:
    """The error for a word that is not known; it suggests the nearest known words.

    >>> print(unknown("metric", "NDCG", ["dcg", "mrr", "ndcg"]))
    unknown metric 'NDCG', did you mean 'ndcg' or 'dcg'? There are: dcg, mrr, ndcg
    """
    near = difflib.get_close_matches(word.lower(), sorted(known), n=2)
    hint = f", did you mean {' or '.join(map(repr, near))}? There are" if near else "; there are"
    return BadNameError(f"unknown {kind} {word!r}{hint}: {', '.join(sorted(known)) or 'none'}")


def check_word(text: str) -> None:
    """Refuse a text that cannot be the word in front of a name.

    >>> check_word("2nd")
    Traceback (most recent call last):
        ...
    rankloop.names.BadNameError: '2nd' cannot be written as a name: it must match [A-Za-z][A-Za-z0-9_-]*
    """
    _fit(_WORD, text, "a name")


def _fit(pattern: re.Pattern[str], text: str, what: str) -> None:
    if not pattern.fullmatch(text):
        raise BadNameError(f"{text!r} cannot be written as {what}: it must match {pattern.pattern}")


class _Reader:
    """A text and the position up to which it has been read."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self._skip_spaces()

    def take(self, pattern: re.Pattern[str], expected: str) -> str:
        found = pattern.match(self.text, self.at)
        if found is None:
            raise self.error(expected)
        self._move(found.end())
        return found.group()

    def accept(self, symbol: str) -> bool:
        if not self.text.startswith(symbol, self.at):
            return False
        self._move(self.at + len(symbol))
        return True

    def at_end(self) -> bool:
        return self.at == len(self.text)

    def error(self, expected: str) -> BadNameError:
        found = "it ends there" if self.at_end() else f"found {self.text[self.at]!r}"
        return BadNameError(
            f"cannot read {self.text!r}: expected {expected} at character {self.at + 1}, {found}"
        )

    def _move(self, to: int) -> None:
        self.at = to
        self._skip_spaces()

    def _skip_spaces(self) -> None:
        spaces = _SPACES.match(self.text, self.at)
        assert spaces is not None  # a pattern that may be empty always matches
        self.at = spaces.end()
