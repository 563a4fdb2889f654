"""A policy is never better or worse than itself, than a copy of its order, or than another order of ties.

Every kind of log, by every importer: pages with advertisements, rows that were not seen, second pages, pages
of any length, documents that an import removes, several policies, with and without candidates.

Before, a copy of the displayed order was valued at positions 1 … n and the logged policy at its real
positions: `difference 0.0303 (0.0278 to 0.0332) … better`. Without gaps, a rounding error of 1e-18 was
`better` too. Now all of these are `same`.
"""

from __future__ import annotations

import csv
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rankloop import import_columns, import_metarank, import_ubi
from rankloop.clicks import bias_of, users
from rankloop.logs import Columns, ImportOptions
from rankloop.offline import EvaluationOptions, Log, open_log
from tests.logs.logs_of import Row, write_rows

BIAS = bias_of(users("position@20"))
# Far enough apart that a drawn ranking is the sorted one, up to 1e-13.
APART = 30.0
POLICIES = ("production", "later")
QUERIES, IMPRESSIONS = 6, 60

Shown = list[tuple[int, str]]


@dataclass(frozen=True, eq=False)
class Traffic:
    """What two policies displayed; each has one order per query.

    Attributes:
        orders: by policy and query, documents.
        rows: impressions as rows.
    """

    orders: dict[tuple[str, str], list[str]]
    rows: list[Row]


def plain(order: list[str], _: np.random.Generator) -> Shown:
    """A page without gaps."""
    return list(enumerate(order[:10], start=1))


def advertisements(order: list[str], rng: np.random.Generator) -> Shown:
    """Advertisements on top of some pages, and within them."""
    free = [slot for slot in range(1, 16) if slot not in rng.integers(1, 9, 3)]
    return list(zip(free, order[:10], strict=False))


def viewability(order: list[str], rng: np.random.Generator) -> Shown:
    """Rows that were not seen were not logged."""
    shown = [row for row in plain(order, rng) if rng.random() < 0.6]
    return shown or [(1, order[0])]


def second_pages(order: list[str], rng: np.random.Generator) -> Shown:
    """First pages, and second ones at positions 11 to 20."""
    second = rng.random() < 0.4 and len(order) > 10
    return [(place, document) for place, document in enumerate(order, start=1) if (place > 10) == second]


def lengths(order: list[str], rng: np.random.Generator) -> Shown:
    """Pages of any length."""
    return plain(order, rng)[: int(rng.integers(1, 11))]


def duplicates(order: list[str], rng: np.random.Generator) -> Shown:
    """A document again further down, which an import removes."""
    shown = plain(order, rng)
    again = int(rng.integers(1, len(shown)))
    shown.insert(again, (0, shown[0][1]))
    return [(place, document) for place, (_, document) in enumerate(shown, start=1)]


KINDS = {
    kind.__name__: kind for kind in (plain, advertisements, viewability, second_pages, lengths, duplicates)
}


def traffic(kind: str, seed: int) -> Traffic:
    rng = np.random.default_rng(seed)
    sizes = rng.integers(8, 20, QUERIES)
    orders = {
        (policy, f"q{query}"): [f"d{document}" for document in rng.permutation(size)]
        for query, size in enumerate(sizes)
        for policy in POLICIES
    }
    rows = []
    for number in range(IMPRESSIONS):
        policy, query = POLICIES[number % 3 == 0], f"q{rng.integers(QUERIES)}"
        for position, document in KINDS[kind](orders[policy, query], rng):
            rows.append(
                Row(f"i{number}", query, policy, position, document, bool(rng.random() < 0.3), number)
            )
    return Traffic(orders, rows)


def by_rows(made: Traffic, folder: Path) -> Path:
    """As somebody else would write it."""
    return write_rows(folder / "log", made.rows)


def by_candidates(made: Traffic, folder: Path) -> Path:
    """With the candidates of both policies."""
    rows = [
        (policy, query, document, -APART * place)
        for (policy, query), order in made.orders.items()
        for place, document in enumerate(order)
    ]
    names = ("policy_id", "query_id", "doc_id", "score")
    columns = dict(zip(names, map(list, zip(*rows, strict=True)), strict=True))
    return write_rows(folder / "log", made.rows, columns)


def by_columns(made: Traffic, folder: Path) -> Path:
    with (folder / "rows.csv").open("w") as file:
        writer = csv.writer(file)
        writer.writerow(Row._fields)
        writer.writerows((*row[:5], int(row.clicked), row.timestamp) for row in made.rows)
    columns = Columns.parse(", ".join(f"{name}={name}" for name in Row._fields))
    import_columns(
        folder / "rows.csv", folder / "log", columns=columns, options=ImportOptions(position_base=1)
    )
    return folder / "log"


def impressions_of(made: Traffic) -> dict[Any, list[Row]]:
    result: dict[Any, list[Row]] = {}
    for row in made.rows:
        result.setdefault(row.impression_id, []).append(row)
    return result


def write_lines(path: Path, records: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return path


def by_metarank(made: Traffic, folder: Path) -> Path:
    """Positions are those of the list; what the import removes leaves gaps."""
    events: list[dict[str, Any]] = []
    for name, rows in impressions_of(made).items():
        fields = [
            {"name": "query", "value": rows[0].query_id},
            {"name": "policy", "value": rows[0].policy_id},
        ]
        events.append(
            {"event": "ranking", "id": name, "timestamp": 1000 * len(events), "user": "u", "session": "s",
             "fields": fields, "items": [{"id": row.doc_id} for row in rows]}
        )  # fmt: skip
        events += [
            {"event": "interaction", "id": f"{name}-{row.doc_id}", "ranking": name, "item": row.doc_id,
             "timestamp": 1000 * len(events), "type": "click", "user": "u", "session": "s", "fields": []}
            for row in rows
            if row.clicked
        ]  # fmt: skip
    import_metarank(write_lines(folder / "events.jsonl", events), folder / "log")
    return folder / "log"


def by_ubi(made: Traffic, folder: Path) -> Path:
    queries, events = [], []
    for name, rows in impressions_of(made).items():
        queries.append(
            {"query_id": name, "user_query": rows[0].query_id, "timestamp": 1_600_000_000_000,
             "query_response_hit_ids": [row.doc_id for row in rows],
             "query_attributes": {"policy_id": rows[0].policy_id}}
        )  # fmt: skip
        events += [
            {"query_id": name, "action_name": "click", "timestamp": 1_600_000_000_001,
             "event_attributes": {"object": {"object_id": row.doc_id}}}
            for row in rows
            if row.clicked
        ]  # fmt: skip
    files = [
        write_lines(folder / "queries.jsonl", queries),
        write_lines(folder / "events.jsonl", events),
    ]
    import_ubi(files, folder / "log")
    return folder / "log"


def by_lists(made: Traffic, folder: Path) -> Path:
    """One line per search, with lists of documents, positions and clicks."""
    records = [
        {"search_id": name, "query": rows[0].query_id, "variant": rows[0].policy_id,
         "shown": [{"sku": row.doc_id, "rank": row.position} for row in rows],
         "clicked": [int(row.clicked) for row in rows]}
        for name, rows in impressions_of(made).items()
    ]  # fmt: skip
    columns = Columns(policy_id="variant", doc_id="shown.sku", position="shown.rank", timestamp=None)
    import_columns(
        write_lines(folder / "searches.jsonl", records),
        folder / "log",
        columns=columns,
        options=ImportOptions(position_base=1),
    )
    return folder / "log"


def by_events(made: Traffic, folder: Path) -> Path:
    """One line per event: a document that was shown, or clicked."""
    events = []
    for row in made.rows:
        seen = {"request_id": row.impression_id, "query": row.query_id, "variant": row.policy_id,
                "item_id": row.doc_id, "pos": row.position, "event": "impression"}  # fmt: skip
        events += [seen] + [seen | {"event": "click"}] * row.clicked
    import_columns(
        write_lines(folder / "events.jsonl", events),
        folder / "log",
        columns=Columns(policy_id="variant"),
        options=ImportOptions(position_base=1),
    )
    return folder / "log"


def by_sessions(made: Traffic, folder: Path) -> Path:
    """One line per search and per click; clicks name only the session, as the lists of a session do."""
    events = []
    for number, rows in enumerate(impressions_of(made).values()):
        seen = {"session_id": f"s{number // 3}", "ts": 1_700_000_000 + 60 * number}
        shown = {"query": rows[0].query_id, "variant": rows[0].policy_id, "event": "search",
                 "results": [{"sku": row.doc_id, "rank": row.position} for row in rows]}  # fmt: skip
        clicks = [{"event": "click", "sku": row.doc_id} for row in rows if row.clicked]
        events += [seen | shown, *(seen | {"ts": seen["ts"] + 5} | one for one in clicks)]
    columns = Columns(policy_id="variant", doc_id="results.sku|sku", position="results.rank")
    report = import_columns(
        write_lines(folder / "events.jsonl", events),
        folder / "log",
        columns=columns,
        options=ImportOptions(position_base=1),
    )
    assert report.impressions == len(impressions_of(made))
    return folder / "log"


def by_pages(made: Traffic, folder: Path) -> Path:
    """Positions that begin again on every page of five."""
    names = ("request_id", "query", "variant", "page", "pos", "item_id", "clicked")
    with (folder / "rows.csv").open("w") as file:
        writer = csv.writer(file)
        writer.writerow(names)
        for row in made.rows:
            page, place = divmod(row.position - 1, 5)
            writer.writerow((*row[:3], page + 1, place + 1, row.doc_id, int(row.clicked)))
    columns = Columns(policy_id="variant")
    options = ImportOptions(position_base=1)
    import_columns(folder / "rows.csv", folder / "log", columns=columns, options=options)
    return folder / "log"


IMPORTERS = {
    importer.__name__: importer
    for importer in (
        by_rows,
        by_candidates,
        by_columns,
        by_lists,
        by_events,
        by_sessions,
        by_pages,
        by_metarank,
        by_ubi,
    )
}
LOGS = [
    (kind, importer)
    for kind in KINDS
    for importer in IMPORTERS
    # Rows that are repeated are for importers.
    if kind != "duplicates" or importer not in ("by_rows", "by_candidates")
]


def write_table(path: Path, scores: dict[tuple[str, str], float]) -> Path:
    columns = {
        "query_id": [query for query, _ in scores],
        "doc_id": [document for _, document in scores],
        "score": pa.array(list(scores.values()), pa.float64()),
    }
    pq.write_table(pa.table(columns), path)
    return path


def assert_same(log: Log, new: Any, against: Any, **options: Any) -> None:
    found = log.evaluate(new, against, bias=BIAS, options=EvaluationOptions(**options))
    assert found.decision.kind == "same", (found.decision, found.difference)
    assert found.difference.estimate == (0.0,) * 6


@pytest.mark.parametrize(
    ("kind", "importer"),
    [
        # Every kind once, and every importer once, in the short run.
        pytest.param(
            *log, marks=() if log[1] == "by_rows" or log[0] == "advertisements" else pytest.mark.long
        )
        for log in LOGS
    ],
)
def test_a_policy_is_the_same_as_itself_and_as_a_copy_of_its_order(
    kind: str, importer: str, tmp_path: Path
) -> None:
    made = traffic(kind, seed=len(kind))
    log = open_log(IMPORTERS[importer](made, tmp_path))
    for policy in POLICIES:
        assert_same(log, policy, policy)
        copied = {
            (query, document): -float(place)
            for (who, query), order in made.orders.items()
            if who == policy
            for place, document in enumerate(order)
        }
        table = write_table(tmp_path / f"{policy}.parquet", copied)
        assert_same(log, table, policy)
        assert_same(log, policy, table)
    rng = np.random.default_rng(1)
    counts = log.count()
    queries = np.repeat(counts.query_ids, np.diff(counts.offsets)).tolist()
    # Documents that the log does not have could be different ones for each policy.
    names = list(zip(queries, counts.doc_ids.tolist(), strict=True))
    equal = [
        write_table(tmp_path / f"{n}.parquet", {names[i]: 1.0 for i in rng.permutation(len(names))})
        for n in range(2)
    ]
    assert_same(log, *equal)
    assert_same(log, *equal, rerank="query")
    assert_same(log, *equal, ranking="drawn")


def test_equal_scores_are_neither_better_nor_worse_whatever_documents_are_called(tmp_path: Path) -> None:
    """Ties went by document id: a log whose ids sort as production ranks made `equal scores` look good."""
    made = traffic("advertisements", seed=0)
    renamed = [row._replace(doc_id=f"z{row.doc_id}" if row.position % 2 else row.doc_id) for row in made.rows]
    log = open_log(write_rows(tmp_path / "log", renamed))
    docs = sorted({(str(row.query_id), str(row.doc_id)) for row in renamed})
    first, second = (
        write_table(tmp_path / f"{number}.parquet", dict.fromkeys(names, float(number)))
        for number, names in enumerate((docs, docs[::-1]))
    )
    assert_same(log, first, second)


def test_gaps_are_told(tmp_path: Path) -> None:
    log = open_log(by_rows(traffic("advertisements", seed=3), tmp_path))
    gaps = log.slots().gaps
    assert gaps.impressions == IMPRESSIONS
    assert 0 < gaps.leading < gaps.gapped <= IMPRESSIONS
    told = f"{gaps.gapped} of 60 impressions have positions without a row"
    for notes in (log.evaluate("later", "production", bias=BIAS).notes, log.statistics(BIAS).notes):
        assert any(note.startswith(told) for note in notes)
