from .figures import FIGURES as FIGURES
from .presets import PRESETS as PRESETS
from .presets import Preset as Preset
from .reproduction import Plan as Plan
from .reproduction import Reproduction as Reproduction
from .reproduction import plan as plan
from .reproduction import reproduce as reproduce
