"""The claims of the paper's text, each a named check."""

from __future__ import annotations

from rankloop.experiments.reproduce.claims import estimators, exact, interventions, online
from rankloop.experiments.reproduce.claims.base import FAILS as FAILS
from rankloop.experiments.reproduce.claims.base import HOLDS as HOLDS
from rankloop.experiments.reproduce.claims.base import UNDECIDED as UNDECIDED
from rankloop.experiments.reproduce.claims.base import Claim as Claim
from rankloop.experiments.reproduce.claims.base import Finding as Finding
from rankloop.experiments.reproduce.claims.base import Judged as Judged
from rankloop.experiments.reproduce.claims.base import judge as judge

# In the order of the paper.
CLAIMS: tuple[Claim, ...] = (
    *exact.CLAIMS,
    *estimators.CLAIMS,
    *interventions.CLAIMS,
    *online.CLAIMS,
)
