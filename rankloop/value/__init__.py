"""What a policy is worth, and how sure that is: one contribution per impression, and its sums."""

from rankloop.value.calibrated import calibrated_gain as calibrated_gain
from rankloop.value.contribution import Contribution as Contribution
from rankloop.value.contribution import debias as debias
from rankloop.value.contribution import unexplained as unexplained
from rankloop.value.held_out_clicks import Gain as Gain
from rankloop.value.held_out_clicks import HeldOutClicks as HeldOutClicks
