"""The sizes of a reproduction: three presets, and the specs of their runs.

The command line builds its options from `Preset`, so this module imports nothing heavy.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import groupby
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from rankloop import names
from rankloop.errors import RankloopError
from rankloop.experiments.spec import (
    ALL,
    AUTHORS,
    DATA_HELP,
    FOLD_HELP,
    HELD_OUT,
    LearningName,
    RelevanceName,
    RunSpec,
    SupervisionName,
)
from rankloop.option_field import option_field


class Arm(BaseModel):
    """One way to learn, which figures show and claims are about.

    Attributes:
        learner: an estimator, an online method or a preset of learning, by its name.
        interventions: number of deployed policies; ``all`` for an online method whose policy logs itself.

    Example:
        >>> Arm(learner="intervention-aware", interventions=50).name
        'intervention-aware-50'
        >>> Arm(learner="pdgd", interventions="all").name
        'pdgd-online'
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    learner: str
    interventions: Annotated[int, Field(ge=0)] | Literal["all"]

    @property
    def name(self) -> str:
        """The name of its runs."""
        return f"{self.learner}-{'online' if self.interventions == ALL else self.interventions}"

    @property
    def kind(self) -> str:
        """The name of its learner without options."""
        return names.parse(self.learner).name

    @property
    def is_online(self) -> bool:
        """Whether it learns with an online method and not with an estimator."""
        from rankloop import online

        return self.kind in online.METHODS

    @property
    def is_learning(self) -> bool:
        """Whether it is a preset of learning, which has an estimator of its own."""
        from rankloop.training import LEARNING

        return self.learner in LEARNING


class Preset(BaseModel):
    """The size of a reproduction, and its data.

    The descriptions of the fields are help texts of `rankloop reproduce`.

    Attributes:
        name: the name of the preset.
        horizons: the horizons of online methods that stop earlier, by their names.
        evaluations: number of evaluations before the horizon, on an exponential scale.

    Example:
        >>> quick = PRESETS["quick"]
        >>> spec = quick.spec(Arm(learner="affine", interventions=50), seed=3)
        >>> spec.estimator, spec.interventions, spec.learning, spec.seed
        ('affine', 50, 'paper', 3)
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    data: str = option_field(..., DATA_HELP, shown_default="the preset's, which is synthetic")
    runs: int = option_field(
        ...,
        "Runs per learner in all, with the seeds 0, 1, 2, …",
        shown_default="the preset's",
        ge=1,
    )
    horizon: int = option_field(..., "Number of impressions.", shown_default="the preset's", ge=10)
    relevance: RelevanceName = option_field(
        "linear", "How a label becomes a probability of relevance, such as linear(max_label=2): {relevances}."
    )
    learning: LearningName = option_field(
        "paper", "How weights become a policy: paper (the paper's settings) or robust (rankloop's own)."
    )
    supervision: SupervisionName = option_field(
        HELD_OUT,
        "How the production ranker and the supervised baseline learn from labels: held-out (each seed has "
        "its own) or authors (as in the programs of the paper: peaked, shared by all seeds).",
        shown_default="the preset's",
    )
    temperature: float = option_field(
        1.0,
        "Divide the scores of production rankers by this: above 1, they are less peaked.",
        gt=0.0,
        allow_inf_nan=False,
    )
    fold: int = option_field(1, FOLD_HELP, ge=1)
    times: Literal["even", "authors"] = option_field(
        "even",
        "When policies are deployed: even (evenly spread on a logarithmic scale, from 100 impressions on) or "
        "authors (as in the programs of the paper: the first of 5 at 873 of 10⁸).",
        shown_default="the preset's",
    )
    horizons: dict[str, int] = {}
    evaluations: int = Field(ge=1)

    @property
    def seeds(self) -> tuple[int, ...]:
        """One seed per run."""
        return tuple(range(self.runs))

    @property
    def grid(self) -> tuple[int, ...]:
        """The times of evaluation of every arm, up to its own horizon; the last is the horizon."""
        if self.times == "authors":
            return authors_evaluations(self.horizon, self.evaluations)
        spread = RunSpec(horizon=self.horizon, interventions=0, evaluations=self.evaluations)
        return spread.times

    def setup_spec(self, seed: int) -> RunSpec:
        """A spec with everything that the runs of a seed have in common: what their setup is built from."""
        return RunSpec(**self._common(seed))

    def spec(self, arm: Arm, seed: int) -> RunSpec:
        """The run of an arm with a seed.

        Online methods are evaluated when estimators are, so that curves can be compared point by point.
        """
        horizon = min(self.horizon, self.horizons.get(arm.kind, self.horizon))
        evaluations: int | tuple[int, ...] = self.evaluations
        interventions: int | tuple[int, ...] | Literal["all"] = arm.interventions
        if self.times == "authors" and isinstance(arm.interventions, int):
            interventions = authors_interventions(horizon, arm.interventions, self.evaluations)
        if self.times == "authors" or horizon < self.horizon:
            evaluations = tuple(time for time in self.grid if time < horizon)
        kind = "method" if arm.is_online else "learning" if arm.is_learning else "estimator"
        own = {
            "horizon": horizon,
            "interventions": interventions,
            "evaluations": evaluations,
            kind: arm.learner,
        }
        return RunSpec(**{**self._common(seed), **own})

    def _common(self, seed: int) -> dict[str, Any]:
        same = ("data", "fold", "relevance", "learning", "supervision", "temperature", "horizon")
        return {**self.model_dump(include=set(same)), "supervised": True, "seed": seed}


# Where online methods stop earlier, as in the authors' programs, which log 10⁸ queries otherwise.
PAPER_HORIZONS = {"pdgd": 40_000_000, "biased-pdgd": 10_000_000, "coltr": 100_000}
# The number of queries of Yahoo! Webscope C14 set 1, which has 700 features.
YAHOO_QUERIES = 29_921

QUICK = Preset(
    name="quick",
    data="synthetic(queries=1000, features=100)",
    runs=5,
    horizon=10_000_000,
    horizons={"pdgd": 3_000_000, "biased-pdgd": 1_000_000, "coltr": 100_000},
    # Divides 50 and 100: runs with as many interventions are evaluated exactly when they deploy.
    evaluations=25,
)
MEDIUM = Preset(
    name="medium",
    data="synthetic(queries=6000, features=136)",
    runs=10,
    # As far as the authors ran PDGD: all lines but those of biased PDGD and COLTR have the same end.
    horizon=40_000_000,
    horizons=PAPER_HORIZONS,
    evaluations=25,
    supervision=AUTHORS,
)
PAPER = Preset(
    name="paper",
    data=f"synthetic(queries={YAHOO_QUERIES})",
    runs=20,
    horizon=100_000_000,
    horizons=PAPER_HORIZONS,
    evaluations=50,
    supervision=AUTHORS,
    times="authors",
)
PRESETS = {preset.name: preset for preset in (QUICK, MEDIUM, PAPER)}


def preset_named(name: str) -> Preset:
    """The preset of this name.

    >>> preset_named("paper").runs
    20
    """
    if name not in PRESETS:
        raise names.unknown("preset", name, PRESETS)
    return PRESETS[name]


# The exponent of their first evaluation.
FIRST = 2


def authors_evaluations(horizon: int, number: int) -> tuple[int, ...]:
    """The evaluations of the authors' programs: the first at 100, the last at the horizon.

    >>> authors_evaluations(10**8, 50)[:4], len(authors_evaluations(10**8, 50))
    ((100, 131, 171, 225), 52)
    """
    return tuple(dict.fromkeys(_spread(horizon, number)))


def authors_interventions(horizon: int, number: int, evaluations: int) -> tuple[int, ...]:
    """The interventions of the authors' programs: at the evaluations that are closest to an even spread.

    They lie strictly between the first evaluation and the horizon. If there are more of them than
    evaluations, they are evenly spread themselves. Times that are less than an impression apart are one.

    >>> authors_interventions(10**8, 5, 50)
    (873, 10000, 87332, 1000000, 8733261)
    >>> len(authors_interventions(10**8, 100, 50)), authors_interventions(10**8, 0, 50)
    (100, ())
    """
    even = _spread(horizon, number)[1:-1]
    if number < evaluations:
        grid = _spread(horizon, evaluations)[1:]
        even = [min(grid, key=lambda evaluated: abs(evaluated - time)) for time in even]
    return tuple(sorted({time for time in even if time < horizon}))


def _spread(horizon: int, between: int) -> list[int]:
    """Times from 100 to the horizon and so many between them, evenly on a logarithmic scale, rounded down."""
    import numpy as np

    last = np.log10(horizon)
    times: list[int] = np.logspace(min(FIRST, last / 2), last, between + 2, dtype=np.int64).tolist()
    return times


# More runs than anybody makes; it catches mistyped ranges.
MOST = 10_000


def read_seeds(text: str) -> tuple[int, ...]:
    """The seeds of a text, each once, ascending.

    >>> read_seeds("3-5, 9"), read_seeds("7,3")
    ((3, 4, 5, 9), (3, 7))
    """
    seeds: set[int] = set()
    for part in text.split(","):
        found = re.fullmatch(r"\s*(\d+)\s*(?:-\s*(\d+)\s*)?", part)
        first, last = (0, -1) if found is None else (int(found[1]), int(found[2] or found[1]))
        if not first <= last < MOST:
            raise RankloopError(f"seeds are written as 3-5 or 3,7, each below {MOST:,}, got {text!r}")
        seeds.update(range(first, last + 1))
    return tuple(sorted(seeds))


def spell_seeds(seeds: Iterable[int]) -> str:
    """The shortest text of the seeds.

    >>> spell_seeds([0, 1, 2, 5]), spell_seeds([3])
    ('0-2,5', '3')
    """
    runs = groupby(enumerate(sorted(seeds)), key=lambda pair: pair[1] - pair[0])
    parts = [[seed for _, seed in run] for _, run in runs]
    return ",".join(f"{part[0]}-{part[-1]}" if len(part) > 1 else str(part[0]) for part in parts)
