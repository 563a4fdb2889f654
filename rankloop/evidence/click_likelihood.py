"""Which of two rankings of the same documents explains clicks better.

A score explains clicks by the click model, with the slope and the offset that suit it best:

    P(click on d at rank k) = α_k σ(a s_d + b + u_q) + β_k,      a ≥ 0

Scores are first centred within queries, so that only what they say about the order of documents counts. A
score that knows which queries are clicked more explains many clicks and ranks nothing.
"""

from __future__ import annotations

import numpy as np

from rankloop.relevance.click_model import ClickModel
from rankloop.relevance.logged_order import weigh_scores
from rankloop.types import Float64


def explained_clicks(scores: Float64, model: ClickModel) -> Float64:
    """The log-likelihood of the clicks on each query, given scores of its documents.

    Args:
        scores: s, documents of the model; they must not depend on these clicks, in any scale.
        model: the displays and clicks of documents; its effects of queries have a variance above 0.

    Returns:
        float64, queries; 0 for a query without displays. Differences between two sets of scores are the
        evidence that one ranks better: `rankloop.evidence.convinces` decides.
    """
    cells = model.cells
    displays = cells.by_document(cells.displays)
    shown = np.maximum(cells.by_query(displays), 1.0)
    centred = scores - (cells.by_query(displays * scores) / shown)[cells.queries]
    best = weigh_scores([centred], model)
    if best.weights[0] < 0.0:
        return model.values(np.full(len(centred), weigh_scores([], model).offset))
    return model.values(best.weights[0] * centred + best.offset)
