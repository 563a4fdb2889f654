"""A curve of one parameter, for ranks with too few clicks for parameters of their own.

    P(C | d, k) = R_d k^−η

Of the clicks on a document, a share ``n_dk k^−η / Σ_j n_dj j^−η`` is expected at rank k, however relevant it
is. The likelihood of these shares is concave in η, and needs far fewer clicks than one parameter per rank.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from rankloop.bias.anchor import clip_lines, examination_of
from rankloop.bias.bias_estimate import CURVE, BiasEstimate, BiasOptions, HarvestCheck
from rankloop.bias.movement import count_movement
from rankloop.bias.resampling import bootstrap, few_clusters
from rankloop.errors import DataError
from rankloop.kernels.click_likelihood import compare_positions
from rankloop.progress import Progress
from rankloop.relevance.newton import Look, maximise
from rankloop.statistics.intervals import normal_quantile, percentile
from rankloop.statistics.tables import CellTable
from rankloop.types import Bias, BiasEvidence, Float64, Lines
from rankloop.value.contribution import debias, unexplained

# Iterations are cheap. Weakly connected ranks need many of them.
HARVEST_ITERATIONS, HARVEST_TOLERANCE = 10_000, 1e-10
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
    for _ in range(HARVEST_ITERATIONS):
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
        if change < HARVEST_TOLERANCE:
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


# A curve needs as many clicks on documents at several ranks, and a standard error of η of at most this.
LEAST_CLICKS, LARGEST_ERROR = 50.0, 0.25
# Ranks that a curve goes on to need so many effective clicks together; it goes on to twice the last rank that
# has an estimate of its own, at most.
LEAST_CLICKS_BELOW, FARTHEST = 25.0, 2
STEPS, TOLERANCE = 50, 1e-10


class PowerCurve(NamedTuple):
    """How examination falls with the rank: as k^−η.

    Attributes:
        eta: η; 0 if all ranks are alike.
        error: its standard error, over queries; infinite if nothing is known.
        clicks: how many clicks tell about it: those on documents that were shown at several ranks.
    """

    eta: float
    error: float
    clicks: float

    @property
    def known(self) -> bool:
        """Whether there are enough clicks."""
        return self.clicks >= LEAST_CLICKS and self.error <= LARGEST_ERROR

    def text(self, confidence: float) -> str:
        """η with its interval.

        >>> PowerCurve(0.567, 0.05, 800.0).text(0.9)
        'η = 0.57 (0.48 to 0.65)'
        """
        half = normal_quantile(confidence) * self.error
        return f"η = {self.eta:.2f} ({self.eta - half:.2f} to {self.eta + half:.2f})"

    def examination(self, ranks: int) -> Float64:
        """Of every rank, relative to rank 1.

        >>> PowerCurve(1.0, 0.1, 100.0).examination(3).round(2)
        array([1.  , 0.5 , 0.33])
        """
        return power(np.arange(ranks), self.eta)


def power(rank: Float64 | np.ndarray[tuple[int, ...], np.dtype[np.int64]], eta: float | Float64) -> Float64:
    """k^−η, with ranks counted from 0."""
    result: Float64 = (1.0 + rank) ** -np.asarray(eta, np.float64)
    return result


def fit_curve(shown: CellTable, weights: Float64 | None = None, *, first: int = 0) -> PowerCurve:
    """Fit η by the likelihood of where documents are clicked, given how often.

        U = Σ_d C_d Σ_k s_dk log k − Σ_dk C_dk log k,    s_dk the expected shares;    V = Σ_q U_q² / I²

    Args:
        shown: displays and clicks per document and rank.
        weights: float64, documents; how often each counts. None for once.
        first: ranks before this one, from 0, are not used.

    Example:
        Two documents that were shown equally often at ranks 1 and 2, and clicked half as often at rank 2.

        >>> from rankloop.statistics import Counts
        >>> shown = np.full((2, 2), 500)
        >>> clicks = np.array([[200, 100], [100, 50]])
        >>> counts = Counts.of_arrays(np.array([0, 1, 2]), {"a": (np.array([500, 500]), shown, clicks)})
        >>> round(fit_curve(CellTable.of(counts)).eta, 6)
        1.0
    """
    document = shown.document_of
    used = np.flatnonzero(shown.position >= first)
    several = np.bincount(document[used], minlength=shown.n_documents) > 1
    used = used[several[document[used]]]
    document, displays = document[used], shown.displays[used]
    times = np.ones(shown.n_documents) if weights is None else weights
    clicked, depth = shown.clicks[used], np.log1p(shown.position[used])
    total = np.bincount(document, clicked, shown.n_documents).astype(np.float64)

    def shares(eta: float) -> tuple[Float64, Float64]:
        weighted = displays * power(shown.position[used], eta)
        sums = np.bincount(document, weighted, shown.n_documents).astype(np.float64)
        return weighted / sums[document], sums

    def scores(eta: float) -> tuple[Float64, Float64]:
        """U and the information of each document."""
        share, _ = shares(eta)
        mean = np.bincount(document, share * depth, shown.n_documents)
        square = np.bincount(document, share * depth**2, shown.n_documents)
        at = np.bincount(document, clicked * depth, shown.n_documents).astype(np.float64)
        return total * mean - at, total * np.maximum(square - mean**2, 0.0)

    def look(eta: float) -> Look[float]:
        _, sums = shares(eta)
        value = -eta * float(times[document] @ (clicked * depth)) - float(
            times @ (total * np.log(np.maximum(sums, 1e-300)))
        )

        def move(length: float) -> float:
            score, information = scores(eta)
            return eta + length * float(times @ score) / max(float(times @ information), 1e-300)

        return Look(value, move)

    if not len(used) or not total.any():
        return PowerCurve(0.0, np.inf, 0.0)
    eta = maximise(0.0, look, steps=STEPS, tolerance=TOLERANCE).at
    score, information = scores(eta)
    by_query = np.bincount(np.unique(shown.queries, return_inverse=True)[1], times * score)
    known = float(times @ information)
    error = float(np.sqrt((by_query**2).sum())) / known if known > 0.0 else np.inf
    return PowerCurve(eta, error if error > 0.0 else np.inf, float(times @ total))


def estimate_curve(
    shown: CellTable,
    options: BiasOptions,
    rng: np.random.Generator,
    *,
    method: str,
    notes: Iterable[str] = (),
    progress: Progress | None = None,
    **details: Any,
) -> BiasEstimate:
    """Estimate a bias of one parameter, without trust bias.

    Args:
        shown: displays and clicks per document and rank.
        options: the intervals that are wanted.
        rng: random generator for the resamples.
        method: what counts as one document.
        notes: remarks that every report must show.
        progress: receives a task for the resamples.
        details: other fields of the estimate.

    Raises:
        DataError: there are too few clicks even for one parameter.
    """
    # Ranks without a click say nothing about how fast clicks fall.
    ranks = int(np.flatnonzero(shown.by_rank(shown.clicks)).max(initial=0)) + 1
    table = shown.first_positions(ranks)
    curve = fit_curve(table)
    if not curve.known:
        raise DataError(
            f"documents that were shown at several ranks have {curve.clicks:.0f} clicks, too few even for a "
            f"curve of one parameter: {LEAST_CLICKS:.0f} are needed, and a standard error of η of at most "
            f"{LARGEST_ERROR:g} (it is {curve.error:.2g})"
        )
    resampled, caveats = None, [*notes]
    if options.resamples:
        etas = bootstrap(
            lambda drawn, weights: np.array(fit_curve(drawn, weights).eta),
            table,
            options.resamples,
            rng,
            progress,
        )
        theta = power(np.arange(ranks), etas[:, None])
        resampled = Lines(theta / theta.max(axis=1, keepdims=True), np.zeros_like(theta))
        caveats += few_clusters(table)
    caveats.append(
        f"The bias is a curve of one parameter: examination falls as k^−η with the rank k, "
        f"{curve.text(options.confidence)}, and there is no trust bias. These clicks do not tell whether "
        f"that is its form."
    )
    theta = curve.examination(ranks)
    return BiasEstimate.assemble(
        Lines(theta / theta.max(), np.zeros(ranks)),
        resampled,
        count_movement(table),
        options,
        method=method,
        notes=caveats,
        model=CURVE,
        **details,
    )


def with_ranks_below(estimate: BiasEstimate, all_ranks: CellTable) -> BiasEstimate:
    """The estimate with the ranks that have too few clicks for parameters of their own, or a note on them.

        α_k = α_m (k / m)^−η,    β_k = β_m (k / m)^−η        for k > m, the last rank of the estimate

    η comes from the ranks from m/2 on. Ranks to which hardly any document moved stay without an estimate.

    Args:
        estimate: the estimate.
        all_ranks: displays and clicks per document and rank, of all ranks of the log.
    """
    missing = estimate.movement.missing_positions
    if missing is None:
        return estimate
    last = estimate.bias.positions
    refused = f"No estimate below rank {last}: {missing}."
    without = replace(estimate, notes=(refused, *estimate.notes))
    ranks = min(all_ranks.positions, FARTHEST * last)
    if estimate.movement.effective_clicks[last:ranks].sum() < LEAST_CLICKS_BELOW:
        return without
    table = all_ranks.first_positions(ranks)
    curve = fit_curve(table, first=last // 2)
    if not curve.known:
        return without
    below = np.arange(last, ranks)

    def go_on(values: Float64, eta: float | Float64) -> Float64:
        """Values of ranks, and of those below; the last axis is ranks."""
        factor = power(below, eta) / power(np.array([last - 1]), eta)
        return np.concatenate([values, values[..., -1:] * factor], axis=-1)

    known, drawn = estimate.bias, estimate.resampled
    lines = clip_lines(Lines(go_on(known.alpha, curve.eta), go_on(known.beta, curve.eta)))
    intervals: dict[str, Any] = {}
    evidence = known.evidence
    if drawn is not None:
        rng = np.random.default_rng(estimate.resample_seed or 0)
        eta = curve.eta + curve.error * rng.standard_normal((len(drawn.alpha), 1))
        resampled = clip_lines(Lines(go_on(drawn.alpha, eta), go_on(drawn.beta, eta)))
        examined = examination_of(resampled)
        evidence = BiasEvidence(estimate.method, np.stack([*resampled, examined], axis=1))
        parts = {"alpha": resampled.alpha, "beta": resampled.beta, "examination": examined}
        intervals = {name: percentile(part, estimate.confidence) for name, part in parts.items()}
    note = (
        f"Ranks {last + 1} to {ranks} have too few clicks for estimates of their own. There α and β fall as "
        f"k^−η, with {curve.text(estimate.confidence)} from the clicks at rank {last // 2 + 1} and below."
    )
    # Queries that were shown at the ranks below alone were not resampled.
    same = len(np.unique(table.queries)) == len(np.unique(all_ranks.first_positions(last).queries))
    return replace(
        estimate,
        bias=Bias(*lines, examination_of(lines), evidence, contexts=known.contexts),
        notes=(note, *estimate.notes),
        resample_seed=estimate.resample_seed if same else None,
        **intervals,
    )
