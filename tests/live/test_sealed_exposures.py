"""Exposures of a sealed log are those of all draws, enumerated: with pins, filters, mixtures, canaries."""

from __future__ import annotations

import itertools
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np
import pytest

from rankloop import Log, open_log
from rankloop.live import RankRequest, Service, ServiceSettings, Store, sealing
from rankloop.live.ranking.deployment import Share
from rankloop.live.ranking.live_policy import LivePolicy, policy_of
from rankloop.live.ranking.rules import FeatureFilter
from rankloop.live.store.events import UserEvent, record_events
from rankloop.live.store.impressions import Served
from rankloop.live.store.policies import deploy
from rankloop.types import Bias, Float64
from tests.live.conftest import linear, put

pytestmark = pytest.mark.parametrize("location", ["sqlite"], indirect=True)

BIAS = Bias(np.array([0.7, 0.4, 0.2]), np.array([0.2, 0.1, 0.05]), np.array([1.0, 0.8, 0.5]))
# Numbers that float32 holds exactly.
VALUES = {"v": [0.25, 0.5, -1.0], "w": [0.125, 0.25, 1.0], "x": [1.0, -0.25, 0.0], "y": [-0.5, 0.75, 2.0]}
PLAIN = RankRequest("cat", tuple(VALUES), tuple(VALUES.values()))
ADVERTISED = replace(PLAIN, query="dog")
REQUESTS = (
    PLAIN,
    # The same candidates, and so the same query of the log, with other slots.
    ADVERTISED,
    replace(ADVERTISED, pins={1: "advertisement"}),
    replace(ADVERTISED, pins={2: "advertisement"}, top=2),
    replace(ADVERTISED, pins={1: "advertisement", 3: "another"}, top=4),
    replace(PLAIN, pins={2: "x"}),
    replace(PLAIN, pins={1: "y"}, exclude=("v",)),
    replace(PLAIN, query="fox", pins={1: "w"}, filters=(FeatureFilter("c", at_most=1.0),)),
)
TIMES = 60


@pytest.fixture
def served(store: Store) -> list[Served]:
    """Pages of two deployments, the second one with a canary; some documents were clicked."""
    shuffle = LivePolicy("shuffle", "uniform")
    soft = policy_of(linear(1.0, -0.5, 0.25), "soft", scale=0.5)
    put(store, policy_of(linear(1.0, -0.5, 0.25), "sharp"), shuffle, soft, shares=(0.5, 0.3, 0.2))
    service = Service(store, ServiceSettings(top=3), rng=np.random.default_rng(5))
    pages = [serve(service, asked) for asked in REQUESTS for _ in range(TIMES)]
    with store.engine.begin() as connection:
        shares = [Share("sharp", 0.8), Share("soft", 0.2, "canary")]
        deploy(connection, shares, who="test", why="a canary")
    service.refresh()
    pages += [serve(service, asked) for asked in REQUESTS for _ in range(TIMES)]
    service.close()
    with store.engine.begin() as connection:
        record_events(connection, [UserEvent(page.id, page.shown[1]) for page in pages[::3]], time.time())
    sealing.seal(store, time.time() + 1, most=200)
    return pages


def serve(service: Service, asked: RankRequest) -> Served:
    page = service.serve(service.draft(asked), service.choose())
    service.keep(page)
    return page


def rankings(scores: Mapping[str, float], length: int) -> Iterator[tuple[tuple[str, ...], float]]:
    """Everything that can be drawn, with its probability: a product of softmaxes."""
    for drawn in itertools.permutations(scores, min(length, len(scores))):
        left, probability = {one: np.exp(score) for one, score in scores.items()}, 1.0
        for one in drawn:
            probability *= left[one] / sum(left.values())
            del left[one]
        yield drawn, probability


def expected(pages: Sequence[Served], ranks: int) -> dict[str, Float64]:
    """How often each document is at each position per page, over all draws into the slots of these pages."""
    result: dict[str, Float64] = defaultdict(lambda: np.zeros(ranks))
    for page in pages:
        assert page.scores is not None
        slots = [place for place in range(1, page.top + 1) if place not in page.pins]
        scores = dict(zip(page.problem.documents, page.scores, strict=True))
        for drawn, probability in rankings(scores, len(slots)):
            for document, slot in zip(drawn, slots, strict=False):
                if slot <= ranks:
                    result[document][slot - 1] += probability / len(pages)
    return result


def by_query(log: Log, pages: Sequence[Served]) -> dict[tuple[str, str], list[Served]]:
    """The pages of each policy and query of the log."""
    shown = {page.id: page for page in pages}
    found: dict[tuple[str, str], dict[str, Served]] = defaultdict(dict)
    table = sealing.pq.read_table(log.folder / "impressions.parquet")
    for row in table.select(["impression_id", "policy_id", "query_id"]).to_pylist():
        found[row["policy_id"], row["query_id"]][row["impression_id"]] = shown[row["impression_id"]]
    return {key: list(many.values()) for key, many in found.items()}


def test_exposures_are_exact_given_the_slots_that_pins_leave(store: Store, served: list[Served]) -> None:
    """They were estimated from displays wherever a document was pinned above others."""
    log = open_log(store.log)
    found = log.statistics(BIAS)
    assert found.estimated == {}
    assert len(found.query_ids) == 5
    compared = 0
    for (policy, query), pages in by_query(log, served).items():
        number = found.query_ids.tolist().index(query)
        documents = slice(found.offsets[number], found.offsets[number + 1])
        exact = expected(pages, BIAS.positions)
        exposure = found.statistics.policies[policy].exposure
        for name in ("alpha", "beta", "examination"):
            wanted = [exact[document] @ getattr(BIAS, name) for document in found.doc_ids[documents].tolist()]
            np.testing.assert_allclose(getattr(exposure, name)[documents], wanted, rtol=1e-9, atol=0)
            compared += len(wanted)
    assert compared >= 3 * 3 * 5 * 2


def test_rank_shares_are_exact_given_the_slots_that_pins_leave(store: Store, served: list[Served]) -> None:
    log = open_log(store.log)
    found = log.statistics(BIAS)
    shares = log.rank_shares(found)
    pages = by_query(log, served)
    for number, query in enumerate(found.query_ids.tolist()):
        own = [page for (_, at), many in pages.items() if at == query for page in many]
        exact = expected(own, BIAS.positions)
        documents = range(found.offsets[number], found.offsets[number + 1])
        wanted = [exact[found.doc_ids[document]] for document in documents]
        np.testing.assert_allclose(shares[list(documents)], wanted, rtol=1e-9, atol=1e-15)


def test_check_does_not_mistake_pins_for_another_draw(store: Store) -> None:
    """It said that the policy does not draw from its scores, since pages with pins show fewer documents.

    A false alarm has the probability of 1e-6, and the seed is fixed.
    """
    put(store, policy_of(linear(1.0, -0.5, 0.25), "sharp"))
    service = Service(store, ServiceSettings(top=2), rng=np.random.default_rng(5))
    for asked in (PLAIN, replace(PLAIN, pins={1: "advertisement"}), replace(PLAIN, top=1)):
        for _ in range(TIMES):
            serve(service, asked)
    service.close()
    sealing.seal(store, time.time() + 1)
    check = open_log(store.log).check()
    assert check.policies[0].misfit is not None
    assert "not_drawn_from_scores" not in {warning.code for warning in check.warnings}


def test_a_copy_of_the_log_without_its_declaration_is_estimated(store: Store, served: list[Served]) -> None:
    """Where nobody says that gaps were pinned, rows may as well be missing: displays hold for both."""
    assert served
    part = store.log / "impressions.parquet" / sealing.part_name(1)
    table = sealing.pq.read_table(part)
    sealing.pq.write_table(table.replace_schema_metadata(None), part)
    assert open_log(store.log).statistics(BIAS).estimated
    assert not open_log(store.log).pinned
