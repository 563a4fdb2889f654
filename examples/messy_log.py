"""A shop's click log in the format of OpenSearch's User Behavior Insights, with known defects.

    python -m examples.messy_log shop --impressions 20000 --seed 0

Users are simulated, so that the results of an import, a bias estimate and an evaluation can be compared with
the truth. The folder will contain

    ubi_queries.jsonl  ubi_events.jsonl    the log of the shop
    features.parquet                       features of its products
    truth/relevance.parquet                the relevance of every document
    truth/users.json                       how users click: α, β and examination by rank
    truth/planted.json                     the number of planted defects of each kind

Rankings are drawn from the scores of two policies, one after the other: ``production``, which was fitted to a
few labels, and ``production-2``, which was fitted to more.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from rankloop.clicks import bias_of, gather_log, users
from rankloop.logs import PolicyTraffic
from rankloop.types import Float64, Split

USERS = users("paper@5")
GRADES = 4
FEATURES = (
    "text_match", "popularity", "price", "rating", "reviews", "age",
    "discount", "stock", "margin", "photos", "brand", "delivery",
)  # fmt: skip
COLOURS = (
    "red", "blue", "green", "black", "white", "grey", "brown", "pink",
    "navy", "beige", "gold", "silver", "olive", "teal", "plum", "rust",
)  # fmt: skip
THINGS = (
    "shoes", "shirt", "lamp", "chair", "table", "sofa", "clock", "mug", "bag", "hat", "coat",
    "dress", "scarf", "rug", "desk", "bed", "vase", "plate", "bowl", "kettle", "phone", "boots",
)  # fmt: skip
# Candidates per query, from the first number to below the second: more than are shown, for item selection.
SIZES = (8, 16)
# Number of labelled queries that each policy was fitted to, and the standard deviation of its scores.
LABELLED = {"production": 5, "production-2": 40}
SPREAD = 1.0
BEGINNING, LENGTH = datetime(2026, 3, 2, tzinfo=UTC), timedelta(days=28)
# How far the clocks of a server and of some clients are behind.
SERVER_BEHIND, CLIENT_BEHIND = timedelta(hours=3), timedelta(minutes=10)
# One in this many searches or clicks has the defect.
OF_SEARCHES = {
    "broken_lines": 500,
    "duplicate_rows": 100,
    "empty_impressions": 150,
    "mixed_impressions": 1_000,
    "repeated_positions": 400,
    "repeated_documents": 250,
    "missing_times": 300,
    "score_conflicts": 800,
    "clock_jumps": 700,
}
OF_CLICKS = {
    "broken_lines": 3_000,
    "repeated_clicks": 120,
    "clicks_without_impression": 200,
    "clicks_not_shown": 350,
    "disagreeing_positions": 90,
    "early_clicks": 600,
    "add_to_cart": 60,
    "purchase": 240,
}


@dataclass
class Planted:
    """What a correct import keeps, and the planted defects, under the names that an import reports."""

    impressions: int
    rows: int
    clicks: int
    problems: Counter[str] = field(default_factory=Counter)
    aside: Counter[str] = field(default_factory=Counter)


@dataclass(frozen=True)
class Messy:
    """What `write` has written.

    Attributes:
        folder: the folder of the files.
        split: queries and documents, with their true grades as labels.
        gathered: the contents of the log after all defects are repaired.
        planted: the planted defects.
    """

    folder: Path
    split: Split
    gathered: tuple[PolicyTraffic, ...]
    planted: Planted


def shop(queries: int, rng: np.random.Generator) -> Split:
    """Generate queries with candidates; relevance is a nonlinear function of the features."""
    texts = [f"{colour} {thing}" for thing in THINGS for colour in COLOURS][:queries]
    if len(texts) < queries:
        raise ValueError(f"there are words for {len(texts)} queries, not for {queries}")
    sizes = rng.integers(*SIZES, queries)
    features = rng.normal(size=(sizes.sum(), len(FEATURES))).astype(np.float32)
    match, popular, price, rating, reviews, age = features.T[:6]
    liking = match + 0.7 * popular * rating - 0.5 * np.abs(price) + 0.4 * np.maximum(reviews, 0) - 0.3 * age
    chance = 1 / (1 + np.exp(-1.5 * (liking + 0.5 * rng.normal(size=len(liking)))))
    grades = np.round(GRADES * chance)
    skus = [f"sku-{number:05d}" for number in range(len(grades))]
    return Split.build(features, grades, sizes, query_ids=texts, doc_ids=skus)


def scores_of(split: Split, labelled: int) -> Float64:
    """Score documents by a linear ranker that is fitted to the labels of the first queries."""
    known = slice(0, split.offsets[labelled])
    weights = np.linalg.lstsq(split.features[known], split.labels[known], rcond=None)[0]
    scores = split.features.astype(np.float64) @ weights
    # Rounded, so that the logged scores are exactly those that rankings are drawn from.
    return np.round(SPREAD * scores / scores.std(), 4)


def gathered_by(split: Split, impressions: int, rng: np.random.Generator) -> tuple[PolicyTraffic, ...]:
    """Simulate users under one policy after the other; some queries come more often than others."""
    frequencies = 1 / np.sqrt(1 + np.arange(split.n_queries))
    halves = (impressions // 2, impressions - impressions // 2)
    parts = []
    for (policy, labelled), half in zip(LABELLED.items(), halves, strict=True):
        scores = scores_of(split, min(labelled, split.n_queries))
        relevance = split.labels / GRADES
        log = gather_log(scores, split.offsets, relevance, USERS, half, rng, frequencies=frequencies)
        parts.append(PolicyTraffic(policy, scores, log))
    return tuple(parts)


class LogDraft:
    """The two files while they are being built: searches, clicks, and lines to insert between them."""

    def __init__(self, split: Split, parts: tuple[PolicyTraffic, ...], rng: np.random.Generator) -> None:
        self.split, self.rng = split, rng
        self.queries: list[dict[str, Any]] = []
        self.clicks: list[dict[str, Any]] = []
        self.extra_queries: list[tuple[int, str]] = []
        self.extra_events: list[tuple[int, str]] = []
        total = sum(len(part.impressions.queries) for part in parts)
        self.step = LENGTH / total
        for part in parts:
            self._write_down(part)
        rows = sum(len(query["query_response_hit_ids"]) for query in self.queries)
        self.planted = Planted(len(self.queries), rows, len(self.clicks))

    def _write_down(self, part: PolicyTraffic) -> None:
        impressions, scores = part.impressions, np.asarray(part.scores)
        assert self.split.doc_ids is not None
        for query, ranking, clicked in zip(
            impressions.queries, impressions.rankings, impressions.clicks, strict=True
        ):
            number = len(self.queries)
            begin, end = self.split.offsets[query : query + 2]
            documents = self.split.doc_ids[begin:end].tolist()
            shown = [documents[document] for document in ranking if document >= 0]
            self.queries.append(
                {
                    "application": "shop",
                    "query_id": f"search-{number:07d}",
                    "client_id": f"client-{self.rng.integers(10_000):04d}",
                    "user_query": str(self.split.query_ids[query]),
                    "timestamp": _time(self.when(number)),
                    "query_response_hit_ids": shown,
                    "query_attributes": {
                        "policy_id": part.policy,
                        "scores": dict(zip(documents, scores[begin:end].tolist(), strict=True)),
                    },
                }
            )
            self.clicks += [self.click(number, shown[rank], rank) for rank in np.flatnonzero(clicked)]

    def when(self, number: int) -> datetime:
        """Return the time of a search."""
        return BEGINNING + number * self.step

    def click(self, number: int, document: str, ordinal: int) -> dict[str, Any]:
        """Build a click some seconds after its search; clients of this shop count positions from 0."""
        return {
            "application": "shop",
            "action_name": "click",
            "query_id": f"search-{number:07d}",
            "client_id": self.queries[number]["client_id"],
            "timestamp": _time(self.when(number) + timedelta(seconds=float(self.rng.uniform(2, 60)))),
            "event_attributes": {
                "object": {"object_id": document, "object_id_field": "sku"},
                "position": {"ordinal": int(ordinal)},
            },
        }

    def add_query(self, after: int, record: dict[str, Any] | str) -> None:
        """Insert a line after that of a search."""
        self.extra_queries.append((after, record if isinstance(record, str) else json.dumps(record)))

    def add_event(self, after: int, record: dict[str, Any] | str) -> None:
        """Insert a line after that of a click."""
        self.extra_events.append((after, record if isinstance(record, str) else json.dumps(record)))

    def plant(self) -> None:
        """Plant all defects, each in searches and clicks without other defects, so that they add up."""
        searches = self._chosen(len(self.queries), OF_SEARCHES)
        self._repeat_searches(searches)
        self._spoil_searches(searches)
        self._spoil_clicks(self._chosen(len(self.clicks), OF_CLICKS))

    def _chosen(self, size: int, one_in: dict[str, int]) -> dict[str, list[int]]:
        """Choose the searches or clicks of each defect, at least one."""
        left = self.rng.permutation(size).tolist()
        return {name: [left.pop() for _ in range(max(1, size // share))] for name, share in one_in.items()}

    def _repeat_searches(self, searches: dict[str, list[int]]) -> None:
        """Add lines to those of the searches, which stay as they are."""
        found, queries = self.planted.problems, self.queries
        for number in searches["broken_lines"]:
            # Half of a line, as written by a process that was killed, and then the whole line.
            self.add_query(number - 1, _half(queries[number]))
            found["broken_lines"] += 1
        for number in searches["duplicate_rows"]:
            self.add_query(number, queries[number])
            found["duplicate_rows"] += len(queries[number]["query_response_hit_ids"])
        for number in searches["empty_impressions"]:
            self.add_query(number, self._other(number, "nothing", []))
            found["empty_impressions"] += 1
        for number in searches["mixed_impressions"]:
            # One id for two searches.
            text = queries[number]["user_query"]
            other = next(query for query in queries if query["user_query"] != text)
            for query in (queries[number], other):
                record = self._other(number, "twice", query["query_response_hit_ids"])
                self.add_query(number, record | {"user_query": query["user_query"]})
            found["mixed_impressions"] += 1
        for number in searches["repeated_positions"]:
            # Two pages under one id, the second counted from the top again.
            candidates = list(queries[number]["query_attributes"]["scores"])
            ranks = USERS.behaviour.positions
            for shown in (candidates[:ranks], candidates[ranks : 2 * ranks]):
                self.add_query(number, self._other(number, "pages", shown))
            found["repeated_positions"] += 1
            event = self.click(number, candidates[0], 0) | {"query_id": f"pages-{number:07d}"}
            self.add_event(len(self.clicks) - 1, event)
            found["clicks_on_left_out"] += 1

    def _other(self, number: int, name: str, shown: list[str]) -> dict[str, Any]:
        """Build another search at the time of this one, without scores: an import leaves it out."""
        query = self.queries[number]
        return query | {
            "query_id": f"{name}-{number:07d}",
            "query_response_hit_ids": shown,
            "query_attributes": {"policy_id": query["query_attributes"]["policy_id"]},
        }

    def _spoil_searches(self, searches: dict[str, list[int]]) -> None:
        found, queries = self.planted.problems, self.queries
        for number in searches["repeated_documents"]:
            # An advertisement for a document that is already shown above.
            shown = queries[number]["query_response_hit_ids"]
            shown.append(shown[0])
            found["repeated_documents"] += 1
        for number in searches["missing_times"]:
            queries[number]["timestamp"] = None
            found["missing_times"] += 1
        jumped: set[int] = set()
        for number in searches["clock_jumps"]:
            # It is not a jump if the clock of the search before is behind too.
            if number and jumped.isdisjoint(range(number - 5, number + 6)):
                jumped.add(number)
                queries[number]["timestamp"] = _time(self.when(number) - SERVER_BEHIND)
                found["clock_jumps"] += 1
        first: dict[tuple[str, str], int] = {}
        for number, query in enumerate(queries):
            first.setdefault(_asked(query), number)
        for number in searches["score_conflicts"]:
            # Two scores of one policy, once per query; the first, which is kept, is correct.
            if first.pop(_asked(queries[number]), number) != number:
                scores = queries[number]["query_attributes"]["scores"]
                scores[next(iter(scores))] += 0.5
                found["score_conflicts"] += 1

    def _spoil_clicks(self, clicks: dict[str, list[int]]) -> None:
        found, events = self.planted.problems, self.clicks
        for number in clicks["broken_lines"]:
            self.add_event(number - 1, _half(events[number]))
            found["broken_lines"] += 1
        for number in clicks["repeated_clicks"]:
            self.add_event(number, events[number])
            found["repeated_clicks"] += 1
        for i, number in enumerate(clicks["clicks_without_impression"]):
            self.add_event(number, events[number] | {"query_id": f"lost-{number:07d}" if i % 2 else None})
            found["clicks_without_impression"] += 1
        for number in clicks["clicks_not_shown"]:
            # A recommendation next to the results.
            away = {"event_attributes": {"object": {"object_id": "sku-of-the-day"}}}
            self.add_event(number, events[number] | away)
            found["clicks_not_shown"] += 1
        for number in clicks["disagreeing_positions"]:
            # A client that counts positions from 1.
            events[number]["event_attributes"]["position"]["ordinal"] += 1
            found["disagreeing_positions"] += 1
        for number in clicks["early_clicks"]:
            searched = self.queries[int(events[number]["query_id"].removeprefix("search-"))]["timestamp"]
            if searched is not None:
                events[number]["timestamp"] = _time(datetime.fromisoformat(searched) - CLIENT_BEHIND)
                found["early_clicks"] += 1
        for action in ("add_to_cart", "purchase"):
            for number in clicks[action]:
                self.add_event(number, events[number] | {"action_name": action})
                self.planted.aside[f"events of action {action!r}"] += 1

    def lines(self) -> tuple[list[str], list[str]]:
        """Return the lines of the two files."""
        return (
            _merged([json.dumps(query) for query in self.queries], self.extra_queries),
            _merged([json.dumps(click) for click in self.clicks], self.extra_events),
        )


def write(folder: Path, *, impressions: int = 20_000, queries: int = 300, seed: int = 0) -> Messy:
    """Write the log, the features and the truth."""
    rng = np.random.default_rng(seed)
    split = shop(queries, rng)
    parts = gathered_by(split, impressions, rng)
    log = LogDraft(split, parts, rng)
    log.plant()
    truth = folder / "truth"
    truth.mkdir(parents=True, exist_ok=True)
    for name, lines in zip(("ubi_queries", "ubi_events"), log.lines(), strict=True):
        (folder / f"{name}.jsonl").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    assert split.doc_ids is not None
    ids = {"query_id": np.repeat(split.query_ids, split.sizes).tolist(), "doc_id": split.doc_ids.tolist()}
    columns = dict(zip(FEATURES, split.features.T, strict=True))
    pq.write_table(pa.table(ids | columns), folder / "features.parquet")
    pq.write_table(pa.table(ids | {"relevance": split.labels / GRADES}), truth / "relevance.parquet")
    bias = bias_of(USERS)
    people = {name: getattr(bias, name).tolist() for name in ("alpha", "beta", "examination")}
    for name, value in (("users", people), ("planted", vars(log.planted))):
        (truth / f"{name}.json").write_text(json.dumps(value, indent=2) + "\n")
    return Messy(folder, split, parts, log.planted)


def _time(when: datetime) -> str:
    return when.isoformat(timespec="milliseconds")


def _half(record: dict[str, Any]) -> str:
    line = json.dumps(record)
    return line[: len(line) // 2]


def _asked(query: dict[str, Any]) -> tuple[str, str]:
    """Return the policy and the text of a search."""
    return query["query_attributes"]["policy_id"], query["user_query"]


def _merged(lines: list[str], extra: list[tuple[int, str]]) -> list[str]:
    """Insert extra lines, each after the line with its number; -1 is before the first."""
    after: dict[int, list[str]] = {}
    for number, line in extra:
        after.setdefault(int(number), []).append(line)
    merged = after.get(-1, [])[:]
    for number, line in enumerate(lines):
        merged += [line, *after.get(number, [])]
    return merged


def main() -> None:
    """Write a log, and print the planted defects."""
    parser = argparse.ArgumentParser(prog="python -m examples.messy_log", description=__doc__.split("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--impressions", type=int, default=20_000)
    parser.add_argument("--queries", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    sizes = {"impressions": options.impressions, "queries": options.queries}
    planted = write(options.folder, **sizes, seed=options.seed).planted
    print(f"{planted.impressions:,} impressions, {planted.rows:,} rows, {planted.clicks:,} clicks; planted:")
    for name, count in sorted((planted.problems + planted.aside).items()):
        print(f"{count:8,}  {name}")


if __name__ == "__main__":
    main()
