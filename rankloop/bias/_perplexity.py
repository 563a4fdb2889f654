"""How well fitted models predict the clicks of another log, per rank, compared with simple baselines."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rankloop.bias.likelihood import NODES, grid
from rankloop.bias.movement import measure_movement
from rankloop.bias.newton import BiasFit, fit
from rankloop.errors import DataError
from rankloop.statistics import Counts
from rankloop.statistics.tables import CellTable
from rankloop.types import Float64, Int64

# Predictions are clipped this far from 0 and 1, so that a single surprise is not infinite.
EDGE = 1e-6
# A document's click rate is smoothed with this many displays at the click rate of the log, which is thus also
# the prediction for unseen documents.
PRIOR_DISPLAYS = 1.0


@dataclass(frozen=True, eq=False)
class Perplexity:
    """``2 ** −(mean log2 of the probability of the outcome)``: 1 means certainty, 2 a fair coin.

    Attributes:
        by_rank: perplexity per rank (float64, ranks) for each model.
        overall: perplexity over all ranks for each model.
        displays: float64, ranks; displays of the predicted log.
        unseen: share of these displays that show documents the models never saw.
    """

    by_rank: dict[str, Float64]
    overall: dict[str, float]
    displays: Float64
    unseen: float


def perplexity(train: Counts, test: Counts) -> Perplexity:
    """Fit models to one log and measure how well they predict the clicks of another.

    ``affine`` and ``position`` predict ``α_k · E[R_d | clicks in train] + β_k``. The baselines ``rank`` and
    ``document`` predict the click rate of the rank and of the document in train. Documents are matched by
    query id and document id. Only ranks that train can compare are included.

    Args:
        train: counts of the log that the models are fitted to.
        test: counts of the log to predict.
    """
    ranks = min(measure_movement(CellTable.of(train)).positions, test.positions)
    fitted_to, target = CellTable.of(train, ranks), CellTable.of(test, ranks)
    match = _match_documents(train, fitted_to, test, target)
    cell_document = match[target.document_of]
    predicted = {
        model: _predict(fit(fitted_to, position=model == "position"), target, match)
        for model in ("affine", "position")
    }
    rates = fitted_to.by_rank(fitted_to.clicks) / fitted_to.by_rank(fitted_to.displays)
    predicted["rank"] = rates[target.position]
    overall = float(fitted_to.clicks.sum() / fitted_to.displays.sum())
    clicks = np.append(fitted_to.by_document(fitted_to.clicks), 0.0) + PRIOR_DISPLAYS * overall
    displays = np.append(fitted_to.by_document(fitted_to.displays), 0.0) + PRIOR_DISPLAYS
    predicted["document"] = (clicks / displays)[cell_document]
    by_rank = target.by_rank(target.displays)
    surprise = {model: target.by_rank(_surprise(target, chance)) for model, chance in predicted.items()}
    return Perplexity(
        {model: 2.0 ** (bits / np.maximum(by_rank, 1.0)) for model, bits in surprise.items()},
        {model: float(2.0 ** (bits.sum() / by_rank.sum())) for model, bits in surprise.items()},
        by_rank,
        float(target.displays[cell_document < 0].sum() / target.displays.sum()),
    )


def _predict(fitted: BiasFit, target: CellTable, match: Int64) -> Float64:
    """Predict the click probability of every cell of the target."""
    at, nodes = fitted.parameters, grid(NODES[0])
    # The relevance of an unseen document is the prior mean of its stratum.
    expected = (at.prior @ nodes.hats @ nodes.relevance)[fitted.strata.stratum(target)]
    relevance = np.where(match < 0, expected, np.append(fitted.likelihood.mean_relevance(at), 0.0)[match])
    chance: Float64 = at.low[target.position] + at.alpha[target.position] * relevance[target.document_of]
    return chance


def _surprise(target: CellTable, chance: Float64) -> Float64:
    clipped = np.clip(chance, EDGE, 1.0 - EDGE)
    skips = target.displays - target.clicks
    bits: Float64 = -(target.clicks * np.log2(clipped) + skips * np.log2(1.0 - clipped))
    return bits


def _match_documents(train: Counts, fitted_to: CellTable, test: Counts, target: CellTable) -> Int64:
    """Find the index of each target document among the fitted documents; -1 for unseen documents."""
    keys, wanted = _document_keys(train, fitted_to), _document_keys(test, target)
    order = np.argsort(keys)
    found = np.searchsorted(keys[order], wanted).clip(max=len(keys) - 1)
    match = order[found]
    same = keys[match] == wanted
    if not same.any():
        raise DataError(
            "the two logs have no document of a query in common, so one cannot be predicted from the other: "
            "use logs of the same queries"
        )
    return np.where(same, match, -1)


def _document_keys(counts: Counts, shown: CellTable) -> NDArray[np.str_]:
    # Query ids do not contain line ends, so two different pairs of ids never share a key.
    queries = np.char.add(counts.query_ids[shown.queries], "\n")
    return np.char.add(queries, counts.doc_ids[shown.documents])
