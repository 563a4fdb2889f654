"""Summary statistics of a data set, and a name for its content."""

from __future__ import annotations

import numpy as np

from rankloop.storage.fingerprints import canonical_json, fingerprint
from rankloop.types import Dataset, Split

Summary = dict[str, int | float | str]
SPLITS = ("train", "validation", "test")


def describe(dataset: Dataset) -> dict[str, Summary]:
    """Summarise each split, by its name.

    Example:
        >>> from rankloop.data import synthetic
        >>> describe(synthetic(queries=50, features=10))["test"]["queries"]
        12
    """
    return {part: _summarise(getattr(dataset, part)) for part in SPLITS}


def dataset_fingerprint(dataset: Dataset) -> str:
    """A name for what is in a data set: queries, labels and features, wherever they were read from.

    Example:
        >>> from rankloop.data import synthetic
        >>> one, other = synthetic(queries=50, features=10), synthetic(queries=50, features=10, seed=1)
        >>> dataset_fingerprint(one) == dataset_fingerprint(other)
        False
    """
    parts: list[bytes | memoryview] = []
    for split in (getattr(dataset, part) for part in SPLITS):
        shape = [split.features.shape, split.query_ids.tolist()]
        parts.append(canonical_json(shape).encode())
        parts += [
            np.ascontiguousarray(array).view(np.uint8).reshape(-1).data
            for array in (split.offsets, split.labels, split.features)
        ]
    return fingerprint(*parts)


def _summarise(split: Split) -> Summary:
    labels, counts = np.unique(split.labels, return_counts=True)
    shares = ", ".join(
        f"{label:g}: {count / split.n_documents:.1%}" for label, count in zip(labels, counts, strict=True)
    )
    relevant = np.add.reduceat(split.labels > 0, split.offsets[:-1]) > 0
    return {
        "queries": split.n_queries,
        "documents": split.n_documents,
        "documents per query": f"{split.sizes.min()} – {split.sizes.mean():.1f} – {split.sizes.max()}",
        "features": split.n_features,
        "features that vary": int((np.ptp(split.features, axis=0) > 0).sum()),
        "labels": shares,
        "queries without a relevant document": int((~relevant).sum()),
        "document ids": "yes" if split.doc_ids is not None else "no",
    }
