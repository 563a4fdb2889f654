"""The presets of the loop: which exploration goes with which way of learning."""

from __future__ import annotations

from collections.abc import Mapping

from rankloop.loop.exploration import AsLearned, Exploration, Spread
from rankloop.training import PAPER, ROBUST, Learning

# In the paper, the learned policy itself logs.
EXPLORATION: Mapping[str, Exploration] = {ROBUST.name: Spread(), PAPER.name: AsLearned()}


def default_exploration(learning: Learning) -> Exploration:
    """Return the exploration that goes with a way of learning unless another one is chosen.

    A custom `Learning` gets the exploration of the robust preset.

    >>> print(default_exploration(ROBUST), default_exploration(PAPER))
    spread as-learned
    """
    return EXPLORATION.get(learning.name, EXPLORATION[ROBUST.name])
