"""Ranking objectives: their value and their derivatives by the scores."""

from rankloop.objectives.metrics import MetricGradient as MetricGradient
from rankloop.objectives.metrics import expected_metric as expected_metric
from rankloop.objectives.metrics import lambda_rank as lambda_rank
from rankloop.objectives.metrics import proximal_metric as proximal_metric
from rankloop.objectives.sampled import pl_rank_gradient as pl_rank_gradient
from rankloop.objectives.sampled import reinforce_gradient as reinforce_gradient
from rankloop.objectives.training_objective import TRAINING_OBJECTIVES as TRAINING_OBJECTIVES
from rankloop.objectives.training_objective import ExpectedMetric as ExpectedMetric
from rankloop.objectives.training_objective import LinearMetric as LinearMetric
from rankloop.objectives.training_objective import PairwiseLogistic as PairwiseLogistic
from rankloop.objectives.training_objective import Softmax as Softmax
from rankloop.objectives.training_objective import TrainingObjective as TrainingObjective
from rankloop.objectives.training_objective import training_objective as training_objective
