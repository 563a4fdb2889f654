"""Sums over any log, simulated or real: what estimators learn from."""

from rankloop.statistics.exposure import Exposure as Exposure
from rankloop.statistics.impressions import of_impressions as of_impressions
from rankloop.statistics.statistics import PolicyStatistics as PolicyStatistics
from rankloop.statistics.statistics import Statistics as Statistics
from rankloop.statistics.storage import load_statistics as load_statistics
from rankloop.statistics.storage import save_statistics as save_statistics
from rankloop.statistics.storage import statistics_from_bytes as statistics_from_bytes
from rankloop.statistics.storage import statistics_to_bytes as statistics_to_bytes
