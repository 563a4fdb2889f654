"""The presets of the loop: which exploration goes with which way of learning."""

from __future__ import annotations

from collections.abc import Mapping

from rankloop.loop.exploration import AsLearned, Exploration, Explore, Spread
from rankloop.training import CLICK_LIKELIHOOD, DOUBLY_ROBUST, PAPER, ROBUST, Learning

# In the paper, the learned policy itself logs.
EXPLORATION: Mapping[str, Exploration] = {
    CLICK_LIKELIHOOD.name: Explore(),
    DOUBLY_ROBUST.name: Explore(),
    ROBUST.name: Spread(),
    PAPER.name: AsLearned(),
}


def default_exploration(learning: Learning) -> Exploration:
    """Return the exploration that goes with a way of learning unless another one is chosen.

    A custom `Learning` gets the exploration of the default preset.

    >>> print(default_exploration(CLICK_LIKELIHOOD), default_exploration(PAPER))
    explore as-learned
    """
    return EXPLORATION.get(learning.name, EXPLORATION[CLICK_LIKELIHOOD.name])
