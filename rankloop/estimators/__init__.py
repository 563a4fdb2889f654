"""From statistics of clicks to one weight per document; one file per estimator, and names that parse."""

from rankloop.estimators.affine import Affine as Affine
from rankloop.estimators.base import ESTIMATORS as ESTIMATORS
from rankloop.estimators.base import ClippedEstimator as ClippedEstimator
from rankloop.estimators.base import Estimator as Estimator
from rankloop.estimators.base import estimator as estimator
from rankloop.estimators.intervention_aware import InterventionAware as InterventionAware
from rankloop.estimators.intervention_oblivious import InterventionOblivious as InterventionOblivious
from rankloop.estimators.ips import IPS as IPS
from rankloop.estimators.naive import Naive as Naive
from rankloop.estimators.policy_aware import PolicyAware as PolicyAware
