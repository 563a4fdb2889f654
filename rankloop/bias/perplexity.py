"""How well a fitted model predicts clicks of another log, rank by rank, beside models that know less."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankloop.bias.movement import movement
from rankloop.bias.newton import BiasFit, fit
from rankloop.bias.rank_counts import RankCounts
from rankloop.bias.relevance_prior import NODES, grid
from rankloop.errors import DataError
from rankloop.logs import LogCounts
from rankloop.types import Float64, Int64

# Predictions stay so far from 0 and 1 that one surprise is not infinite.
EDGE = 1e-6
# A document's click rate is computed with so many displays more at the click rate of the log: documents of
# which nothing is known have that rate.
DISPLAYS_MORE = 1.0


@dataclass(frozen=True, eq=False)
class Perplexity:
    """``2 ** −(mean log2 of the chance that was given to what happened)``: 1 is certainty, 2 a coin.

    Attributes:
        by_rank: by model, float64, ranks.
        overall: by model, over all ranks.
        displays: float64, ranks; of the log that was predicted.
        unseen: the share of these that are of items which the models never saw.
    """

    by_rank: dict[str, Float64]
    overall: dict[str, float]
    displays: Float64
    unseen: float

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "by_rank": {model: values.tolist() for model, values in self.by_rank.items()},
            "overall": self.overall,
            "displays": self.displays.astype(int).tolist(),
            "unseen": self.unseen,
        }


def perplexity(train: LogCounts, test: LogCounts) -> Perplexity:
    """Fit models to one log, and see how they predict the clicks of another.

    ``affine`` and ``position`` predict ``α_k · E[R_d | clicks in train] + β_k``; ``rank`` the click rate of
    the rank and ``document`` that of the document, in train. Items are the same if their query and document
    have the same ids; only ranks that train can compare are looked at.

    Args:
        train: counts of the log that models are fitted to.
        test: counts of the log that is predicted.
    """
    ranks = min(movement(RankCounts.of(train)).ranks, test.ranks)
    known, asked = RankCounts.of(train, ranks), RankCounts.of(test, ranks)
    place = _places(train, known, test, asked)
    cell_item = place[asked.item_of]
    predicted = {
        model: _of_model(fit(known, position=model == "position"), asked, place)
        for model in ("affine", "position")
    }
    rates = known.by_rank(known.clicks) / known.by_rank(known.displays)
    predicted["rank"] = rates[asked.rank]
    overall = float(known.clicks.sum() / known.displays.sum())
    clicks = np.append(known.by_item(known.clicks), 0.0) + DISPLAYS_MORE * overall
    displays = np.append(known.by_item(known.displays), 0.0) + DISPLAYS_MORE
    predicted["document"] = (clicks / displays)[cell_item]
    shown = asked.by_rank(asked.displays)
    surprise = {model: asked.by_rank(_surprise(asked, chance)) for model, chance in predicted.items()}
    return Perplexity(
        {model: 2.0 ** (bits / np.maximum(shown, 1.0)) for model, bits in surprise.items()},
        {model: float(2.0 ** (bits.sum() / shown.sum())) for model, bits in surprise.items()},
        shown,
        float(asked.displays[cell_item < 0].sum() / asked.displays.sum()),
    )


def _of_model(fitted: BiasFit, asked: RankCounts, place: Int64) -> Float64:
    at, nodes = fitted.parameters, grid(NODES[0])
    # Items that were never seen: what items that are shown alike are expected to be.
    expected = (at.prior @ nodes.hats @ nodes.relevance)[fitted.strata.stratum(asked)]
    relevance = np.where(place < 0, expected, np.append(fitted.likelihood.mean_relevance(at), 0.0)[place])
    chance: Float64 = at.low[asked.rank] + at.alpha[asked.rank] * relevance[asked.item_of]
    return chance


def _surprise(asked: RankCounts, chance: Float64) -> Float64:
    kept = np.clip(chance, EDGE, 1.0 - EDGE)
    bits: Float64 = -(asked.clicks * np.log2(kept) + (asked.displays - asked.clicks) * np.log2(1.0 - kept))
    return bits


def _places(train: LogCounts, known: RankCounts, test: LogCounts, asked: RankCounts) -> Int64:
    """Where each item that is asked for stands among those that are known; -1 where it does not."""
    names, wanted = _names(train, known), _names(test, asked)
    order = np.argsort(names)
    found = np.searchsorted(names[order], wanted).clip(max=len(names) - 1)
    places = order[found]
    same = names[places] == wanted
    if not same.any():
        raise DataError(
            "the two logs have no document of a query in common: there is nothing to predict from"
        )
    return np.where(same, places, -1)


def _names(counts: LogCounts, shown: RankCounts) -> NDArray[np.str_]:
    # Ids of queries do not hold line ends, so that two ids cannot be taken for two others.
    queries = np.char.add(counts.query_ids[shown.queries], "\n")
    return np.char.add(queries, counts.doc_ids[shown.items])
