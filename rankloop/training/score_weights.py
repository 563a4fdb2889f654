"""Scores from several models, weighted such that their sum explains clicks best."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from rankloop.objectives import click_likelihood
from rankloop.objectives.click_likelihood import mean_score
from rankloop.training.query_effects import ClicksWithQueryEffects
from rankloop.training.shown_documents import ShownDocuments
from rankloop.types import Bias, Float64

# Newton steps at most, and the largest step of a weight that ends them.
STEPS, CLOSE = 30, 1e-5
# No step changes the score of a document by more than this on average: likelihoods are far from quadratic.
LONGEST_STEP = 1.0
# Keeps the information invertible if one model's scores repeat those of another.
RIDGE = 1e-6


@dataclass(frozen=True)
class ScoreWeights:
    """The weights of the scores of several models.

    Attributes:
        weights: one per model.
        offset: the score where all models say 0.
        value: the log-likelihood of the clicks that they were fitted to, effects of queries integrated out.
    """

    weights: tuple[float, ...]
    offset: float
    value: float


def weigh_scores(
    scores: ArrayLike, shown: ShownDocuments, bias: Bias, *, query_variance: float
) -> ScoreWeights:
    """Find the weights with which scores explain clicks best.

        click at rank k:  α_k σ(b + Σ_m w_m s_md + u_q) + β_k,      u_q ~ N(0, τ²)

    Weights w, the offset b and the effects u of queries are found together, by Newton's method.

    Args:
        scores: models × documents; they must not depend on these clicks.
        shown: the documents and their clicks.
        bias: how users click.
        query_variance: τ².
    """
    columns = np.asarray(scores, np.float64).reshape(-1, len(shown))
    design = np.column_stack([*columns, np.ones(len(shown))])
    found = np.zeros(design.shape[1])
    found[-1] = mean_score(shown.counts, bias)
    effects: Float64 = np.zeros(shown.n_queries)
    query = shown.queries

    def by_query(values: Float64) -> Float64:
        sums: Float64 = np.bincount(query, weights=values, minlength=shown.n_queries).astype(np.float64)
        return sums

    for _ in range(STEPS):
        here = click_likelihood(design @ found + effects[query], shown.counts, bias)
        weighted = design * here.curvature[:, None]
        # Effects are eliminated: each has one equation of its own.
        mixed = np.column_stack([by_query(column) for column in weighted.T])
        own = by_query(here.curvature) + 1.0 / query_variance
        slope = by_query(here.gradient) - effects / query_variance
        information = design.T @ weighted - mixed.T @ (mixed / own[:, None])
        gradient = design.T @ here.gradient - mixed.T @ (slope / own)
        ridge = RIDGE * np.diag(np.diag(design.T @ weighted))
        step = np.linalg.lstsq(information + ridge, gradient, rcond=None)[0]
        change = (slope - mixed @ step) / own
        size = float(np.abs(design @ step + change[query]).mean())
        shrink = min(1.0, LONGEST_STEP / size) if size > 0.0 else 1.0
        found, effects = found + shrink * step, effects + shrink * change
        if np.abs(step).max() < CLOSE:
            break
    clicks = ClicksWithQueryEffects(shown, bias, query_variance)
    value = clicks.value(design @ found) * float(shown.counts.displays.sum())
    return ScoreWeights(tuple(float(weight) for weight in found[:-1]), float(found[-1]), value)
