"""The intervention-aware estimator: each click corrected by all policies that ever logged."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal, get_args

import numpy as np

from rankloop.errors import DataError
from rankloop.estimators.base import ClippedEstimator
from rankloop.names import BadNameError, one_of
from rankloop.registry import register
from rankloop.relevance.click_model import mean_relevance
from rankloop.statistics import Statistics
from rankloop.types import Bias, Float64
from rankloop.value.contribution import unexplained, unexplained_by_displays

Average = Literal["all", "query"]
GuessName = float | Literal["off", "mean", "model"]


@register
@dataclass(frozen=True)
class InterventionAware(ClippedEstimator):
    """Clicks corrected by the α and β that the document can expect under the policies of the whole log.

        Δ̂_t(d) = (c_t(d) − E_{t,y}[β_d | Π_T, q_t]) / E_{t,y}[α_d | Π_T, q_t]
        E_{t,y}[α_d | Π_T, q] = Σ_i share_i · E_y[α_d | π_i, q]   (and likewise for β)

    Corrects position, trust and item-selection bias, and the change of policies. Unbiased if the average α of
    every document is not 0; no single policy has to show it. ``average`` defines ``share_i``:

    - ``all`` (the paper): the share of all impressions that π_i logged, ``T_i / T``. Assumes that traffic is
      stationary: a query is as frequent under one policy as under another, up to chance.
    - ``query``: the share of the impressions of *this* query that π_i logged, ``n_iq / N_q``. Assumes nothing
      about traffic, but some policy under which the query came must show the document.

    Two options lower the variance. ``guess`` takes a guess m of the relevance and corrects it by the clicks
    that the actual ranks of the documents do not explain; n_k(d) counts the displays of d at rank k. How
    often a document happened to be shown is then no longer noise. It is unbiased for any guess. ``strength``
    gives the guess the weight of λ examined impressions: a bias towards m that vanishes as the log grows,
    whereas clipping is a bias towards 0.

        Σ_t Δ̂_t(d) = N_q · m + (Σ_t c_t(d) − Σ_k n_k(d) (α_k m + β_k)) / (E_{t,y}[α_d | Π_T, q] + λ / N_q)

    Attributes:
        clip: see `ClippedEstimator`.
        average: ``"all"`` or ``"query"``.
        guess: ``"off"`` (the paper); a number, the guess m of all documents; ``"mean"``: m is the mean
            relevance of what was shown; or ``"model"``: one guess per document, which `weights` is given. It
            is unbiased for any guesses that do not depend on the query's own clicks;
            `rankloop.relevance.guess_relevance` makes such guesses from features (doubly robust estimation).
        strength: λ, at least 0; above 0 only with a guess.

    Example:
        The example of the paper: a policy under which a document has an expected α of 0.25 logs for 100
        impressions, then one with 0.05 for 300. At T = 400, an oblivious estimator weights a click by 4
        before the change and by 20 after it; this one by 10, whenever the click came.

        >>> from rankloop.estimators import InterventionOblivious
        >>> from rankloop.statistics import Exposure
        >>> bias = Bias(alpha=[1.0], beta=[0.0], examination=[1.0])
        >>> def logged(policy, alpha, impressions, clicks):
        ...     return Statistics.of_policy(
        ...         policy, [0, 1], Exposure([alpha], [0.0], [alpha]),
        ...         impressions_by_query=[impressions], displays_by_position=[[clicks]],
        ...         clicks_by_position=[[clicks]],
        ...     )
        >>> before = logged("first", 0.25, 100, 1) + logged("second", 0.05, 300, 0)  # one click, at t <= 100
        >>> after = logged("first", 0.25, 100, 0) + logged("second", 0.05, 300, 1)  # one click, at t > 100
        >>> def click_weight(estimator, statistics):
        ...     return round(float(estimator.weights(statistics, bias)[0] * statistics.impressions), 6)
        >>> [click_weight(InterventionOblivious(clip="off"), log) for log in (before, after)]
        [4.0, 20.0]
        >>> [click_weight(InterventionAware(clip="off"), log) for log in (before, after)]
        [10.0, 10.0]

    Reference: Oosterhuis and de Rijke, "Unifying online and counterfactual learning to rank" (2021); for the
    control variate Oosterhuis, "Doubly robust estimation for correcting position bias in click feedback for
    unbiased learning to rank" (2023).
    """

    name: ClassVar[str] = "intervention-aware"
    average: Average = "all"
    guess: GuessName = "off"
    strength: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        is_number = isinstance(self.guess, int | float) and np.isfinite(self.guess)
        if self.guess not in ("off", "mean", "model") and not is_number:
            raise BadNameError(
                f"'guess' of the estimator {self.name!r}: expected 'off', 'mean', 'model' or a number, "
                f"got {self.guess!r}"
            )
        if not 0.0 <= self.strength < np.inf or (self.strength > 0.0 and self.guess == "off"):
            raise BadNameError(
                f"'strength' of the estimator {self.name!r}: expected a number from 0, and above 0 only with "
                f"a guess such as guess=mean, got {self.strength!r}"
            )
        try:
            one_of(*get_args(Average))(self.average)
        except BadNameError as error:
            raise BadNameError(f"'average' of the estimator {self.name!r}: {error}") from error

    def weights(self, statistics: Statistics, bias: Bias, *, guess: Float64 | None = None) -> Float64:
        """One weight per document; see `Estimator.weights`.

        Args:
            statistics: of the queries to estimate on.
            bias: α, β and examination by rank.
            guess: documents; the guess m of each document's relevance, for ``guess="model"`` and nothing
                else.

        Raises:
            DataError: as `Estimator.weights`, or the guess is missing, superfluous or of another length.
        """
        if (guess is None) == (self.guess == "model"):
            raise DataError(
                f"{self} needs a guess of each document's relevance: give guess=…, as "
                f"rankloop.relevance.guess_relevance makes it"
                if guess is None
                else f"{self} does not take a guess per document: use guess=model"
            )
        if guess is None:
            return super().weights(statistics, bias)
        if guess.shape != (statistics.n_documents,) or not np.isfinite(guess).all():
            raise DataError(
                f"{statistics.n_documents} documents need as many finite guesses, got shape {guess.shape}"
            )
        self._check(statistics, bias)
        return self._per_query(self._corrected(statistics, bias, guess), statistics)

    def _total(self, statistics: Statistics, bias: Bias, /) -> Float64:
        guess = self.guess
        if guess == "mean":
            guess = mean_relevance(statistics.totals_by_position(), bias)
        return self._corrected(statistics, bias, None if isinstance(guess, str) else guess)

    def _corrected(self, statistics: Statistics, bias: Bias, guess: float | Float64 | None) -> Float64:
        n_query = statistics.per_document(statistics.impressions_by_query)
        alpha, beta = statistics.mean_exposure(self.average)
        if guess is None:
            return self._divide(unexplained(statistics.clicks, n_query * beta), alpha, statistics)
        surprise = unexplained_by_displays(statistics.clicks, statistics.effective_displays, bias, guess)
        return n_query * guess + self._divide(
            surprise, alpha + self.strength / np.maximum(n_query, 1), statistics
        )
