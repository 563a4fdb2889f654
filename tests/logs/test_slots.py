"""The slots of impressions with gaps: what the k-th document of a ranking is worth there."""

from __future__ import annotations

from collections import Counter, defaultdict
from pathlib import Path

import numpy as np
import pytest

from rankloop.logs.slots import Gaps
from rankloop.offline import Log, open_log
from rankloop.policies import rank_marginals
from rankloop.rank_weights import dcg
from tests.logs.logs_of import BIAS, Row, write_rows

VECTORS = np.stack([dcg(3), np.array([0.3, 0.2, 0.1])])


def rows_with_gaps(seed: int = 0) -> list[Row]:
    rng = np.random.default_rng(seed)
    rows = []
    for number in range(60):
        query, policy = f"q{rng.integers(4)}", "ab"[number % 2]
        positions = np.flatnonzero(rng.random(6) < 0.6) + 1
        docs = rng.permutation(6)[: len(positions)]
        rows += [
            Row(f"i{number}", query, policy, int(position), f"d{document}", False)
            for position, document in zip(positions, docs, strict=True)
        ]
    return rows


def slots_of(rows: list[Row]) -> dict[tuple[str, object], list[list[int]]]:
    """The positions of every impression, by policy and query."""
    impressions = defaultdict(list)
    for row in rows:
        impressions[row.impression_id, row.policy_id, row.query_id].append(row.position)
    result = defaultdict(list)
    for (_, policy, query), positions in impressions.items():
        result[policy, query].append(sorted(positions))
    return result


@pytest.fixture
def log(tmp_path: Path) -> Log:
    return open_log(write_rows(tmp_path / "log", rows_with_gaps()))


def test_rank_weights_are_those_of_every_impressions_slots(log: Log) -> None:
    found = log.slots().rank_weights(log.count(3), VECTORS)
    assert found is not None
    all_slots = slots_of(rows_with_gaps())
    theta = np.concatenate([VECTORS, np.zeros((2, 4))], axis=1)
    for number, query in enumerate(log.count(3).query_ids):
        impressions = [slots for (_, at), many in all_slots.items() if at == query for slots in many]
        expected = np.zeros((2, 3))
        for slots in impressions:
            for k, position in enumerate(slots[:3]):
                expected[:, k] += theta[:, position - 1] / len(impressions)
        np.testing.assert_allclose(found[number], expected, atol=1e-12)


def test_the_summary_counts_leading_inner_and_short(log: Log) -> None:
    impressions = [slots for many in slots_of(rows_with_gaps()).values() for slots in many]
    summary = log.slots().gaps
    assert summary.impressions == len(impressions)
    assert summary.leading == sum(slots[0] > 1 for slots in impressions)
    assert summary.inner == sum(slots[-1] - slots[0] + 1 > len(slots) for slots in impressions)
    assert summary.gapped == sum(slots[-1] > len(slots) for slots in impressions)
    # Most impressions of a policy end at one position, the lowest of those that are equally frequent.
    ends = {policy: Counter(last for (by, _), many in slots_of(rows_with_gaps()).items() if by == policy
                            for *_, last in many) for policy in "ab"}  # fmt: skip
    usual = {policy: max(own, key=lambda end, own=own: (own[end], end)) for policy, own in ends.items()}
    assert summary.short == sum(
        n for policy, own in ends.items() for end, n in own.items() if end < usual[policy]
    )
    assert sum(times for _, times in summary.patterns) <= summary.gapped
    assert "positions without a row" in summary.notes[0]


def test_a_log_without_gaps_needs_no_weights_of_its_own(tmp_path: Path) -> None:
    rows = [Row(f"i{n}", "q", "a", k + 1, f"d{(n + k) % 3}", False) for n in range(5) for k in range(3)]
    log = open_log(write_rows(tmp_path / "log", rows))
    assert log.slots().rank_weights(log.count(3), VECTORS) is None
    assert log.slots().gaps == Gaps(5, 0, 0, 0, 0)
    assert log.slots().gaps.notes == ()


def candidates() -> dict[str, list[object]]:
    docs = [f"d{document}" for document in range(4)]
    return {
        "policy_id": ["a"] * 4,
        "query_id": ["q"] * 4,
        "doc_id": list(docs),
        "score": [0.5, 0.0, -0.5, 1.0],
    }


def test_short_pages_keep_exact_exposures_of_their_slots(tmp_path: Path) -> None:
    """α of rank 3 counted for every impression, although two of three pages end above it."""
    lengths = [1, 2, 3]
    rows = [Row(f"i{n}", "q", "a", k + 1, f"d{k}", False) for n in lengths for k in range(n)]
    found = open_log(write_rows(tmp_path / "log", rows, candidates())).statistics(BIAS)
    shares = rank_marginals([0.5, 0.0, -0.5, 1.0], np.array([0, 4]), 3) * [1, 2 / 3, 1 / 3]
    np.testing.assert_allclose(found.statistics.policies["a"].exposure.alpha, shares @ BIAS.alpha, rtol=1e-6)
    assert found.notes == ()


def test_gaps_make_exposures_those_of_displays(tmp_path: Path) -> None:
    """They were computed from scores as if the document at position 3 were the third of the ranking."""
    rows = [
        Row("i", "q", "a", 1, "d0", False),
        Row("i", "q", "a", 3, "d1", False),
        Row("j", "q", "a", 1, "d1", False),
    ]
    found = open_log(write_rows(tmp_path / "log", rows, candidates())).statistics(BIAS)
    expected = [BIAS.alpha[0] / 2, (BIAS.alpha[0] + BIAS.alpha[2]) / 2, 0.0, 0.0]
    np.testing.assert_allclose(found.statistics.policies["a"].exposure.alpha, expected)
    assert found.notes[0].startswith("1 of 2 impressions have positions without a row")
    assert found.notes[1].startswith("Exposures are estimated from how often")
