"""The spec of a run: it is stored as JSON, and its fields are the options of `rankloop run`.

The command line builds its options from these fields, so this module imports nothing heavy: names are checked
by functions that import what they need.
"""

from __future__ import annotations

import shlex
from importlib import import_module
from itertools import pairwise
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    ValidationInfo,
    field_validator,
    model_validator,
)

from rankloop import names
from rankloop.errors import RankloopError
from rankloop.option_field import option_field

# Starting policies that have a name; any other start is the path of a stored model.
PRODUCTION, RANDOM = "production", "random"
# The first policy is deployed when there is a little to learn from: after this many impressions, or after
# this share of a short run.
FIRST_INTERVENTION, FIRST_SHARE = 100, 0.1
# For online methods: evaluating is cheap compared to what estimators need to learn at each of their times.
ONLINE_EVALUATIONS = 20
ALL: Literal["all"] = "all"
# The preset of learning of a run.
DEFAULT_LEARNING = "click-likelihood"
# What learns from weights if an option asks for them.
ON_WEIGHTS = "doubly-robust"
WEIGHT_OPTIONS = ("estimator", "objective", "evidence")
# How a field that holds None is written.
NOT_GIVEN = "default"

Times = int | tuple[int, ...]

# Groups of options in the help of `rankloop run`.
USERS, START, LEARNING, LENGTH, MEASURES = (
    "Simulated users",
    "Starting policy",
    "Learning and exploration",
    "Length and deployments",
    "Evaluation and baselines",
)
DATA_HELP = (
    "A LETOR or SVMlight file or folder, or synthetic(shape=…, queries=…, features=…, noise=…, seed=…)."
)
FOLD_HELP = "Which fold to use, if the folder has several."


# How rankers learn from labels: stopped early on other queries, or as in the programs of the paper's authors.
HELD_OUT, AUTHORS = "held-out", "authors"
SUPERVISIONS = (HELD_OUT, AUTHORS)


def _name(module: str, function: str, *, every_option: bool = False) -> AfterValidator:
    """Check a name, and store it as it is spelt canonically.

    Args:
        module: it has the function that reads such names, and is imported when the first one is checked.
        function: that function.
        every_option: store the name with all its options, so that it keeps its meaning when defaults change.
    """

    def check(text: str) -> str:
        from rankloop.registry import name_of

        value = getattr(import_module(module), function)(text)
        return name_of(value, every_option=True) if every_option else str(value)

    return AfterValidator(check)


def _check_learning(text: str) -> str:
    from rankloop.training import LEARNING

    if text not in LEARNING:
        raise names.unknown("learning", text, LEARNING)
    return text


def _check_supervision(text: str) -> str:
    if text not in SUPERVISIONS:
        raise names.unknown("supervision", text, SUPERVISIONS)
    return text


# Names of things.
UsersName = Annotated[str, _name("rankloop.clicks", "users")]
RelevanceName = Annotated[str, _name("rankloop.clicks", "relevance")]
EstimatorName = Annotated[str, _name("rankloop.estimators", "estimator")]
MethodName = Annotated[str, _name("rankloop.online", "method")]
MetricName = Annotated[str, _name("rankloop.evaluation", "metric")]
ObjectiveName = Annotated[str, _name("rankloop.objectives", "training_objective")]
ExplorationName = Annotated[str, _name("rankloop.loop", "exploration", every_option=True)]
EvidenceName = Annotated[str, _name("rankloop.evidence", "evidence", every_option=True)]
LearningName = Annotated[str, AfterValidator(_check_learning)]
SupervisionName = Annotated[str, AfterValidator(_check_supervision)]


def read_times(value: object) -> object:
    """Read ``20`` (that many, exponentially spread), ``1000,10000`` (these; one is ``1000,``) or ``all``.

    >>> read_times("20"), read_times("1000,10000"), read_times("1000,"), read_times("all")
    (20, (1000, 10000), (1000,), 'all')
    """
    if not isinstance(value, str) or value == ALL:
        return value
    parts = [part.strip() for part in value.split(",")]
    try:
        times = tuple(int(part) for part in parts if part)
    except ValueError:
        times = ()
    if not times:
        raise RankloopError(f"expected a number, such as 20, or times, such as 1000,10000, got {value!r}")
    return times if len(parts) > 1 else times[0]


class RunSpec(BaseModel):
    """The spec of a run: the same spec and version give the same results.

    The descriptions of the fields are the help texts of `rankloop run`.

    Example:
        >>> spec = RunSpec(horizon=100_000, interventions=3, estimator="affine(clip = off)")
        >>> spec.intervention_times, spec.estimator
        ((100, 1000, 10000), 'affine(clip=off)')
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    data: str = option_field("synthetic(queries=2000, features=100)", DATA_HELP)
    fold: int = option_field(1, FOLD_HELP, ge=1)
    users: UsersName = option_field(
        "paper@5", "Simulated users, such as paper@5 or position@10(eta=1): {users}.", panel=USERS
    )
    relevance: RelevanceName = option_field(
        "linear",
        "How a label becomes a probability of relevance, such as linear(max_label=2): {relevances}.",
        panel=USERS,
    )
    start: str = option_field(
        PRODUCTION,
        "Starting policy: production (trained on a few labels), random, or the path of a stored network.",
        panel=START,
    )
    production_queries: int | None = option_field(
        None,
        "Labelled queries that the production ranker is trained on.",
        panel=START,
        shown_default="1 % of the training queries",
        ge=1,
    )
    supervision: SupervisionName = option_field(
        HELD_OUT,
        "How rankers learn from labels, the production ranker and the supervised baseline: held-out (stopped "
        "early on other queries) or authors (as in the programs of the paper: stopped on the queries that "
        "they learn from, 20 for the production ranker, which all seeds share; a peaked policy).",
        panel=START,
    )
    temperature: float = option_field(
        1.0,
        "Divide the starting policy's scores by this; above 1, its rankings vary more.",
        panel=START,
        gt=0.0,
        allow_inf_nan=False,
    )
    method: MethodName | None = option_field(
        None,
        "Learn with an online method instead of an estimator: {methods}.",
        panel=LEARNING,
        shown_default="none",
    )
    estimator: EstimatorName | None = option_field(
        None,
        "How clicks become weights: {estimators}.",
        panel=LEARNING,
        shown_default="set by --learning",
    )
    learning: LearningName = option_field(
        DEFAULT_LEARNING,
        "How clicks become a policy: click-likelihood (networks that explain clicks), doubly-robust "
        "(weights: a guess of relevance, corrected by clicks), robust (weights without a guess) or paper (as "
        "the paper does it).",
        panel=LEARNING,
        shown_default="click-likelihood; doubly-robust with --estimator, --objective or --evidence",
    )
    objective: ObjectiveName | None = option_field(
        None,
        "What networks are trained on, such as expected-metric(ranks=5): {objectives}.",
        panel=LEARNING,
        shown_default="set by --learning",
    )
    exploration: ExplorationName | None = option_field(
        None,
        "How a learned policy explores when it logs, such as explore(share=0.1), in a share of the "
        "impressions, or soft(by=0.5), in all: {explorations}.",
        panel=LEARNING,
        shown_default="set by --learning",
    )
    caution: float | None = option_field(
        None,
        "How many standard errors a learned policy must gain on clicks that it has not seen to replace the "
        "starting policy.",
        panel=LEARNING,
        shown_default="set by --learning",
        ge=0,
        allow_inf_nan=False,
    )
    evidence: EvidenceName | None = option_field(
        None,
        "Rule of evidence ({evidence}), such as click-noise(level=0.05), by which steps from the starting "
        "policy towards the learned one are deployed, inside a trust region; replaces --caution.",
        panel=LEARNING,
        shown_default="none",
    )
    floor: float = option_field(
        0.0,
        "Share of impressions that the starting policy continues to serve.",
        panel=LEARNING,
        ge=0,
        lt=1.0,
    )
    horizon: int = option_field(1_000_000, "Number of impressions in total.", panel=LENGTH, ge=1)
    interventions: Annotated[int | tuple[int, ...] | Literal["all"], BeforeValidator(read_times)] = (
        option_field(
            20,
            "How many learned policies to deploy, exponentially spread; or at which times, such as "
            "1000,10000 (a single time: 1000,). 0 deploys none; all, for online methods only, logs with "
            "what is being learned.",
            panel=LENGTH,
            shown_default="20; all for online methods",
        )
    )
    evaluations: Annotated[int | tuple[int, ...], BeforeValidator(read_times)] = option_field(
        0,
        "How many times, or at which times, to learn and evaluate without deploying.",
        panel=LENGTH,
        shown_default="0; 20 for online methods",
    )
    metric: MetricName = option_field(
        "ndcg@5", "Metric of policies on the test queries: {metrics}.", panel=MEASURES
    )
    oracle: bool = option_field(
        True,
        "Train the oracle baseline: the same learner and start, on the true relevance instead of clicks; "
        "an upper bound.",
        panel=MEASURES,
    )
    supervised: bool = option_field(
        False,
        "Train the supervised baseline: the production ranker's training, on the labels of all training "
        "queries.",
        panel=MEASURES,
    )
    seed: int = option_field(0, "Random seed.", ge=0)

    @model_validator(mode="before")
    @classmethod
    def _spell_out(cls, given: Any) -> Any:
        """Write out defaults that depend on other fields, so that a stored spec keeps its meaning."""
        if not isinstance(given, dict):
            return given  # pydantic says what is wrong with it
        from rankloop.loop import default_exploration
        from rankloop.loop.exploration import AsLearned
        from rankloop.registry import name_of
        from rankloop.training import LEARNING

        asked = {name: value for name, value in given.items() if value is not None}
        if "method" in asked:
            for name in ("estimator", "caution", "evidence", "floor"):
                if asked.get(name):
                    raise RankloopError(
                        f"the online method {asked['method']} does not use {name}: leave it out"
                    )
            return {
                "interventions": ALL,
                "evaluations": ONLINE_EVALUATIONS,
                "exploration": AsLearned.name,
                **asked,
            }
        if asked.get("interventions") == ALL:
            raise RankloopError(
                "interventions=all is for online methods, such as method=pdgd; with an estimator, give the "
                "number of interventions or their times"
            )
        of_weights = [name for name in WEIGHT_OPTIONS if asked.get(name)]
        if of_weights:
            asked.setdefault("learning", ON_WEIGHTS)
        learning = LEARNING.get(asked.get("learning", DEFAULT_LEARNING))
        if learning is None:
            return asked
        if learning.cross_fitted:
            if of_weights:
                raise RankloopError(
                    f"learning={learning.name} does not use {of_weights[0]}: leave it out, or choose "
                    f"learning={ON_WEIGHTS}"
                )
            return {
                "exploration": name_of(default_exploration(learning), every_option=True),
                "caution": learning.settings.caution,
                **asked,
            }
        return {
            "estimator": str(learning.estimator),
            "objective": str(learning.objective),
            "exploration": name_of(default_exploration(learning), every_option=True),
            "caution": learning.settings.caution,
            **asked,
        }

    @field_validator("interventions", "evaluations")
    @classmethod
    def _ascending(cls, value: Times | Literal["all"], info: ValidationInfo) -> Times | Literal["all"]:
        if value == ALL:
            return value
        if isinstance(value, int):
            if value < 0:
                raise RankloopError(f"the number must not be negative, got {value}")
            return value
        horizon = info.data.get("horizon")
        if horizon is not None and any(b <= a for a, b in pairwise((0, *value, horizon))):
            raise RankloopError(
                f"the times must ascend from 1 and lie before the horizon ({horizon}), got {list(value)}"
            )
        return value

    @property
    def learner(self) -> str:
        """The short name of the online method or the estimator, or of learning without one."""
        return short_name(str(self.method or self.estimator or self.learning))

    @property
    def intervention_times(self) -> tuple[int, ...] | Literal["all"]:
        """The times at which new policies are deployed."""
        return ALL if self.interventions == ALL else self._spread(self.interventions)

    @property
    def evaluation_times(self) -> tuple[int, ...]:
        """The times at which policies are evaluated without being deployed."""
        return self._spread(self.evaluations)

    @property
    def times(self) -> tuple[int, ...]:
        """The times at which policies are evaluated, including the horizon."""
        deployed = () if self.intervention_times == ALL else self.intervention_times
        return tuple(sorted({*deployed, *self.evaluation_times, self.horizon}))

    def _spread(self, times: Times) -> tuple[int, ...]:
        if isinstance(times, tuple):
            return times
        from rankloop.loop import exponential_times

        first = min(FIRST_INTERVENTION, max(1, round(FIRST_SHARE * self.horizon)))
        spread = exponential_times(first, self.horizon, times)
        return tuple(time for time in spread if time < self.horizon)

    def command(self, out: str) -> str:
        """The command line of this run, with every option written out.

        >>> RunSpec(data="MQ2008").command("my run")
        "rankloop run MQ2008 --fold 1 ... --seed 0 --out 'my run'"
        """
        words = ["rankloop", "run", self.data]
        for name, value in self.model_dump().items():
            option = name.replace("_", "-")
            if isinstance(value, bool):
                words.append(f"--{'' if value else 'no-'}{option}")
            elif name != "data" and value is not None:
                words += [f"--{option}", spell(value)]
        return shlex.join([*words, "--out", out])


def short_name(name: str) -> str:
    """A short name for the estimators of the presets, whose full names are long; any other name as it is.

    >>> short_name("intervention-aware(average=query, clip=off, guess=model, strength=10)")
    'doubly robust intervention-aware'
    >>> short_name("intervention-aware(average=query, clip=off, guess=mean, strength=10)")
    'robust intervention-aware'
    >>> short_name("affine")
    'affine'
    """
    from rankloop.training import DOUBLY_ROBUST, ROBUST

    long = {
        str(preset.estimator): f"{preset.name.replace('-', ' ')} intervention-aware"
        for preset in (DOUBLY_ROBUST, ROBUST)
    }
    return long.get(name, name)


def spell(value: object) -> str:
    """A value of a spec as text.

    >>> spell(0.5), spell((1000,)), spell((1000, 2000)), spell(True), spell(None)
    ('0.5', '1000,', '1000,2000', 'yes', 'default')
    """
    if value is None:
        return NOT_GIVEN
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, tuple):
        return ",".join(map(str, value)) + ("," if len(value) == 1 else "")
    return str(value)
