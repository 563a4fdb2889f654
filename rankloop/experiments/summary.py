"""Averages over runs that differ only in their seed: means, intervals, and the final table."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, Literal

import numpy as np

from rankloop.experiments.results import Row, RunResult
from rankloop.experiments.spec import NOT_GIVEN, short_name, spell
from rankloop.statistics.intervals import student_quantile
from rankloop.storage.plain import to_plain
from rankloop.types import Float64, Int64

CONFIDENCE = 0.9
# Fields that every label has, whether or not they differ between the runs.
ALWAYS_LABELLED = ("estimator", "method", "interventions")
# Fields that an online method does not use, or has its own values of: they tell learners of one kind apart.
OF_ESTIMATORS = ("objective", "exploration", "caution", "evidence")
# Fields that no label has: when a run is evaluated does not change it.
NEVER_LABELLED = ("evaluations",)


@dataclass(frozen=True)
class Mean:
    """A mean over runs, and half the width of its 90 % confidence interval (Student's t); 0 for one run.

    >>> Mean.of([1.0, 2.0, 3.0])
    Mean(value=2.0, half_width=1.6858...)
    >>> str(Mean.of([0.5])), str(Mean.of([0.5, 0.6]))
    ('0.5000', '0.5500 ± 0.3157')
    """

    value: float
    half_width: float

    @classmethod
    def of(cls, values: Sequence[float] | Float64) -> Mean:
        """The mean of independent values."""
        n = len(values)
        if n == 1:
            return cls(float(values[0]), 0.0)
        quantile = student_quantile(n - 1, 0.5 - 0.5 * CONFIDENCE)
        return cls(float(np.mean(values)), float(quantile * np.std(values, ddof=1) / np.sqrt(n)))

    def __str__(self) -> str:
        return f"{self}"

    def __format__(self, sign: str) -> str:
        """The number, with a sign if it is ``+``."""
        return f"{self.value:{sign}.4f}" + (f" ± {self.half_width:.4f}" if self.half_width else "")


@dataclass(frozen=True)
class Curve:
    """A quantity by the number of impressions so far.

    Attributes:
        times: numbers of impressions.
        values: the mean over the runs at each time; NaN where it is not known for every run.
        half_widths: half the widths of the confidence intervals.
    """

    times: Int64
    values: Float64
    half_widths: Float64


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
    """A quantity of the runs of one method.

    Attributes:
        times: numbers of impressions, ascending.
        values: runs × times.
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

    def paired(self, other: RunCurves) -> tuple[RunCurves, RunCurves]:
        """Both, with the runs of the seeds that both have, at the times at which both were evaluated."""
        seeds, times = set(self.seeds) & set(other.seeds), np.intersect1d(self.times, other.times)
        return self.select(seeds, times), other.select(seeds, times)

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
        means = [Mean.of(column) for column in self.values.T]
        return Curve(self.times, *np.array([(mean.value, mean.half_width) for mean in means]).T)


@dataclass(frozen=True)
class Group:
    """Runs of one configuration.

    Attributes:
        label: what distinguishes it from the other groups.
        runs: one per seed; their rows are at the same times.
    """

    label: str
    runs: tuple[RunResult, ...]

    @property
    def name(self) -> str:
        """The name of its run; for several runs, their number."""
        return self.runs[0].name if len(self.runs) == 1 else f"{len(self.runs)} seeds"

    @property
    def times(self) -> Int64:
        """The times at which every run was evaluated: as far as the shortest of them has come."""
        return np.array([row.impressions for row in min((run.rows for run in self.runs), key=len)])

    @property
    def finished(self) -> bool:
        """Whether every run has reached its horizon."""
        return all(run.rows[-1].impressions == run.spec.horizon for run in self.runs)

    @property
    def oracle(self) -> Mean | None:
        """The true metric of the oracle, if it is known for every run."""
        values = [run.facts.oracle for run in self.runs]
        known = [value for value in values if value is not None]
        return Mean.of(known) if len(known) == len(values) else None

    def curve(self, quantity: Callable[[Row], float | None]) -> Curve:
        """A quantity of the rows, averaged over the runs."""
        return self.curves(quantity).curve()

    def curves(self, quantity: Callable[[Row], float | None]) -> RunCurves:
        """A quantity of the rows, run by run; NaN where it is not known."""
        times = self.times
        values = [[quantity(row) for row in run.rows[: len(times)]] for run in self.runs]
        return RunCurves(times, np.array(values, float), tuple(run.spec.seed for run in self.runs))

    def mean(self, quantity: Callable[[RunResult], float]) -> Mean:
        """A quantity of the runs, averaged."""
        return Mean.of([quantity(run) for run in self.runs])


@dataclass(frozen=True)
class PairedDifference:
    """How much more one method learned than another, seed by seed.

    Attributes:
        one: the first method.
        other: the second one.
        difference: first − second, the true metric of the learned policies, at the last common time.
        seeds: the seeds that both have; what a seed decides, such as the start, is no part of the difference.
        impressions: the last time at which both were evaluated.
    """

    one: str
    other: str
    difference: Mean
    seeds: int
    impressions: int

    @classmethod
    def of(cls, one: str, a: RunCurves, other: str, b: RunCurves) -> PairedDifference | None:
        """The difference of two methods; None if they have no seed or no time in common."""
        a, b = a.paired(b)
        if not a.seeds or not len(a.times):
            return None
        return cls(one, other, Mean.of(a.last - b.last), len(a.seeds), int(a.times[-1]))


def paired_differences(learned: Sequence[tuple[str, RunCurves]]) -> list[PairedDifference]:
    """Every pair of methods that have seeds in common, each later one − an earlier one.

    Args:
        learned: names of methods, and what their runs learned.
    """
    pairs = (PairedDifference.of(*one, *other) for other, one in combinations(learned, 2))
    return [pair for pair in pairs if pair is not None]


@dataclass(frozen=True)
class SummaryRow:
    """A line of the final table: values are the true metric on the test queries.

    Attributes:
        group: which runs.
        impressions: the number of impressions.
        interventions: number of deployed policies; ``all`` if the policy being learned logs.
        learned: the policy learned in the end.
        gain: learned − start, run by run.
        logging: the policy that logged last.
        shown: what users were shown, averaged over all impressions: the price of exploration.
        start: the starting policy.
        oracle: the oracle baseline, if it is known for every run.
    """

    group: Group
    impressions: int
    interventions: int | Literal["all"]
    learned: Mean
    gain: Mean
    logging: Mean
    shown: Mean
    start: Mean
    oracle: Mean | None

    def to_dict(self) -> dict[str, Any]:
        """The line as JSON has it."""
        group = {
            "run": self.group.name,
            "label": self.group.label,
            "seeds": [run.spec.seed for run in self.group.runs],
        }
        numbers = {name: to_plain(value) for name, value in vars(self).items() if name != "group"}
        return {**group, **numbers}


def summarise(group: Group) -> SummaryRow:
    """The line of a group in the final table."""
    last = len(group.times) - 1
    deployed = group.runs[0].spec.intervention_times
    return SummaryRow(
        group,
        impressions=int(group.times[last]),
        interventions=deployed if deployed == "all" else len(deployed),
        learned=group.mean(lambda run: run.rows[last].learned),
        gain=group.mean(lambda run: run.rows[last].learned - run.facts.start),
        logging=group.mean(lambda run: run.rows[last].logging),
        shown=group.mean(lambda run: run.shown(last)),
        start=group.mean(lambda run: run.facts.start),
        oracle=group.oracle,
    )


def group_runs(runs: Sequence[RunResult]) -> list[Group]:
    """Group the runs by configuration, in the order of their first runs.

    A configuration is the version and the whole spec except the seed.
    """
    found: dict[tuple[str, ...], list[RunResult]] = {}
    for run in runs:
        found.setdefault(tuple(configuration(run).values()), []).append(run)
    groups = [tuple(sorted(members, key=lambda run: run.spec.seed)) for members in found.values()]
    parts = [configuration(members[0]) for members in groups]
    differs = [name for name in parts[0] if _differs(name, parts)]
    others = [name for name in differs if name not in ALWAYS_LABELLED + NEVER_LABELLED]
    labelled = [*ALWAYS_LABELLED, *others]
    return [
        Group(", ".join(filter(None, (_label(name, part[name]) for name in labelled))), members)
        for part, members in zip(parts, groups, strict=True)
    ]


def _differs(name: str, parts: Sequence[dict[str, str]]) -> bool:
    """Whether a field tells some of the configurations apart."""
    if name not in OF_ESTIMATORS:
        return len({part[name] for part in parts}) > 1
    kinds = {part["method"] == NOT_GIVEN for part in parts}
    return any(len({p[name] for p in parts if (p["method"] == NOT_GIVEN) is kind}) > 1 for kind in kinds)


def configuration(run: RunResult) -> dict[str, str]:
    """Everything that defines a run, except the seed."""
    content: dict[str, Any] = {"version": run.version, **run.spec.model_dump(exclude={"seed"})}
    if run.spec.estimator is None and run.spec.method is None:
        content["estimator"] = run.spec.learner
    return {name: spell(value) for name, value in content.items()}


def _label(name: str, value: str) -> str:
    """A field of the configuration as part of a label; empty if it does not apply.

    >>> [_label("estimator", "naive"), _label("interventions", "1"), _label("interventions", "10,20")]
    ['naive', '1 intervention', 'interventions at 10,20']
    >>> [_label("method", "pdgd"), _label("interventions", "all"), _label("method", "default")]
    ['pdgd', 'online', '']
    """
    words = name.replace("_", " ")
    if name in ("estimator", "method"):
        return "" if value == NOT_GIVEN else short_name(value)
    if name == "interventions" and value == "all":
        return "online"
    if name == "interventions" and "," in value:
        return f"{words} at {value}"
    if name == "interventions":
        return f"{value} intervention{'' if value == '1' else 's'}"
    return f"{words} {value}"
