"""Simulated users by name: the affine users of the paper, position-based users, and a cascade."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np

from rankloop import rank_weights
from rankloop.clicks.base import AffineModel, Behaviour, NamedUsers, check_chance, check_cutoff, check_number
from rankloop.errors import DataError
from rankloop.names import BadNameError
from rankloop.registry import register
from rankloop.types import Bias

# The probability that the paper's users click an examined but irrelevant document at the first rank. It falls
# as 1 / rank.
TRUST_IRRELEVANT = 0.65

# The number of decimals with which the paper prints α and β.
PRINTED_DECIMALS = 2
# With a larger η, users practically never look past the first rank.
MAX_ETA = 20.0


@register
@dataclass(frozen=True)
class AffineUsers(AffineModel):
    """Users with arbitrary α and β.

        P(C | d, k) = α_k · R_d + β_k

    Attributes:
        alpha: one number per rank.
        beta: one number per rank.
        examination: P(E | k), one number per rank. None means α + β, which holds if users click every
            relevant document that they examine. Only estimators without trust bias use it.

    Example:
        >>> users = AffineUsers(alpha=(0.35, 0.53), beta=(0.65, 0.26))
        >>> str(users)
        'affine(alpha=0.35:0.53, beta=0.65:0.26)'
        >>> users.bias.examination
        array([1.  , 0.79])

    Reference:
        Vardasbi, Oosterhuis and de Rijke, When inverse propensity scoring does not work: affine corrections
        for unbiased learning to rank, CIKM 2020.
    """

    name: ClassVar[str] = "affine"
    alpha: Sequence[float]
    beta: Sequence[float]
    examination: Sequence[float] | None = None

    def __post_init__(self) -> None:
        for option in ("alpha", "beta", "examination"):
            values = getattr(self, option)
            if values is None:
                continue
            try:
                # Tuples of floats, so that users with the same values are equal.
                object.__setattr__(self, option, tuple(float(value) for value in values))
            except (TypeError, ValueError):
                raise BadNameError(
                    f"{option!r} of the users {self.name!r}: expected numbers, one per rank, got {values!r}"
                ) from None
        _ = self.bias  # raises an error for invalid probabilities

    @classmethod
    def from_trust(cls, examination: object, relevant: object, irrelevant: object) -> AffineUsers:
        """Create users who examine rank k with probability P(E | k) and have trust bias.

            α_k = P(E | k) · (ε⁺_k − ε⁻_k),   β_k = P(E | k) · ε⁻_k

        Args:
            examination: P(E | k), ranks.
            relevant: ε⁺, ranks; the probability of a click on an examined document that is relevant.
            irrelevant: ε⁻, ranks; the probability of a click on an examined document that is not relevant.

        Example:
            >>> str(AffineUsers.from_trust([1.0, 0.5], relevant=[1.0, 1.0], irrelevant=[0.75, 0.5]))
            'affine(alpha=0.25:0.25, beta=0.75:0.25, examination=1:0.5)'
        """
        examined = np.asarray(examination, np.float64)
        plus, minus = np.asarray(relevant, np.float64), np.asarray(irrelevant, np.float64)
        if not examined.shape == plus.shape == minus.shape or examined.ndim != 1:
            raise DataError(
                "examination, relevant and irrelevant must have the same number of ranks, "
                f"got shapes {examined.shape}, {plus.shape} and {minus.shape}"
            )
        alpha, beta = examined * (plus - minus), examined * minus
        return cls(alpha.tolist(), beta.tolist(), examined.tolist())

    @cached_property
    def bias(self) -> Bias:
        """α, β and examination per rank."""
        alpha, beta = np.array(self.alpha), np.array(self.beta)
        if len(alpha) != len(beta):
            raise DataError(
                f"alpha and beta must have the same number of ranks, got {len(alpha)} and {len(beta)}"
            )
        examination = alpha + beta if self.examination is None else np.array(self.examination)
        return Bias(alpha, beta, examination)


@register
@dataclass(frozen=True)
class PaperUsers(AffineModel):
    """The users of the paper's experiments, who only see the first ranks.

        P(E | k) = 0.35 / k + 0.65 / (1 + 0.05 (k − 1)),   ε⁺_k = 1 / (1 + 0.005 (k − 1)),   ε⁻_k = 0.65 / k

    Attributes:
        cutoff: number of ranks that users see.
        rounded: use α and β as printed in the paper, with two decimals, instead of the values that its code
            computes.

    Example:
        >>> print(*PaperUsers().bias.alpha.round(3), "|", *PaperUsers().bias.beta.round(3))
        0.35 0.532 0.547 0.537 0.52 | 0.65 0.258 0.153 0.106 0.08
        >>> PaperUsers(5, rounded=True).bias.alpha
        array([0.35, 0.53, 0.55, 0.54, 0.52])

    Reference:
        Oosterhuis and de Rijke, Unifying online and counterfactual learning to rank, WSDM 2021; after
        Agarwal et al., Addressing trust bias for unbiased learning-to-rank, WWW 2019.
    """

    name: ClassVar[str] = "paper"
    cutoff: int = 5
    rounded: bool = False

    def __post_init__(self) -> None:
        check_cutoff(self)

    @cached_property
    def bias(self) -> Bias:
        """α, β and examination per rank."""
        examination = rank_weights.examination(self.cutoff)
        clicks_if_relevant = rank_weights.relevant_clicks(self.cutoff)
        beta = examination * TRUST_IRRELEVANT * rank_weights.reciprocal(self.cutoff)
        alpha = clicks_if_relevant - beta
        if self.rounded:
            alpha, beta = alpha.round(PRINTED_DECIMALS), beta.round(PRINTED_DECIMALS)
        return Bias(alpha, beta, examination)


@register
@dataclass(frozen=True)
class PositionUsers(AffineModel):
    """The position-based model: users click exactly the relevant documents that they examine.

        P(C | d, k) = P(E | k) · R_d,   P(E | k) = (1 / k)^η

    α is the examination, and β is 0.

    Attributes:
        cutoff: number of ranks that users see.
        eta: η, the strength of position bias; 0 for users who examine all ranks.

    Example:
        >>> PositionUsers(cutoff=3).bias.alpha.round(3)
        array([1.   , 0.5  , 0.333])
        >>> str(PositionUsers(10, eta=0.5))
        'position@10(eta=0.5)'

    Reference:
        Joachims, Swaminathan and Schnabel, Unbiased learning-to-rank with biased feedback, WSDM 2017.
    """

    name: ClassVar[str] = "position"
    cutoff: int
    eta: float = 1.0

    def __post_init__(self) -> None:
        check_cutoff(self)
        object.__setattr__(self, "eta", check_number(self, "eta", 0.0, MAX_ETA))

    @cached_property
    def bias(self) -> Bias:
        """α, β and examination per rank."""
        examination = rank_weights.reciprocal(self.cutoff) ** self.eta
        return Bias(examination, np.zeros(self.cutoff), examination)


@register
@dataclass(frozen=True)
class CascadeUsers(NamedUsers):
    """Users who read from the top and may leave after a click.

        P(C | d, reading) = noise + (1 − 2 · noise) · R_d
        P(leaves | C) = stop,   P(leaves | no click) = abandon

    Whether users examine rank k depends on the documents above it: good results above it take its clicks
    away. No α and β per rank describe this, so estimators that assume them are biased here.

    Attributes:
        cutoff: number of ranks that users see.
        stop: the probability that a user leaves after a click. 1 is the original cascade model.
        noise: the probability of a click on a document with R = 0, and of no click on a document with R = 1.
        abandon: the probability that a user leaves after a document without a click.

    Example:
        >>> CascadeUsers(cutoff=5, stop=0.9)
        CascadeUsers(cutoff=5, stop=0.9, noise=0.05, abandon=0.0)
        >>> str(CascadeUsers(5, stop=0.9))
        'cascade@5(stop=0.9)'

    Reference:
        Craswell, Zoeter, Taylor and Ramsey, An experimental comparison of click position-bias models,
        WSDM 2008; leaving with some probability: Guo, Liu and Wang, Efficient multiple-click models in web
        search, WSDM 2009.
    """

    name: ClassVar[str] = "cascade"
    cutoff: int
    stop: float = 0.7
    noise: float = 0.05
    abandon: float = 0.0

    def __post_init__(self) -> None:
        check_cutoff(self)
        for option, highest in (("stop", 1.0), ("noise", 0.5), ("abandon", 1.0)):
            object.__setattr__(self, option, check_chance(self, option, highest=highest))

    @property
    def behaviour(self) -> Behaviour:
        """The behaviour of these users per rank."""
        every_rank = np.ones(self.cutoff)
        return Behaviour(
            alpha=(1.0 - 2.0 * self.noise) * every_rank,
            beta=self.noise * every_rank,
            stop_clicked=self.stop * every_rank,
            stop_relevant=0.0 * every_rank,
            stop_skipped=self.abandon * every_rank,
        )
