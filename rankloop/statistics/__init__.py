"""Sums over any log, simulated or real: what estimators learn from."""

from rankloop.statistics.bets import Bets as Bets
from rankloop.statistics.bets import Detector as Detector
from rankloop.statistics.counts import Counts as Counts
from rankloop.statistics.intervals import Interval as Interval
from rankloop.statistics.sequences import AsymptoticSequence as AsymptoticSequence
from rankloop.statistics.sequences import BoundedSequence as BoundedSequence
from rankloop.statistics.sequences import ConfidenceSequence as ConfidenceSequence
from rankloop.statistics.sequences import sequence_from_dict as sequence_from_dict
from rankloop.statistics.statistics import Exposure as Exposure
from rankloop.statistics.statistics import PolicyStatistics as PolicyStatistics
from rankloop.statistics.statistics import Statistics as Statistics
from rankloop.statistics.storage import load_statistics as load_statistics
from rankloop.statistics.storage import save_statistics as save_statistics
from rankloop.statistics.storage import statistics_from_bytes as statistics_from_bytes
from rankloop.statistics.storage import statistics_to_bytes as statistics_to_bytes
from rankloop.statistics.tables import CellTable as CellTable
from rankloop.statistics.tables import of_impressions as of_impressions
