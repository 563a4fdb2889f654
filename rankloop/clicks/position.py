"""Users who trust nothing: they click on what is relevant, where they look."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np

from rankloop import rank_weights
from rankloop.clicks.base import AffineModel, check_cutoff, check_number
from rankloop.registry import register
from rankloop.types import Bias

# Steeper than this nobody looks past the first rank.
STEEPEST = 20.0


@register
@dataclass(frozen=True)
class PositionUsers(AffineModel):
    """The position-based model: a click is a look at something relevant, and nothing else.

        P(C | d, k) = P(E | k) · R_d,   P(E | k) = (1 / k)^η

    so that α is the examination and β is 0.

    Attributes:
        cutoff: how many ranks users see.
        eta: η, how fast they lose interest; 0 for users who look at all that is shown.

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
        object.__setattr__(self, "eta", check_number(self, "eta", 0.0, STEEPEST))

    @cached_property
    def bias(self) -> Bias:
        """α, β and examination by rank."""
        examination = rank_weights.reciprocal(self.cutoff) ** self.eta
        return Bias(examination, np.zeros(self.cutoff), examination)
