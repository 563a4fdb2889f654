"""All benchmarks, in the order of the table."""

from __future__ import annotations

from benchmarks.exposure import EXPOSURE
from benchmarks.fit import FIT
from benchmarks.gradient import GRADIENT
from benchmarks.growth import GRADIENT_GROWTH
from benchmarks.learning import LEARNING
from benchmarks.live import LIVE
from benchmarks.logs import LOGS
from benchmarks.loops import LOOPS
from benchmarks.measure import Benchmark, Target
from benchmarks.memory import DATASET
from benchmarks.mlp import NETWORK
from benchmarks.online import ONLINE
from benchmarks.simulation import SIMULATION

BENCHMARKS: tuple[Benchmark, ...] = (
    EXPOSURE,
    GRADIENT,
    GRADIENT_GROWTH,
    NETWORK,
    SIMULATION,
    LOOPS,
    LEARNING,
    ONLINE,
    DATASET,
    LOGS,
    FIT,
    LIVE,
)
TARGETS: dict[str, Target] = {target.name: target for b in BENCHMARKS for target in b.targets}
