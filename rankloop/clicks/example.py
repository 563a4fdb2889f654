"""A table of clicks to try things on."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rankloop.clicks.base import users
from rankloop.clicks.simulation import gather_log
from rankloop.data import synthetic
from rankloop.ragged import segment_index

QUERIES, FEATURES, USERS = 300, 6, "paper@8"
# How peaked the ranking of the shop is: it varies from search to search.
PEAKED = 2.0


def example_clicks(impressions: int = 5_000, *, seed: int = 0) -> dict[str, NDArray[np.generic]]:
    """Searches of a simulated shop, a row per document that was shown: columns for `rankloop.log` or a frame.

    Users look less at lower positions and trust the first ones. The shop ranks by one of the features, with
    some chance, so documents move between positions.

    Args:
        impressions: how many searches there are.
        seed: random seed.

    Example:
        >>> clicks = example_clicks(1_000)
        >>> list(clicks)[:5], len(clicks["clicked"])
        (['search', 'query', 'document', 'position', 'clicked'], 7776)
    """
    shop = synthetic(queries=QUERIES, features=FEATURES, seed=seed).train
    scores = PEAKED * shop.features[:, 0].astype(float)
    rng = np.random.default_rng(seed)
    log = gather_log(scores, shop.offsets, shop.labels / 4, users(USERS), impressions, rng)
    shown = log.rankings >= 0
    search, position = np.nonzero(shown)
    query = log.queries[search]
    document = shop.offsets[query] + log.rankings[shown]
    number = document - shop.offsets[segment_index(shop.offsets)[document]]
    return {
        "search": search,
        "query": np.char.add("query ", query.astype(str)),
        "document": np.char.add(np.char.add("sku-", query.astype(str)), np.char.add("-", number.astype(str))),
        "position": position + 1,
        "clicked": log.clicks[shown].astype(np.int64),
        **{f"feature_{at}": shop.features[document, at] for at in range(FEATURES)},
    }
