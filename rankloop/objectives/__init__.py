"""Ranking objectives: their value and their derivatives by the scores."""

from rankloop.objectives.click_likelihood import ClickCounts as ClickCounts
from rankloop.objectives.click_likelihood import click_likelihood as click_likelihood
from rankloop.objectives.expected_reward import Reward as Reward
from rankloop.objectives.expected_reward import expected_reward as expected_reward
from rankloop.objectives.lambda_rank import lambda_rank as lambda_rank
from rankloop.objectives.proximal_reward import proximal_reward as proximal_reward
from rankloop.objectives.sampled import pl_rank_gradient as pl_rank_gradient
from rankloop.objectives.sampled import reinforce_gradient as reinforce_gradient
from rankloop.objectives.training_objective import TRAINING_OBJECTIVES as TRAINING_OBJECTIVES
from rankloop.objectives.training_objective import ExpectedReward as ExpectedReward
from rankloop.objectives.training_objective import LinearReward as LinearReward
from rankloop.objectives.training_objective import PairwiseLogistic as PairwiseLogistic
from rankloop.objectives.training_objective import Softmax as Softmax
from rankloop.objectives.training_objective import TrainingObjective as TrainingObjective
from rankloop.objectives.training_objective import training_objective as training_objective
