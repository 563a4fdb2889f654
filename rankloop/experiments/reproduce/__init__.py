"""The paper's experiments: every figure and every claim, from one call."""

from rankloop.experiments.reproduce.figures import FIGURES as FIGURES
from rankloop.experiments.reproduce.presets import PRESETS as PRESETS
from rankloop.experiments.reproduce.presets import Preset as Preset
from rankloop.experiments.reproduce.reproduction import Plan as Plan
from rankloop.experiments.reproduce.reproduction import Reproduction as Reproduction
from rankloop.experiments.reproduce.reproduction import plan as plan
from rankloop.experiments.reproduce.reproduction import reproduce as reproduce
