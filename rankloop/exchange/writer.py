"""Writes a model in a format, by the format's name."""

from __future__ import annotations

from rankloop.exchange import lightgbm, onnx_graph, opensearch, solr, vespa, xgboost
from rankloop.exchange.formats import EXPORT_FORMATS, Export, ExportError, ExportFormat, PolicySource

# Importing them registers their formats.
FORMATS = (lightgbm, onnx_graph, opensearch, solr, vespa, xgboost)


def export_format(text: str) -> ExportFormat:
    """The format that a name spells.

    >>> export_format("opensearch(format=ranklib)")
    OpenSearch(format='ranklib')
    """
    return EXPORT_FORMATS.parse(text)


def write_model(source: PolicySource, to: str | ExportFormat) -> Export:
    """The policy in a format, or in the format of a name.

    Raises:
        ExportError: the format cannot express the policy.
    """
    chosen = export_format(to) if isinstance(to, str) else to
    try:
        return chosen.write(source)
    except RecursionError as error:
        depth = 0 if source.trees is None else source.trees.depth
        raise ExportError(
            f"{chosen} nests one object per split, and a tree of this policy is {depth} splits deep: fit "
            f"shallower trees, or use onnx or xgboost"
        ) from error
