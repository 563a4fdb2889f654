"""Compare click models by the likelihood of the clicks on held-out queries."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from rankloop.bias.newton import BiasFit
from rankloop.progress import Progress, report
from rankloop.types import Float64

# Number of folds for cross-validation over queries.
FOLDS = 5
# A difference counts if it exceeds this many standard errors.
MIN_STANDARD_ERRORS = 2.0


@dataclass(frozen=True)
class ModelComparison:
    """The affine and the position-based model on held-out queries.

    Each model is scored by the likelihood of all clicks on the items of queries that it was not fitted to,
    with relevance integrated out. Queries are held out rather than impressions: clicks on the same items are
    not independent, and the question is whether α and β hold for other queries.

    Attributes:
        affine: log-likelihood per display of the affine model.
        position: log-likelihood per display of the position-based model.
        gain: affine − position, per display.
        error: standard error of the gain, over queries.
    """

    affine: float
    position: float
    gain: float
    error: float

    @property
    def better(self) -> str | None:
        """``affine`` or ``position``, if one is better by two standard errors."""
        if abs(self.gain) <= MIN_STANDARD_ERRORS * self.error:
            return None
        return "affine" if self.gain > 0.0 else "position"

    @property
    def verdict(self) -> str:
        """The result of the comparison as a sentence."""
        numbers = f"{1000 * self.gain:+.3g} ± {1000 * self.error:.2g} nats per 1,000 displays"
        if self.better is None:
            return f"held-out queries do not distinguish the affine from the position-based model ({numbers})"
        winner = "affine" if self.better == "affine" else "position-based"
        return f"held-out queries favour the {winner} model (affine − position-based: {numbers})"

    def to_dict(self) -> dict[str, Any]:
        """Convert to plain values for JSON."""
        return {
            "affine": self.affine,
            "position": self.position,
            "gain": self.gain,
            "error": self.error,
            "better": self.better,
        }


def compare(
    affine: BiasFit, position: BiasFit, rng: np.random.Generator, progress: Progress | None = None
) -> ModelComparison | None:
    """Compare both models by cross-validation over queries; None if there is only one query.

    Args:
        affine: the affine model fitted to all queries; the fits without a fold start from it.
        position: the position-based model fitted to all queries.
        rng: random generator for the folds.
        progress: receives the task ``comparing on held-out queries``.
    """
    shown = affine.likelihood.shown
    queries, query_of = np.unique(shown.queries, return_inverse=True)
    folds = min(FOLDS, len(queries))
    if folds < 2:
        return None
    fold_of = rng.permutation(len(queries)) % folds
    values = np.zeros((2, len(queries)))
    for number in range(folds):
        held_out = (fold_of == number)[query_of].astype(np.float64)
        for model, fitted in enumerate((affine, position)):
            at = fitted.refit(1.0 - held_out)
            by_item = fitted.likelihood.expect(at, held_out).by_item
            values[model] += np.bincount(query_of, weights=by_item, minlength=len(queries))
            done = (2 * number + model + 1) / (2 * folds)
            report(progress, "comparing on held-out queries", done)
    displays = float(shown.displays.sum())
    gains: Float64 = values[0] - values[1]
    error = float(np.sqrt(len(queries)) * gains.std(ddof=1)) / displays
    totals = values.sum(axis=1) / displays
    return ModelComparison(float(totals[0]), float(totals[1]), float(gains.sum()) / displays, error)
