"""Parse online methods from their names."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from typing import Any

from rankloop.names import arguments, integer, number, parse_without_cutoff
from rankloop.online.base import Method
from rankloop.online.coltr import COLTR
from rankloop.online.pdgd import PDGD, BiasedPDGD

METHODS: dict[str, type[Method]] = {kind.name: kind for kind in (PDGD, BiasedPDGD, COLTR)}

_READERS: dict[str, Callable[[str], Any]] = {
    "candidates": integer,
    "rate": number,
    "reach": number,
    "variance": number,
}


def method(text: str) -> Method:
    """Parse a method from its name; ``str`` of the method returns the name.

    Example:
        >>> method("pdgd")
        PDGD(rate=0.01)
        >>> str(method("biased-pdgd( rate=0.1 )"))
        'biased-pdgd(rate=0.1)'
        >>> method("pgdg")
        Traceback (most recent call last):
            ...
        rankloop.names.BadNameError: unknown online method 'pgdg', did you mean 'pdgd'? ...
    """
    name = parse_without_cutoff(text, METHODS, kind="online method")
    kind = METHODS[name.name]
    options = arguments(name, {field.name: _READERS[field.name] for field in fields(kind)})  # type: ignore[arg-type]
    return kind(**options)
