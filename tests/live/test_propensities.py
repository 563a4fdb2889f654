"""What is served has the probability that the store says, with rules and mixtures."""

from __future__ import annotations

import itertools
import math
from collections import Counter

import numpy as np
import pytest
from scipy.stats import chisquare

from rankloop.live import RankRequest, Service, ServiceSettings, Store
from rankloop.live.ranking.live_policy import LivePolicy, policy_of
from rankloop.live.ranking.rules import FeatureFilter
from rankloop.live.store.database import read
from rankloop.live.store.impressions import find_impression, mixture_probability
from tests.live.conftest import linear, put

# Numbers that float32 holds exactly.
VALUES = {"w": [0.125, 0.25, 1.0], "x": [1.0, -0.25, 0.0], "y": [-0.5, 0.75, 2.0], "z": [0.5, 0.5, -1.0]}
DRAWS = 3000
# Each test of frequencies fails by chance once in a million runs.
FALSE_ALARM = 1e-6

PLAIN = RankRequest("cat", tuple(VALUES), tuple(VALUES.values()))


def request(**options: object) -> RankRequest:
    return RankRequest(PLAIN.query, PLAIN.documents, PLAIN.features, **options)  # type: ignore[arg-type]


RULES = {
    "plain": request(),
    "top two": request(top=2),
    "pinned first": request(pins={1: "z"}),
    "pinned second, not a candidate": request(pins={2: "advertisement"}),
    "excluded": request(exclude=("w",)),
    "filtered": request(filters=(FeatureFilter("c", at_least=-0.5),)),
    "all rules": request(pins={3: "y"}, exclude=("z",), filters=(FeatureFilter("a", at_most=1.0),)),
}


def probabilities(
    shares: dict[float, list[float]], asked: RankRequest, top: int
) -> dict[tuple[str, ...], float]:
    """By enumeration: the probability of everything that can be shown, under a mixture of linear policies."""
    free = [
        one
        for one, values in VALUES.items()
        if one not in asked.exclude and one not in asked.pins.values()
        if all(
            (each.at_least or -math.inf) <= values["abc".index(each.feature)] <= (each.at_most or math.inf)
            for each in asked.filters
        )
    ]
    positions = [place for place in range(1, top + 1) if place not in asked.pins]
    found: dict[tuple[str, ...], float] = {}
    for drawn in itertools.permutations(free, min(len(positions), len(free))):
        page = {**asked.pins, **dict(zip(positions, drawn, strict=False))}
        shown = tuple(page[place] for place in sorted(page))
        found[shown] = sum(share * _plackett_luce(drawn, free, weights) for share, weights in shares.items())
    return found


def _plackett_luce(drawn: tuple[str, ...], free: list[str], weights: list[float]) -> float:
    rates = {one: math.exp(sum(map(math.prod, zip(weights, VALUES[one], strict=True)))) for one in free}
    probability = 1.0
    for one in drawn:
        probability *= rates[one] / sum(rates.values())
        del rates[one]
    return probability


@pytest.mark.parametrize("name", RULES)
@pytest.mark.parametrize("location", ["sqlite"], indirect=True)
def test_served_frequencies_are_the_propensities(store: Store, name: str) -> None:
    soft, sharp = [0.5, -0.25, 0.125], [1.0, -0.5, 0.25]
    put(
        store,
        policy_of(linear(*sharp), "sharp"),
        policy_of(linear(*sharp), "canary", scale=0.5),
        LivePolicy("shuffle", "uniform"),
        shares=(0.6, 0.3, 0.1),
    )
    service = Service(store, ServiceSettings(top=3), rng=np.random.default_rng(11))
    asked = RULES[name]
    draft = service.draft(asked)
    served = [service.serve(draft, service.choose()) for _ in range(DRAWS)]
    kept = [service.keep(one) for one in served[:200]]
    expected = probabilities({0.6: sharp, 0.3: soft, 0.1: [0.0, 0.0, 0.0]}, asked, asked.top or 3)
    counts = Counter(tuple(one.shown.values()) for one in served)
    assert {*counts} <= {*expected}
    assert math.isclose(sum(expected.values()), 1.0, rel_tol=1e-12)
    observed = [counts[shown] for shown in expected]
    assert chisquare(observed, [DRAWS * p for p in expected.values()]).pvalue > FALSE_ALARM

    # Wait for all of them first: a connection sees what was committed when it began to read.
    ids = [done.result().id for done in kept[:40]]
    with read(store) as connection:
        for impression in ids:
            one = find_impression(connection, impression)
            assert one is not None
            assert np.array_equal(one.draw_again(), one.drawn)
            shown = tuple(one.shown.values())
            assert mixture_probability(connection, one) == pytest.approx(expected[shown], rel=1e-9)
    service.close()


def test_a_stored_impression_has_everything_that_its_probability_needs(
    store: Store, service: Service
) -> None:
    for asked in RULES.values():
        served = service.rank(asked)
        with read(store) as connection:
            found = find_impression(connection, served.id)
        assert found is not None
        assert found.shown == served.shown
        assert found.log_probability == served.log_probability
        assert np.array_equal(found.policy.scores(found.problem), served.scores)
        assert found.policy.fingerprint == served.policy.fingerprint


def test_the_order_of_candidates_does_not_make_another_problem(service: Service) -> None:
    turned = RankRequest("cat", PLAIN.documents[::-1], PLAIN.features[::-1])
    assert service.rank(PLAIN).problem.id == service.rank(turned).problem.id


def test_an_id_of_the_client_is_ranked_once(service: Service) -> None:
    first, second = service.rank(request(id="mine")), service.rank(request(id="mine"))
    assert (first.shown, first.seed) == (second.shown, second.seed)
