"""Online learning: methods that learn from every impression as it happens, one file per method."""

from rankloop.online.base import METHODS as METHODS
from rankloop.online.base import Method as Method
from rankloop.online.base import MethodState as MethodState
from rankloop.online.base import method as method
from rankloop.online.coltr import COLTR as COLTR
from rankloop.online.coltr import snips_risk as snips_risk
from rankloop.online.interact import interact as interact
from rankloop.online.interact import interact_log as interact_log
from rankloop.online.interact import replay as replay
from rankloop.online.pdgd import PDGD as PDGD
from rankloop.online.pdgd import BiasedPDGD as BiasedPDGD
from rankloop.online.pdgd import biased_pdgd_gradient as biased_pdgd_gradient
from rankloop.online.pdgd import pdgd_gradient as pdgd_gradient
from rankloop.online.pdgd import swap_probabilities as swap_probabilities
from rankloop.online.traffic import Queries as Queries
from rankloop.online.traffic import Traffic as Traffic
