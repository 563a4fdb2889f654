"""Weights to a model: exact gradients, early stopping."""

from rankloop.training.training import Epoch as Epoch
from rankloop.training.training import Settings as Settings
from rankloop.training.training import Task as Task
from rankloop.training.training import Training as Training
from rankloop.training.training import Watch as Watch
from rankloop.training.training import train as train
from rankloop.training.training import train_network as train_network
from rankloop.training.training import train_trees as train_trees
