"""How large a reproduction is: two presets, and what they make of an arm of a figure."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from rankloop import clicks, names, online
from rankloop.experiments.spec import ALL, RunSpec
from rankloop.training import LEARNING


class Arm(BaseModel):
    """One way to learn, that figures show and claims speak of.

    Attributes:
        learner: an estimator or an online method, by its name.
        interventions: how many policies are deployed; ``all`` for an online method that logs what it learns.

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
        """What its runs are called."""
        return f"{self.learner}-{'online' if self.interventions == ALL else self.interventions}"

    @property
    def is_online(self) -> bool:
        """Whether an online method learns, and no estimator."""
        return self.learner.partition("(")[0] in online.METHODS


def _learning(text: str) -> str:
    if text not in LEARNING:
        raise names.unknown("learning", text, LEARNING)
    return text


class Preset(BaseModel):
    """How large a reproduction is, and on what.

    Attributes:
        name: what it is called.
        data: a path, or ``synthetic(…)``.
        fold: which fold, where the folder has several.
        relevance: how a label becomes a chance.
        runs: how many runs each arm has, with the seeds 0, 1, 2, …; each has a production ranker of its own.
        horizon: how many queries are logged in the end.
        horizons: where an online method stops earlier, by its name.
        evaluations: how many times before the horizon policies are measured, on an exponential scale.
        learning: how weights become a policy.

    Example:
        >>> quick = PRESETS["quick"]
        >>> spec = quick.spec(Arm(learner="affine", interventions=50), seed=3)
        >>> spec.estimator, spec.interventions, spec.learning, spec.seed
        ('affine', 50, 'paper', 3)
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    data: str
    fold: int = Field(default=1, ge=1)
    relevance: Annotated[str, AfterValidator(lambda text: str(clicks.relevance(text)))] = "linear"
    runs: int = Field(ge=1)
    horizon: int = Field(ge=10)
    horizons: dict[str, int] = {}
    evaluations: int = Field(ge=1)
    learning: Annotated[str, AfterValidator(_learning)] = "paper"

    @property
    def seeds(self) -> tuple[int, ...]:
        """One a run."""
        return tuple(range(self.runs))

    @property
    def grid(self) -> tuple[int, ...]:
        """When every arm is measured, as far as it goes; the horizon is the last."""
        spread = RunSpec(horizon=self.horizon, interventions=0, evaluations=self.evaluations)
        return spread.times

    def ground(self, seed: int) -> RunSpec:
        """A spec with all that the runs of a seed have in common."""
        return RunSpec(**self._common(seed))

    def spec(self, arm: Arm, seed: int) -> RunSpec:
        """The run of an arm with a seed.

        Online methods are measured when estimators are, so that curves can be compared point by point.
        """
        horizon = min(self.horizon, self.horizons.get(arm.learner, self.horizon))
        measured: int | tuple[int, ...] = self.evaluations
        if horizon < self.horizon:
            measured = tuple(time for time in self.grid if time < horizon)
        own = {
            "horizon": horizon,
            "interventions": arm.interventions,
            "evaluations": measured,
            "method" if arm.is_online else "estimator": arm.learner,
        }
        return RunSpec(**{**self._common(seed), **own})

    def _common(self, seed: int) -> dict[str, Any]:
        same = ("data", "fold", "relevance", "learning", "horizon")
        return {**self.model_dump(include=set(same)), "seed": seed}


# Where an online method stops earlier: what the authors' programs have at 10⁸ logged queries.
PAPER_HORIZONS = {"pdgd": 40_000_000, "biased-pdgd": 10_000_000, "coltr": 100_000}
# Yahoo! Webscope C14 set 1 has so many queries, of 700 features.
YAHOO_QUERIES = 29_921

QUICK = Preset(
    name="quick",
    data="synthetic(queries=1000, features=100)",
    runs=5,
    horizon=10_000_000,
    horizons={"pdgd": 3_000_000, "biased-pdgd": 1_000_000, "coltr": 100_000},
    # Divides 50 and 100: runs with as many interventions are measured when they deploy, and at no other time.
    evaluations=25,
)
PAPER = Preset(
    name="paper",
    data=f"synthetic(queries={YAHOO_QUERIES})",
    runs=20,
    horizon=100_000_000,
    horizons=PAPER_HORIZONS,
    evaluations=50,
)
PRESETS = {preset.name: preset for preset in (QUICK, PAPER)}
