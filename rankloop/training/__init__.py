"""From weights to a model: exact gradients, early stopping, and one `learn` for every caller."""

from rankloop.training._learn import learn as learn
from rankloop.training.calibration import Calibration as Calibration
from rankloop.training.guess_models import GUESSES as GUESSES
from rankloop.training.guess_models import GuessModel as GuessModel
from rankloop.training.guess_models import guess_model as guess_model
from rankloop.training.history import Epoch as Epoch
from rankloop.training.history import Training as Training
from rankloop.training.learning import DOUBLY_ROBUST as DOUBLY_ROBUST
from rankloop.training.learning import LEARNING as LEARNING
from rankloop.training.learning import PAPER as PAPER
from rankloop.training.learning import ROBUST as ROBUST
from rankloop.training.learning import Learning as Learning
from rankloop.training.learning import learning_named as learning_named
from rankloop.training.network import train_network as train_network
from rankloop.training.problem import LearningProblem as LearningProblem
from rankloop.training.relevance_guess import RelevanceGuess as RelevanceGuess
from rankloop.training.relevance_guess import cross_fit_relevance as cross_fit_relevance
from rankloop.training.relevance_guess import guess_relevance as guess_relevance
from rankloop.training.settings import Settings as Settings
from rankloop.training.shown_documents import ShownDocuments as ShownDocuments
from rankloop.training.supervised import train as train
from rankloop.training.task import Task as Task
from rankloop.training.trees import train_trees as train_trees
from rankloop.training.trees import train_trees_on_clicks as train_trees_on_clicks
