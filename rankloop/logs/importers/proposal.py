"""Propose how a table is to be read: a mapping, what speaks for it, and what only a person can decide."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rankloop.errors import DataError
from rankloop.logs.importers.actions import Events
from rankloop.logs.importers.column_names import Columns
from rankloop.logs.importers.files import Paths, SourceFiles, as_paths
from rankloop.logs.importers.formats import recognise
from rankloop.logs.importers.mapping import (
    FORMATS,
    AnyMapping,
    TableMapping,
    mapping_text,
)
from rankloop.logs.importers.parsing import are_slashed
from rankloop.logs.importers.tables import words
from rankloop.logs.importers.tables.choices import FIELDS, FieldChoice, choose_columns
from rankloop.logs.importers.tables.feature_columns import (
    choose_features,
    feature_texts,
    has_decimal_comma,
    suggest_features,
)
from rankloop.logs.importers.tables.guesses import Guess, guess_columns
from rankloop.logs.importers.tables.lists import column_parts
from rankloop.logs.importers.tables.profile import Sample
from rankloop.logs.importers.tables.refusals import refuse_unusable
from rankloop.logs.importers.tables.shape import TableShape
from rankloop.logs.importers.tables.value_guess import shared_columns
from rankloop.logs.problems import ProblemCounter

# Columns and kinds in a message.
LISTED = 8
GIVEN = "given"


class AmbiguousTableError(DataError):
    """Several columns could be a field: a person has to say which one is.

    Attributes:
        proposal: what is known, and what is not.
    """

    def __init__(self, message: str, proposal: Proposal) -> None:
        super().__init__(message)
        self.proposal = proposal


@dataclass(frozen=True)
class Question:
    """What values do not tell.

    Attributes:
        field: the field; ``events.shown`` and ``events.clicks`` for kinds of events.
        options: what it could be, the best first.
        why: why it is asked.
    """

    field: str
    options: tuple[str, ...]
    why: str

    def __str__(self) -> str:
        return f"{self.field} could be {_or(self.options)}{f' ({self.why})' if self.why else ''}"


@dataclass(frozen=True)
class Proposal:
    """A mapping that was found out from the data, with reasons.

    Attributes:
        mapping: the mapping; undecided fields have their best column.
        choices: what speaks for each field, and which columns lost.
        questions: what a person has to decide.
        notes: sentences on how the table was understood.
        unused: the columns that nothing is read from.
        refusal: why the table cannot be a log as it is mapped; None if it can.
        suggestion: a sentence on columns that could be features; None if there are none.
    """

    mapping: AnyMapping
    choices: tuple[FieldChoice, ...] = ()
    questions: tuple[Question, ...] = ()
    notes: tuple[str, ...] = ()
    unused: tuple[str, ...] = ()
    refusal: DataError | None = None
    suggestion: str | None = None

    @property
    def is_certain(self) -> bool:
        """Whether it can be run without a person."""
        return not self.questions and self.refusal is None

    @property
    def is_answerable(self) -> bool:
        """Whether it can be run when its questions are answered."""
        return self.refusal is None

    def check(self, source: object) -> None:
        """Raise an error if the table cannot be imported without a person."""
        if self.refusal is not None and not self.is_answerable:
            raise self.refusal
        if self.questions:
            columns = ", ".join(
                f"{one.field}={one.options[0]}" for one in self.questions if "." not in one.field
            )
            remedy = f"Say which is right, as in --columns '{columns}'" if columns else "Say which is right"
            kinds = [one for one in self.questions if "." in one.field]
            if kinds:
                remedy += ", with --shown-event and --click-event for kinds of events"
            raise AmbiguousTableError(
                f"{source}: {'; '.join(map(str, self.questions))}. {remedy}, or look at the proposal with "
                f"`rankloop import {source}`",
                self,
            )

    def to_toml(self, heading: Sequence[str] = ()) -> str:
        """The mapping as a file to read, and to edit where a person has to decide."""
        comments: dict[str, list[str]] = {}
        for choice in self.choices:
            lines = [choice.why] if choice.why and choice.why != GIVEN else []
            lines += [f"not {rival.column}: {rival.why}" for rival in choice.rivals[:LISTED]]
            comments[choice.field] = lines
        for question in self.questions:
            comments.setdefault(question.field, []).append(
                f"DECIDE: write {_or(question.options)}{f'; {question.why}' if question.why else ''}"
            )
        undecided = {one.field: one.options for one in self.questions if "." not in one.field}
        lines = [*heading, *([f"Not used: {', '.join(self.unused)}"] if self.unused else [])]
        mapping = self.mapping
        if isinstance(mapping, TableMapping):
            mapping = mapping.to_decide()
        return mapping_text(mapping, comments, undecided, lines)

    def answered(self, answers: Mapping[str, str]) -> TableMapping:
        """The mapping with an answer to every question."""
        mapping = self.mapping
        assert isinstance(mapping, TableMapping)
        events, columns = mapping.events, mapping.columns
        for field, option in answers.items():
            if "." in field:
                kinds = {field.partition(".")[2]: tuple(option.split(" + "))}
                events = replace(events, **kinds)
            else:
                answer: dict[str, Any] = {field: None if option == "-" else option}
                columns = replace(columns, **answer)
        return replace(mapping.to_decide(), columns=columns, events=events, is_decided=True)


def propose(sources: Paths, given: AnyMapping | None = None) -> Proposal:
    """Propose a mapping for files.

    Args:
        sources: one path or several; all of the same kind.
        given: what is known already; the format is recognised if None.

    Raises:
        DataError: the files cannot be read.
    """
    if given is None:
        first = SourceFiles(ProblemCounter()).records(as_paths(sources)[:1], "impressions")
        kind = next((recognise(record.values) for record in first), None)
        given = FORMATS.get(str(kind), TableMapping)()
    if not isinstance(given, TableMapping):
        return Proposal(given)
    return propose_table(sources, given)


def propose_table(sources: Paths, given: TableMapping) -> Proposal:
    """Propose how a table is read, as far as it is not given."""
    sample = Sample.read(as_paths(sources), "impressions")
    clicked = None if given.clicks is None else Sample.read(as_paths(given.clicks), "clicks")
    if given.is_complete:
        return _as_it_is(sample, given)
    columns = given.columns if given.policy is None else replace(given.columns, policy_id=None)
    settled = columns.settled
    if given.is_decided:
        guess = _as_given(sample, columns, given.events, clicked)
    else:
        guess = guess_columns(sample, columns, given.events, clicked)
    kinds = guess.events or Events()
    elsewhere = given.clicks is not None or bool(kinds.clicks or kinds.marks)
    first = guess.columns
    names, choices = choose_columns(guess, settled, elsewhere=elsewhere)
    guess = replace(guess, columns=names)
    questions = [
        Question(one.field, one.options, _reason(one)) for one in choices if one.options
    ] + _kinds_to_decide(given.events, kinds)
    refusal = None
    try:
        refuse_unusable(sample, guess, clicks_elsewhere=elsewhere, filtered=bool(given.only))
    except DataError as error:
        refusal = error
    sample = guess.sample
    found = {
        name: value
        for name, value in vars(names).items()
        if name not in settled and value != getattr(columns, name)
    }
    notes = [*describe_guesses(names, guess.events, found, dict(guess.reasons), sample), *guess.notes]
    notes += [
        f"{one.column} is read as {one.field}, not {rival.column}, which {rival.why}."
        for one in choices
        for rival in one.rivals
        if rival.column == getattr(first, one.field) != one.column
    ]
    mapping, suggestion = replace(given, columns=names, events=kinds), None
    if refusal is None:
        if given.features:
            features, about = choose_features(sample, names, given.features)
            are = (
                "column of the table is a feature"
                if len(features) == 1
                else "columns of the table are features"
            )
            notes += [f"{len(features)} {are}.", *about]
            mapping = replace(mapping, features=tuple(features))
        else:
            suggestion = suggest_features(sample, names)
        mapping = _with_reading(mapping, sample, guess.clicks)
    if mapping.shape is not None:
        notes += mapping.shape.notes(names if given.clicks is None else replace(names, clicked=None))
    unused = _unused(sample, mapping)
    return Proposal(mapping, tuple(choices), tuple(questions), tuple(notes), unused, refusal, suggestion)


def _as_it_is(sample: Sample, mapping: TableMapping) -> Proposal:
    """A complete mapping: nothing is guessed, and the import itself checks what it reads."""
    names = mapping.columns
    notes = [] if names.event is None else [mapping.events.sentence]
    if mapping.shape is not None:
        notes += mapping.shape.notes(names if mapping.clicks is None else replace(names, clicked=None))
    choices = tuple(FieldChoice(field, getattr(names, field), GIVEN) for field in FIELDS)
    return Proposal(mapping, choices, notes=tuple(notes), unused=_unused(sample, mapping))


def _as_given(sample: Sample, columns: Columns, events: Events, clicks: Sample | None) -> Guess:
    """What a complete mapping says, with the first rows divided by their kinds."""
    if columns.event is None:
        return Guess(columns, None, sample, clicks=clicks)
    rows = list(zip(map(str, sample.values(columns.event)), sample.rows, strict=True))
    shown = Sample(row for kind, row in rows if kind in events.shown)
    if events.clicks:
        clicks = Sample(row for kind, row in rows if kind in events.clicks)
    return Guess(columns, events, shown, clicks=clicks)


def _with_reading(mapping: TableMapping, sample: Sample, clicks: Sample | None) -> TableMapping:
    """The same with how values are written, as the first rows have them."""
    names = mapping.columns
    shown = names if mapping.clicks is None else replace(names, clicked=None)
    shape = TableShape.of(sample, shown, mapping.position_base)
    return replace(
        mapping,
        shape=shape,
        shared=() if shape.arrays else tuple(shared_columns(names, clicks)),
        names_document=clicks is None or not len(clicks) or bool(clicks.present(names.doc_id)),
        decimal_commas=tuple(name for name in mapping.features if has_decimal_comma(sample.present(name))),
        categories=tuple(feature_texts(sample, mapping.features)),
    )


def _kinds_to_decide(given: Events, kinds: Events) -> list[Question]:
    """Kinds of events of which it is not clear that all of them count."""
    questions = []
    if not given.clicks and len(kinds.clicks) > 1:
        options = (" + ".join(kinds.clicks), *kinds.clicks)
        questions.append(Question("events.clicks", options, "several kinds of events speak of clicks"))
    if not given.shown and not kinds.marks and len(kinds.shown) > 1:
        options = (" + ".join(kinds.shown), *kinds.shown)
        questions.append(Question("events.shown", options, "several kinds of events speak of what was shown"))
    return questions


def _reason(choice: FieldChoice) -> str:
    if choice.field == "clicked" and len(choice.options) == 1:
        return "its name does not say that it marks clicks"
    if choice.field == "policy_id" and len(choice.options) == 2:
        return "its name may be that of another thing; - for a single policy"
    if choice.field == "query_id" and len(choice.options) == 1:
        return "its name does not say that it holds queries"
    return "; ".join(f"not {rival.column}, which {rival.why}" for rival in choice.rivals[:1])


def _unused(sample: Sample, mapping: TableMapping) -> tuple[str, ...]:
    used: set[str] = {*mapping.only, *mapping.amounts, *mapping.features}
    for value in (*vars(mapping.columns).values(), mapping.columns.impression_columns):
        for name in value if isinstance(value, tuple) else (value,):
            if isinstance(name, str):
                used |= {name, *column_parts(name)}
    return tuple(name for name in sample.columns if name not in used)


def _or(names: Sequence[str]) -> str:
    *others, last = names
    return f"{', '.join(others)} or {last}" if others else last


def mapping_path(out: Path) -> Path:
    """Where a proposal is written that a person has to decide: beside the log."""
    return out.with_name(f"{out.name}-mapping.toml")


def describe_guesses(
    columns: Columns,
    events: Events | None,
    found: Mapping[str, Any],
    rejected: Mapping[str, str],
    sample: Sample,
) -> Iterable[str]:
    """One sentence for each kind of guess.

    Args:
        columns: all columns, given or guessed.
        events: the kinds of events, if rows are events.
        found: the guesses by field; None where nothing was found.
        rejected: by field, why a column with a fitting name was not taken.
        sample: the first rows.
    """
    guessed = {name: value for name, value in found.items() if value is not None}
    if guessed:
        named = ", ".join(f"{name}={_joined(value)}" for name, value in guessed.items())
        yield f"Columns were guessed: {named}. Correct a guess with --columns, as in 'doc_id=sku'."
    if columns.event is not None and events is not None:
        yield events.sentence
    if "query_id" in found and columns.query_id is None:
        why = f" ({rejected['query_id']})" if "query_id" in rejected else ""
        yield (
            f"No column holds queries{why}: each impression is a query of its own. Learn from features "
            f"and from documents that come again (--columns query_id=NAME names a column)."
        )
    if columns.page is not None:
        yield (
            f"Positions begin again on every page ({columns.page}): they are counted on from page to "
            f"page (--columns page=- prevents it)."
        )
    if "timestamp" in found and columns.timestamp is None:
        names = [name for name in sample.columns if set(words.spellings(name)) & {*words.TIME}]
        why = f": {_no_times(names[0], sample)}" if names else ""
        yield f"No column holds times{why}. Impressions are kept without them."


def _no_times(column: str, sample: Sample) -> str:
    if are_slashed(sample.present(column)):
        return f"in {column}, it is not known whether the day or the month comes first (write 2024-05-31)"
    return f"{column} does not hold dates or numbers since 1970"


def _joined(value: str | tuple[str, ...]) -> str:
    return value if isinstance(value, str) else "+".join(value)
