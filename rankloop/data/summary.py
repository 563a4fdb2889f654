"""Summary statistics of a data set."""

from __future__ import annotations

import numpy as np

from rankloop.types import Dataset, Split

Summary = dict[str, int | float | str]


def describe(dataset: Dataset) -> dict[str, Summary]:
    """Summarise each split, by its name.

    Example:
        >>> from rankloop.data import synthetic
        >>> describe(synthetic(queries=50, features=10))["test"]["queries"]
        12
    """
    return {part: _summarise(getattr(dataset, part)) for part in ("train", "validation", "test")}


def _summarise(split: Split) -> Summary:
    labels, counts = np.unique(split.labels, return_counts=True)
    shares = ", ".join(
        f"{label:g}: {count / split.n_docs:.1%}" for label, count in zip(labels, counts, strict=True)
    )
    relevant = np.add.reduceat(split.labels > 0, split.offsets[:-1]) > 0
    return {
        "queries": split.n_queries,
        "documents": split.n_docs,
        "documents per query": f"{split.sizes.min()} – {split.sizes.mean():.1f} – {split.sizes.max()}",
        "features": split.n_features,
        "features that vary": int((np.ptp(split.features, axis=0) > 0).sum()),
        "labels": shares,
        "queries without a relevant document": int((~relevant).sum()),
        "document ids": "yes" if split.doc_ids is not None else "no",
    }
