"""The paper's Algorithm 1: gather, learn, evaluate, deploy, repeat, as a generator of events."""

from rankloop.loop.deployment import Clicks as Clicks
from rankloop.loop.deployment import Deployment as Deployment
from rankloop.loop.events import Deployed as Deployed
from rankloop.loop.events import Evaluated as Evaluated
from rankloop.loop.events import Event as Event
from rankloop.loop.events import Gathered as Gathered
from rankloop.loop.events import LoopState as LoopState
from rankloop.loop.events import Stage as Stage
from rankloop.loop.events import Trained as Trained
from rankloop.loop.exploration import EXPLORATIONS as EXPLORATIONS
from rankloop.loop.exploration import AsLearned as AsLearned
from rankloop.loop.exploration import Exploration as Exploration
from rankloop.loop.exploration import exploration as exploration
from rankloop.loop.loop import SUPPORT_LEVELS as SUPPORT_LEVELS
from rankloop.loop.loop import Loop as Loop
from rankloop.loop.loop import Source as Source
from rankloop.loop.loop import exponential_times as exponential_times
from rankloop.loop.presets import default_exploration as default_exploration
from rankloop.loop.simulated_users import SimulatedUsers as SimulatedUsers
