"""Trees on clicks and trees on the logged order in one model, weighted by what held-out clicks support."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rankloop.models.lightgbm import LightGBMModel
from rankloop.models.lightgbm_sum import add_trees
from rankloop.training.score_weights import ScoreWeights, weigh_scores
from rankloop.training.shown_documents import ShownDocuments
from rankloop.types import Bias, Float64


@dataclass(frozen=True, eq=False)
class CombinedTrees:
    """A model whose scores are a weighted sum.

    Attributes:
        model: the trees of both, as one model.
        clicks: the weight of the trees on clicks.
        order: the weight of the trees on the logged order; 0 if held-out clicks do not support them.
        offset: the score of relevance where the model says 0.
        gain: how much more likely the held-out clicks are than by the trees on clicks alone, in nats.
    """

    model: LightGBMModel
    clicks: float
    order: float
    offset: float
    gain: float


def combine_trees(
    on_clicks: LightGBMModel,
    on_order: LightGBMModel | None,
    held_out: ShownDocuments,
    bias: Bias,
    *,
    start: float,
    query_variance: float,
) -> CombinedTrees:
    """Add trees on the logged order to trees on clicks, if that explains held-out clicks better.

    Clicks alone are unbiased and noisy; the logging policies are biased, and may know a lot. Both are
    functions of features, and clicks that neither has seen decide how much each of them counts. With enough
    clicks the trees on clicks explain everything, and the order adds nothing. Weights are those that make the
    held-out clicks most likely, among those that are not negative.

    Args:
        on_clicks: trees on the likelihood of clicks (`train_trees_on_clicks`).
        on_order: trees on the logged order (`imitate_order`), if there are any.
        held_out: documents of queries that neither was grown on.
        bias: how users click.
        start: the score of relevance where the trees on clicks say 0.
        query_variance: the variance of the effects of queries.
    """
    zero: Float64 = np.zeros(len(held_out))
    clicks = on_clicks.scores(held_out.features)
    order = zero if on_order is None else on_order.scores(held_out.features)

    def weigh(*scores: Float64) -> ScoreWeights:
        return weigh_scores(scores, held_out, bias, query_variance=query_variance)

    plain = weigh(clicks) if clicks.any() else weigh()
    best, weights = plain, (1.0, 0.0)
    if order.any():
        both = weigh(clicks, order)
        if min(both.weights) > 0.0:
            best, weights = both, (both.weights[0], both.weights[1])
        elif both.weights[1] > 0.0:
            alone = weigh(order)
            # A negative weight of one may be what makes the other positive.
            if alone.weights[0] > 0.0 and alone.value > plain.value:
                best, weights = alone, (0.0, alone.weights[0])
    if best is plain or on_order is None:
        return CombinedTrees(on_clicks, 1.0, 0.0, start, 0.0)
    parts = [(on_clicks, weights[0]), (on_order, weights[1])]
    kept = [(model, weight) for model, weight in parts if weight > 0.0]
    model = add_trees([model for model, _ in kept], [weight for _, weight in kept])
    return CombinedTrees(model, *weights, best.offset, best.value - plain.value)
