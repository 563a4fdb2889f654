"""Options of a name ↔ fields of a dataclass.

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

from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, Field, dataclass, fields, replace
from functools import cache
from types import MappingProxyType, NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from rankloop import names
from rankloop.names import BadNameError

Read = Callable[[str], Any]
Spell = Callable[[Any], str]

NONE = "none"
# The default of an option that has none: the name must give a value.
REQUIRED = object()
# Between the elements of a list. Comma and space separate options, and a minus may start a number; whole
# numbers in lists are sizes, which have no sign.
SEPARATOR, INTEGER_SEPARATOR = ":", "-"

_READERS: Mapping[Any, Read] = {bool: names.switch, int: names.integer, float: names.number, str: str}


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
        return _READERS[annotation], names.spell
    if origin is Literal and all(isinstance(word, str) for word in arguments):
        return names.one_of(*arguments), names.spell
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
        errors = [names.unknown("value", text, words)] if not readers else []
        for read_member in readers:
            try:
                return read_member(text)
            except ValueError as error:
                errors.append(BadNameError(str(error)))
        hint = f"; or write {' or '.join(words)}" if words and readers else ""
        raise BadNameError("; ".join(map(str, errors)) + hint)

    def spell(value: Any) -> str:
        if value is None:
            return NONE
        return spell_list(value) if isinstance(value, tuple) else names.spell(value)

    return read, spell
