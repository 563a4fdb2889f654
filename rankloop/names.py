"""Names are values: one spelling in Python, on the command line, in figures and in results.

    name   name@cutoff   name(option=value, …)   name@cutoff(option=value, …)

``ndcg@5(gain=exponential)``, ``adam(rate=0.01)`` and ``mlp(hidden=32-32)`` are such names. Reading one gives
a `Name`, and ``str`` of it gives the canonical spelling back. Nothing in a name is ever evaluated as code.
`rankloop.registry` has the names that exist, and their values. The options of a name are the fields of the
dataclass of its value, read and spelled by their annotations:

| annotation | in a name |
|---|---|
| ``int``, ``float``, ``str`` | ``5``, ``0.01``, ``sigmoid`` |
| ``bool`` | ``on``, ``off`` |
| ``Literal["all", "query"]`` | one of these words |
| ``tuple[int, ...]`` | ``64-32`` |
| ``tuple[float, ...]``, ``tuple[str, ...]`` | ``0.35:0.53`` |
| ``X | None`` | ``none``, or as X |
| ``float | Literal["paper", "off"]`` | one of the words, or a number |
| ``Annotated[X, Option(...)]`` | as the `Option` says, and as X for the rest |
"""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import MISSING, Field, dataclass, fields, replace
from functools import cache
from types import MappingProxyType, NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from rankloop.errors import RankloopError

_WORD = re.compile(r"[A-Za-z][A-Za-z0-9_-]*")
_CUTOFF = re.compile(r"[1-9][0-9]*")
_VALUE = re.compile(r"[^\s,()=]+")
_SPACES = re.compile(r"\s*")

# Above this, neighbouring whole numbers share one float, so such floats are written with their exponent.
_EXACT_WHOLE = 2.0**53

Read = Callable[[str], Any]
Spell = Callable[[Any], str]

NONE = "none"
# The default of an option that has none: the name must give a value.
REQUIRED = object()
# Between the elements of a list. Comma and space separate options, and a minus may start a number; whole
# numbers in lists are sizes, which have no sign.
SEPARATOR, INTEGER_SEPARATOR = ":", "-"


class BadNameError(RankloopError):
    """A name cannot be read, is not known, or has unsuitable options."""


class UnknownNameError(BadNameError):
    """No registered class has this name: it is misspelt, or the class that has it is not registered."""


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
        rankloop.names.UnknownNameError: unknown metric 'ndgc', did you mean 'ndcg'? There are: dcg, ndcg
    """
    reader = _Reader(text)
    name = reader.take(_WORD, "a name that starts with a letter")
    if known is not None and name not in known:
        raise UnknownNameError(str(unknown(kind, name, known)))
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


_READERS: Mapping[Any, Read] = {bool: switch, int: integer, float: number, str: str}


def _underived(_: Any) -> Any:
    raise NotImplementedError("an Option reads and writes once options_of has completed it")


@dataclass(frozen=True)
class Option:
    """Reads and writes one field; as metadata of an ``Annotated`` field, it overrides that of its type.

    Attributes:
        read: from the text of a value to the value; ValueError refuses it.
        spell: from the value to its text.
        always: write the option even at its default.
        default: of the field, or `REQUIRED`; taken from the field.

    Example:
        >>> @dataclass(frozen=True)
        ... class Network:
        ...     hidden: tuple[int, ...] = (32, 32)
        ...     rate: Annotated[float, Option(always=True)] = 0.01
        >>> hidden, rate = options_of(Network).values()
        >>> hidden.read("64-32"), hidden.spell((64, 32)), rate.always
        ((64, 32), '64-32', True)
    """

    read: Read = _underived
    spell: Spell = _underived
    always: bool = False
    default: Any = REQUIRED


def options_of(cls: type[Any]) -> Mapping[str, Option]:
    """The options of a dataclass by field, complete with readers and defaults.

    Raises:
        BadNameError: the annotation of a field is none of those that the table above lists.
    """
    return _options_of(cls)  # type: ignore[arg-type]  # classes are hashable, type[Any] is not known to be


@cache
def _options_of(cls: type[Any]) -> Mapping[str, Option]:
    found = [field for field in fields(cls) if field.init]
    try:
        hints = get_type_hints(cls, include_extras=True) if found else {}
    except NameError as error:
        raise BadNameError(
            f"the annotations of {cls.__qualname__} cannot be resolved: {error}. Import the types that they "
            "use at the top of the module, not under TYPE_CHECKING"
        ) from error
    return MappingProxyType({field.name: _option(cls, field, hints[field.name]) for field in found})


def _option(cls: type[Any], field: Field[Any], annotation: Any) -> Option:
    given = Option()
    if get_origin(annotation) is Annotated:
        annotation, *metadata = get_args(annotation)
        given = next((extra for extra in metadata if isinstance(extra, Option)), given)
    default = field.default if field.default_factory is MISSING else field.default_factory()
    option = replace(given, default=REQUIRED if default is MISSING else default)
    if _underived not in (option.read, option.spell):
        return option
    try:
        read, spell = _derive(annotation)
    except BadNameError as error:
        raise BadNameError(f"field {field.name!r} of {cls.__qualname__}: {error}") from error
    return replace(
        option,
        read=read if option.read is _underived else option.read,
        spell=spell if option.spell is _underived else option.spell,
    )


def _derive(annotation: Any) -> tuple[Read, Spell]:
    """The reader and the speller of values of a type."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if annotation in _READERS:
        return _READERS[annotation], spell
    if origin is Literal and all(isinstance(word, str) for word in arguments):
        return one_of(*arguments), spell
    if origin is Sequence or (origin is tuple and arguments[1:] == (...,)):
        return _derive_list(arguments[0])
    if origin in (Union, UnionType):
        return _derive_union(arguments)
    raise BadNameError(
        f"{annotation!r} cannot be read from a name: use int, float, bool, str, Literal[…], tuple[X, ...] or "
        "a union of them, or Annotated[…, Option(read=…, spell=…)]"
    )


def _derive_list(element: Any) -> tuple[Read, Spell]:
    read, spell = _derive(element)
    separator = INTEGER_SEPARATOR if element is int else SEPARATOR
    return (
        lambda text: tuple(read(part) for part in text.split(separator)),
        lambda values: separator.join(map(spell, values)),
    )


def _derive_union(members: Sequence[Any]) -> tuple[Read, Spell]:
    """Words first, then the other members in their order; ``None`` is a word too."""
    words: dict[str, str | None] = {}
    readers: list[Read] = []
    spell_list: Spell = str
    for member in members:
        if member is NoneType:
            words[NONE] = None
        elif get_origin(member) is Literal:
            words |= {word: word for word in get_args(member)}
        else:
            read_member, spell_member = _derive(member)
            readers.append(read_member)
            spell_list = spell_member if get_origin(member) in (tuple, Sequence) else spell_list

    def read(text: str) -> Any:
        if text in words:
            return words[text]
        errors = [unknown("value", text, words)] if not readers else []
        for read_member in readers:
            try:
                return read_member(text)
            except ValueError as error:
                errors.append(BadNameError(str(error)))
        hint = f"; or write {' or '.join(words)}" if words and readers else ""
        raise BadNameError("; ".join(map(str, errors)) + hint)

    def spell_any(value: Any) -> str:
        if value is None:
            return NONE
        return spell_list(value) if isinstance(value, tuple) else spell(value)

    return read, spell_any
