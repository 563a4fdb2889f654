"""The result of estimating, or assuming, how users click."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from rankloop.bias.anchor import Anchor, Lines
from rankloop.bias.bootstrap import RankIntervals
from rankloop.bias.model_comparison import ModelComparison
from rankloop.bias.movement import Movement
from rankloop.notebook import NotebookResult
from rankloop.types import ASSUMED, Bias, Float64

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


@dataclass(frozen=True, eq=False)
class BiasEstimate(NotebookResult):
    """How users click, as estimated from a log or assumed.

    Attributes:
        method: ``pairs``, ``documents``, ``features``, ``randomised`` or ``assumed``.
        assumption: what the method assumes, as one sentence.
        model: ``affine``, ``position`` or ``harvesting``.
        bias: α, β and examination of the ranks that the log can compare. These are fewer than the ranks of
            the log if items moved too little at some ranks. Examination comes from the position-based model,
            relative to rank 1.
        anchor: which levels of relevance count as 0 and as 1.
        alpha: the intervals of α; None without resamples.
        beta: the intervals of β; None without resamples.
        examination: the intervals of the examination; None without resamples.
        confidence: confidence level of the intervals.
        resamples: number of bootstrap resamples.
        movement: which of the log's ranks can be compared.
        comparison: comparison of the affine and the position-based model on held-out queries; None if it was
            not requested, or the method does not have one.
        harvested: float64, ranks; examination as estimated by intervention harvesting; None if the method
            does not compare ranks.
        notes: remarks that every report must show.
        resample_seed: the seed of `draw_queries`, which gives the queries of every resample again: those of
            the log with a document at one of the first ``bias.ranks`` ranks, in the order of their numbers.
            None if something else was resampled.
        log: the fingerprint of the log; None if it is not known.
    """

    document: ClassVar[str] = "rankloop.reports.bias:bias_document"
    method: str
    assumption: str
    model: str
    bias: Bias
    anchor: Anchor
    alpha: RankIntervals | None
    beta: RankIntervals | None
    examination: RankIntervals | None
    confidence: float
    resamples: int
    movement: Movement
    comparison: ModelComparison | None
    harvested: Float64 | None
    notes: tuple[str, ...]
    resample_seed: int | None = None
    log: str | None = None

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
        last, share = self.bias.ranks, float(self.bias.examination[-1])
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

        def ends(of: RankIntervals | None) -> list[list[float]] | None:
            return None if of is None else np.stack(of, axis=1).tolist()

        return {
            "method": self.method,
            "assumption": self.assumption,
            "estimated": self.is_estimated,
            "model": self.model,
            "ranks": self.bias.ranks,
            "alpha": self.bias.alpha.tolist(),
            "beta": self.bias.beta.tolist(),
            "examination": self.bias.examination.tolist(),
            "anchor": {"high": self.anchor.high, "low": self.anchor.low},
            "confidence": self.confidence,
            "resamples": self.resamples,
            "alpha_interval": ends(self.alpha),
            "beta_interval": ends(self.beta),
            "examination_interval": ends(self.examination),
            "harvested": None if self.harvested is None else self.harvested.tolist(),
            "held_out": None if self.comparison is None else self.comparison.to_dict(),
            "movement": self.movement.to_dict(),
            "notes": list(self.notes),
            "log": self.log,
            "resample_seed": self.resample_seed,
        }


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
