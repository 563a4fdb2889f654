"""CLARA 2: does corrected relevance order labelled documents better than click rates?"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.csv
import pyarrow.parquet as pq

from rankloop import Bias, Log, load_bias, open_log
from rankloop.offline import Relevances
from rankloop.types import Float64

RESAMPLES, CONFIDENCE = 2_000, 0.9
# The curve that is assumed where only three ranks can be estimated.
CURVE = "position@10(eta=1)"


def compare_orders(log: Path, bias: Path, labels: Path) -> list[dict[str, Any]]:
    """How well several scores order pairs of documents with different labels, per query.

    Args:
        log: the imported log.
        bias: the bias that was estimated from it.
        labels: the table of labels.
    """
    opened = open_log(log)
    known = _labels(labels)
    rows = []
    for name, source in (("estimated, the first ranks", str(bias)), (f"assumed, {CURVE}", CURVE)):
        corrected, plain = (opened.relevance(bias=source, shrink=shrink) for shrink in (True, False))
        rates = plain.clicks / np.maximum(plain.displays, 1)
        # Click rates drawn to their mean in the same way: relevance under a bias that is the same everywhere.
        ranks = opened.count().positions if source == CURVE else _ranks(bias)
        blind = opened.relevance(bias=_flat(ranks))
        scores = {
            "click rate": rates,
            "mean position": _positions(opened, ranks),
            "click rate, drawn to the mean": blind.relevance,
            "corrected, not drawn to the mean": plain.relevance,
            "corrected relevance": corrected.relevance,
        }
        found = {key: dict(_accuracies(corrected, values, known)) for key, values in scores.items()}
        base = found["click rate"]
        for key, values in found.items():
            gain = np.array([values[query] - base[query] for query in values])
            low, high = _interval(gain)
            rows.append({
                "bias": name, "score": key, "queries": len(values),
                "accuracy": float(np.mean(list(values.values()))),
                "gain": float(gain.mean()), "low": low, "high": high,
            })  # fmt: skip
    return rows


def _positions(log: Log, ranks: int) -> Float64:
    """Minus the mean position of each document that was shown: the order of production."""
    counts = log.count(ranks)
    cells = counts.cells
    times, places = (
        np.bincount(cells.document, weights=values, minlength=counts.n_documents)
        for values in (cells.displays, cells.displays * cells.position)
    )
    return -(places[times > 0] / times[times > 0])


def _labels(path: Path) -> dict[tuple[str, str], float]:
    as_text = pyarrow.csv.ConvertOptions(column_types=dict.fromkeys(("query_id", "doc_id"), pyarrow.string()))
    table = pyarrow.csv.read_csv(path, convert_options=as_text).to_pydict()
    keys = zip(table["query_id"], table["doc_id"], strict=True)
    return dict(zip(keys, map(float, table["label"]), strict=True))


def _ranks(bias: Path) -> int:
    return load_bias(bias).positions


def _flat(ranks: int) -> Bias:
    return Bias(np.ones(ranks), np.zeros(ranks), np.ones(ranks))


def _accuracies(
    documents: Relevances, scores: Float64, labels: dict[tuple[str, str], float]
) -> Iterator[tuple[str, float]]:
    """The share of pairs with different labels that scores order like the labels; ties count half."""
    known = np.array(
        [labels.get(key, np.nan) for key in zip(documents.query_ids, documents.doc_ids, strict=True)]
    )
    for query in np.unique(documents.query_ids):
        own = (documents.query_ids == query) & np.isfinite(known)
        better = known[own][:, None] > known[own][None, :]
        if better.any():
            right = np.sign(scores[own][:, None] - scores[own][None, :]) / 2 + 0.5
            yield str(query), float(right[better].mean())


def _interval(gains: Float64) -> tuple[float, float]:
    """The percentile interval of a mean over queries."""
    rng = np.random.default_rng(0)
    means = gains[rng.integers(len(gains), size=(RESAMPLES, len(gains)))].mean(axis=1)
    low, high = np.quantile(means, [(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2])
    return float(low), float(high)


def table_of(rows: list[dict[str, Any]]) -> str:
    """The comparison as a table in Markdown."""
    lines = [
        "| bias | documents ordered by | pairs in the right order | minus click rate | 90 % interval |",
        "|---|---|---|---|---|",
    ]
    for row in rows:
        gain = "" if row["score"] == "click rate" else f"{row['gain']:+.4f}"
        ends = "" if row["score"] == "click rate" else f"{row['low']:+.4f} to {row['high']:+.4f}"
        lines.append(f"| {row['bias']} | {row['score']} | {row['accuracy']:.4f} | {gain} | {ends} |")
    return "\n".join(lines)


def write_click_rates(relevance: Path, out: Path) -> Path:
    """A table of scores by click rate, from the table that `rankloop relevance` wrote."""
    table = pq.read_table(relevance)
    pq.write_table(table.select(["query_id", "doc_id"]).append_column("score", table["click_rate"]), out)
    return out
