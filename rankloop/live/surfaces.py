"""Surfaces of one service, such as home and similar documents: each a store, with its own everything."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from rankloop.errors import RankloopError
from rankloop.live.http.app import ROUTES
from rankloop.live.store.database import Store, open_store
from rankloop.types import Float32

NAME = re.compile(r"[a-z][a-z0-9_-]{0,39}")
# The paths of a surface begin with its name, so it cannot be that of a path which is there already.
TAKEN = frozenset(path.split("/")[1] for _, path, _ in ROUTES)

DocumentTable = tuple[tuple[str, ...], Mapping[str, Float32]]


class Place(NamedTuple):
    """Where the store of a surface is, and its log if that is elsewhere."""

    location: str
    log: Path | None = None


@dataclass(frozen=True, eq=False)
class Surface:
    """What is served at the paths that begin with a name.

    Attributes:
        store: its policies, deployments, impressions and log.
        names: names of the features that its requests may contain.
        table: names of features, and their values by document id.
    """

    store: Store
    names: tuple[str, ...] = ()
    table: DocumentTable | None = None


def read_places(options: Iterable[str], log: Path | None = None) -> dict[str, Place]:
    """The places of surfaces from options such as ``home=STORE``.

    Args:
        options: as they were typed.
        log: the folder of the log of the first store; those of other databases are put beside it.

    Raises:
        RankloopError: an option is not like that, or a name is taken.

    Example:
        >>> read_places(["home=stores/home"])
        {'home': Place(location='stores/home', log=None)}
    """
    places: dict[str, Place] = {}
    for text in options:
        name, equals, location = text.partition("=")
        if not equals or not location or not NAME.fullmatch(name):
            raise RankloopError(
                f"--surface {text}: expected NAME=STORE, with a name of small letters, digits, - and _, such "
                f"as home=stores/home"
            )
        if name in TAKEN:
            raise RankloopError(f"--surface {text}: /{name} is a path of the service: choose another name")
        if name in places:
            raise RankloopError(f"--surface {text}: there are two surfaces called {name}")
        beside = Path(f"{log or 'rankloop-log'}-{name}") if "://" in location else None
        places[name] = Place(location, beside)
    return places


def split_options(options: Iterable[str], surfaces: Iterable[str]) -> dict[str, list[str]]:
    """Values of an option by surface: ``home=price`` is for home, ``price`` for the first store, called "".

    >>> split_options(["price,age", "home=price"], ["home"])
    {'': ['price,age'], 'home': ['price']}
    """
    split: dict[str, list[str]] = {"": [], **{name: [] for name in surfaces}}
    for text in options:
        name, equals, rest = text.partition("=")
        if equals and name and name in split:
            split[name].append(rest)
        else:
            split[""].append(text)
    return split


def open_surfaces(first: Store, places: Mapping[str, Place]) -> dict[str, Store]:
    """Open the stores of surfaces, or none of them.

    Raises:
        RankloopError: a store cannot be opened, or is that of another surface.
    """
    stores = {"": first}
    try:
        for name, place in places.items():
            stores[name] = open_store(place.location, log=place.log)
            _refuse_same(stores, name)
    except BaseException:
        for name in places:
            if name in stores:
                stores[name].close()
        raise
    del stores[""]
    return stores


def _refuse_same(stores: Mapping[str, Store], name: str) -> None:
    own = _identity(stores[name])
    for other, store in stores.items():
        if other != name and _identity(store) == own:
            raise RankloopError(
                f"--surface {name}: {store.location} is served already: each surface needs a store of its own"
            )


def _identity(store: Store) -> str:
    return store.location if store.file is None else str(store.file.path.resolve())
