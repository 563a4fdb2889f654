"""What was shown and clicked: statistics that add, and their files."""

from rankloop.logs.exposure import Exposure as Exposure
from rankloop.logs.impressions import of_impressions as of_impressions
from rankloop.logs.statistics import PolicyStatistics as PolicyStatistics
from rankloop.logs.statistics import Statistics as Statistics
from rankloop.logs.storage import load_statistics as load_statistics
from rankloop.logs.storage import save_statistics as save_statistics
from rankloop.logs.storage import statistics_from_bytes as statistics_from_bytes
from rankloop.logs.storage import statistics_to_bytes as statistics_to_bytes
