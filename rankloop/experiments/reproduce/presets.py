"""The sizes of a reproduction: three presets, and the specs of their runs.

The command line builds its options from `Preset`, so this module imports nothing heavy.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from rankloop import names
from rankloop.experiments.spec import (
    ALL,
    DATA_HELP,
    FOLD_HELP,
    RunSpec,
)
from rankloop.experiments.spec_names import (
    AUTHORS,
    HELD_OUT,
    check_learning,
    check_relevance,
    check_supervision,
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
    relevance: Annotated[str, AfterValidator(check_relevance)] = option_field(
        "linear", "How a label becomes a probability of relevance, such as linear(max_label=2): {relevances}."
    )
    learning: Annotated[str, AfterValidator(check_learning)] = option_field(
        "paper", "How weights become a policy: paper (the paper's settings) or robust (rankloop's own)."
    )
    supervision: Annotated[str, AfterValidator(check_supervision)] = option_field(
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
            from rankloop.experiments.reproduce.times import authors_evaluations

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
            from rankloop.experiments.reproduce.times import authors_interventions

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
