"""Users who are not affine, to test methods when their click model is wrong."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from rankloop.clicks.base import Behaviour, NamedUsers, check_chance, check_cutoff
from rankloop.registry import register


@register
@dataclass(frozen=True)
class CascadeUsers(NamedUsers):
    """Users who read from the top and may leave after a click.

        P(C | d, reading) = noise + (1 − 2 · noise) · R_d
        P(leaves | C) = stop,   P(leaves | no click) = abandon

    Whether users examine rank k depends on the items above it: good results above it take its clicks away.
    No α and β per rank describe this, so estimators that assume them are biased here.

    Attributes:
        cutoff: number of ranks that users see.
        stop: the probability that a user leaves after a click. 1 is the original cascade model.
        noise: the probability of a click on an item with R = 0, and of no click on an item with R = 1.
        abandon: the probability that a user leaves after an item without a click.

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
