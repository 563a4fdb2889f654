"""Ask a log how users click: an estimate by the best method that it supports, or why each method refuses."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from rankloop.bias.anchor import Anchor
from rankloop.bias.bias_estimate import ASSUMPTIONS, BiasEstimate, BiasOptions
from rankloop.bias.context_effects import estimate_effects, period_levels
from rankloop.bias.feature_regression import estimate_from_features
from rankloop.bias.moved_documents import estimate_from_documents, estimate_from_movement
from rankloop.bias.movement import count_movement
from rankloop.bias.randomised_policy import estimate_from_randomised
from rankloop.clicks import bias_of, users
from rankloop.errors import DataError, RankloopError
from rankloop.names import BadNameError
from rankloop.progress import Progress
from rankloop.statistics import Counts
from rankloop.statistics.tables import CellTable
from rankloop.types import ASSUMED, Bias, BiasEvidence, Float32

# The default curve, and for how many ranks at most.
DEFAULT_CURVE, DEFAULT_POSITIONS = "paper", 10
# A range of curves that is plausible for lists of results: position-based users whose examination falls with
# the rank, from slowly to steeply, and the users with trust bias of Vardasbi et al. (2020).
PLAUSIBLE = ("position@{ranks}(eta=0.5)", "position@{ranks}", "position@{ranks}(eta=1.5)", "paper@{ranks}")


def named_bias(name: str) -> Bias:
    """The bias of simulated users, by name; its evidence says that it is assumed.

    >>> named_bias("position@3").examination.round(2), named_bias("position@3").is_estimated
    (array([1.  , 0.5 , 0.33]), False)
    """
    try:
        found = bias_of(users(name))
    except BadNameError as error:
        raise RankloopError(
            f"{name!r} is not a curve: {error}; use a name such as paper@10 or position@10(eta=1)"
        ) from error
    return Bias(found.alpha, found.beta, found.examination, BiasEvidence(ASSUMED))


def plausible_curves(ranks: int) -> tuple[str, ...]:
    """Names of curves that are plausible for lists of results with this many ranks.

    >>> plausible_curves(5)
    ('position@5(eta=0.5)', 'position@5', 'position@5(eta=1.5)', 'paper@5')
    """
    return tuple(name.format(ranks=ranks) for name in PLAUSIBLE)


def assume_curve(counts: Counts, curve: str | None = None) -> BiasEstimate:
    """Assume a curve; nothing is estimated.

    Args:
        counts: the counts of the log, for the report on what the log can tell.
        curve: the name of simulated users. None for ``paper@K`` with the ranks of the log, at most 10.
    """
    name = f"{DEFAULT_CURVE}@{min(counts.positions, DEFAULT_POSITIONS)}" if curve is None else curve
    bias = named_bias(name)
    return BiasEstimate(
        method=ASSUMED,
        assumption=f"{ASSUMPTIONS[ASSUMED]} (the curve is {name})",
        model="affine" if np.any(bias.beta > 0.0) else "position",
        bias=bias,
        anchor=Anchor(1, bias.positions),
        movement=count_movement(CellTable.of(counts)),
        notes=(
            f"The bias is assumed, not estimated: {name}. Check how much conclusions change with other "
            f"curves (rankloop.sensitivity), and collect a log in which documents move.",
        ),
    )


# What a log that supports no method needs.
REMEDY = (
    "What to do: name a policy that ranks at random, if the log has one (rankloop bias --randomised POLICY); "
    "collect a log in which documents move; import the features that the ranker uses (rankloop import … "
    "--features TABLE); or assume a curve (rankloop bias --curve paper@10) and check how much it matters "
    "(rankloop evaluate --sensitivity)."
)
DEFAULTS = BiasOptions()


@dataclass(frozen=True, eq=False)
class BiasAnswer:
    """Whether a log tells how users click.

    Attributes:
        estimate: how users click; None if no method can be used.
        refusals: why not, by method, for every method that was tried and refused.
        remedy: what would help, as a sentence; empty if there is an estimate, or if one method was asked for.
    """

    estimate: BiasEstimate | None
    refusals: Mapping[str, str]
    remedy: str = ""

    @property
    def reasons(self) -> tuple[str, ...]:
        """One sentence per reason; methods that share one are named together."""
        methods: dict[str, list[str]] = {}
        for name, reason in self.refusals.items():
            methods.setdefault(reason, []).append(name)
        return tuple(
            f"Not estimated from {' or '.join(names)}: {reason}." for reason, names in methods.items()
        )

    @property
    def refusal(self) -> str:
        """What `estimate_bias` says if there is no estimate."""
        if not self.remedy:
            return "; ".join(self.refusals.values())
        return f"no method supports this log. {' '.join(self.reasons)} {self.remedy}"

    def require(self) -> BiasEstimate:
        """The estimate.

        Raises:
            DataError: there is none; the message is the refusal.
        """
        if self.estimate is None:
            raise DataError(self.refusal)
        return self.estimate

    def to_dict(self) -> dict[str, Any]:
        """What is known without intervals, for JSON."""
        found = self.estimate
        return {
            "method": None if found is None else found.method,
            "assumption": None if found is None else found.assumption,
            "positions": 0 if found is None else found.bias.positions,
            "refusals": dict(self.refusals),
            "remedy": self.remedy,
        }


def estimate_bias(
    counts: Counts,
    options: BiasOptions = DEFAULTS,
    *,
    rng: np.random.Generator,
    features: Float32 | Callable[[], Float32] | None = None,
    progress: Progress | None = None,
) -> BiasEstimate:
    """Estimate click bias from a log, by the first method that the log supports.

        affine      P(C | d, k) = α_k · R_d + β_k    maximum likelihood, relevance integrated out
        position    P(C | d, k) = θ_k · R_d          the same with β = 0
        harvesting  P(C | d, k) = θ_k · R_d          from documents that were shown at two ranks

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
        features: float32, documents of the counts × features, NaN where a value is missing; or the function
            that reads them, which is called only if they are needed.
        progress: receives a task for each fit, for the resamples and for the comparison.

    Raises:
        DataError: no method can be used; the message says why for each of them, and what to do.

    Example:
        >>> from rankloop.bias import BiasOptions, anchored
        >>> from rankloop.clicks import bias_of, gather, users
        >>> rng, people, offsets = np.random.default_rng(0), users("paper@2"), np.arange(0, 401, 4)
        >>> counts = gather(np.zeros(400), offsets, rng.random(400), people, 50_000, rng)
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
    return ask_bias(counts, options, rng=rng, features=features, progress=progress).require()


def ask_bias(
    counts: Counts,
    options: BiasOptions = DEFAULTS,
    *,
    rng: np.random.Generator,
    features: Float32 | Callable[[], Float32] | None = None,
    periods: Sequence[Counts] | None = None,
    decision_only: bool = False,
    progress: Progress | None = None,
) -> BiasAnswer:
    """Ask a log how users click; see `estimate_bias`, which raises what is refused here.

    Args:
        counts: the counts of a log, by context if users click more in some contexts.
        options: what is estimated, by which method, and with which intervals.
        rng: random generator for the resamples and the held-out folds.
        features: the features of the documents, or the function that reads them.
        periods: the counts of each period, if policies served at different times: documents that moved are
            then compared within a period only, so that a change of demand is not mistaken for a bias.
        decision_only: leave out what takes long and cannot refuse: the intervals, except where they decide
            (features that predict relevance too poorly are refused by their standard errors), and the
            comparison on held-out queries. The answer is the same with the same generator, apart from the
            scale, the intervals and the notes of the estimate.
        progress: receives a task for each fit, for the resamples and for the comparison.
    """
    # Nothing but features draws from the generator before it has been decided whether the method can be used.
    brief = replace(options, resamples=0, held_out=False) if decision_only else options

    effects = None if counts.context_of is None else estimate_effects(counts, confidence=options.confidence)

    def from_pairs() -> BiasEstimate:
        table = (
            CellTable.of(counts, effects=effects)
            if periods is None
            else CellTable.of_periods(periods, effects=effects, levels=period_levels(periods))
        )
        found = estimate_from_movement(table, brief, rng, progress=progress)
        return replace(found, log=counts.fingerprint)

    def from_documents() -> BiasEstimate:
        def estimate(pooled: CellTable) -> BiasEstimate:
            return estimate_from_movement(pooled, brief, rng, method="documents", progress=progress)

        return estimate_from_documents(counts, estimate, forced=options.forced, effects=effects)

    def from_features() -> BiasEstimate:
        if features is None:
            raise DataError("the log has no features")
        values = features() if callable(features) else features
        pairs = CellTable.of(counts, effects=effects)
        found = estimate_from_features(pairs, values, options, rng, progress=progress)
        return replace(found, log=counts.fingerprint)

    def from_randomised() -> BiasEstimate:
        if options.randomised is None:
            raise DataError("no policy was declared randomised (randomised=…, --randomised POLICY)")
        return estimate_from_randomised(
            counts, options.randomised, brief, rng, effects=effects, progress=progress
        )

    def within(estimate: Callable[[], BiasEstimate]) -> Callable[[], BiasEstimate]:
        return lambda: estimate().with_contexts(effects)

    ways: dict[str, Callable[[], BiasEstimate]] = {
        "pairs": from_pairs,
        "documents": from_documents,
        "features": from_features,
        "randomised": from_randomised,
        ASSUMED: lambda: assume_curve(counts, options.curve),
    }
    ways = {name: within(way) for name, way in ways.items()}
    if options.forced:
        try:
            return BiasAnswer(ways[options.method](), {})
        except DataError as error:
            return BiasAnswer(None, {options.method: str(error)})
    refused: dict[str, str] = {}
    first = () if options.randomised is None else ("randomised",)
    for name in (*first, "pairs", "documents", "features"):
        try:
            return _with_refusals(BiasAnswer(ways[name](), refused))
        except DataError as error:
            refused[name] = str(error)
    if options.curve is not None:
        return _with_refusals(BiasAnswer(ways[ASSUMED](), refused))
    return BiasAnswer(None, refused, REMEDY)


def _with_refusals(answer: BiasAnswer) -> BiasAnswer:
    """The answer, whose estimate says why earlier methods were not used."""
    if answer.estimate is None or not answer.refusals:
        return answer
    return replace(answer, estimate=replace(answer.estimate, notes=(*answer.reasons, *answer.estimate.notes)))
