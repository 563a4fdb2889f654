"""The result of estimating, or assuming, how users click."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from rankloop.bias.anchor import Anchor, as_bias, choose_scale, examination_of, lines_at
from rankloop.bias.movement import Movement
from rankloop.errors import RankloopError
from rankloop.names import unknown
from rankloop.notebook import NotebookResult
from rankloop.statistics.intervals import CONFIDENCE, Interval, percentile
from rankloop.storage.plain import to_plain
from rankloop.types import ASSUMED, LIST_LENGTH, Bias, BiasEvidence, ContextEffects, Float64, Lines

# Each method with what it assumes, from the weakest assumption to the strongest.
ASSUMPTIONS = {
    "pairs": "a document is equally relevant to its query whenever it is shown",
    "documents": "a document is equally relevant in every query that shows it",
    "features": "documents with the same features are equally relevant on average at every rank",
    "randomised": "the randomised policy puts documents at ranks that have nothing to do with relevance",
    ASSUMED: "users click as the named curve says; no click of the log was used",
}
METHODS = tuple(ASSUMPTIONS)
AUTO = "auto"
# What every bias has, and decimals of resampled values: far finer than their spread.
VALUES = ("alpha", "beta", "examination")
DIGITS = 6
# Shares with a common name. Others are given as numbers.
SHARES = {
    0.75: "three quarters",
    2 / 3: "two thirds",
    0.5: "half",
    1 / 3: "a third",
    0.25: "a quarter",
    0.2: "a fifth",
    1 / 6: "a sixth",
    0.125: "an eighth",
    0.1: "a tenth",
}
# A share is named if it differs from the named one by at most this factor.
NAMED_WITHIN = 1.04
# One model is better than another if the difference exceeds this many standard errors.
MIN_STANDARD_ERRORS = 2.0
# Harvesting contradicts α and β if it differs from what they expect by more than this many standard errors,
# and by more than this share. 20 resamples of nine ranks exceed four standard errors in 1 % of logs.
CONTRADICTED_ERRORS, CONTRADICTED_SHARE = 4.0, 0.1


@dataclass(frozen=True)
class ModelComparison:
    """The affine and the position-based model on held-out queries.

    Each model is scored by the likelihood of all clicks on the documents of queries that it was not fitted
    to, with relevance integrated out. Queries are held out rather than impressions: clicks on the same
    documents are not independent, and the question is whether α and β hold for other queries.

    Attributes:
        affine: log-likelihood per display of the affine model.
        position: log-likelihood per display of the position-based model.
        gain: affine − position, per display.
        error: standard error of the gain, over queries.
    """

    plain_properties: ClassVar[tuple[str, ...]] = ("better",)
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
    def decision(self) -> str:
        """The result of the comparison as a sentence."""
        numbers = f"{1000 * self.gain:+.3g} ± {1000 * self.error:.2g} nats per 1,000 displays"
        if self.better is None:
            return f"held-out queries do not distinguish the affine from the position-based model ({numbers})"
        winner = "affine" if self.better == "affine" else "position-based"
        return f"held-out queries favour the {winner} model (affine − position-based: {numbers})"


@dataclass(frozen=True, eq=False)
class HarvestCheck:
    """What the same documents at two ranks say about examination, and what α and β make of the same displays.

    Intervention harvesting has no model of relevance, so it is a check on estimates that have one. It assumes
    that there is no trust bias. It is therefore not compared with the examination, but with what harvesting
    would find in the clicks that α and β expect.

    Attributes:
        unit: what counts as one document: ``documents`` or ``queries``.
        harvested: float64, ranks; what harvesting finds in the clicks of the log, relative to rank 1.
        expected: float64, ranks; what it finds in the clicks that α and β expect of the same displays.
        error: float64, ranks; the standard error of the difference; None without resamples.
    """

    unit: str
    harvested: Float64
    expected: Float64
    error: Float64 | None

    @property
    def notes(self) -> tuple[str, ...]:
        """The remark that every report must show if the two contradict each other at some rank."""
        if self.error is None:
            return ()
        gap = np.abs(self.harvested - self.expected)
        errors = gap / np.maximum(self.error, 1e-12)
        far = (errors > CONTRADICTED_ERRORS) & (gap > CONTRADICTED_SHARE * self.expected)
        if not far.any():
            return ()
        k = int(np.argmax(np.where(far, errors, 0.0)))
        return (
            f"Do not rely on this estimate: on the same {self.unit}, rank {k + 1} is clicked "
            f"{self.harvested[k]:.2f} times as often as rank 1 (intervention harvesting), and α and β imply "
            f"{self.expected[k]:.2f} times (a difference of {errors[k]:.1f} standard errors). Documents were "
            f"not equally relevant wherever they were shown, or users do not click as α R + β says.",
        )


@dataclass(frozen=True, eq=False)
class BiasEstimate(NotebookResult):
    """How users click, as estimated from a log or assumed.

    Attributes:
        method: ``pairs``, ``documents``, ``features``, ``randomised`` or ``assumed``.
        assumption: what the method assumes, as one sentence.
        model: ``affine``, ``position`` or ``harvesting``.
        bias: α, β and examination of the ranks that the log can compare. These are fewer than the ranks of
            the log if documents moved too little at some ranks. Examination follows from α and β
            (`rankloop.bias.anchor.examination_of`), or is part of the curve that is assumed.
        anchor: which levels of relevance count as 0 and as 1.
        movement: which of the log's ranks can be compared.
        notes: remarks that every report must show.
        alpha: the intervals of α; None without resamples.
        beta: the intervals of β; None without resamples.
        examination: the intervals of the examination; None without resamples.
        confidence: confidence level of the intervals.
        resamples: number of bootstrap resamples.
        comparison: comparison of the affine and the position-based model on held-out queries; None if it was
            not requested, or the method does not have one.
        check: α and β against intervention harvesting; None if the method does not compare the same documents
            at several ranks, or is harvesting itself.
        resample_seed: the seed of `draw_units`, which gives the queries of every resample again: those of
            the log with a document at one of the first ``bias.positions`` ranks, in the order of their
            numbers. None if something else was resampled.
        log: the fingerprint of the log; None if it is not known.
        query_share: the share of the log's queries that was used: a random sample of a large log.
    """

    document: ClassVar[str] = "rankloop.reports.bias:bias_document"
    method: str
    assumption: str
    model: str
    bias: Bias
    anchor: Anchor
    movement: Movement
    notes: tuple[str, ...]
    alpha: Interval | None = None
    beta: Interval | None = None
    examination: Interval | None = None
    confidence: float = CONFIDENCE
    resamples: int = 0
    comparison: ModelComparison | None = None
    check: HarvestCheck | None = None
    resample_seed: int | None = None
    log: str | None = None
    query_share: float = 1.0

    def __repr__(self) -> str:
        return f"BiasEstimate({self.method!r}, {self.bias.positions} ranks: {self.headline})"

    @classmethod
    def assemble(
        cls,
        lines: Lines,
        resampled: Lines | None,
        movement: Movement,
        options: BiasOptions,
        *,
        method: str,
        notes: Iterable[str] = (),
        **details: Any,
    ) -> BiasEstimate:
        """Build an estimate from α and β: scale, examination, intervals and evidence all follow from these.

        Args:
            lines: α and β on any scale of relevance; ranks.
            resampled: the same for each resample; None without resamples.
            movement: how documents moved between ranks.
            options: what was estimated, and the confidence level.
            method: how it was estimated.
            notes: remarks that every report must show, besides those on the scale.
            details: other fields of the estimate, also in place of what follows from the method and options.
        """
        scale = choose_scale(lines, resampled, options.confidence)
        drawn, examination = None, None
        if scale.resampled is not None:
            examined = examination_of(scale.resampled)
            drawn = np.stack([*scale.resampled, examined], axis=1)
            examination = percentile(examined, options.confidence)
        standard: dict[str, Any] = {
            "method": method,
            "assumption": ASSUMPTIONS[method],
            "model": options.model,
            "bias": as_bias(lines_at(lines, scale.anchor), BiasEvidence(method, drawn)),
            "anchor": scale.anchor,
            "movement": movement,
            "notes": (*notes, *scale.notes),
            "alpha": scale.alpha,
            "beta": scale.beta,
            "examination": examination,
            "confidence": options.confidence,
            "resamples": options.resamples,
        }
        return cls(**standard | details)

    def checked(self, check: HarvestCheck | None) -> BiasEstimate:
        """The same estimate with a check, and its note if it contradicts α and β."""
        return self if check is None else replace(self, check=check, notes=(*self.notes, *check.notes))

    def with_contexts(self, effects: ContextEffects | None) -> BiasEstimate:
        """The same estimate with the effects of the contexts that it accounts for, and a note on them."""
        if effects is None:
            return self
        contexts = effects.of_ranks(self.bias.positions)
        note = f"{describe_effects(contexts)} This is accounted for."
        return replace(self, bias=replace(self.bias, contexts=contexts), notes=(note, *self.notes))

    @property
    def resampled(self) -> Lines | None:
        """α and β of every resample, resamples × ranks each, on the scale of the anchor; None without any."""
        evidence = self.bias.evidence
        if evidence is None or evidence.resamples is None:
            return None
        return Lines(evidence.resamples[:, 0], evidence.resamples[:, 1])

    @property
    def is_estimated(self) -> bool:
        """Whether the bias was estimated from the clicks of the log, rather than assumed."""
        return self.method != ASSUMED

    @property
    def headline(self) -> str:
        """The result as one plain sentence: how often the last rank is examined, relative to rank 1."""
        last, share = self.bias.positions, float(self.bias.examination[-1])
        if last == 1:
            return "The bias has one rank, so there is nothing to compare."
        verb = "is" if self.is_estimated else "is assumed to be"
        text = f"Rank {last} {verb} examined {share_in_words(share)} as rank 1"
        if self.examination is None:
            return f"{text}."
        low, high = float(self.examination.low[-1]), float(self.examination.high[-1])
        return f"{text} ({self.confidence:.0%} interval: {low:.2f} to {high:.2f} times)."

    def to_dict(self) -> dict[str, Any]:
        """Convert to plain values for JSON."""
        content: dict[str, Any] = to_plain(
            {
                "method": self.method,
                "assumption": self.assumption,
                "estimated": self.is_estimated,
                "model": self.model,
                "ranks": self.bias.positions,
                "alpha": self.bias.alpha,
                "beta": self.bias.beta,
                "examination": self.bias.examination,
                "anchor": self.anchor,
                "confidence": self.confidence,
                "resamples": self.resamples,
                "alpha_interval": self.alpha,
                "beta_interval": self.beta,
                "examination_interval": self.examination,
                "check": self.check,
                "held_out": self.comparison,
                "movement": self.movement,
                "notes": self.notes,
                "log": self.log,
                "contexts": self.bias.contexts,
                "resample_seed": self.resample_seed,
                "query_share": self.query_share,
            }
        )
        return content


def describe_effects(effects: ContextEffects) -> str:
    """What the effects of contexts say, in one sentence.

    >>> lengths = ContextEffects(LIST_LENGTH, ("2", "5"), np.array([[2.0], [1.0]]))
    >>> describe_effects(lengths)
    'The same document at the same position is clicked 2.00 times as often in lists of 2 as in lists of 5.'
    """
    mean = effects.factors.mean(axis=1)
    known = np.arange(len(mean)) if effects.of == LIST_LENGTH else np.arange(max(len(mean) - 1, 1))
    most, least = (int(known[pick(mean[known])]) for pick in (np.argmax, np.argmin))
    ratio = float(mean[most] / mean[least])
    if effects.of == LIST_LENGTH:
        return (
            f"The same document at the same position is clicked {ratio:.2f} times as often in lists of "
            f"{effects.values[most]} as in lists of {effects.values[least]}."
        )
    return f"Users click by another position curve for each value of {effects.of}."


def share_in_words(share: float) -> str:
    """How often something happens relative to something else, in words that "as" can follow.

    >>> share_in_words(0.202), share_in_words(0.37), share_in_words(1.01)
    ('a fifth as often', '0.37 times as often', 'as often')
    """
    if max(share, 1e-9) / 1.0 < NAMED_WITHIN and 1.0 / max(share, 1e-9) < NAMED_WITHIN:
        return "as often"
    for value, name in SHARES.items():
        if 1.0 / NAMED_WITHIN < share / value < NAMED_WITHIN:
            return f"{name} as often"
    return f"{share:.2g} times as often"


# Examination k^−η, for logs with few clicks.
CURVE = "curve"
MODELS = ("affine", "position", "harvesting", CURVE)
# The contexts that are not a column of the log.
LENGTH, NO_CONTEXT = "length", "none"
# With fewer resamples, the 5 % quantile cannot be estimated.
MIN_RESAMPLES = 20


@dataclass(frozen=True)
class BiasOptions:
    """How a bias is estimated.

    Attributes:
        method: ``pairs``, ``documents``, ``features``, ``randomised`` or ``assumed``; ``auto`` for the first
            that the log supports.
        model: ``affine``, ``position`` or ``harvesting``; or ``curve``, examination k^−η, which needs the
            fewest clicks.
        randomised: the id of a policy that ranks at random, if there is one.
        curve: the name of simulated users, such as ``paper@10`` or ``position@10(eta=1)``, to assume if
            nothing can be estimated.
        resamples: number of bootstrap resamples of the queries for the intervals; 0 for no intervals.
        confidence: confidence level of the intervals.
        held_out: whether to compare the affine and the position-based model on held-out queries.
        context: in which contexts users may click more: ``length`` for lists of other lengths, or a column of
            the log; ``auto`` for the one that the self-test of the log finds; ``none``.
    """

    method: str = AUTO
    model: str = "affine"
    randomised: str | None = None
    curve: str | None = None
    resamples: int = 200
    confidence: float = 0.9
    held_out: bool = True
    context: str = AUTO

    def __post_init__(self) -> None:
        if self.method not in (AUTO, *METHODS):
            raise unknown("method", self.method, (AUTO, *METHODS))
        if self.model not in MODELS:
            raise unknown("model", self.model, MODELS)
        if self.randomised is not None and self.method not in (AUTO, "randomised"):
            raise RankloopError(f"a randomised policy is for the method 'randomised', not {self.method!r}")
        if self.curve is not None and self.method not in (AUTO, ASSUMED):
            raise RankloopError(f"a curve is for the method 'assumed', not {self.method!r}")
        if self.resamples and self.resamples < MIN_RESAMPLES:
            raise RankloopError(
                f"intervals need at least {MIN_RESAMPLES} resamples, got {self.resamples}; use 0 for no "
                f"intervals"
            )
        if not 0.0 < self.confidence < 1.0:
            raise RankloopError(f"confidence must be between 0 and 1, such as 0.9, got {self.confidence}")

    @property
    def forced(self) -> bool:
        """Whether one method was asked for: it is then used with a warning where ``auto`` would refuse it."""
        return self.method != AUTO


def bias_details(estimate: BiasEstimate) -> dict[str, Any]:
    """What is known about an estimate besides its values: intervals, anchor, movement, notes; for JSON."""
    details = {
        name: value
        for name, value in estimate.to_dict().items()
        if name not in (*VALUES, "ranks", "contexts")
    }
    evidence = estimate.bias.evidence
    if evidence is not None and evidence.resamples is not None:
        drawn = evidence.resamples.round(DIGITS)
        details["resampled"] = {name: to_plain(drawn[:, i]) for i, name in enumerate(VALUES)}
    return details
