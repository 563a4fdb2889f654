"""Which exploration goes with which way of learning."""

from __future__ import annotations

from dataclasses import replace

from rankloop.loop import AsLearned, default_exploration
from rankloop.loop.exploration import Explore, Spread
from rankloop.training import DOUBLY_ROBUST, PAPER, ROBUST, Learning, Settings


def test_a_variant_of_a_preset_explores_like_the_preset() -> None:
    assert default_exploration(replace(PAPER, settings=Settings(epochs=1))) == AsLearned()
    assert default_exploration(replace(ROBUST, clip_validation=False)) == Spread()


def test_any_other_learning_explores_like_the_default_preset() -> None:
    assert default_exploration(Learning(name="mine")) == default_exploration(DOUBLY_ROBUST) == Explore()
