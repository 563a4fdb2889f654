"""How a policy ranks a log's queries: what each document's rank is worth, wherever the policy comes from."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from rankloop.offline import Log, open_log
from rankloop.offline.policy_rankings import Measure, RankingResolver, sorted_rank_weights
from rankloop.policies import expected_rank_weights
from rankloop.rank_weights import dcg
from tests.logs.logs_of import Row, write_rows
from tests.offline.worlds_of_logs import BIAS


def test_what_is_never_shown_earns_nothing_though_there_is_room() -> None:
    scores = np.array([-np.inf, 1.0, 2.0, -np.inf])
    earned = sorted_rank_weights(scores, np.array([0, 3, 4]), dcg(3))
    np.testing.assert_allclose(earned, [0, dcg(3)[1], 1.0, 0])
    # As drawing from peaked scores does.
    drawn = expected_rank_weights(1e4 * scores, np.array([0, 3, 4]), dcg(3))
    np.testing.assert_allclose(earned, drawn, atol=1e-9)


def test_several_worths_at_once() -> None:
    both = np.array([[1.0, 0.5], [0.3, 0.1]])
    earned = sorted_rank_weights(np.array([0.0, 5.0, 3.0]), np.array([0, 3]), both)
    np.testing.assert_allclose(earned, [[0, 0], [1.0, 0.3], [0.5, 0.1]])


# Policy a has candidates for both queries and b for the second alone; only q ever came, under both.
ROWS = [
    Row("1", "q", "a", 1, "x", True),
    Row("1", "q", "a", 2, "y", False),
    Row("2", "q", "b", 1, "y", False),
    Row("3", "q", "b", 1, "x", False),
]
CANDIDATES = {
    "policy_id": ["a", "a", "a", "a", "b", "b"],
    "query_id": ["q", "q", "r", "r", "r", "r"],
    "doc_id": ["x", "y", "x", "y", "x", "y"],
    "score": [1.0, 0.0, -1.0, 0.0, 2.0, -np.inf],
}


@pytest.fixture
def log(tmp_path: Path) -> Log:
    return open_log(write_rows(tmp_path / "log", ROWS, CANDIDATES))


def showing(log: Log, **options: bool) -> RankingResolver:
    return RankingResolver(log, log.count(3), Measure.of("clicks", BIAS), **options)


def test_a_policys_candidates_tell_of_queries_that_never_came(log: Log) -> None:
    shown = showing(log).resolve("a", "sorted")
    expected = expected_rank_weights(
        [1.0, 0.0, -1.0, 0.0], np.array([0, 2, 4]), np.stack([BIAS.alpha, BIAS.beta])
    )
    assert shown.ranking == "drawn"
    assert shown.known.tolist() == [True, True]
    np.testing.assert_allclose(shown.weights, expected[:, 0])
    np.testing.assert_allclose(shown.always, [expected[:2, 1].sum(), expected[2:, 1].sum()])
    np.testing.assert_allclose(shown.elsewhere, 0.0)


def test_where_there_are_no_candidates_displays_tell(log: Log) -> None:
    shown = showing(log).resolve("b", "sorted")
    assert shown.known.tolist() == [True, True]
    np.testing.assert_allclose(shown.weights, [BIAS.alpha[0] / 2, BIAS.alpha[0] / 2, BIAS.alpha[0], 0.0])
    np.testing.assert_allclose(shown.always, [BIAS.beta[0], BIAS.beta[0]])
    displayed = showing(log, candidates=False).resolve("b", "sorted")
    assert displayed.ranking == "as displayed"
    assert displayed.known.tolist() == [True, False]
    np.testing.assert_allclose(displayed.weights[:2], shown.weights[:2])


def test_ties_go_by_the_documents_ids_whatever_the_order_of_rows(log: Log, tmp_path: Path) -> None:
    table = tmp_path / "scores.csv"
    table.write_text("query_id,doc_id,score\nr,y,1\nq,y,1\nr,a,1\nq,x,1\nr,x,1\n")
    shown = showing(log).resolve(table, "sorted")
    np.testing.assert_allclose(shown.weights, [*BIAS.alpha[:2], *BIAS.alpha[1:3]])
    # The document that the log does not know has the lowest id, and so stands first.
    np.testing.assert_allclose(shown.elsewhere, [0.0, BIAS.alpha[0]])
    np.testing.assert_allclose(shown.always, [BIAS.beta[:2].sum(), BIAS.beta.sum()])
