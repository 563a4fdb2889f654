"""The intervention-aware estimator: each click corrected by all policies that ever logged."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal, get_args

import numpy as np

from rankloop.errors import DataError
from rankloop.estimators.base import ClippedEstimator
from rankloop.names import BadNameError, one_of
from rankloop.registry import register
from rankloop.statistics import Statistics
from rankloop.types import Bias, Float64

Average = Literal["all", "query"]
Control = float | Literal["off", "mean", "model"]


@register
@dataclass(frozen=True)
class InterventionAware(ClippedEstimator):
    """Clicks corrected by the α and β that the item can expect under the policies of the whole log.

        Δ̂_t(d) = (c_t(d) − E_{t,y}[β_d | Π_T, q_t]) / E_{t,y}[α_d | Π_T, q_t]
        E_{t,y}[α_d | Π_T, q] = Σ_i share_i · E_y[α_d | π_i, q]   (and likewise for β)

    Corrects position, trust and item-selection bias, and the change of policies. Unbiased if the average α of
    every item is not 0; no single policy has to show it. ``average`` defines ``share_i``:

    - ``all`` (the paper): the share of all timesteps at which π_i was logging, ``T_i / T``. Assumes
      that traffic is stationary: a query is as frequent under one policy as under another, up to chance.
    - ``query``: the share of the timesteps at which *this* query came, ``n_iq / N_q``. Assumes nothing about
      traffic, but some policy under which the query came must show the item.

    Two options lower the variance. ``control`` takes a guess m of the relevance and corrects it by the clicks
    that the actual ranks of the items do not explain; n_k(d) counts the displays of d at rank k. How often an
    item happened to be shown is then no longer noise. It is unbiased for any guess. ``prior`` gives the guess
    the weight of λ examined impressions: a bias towards m that vanishes as the log grows, whereas clipping is
    a bias towards 0.

        Σ_t Δ̂_t(d) = N_q · m + (Σ_t c_t(d) − Σ_k n_k(d) (α_k m + β_k)) / (E_{t,y}[α_d | Π_T, q] + λ / N_q)

    Attributes:
        clip: see `ClippedEstimator`.
        average: ``"all"`` or ``"query"``.
        control: ``"off"`` (the paper), the guess m, ``"mean"``: the mean relevance of what was shown, or
            ``"model"``: one guess per item, which `weights` is given. It is unbiased for any guesses that do
            not depend on the query's own clicks; `rankloop.training.guess_relevance` makes such guesses from
            features (doubly robust estimation).
        prior: λ, at least 0; above 0 only with a guess.

    Example:
        The example of the paper: a policy under which an item has an expected α of 0.25 logs for 100
        timesteps, then one with 0.05 for 300. At T = 400, an oblivious estimator weights a click by 4 before
        the change and by 20 after it; this one by 10, whenever the click came.

        >>> from rankloop.estimators import InterventionOblivious
        >>> from rankloop.statistics import Exposure
        >>> bias = Bias(alpha=[1.0], beta=[0.0], examination=[1.0])
        >>> def logged(policy, alpha, timesteps, clicks):
        ...     return Statistics.of_policy(
        ...         policy, [0, 1], Exposure([alpha], [0.0], [alpha]),
        ...         query_counts=[timesteps], displays_by_rank=[[clicks]], clicks_by_rank=[[clicks]],
        ...     )
        >>> before = logged("first", 0.25, 100, 1) + logged("second", 0.05, 300, 0)  # one click, at t <= 100
        >>> after = logged("first", 0.25, 100, 0) + logged("second", 0.05, 300, 1)  # one click, at t > 100
        >>> def click_weight(estimator, statistics):
        ...     return round(float(estimator.weights(statistics, bias)[0] * statistics.timesteps), 6)
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
    control: Control = "off"
    prior: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        is_number = isinstance(self.control, int | float) and np.isfinite(self.control)
        if self.control not in ("off", "mean", "model") and not is_number:
            raise BadNameError(
                f"'control' of the estimator {self.name!r}: expected 'off', 'mean', 'model' or a number, "
                f"got {self.control!r}"
            )
        if not 0.0 <= self.prior < np.inf or (self.prior > 0.0 and self.control == "off"):
            raise BadNameError(
                f"'prior' of the estimator {self.name!r}: expected a number from 0, and above 0 only with "
                f"a control such as control=mean, got {self.prior!r}"
            )
        try:
            one_of(*get_args(Average))(self.average)
        except BadNameError as error:
            raise BadNameError(f"'average' of the estimator {self.name!r}: {error}") from error

    def weights(self, statistics: Statistics, bias: Bias, *, guess: Float64 | None = None) -> Float64:
        """One weight per item; see `Estimator.weights`.

        Args:
            statistics: of the queries to estimate on.
            bias: α, β and examination by rank.
            guess: items; the guess m of each item's relevance, for ``control="model"`` and nothing else.

        Raises:
            DataError: as `Estimator.weights`, or the guess is missing, superfluous or of another length.
        """
        if (guess is None) == (self.control == "model"):
            raise DataError(
                f"{self} needs a guess of each item's relevance: give guess=…, as "
                f"rankloop.training.guess_relevance makes it"
                if guess is None
                else f"{self} does not take a guess per item: use control=model"
            )
        if guess is None:
            return super().weights(statistics, bias)
        if guess.shape != (statistics.n_items,) or not np.isfinite(guess).all():
            raise DataError(
                f"{statistics.n_items} items need as many finite guesses, got shape {guess.shape}"
            )
        self._check(statistics, bias)
        return self._corrected(statistics, bias, guess) * (statistics.n_queries / statistics.timesteps)

    def _total(self, statistics: Statistics, bias: Bias, /) -> Float64:
        guess = mean_relevance(statistics, bias) if self.control == "mean" else self.control
        return self._corrected(statistics, bias, None if isinstance(guess, str) else guess)

    def _corrected(self, statistics: Statistics, bias: Bias, guess: float | Float64 | None) -> Float64:
        n_query = statistics.per_item(statistics.query_counts)
        alpha, beta = np.zeros(statistics.n_items), np.zeros(statistics.n_items)
        for policy in statistics.policies.values():
            share: float | Float64 = policy.timesteps / statistics.timesteps
            if self.average == "query":
                # A query that never came has no share, no clicks, and therefore no weight.
                share = statistics.per_item(policy.query_counts) / np.maximum(n_query, 1)
            alpha += share * policy.exposure.alpha
            beta += share * policy.exposure.beta
        if guess is None:
            return self._divide(statistics.clicks - n_query * beta, alpha, statistics)
        displays = statistics.displays_by_rank
        if isinstance(guess, np.ndarray):
            unexplained = statistics.clicks - (displays @ bias.alpha) * guess - displays @ bias.beta
        else:
            unexplained = statistics.clicks - displays @ (guess * bias.alpha + bias.beta)
        return n_query * guess + self._divide(
            unexplained, alpha + self.prior / np.maximum(n_query, 1), statistics
        )


def mean_relevance(statistics: Statistics, bias: Bias) -> float:
    """The relevance that would explain all clicks if it were the same for every item."""
    shown = statistics.displays_by_rank.sum(axis=0)
    examined = float(shown @ bias.alpha)
    return float(statistics.clicks.sum() - shown @ bias.beta) / examined if examined > 0.0 else 0.0
