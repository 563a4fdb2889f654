"""Which model a log speaks for: the likelihood of clicks on queries that were held out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from rankloop.bias.newton import BiasFit
from rankloop.types import Float64

# Queries are held out in so many parts, one after the other.
FOLDS = 5
# Standard errors that a difference must exceed to count as one.
CLEAR = 2.0


@dataclass(frozen=True)
class ModelComparison:
    """The affine and the position-based model on held-out queries.

    Models are compared by the likelihood of all clicks on the items of queries that they were not fitted to,
    with relevance integrated out. Queries, not impressions, are held out: clicks on the same items are not
    independent, and what is to be known is whether α and β hold for other queries.

    Attributes:
        affine: the log-likelihood a display.
        position: that of the position-based model.
        gain: affine − position, a display.
        error: the standard error of the gain, over queries.
    """

    affine: float
    position: float
    gain: float
    error: float

    @property
    def better(self) -> str | None:
        """``affine`` or ``position``, if one is better by two standard errors."""
        if abs(self.gain) <= CLEAR * self.error:
            return None
        return "affine" if self.gain > 0.0 else "position"

    @property
    def verdict(self) -> str:
        """The same as a sentence."""
        numbers = f"{1000 * self.gain:+.3g} ± {1000 * self.error:.2g} nats in 1,000 displays"
        if self.better is None:
            return f"held-out queries cannot tell the affine from the position-based model ({numbers})"
        winner = "affine" if self.better == "affine" else "position-based"
        return f"held-out queries speak for the {winner} model (affine − position-based: {numbers})"

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "affine": self.affine,
            "position": self.position,
            "gain": self.gain,
            "error": self.error,
            "better": self.better,
        }


def compare(
    affine: BiasFit, position: BiasFit, rng: np.random.Generator, told: Callable[[float], None]
) -> ModelComparison | None:
    """Fit both models to all queries but a fifth, for every fifth; None if there is one query only.

    Args:
        affine: the fit to all queries; where others start from.
        position: that of the position-based model.
        rng: draws the parts.
        told: called with the share that is done.
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
            at = fitted.again(1.0 - held_out)
            by_item = fitted.likelihood.expect(at, held_out).by_item
            values[model] += np.bincount(query_of, weights=by_item, minlength=len(queries))
            told((2 * number + model + 1) / (2 * folds))
    displays = float(shown.displays.sum())
    gains: Float64 = values[0] - values[1]
    error = float(np.sqrt(len(queries)) * gains.std(ddof=1)) / displays
    totals = values.sum(axis=1) / displays
    return ModelComparison(float(totals[0]), float(totals[1]), float(gains.sum()) / displays, error)
