"""Users without trust bias: they click the relevant items that they examine."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np

from rankloop import rank_weights
from rankloop.clicks.base import AffineModel, check_cutoff, check_number
from rankloop.registry import register
from rankloop.types import Bias

# With a larger η, users practically never look past the first rank.
MAX_ETA = 20.0


@register
@dataclass(frozen=True)
class PositionUsers(AffineModel):
    """The position-based model: users click exactly the relevant items that they examine.

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
