"""Writes a model in a format, by the format's name."""

from __future__ import annotations

from contextlib import suppress

from rankloop import extras
from rankloop.errors import ModelFileError
from rankloop.exchange import onnx, opensearch, solr, vespa, xgboost
from rankloop.exchange.formats import EXPORT_FORMATS, Export, ExportError, ExportFormat, PolicySource
from rankloop.exchange.reader import any_model

# Importing them registers their formats.
FORMATS = (onnx, opensearch, solr, vespa, xgboost)


def export_format(text: str) -> ExportFormat:
    """The format that a name spells.

    >>> export_format("opensearch(format=ranklib)")
    OpenSearch(format='ranklib')
    """
    return EXPORT_FORMATS.parse(text)


def write_model(source: PolicySource, to: str | ExportFormat) -> Export:
    """The policy in a format, or in the format of a name; every other command reads the result as a policy.

    Raises:
        ExportError: the format cannot express the policy.
    """
    chosen = export_format(to) if isinstance(to, str) else to
    try:
        exported = chosen.write(source)
        _read_back(exported)
    except RecursionError as error:
        depth = 0 if source.trees is None else source.trees.depth
        raise ExportError(
            f"{chosen} nests one object per split, and a tree of this policy is {depth} splits deep: fit "
            f"shallower trees, or use onnx or xgboost"
        ) from error
    return exported


def _read_back(exported: Export) -> None:
    """Read the model as other commands do; ONNX cannot be read where its runtime is not installed."""
    try:
        with suppress(extras.MissingExtraError):
            any_model(exported.model)
    except ModelFileError as error:
        raise ExportError(
            f"{exported.format}: what was written could not be read again: {error}. Please report this "
            f"message: it is a defect of rankloop"
        ) from error
