"""The results of runs as claims use them: arrays of runs × times, and the baselines of each seed.

Arms may have runs of different seeds, as when only a part of a reproduction has been made. What is compared
are the runs of seeds that both sides have: they share the data, the production ranker and its baselines.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from rankloop.errors import RankloopError
from rankloop.experiments.reproduce.figures.base import Quantity
from rankloop.experiments.reproduce.presets import Arm
from rankloop.experiments.summary import Curve, Mean
from rankloop.types import Float64, Int64


class NotRunError(RankloopError):
    """A claim needs runs that were not made."""


def others_mean(values: Float64) -> Float64:
    """For each run, the mean of the other runs; of a single run, itself.

    Args:
        values: the first axis is that of the runs.

    Example:
        >>> others_mean(np.array([1.0, 2.0, 6.0]))
        array([4. , 3.5, 1.5])
    """
    if len(values) < 2:
        return values
    mean: Float64 = (values.sum(axis=0) - values) / (len(values) - 1)
    return mean


@dataclass(frozen=True, eq=False)
class RunCurves:
    """The runs of one arm.

    Attributes:
        times: numbers of impressions, ascending.
        values: runs × times, the true NDCG on the test queries.
        seeds: the seeds of the runs, ascending.
    """

    times: Int64
    values: Float64
    seeds: tuple[int, ...]

    @property
    def last(self) -> Float64:
        """The values at the last time, one per run."""
        return self.values[:, -1]

    def select(self, seeds: Collection[int], times: Int64) -> RunCurves:
        """The runs of some of its seeds, at some of its times."""
        runs, columns = np.isin(self.seeds, list(seeds)), np.isin(self.times, times)
        kept = tuple(seed for seed in self.seeds if seed in seeds)
        return RunCurves(self.times[columns], self.values[np.ix_(runs, columns)], kept)

    def mean_over_axis(self) -> Float64:
        """The mean over a logarithmic axis, one per run: how fast and how high at once.

            1 / (log t_n − log t_1) · ∫ value d log t, by the trapezoid rule

        Example:
            >>> curves = RunCurves(np.array([1, 10, 1000]), np.array([[0.0, 1.0, 1.0]]), seeds=(0,))
            >>> curves.mean_over_axis().round(6)  # half of one decade, and two whole ones, of three
            array([0.833333])
        """
        axis = np.log(self.times)
        if len(axis) == 1:
            return self.last
        mean: Float64 = np.trapezoid(self.values, axis, axis=1) / (axis[-1] - axis[0])
        return mean

    @property
    def peaks(self) -> Int64:
        """For each run, the index of the time at which the mean of the other runs is highest.

        A run that chose the peak itself would look higher there than runs are: what is largest by chance is
        chosen. A single run has no others, and chooses for itself.
        """
        peaks: Int64 = np.argmax(others_mean(self.values), axis=1)
        return peaks

    @property
    def peak_times(self) -> str:
        """Those times in words: one, or from the earliest to the latest."""
        times = self.times[self.peaks]
        first, last = f"{times.min():,}", f"{times.max():,}"
        return first if first == last else f"{first} to {last}"

    def at(self, columns: Int64) -> Float64:
        """The value of each run at a time of its own, given by index."""
        return self.values[np.arange(len(self.values)), columns]

    @property
    def spread(self) -> float:
        """The standard deviation over runs: the root mean square over the times."""
        if len(self.values) < 2:
            return float("nan")
        return float(np.sqrt(self.values.var(axis=0, ddof=1).mean()))

    def curve(self) -> Curve:
        """The means over the runs, with confidence intervals."""
        means = [Mean.of(list(column)) for column in self.values.T]
        return Curve(self.times, *np.array([(mean.value, mean.half_width) for mean in means]).T)


@dataclass(frozen=True, eq=False)
class AllRuns:
    """All runs of a reproduction.

    Attributes:
        learned: the curves of the learned policies by arm; runs in the order of the seeds.
        logging: the curves of the logging policies by arm.
        baselines: by seed, the values of the baselines by name (`random`, `start`, `supervised`, `oracle`,
            `best_supervised`, `noise_free`); None for those that are not known.
    """

    learned: Mapping[Arm, RunCurves]
    logging: Mapping[Arm, RunCurves]
    baselines: Mapping[int, Mapping[str, float | None]]

    @property
    def seeds(self) -> tuple[int, ...]:
        """The seeds of which there is any run."""
        return tuple(sorted(self.baselines))

    def curves(self, arm: Arm, quantity: Quantity = "learned") -> RunCurves:
        """The runs of an arm.

        Raises:
            NotRunError: there are none.
        """
        known = self.learned if quantity == "learned" else self.logging
        if arm not in known:
            raise NotRunError(f"{arm.name} was not run")
        return known[arm]

    def pair(self, one: Arm, other: Arm) -> tuple[RunCurves, RunCurves]:
        """Two arms: the runs of the seeds that both have, at the times at which both were evaluated.

        Raises:
            NotRunError: they have no seed in common.
        """
        a, b = self.curves(one), self.curves(other)
        times, seeds = np.intersect1d(a.times, b.times), set(a.seeds) & set(b.seeds)
        if not seeds:
            raise NotRunError(f"{one.name} and {other.name} have no seed in common")
        return a.select(seeds, times), b.select(seeds, times)

    def baseline(self, name: str, seeds: Sequence[int] | None = None) -> Float64:
        """The values of a baseline, one per seed.

        Args:
            name: which baseline.
            seeds: which seeds, such as those of an arm; None for all.

        Raises:
            NotRunError: there are none.
        """
        if not self.baselines:
            raise NotRunError("no production ranker and no baselines were trained")
        values = [self.baselines[seed].get(name) for seed in (self.seeds if seeds is None else seeds)]
        if None in values:
            raise NotRunError(f"the baseline {name} is not known for all runs")
        return np.array(values)

    def has_baseline(self, name: str) -> bool:
        """Whether the value of a baseline is known for every seed."""
        known = [own.get(name) is not None for own in self.baselines.values()]
        return bool(known) and all(known)
