"""The events of a loop, and the state that each event leaves behind."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from rankloop import online
from rankloop.errors import ModelFileError
from rankloop.evidence import Step
from rankloop.models import model_from_bytes, model_to_bytes
from rankloop.models.storage import pack, unpack
from rankloop.relevance import RelevanceGuess
from rankloop.statistics import Statistics, statistics_from_bytes, statistics_to_bytes
from rankloop.training import Epoch
from rankloop.types import Float64, Model

Stage = Literal["deployed", "gathered", "trained", "evaluated"]

STATE_KIND = "loop-state"


@dataclass(frozen=True, eq=False)
class LoopState:
    """The state of a loop between two events.

    Attributes:
        phase: number of the loop's times that have passed.
        stage: what was done last in this phase.
        statistics: all impressions so far, training queries first, then validation queries; empty for an
            online method, which learns from each impression and keeps none.
        learned: the policy learned last; the starting policy before that.
        logging: the model whose scores, multiplied by the scale, make up the logging policy.
        scale: how soft the logging policy is when it explores.
        explored: the share of impressions in which it explores; in the others, it is as it was learned.
        online: the state of an online method; None if policies are learned from statistics.
        guess: the guess of relevance that the last policy was learned with, if there was one.
        unseen: float64, documents; scores of the learned policy that do not depend on the clicks of the
            document's query, if it is cross-fitted; None for the start.
    """

    phase: int
    stage: Stage
    statistics: Statistics
    learned: Model
    logging: Model
    scale: float
    explored: float = 1.0
    online: online.MethodState | None = None
    guess: RelevanceGuess | None = None
    unseen: Float64 | None = None

    @property
    def impressions(self) -> int:
        """The number of impressions so far."""
        return self.statistics.impressions if self.online is None else self.online.impressions

    def to_bytes(self, owner: str = "") -> bytes:
        """Serialise the whole state as a checkpoint; nothing is pickled.

        Args:
            owner: a name for the loop that the state belongs to, which `from_bytes` compares.
        """
        parts = {
            "statistics": statistics_to_bytes(self.statistics),
            "learned": model_to_bytes(self.learned),
            "logging": model_to_bytes(self.logging),
        }
        if self.online is not None:
            parts["online"] = self.online.to_bytes()
        if self.guess is not None:
            parts["guess"] = self.guess.to_bytes()
        if self.unseen is not None:
            parts["unseen"] = self.unseen.tobytes()
        numbers = {"phase": self.phase, "scale": self.scale, "explored": self.explored}
        spec = {**numbers, "stage": self.stage, "owner": owner}
        return pack(STATE_KIND, spec, {name: np.frombuffer(part, np.uint8) for name, part in parts.items()})

    @classmethod
    def from_bytes(cls, data: bytes, owner: str = "") -> LoopState:
        """Read the state that `to_bytes` wrote.

        Raises:
            ModelFileError: these are not the bytes of a checkpoint, they are damaged, or the state belongs to
                another loop.
        """
        content = unpack(data, STATE_KIND)
        parts = {name: part.tobytes() for name, part in content.tensors.items()}
        if content.spec.pop("owner", None) != owner:
            raise ModelFileError(
                "the checkpoint belongs to another run: resume with the same data, users and options"
            )
        try:
            return cls(
                statistics=statistics_from_bytes(parts["statistics"]),
                learned=model_from_bytes(parts["learned"]),
                logging=model_from_bytes(parts["logging"]),
                online=online.MethodState.from_bytes(parts["online"]) if "online" in parts else None,
                guess=RelevanceGuess.from_bytes(parts["guess"]) if "guess" in parts else None,
                unseen=np.frombuffer(parts["unseen"], np.float64) if "unseen" in parts else None,
                **content.spec,
            )
        except (KeyError, TypeError) as error:
            raise ModelFileError(f"this is not a checkpoint that this version can read: {error}") from error


@dataclass(frozen=True)
class Event:
    """Something that happened after ``impressions`` impressions; a run can be resumed from its `state`."""

    impressions: int
    state: LoopState = field(repr=False)


@dataclass(frozen=True)
class Gathered(Event):
    """Impressions were logged under the policy of this id."""

    new_impressions: int
    policy: str


@dataclass(frozen=True)
class Trained(Event):
    """A policy was learned from all clicks so far.

    Attributes:
        epochs: the epochs of the training; empty for an online method, and as long as there are no
            impressions with training queries or too few with held-out queries.
        guess: the guess of relevance behind the weights, if the estimator uses one.
        step: how far the evidence lets the loop go towards what was learned; None if there is no such rule,
            or nothing was learned.
    """

    epochs: tuple[Epoch, ...]
    guess: RelevanceGuess | None = None
    step: Step | None = None


@dataclass(frozen=True)
class Evaluated(Event):
    """The learned and the logging policy were measured.

    Attributes:
        learned: the true value of the policy learned last, on the test queries.
        logging: the true value of the policy that gathered the last impressions: the price of exploring.
        estimate: the value of the learned policy as estimated from held-out clicks; NaN for an online method.
        estimate_error: the standard error of the estimate, over queries.
        support: for each level, the share of documents whose expected α under the logging policy is below it.
    """

    learned: float
    logging: float
    estimate: float
    estimate_error: float
    support: dict[float, float]


@dataclass(frozen=True)
class Deployed(Event):
    """The learned policy became the logging policy.

    Attributes:
        policy: the id of the logging policy.
        scale: what its scores are multiplied by when it explores.
        explored: the share of impressions in which it explores.
    """

    policy: str
    scale: float
    explored: float = 1.0
