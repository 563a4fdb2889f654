"""Ranking objectives: their value and their derivatives by the scores."""

from rankloop.objectives.expected_reward import Reward as Reward
from rankloop.objectives.expected_reward import expected_reward as expected_reward
from rankloop.objectives.sampled import pl_rank_gradient as pl_rank_gradient
from rankloop.objectives.sampled import reinforce_gradient as reinforce_gradient
