from .report import write_report as write_report
from .results import RunResult as RunResult
from .results import find_results as find_results
from .results import read_result as read_result
from .run import Run as Run
from .setup import Setup as Setup
from .spec import RunSpec as RunSpec
