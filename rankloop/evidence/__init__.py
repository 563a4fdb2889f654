"""Evidence: how sure one can be that a policy is better, at every look, and what it may risk."""

from rankloop.evidence.click_likelihood import explained_clicks as explained_clicks
from rankloop.evidence.decision import Assumption as Assumption
from rankloop.evidence.decision import Decision as Decision
from rankloop.evidence.decision import DecisionKind as DecisionKind
from rankloop.evidence.decision import Evidence as Evidence
from rankloop.evidence.decision import convinces as convinces
from rankloop.evidence.decision import decide as decide
from rankloop.evidence.decision import exit_code as exit_code
from rankloop.evidence.rules import EVIDENCE as EVIDENCE
from rankloop.evidence.rules import ClickNoise as ClickNoise
from rankloop.evidence.rules import EvidenceRule as EvidenceRule
from rankloop.evidence.rules import evidence as evidence
from rankloop.evidence.steps import LossLimit as LossLimit
from rankloop.evidence.steps import Step as Step
from rankloop.evidence.steps import Trial as Trial
from rankloop.evidence.steps import choose_step as choose_step
from rankloop.evidence.trust_region import TrustRegion as TrustRegion
from rankloop.evidence.trust_region import agreement as agreement
from rankloop.evidence.trust_region import worst_loss as worst_loss
