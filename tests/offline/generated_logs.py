"""Logs of all sizes and kinds, each from a seed: what reality varies, in folders to open."""

from __future__ import annotations

import json
import random
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from rankloop.logs.folder import RANDOMISED_KEY

SIZES = (10, 30, 100, 300, 1_000, 1_000, 3_000, 3_000, 10_000, 10_000)
TIME = pa.timestamp("us", tz="UTC")
MINUTE = 60 * 10**6


@dataclass(frozen=True)
class Kind:
    """What a log is like.

    Attributes:
        impressions: how many it has.
        queries: how many it draws from; 0 for one of its own per impression.
        documents: how many a query has, at most.
        positions: how many an impression shows, at most.
        policies: how each of them draws: ``fixed``, ``random``, ``peaked`` or ``exploring``.
        declared: whether random policies are declared to be.
        shared: whether queries share their documents.
        lengths: whether lists have different lengths.
        candidates: ``none``, ``all``, or of ``some`` queries.
        gaps: ``none``, ``first`` position, ``inner``, or at ``random``.
        features: ``none``, ``all``, of ``some`` documents, with ``missing`` values, or ``flat``.
        clicks: ``none``, ``few``, ``usual``, ``many``, ``all``, or only at the ``first`` position.
        amounts: whether displays have an amount.
        times: whether impressions have one: ``none``, ``some`` or ``all``.
        repeated: whether some rows are repeated, as a careless program writes them.
    """

    impressions: int
    queries: int
    documents: int
    positions: int
    policies: tuple[str, ...]
    declared: bool
    shared: bool
    lengths: bool
    candidates: str
    gaps: str
    features: str
    clicks: str
    amounts: bool
    times: str
    repeated: bool

    @classmethod
    def draw(cls, seed: int) -> Kind:
        """The kind of a seed."""
        chosen = random.Random(seed)
        pick = chosen.choice
        impressions = pick(SIZES)
        return cls(
            impressions=impressions,
            queries=min(pick((1, 2, 5, 19, 60, 300, 1_500, 0)), impressions),
            documents=pick((1, 3, 6, 12, 25)),
            positions=pick((1, 2, 3, 5, 10, 25)),
            policies=tuple(
                pick(("fixed", "random", "peaked", "exploring")) for _ in range(pick((1, 1, 2, 4)))
            ),
            declared=chosen.random() < 0.3,
            shared=chosen.random() < 0.5,
            lengths=chosen.random() < 0.3,
            candidates=pick(("none", "none", "all", "all", "some")),
            gaps=pick(("none", "none", "none", "none", "first", "inner", "random")),
            features=pick(("none", "all", "all", "all", "some", "missing", "missing", "flat")),
            clicks=pick(("usual",) * 12 + ("none", "few", "many", "all", "first")),
            amounts=chosen.random() < 0.2,
            times=pick(("all", "all", "none", "some")),
            repeated=chosen.random() < 0.03,
        )

    def __str__(self) -> str:
        return json.dumps(asdict(self))


def write_log(folder: Path, seed: int) -> Kind:
    """Write the log of a seed, and return its kind."""
    kind, rng = Kind.draw(seed), np.random.default_rng(seed)
    queries = kind.queries or kind.impressions
    sizes = rng.integers(1, kind.documents + 1, queries)
    offsets = np.append(0, np.cumsum(sizes))
    numbers = [rng.permutation(kind.documents)[:size] for size in sizes]
    features = rng.normal(size=(offsets[-1], 3))
    if kind.shared:
        # A document has the same features, whatever the query.
        features = rng.normal(size=(kind.documents, 3))[np.concatenate(numbers)]
    most = {"none": 0.0, "few": 0.01, "many": 0.95, "all": 1.0}.get(kind.clicks, 0.8)
    relevance = most / (1.0 + np.exp(-features @ [2.0, -1.5, 0.0] - 0.5 * rng.normal(size=offsets[-1])))
    if kind.clicks in ("many", "all"):
        relevance[:] = most
    examination = 1.0 / np.arange(1, 26) ** (0.0 if kind.clicks in ("many", "all") else 0.6)
    trust = 0.0 if kind.clicks in ("none", "few") else 0.1
    if kind.clicks == "first":
        examination[1:] = trust = 0.0
    scores = [_scores(one, features, rng) for one in kind.policies]
    rows: list[tuple[int, int, int, int, int, bool]] = []
    for number in range(kind.impressions):
        policy = number * len(kind.policies) // kind.impressions
        query = number if not kind.queries else int(rng.integers(queries))
        size = int(sizes[query])
        own = scores[policy][offsets[query] : offsets[query + 1]]
        noise = 0.0 if kind.policies[policy] == "fixed" else rng.gumbel(size=size)
        order = np.argsort(-own - noise, kind="stable")
        length = min(kind.positions, size)
        if kind.lengths:
            length = int(rng.integers(1, length + 1))
        for rank, where in enumerate(_positions(kind.gaps, length, rng)[:length]):
            pair = int(offsets[query] + order[rank])
            chance = examination[min(where, 24)] * (relevance[pair] + trust * (where == 0))
            rows.append((number, query, policy, where + 1, pair, bool(rng.random() < chance)))
    if kind.repeated:
        rows += rows[:: max(len(rows) // 5, 1)]
    documents = np.concatenate(numbers)
    folder.mkdir(parents=True)
    _write_impressions(folder, kind, rows, documents, rng)
    query_of = np.repeat(np.arange(queries), sizes)
    if kind.candidates != "none":
        _write_candidates(folder, kind, scores, query_of, documents)
    if kind.features != "none":
        _write_features(folder, kind, features, query_of, documents, rng)
    return kind


def _scores(policy: str, features: NDArray[np.float64], rng: np.random.Generator) -> NDArray[np.float64]:
    scale = {"fixed": 1.0, "random": 0.0, "peaked": 6.0, "exploring": 1.0}[policy]
    return np.asarray(scale * (features @ rng.normal(size=3)) / 2.0)


def _positions(gaps: str, length: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """The positions of an impression, from 0."""
    places = np.arange(length + 3)
    if gaps == "first":
        return places + (rng.random() < 0.5)
    if gaps == "inner":
        return places[places != 1] if rng.random() < 0.3 else places
    if gaps == "random":
        return places[rng.random(len(places)) < 0.8][:length]
    return places


def _document(kind: Kind, query: int, document: int) -> str:
    return f"d{document}" if kind.shared else f"q{query}-d{document}"


def _write_impressions(
    folder: Path,
    kind: Kind,
    rows: list[tuple[int, int, int, int, int, bool]],
    documents: NDArray[np.int64],
    rng: np.random.Generator,
) -> None:
    table = {
        "impression_id": [f"i{number}" for number, *_ in rows],
        "query_id": [f"q{query}" for _, query, *_ in rows],
        "policy_id": [f"p{policy}" for _, _, policy, *_ in rows],
        "position": pa.array([position for *_, position, _, _ in rows], pa.int64()),
        "doc_id": [_document(kind, row[1], int(documents[row[4]])) for row in rows],
        "clicked": pa.array([clicked for *_, clicked in rows], pa.bool_()),
    }
    times = [number * MINUTE for number, *_ in rows]
    known = {"none": lambda _: False, "some": lambda at: at % 3, "all": lambda _: True}[kind.times]
    timed = [time if known(row[0]) else None for time, row in zip(times, rows, strict=True)]
    table["timestamp"] = pa.array(timed, pa.int64()).cast(TIME)
    if kind.amounts:
        table["amount"] = [float(rng.choice([1.0, 1.0, 5.0])) * row[5] for row in rows]
    names = [f"p{number}" for number, policy in enumerate(kind.policies) if policy == "random"]
    known_random = {RANDOMISED_KEY: json.dumps(names if kind.declared else [])}
    pq.write_table(pa.table(table).replace_schema_metadata(known_random), folder / "impressions.parquet")


def _write_candidates(
    folder: Path,
    kind: Kind,
    scores: list[NDArray[np.float64]],
    query_of: NDArray[np.int64],
    documents: NDArray[np.int64],
) -> None:
    kept = np.ones(len(query_of), np.bool_) if kind.candidates == "all" else query_of % 3 > 0
    pairs = [(int(query_of[pair]), int(documents[pair]), pair) for pair in np.flatnonzero(kept)]
    table = {
        "policy_id": [f"p{number}" for number in range(len(scores)) for _ in pairs],
        "query_id": [f"q{query}" for _ in scores for query, _, _ in pairs],
        "doc_id": [_document(kind, query, document) for _ in scores for query, document, _ in pairs],
        "score": pa.array([float(own[pair]) for own in scores for *_, pair in pairs], pa.float64()),
    }
    pq.write_table(
        pa.table({name: _texts(values) for name, values in table.items()}), folder / "candidates.parquet"
    )


def _write_features(
    folder: Path,
    kind: Kind,
    features: NDArray[np.float64],
    query_of: NDArray[np.int64],
    documents: NDArray[np.int64],
    rng: np.random.Generator,
) -> None:
    values = features.copy()
    if kind.features == "missing":
        values[rng.random(values.shape) < 0.3] = np.nan
    if kind.features == "flat":
        values[:] = 1.0
    kept = np.ones(len(query_of), np.bool_) if kind.features != "some" else rng.random(len(query_of)) < 0.7
    table = {
        "query_id": _texts([f"q{query}" for query in query_of[kept]]),
        "doc_id": _texts(
            [_document(kind, int(q), int(d)) for q, d in zip(query_of[kept], documents[kept], strict=True)]
        ),
        **{f"feature {number}": values[kept, number] for number in range(values.shape[1])},
    }
    pq.write_table(pa.table(table), folder / "features.parquet")


def _texts(values: object) -> object:
    # A column without rows would have no type.
    return pa.array(values, pa.string()) if isinstance(values, list) else values
