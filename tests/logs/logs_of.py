"""Logs to test with: rows in files, and their counts the slow way."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from rankloop.clicks import gather_log, users
from rankloop.logs import LogStatistics, PolicyTraffic
from rankloop.statistics import Exposure, Statistics, of_impressions
from rankloop.types import Bias, Split

BIAS = Bias(
    np.array([0.35, 0.53, 0.55]), beta=np.array([0.65, 0.26, 0.15]), examination=np.array([1.0, 0.8, 0.7])
)
TIME = pa.timestamp("us", tz="UTC")


class Row(NamedTuple):
    """A row of impressions."""

    impression_id: str | int
    query_id: str | int
    policy_id: str
    position: int
    doc_id: str | int
    clicked: bool
    timestamp: int | None = None


def write_rows(folder: Path, rows: Iterable[Row], candidates: Mapping[str, list[Any]] | None = None) -> Path:
    """A log as somebody else would write it."""
    folder.mkdir(parents=True)
    listed = list(rows)
    columns = {name: [getattr(row, name) for row in listed] for name in Row._fields}
    columns["timestamp"] = pa.array(columns["timestamp"], pa.int64()).cast(TIME)
    for name in ("impression_id", "query_id", "policy_id", "doc_id"):
        # A column without rows would have no type.
        columns[name] = pa.array(columns[name], None if listed else pa.string())
    columns["position"] = pa.array(columns["position"], pa.int64())
    columns["clicked"] = pa.array(columns["clicked"], pa.bool_())
    pq.write_table(pa.table(columns), folder / "impressions.parquet")
    if candidates is not None:
        pq.write_table(pa.table(dict(candidates)), folder / "candidates.parquet")
    return folder


def counted(rows: Iterable[Row]) -> dict[str, Counter[Any]]:
    """Displays and clicks by policy, query, document and position, and impressions by policy and query."""
    displays: Counter[Any] = Counter()
    clicks: Counter[Any] = Counter()
    impressions = set()
    for row in rows:
        cell = (row.policy_id, str(row.query_id), str(row.doc_id), row.position)
        displays[cell] += 1
        clicks[cell] += row.clicked
        impressions.add((row.impression_id, row.policy_id, str(row.query_id)))
    came = Counter((policy, query) for _, policy, query in impressions)
    return {"displays": displays, "clicks": +clicks, "came": came}


def simulated(seed: int = 0, queries: int = 6, impressions: int = 60) -> tuple[Split, list[PolicyTraffic]]:
    """A split whose ids are in order, and what two policies gathered on it; the later has the lower name."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 6, queries)
    docs = int(sizes.sum())
    split = Split.build(
        rng.normal(size=(docs, 4)),
        rng.integers(0, 5, docs),
        sizes=sizes,
        query_ids=[f"q{q}" for q in range(queries)],
        doc_ids=np.concatenate([[f"d{d}" for d in range(size)] for size in sizes]),
    )
    gathered = []
    for policy in ("z", "a"):
        scores = rng.normal(size=docs)
        log = gather_log(scores, split.offsets, split.labels / 4, users("paper@3"), impressions, rng)
        gathered.append(PolicyTraffic(policy, scores, log))
    return split, gathered


def statistics_in_memory(split: Split, gathered: list[PolicyTraffic], bias: Bias = BIAS) -> Statistics:
    """The same statistics without files."""
    total = Statistics.empty(split.offsets, bias.positions)
    for part in gathered:
        total = total + of_impressions(
            part.policy,
            split.offsets,
            Exposure.of_scores(part.scores, split.offsets, bias),
            queries=part.impressions.queries,
            rankings=part.impressions.rankings,
            clicks=part.impressions.clicks,
        )
    return total


def names_in_order(result: LogStatistics, split: Split) -> bool:
    """Whether queries and documents are those of the split, one by one."""
    assert split.doc_ids is not None
    return result.query_ids.tolist() == split.query_ids.tolist() and (
        result.doc_ids.tolist() == split.doc_ids.tolist()
    )
