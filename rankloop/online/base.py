"""What every online method is, and where one stands."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from rankloop.errors import RankloopError
from rankloop.kernels.random_streams import seed_stream
from rankloop.models import model_from_bytes, model_to_bytes
from rankloop.models.mlp import Network
from rankloop.models.storage import pack, unpack
from rankloop.registry import Named, Registry
from rankloop.types import Float64, Model

STATE_KIND = "online-state"


class Method(Named, ABC):
    """A way to learn from every interaction as it happens.

    Methods are frozen dataclasses whose fields are the options of their name: ``str(method)`` is the
    canonical name, and `rankloop.online.method` reads it back. What changes is in a `MethodState`.

    A method is one file: the options, and one compiled function, its `run`, that takes interactions from
    `rankloop.kernels.interaction`, simulated or logged, and moves the parameters after each.

    Attributes:
        name: the word the method's name starts with.
    """

    name: ClassVar[str]

    @property
    @abstractmethod
    def run(self) -> Callable[..., int]:
        """The compiled loop.

            run(simulated, log, world, logging, network, options, parameters, memory, stream) → interactions

        ``log`` is (queries, rankings, clicks) with one row an interaction, to be filled if ``simulated``,
        else to be read; ``world`` is (features, starts, offsets, relevance, behaviour, stops), for
        `next_query` and `show`; ``logging`` are the scores of all documents under the policy that logs, empty
        if the learned policy logs itself; ``network`` is (widths, activation). Parameters, memory and stream
        change in place. Returns how many interactions it got through: fewer than there are if scores grew
        beyond `LARGEST_SCORE`.
        """

    @property
    @abstractmethod
    def options(self) -> Float64:
        """The options as the compiled loop takes them."""

    def memory(self, model: Network) -> Float64:  # noqa: ARG002
        """What the method remembers between interactions, before the first: nothing, unless overridden."""
        return np.empty(0)

    def _refuse(self, option: str, wanted: str, *, unless: bool) -> None:
        if not unless:
            raise RankloopError(f"{self.name}: {option} must be {wanted}, got {getattr(self, option)!r}")


METHODS: Registry[Method] = Registry("online method", Method)


def method(text: str) -> Method:
    """Make a method from its name; ``str`` of the method gives the name back.

    Example:
        >>> method("pdgd")
        PDGD(rate=0.01)
        >>> str(method("biased-pdgd( rate=0.1 )"))
        'biased-pdgd(rate=0.1)'
        >>> method("pgdg")
        Traceback (most recent call last):
            ...
        rankloop.names.BadNameError: unknown online method 'pgdg', did you mean 'pdgd'? ...
    """
    return METHODS.parse(text)


@dataclass(frozen=True, eq=False)
class MethodState:
    """Where an online method stands: all that decides what comes next.

    Attributes:
        learned: the model as it is now.
        interactions: how many are behind.
        memory: float64, flat; what the method remembers, empty for most.
        stream: uint64, 4; where the stream of random numbers stands.
    """

    learned: Network
    interactions: int
    memory: Float64
    stream: NDArray[np.uint64]

    @classmethod
    def start(cls, method: Method, model: Model, rng: np.random.Generator) -> MethodState:
        """Before the first interaction; all chance of the run comes from one number of the generator.

        Example:
            >>> from rankloop import Linear, online
            >>> model = Linear.initialise(3, np.random.default_rng(0))
            >>> state = MethodState.start(online.method("pdgd"), model, np.random.default_rng(1))
            >>> again = MethodState.from_bytes(state.to_bytes())
            >>> again.interactions, again.learned.fingerprint == model.fingerprint
            (0, True)
        """
        if not isinstance(model, Network):
            raise RankloopError(
                f"{method.name} moves the parameters of a network after every interaction, and a "
                f"{model.kind} model has none: start from an mlp or a linear model"
            )
        seed = rng.integers(2**63, dtype=np.int64)
        return cls(model, 0, method.memory(model), seed_stream(seed, 0))

    def to_bytes(self) -> bytes:
        """The whole state, without pickle: a checkpoint."""
        tensors: dict[str, NDArray[Any]] = {
            "learned": np.frombuffer(model_to_bytes(self.learned), np.uint8),
            "memory": self.memory,
            "stream": self.stream,
        }
        return pack(STATE_KIND, {"interactions": self.interactions}, tensors)

    @classmethod
    def from_bytes(cls, data: bytes) -> MethodState:
        """The state that `to_bytes` wrote; anything else is refused with `ModelFileError`."""
        content = unpack(data, STATE_KIND)
        learned = model_from_bytes(content.tensors["learned"].tobytes())
        assert isinstance(learned, Network)  # nothing else is ever written
        return cls(
            learned,
            content.spec["interactions"],
            content.tensors["memory"],
            content.tensors["stream"],
        )
