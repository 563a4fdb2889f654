"""Estimate a bias from a log by the best method that the log supports."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np

from rankloop.bias.assumed_curve import assume_curve
from rankloop.bias.bias_estimate import BiasEstimate
from rankloop.bias.bias_options import BiasOptions
from rankloop.bias.document_pool import estimate_from_documents
from rankloop.bias.feature_regression import estimate_from_features
from rankloop.bias.moved_items import estimate_from_items
from rankloop.bias.randomised_policy import estimate_from_randomised
from rankloop.bias.rank_counts import RankCounts
from rankloop.errors import DataError
from rankloop.logs import LogCounts
from rankloop.progress import Progress
from rankloop.types import ASSUMED, Float32

# What a log that supports no method needs.
REMEDY = (
    "What to do: name a policy that ranks at random, if the log has one (rankloop bias --randomised POLICY); "
    "collect a log in which documents move; import the features that the ranker uses (rankloop import … "
    "--features TABLE); or assume a curve (rankloop bias --curve paper@10) and check how much it matters "
    "(rankloop evaluate --sensitivity)."
)
DEFAULTS = BiasOptions()


def estimate_bias(
    counts: LogCounts,
    options: BiasOptions = DEFAULTS,
    *,
    rng: np.random.Generator,
    features: Float32 | Callable[[], Float32] | None = None,
    progress: Progress | None = None,
) -> BiasEstimate:
    """Estimate click bias from a log, by the first method that the log supports.

        affine      P(C | d, k) = α_k · R_d + β_k    maximum likelihood, relevance integrated out
        position    P(C | d, k) = θ_k · R_d          the same with β = 0
        harvesting  P(C | d, k) = θ_k · R_d          from items that were shown at two ranks

    Methods, in the order in which they are tried (docs/bias.md explains them):

        randomised  the click rates of a policy that was declared randomised; only if one is given
        pairs       pairs of query and document that moved between ranks
        documents   documents that moved between ranks across queries
        features    documents with similar features that were shown at different ranks; only if there are any
        assumed     a curve by name; only if one is given, or the method is asked for

    Args:
        counts: the counts of a log, as returned by `rankloop.Log.count`.
        options: what is estimated, by which method, and with which intervals.
        rng: random generator for the resamples and the held-out folds.
        features: float32, items of the counts × features, NaN where a value is missing; or the function that
            reads them, which is called only if they are needed.
        progress: receives a task for each fit, for the resamples and for the comparison.

    Raises:
        DataError: no method can be used; the message says why for each of them, and what to do.

    Example:
        >>> from rankloop.bias import BiasOptions, anchored, simulated_counts
        >>> from rankloop.clicks import bias_of, gather, users
        >>> rng, people, offsets = np.random.default_rng(0), users("paper@2"), np.arange(0, 401, 4)
        >>> clicks = gather(np.zeros(400), offsets, rng.random(400), people, 50_000, rng)
        >>> counts = simulated_counts(offsets, {"random": clicks})
        >>> estimate = estimate_bias(counts, BiasOptions(resamples=20), rng=rng)
        >>> estimate.method, str(estimate.anchor)
        ('pairs', 'relevance 1 is always clicked at rank 1, relevance 0 never at rank 2')
        >>> truth = anchored(bias_of(people))
        >>> bool(np.abs(estimate.bias.alpha - truth.alpha).max() < 0.02)
        True
        >>> estimate.comparison.better
        'affine'

    Reference: docs/bias.md; Vardasbi, Oosterhuis and de Rijke, When inverse propensity scoring does not work:
    affine corrections for unbiased learning to rank, CIKM 2020.
    """

    def from_pairs() -> BiasEstimate:
        found = estimate_from_items(RankCounts.of(counts), options, rng, progress=progress)
        return replace(found, log=counts.fingerprint)

    def from_documents() -> BiasEstimate:
        def estimate(pooled: RankCounts) -> BiasEstimate:
            return estimate_from_items(pooled, options, rng, method="documents", progress=progress)

        return estimate_from_documents(counts, estimate, forced=options.forced)

    def from_features() -> BiasEstimate:
        if features is None:
            raise DataError("the log has no features")
        values = features() if callable(features) else features
        pairs = RankCounts.of(counts)
        found = estimate_from_features(pairs, values, options, rng, progress=progress)
        return replace(found, log=counts.fingerprint)

    def from_randomised() -> BiasEstimate:
        if options.randomised is None:
            raise DataError("no policy was declared randomised (randomised=…, --randomised POLICY)")
        return estimate_from_randomised(counts, options.randomised, options, rng, progress=progress)

    ways: dict[str, Callable[[], BiasEstimate]] = {
        "pairs": from_pairs,
        "documents": from_documents,
        "features": from_features,
        "randomised": from_randomised,
        ASSUMED: lambda: assume_curve(counts, options.curve),
    }
    if options.forced:
        return ways[options.method]()
    refused: dict[str, str] = {}
    first = () if options.randomised is None else ("randomised",)
    for name in (*first, "pairs", "documents", "features"):
        try:
            found = ways[name]()
        except DataError as error:
            refused[name] = str(error)
            continue
        return found if not refused else replace(found, notes=(*_refusals(refused), *found.notes))
    if options.curve is not None:
        assumed = assume_curve(counts, options.curve)
        return replace(assumed, notes=(*_refusals(refused), *assumed.notes))
    raise DataError(f"no method supports this log. {' '.join(_refusals(refused))} {REMEDY}")


def _refusals(refused: Mapping[str, str]) -> list[str]:
    """One sentence per reason; methods that share one are named together."""
    return [
        f"Not estimated from {' or '.join(name for name in refused if refused[name] == reason)}: {reason}."
        for reason in dict.fromkeys(refused.values())
    ]
