"""Evidence: how sure one can be that a policy is better, at every look, and what it may risk."""

from rankloop.evidence.calibrated_gain import calibrated_gain as calibrated_gain
from rankloop.evidence.confidence_sequence import AsymptoticSequence as AsymptoticSequence
from rankloop.evidence.confidence_sequence import BoundedSequence as BoundedSequence
from rankloop.evidence.confidence_sequence import ConfidenceSequence as ConfidenceSequence
from rankloop.evidence.confidence_sequence import sequence_from_dict as sequence_from_dict
from rankloop.evidence.debiased_clicks import DebiasedClicks as DebiasedClicks
from rankloop.evidence.debiased_clicks import Gain as Gain
from rankloop.evidence.rules import EVIDENCE as EVIDENCE
from rankloop.evidence.rules import ClickNoise as ClickNoise
from rankloop.evidence.rules import Decision as Decision
from rankloop.evidence.rules import EvidenceRule as EvidenceRule
from rankloop.evidence.rules import evidence as evidence
from rankloop.evidence.steps import LossLimit as LossLimit
from rankloop.evidence.steps import Step as Step
from rankloop.evidence.steps import Trial as Trial
from rankloop.evidence.steps import choose_step as choose_step
from rankloop.evidence.trust_region import TrustRegion as TrustRegion
from rankloop.evidence.trust_region import agreement as agreement
from rankloop.evidence.trust_region import worst_loss as worst_loss
