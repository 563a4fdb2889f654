"""Ranking metrics: of a ranking, and their exact expectation under a Plackett–Luce policy."""

from rankloop.evaluation.additive import DCG as DCG
from rankloop.evaluation.additive import NDCG as NDCG
from rankloop.evaluation.additive import NRCTR as NRCTR
from rankloop.evaluation.additive import RCTR as RCTR
from rankloop.evaluation.additive import Additive as Additive
from rankloop.evaluation.additive import Precision as Precision
from rankloop.evaluation.average_position import ARP as ARP
from rankloop.evaluation.base import METRICS as METRICS
from rankloop.evaluation.base import Metric as Metric
from rankloop.evaluation.base import metric as metric
from rankloop.evaluation.first_relevant import MRR as MRR
from rankloop.evaluation.means import policy_metrics as policy_metrics
from rankloop.evaluation.means import ranking_metrics as ranking_metrics
