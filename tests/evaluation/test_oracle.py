"""Metrics of rankings agree with ir-measures, including ties and queries of different sizes."""

from __future__ import annotations

import ir_measures
import numpy as np
import pytest
from ir_measures import RR, P, nDCG
from numpy.typing import NDArray

from rankloop.evaluation import metric

EXPONENTIAL = {label: 2**label - 1 for label in range(5)}
PAIRS = [
    ("ndcg", nDCG),
    ("ndcg@1", nDCG @ 1),
    ("ndcg@5", nDCG @ 5),
    ("ndcg@10(gain=exponential)", nDCG(gains=EXPONENTIAL) @ 10),
    ("precision@1", P @ 1),
    ("precision@5", P @ 5),
    ("precision@10(relevant_from=3)", P(rel=3) @ 10),
    ("mrr", RR),
    ("mrr@5", RR @ 5),
    ("mrr@3(relevant_from=2)", RR(rel=2) @ 3),
]
N_QUERIES = 60


def oracle(
    measure: object, scores: NDArray[np.float64], labels: NDArray[np.int64], offsets: NDArray[np.int64]
) -> NDArray[np.float64]:
    # The providers behind ir-measures break ties in different ways: a slope too small to reorder unequal
    # scores (they differ by 1/4, queries have fewer than 25 documents) makes ties follow document order.
    rows = [(str(q), str(d), d) for q in range(N_QUERIES) for d in range(offsets[q], offsets[q + 1])]
    sloped = scores - (np.arange(len(scores)) - np.repeat(offsets[:-1], np.diff(offsets))) / 1000
    qrels = [ir_measures.Qrel(q, document, int(labels[d])) for q, document, d in rows]
    run = [ir_measures.ScoredDoc(q, document, float(sloped[d])) for q, document, d in rows]
    values = {result.query_id: result.value for result in ir_measures.iter_calc([measure], qrels, run)}
    return np.array([values[str(q)] for q in range(N_QUERIES)])


@pytest.mark.parametrize(("name", "measure"), PAIRS, ids=[name for name, _ in PAIRS])
def test_equals_ir_measures(name: str, measure: object, rng: np.random.Generator) -> None:
    offsets = np.concatenate([[0], np.cumsum(rng.integers(1, 25, N_QUERIES))])
    # Few different scores, so that most queries have ties; skewed labels, so that some have no relevant
    # document.
    scores = rng.integers(0, 8, offsets[-1]) / 4
    labels = rng.choice(5, offsets[-1], p=[0.7, 0.1, 0.1, 0.05, 0.05])
    ours = metric(name).of_ranking(scores, labels, offsets)
    np.testing.assert_allclose(ours, oracle(measure, scores, labels, offsets), rtol=1e-12)
    assert len(np.unique(ours)) > 1
    assert (ours == 0.0).any()
