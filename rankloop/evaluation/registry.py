"""Parse metrics from their names."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import MISSING, fields
from typing import Any

from rankloop.evaluation.additive import DCG, NDCG, NRCTR, RCTR, Precision
from rankloop.evaluation.average_position import ARP
from rankloop.evaluation.base import Metric
from rankloop.evaluation.first_relevant import MRR
from rankloop.names import BadNameError, arguments, number, parse

METRICS: dict[str, type[Metric]] = {kind.name: kind for kind in (ARP, DCG, MRR, NDCG, NRCTR, Precision, RCTR)}

# The metric itself checks the values of the first two options, because it defines their choices.
_READERS: dict[str, Callable[[str], Any]] = {
    "gain": str,
    "no_relevant": str,
    "relevant_from": number,
    "max_label": number,
}


def metric(text: str) -> Metric:
    """Parse a metric from its name; ``str`` of the metric returns the name.

    Example:
        >>> metric("ndcg@5")
        NDCG(cutoff=5, gain='linear', no_relevant='zero')
        >>> str(metric("precision@10(no_relevant=skip, relevant_from=3)"))
        'precision@10(no_relevant=skip, relevant_from=3)'
        >>> metric("precision")
        Traceback (most recent call last):
            ...
        rankloop.names.BadNameError: 'precision' needs a cut-off: precision@5, for instance
    """
    name = parse(text, METRICS, kind="metric")
    kind = METRICS[name.name]
    make: Callable[..., Metric] = kind
    options = {field.name: field for field in fields(kind)}  # type: ignore[arg-type]
    cutoff = options.pop("cutoff", None)
    given = arguments(name, {option: _READERS[option] for option in options})
    if cutoff is None:
        if name.cutoff is not None:
            raise BadNameError(f"{name.name!r} takes no cut-off, got {text!r}")
        return make(**given)
    if name.cutoff is None and cutoff.default is MISSING:
        raise BadNameError(f"{name.name!r} needs a cut-off: {name.name}@5, for instance")
    return make(cutoff=name.cutoff, **given)
