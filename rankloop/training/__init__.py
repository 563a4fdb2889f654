"""From weights to a model: exact gradients, early stopping, and one `learn` for every caller."""

from rankloop.models.history import Epoch as Epoch
from rankloop.models.history import Settings as Settings
from rankloop.models.history import Training as Training
from rankloop.training._learn import learn as learn
from rankloop.training._learn import train as train
from rankloop.training._learn import train_network as train_network
from rankloop.training._learn import train_trees as train_trees
from rankloop.training.cross_fitted import CrossFittedPolicy as CrossFittedPolicy
from rankloop.training.cross_fitted import learn_cross_fitted as learn_cross_fitted
from rankloop.training.learning import CLICK_LIKELIHOOD as CLICK_LIKELIHOOD
from rankloop.training.learning import DOUBLY_ROBUST as DOUBLY_ROBUST
from rankloop.training.learning import LEARNING as LEARNING
from rankloop.training.learning import PAPER as PAPER
from rankloop.training.learning import ROBUST as ROBUST
from rankloop.training.learning import Learning as Learning
from rankloop.training.learning import LearningProblem as LearningProblem
from rankloop.training.learning import Task as Task
from rankloop.training.learning import learning_named as learning_named
from rankloop.training.proximal_task import ProximalTask as ProximalTask
from rankloop.training.proximal_task import stay_near as stay_near
