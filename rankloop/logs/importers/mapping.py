"""What an import runs: which field is read from which column, and how values are written.

A mapping is a small TOML file. It is proposed from the data, read and edited by a person, stored in the log,
and given again for the files of the next day.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Self

from rankloop.errors import DataError
from rankloop.logs.importers.actions import NO_AMOUNTS, Events
from rankloop.logs.importers.column_names import Columns
from rankloop.logs.importers.files import Paths
from rankloop.logs.importers.parsing import check_normalise
from rankloop.logs.importers.tables.shape import Pages, TableShape
from rankloop.storage.files import write_whole

TABLE, UBI, METARANK = "table", "ubi", "metarank"
# Which actions of UBI, and which interactions of Metarank, are clicks.
CLICK_ACTIONS = ("click", "click_through", "item_click")
CLICK_TYPES = ("click",)
# What UBI events say was shown, and where the query of Metarank's rankings comes from: see their importers.
SHOWN_AUTO = QUERY_AUTO = "auto"
# In the place of a column that has not been decided.
UNDECIDED = "?"


@dataclass(frozen=True, kw_only=True)
class TableMapping:
    """How any table is read.

    Attributes:
        columns: the columns of the fields; those that nobody named are proposed.
        events: which kinds of events show documents, and which are clicks.
        policy: the policy of all rows, if there is no column for it.
        clicks: a second table with one row per click.
        candidates: a table with one row per candidate.
        only: rows to import, by column and value.
        amounts: the weights of kinds of events, or of columns that are true where something happened.
        features: columns of the table that are features, with wildcards.
        position_base: whether positions count from 0 or from 1; detected if None.
        normalise: what is grouped by case, white space and Unicode: ``("query",)``, or nothing.
        shape: how values are written; found out from the first rows if None.
        shared: the columns by which clicks elsewhere say to which impression they belong, if not all.
        names_document: whether clicks elsewhere name their documents.
        decimal_commas: features whose numbers have commas before their fractions.
        categories: features that are text.
        is_decided: whether nothing may be guessed: what has no column has none.
    """

    columns: Columns = field(default_factory=Columns)
    events: Events = field(default_factory=Events)
    policy: str | None = None
    clicks: Paths | None = None
    candidates: Paths | None = None
    only: Mapping[str, str] = field(default_factory=dict)
    amounts: Mapping[str, float] = field(default_factory=lambda: NO_AMOUNTS)
    features: tuple[str, ...] = ()
    position_base: int | None = None
    normalise: tuple[str, ...] = ()
    shape: TableShape | None = None
    shared: tuple[str, ...] = ()
    names_document: bool = True
    decimal_commas: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    is_decided: bool = False

    @property
    def is_complete(self) -> bool:
        """Whether nothing has to be found out from the data."""
        return self.shape is not None

    def to_decide(self) -> Self:
        """The same without what is found out from the first rows."""
        return replace(self, shape=None, shared=(), names_document=True, decimal_commas=(), categories=())

    def to_plain(self) -> dict[str, Any]:
        """Convert to values for TOML."""
        options = {
            "policy": self.policy,
            "clicks": _path_list(self.clicks),
            "candidates": _path_list(self.candidates),
            "features": list(self.features),
            "position_base": self.position_base,
            "normalise": list(self.normalise),
        }
        reading = {} if self.shape is None else _changed(self.shape, TableShape())
        reading |= {"shared": list(self.shared)} if self.shared else {}
        reading |= {} if self.names_document else {"names_document": False}
        reading |= {"decimal_commas": list(self.decimal_commas)} if self.decimal_commas else {}
        reading |= {"categories": list(self.categories)} if self.categories else {}
        return _without_empty(
            {
                "fields": {name: value for name, value in vars(self.columns).items() if name != "score"}
                | ({"score": self.columns.score} if self.candidates is not None else {}),
                "events": vars(self.events),
                "options": options,
                "only": dict(self.only),
                "amounts": dict(self.amounts),
            }
        ) | ({} if self.shape is None else {"reading": reading})

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any], where: str) -> Self:
        """Read values from TOML."""
        _check_keys(plain, ("format", "fields", "events", "options", "only", "amounts", "reading"), where)
        named, reading = dict(plain.get("fields", {})), dict(plain.get("reading", {}))
        _check_keys(named, [one.name for one in fields(Columns)], f"{where}, [fields]")
        for name, value in named.items():
            if isinstance(value, str) and value.startswith(UNDECIDED):
                raise DataError(
                    f"{where}: {name} is not decided: write one of {value[1:].strip()} in its place"
                )
        if "doc_id" not in named:
            raise DataError(f"{where}: [fields] has no doc_id, the column of the documents that were shown")
        columns = {one.name: None for one in fields(Columns) if one.name not in ("doc_id", "score")}
        columns |= {name: tuple(value) if isinstance(value, list) else value for name, value in named.items()}
        options = dict(plain.get("options", {}))
        _check_keys(
            options, ("policy", "clicks", "candidates", "features", "position_base", "normalise"), where
        )
        options["features"] = tuple(options.get("features", ()))
        events = {name: tuple(value) for name, value in plain.get("events", {}).items()}
        _check_keys(events, [one.name for one in fields(Events)], f"{where}, [events]")
        shape = None
        shared, by_name = tuple(reading.pop("shared", ())), bool(reading.pop("names_document", True))
        commas, categories = (tuple(reading.pop(name, ())) for name in ("decimal_commas", "categories"))
        if "reading" in plain:
            _check_keys(reading, [one.name for one in fields(TableShape)], f"{where}, [reading]")
            if "pages" in reading:
                reading["pages"] = Pages(*reading["pages"])
            if "no_click" in reading:
                reading["no_click"] = tuple(reading["no_click"])
            shape = TableShape(**reading)
        return cls(
            columns=Columns(**columns),  # type: ignore[arg-type]
            events=Events(**events),
            only={name: str(value) for name, value in plain.get("only", {}).items()},
            amounts={name: float(value) for name, value in plain.get("amounts", {}).items()},
            shape=shape,
            shared=shared,
            names_document=by_name,
            decimal_commas=commas,
            categories=categories,
            is_decided=True,
            **_with_normalise(options, where),
        )


@dataclass(frozen=True, kw_only=True)
class UbiMapping:
    """How UBI queries and events are read; see `import_ubi`."""

    policy: str | None = None
    ranks: int | None = None
    clicks: tuple[str, ...] = CLICK_ACTIONS
    amounts: Mapping[str, float] = field(default_factory=lambda: NO_AMOUNTS)
    shown: str = SHOWN_AUTO
    normalise: tuple[str, ...] = ()

    def to_plain(self) -> dict[str, Any]:
        """Convert to values for TOML."""
        options = {**vars(self), "amounts": None}
        return _without_empty({"options": options, "amounts": dict(self.amounts)})

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any], where: str) -> Self:
        """Read values from TOML."""
        _check_keys(plain, ("format", "options", "amounts"), where)
        options = dict(plain.get("options", {}))
        _check_keys(options, ("policy", "ranks", "clicks", "shown", "normalise"), f"{where}, [options]")
        options["clicks"] = tuple(options.get("clicks", CLICK_ACTIONS))
        return cls(**_with_normalise(options, where), amounts=dict(plain.get("amounts", {})))


@dataclass(frozen=True)
class MetarankFields:
    """Where to find values that Metarank's own format does not include.

    Attributes:
        query: the query of a ranking: ``auto`` (its field ``query``, or the ranking itself if it has none),
            ``ranking``, ``session``, ``user``, ``none`` (one query for all rankings), or the name of a field,
            which all rankings must have.
        policy: the field with the policy.
        score: the field of an item with the score from which the policy draws rankings, such as
            ``relevancy``; None if there is none.
        items: whether the fields of items become features.
    """

    query: str = QUERY_AUTO
    policy: str = "policy"
    score: str | None = None
    items: bool = True


@dataclass(frozen=True, kw_only=True)
class MetarankMapping:
    """How Metarank's events are read; see `import_metarank`."""

    policy: str | None = None
    clicks: tuple[str, ...] = CLICK_TYPES
    amounts: Mapping[str, float] = field(default_factory=lambda: NO_AMOUNTS)
    fields: MetarankFields = field(default_factory=MetarankFields)
    normalise: tuple[str, ...] = ()

    def to_plain(self) -> dict[str, Any]:
        """Convert to values for TOML."""
        options = {"policy": self.policy, "clicks": self.clicks, "normalise": self.normalise}
        return _without_empty(
            {"options": options, "fields": vars(self.fields), "amounts": dict(self.amounts)}
        )

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any], where: str) -> Self:
        """Read values from TOML."""
        _check_keys(plain, ("format", "options", "fields", "amounts"), where)
        options = dict(plain.get("options", {}))
        _check_keys(options, ("policy", "clicks", "normalise"), f"{where}, [options]")
        _check_keys(plain.get("fields", {}), [one.name for one in fields(MetarankFields)], where)
        options["clicks"] = tuple(options.get("clicks", CLICK_TYPES))
        named = MetarankFields(**plain.get("fields", {}))
        amounts = dict(plain.get("amounts", {}))
        return cls(**_with_normalise(options, where), fields=named, amounts=amounts)


AnyMapping = TableMapping | UbiMapping | MetarankMapping
FORMATS: dict[str, type[TableMapping] | type[UbiMapping] | type[MetarankMapping]] = {
    TABLE: TableMapping,
    UBI: UbiMapping,
    METARANK: MetarankMapping,
}


def read_mapping(path: str | Path) -> AnyMapping:
    """Read a mapping from a TOML file."""
    try:
        plain = tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise DataError(f"{path}: this mapping cannot be read: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise DataError(f"{path}: this is not a mapping in TOML: {error}") from error
    kind = plain.get("format", TABLE)
    if kind not in FORMATS:
        raise DataError(f"{path}: the format is {kind!r}; expected {', '.join(FORMATS)}")
    try:
        return FORMATS[kind].from_plain(plain, str(path))
    except (TypeError, ValueError, AttributeError) as error:
        if isinstance(error, DataError):
            raise
        raise DataError(f"{path}: a value of this mapping has the wrong type: {error}") from error


def mapping_text(
    mapping: AnyMapping,
    comments: Mapping[str, Sequence[str]] | None = None,
    undecided: Mapping[str, Sequence[str]] | None = None,
    heading: Sequence[str] = (),
) -> str:
    """A mapping as TOML.

    Args:
        mapping: the mapping.
        comments: what to say about fields, above them.
        undecided: the columns to choose from, by field.
        heading: what to say first.

    Example:
        >>> print(mapping_text(TableMapping(columns=Columns.parse("doc_id=sku, position=-, query_id=q"))))
        format = "table"
        <BLANKLINE>
        [fields]
        impression_id = "impression_id"
        timestamp = "timestamp"
        query_id = "q"
        policy_id = "policy_id"
        doc_id = "sku"
        clicked = "clicked"
        randomised = "auto"
        event = "auto"
        page = "auto"
        <BLANKLINE>
    """
    kind = next(name for name, known in FORMATS.items() if isinstance(mapping, known))
    lines = [*(f"# {line}" for line in heading), f"format = {json.dumps(kind)}", ""]
    plain = mapping.to_plain()
    for section, values in plain.items():
        lines += [f"# {line}" for line in (comments or {}).get(section, ())]
        lines.append(f"[{section}]")
        names = dict.fromkeys([*values, *(undecided or {})]) if section == "fields" else values
        for name in names:
            about = name if section == "fields" else f"{section}.{name}"
            lines += [f"# {line}" for line in (comments or {}).get(about, ())]
            value = values.get(name)
            if section == "fields" and undecided and name in undecided:
                value = f"{UNDECIDED} {' or '.join(undecided[name])}"
            lines.append(f"{_key(name)} = {_value(value)}")
        lines.append("")
    return "\n".join(lines)


def write_mapping(path: Path, text: str) -> None:
    """Write the text of a mapping."""
    write_whole(path, text.encode())


def _key(name: str) -> str:
    return name if name.replace("_", "").replace("-", "").isalnum() and name.isascii() else json.dumps(name)


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_value, value))}]"
    # TOML escapes text as JSON does.
    return json.dumps(value, ensure_ascii=False) if isinstance(value, str) else repr(value)


def _without_empty(sections: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    kept = {
        section: {name: value for name, value in values.items() if value not in (None, (), [])}
        for section, values in sections.items()
    }
    return {section: values for section, values in kept.items() if values}


def _changed(value: Any, usual: Any) -> dict[str, Any]:
    return {
        one.name: getattr(value, one.name)
        for one in fields(value)
        if getattr(value, one.name) != getattr(usual, one.name)
    }


def _path_list(paths: Paths | None) -> list[str] | None:
    if paths is None:
        return None
    return [str(path) for path in (paths if isinstance(paths, list | tuple) else [paths])]


def _with_normalise(options: Mapping[str, Any], where: str) -> dict[str, Any]:
    given = options.get("normalise", ())
    check_normalise(given, f"{where}, [options]: ")
    return {**options, "normalise": tuple(given)}


def _check_keys(given: Mapping[str, Any], known: Sequence[str], where: str) -> None:
    unknown = [name for name in given if name not in known]
    if unknown:
        raise DataError(f"{where}: {unknown[0]!r} is not known here; known are {', '.join(known)}")


def stored_text(mapping: AnyMapping) -> Callable[[int | None, Sequence[str]], str]:
    """The mapping as it is stored in a log, given the number of the first position and the sources."""

    def text(base: int | None, sources: Sequence[str]) -> str:
        complete = mapping
        if isinstance(mapping, TableMapping) and mapping.position_base is None and base is not None:
            complete = replace(mapping, position_base=base)
        heading = [f"How {', '.join(sources)} was imported: give it again with --map."]
        comments = {"reading": ["Found out from the first rows: remove it if you change a field."]}
        return mapping_text(complete, comments, heading=heading)

    return text
