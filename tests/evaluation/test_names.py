"""Parsing of metric names."""

from __future__ import annotations

import pytest

from rankloop.errors import RankloopError
from rankloop.evaluation import ARP, DCG, MRR, NDCG, NRCTR, RCTR, Metric, Precision, metric


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("ndcg@5", NDCG(5)),
        ("ndcg@10(gain=exponential)", NDCG(10, gain="exponential")),
        ("ndcg", NDCG()),
        ("dcg@5(no_relevant=skip)", DCG(5, no_relevant="skip")),
        ("mrr", MRR()),
        ("mrr@10(relevant_from=2)", MRR(10, relevant_from=2)),
        ("precision@5(relevant_from=0.5)", Precision(5, relevant_from=0.5)),
        ("arp(gain=exponential)", ARP(gain="exponential")),
        ("rctr@5(max_label=2)", RCTR(5, max_label=2)),
        ("nrctr@5(no_relevant=one)", NRCTR(5, no_relevant="one")),
    ],
)
def test_names_are_parsed_and_formatted(text: str, expected: Metric) -> None:
    assert metric(text) == expected
    assert str(expected) == text


def test_options_at_their_default_are_omitted() -> None:
    assert str(metric("ndcg@5(gain=linear, no_relevant=zero)")) == "ndcg@5"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("ndgc@5", r"unknown metric 'ndgc', did you mean 'ndcg'"),
        ("NDCG@5", r"unknown metric 'NDCG', did you mean 'ndcg'"),
        ("ndcg@5(gian=linear)", r"unknown option of 'ndcg' 'gian', did you mean 'gain'"),
        ("ndcg@5(cutoff=3)", r"unknown option of 'ndcg' 'cutoff'"),
        ("ndcg@5(gain=square)", r"option 'gain' of 'ndcg@5\(gain=square\)': unknown value 'square'"),
        ("ndcg@5(no_relevant=on)", r"option 'no_relevant' of 'ndcg@5.*': .*did you mean 'one'"),
        ("dcg@5(no_relevant=one)", r"'no_relevant' of the metric 'dcg': unknown value 'one'"),
        (
            "mrr(relevant_from=high)",
            r"option 'relevant_from' of 'mrr\(relevant_from=high\)': expected a number",
        ),
        ("mrr(relevant_from=0)", r"'relevant_from' of the metric 'mrr': expected a number above 0"),
        ("rctr@5(max_label=-4)", r"'max_label' of the metric 'rctr': expected a number above 0"),
        ("precision", r"'precision' needs a cut-off: precision@5"),
        ("rctr", r"'rctr' needs a cut-off"),
        ("nrctr", r"'nrctr' needs a cut-off"),
        (
            "arp(no_relevant=zero)",
            r"'no_relevant' of the metric 'arp': unknown value 'zero'; there are: skip",
        ),
        ("arp@5", r"'arp' takes no cut-off"),
    ],
)
def test_invalid_names_are_rejected(text: str, message: str) -> None:
    with pytest.raises(RankloopError, match=message):
        metric(text)
