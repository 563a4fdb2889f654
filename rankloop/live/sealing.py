"""Sealing: impressions and their events become parts of a log in the documented layout.

The folder of the log has one folder per table with one file per part, and a manifest of the parts. `check`,
`bias`, `fit` and `evaluate` read it like any other log, and so do DuckDB and Spark.
"""

from __future__ import annotations

import io
import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from sqlalchemy import ColumnElement, Connection, Select, select

from rankloop.live.ranking.problem import RankingProblem
from rankloop.live.ranking.rules import place
from rankloop.live.ranking.user_cap import UNCOUNTED
from rankloop.live.store.database import Store, give_way, read
from rankloop.live.store.events import Reaction, read_reactions
from rankloop.live.store.impressions import read_drawn, read_pins
from rankloop.live.store.parts import (
    TAKEN_AT_ONCE,
    add_to_part,
    begin_part,
    close_part,
    find_unsealed,
    finish_part,
    sealed_parts,
    unfinished,
)
from rankloop.live.store.tables import (
    impressions,
    logged_problems,
    logged_scorings,
    notebook,
    policies,
    problems,
    scorings,
)
from rankloop.logs.folder import PINNED_KEY, STARTS_KEY, VERSION_KEY, check_file
from rankloop.logs.schema import CANDIDATES, FEATURES, IMPRESSIONS, VERSION, arrow_schema
from rankloop.logs.writer import AMOUNT
from rankloop.storage.files import write_whole
from rankloop.types import Float32

MANIFEST = "manifest.json"
# Impressions of a part at most: a part is in memory while its files are written.
LARGEST_PART = 20_000


@dataclass(frozen=True)
class Sealed:
    """A part that was sealed.

    Attributes:
        number: its number.
        impressions: how many impressions it has.
        clicks: how many clicks.
    """

    number: int
    impressions: int
    clicks: int


def seal(
    store: Store,
    before: float | ColumnElement[bool],
    *,
    amounts: Mapping[str, float] | None = None,
    most: int = LARGEST_PART,
    now: float | None = None,
) -> list[Sealed]:
    """Seal impressions, in as many parts as needed.

    Only one process at a time may seal a store; `rankloop.live.store.leases.Lease` sees to that.

    Args:
        store: the store.
        before: those from before this time, in seconds since 1970; or a condition on the table of
            impressions. Events on them that come later are left out.
        amounts: what actions are worth in the column ``amount``; a click is worth 1.
        most: the largest number of impressions of a part.
        now: the time in seconds since 1970; by default that of this machine.
    """
    store.check()
    done = []
    closed = impressions.c.time < before if isinstance(before, float) else before
    with read(store) as connection:
        waiting = unfinished(connection)
    created_at = time.time() if now is None else now
    while True:
        number = waiting.pop(0) if waiting else _gather(store, closed, most, created_at)
        if number is None:
            break
        with store.engine.begin() as connection:
            close_part(connection, number)
        done.append(write_part(store, number, amounts or {}))
    if done:
        write_manifest(store)
    return done


def _gather(store: Store, closed: ColumnElement[bool], most: int, now: float) -> int | None:
    """Give impressions to a new part, a few per transaction; its number, or None if there are none."""
    with read(store) as connection:
        unsealed = find_unsealed(connection, closed, most)
    number = None
    for first in range(0, len(unsealed), TAKEN_AT_ONCE):
        chosen = unsealed[first : first + TAKEN_AT_ONCE]
        with give_way(store) as connection:
            if number is None:
                number = begin_part(connection, chosen, now)
            elif not add_to_part(connection, number, chosen):
                break
    return number


def write_manifest(store: Store) -> None:
    """List the parts of the log in its folder."""
    with read(store) as connection:
        content = {
            "format": "rankloop-live-log",
            "version": VERSION,
            "store": store_name(connection),
            "parts": list(sealed_parts(connection)),
        }
    write_whole(store.log / MANIFEST, (json.dumps(content, indent=1) + "\n").encode())


def store_name(connection: Connection) -> str:
    """The name that a store got when it was made; backups of it have the same one."""
    name: str = json.loads(
        connection.execute(select(notebook.c.content).where(notebook.c.name == "store")).scalar_one()
    )
    return name


def write_part(store: Store, number: int, amounts: Mapping[str, float]) -> Sealed:
    """Write the files of a part, which follow from the store alone, and mark it as sealed."""
    with read(store) as connection:
        features = _features(connection, number)
        candidates = _candidates(connection, number)
        shown, starts, numbers = _impressions(connection, number, amounts)
    # What impressions refer to is there before them.
    for table, content in ((FEATURES, features), (CANDIDATES, candidates), (IMPRESSIONS, shown)):
        if len(content) and (table != FEATURES or content.num_columns > 2):
            write_table(store, table, number, content, starts=starts and table == IMPRESSIONS)
    with store.engine.begin() as connection:
        finish_part(connection, number, numbers)
    return Sealed(number, numbers["impressions"], numbers["clicks"])


def write_table(store: Store, table: str, number: int, content: pa.Table, *, starts: bool = False) -> None:
    """Write one file of a part, whole or not at all."""
    metadata = {VERSION_KEY: VERSION.encode()}
    if table == IMPRESSIONS:
        metadata[PINNED_KEY] = str(len(content)).encode()
    if starts:
        metadata[STARTS_KEY] = str(len(content)).encode()
    buffer = io.BytesIO()
    plain = content.replace_schema_metadata(metadata)
    with pq.ParquetWriter(buffer, plain.schema, compression="zstd", store_schema=False) as writer:
        writer.write_table(plain)
        writer.add_key_value_metadata(metadata)
    path = store.log / f"{table}.parquet" / part_name(number)
    write_whole(path, buffer.getvalue(), read_back=lambda written: check_file(written, table))


def part_name(number: int) -> str:
    """The name of a part's files.

    >>> part_name(7)
    'part-00000007.parquet'
    """
    return f"part-{number:08d}.parquet"


def part_files(log: Path, table: str) -> list[tuple[int, Path]]:
    """The files of a table of a log, with the numbers of their parts, oldest first; −1 for other files."""
    found = []
    for file in sorted((log / f"{table}.parquet").glob("*.parquet")):
        digits = file.stem.removeprefix("part-")
        number = int(digits) if digits.isascii() and digits.isdigit() else -1
        found.append((number if file.name == part_name(number) else -1, file))
    return found


def _features(connection: Connection, number: int) -> pa.Table:
    """One row per document of the problems that are new in this part, with a column per feature."""
    wanted = (
        select(logged_problems.c.query_id, problems)
        .join(problems, problems.c.id == logged_problems.c.problem)
        .where(logged_problems.c.problem.in_(_shown(number)), logged_problems.c.part == number)
        .order_by(logged_problems.c.query_id)
    )
    queries: list[str] = []
    documents: list[str] = []
    # Problems with the same names of features, one after the other, as one matrix.
    blocks: list[tuple[tuple[str, ...], list[Float32]]] = []
    for row in connection.execute(wanted).mappings():
        problem = RankingProblem.from_row(row)
        queries += [row["query_id"]] * len(problem.documents)
        documents += problem.documents
        if not blocks or blocks[-1][0] != problem.feature_names:
            blocks.append((problem.feature_names, []))
        blocks[-1][1].append(problem.features)
    names = list(dict.fromkeys(name for own, _ in blocks for name in own))
    columns = {name: column for column, name in enumerate(names)}
    matrix = np.full((len(documents), len(names)), np.nan, np.float32)
    first = 0
    for own, features in blocks:
        values = np.concatenate(features)
        matrix[first : first + len(values), [columns[name] for name in own]] = values
        first += len(values)
    ids = {"query_id": pa.array(queries, pa.string()), "doc_id": pa.array(documents, pa.string())}
    return pa.table({**ids, **{name: pa.array(matrix[:, columns[name]]) for name in names}})


def _candidates(connection: Connection, number: int) -> pa.Table:
    """The scores that policies gave to candidates, where a policy scored a problem for the first time."""
    wanted = (
        select(policies.c.name, logged_problems.c.query_id, problems.c.documents, scorings.c.scores)
        .join_from(logged_scorings, policies, policies.c.number == logged_scorings.c.policy)
        .join(
            scorings,
            (scorings.c.problem == logged_scorings.c.problem)
            & (scorings.c.policy == logged_scorings.c.policy),
        )
        .join(problems, problems.c.id == logged_scorings.c.problem)
        .join(logged_problems, logged_problems.c.problem == logged_scorings.c.problem)
        .where(logged_scorings.c.problem.in_(_shown(number)), logged_scorings.c.part == number)
        .order_by(policies.c.number, logged_problems.c.query_id)
    )
    columns: dict[str, list[Any]] = {name: [] for name in ("policy_id", "query_id", "doc_id")}
    scores = []
    for row in connection.execute(wanted):
        documents = msgspec.msgpack.decode(row.documents)
        columns["policy_id"] += [row.name] * len(documents)
        columns["query_id"] += [row.query_id] * len(documents)
        columns["doc_id"] += documents
        scores.append(np.frombuffer(row.scores))
    values = np.concatenate(scores) if scores else np.zeros(0)
    return pa.table({**columns, "score": values}).cast(arrow_schema(CANDIDATES))


def _shown(number: int) -> Select[Any]:
    """The problems of a part."""
    return select(impressions.c.problem).where(impressions.c.part == number)


def _impressions(
    connection: Connection, number: int, amounts: Mapping[str, float]
) -> tuple[pa.Table, bool, dict[str, Any]]:
    """One row per document that a policy put at a position; pinned documents leave a gap.

    Pages that a user had beyond the cap are left out.
    """
    reactions = read_reactions(connection, number, amounts)
    wanted = (
        select(
            impressions.c.number,
            impressions.c.id,
            impressions.c.time,
            impressions.c.drawn,
            impressions.c.rules,
            logged_problems.c.query_id,
            problems.c.documents,
            policies.c.name,
        )
        .join(problems, problems.c.id == impressions.c.problem)
        .join(logged_problems, logged_problems.c.problem == impressions.c.problem)
        .join(policies, policies.c.number == impressions.c.policy)
        .where(impressions.c.part == number)
        .order_by(impressions.c.number)
    )
    schema = arrow_schema(IMPRESSIONS).append(pa.field(AMOUNT, pa.float64()))
    columns: dict[str, list[Any]] = {name: [] for name in schema.names}
    starts, times = True, []
    for row in connection.execute(wanted):
        times.append(row.time)
        rules = json.loads(row.rules)
        if UNCOUNTED in rules:
            continue
        pins, documents = read_pins(rules), msgspec.msgpack.decode(row.documents)
        drawn = [documents[place] for place in read_drawn(row.drawn)]
        shown = [(at, one) for at, one in place(drawn, pins, rules["top"]).items() if at not in pins]
        starts &= bool(shown) and shown[0][0] == 1
        moment = round(row.time * 1_000_000)
        for position, document in shown:
            reaction = reactions.get((row.number, document), Reaction())
            columns["impression_id"].append(row.id)
            columns["timestamp"].append(moment)
            columns["query_id"].append(row.query_id)
            columns["policy_id"].append(row.name)
            columns["position"].append(position)
            columns["doc_id"].append(document)
            columns["clicked"].append(reaction.clicked)
            columns[AMOUNT].append(reaction.amount)
    table = pa.table({name: pa.array(values, schema.field(name).type) for name, values in columns.items()})
    counts = {"impressions": len(times), "rows": len(table), "clicks": sum(columns["clicked"])}
    return table, starts, {**counts, "first_time": min(times), "last_time": max(times)}


__all__ = [
    "MANIFEST",
    "Sealed",
    "part_files",
    "part_name",
    "seal",
    "store_name",
    "write_manifest",
    "write_part",
    "write_table",
]
