"""A policy in the format of a search engine."""

from __future__ import annotations

import os

from rankloop.exchange import Export, ExportFormat, PolicySource, write_model
from rankloop.offline.fit_result import Fit, load_policy
from rankloop.types import Model


def export(
    policy: Fit | Model | str | os.PathLike[str], to: str | ExportFormat, *, name: str = "rankloop"
) -> Export:
    """Write a policy in the format of a search engine, so that it computes the same scores there.

    Args:
        policy: a fit, a model, or the path of either; also the path of a model of another program.
        to: ``opensearch``, ``elasticsearch``, ``solr``, ``vespa``, ``onnx``, ``lightgbm`` or ``xgboost``,
            with options as in ``opensearch(format=ranklib)``.
        name: what the engine is to call the model, and its set of features.

    Returns:
        The model's file and that of its features; ``save(path)`` writes both.

    Raises:
        ExportError: the format cannot express the policy; the message says why, and what can.

    Example:
        >>> import json
        >>> import numpy as np
        >>> from rankloop.models import Linear
        >>> model = Linear(2, np.array([0.5, -1.0, 0.0]), feature_names=("title score", "price"))
        >>> exported = export(model, "opensearch", name="shop")
        >>> json.loads(exported.model)["model"]["model"]
        {'type': 'model/linear', 'definition': '{"title score": 0.5, "price": -1.0}'}

    Reference: docs/export.md.
    """
    loaded = load_policy(policy) if isinstance(policy, str | os.PathLike) else policy
    if isinstance(loaded, Fit):
        return loaded.export(to, name=name)
    return write_model(PolicySource(loaded, name), to)
