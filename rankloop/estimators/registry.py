"""From a name to an estimator."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from typing import Any

from rankloop.estimators.affine import Affine
from rankloop.estimators.base import Estimator, read_clip
from rankloop.estimators.intervention_aware import AVERAGES, InterventionAware, read_control
from rankloop.estimators.intervention_oblivious import InterventionOblivious
from rankloop.estimators.ips import IPS
from rankloop.estimators.naive import Naive
from rankloop.estimators.policy_aware import PolicyAware
from rankloop.names import arguments, number, one_of, parse_without_cutoff

ESTIMATORS: dict[str, type[Estimator]] = {
    kind.name: kind for kind in (Naive, IPS, PolicyAware, Affine, InterventionOblivious, InterventionAware)
}

_READERS: dict[str, Callable[[str], Any]] = {
    "clip": read_clip,
    "average": one_of(*AVERAGES),
    "control": read_control,
    "prior": number,
}


def estimator(text: str) -> Estimator:
    """Make an estimator from its name; ``str`` of the estimator gives the name back.

    Example:
        >>> estimator("intervention-aware")
        InterventionAware(clip='paper', average='all', control='off', prior=0.0)
        >>> str(estimator("policy-aware( clip=0.01 )"))
        'policy-aware(clip=0.01)'
        >>> estimator("afine")
        Traceback (most recent call last):
            ...
        rankloop.names.BadNameError: unknown estimator 'afine', did you mean 'affine'? ...
    """
    name = parse_without_cutoff(text, ESTIMATORS, kind="estimator")
    kind = ESTIMATORS[name.name]
    options = arguments(name, {field.name: _READERS[field.name] for field in fields(kind)})  # type: ignore[arg-type]
    return kind(**options)
