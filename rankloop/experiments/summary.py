"""Runs that differ in their seed alone, taken together: means, intervals, and the final table."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any, Literal

import numpy as np
from scipy import stats

from rankloop.experiments.results import Row, Run
from rankloop.experiments.spec import IN_SHORT, NOT_GIVEN, spell
from rankloop.types import Float64, Int64

CONFIDENCE = 0.9
# What every label says, whether or not it differs between the runs.
ALWAYS_TOLD = ("estimator", "method", "interventions")
# What no label says: when a run was looked at makes it no other run.
NEVER_TOLD = ("evaluations",)


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
    def of(cls, values: Sequence[float]) -> Mean:
        """Of independent values."""
        n = len(values)
        if n == 1:
            return cls(float(values[0]), 0.0)
        quantile = stats.t.ppf(0.5 + 0.5 * CONFIDENCE, n - 1)
        return cls(float(np.mean(values)), float(quantile * np.std(values, ddof=1) / np.sqrt(n)))

    def __str__(self) -> str:
        return f"{self.value:.4f}" + (f" ± {self.half_width:.4f}" if self.half_width else "")


@dataclass(frozen=True)
class Curve:
    """A quantity by the number of interactions so far.

    Attributes:
        times: interactions.
        values: its mean over the runs at each time; NaN where a run does not know it.
        half_widths: of the confidence intervals.
    """

    times: Int64
    values: Float64
    half_widths: Float64


@dataclass(frozen=True)
class Group:
    """Runs of one configuration.

    Attributes:
        label: what sets it apart from the other groups.
        runs: one a seed; their rows stand at the same times.
    """

    label: str
    runs: tuple[Run, ...]

    @property
    def name(self) -> str:
        """What its run is called; of several runs, how many they are."""
        return self.runs[0].name if len(self.runs) == 1 else f"{len(self.runs)} seeds"

    @property
    def times(self) -> Int64:
        """When every run of the group was evaluated: of a run that was cut, the others' rest is left out."""
        return np.array([row.timesteps for row in min((run.rows for run in self.runs), key=len)])

    @property
    def finished(self) -> bool:
        """Whether every run has come to its end."""
        return all(run.rows[-1].timesteps == run.spec.horizon for run in self.runs)

    @property
    def full_information(self) -> Mean | None:
        """The true metric of the policies learned from the true relevance, if it is known of every run."""
        bounds = [run.facts.full_information for run in self.runs]
        known = [bound for bound in bounds if bound is not None]
        return Mean.of(known) if len(known) == len(bounds) else None

    def curve(self, quantity: Callable[[Row], float | None]) -> Curve:
        """A quantity of the rows, over the runs."""
        times = self.times
        means = []
        for i in range(len(times)):
            values = [quantity(run.rows[i]) for run in self.runs]
            means.append(Mean.of([np.nan if value is None else value for value in values]))
        return Curve(times, *np.array([(mean.value, mean.half_width) for mean in means]).T)

    def mean(self, quantity: Callable[[Run], float]) -> Mean:
        """A quantity of the runs."""
        return Mean.of([quantity(run) for run in self.runs])


@dataclass(frozen=True)
class SummaryRow:
    """A line of the final table: everything is the true metric on the test queries.

    Attributes:
        group: which runs.
        timesteps: after how many interactions.
        interventions: how many policies were deployed; ``all`` if what was learned logged itself.
        learned: the policy learned in the end.
        gain: learned − start, run by run.
        logging: the policy that logged last.
        shown: what users were shown, on average over all interactions: the price of exploring.
        start: the starting policy.
        full_information: the policy learned from the true relevance, if it is known of every run.
    """

    group: Group
    timesteps: int
    interventions: int | Literal["all"]
    learned: Mean
    gain: Mean
    logging: Mean
    shown: Mean
    start: Mean
    full_information: Mean | None

    def as_dict(self) -> dict[str, Any]:
        """The line for other programs."""
        content = {field.name: getattr(self, field.name) for field in fields(self) if field.name != "group"}
        return {
            "run": self.group.name,
            "label": self.group.label,
            "seeds": [run.spec.seed for run in self.group.runs],
            **{name: asdict(value) if isinstance(value, Mean) else value for name, value in content.items()},
        }


def final_line(group: Group) -> SummaryRow:
    """The line of the final table that a group comes to."""
    last = len(group.times) - 1
    deployed = group.runs[0].spec.intervention_times
    return SummaryRow(
        group,
        timesteps=int(group.times[last]),
        interventions=deployed if deployed == "all" else len(deployed),
        learned=group.mean(lambda run: run.rows[last].learned),
        gain=group.mean(lambda run: run.rows[last].learned - run.facts.start),
        logging=group.mean(lambda run: run.rows[last].logging),
        shown=group.mean(lambda run: run.shown(last)),
        start=group.mean(lambda run: run.facts.start),
        full_information=group.full_information,
    )


def grouped(runs: Sequence[Run]) -> list[Group]:
    """The runs by configuration, in the order in which each first comes.

    A configuration is the version and the whole spec but the seed.
    """
    found: dict[tuple[str, ...], list[Run]] = {}
    for run in runs:
        found.setdefault(tuple(configuration(run).values()), []).append(run)
    groups = [tuple(sorted(members, key=lambda run: run.spec.seed)) for members in found.values()]
    parts = [configuration(members[0]) for members in groups]
    differs = [name for name in parts[0] if len({part[name] for part in parts}) > 1]
    others = [name for name in differs if name not in ALWAYS_TOLD + NEVER_TOLD]
    told = [*ALWAYS_TOLD, *others]
    return [
        Group(", ".join(filter(None, (_told(name, part[name]) for name in told))), members)
        for part, members in zip(parts, groups, strict=True)
    ]


def configuration(run: Run) -> dict[str, str]:
    """Everything that makes a run what it is, but the seed."""
    content: dict[str, Any] = {"version": run.version, **run.spec.model_dump(exclude={"seed"})}
    return {name: spell(value) for name, value in content.items()}


def _told(name: str, value: str) -> str:
    """A field of the configuration, as a label tells it; nothing of what does not apply.

    >>> [_told("estimator", "naive"), _told("interventions", "1"), _told("interventions", "10,20")]
    ['naive', '1 intervention', 'interventions at 10,20']
    >>> [_told("method", "pdgd"), _told("interventions", "all"), _told("method", "default")]
    ['pdgd', 'online', '']
    """
    words = name.replace("_", " ")
    if name in ("estimator", "method"):
        return "" if value == NOT_GIVEN else IN_SHORT.get(value, value)
    if name == "interventions" and value == "all":
        return "online"
    if name == "interventions" and "," in value:
        return f"{words} at {value}"
    if name == "interventions":
        return f"{value} intervention{'' if value == '1' else 's'}"
    return f"{words} {value}"
