"""How a policy ranks a log's queries: what each document's rank is worth, wherever the policy comes from."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from rankloop.models import Linear
from rankloop.offline import Log, open_log
from rankloop.offline.policy_rankings import RankingResolver
from rankloop.policies import expected_rank_weights, sorted_rank_weights
from rankloop.ragged import segment_sum
from rankloop.rank_weights import dcg
from rankloop.types import Float32, Float64
from rankloop.value.valuation import LoggedMetric, PolicyRanking
from tests.logs.logs_of import Row, write_rows
from tests.offline.worlds_of_logs import BIAS, simulated


def test_what_is_never_shown_earns_nothing_though_there_is_room() -> None:
    scores = np.array([-np.inf, 1.0, 2.0, -np.inf])
    earned = sorted_rank_weights(scores, np.array([0, 3, 4]), dcg(3))
    np.testing.assert_allclose(earned, [0, dcg(3)[1], 1.0, 0])
    # As drawing from peaked scores does.
    drawn = expected_rank_weights(1e4 * scores, np.array([0, 3, 4]), dcg(3))
    np.testing.assert_allclose(earned, drawn, atol=1e-9)


def test_a_model_scores_only_the_queries_that_are_judged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`fit` held out a fifth of the queries and then scored all of them, which took a quarter of its time."""
    world = simulated(tmp_path / "log", queries=10, impressions=200)
    counts, model = world.log.count(3), Linear(3, np.array([1.0, -0.5, 0.3, 0.0]))
    judged = np.arange(counts.n_queries) % 5 == 0
    scored, scores = [], Linear.scores

    def counted(self: Linear, features: Float32) -> Float64:
        scored.append(len(features))
        return scores(self, features)

    monkeypatch.setattr(Linear, "scores", counted)
    found = []
    for queries in (None, judged):
        resolver = RankingResolver(world.log, counts, LoggedMetric.of("dcg", BIAS), queries=queries)
        found.append(resolver.resolve((model, "production"), "sorted")[0])
    inside = np.repeat(judged, np.diff(counts.offsets))
    assert scored == [len(inside), inside.sum()]
    np.testing.assert_array_equal(found[0].placed[inside], found[1].placed[inside])
    np.testing.assert_array_equal(found[0].known, found[1].known)


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


CLICKS = LoggedMetric.of("clicks", BIAS)


def weights(ranking: PolicyRanking) -> Float64:
    """What the rank of each document is worth in clicks, per unit of relevance."""
    return CLICKS.gain(ranking.placed, BIAS)


def always(ranking: PolicyRanking, offsets: tuple[int, ...] = (0, 2, 4)) -> Float64:
    """The clicks per query whatever the relevance."""
    return CLICKS.always(segment_sum(ranking.placed, np.array(offsets)) + ranking.elsewhere, BIAS)


def resolve(log: Log, policy: object, within: object = False) -> PolicyRanking:
    chosen = np.broadcast_to(np.asarray(within), 2)
    resolver = RankingResolver(log, log.count(3), LoggedMetric.of("clicks", BIAS), within=chosen)
    return resolver.resolve((policy, policy), "sorted")[0]  # type: ignore[arg-type]


def test_a_policys_candidates_tell_of_queries_that_never_came(log: Log) -> None:
    """The query that came is ranked on its own slots: all three impressions have one, one has a second."""
    shown = resolve(log, "a")
    vectors = np.stack([BIAS.alpha, BIAS.beta])
    slots = vectors * [1.0, 1 / 3, 0.0]
    first = expected_rank_weights([1.0, 0.0], np.array([0, 2]), slots)
    second = expected_rank_weights([-1.0, 0.0], np.array([0, 2]), vectors)
    assert shown.ranking == "drawn"
    assert shown.known.tolist() == [True, True]
    np.testing.assert_allclose(weights(shown), [*first[:, 0], *second[:, 0]])
    np.testing.assert_allclose(always(shown), [first[:, 1].sum(), second[:, 1].sum()])
    np.testing.assert_allclose(shown.elsewhere, 0.0)


def test_where_there_are_no_candidates_displays_tell(log: Log) -> None:
    shown = resolve(log, "b")
    assert shown.known.tolist() == [True, True]
    np.testing.assert_allclose(weights(shown), [BIAS.alpha[0] / 2, BIAS.alpha[0] / 2, BIAS.alpha[0], 0.0])
    np.testing.assert_allclose(always(shown), [BIAS.beta[0], BIAS.beta[0]])
    displayed = resolve(log, "b", within=True)
    assert displayed.ranking == "as displayed"
    assert displayed.known.tolist() == [True, False]
    np.testing.assert_allclose(weights(displayed)[:2], weights(shown)[:2])
    mixed = resolve(log, "a", within=[True, False])
    np.testing.assert_allclose(weights(mixed)[:2], BIAS.alpha[:2])
    np.testing.assert_allclose(weights(mixed)[2:], weights(resolve(log, "a"))[2:])


def test_tied_documents_share_their_ranks_whatever_their_names(log: Log, tmp_path: Path) -> None:
    """Ties went by document id, so that a policy without an opinion gained or lost by how names sort."""
    table = tmp_path / "scores.csv"
    table.write_text("query_id,doc_id,score\nr,y,1\nr,a,1\nr,x,1\nq,y,2\nq,x,1\n")
    shown = resolve(log, table)
    np.testing.assert_allclose(weights(shown)[:2], [BIAS.alpha[1] / 3, BIAS.alpha[0]])
    np.testing.assert_allclose(weights(shown)[2:], np.full(2, BIAS.alpha.mean()))
    # The document that the log does not know shares with the others.
    np.testing.assert_allclose(CLICKS.gain(shown.elsewhere, BIAS), [0.0, BIAS.alpha.mean()])
    np.testing.assert_allclose(always(shown), [BIAS.beta[0] + BIAS.beta[1] / 3, BIAS.beta.sum()])


def test_an_impressions_own_documents_are_ranked_among_its_own_slots(tmp_path: Path) -> None:
    rows = [
        Row("1", "q", "a", 1, "x", True),
        Row("1", "q", "a", 3, "y", False),
        Row("2", "q", "a", 2, "z", False),
        Row("3", "q", "b", 1, "x", False),
        Row("3", "q", "b", 2, "y", False),
        Row("3", "q", "b", 3, "z", False),
    ]
    log = open_log(write_rows(tmp_path / "log", rows))
    table = tmp_path / "scores.csv"
    table.write_text("query_id,doc_id,score\nq,x,1\nq,y,3\nq,z,3\nq,elsewhere,9\n")
    resolver = RankingResolver(log, log.count(3), LoggedMetric.of("clicks", BIAS), within=np.array([True]))
    first, second, third = BIAS.alpha
    tied = (first + second) / 2
    alone, _ = resolver.resolve((table, table), "sorted")
    np.testing.assert_allclose(weights(alone), np.array([third + third, first + tied, second + tied]) / 3)
    # Against a policy of the log, its own impressions are re-ranked.
    against, logged = resolver.resolve((table, "a"), "sorted")
    np.testing.assert_allclose(weights(against), np.array([third, first, second]) / 2)
    np.testing.assert_allclose(weights(logged), np.array([first, third, second]) / 2)
    np.testing.assert_allclose(always(against, (0, 3)), always(logged, (0, 3)))
    assert against.ranking == "sorted within impressions"
    np.testing.assert_allclose(against.elsewhere, 0.0)
