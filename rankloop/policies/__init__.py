"""Marginals, probabilities and samples of a ranking policy, from its scores."""

from rankloop.policies.plackett_luce import draw_ranking as draw_ranking
from rankloop.policies.plackett_luce import expected_rank_weights as expected_rank_weights
from rankloop.policies.plackett_luce import log_probability as log_probability
from rankloop.policies.plackett_luce import rank_marginals as rank_marginals
from rankloop.policies.plackett_luce import sample_rankings as sample_rankings
from rankloop.policies.plackett_luce import sorted_rank_weights as sorted_rank_weights
from rankloop.policies.plackett_luce import top_ranking as top_ranking
