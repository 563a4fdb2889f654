"""The paper's users: position bias, trust bias and item-selection bias, as one affine function a rank."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np

from rankloop import rank_weights
from rankloop.clicks.base import AffineModel, check_cutoff
from rankloop.errors import DataError
from rankloop.names import BadNameError
from rankloop.registry import register
from rankloop.types import Bias

# Of the paper's users: how likely an item that is looked at is clicked although it is not relevant, at the
# first rank; the others follow as 1 / rank.
TRUST_IRRELEVANT = 0.65

# The paper prints α and β with as many decimals.
PRINTED_DECIMALS = 2


@register
@dataclass(frozen=True)
class AffineUsers(AffineModel):
    """Users with any α and β.

        P(C | d, k) = α_k · R_d + β_k

    Attributes:
        alpha: one number a rank.
        beta: one number a rank.
        examination: P(E | k), one number a rank, or None for α + β: what it is if every relevant item that
            is looked at is clicked. Only estimators that know of no trust bias ask for it.

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
                # Tuples of floats, so that users who click alike are equal.
                object.__setattr__(self, option, tuple(float(value) for value in values))
            except (TypeError, ValueError):
                raise BadNameError(
                    f"{option!r} of the users {self.name!r}: expected numbers, one a rank, got {values!r}"
                ) from None
        _ = self.bias  # refuses what cannot be chances

    @classmethod
    def from_trust(cls, examination: object, relevant: object, irrelevant: object) -> AffineUsers:
        """Users who look at rank k with chance P(E | k), and trust what they see there.

            α_k = P(E | k) · (ε⁺_k − ε⁻_k),   β_k = P(E | k) · ε⁻_k

        Args:
            examination: P(E | k), ranks.
            relevant: ε⁺, ranks: the chance of a click on a relevant item that is looked at.
            irrelevant: ε⁻, ranks: the same for an item that is not relevant.

        Example:
            >>> str(AffineUsers.from_trust([1.0, 0.5], relevant=[1.0, 1.0], irrelevant=[0.75, 0.5]))
            'affine(alpha=0.25:0.25, beta=0.75:0.25, examination=1:0.5)'
        """
        looks = np.asarray(examination, np.float64)
        plus, minus = np.asarray(relevant, np.float64), np.asarray(irrelevant, np.float64)
        if not looks.shape == plus.shape == minus.shape or looks.ndim != 1:
            raise DataError(
                "examination, relevant and irrelevant must have one number for each of the same ranks, "
                f"got shapes {looks.shape}, {plus.shape} and {minus.shape}"
            )
        alpha, beta = looks * (plus - minus), looks * minus
        return cls(alpha.tolist(), beta.tolist(), looks.tolist())

    @cached_property
    def bias(self) -> Bias:
        """α, β and examination by rank."""
        alpha, beta = np.array(self.alpha), np.array(self.beta)
        if len(alpha) != len(beta):
            raise DataError(f"alpha and beta must have as many ranks, got {len(alpha)} and {len(beta)}")
        examination = alpha + beta if self.examination is None else np.array(self.examination)
        return Bias(alpha, beta, examination)


@register
@dataclass(frozen=True)
class PaperUsers(AffineModel):
    """The users of the paper's experiments, who see the first ranks only.

        P(E | k) = 0.35 / k + 0.65 / (1 + 0.05 (k − 1)),   ε⁺_k = 1 / (1 + 0.005 (k − 1)),   ε⁻_k = 0.65 / k

    Attributes:
        cutoff: how many ranks they see.
        rounded: take α and β as the paper prints them, with two decimals, instead of what its programs
            compute.

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
        """α, β and examination by rank."""
        examination = rank_weights.examination(self.cutoff)
        clicks_if_relevant = rank_weights.relevant_clicks(self.cutoff)
        beta = examination * TRUST_IRRELEVANT * rank_weights.reciprocal(self.cutoff)
        alpha = clicks_if_relevant - beta
        if self.rounded:
            alpha, beta = alpha.round(PRINTED_DECIMALS), beta.round(PRINTED_DECIMALS)
        return Bias(alpha, beta, examination)
