"""Intervention harvesting: examination from the same documents at different ranks, or a check on α and β."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from rankloop.bias.bias_estimate import HarvestCheck
from rankloop.bias.bootstrap import bootstrap
from rankloop.kernels.click_likelihood import compare_positions
from rankloop.statistics.tables import CellTable
from rankloop.types import Bias, Float64
from rankloop.value.contribution import debias, unexplained

# Iterations are cheap. Weakly connected ranks need many of them.
MAX_ITERATIONS, TOLERANCE = 10_000, 1e-10
# Resamples for the standard error of the check: each passes over all counts twice.
CHECK_RESAMPLES = 20


def harvest(shown: CellTable, weights: Float64 | None = None) -> Float64:
    """Estimate the examination of every rank relative to rank 1 from documents that were shown at two ranks.

        max_θ  Σ_{j ≠ k} C_jk · log(θ_j / (θ_j + θ_k))

    C_jk counts the clicks at rank j on documents that were also shown at rank k, weighted as if each document
    had been shown equally often at both ranks: ``c_dj / n_dj · n_dj n_dk / (n_dj + n_dk)``. Its expectation
    is θ_j times a factor that j and k share. The expected share of clicks at rank j is therefore
    ``θ_j / (θ_j + θ_k)``, regardless of which documents were shown and at which rank they were shown more
    often.

    Args:
        shown: displays and clicks per document and rank.
        weights: documents; the weight of each document. All weights are 1 if None.

    Returns:
        float64, ranks; the first is 1.

    Reference:
        Agarwal, Zaitsev, Wang, Li, Najork and Joachims, Estimating position bias without intrusive
        interventions, WSDM 2019. Their likelihood also fits the relevance of each pair of ranks; here it is
        conditioned out. The iteration follows Hunter, MM algorithms for generalized Bradley-Terry models,
        2004.
    """
    ranks = shown.positions
    common, effective, clicked = np.zeros((3, ranks, ranks))
    document_weights = np.ones(shown.n_documents) if weights is None else weights
    counts = shown.starts, shown.position, shown.displays, shown.clicks
    compare_positions(*counts, document_weights, common, effective, clicked)
    np.fill_diagonal(clicked, 0.0)
    both, own = clicked + clicked.T, clicked.sum(axis=1)
    theta = np.ones(ranks)
    for _ in range(MAX_ITERATIONS):
        total = theta[:, None] + theta
        against = np.divide(both, total, out=np.zeros_like(both), where=total > 0.0).sum(axis=1)
        new = np.divide(own, against, out=theta.copy(), where=against > 0.0)
        scale = new[0] if new[0] > 0.0 else new.max()
        if scale <= 0.0:
            # A resample without clicks compares nothing.
            break
        new /= scale
        change = np.abs(new - theta).max()
        theta = new
        if change < TOLERANCE:
            break
    return theta


def check_by_harvest(
    bias: Bias, shown: CellTable, *, seed: int | None, unit: str = "documents"
) -> HarvestCheck:
    """Check α and β by what harvesting finds in the clicks of the log and in those that α and β expect.

    Args:
        bias: what is checked.
        shown: displays and clicks per document and rank, of the ranks of the bias.
        seed: of the resamples for the standard error; None for no standard error.
        unit: what counts as one document, in words.
    """
    expected = replace(shown, clicks=expected_clicks(shown, bias))
    error = None
    if seed is not None:

        def difference(counts: CellTable, weights: Float64) -> Float64:
            return harvest(counts, weights) - harvest(expected, weights)

        error = bootstrap(difference, shown, CHECK_RESAMPLES, np.random.default_rng(seed)).std(axis=0, ddof=1)
    return HarvestCheck(unit, harvest(shown), harvest(expected), error)


def expected_clicks(shown: CellTable, bias: Bias) -> Float64:
    """The clicks that α and β expect, if every document is as relevant as all its clicks together say: cells.

    n_dk (α_k R_d + β_k),    R_d = Σ_k (c_dk − n_dk β_k) / Σ_k n_dk α_k
    """
    alpha, beta = shown.displays * bias.alpha[shown.position], shown.displays * bias.beta[shown.position]
    surprise = unexplained(shown.by_document(shown.clicks), shown.by_document(beta))
    relevance = debias(surprise, shown.by_document(alpha))
    return np.asarray(alpha * relevance[shown.document_of] + beta)
