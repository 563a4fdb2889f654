"""Models: features to scores, a gradient on scores to an update, parameters to bytes and back."""

from rankloop.models.blend import Blend as Blend
from rankloop.models.blend import mean_model as mean_model
from rankloop.models.lightgbm import LightGBMModel as LightGBMModel
from rankloop.models.linear import Linear as Linear
from rankloop.models.mlp import MLP as MLP
from rankloop.models.optimisers import SGD as SGD
from rankloop.models.optimisers import Adam as Adam
from rankloop.models.optimisers import OptimiserState as OptimiserState
from rankloop.models.storage import model_from_bytes as model_from_bytes
from rankloop.models.storage import model_to_bytes as model_to_bytes
from rankloop.models.torch import TorchModel as TorchModel
from rankloop.models.trees import TreeEnsemble as TreeEnsemble
