"""The bias that a fit or an evaluation assumes: given, read from a file, named, or estimated from the log."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from rankloop import clicks
from rankloop.bias import BiasEstimate, BiasOptions, estimate_bias
from rankloop.bias.storage import bias_details, read_bias
from rankloop.errors import RankloopError
from rankloop.logs import LogCounts, LogReader
from rankloop.logs.features import read_features
from rankloop.logs.schema import FEATURES
from rankloop.names import BadNameError
from rankloop.offline.bias_resamples import BiasResamples
from rankloop.progress import Progress
from rankloop.types import ASSUMED, Bias, Float32

# What every report must state about an estimated bias whose resamples are not known.
NO_RESAMPLES = (
    "The bias was estimated from a log, but its resamples are not known: its uncertainty is not part of any "
    "interval here. Estimate it again with resamples."
)

# None to estimate the bias from the log itself.
BiasSource = Bias | BiasEstimate | str | os.PathLike[str] | None


class AssumedBias(NamedTuple):
    """A bias, and what is known about it.

    Attributes:
        bias: how users click.
        details: how it was estimated, if it was; for JSON.
        notes: caveats that every report must state.
    """

    bias: Bias
    details: Mapping[str, Any] | None = None
    notes: tuple[str, ...] = ()

    @property
    def estimated(self) -> bool:
        """Whether it was estimated from clicks, rather than assumed."""
        if self.details is not None:
            return self.details.get("method") != ASSUMED
        return self.bias.evidence is not None and self.bias.evidence.method != ASSUMED

    @property
    def resamples(self) -> BiasResamples | None:
        """Its resamples, if it was estimated and has any."""
        return BiasResamples.of_details(self.details) or BiasResamples.of_evidence(self.bias.evidence)


def assume_bias(
    log: LogReader, source: BiasSource, *, seed: int = 0, progress: Progress | None = None
) -> AssumedBias:
    """The bias that was asked for.

    Args:
        log: the log to estimate it from, if none is given.
        source: a bias, an estimate, the path of a file that `rankloop.bias.save_bias` wrote, the name of
            simulated users such as ``paper@5``, or None to estimate it from the log.
        seed: the random seed of the estimate.
        progress: called with what is being done.
    """
    if isinstance(source, Bias):
        return AssumedBias(source)
    if source is None:
        with explain_missing_bias():
            counts = log.count()
            source = estimate_bias(
                counts,
                BiasOptions(randomised=declared_randomised(log)),
                rng=np.random.default_rng(seed),
                features=item_features(log, counts),
                progress=progress,
            )
    if isinstance(source, BiasEstimate):
        return AssumedBias(source.bias, bias_details(source), source.notes)
    if Path(source).exists() or str(source).endswith(".json"):
        return AssumedBias(*read_bias(source))
    try:
        return AssumedBias(clicks.bias_of(clicks.users(str(source))))
    except BadNameError as error:
        raise RankloopError(
            f"the bias {str(source)!r} is neither a file nor the name of simulated users: {error}"
        ) from error


def declared_randomised(log: LogReader, method: str = "auto") -> str | None:
    """The policy that was declared randomised when the log was imported, if there is exactly one."""
    wanted = method in ("auto", "randomised") and len(log.randomised) == 1
    return log.randomised[0] if wanted else None


def item_features(log: LogReader, counts: LogCounts) -> Callable[[], Float32] | None:
    """The function that reads the features of a log's items, in the order of the counts; None without any."""
    return (lambda: read_features(log, counts).values) if log.has(FEATURES) else None


@contextmanager
def explain_missing_bias() -> Iterator[None]:
    """Say what to do if a bias cannot be estimated."""
    try:
        yield
    except RankloopError as error:
        reason = str(error).rstrip(".")
        raise RankloopError(
            f"the bias cannot be estimated from this log: {reason}. Or give one (--bias, bias=…): a file "
            f"that `rankloop bias` wrote, or the name of simulated users such as paper@5"
        ) from error
