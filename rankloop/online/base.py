"""The interface of online methods, and their state."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from rankloop.errors import ModelFileError, RankloopError
from rankloop.kernels.random_streams import seed_stream
from rankloop.models import model_from_bytes, model_to_bytes
from rankloop.models.mlp import Network
from rankloop.models.storage import pack, unpack
from rankloop.registry import Named, Registry
from rankloop.types import Float64, Model

STATE_KIND = "online-state"
# The size of the state of the random number generator.
STREAM_WORDS = 4


class Method(Named, ABC):
    """A method that learns from every impression as it happens.

    Methods are frozen dataclasses whose fields are the options in their name: ``str(method)`` is the
    canonical name, and `rankloop.online.method` parses it back. All mutable values are in a `MethodState`.

    A method is one file with its options and one compiled function, `run`. The function takes impressions
    from `rankloop.kernels.impression`, simulated or logged, and updates the parameters after each.

    Attributes:
        name: the first word of the method's name.
    """

    name: ClassVar[str]

    @property
    @abstractmethod
    def run(self) -> Callable[..., int]:
        """The compiled loop.

            run(simulated, log, traffic, logging, network, options, parameters, memory, stream) → impressions

        ``log`` is (queries, rankings, clicks) with one row per impression. The loop fills it if
        ``simulated`` and reads it otherwise. ``traffic`` is (features, starts, offsets, relevance, behaviour,
        stops), for `next_query` and `show`. ``logging`` holds the scores of all documents under the logging
        policy; it is empty if the learned policy itself logs. ``network`` is (widths, activation).
        Parameters, memory and stream are updated in place. Returns the number of completed impressions,
        which is smaller than the length of the log if scores exceed `LARGEST_SCORE`.
        """

    @property
    @abstractmethod
    def options(self) -> Float64:
        """The options as an array for the compiled loop."""

    def memory(self, model: Network) -> Float64:  # noqa: ARG002
        """Return the initial memory of the method; empty unless overridden."""
        return np.empty(0)

    def _require(self, valid: bool, option: str, expected: str) -> None:
        if not valid:
            raise RankloopError(f"{self.name}: {option} must be {expected}, got {getattr(self, option)!r}")


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
        rankloop.names.UnknownNameError: unknown online method 'pgdg', did you mean 'pdgd'? ...
    """
    return METHODS.parse(text)


@dataclass(frozen=True, eq=False)
class MethodState:
    """The complete state of an online method.

    Attributes:
        learned: the current model.
        impressions: number of completed impressions.
        memory: float64, flat; the method's memory between impressions, empty for most methods.
        stream: uint64, 4; the state of the random number generator.
    """

    learned: Network
    impressions: int
    memory: Float64
    stream: NDArray[np.uint64]

    def __post_init__(self) -> None:
        # Kernels do not check it.
        if self.stream.shape != (STREAM_WORDS,) or self.stream.dtype != np.uint64 or not self.stream.any():
            raise RankloopError(
                f"the stream of random numbers must be {STREAM_WORDS} words of uint64, not all 0, got "
                f"{self.stream.dtype} of shape {self.stream.shape}"
            )
        if self.memory.ndim != 1 or self.memory.dtype != np.float64:
            raise RankloopError(
                f"the memory of a method is flat and float64, got {self.memory.dtype} of shape "
                f"{self.memory.shape}"
            )

    @classmethod
    def start(cls, method: Method, model: Model, rng: np.random.Generator) -> MethodState:
        """Create the state before the first impression, seeded with one number from the generator.

        Example:
            >>> from rankloop.models import Linear
            >>> from rankloop import online
            >>> model = Linear.initialise(3, np.random.default_rng(0))
            >>> state = MethodState.start(online.method("pdgd"), model, np.random.default_rng(1))
            >>> again = MethodState.from_bytes(state.to_bytes())
            >>> again.impressions, again.learned.fingerprint == model.fingerprint
            (0, True)
        """
        if not isinstance(model, Network):
            raise RankloopError(
                f"{method.name} updates the parameters of a network after every impression, which a "
                f"{model.kind} model does not have: start from an mlp or a linear model"
            )
        seed = rng.integers(2**63, dtype=np.int64)
        return cls(model, 0, method.memory(model), seed_stream(seed, 0))

    def to_bytes(self) -> bytes:
        """Serialise the state as a checkpoint, without pickle."""
        tensors: dict[str, NDArray[Any]] = {
            "learned": np.frombuffer(model_to_bytes(self.learned), np.uint8),
            "memory": self.memory,
            "stream": self.stream,
        }
        return pack(STATE_KIND, {"impressions": self.impressions}, tensors)

    @classmethod
    def from_bytes(cls, data: bytes) -> MethodState:
        """The state that `to_bytes` wrote; anything else is refused with `ModelFileError`."""
        content = unpack(data, STATE_KIND)
        try:
            learned = model_from_bytes(content.tensors["learned"].tobytes())
            impressions = content.spec["impressions"]
            if not isinstance(learned, Network) or not isinstance(impressions, int) or impressions < 0:
                raise ModelFileError("its model is not a network, or its number of impressions is wrong")
            return cls(learned, impressions, content.tensors["memory"], content.tensors["stream"])
        except (KeyError, RankloopError) as error:
            raise ModelFileError(f"the file does not hold the state of an online method: {error}") from error
