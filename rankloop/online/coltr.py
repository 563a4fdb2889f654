"""Counterfactual Online Learning to Rank: evaluates candidates on the clicks of another ranking."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike

from rankloop.kernels.coltr import run_coltr
from rankloop.kernels.snips_risk import log_chances, log_chances_beside, mark_losses, risk
from rankloop.online._checks import check_impression, check_query_scores
from rankloop.online.base import Method
from rankloop.registry import register
from rankloop.types import Float64

# Whose weights the documents that were not shown have; the second is 1 for the kernel.
REMAINDERS = ("own", "logging")


@register
@dataclass(frozen=True)
class COLTR(Method):
    """Each impression is a step towards the candidates that have a lower risk on its clicks.

        u_j uniform on the unit sphere, j = 1 … candidates
        winners = {j : risk(parameters + reach · u_j) < risk(parameters)}
        parameters ← parameters + rate · mean of u_j over the winners

    The risk is the `snips_risk` of the impression. Without a winner, the parameters do not change.

    Attributes:
        candidates: number of candidates.
        rate: length of a step.
        reach: distance of the candidates from the model.
        variance: number of standard errors to add to the risk.
        remainder: whose weights the documents that were not shown have in the probabilities of a candidate:
            its ``own``, or those of the ``logging`` policy, as in the programs of the paper's comparison.
            Then a candidate whose scores are all higher by one number, the same policy, has another risk.

    Example:
        >>> str(COLTR(candidates=499))
        'coltr(candidates=499)'

    Reference:
        Zhuang and Zuccon, Counterfactual online learning to rank, ECIR 2020.
    """

    name: ClassVar[str] = "coltr"
    candidates: int = 50
    rate: float = 0.05
    reach: float = 1.0
    variance: float = 1.0
    remainder: Literal["own", "logging"] = "own"

    def __post_init__(self) -> None:
        whole = isinstance(self.candidates, int) and not isinstance(self.candidates, bool)
        self._require(whole and self.candidates >= 1, "candidates", "an integer of at least 1")
        self._require(0.0 < self.rate < math.inf, "rate", "positive and finite")
        self._require(0.0 < self.reach < math.inf, "reach", "positive and finite")
        self._require(0.0 <= self.variance < math.inf, "variance", "at least 0 and finite")
        self._require(self.remainder in REMAINDERS, "remainder", "own or logging")

    @property
    def run(self) -> Callable[..., int]:
        """The compiled loop."""
        return run_coltr

    @property
    def options(self) -> Float64:
        """Candidates, rate, reach, variance, and whether the remainder is that of the logging policy."""
        numbers = (self.candidates, self.rate, self.reach, self.variance, REMAINDERS.index(self.remainder))
        return np.array(numbers, dtype=np.float64)


def snips_risk(
    scores: ArrayLike,
    logging_scores: ArrayLike,
    ranking: ArrayLike,
    clicks: ArrayLike,
    *,
    variance: float = 1.0,
    remainder: Literal["own", "logging"] = "own",
) -> float:
    """Estimate the risk of a policy from an impression with another, by self-normalised importance weights.

        w_k = π(y_k | y_1 … y_{k−1}) / π_log(y_k | y_1 … y_{k−1})
        R̂ = Σ_k w_k δ_k / Σ_k w_k,     risk = R̂ + variance · √(Σ_k w_k² (δ_k − R̂)²) / Σ_k w_k

    δ_k is 1 for a document that was skipped (not clicked, with a click below it) and 0 for any other. Each
    policy is normalised over the documents that were available at that rank.

    Args:
        scores: documents of one query; scores of the policy π to evaluate.
        logging_scores: documents of one query; scores of the policy π_log that drew the ranking.
        ranking: numbers of the shown documents, best first; -1 for empty ranks.
        clicks: whether the document at each rank was clicked.
        variance: number of standard errors of R̂ to add to the risk.
        remainder: as of `COLTR`.

    Returns:
        The risk; 0 if no document was skipped.

    Example:
        Two documents, of which the second is clicked. A policy that prefers the second gives the loss at the
        first rank a small weight: its weights are (1/4) / (1/2) and 1 / 1.

        >>> snips_risk(np.log([1.0, 3.0]), [0.0, 0.0], [0, 1], [False, True], variance=0).__round__(6)
        0.333333

    Reference:
        Swaminathan and Joachims, The self-normalized estimator for counterfactual learning, NIPS 2015.
    """
    n_documents = np.size(scores)
    shown, clicked = check_impression(ranking, clicks, n_documents)
    chances, losses = np.empty((2, len(shown) + 1)), np.empty(len(shown))
    for policy, out in zip((scores, logging_scores), chances, strict=True):
        flat = check_query_scores(policy, shown, n_documents)
        log_chances(flat, shown, len(shown), np.empty(n_documents, np.bool_), out)
    if mark_losses(clicked, len(shown), losses) == 0.0:
        return 0.0
    if remainder == "logging":
        own = check_query_scores(scores, shown, n_documents)
        log_chances_beside(own, shown, len(shown), chances[1][-1], chances[0])
    return float(risk(chances[0], chances[1], losses, len(shown), variance))
