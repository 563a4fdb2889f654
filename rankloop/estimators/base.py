"""The base of all estimators: a frozen value with a name that turns statistics of clicks into weights."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, Self

from numpy.typing import NDArray

from rankloop.errors import DataError
from rankloop.names import BadNameError
from rankloop.registry import Named, Registry
from rankloop.statistics import Statistics
from rankloop.types import Bias, Float64
from rankloop.value.contribution import NO_BOUND, debias

Clip = float | Literal["paper", "off"]

# The paper clips denominators at 10 / √T; its programs limit the bound to 1, the largest denominator.
CLIP_SCALE, CLIP_HIGHEST = 10.0, 1.0


class Estimator(Named, ABC):
    """A way to estimate, from clicks, the value of any policy π.

        R̂(π) = 1/T · Σ_t Σ_d λ(d | π, q_t) · Δ̂_t(d) = 1/n · Σ_q Σ_d λ(d | π, q) · w_d
        w_d = n/T · Σ_{t: q_t = q(d)} Δ̂_t(d)

    T counts the impressions of all n queries; λ is what the metric gives a document for its rank under π. The
    w of an unbiased estimator has the expectation ``n · P(q) · R(d)``: the relevance itself, if all queries
    are equally frequent.

    Estimators differ only in Δ̂. They are frozen dataclasses whose fields are the options of their name:
    ``str(estimator)`` is the canonical name, and `rankloop.estimators.estimator` reads it back.

    Attributes:
        name: the word the estimator's name starts with.
    """

    name: ClassVar[str]

    def weights(self, statistics: Statistics, bias: Bias) -> Float64:
        """One weight per document: the mean over queries of ``Σ_d w_d · λ(d | π)`` estimates the value of π.

        Args:
            statistics: of the queries to estimate on (`Statistics.select` picks those of a split).
            bias: α, β and examination by rank, for which the statistics' exposures were computed.

        Returns:
            float64, documents; 0 for a document whose clicks say nothing about its relevance.

        Raises:
            DataError: none of the queries came, or the bias has another number of ranks.
        """
        self._check(statistics, bias)
        return self._per_query(self._total(statistics, bias), statistics)

    @staticmethod
    def _per_query(total: Float64, statistics: Statistics) -> Float64:
        """``n/T`` times the totals."""
        return total * (statistics.n_queries / statistics.impressions)

    @staticmethod
    def _check(statistics: Statistics, bias: Bias) -> None:
        if statistics.positions != bias.positions:
            raise DataError(
                f"the statistics are of {statistics.positions} ranks and the bias of {bias.positions}: "
                f"both must describe the same users"
            )
        if statistics.impressions == 0:
            raise DataError(
                f"none of the {statistics.n_queries} queries ever came, so there is nothing to estimate "
                f"from: gather more impressions"
            )

    @property
    def unclipped(self) -> Self:
        """The same estimator with clipping off: what the paper weights validation clicks with."""
        return self

    @abstractmethod
    def _total(self, statistics: Statistics, bias: Bias, /) -> Float64:
        """``Σ_{t: q_t = q(d)} Δ̂_t(d)``, one per document."""


ESTIMATORS: Registry[Estimator] = Registry("estimator", Estimator)


def estimator(text: str) -> Estimator:
    """Make an estimator from its name; ``str`` of the estimator gives the name back.

    Example:
        >>> estimator("intervention-aware")
        InterventionAware(clip='paper', average='all', guess='off', strength=0.0)
        >>> str(estimator("policy-aware( clip=0.01 )"))
        'policy-aware(clip=0.01)'
        >>> estimator("afine")
        Traceback (most recent call last):
            ...
        rankloop.names.UnknownNameError: unknown estimator 'afine', did you mean 'affine'? ...
    """
    return ESTIMATORS.parse(text)


@dataclass(frozen=True)
class ClippedEstimator(Estimator):
    """An estimator that divides, with an optional lower bound on its denominators.

    A small denominator makes a large weight, and large weights cause variance. A bound trades variance for
    bias, so it should loosen as the log grows.

    Attributes:
        clip: ``"paper"``: ``min(10 / √T, 1)``, where T is the length of the whole log, all splits together;
            ``"off"``; or a number above 0 and up to 1.
    """

    clip: Clip = "paper"

    def __post_init__(self) -> None:
        is_number = isinstance(self.clip, int | float) and not isinstance(self.clip, bool)
        if self.clip not in ("paper", "off") and not (is_number and 0.0 < self.clip <= CLIP_HIGHEST):  # type: ignore[operator]
            raise BadNameError(
                f"'clip' of the estimator {self.name!r}: expected 'paper', 'off' or a number above 0 and "
                f"up to 1, got {self.clip!r}"
            )

    @property
    def unclipped(self) -> Self:
        """The same estimator with clipping off: what the paper weights validation clicks with."""
        return replace(self, clip="off")

    def bound(self, impressions: int) -> float:
        """The smallest denominator of this estimator after this many impressions.

        >>> from rankloop.estimators import Affine
        >>> Affine().bound(10_000), Affine().bound(1), Affine(clip=0.01).bound(1)
        (0.1, 1.0, 0.01)
        """
        if self.clip == "paper":
            return min(CLIP_SCALE / math.sqrt(impressions), CLIP_HIGHEST)
        return NO_BOUND if self.clip == "off" else float(self.clip)

    def _divide(self, numerator: NDArray[Any], denominator: Float64, statistics: Statistics) -> Float64:
        """The quotient with the denominator bounded; 0 where it is 0, from which nothing can be learned."""
        return debias(numerator, denominator, least=self.bound(statistics.log_impressions))
