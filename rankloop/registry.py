"""One registry per kind of value: from a name such as ``ndcg@5(gain=exponential)`` to the value, and back.

A value that has a name is a frozen dataclass. Its fields are the options of the name, and their annotations
say how an option is read and written (`rankloop.names`). A new estimator, metric or exploration is
therefore one class and one line:

    @register
    @dataclass(frozen=True)
    class Mine(Estimator):
        name: ClassVar[str] = "mine"
        strength: float = 1.0

after which ``mine`` and ``mine(strength=0.5)`` work wherever a name is read. An installed package adds its
own names to the command line through the entry-point group ``rankloop.plugins``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import is_dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar, Generic, NamedTuple, TypeVar

from rankloop.errors import RankloopError
from rankloop.names import REQUIRED, BadNameError, Name, arguments, check_word, options_of, parse

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

# The field that a name writes as ``@5`` and not as an option.
CUTOFF = "cutoff"
# The entry-point group of packages that register names of their own.
PLUGINS = "rankloop.plugins"

T = TypeVar("T")
C = TypeVar("C", bound=type[Any])

_registries: list[Registry[Any]] = []
_loaded: set[EntryPoint] = set()


class Named:
    """A value with a name: a frozen dataclass whose fields are the options of its name.

    Attributes:
        name: the word that the name starts with.
    """

    name: ClassVar[str]

    def __str__(self) -> str:
        return name_of(self)


class Entry(NamedTuple):
    """One row of `Registry.table`.

    Attributes:
        name: the word that the name starts with; ``@K`` follows if a cut-off is required, ``[@K]`` if it is
            optional.
        options: the options, in the order of the fields.
        summary: the first line of the class's docstring.
    """

    name: str
    options: tuple[str, ...]
    summary: str


class Registry(Mapping[str, type[T]], Generic[T]):
    """The classes of one kind by the word that their names start with.

    Attributes:
        kind: what is named, for messages: "estimator", "metric", …
        base: the class that all of them derive from.

    Example:
        >>> from dataclasses import dataclass
        >>> class Shape(Named): ...
        >>> shapes = Registry[Shape]("shape", Shape)
        >>> @register
        ... @dataclass(frozen=True)
        ... class Circle(Shape):
        ...     name: ClassVar[str] = "circle"
        ...     radius: float = 1.0
        >>> shapes.parse("circle( radius=2.5 )")
        Circle(radius=2.5)
        >>> str(Circle(radius=2.5)), shapes.names
        ('circle(radius=2.5)', ('circle',))
        >>> shapes.parse("cirle")
        Traceback (most recent call last):
            ...
        rankloop.names.UnknownNameError: unknown shape 'cirle', did you mean 'circle'? There are: circle
    """

    def __init__(self, kind: str, base: type[Any]) -> None:
        self.kind = kind
        self.base = base
        self._classes: dict[str, type[T]] = {}
        _registries.append(self)

    def register(self, cls: C) -> C:
        """Make a class available by its ``name``; usable as a decorator above ``@dataclass(frozen=True)``.

        Raises:
            BadNameError: the class is not a frozen dataclass of this kind, it has no valid name, another
                class has the name, or the type of a field cannot be written in a name.
        """
        where = f"{self.kind} {cls.__qualname__}"
        if not issubclass(cls, self.base):
            raise BadNameError(f"{where}: it must derive from {self.base.__name__}")
        # Looked up in the class itself: fields added to a dataclass by a plain subclass are not fields.
        parameters = vars(cls).get("__dataclass_params__")
        if not is_dataclass(cls) or parameters is None or not parameters.frozen:
            raise BadNameError(
                f"{where}: it must be a frozen dataclass, so put @dataclass(frozen=True) above it"
            )
        name = getattr(cls, "name", None)
        if not isinstance(name, str):
            raise BadNameError(f"{where}: it needs a name, such as name: ClassVar[str] = 'mine'")
        check_word(name)
        options_of(cls)
        there = self._classes.get(name)
        # The same class again is a notebook cell that runs again, or a module that is reloaded.
        if there is not None and _path(there) != _path(cls):
            raise BadNameError(f"{where}: the name {name!r} is taken by {_path(there)}, choose another one")
        self._classes[name] = cls  # type: ignore[assignment]  # the base class was checked above
        return cls

    def parse(self, text: str) -> T:
        """The value that a name spells; ``str`` of the value gives the canonical name back.

        Raises:
            BadNameError: the name cannot be read, is not known, or has options or a cut-off that do not fit.
        """
        name = parse(text, self, kind=self.kind)
        value: T = build(self[name.name], name)
        return value

    @property
    def names(self) -> tuple[str, ...]:
        """All names, those of plug-ins included, in alphabetical order."""
        return tuple(sorted(self))

    def table(self) -> list[Entry]:
        """List names, options and summaries, for the documentation."""
        return [_entry(self._classes[name]) for name in self.names]

    def __getitem__(self, name: str) -> type[T]:
        if name not in self:
            raise KeyError(name)
        return self._classes[name]

    def __contains__(self, name: object) -> bool:
        if name not in self._classes:
            load_plugins()
        return name in self._classes

    def __iter__(self) -> Iterator[str]:
        load_plugins()
        return iter(tuple(self._classes))

    def __eq__(self, other: object) -> bool:
        return self is other  # registries are compared by identity, not by contents

    def __hash__(self) -> int:
        return id(self)

    def __len__(self) -> int:
        load_plugins()
        return len(self._classes)


def register(cls: C) -> C:
    """Make a class of your own available by its name, wherever a name is read.

    The base class decides what it is: an `Estimator`, a `Metric`, an online `Method`, an `Exploration`, ….
    ``rankloop.checks`` tells whether the class keeps the contract of its kind.

    Example:
        >>> from dataclasses import dataclass
        >>> from rankloop.loop import Exploration, exploration
        >>> @register
        ... @dataclass(frozen=True)
        ... class Halved(Exploration):
        ...     '''The learned scores times a half.'''
        ...     name: ClassVar[str] = "halved"
        ...     def scale(self, scores, offsets, exposed, clip):
        ...         return 0.5
        >>> exploration("halved")
        Halved()
    """
    for registry in _registries:
        if issubclass(cls, registry.base):
            return registry.register(cls)
    bases = ", ".join(
        sorted(f"{registry.base.__module__}.{registry.base.__name__}" for registry in _registries)
    )
    raise BadNameError(
        f"{cls.__qualname__} has no base class that says what it is: derive it from one of {bases}"
    )


def build(cls: type[T], name: Name) -> T:
    """The value of a class that a name spells.

    Raises:
        BadNameError: an option or the cut-off is missing, does not exist, or cannot be read.
    """
    options = dict(options_of(cls))
    cutoff = options.pop(CUTOFF, None)
    given = arguments(name, {option: how.read for option, how in options.items()})
    missing = [option for option, how in options.items() if how.default is REQUIRED and option not in given]
    if missing:
        raise BadNameError(
            f"{str(name)!r} needs a value for {' and '.join(missing)}: {name.name}({missing[0]}=…)"
        )
    if name.cutoff is not None:
        if cutoff is None:
            raise BadNameError(f"{name.name!r} takes no cut-off, got {str(name)!r}")
        given[CUTOFF] = name.cutoff
    elif cutoff is not None and cutoff.default is REQUIRED:
        raise BadNameError(f"{name.name!r} needs a cut-off: {name.name}@5, for instance")
    return cls(**given)


def name_of(value: Any, *, every_option: bool = False) -> str:
    """The canonical name of a value: its word, its cut-off, and the options that differ from the defaults.

    Args:
        value: a frozen dataclass with a ``name``.
        every_option: write all options, so that the name keeps its meaning when a default changes.

    Example:
        >>> from dataclasses import dataclass
        >>> @dataclass(frozen=True)
        ... class Metric(Named):
        ...     name: ClassVar[str] = "ndcg"
        ...     cutoff: int
        ...     gain: str = "linear"
        >>> name_of(Metric(5)), name_of(Metric(5), every_option=True), name_of(Metric(5, "exponential"))
        ('ndcg@5', 'ndcg@5(gain=linear)', 'ndcg@5(gain=exponential)')
    """
    written, cutoff = [], None
    for option, how in options_of(type(value)).items():
        held = getattr(value, option)
        if option == CUTOFF:
            cutoff = held
        elif every_option or how.always or held != how.default:
            written.append((option, how.spell(held)))
    return str(Name(value.name, cutoff, tuple(written)))


def load_plugins() -> None:
    """Import what installed packages list under the entry-point group ``rankloop.plugins``, once.

    Called when a name is unknown or all names are listed, so that nobody else waits for it.
    """
    for plugin in _installed_plugins():
        if plugin in _loaded:
            continue
        # Noted before the import, during which the plug-in may look for names itself.
        _loaded.add(plugin)
        try:
            plugin.load()
        except Exception as error:
            _loaded.discard(plugin)
            raise RankloopError(
                f"the plug-in {plugin.name!r} ({plugin.value}) cannot be imported: "
                f"{type(error).__name__}: {error}. Repair or uninstall the package that provides it"
            ) from error


@cache
def _installed_plugins() -> tuple[EntryPoint, ...]:
    from importlib.metadata import entry_points  # slow to import, and rarely needed

    return tuple(entry_points(group=PLUGINS))


def _entry(cls: type[Any]) -> Entry:
    options = dict(options_of(cls))
    cutoff = options.pop(CUTOFF, None)
    mark = "" if cutoff is None else "@K" if cutoff.default is REQUIRED else "[@K]"
    return Entry(cls.name + mark, tuple(options), (cls.__doc__ or "").strip().partition("\n")[0])


def _path(cls: type[Any]) -> str:
    return f"{cls.__module__}.{cls.__qualname__}"
