"""A bias that is assumed: a curve by name, for logs that cannot identify one."""

from __future__ import annotations

import numpy as np

from rankloop.bias.anchor import Anchor
from rankloop.bias.bias_estimate import ASSUMPTIONS, BiasEstimate
from rankloop.bias.movement import count_movement
from rankloop.clicks import bias_of, users
from rankloop.errors import RankloopError
from rankloop.names import BadNameError
from rankloop.statistics import Counts
from rankloop.statistics.tables import CellTable
from rankloop.types import ASSUMED, Bias, BiasEvidence

# The default curve, and for how many ranks at most.
DEFAULT_CURVE, DEFAULT_POSITIONS = "paper", 10
# A range of curves that is plausible for lists of results: position-based users whose examination falls with
# the rank, from slowly to steeply, and the users with trust bias of Vardasbi et al. (2020).
PLAUSIBLE = ("position@{ranks}(eta=0.5)", "position@{ranks}", "position@{ranks}(eta=1.5)", "paper@{ranks}")


def named_bias(name: str) -> Bias:
    """The bias of simulated users, by name; its evidence says that it is assumed.

    >>> named_bias("position@3").examination.round(2), named_bias("position@3").is_estimated
    (array([1.  , 0.5 , 0.33]), False)
    """
    try:
        found = bias_of(users(name))
    except BadNameError as error:
        raise RankloopError(
            f"{name!r} is not a curve: {error}; use a name such as paper@10 or position@10(eta=1)"
        ) from error
    return Bias(found.alpha, found.beta, found.examination, BiasEvidence(ASSUMED))


def plausible_curves(ranks: int) -> tuple[str, ...]:
    """Names of curves that are plausible for lists of results with this many ranks.

    >>> plausible_curves(5)
    ('position@5(eta=0.5)', 'position@5', 'position@5(eta=1.5)', 'paper@5')
    """
    return tuple(name.format(ranks=ranks) for name in PLAUSIBLE)


def assume_curve(counts: Counts, curve: str | None = None) -> BiasEstimate:
    """Assume a curve; nothing is estimated.

    Args:
        counts: the counts of the log, for the report on what the log can tell.
        curve: the name of simulated users. None for ``paper@K`` with the ranks of the log, at most 10.
    """
    name = f"{DEFAULT_CURVE}@{min(counts.positions, DEFAULT_POSITIONS)}" if curve is None else curve
    bias = named_bias(name)
    return BiasEstimate(
        method=ASSUMED,
        assumption=f"{ASSUMPTIONS[ASSUMED]} (the curve is {name})",
        model="affine" if np.any(bias.beta > 0.0) else "position",
        bias=bias,
        anchor=Anchor(1, bias.positions),
        movement=count_movement(CellTable.of(counts)),
        notes=(
            f"The bias is assumed, not estimated: {name}. Check how much conclusions change with other "
            f"curves (rankloop.sensitivity), and collect a log in which documents move.",
        ),
    )
