"""What a run is, as a value: it reads and writes as JSON, and as the options of `rankloop run`."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from dataclasses import MISSING, fields
from itertools import pairwise
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationInfo,
    field_validator,
    model_validator,
)

from rankloop import clicks, evaluation, names, online
from rankloop.errors import RankloopError
from rankloop.estimators import estimator as read_estimator
from rankloop.experiments.starting_policy import PRODUCTION
from rankloop.loop import Loop, default_exploration, exponential_times
from rankloop.loop.exploration import AsLearned
from rankloop.loop.exploration import exploration as read_exploration
from rankloop.registry import name_of
from rankloop.training import LEARNING, ROBUST

# The first policy is deployed when there is a little to learn from: after this many interactions, or after
# this share of a short run.
FIRST_INTERVENTION, FIRST_SHARE = 100, 0.1
# Of online methods: measuring is cheap beside what estimators do to learn at each of their times.
ONLINE_EVALUATIONS = 20
ALL: Literal["all"] = "all"
# Long names that everybody uses, in short.
IN_SHORT = {str(ROBUST.estimator): "robust intervention-aware"}
# How a field that holds nothing is spelled.
NOT_GIVEN = "default"

Times = int | tuple[int, ...]


def _loop_default(name: str) -> Any:
    """What `Loop` does where nothing is said."""
    field = next(field for field in fields(Loop) if field.name == name)
    return field.default if field.default_factory is MISSING else field.default_factory()


def _spelled(value: Any) -> str:
    """A name with all its options: it keeps its meaning when defaults change."""
    return name_of(value, every_option=True)


def _named(read: Callable[[str], object], spell: Callable[[Any], str] = str) -> AfterValidator:
    """Texts that `read` understands, in their canonical spelling."""
    return AfterValidator(lambda text: spell(read(text)))


def _learning(text: str) -> str:
    if text not in LEARNING:
        raise names.unknown("learning", text, LEARNING)
    return text


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
        raise RankloopError(
            f"expected how many there are, such as 20, or their times, such as 1000,10000, got {value!r}"
        )
    return times if len(parts) > 1 else times[0]


class RunSpec(BaseModel):
    """What a run is: with the same spec and version, the same results.

    Attributes:
        data: a path, or ``synthetic(…)``.
        fold: which fold, where the folder has several.
        users: who clicks, such as ``paper@5``.
        relevance: how a label becomes a chance, such as ``linear``.
        start: the starting policy: ``production``, ``random``, or the path of a stored model.
        production_queries: labelled queries that the production ranker is trained on; None for 1 % of them.
        temperature: what the starting policy's scores are divided by; above 1 its rankings vary more.
        learning: ``robust`` or ``paper``: how weights become a policy, and what the next two are by default.
        estimator: how clicks become weights.
        exploration: how soft the learned policy becomes when it logs.
        caution: how many standard errors a learned policy must gain on held-out clicks to replace the start.
        method: an online method, such as ``pdgd``, to learn with instead; None to learn by the estimator.
        floor: the share of interactions that the starting policy goes on to serve.
        horizon: how many interactions there are in the end.
        interventions: how many new policies are deployed, at times on an exponential scale; or the times; or
            ``all``, the default of online methods: what is learned logs itself.
        evaluations: how many more times, exponentially spread, a policy is learned and measured, or the
            times; by default none, and 20 of online methods.
        metric: what is measured on the test queries.
        full_information: whether to train on the true relevance too, as the bound to strive for.
        seed: of everything random.

    Example:
        >>> spec = RunSpec(horizon=100_000, interventions=3, estimator="affine(clip = off)")
        >>> spec.intervention_times, spec.estimator
        ((100, 1000, 10000), 'affine(clip=off)')
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    data: str = "synthetic(queries=2000, features=100)"
    fold: int = Field(default=1, ge=1)
    users: Annotated[str, _named(clicks.users)] = "paper@5"
    relevance: Annotated[str, _named(clicks.relevance)] = "linear"
    start: str = PRODUCTION
    production_queries: int | None = Field(default=None, ge=1)
    temperature: float = Field(default=1.0, gt=0.0, allow_inf_nan=False)
    learning: Annotated[str, AfterValidator(_learning)] = "robust"
    estimator: Annotated[str, _named(read_estimator)] | None = None
    exploration: Annotated[str, _named(read_exploration, _spelled)] | None = None
    caution: float | None = Field(default=None, ge=0.0, allow_inf_nan=False)
    method: Annotated[str, _named(online.method)] | None = None
    floor: float = Field(default=0.0, ge=0.0, lt=1.0)
    horizon: int = Field(default=1_000_000, ge=1)
    interventions: Annotated[int | tuple[int, ...] | Literal["all"], BeforeValidator(read_times)] = 20
    evaluations: Annotated[int | tuple[int, ...], BeforeValidator(read_times)] = 0
    metric: Annotated[str, _named(evaluation.metric)] = _loop_default("metric")
    full_information: bool = True
    seed: int = Field(default=0, ge=0)

    @model_validator(mode="before")
    @classmethod
    def _spell_out(cls, given: Any) -> Any:
        """Defaults that depend on other fields, as a spec must not: it keeps its meaning."""
        if not isinstance(given, dict):
            return given  # pydantic says what is wrong with it
        asked = {name: value for name, value in given.items() if value is not None}
        if "method" in asked:
            for name in ("estimator", "caution", "floor"):
                if asked.get(name):
                    raise RankloopError(f"the online method {asked['method']} learns without {name}")
            return {
                "interventions": ALL,
                "evaluations": ONLINE_EVALUATIONS,
                "exploration": AsLearned.name,
                **asked,
            }
        if asked.get("interventions") == ALL:
            raise RankloopError(
                "interventions at all times are for online methods, such as method pdgd; "
                "an estimator needs their number or times"
            )
        learning = LEARNING.get(asked.get("learning", "robust"))
        if learning is None:
            return asked
        return {
            "estimator": str(learning.estimator),
            "exploration": _spelled(default_exploration(learning)),
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
                raise RankloopError(f"there cannot be fewer than none, got {value}")
            return value
        horizon = info.data.get("horizon")
        if horizon is not None and any(b <= a for a, b in pairwise((0, *value, horizon))):
            raise RankloopError(
                f"the times must ascend from 1 and lie before the horizon ({horizon}), got {list(value)}"
            )
        return value

    @property
    def learner(self) -> str:
        """What turns clicks into a policy: the online method or the estimator, long names in short."""
        name = str(self.method or self.estimator)
        return IN_SHORT.get(name, name)

    @property
    def intervention_times(self) -> tuple[int, ...] | Literal["all"]:
        """When new policies are deployed."""
        return ALL if self.interventions == ALL else self._spread(self.interventions)

    @property
    def evaluation_times(self) -> tuple[int, ...]:
        """When policies are measured without being deployed."""
        return self._spread(self.evaluations)

    @property
    def times(self) -> tuple[int, ...]:
        """When policies are measured, the horizon included."""
        deployed = () if self.intervention_times == ALL else self.intervention_times
        return tuple(sorted({*deployed, *self.evaluation_times, self.horizon}))

    def _spread(self, times: Times) -> tuple[int, ...]:
        if isinstance(times, tuple):
            return times
        first = min(FIRST_INTERVENTION, max(1, round(FIRST_SHARE * self.horizon)))
        spread = exponential_times(first, self.horizon, times)
        return tuple(time for time in spread if time < self.horizon)

    def command(self, out: str) -> str:
        """The command line that makes this run, with every option spelled out.

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


def spell(value: object) -> str:
    """A value of a spec as it is written.

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
