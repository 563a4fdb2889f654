"""The learning-to-rank plug-ins of OpenSearch and Elasticsearch.

The model's file is the body of ``POST _ltr/_featureset/NAME/_createmodel``, and the features' file that of
``PUT _ltr/_featureset/NAME``.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from rankloop.exchange.formats import Export, ExportFormat, PolicySource, names_note
from rankloop.exchange.ranklib import ranklib_text
from rankloop.exchange.xgboost_dump import dump_trees
from rankloop.registry import register

LINEAR, RANKLIB, XGBOOST = "model/linear", "model/ranklib", "model/xgboost+json"
UNMATCHED_ARE_ZERO = (
    "The policy was fitted without missing values. A feature that does not match a document is 0 for the "
    "plug-in"
)


class LtrPlugin(ExportFormat):
    """What both plug-ins share.

    Attributes:
        format: how trees are written: ``xgboost`` or ``ranklib``.
    """

    suffix: ClassVar[str] = ".json"
    format: Literal["xgboost", "ranklib"]

    def write(self, source: PolicySource) -> Export:
        """The model and its feature set.

        Raises:
            ExportError: the plug-in cannot express the model.
        """
        trees, weights = source.trees, source.weights
        missing = trees is not None and trees.learned_missing
        if source.fills_missing:
            raise self.refuse(
                source,
                "missing values of features are replaced by their means before the model sees them, but the "
                "plug-in replaces them by 0; fit with --missing zero",
                ("onnx",),
            )
        notes = self.check_missing(source) if missing else self.missing_notes()
        if trees is not None and self.format == "ranklib":
            kind, definition = RANKLIB, ranklib_text(trees, source.names)
        elif trees is not None:
            kind, definition = XGBOOST, json.dumps(dump_trees(trees, source.names))
        elif weights is not None:
            kind = LINEAR
            values = [float(weight) for weight in weights]
            definition = json.dumps(dict(zip(source.names, values, strict=True)))
            notes = (
                "The intercept is left out: it is the same for every document and does not change the order.",
                f"A feature that does not match a document is 0 for {self}.",
            )
        else:
            raise self.refuse(
                source, "the plug-in supports only trees and linear models", ("onnx", "solr", "vespa")
            )
        model = {"model": {"name": source.name, "model": {"type": kind, "definition": definition}}}
        features = feature_set(source, missing=missing)
        return Export(
            str(self),
            json.dumps(model, indent=1).encode(),
            self.suffix,
            json.dumps(features, indent=1).encode(),
            notes=(*notes, *names_note(source)),
        )

    def check_missing(self, source: PolicySource) -> tuple[str, ...]:
        """Notes on a model that learned where missing values go; `ExportError` if that cannot be written."""
        raise NotImplementedError

    def missing_notes(self) -> tuple[str, ...]:
        """Notes on trees that never saw a missing value."""
        raise NotImplementedError


@register
@dataclass(frozen=True)
class OpenSearch(LtrPlugin):
    """OpenSearch's learning-to-rank plug-in: trees and linear models.

    Attributes:
        format: how trees are written: ``xgboost`` (XGBoost's JSON, which knows where missing values go) or
            ``ranklib``.
    """

    name: ClassVar[str] = "opensearch"
    format: Literal["xgboost", "ranklib"] = "xgboost"

    def check_missing(self, source: PolicySource) -> tuple[str, ...]:
        """Releases since the summer of 2026 read where missing values go."""
        if self.format == "ranklib":
            raise self.refuse(
                source,
                "the policy was fitted to missing values, and RankLib's trees treat them as 0",
                ("opensearch",),
            )
        return (
            "The policy was fitted to missing values. Use a release of the plug-in that reads where they go "
            "(`missing`; pull request 379 of July 2026): 3.2 and earlier treat them as 0, and the releases "
            "between send all of them to the right.",
        )

    def missing_notes(self) -> tuple[str, ...]:
        """Releases differ in what they make of features that do not match."""
        if self.format == "ranklib":
            return (f"{UNMATCHED_ARE_ZERO}.",)
        return (
            f"{UNMATCHED_ARE_ZERO} in OpenSearch 3.2 and earlier, and missing since 3.3. Releases since July "
            f"2026 (pull request 379) treat it as 0 here, too. For the releases between, which send it to "
            f"the right at every split, make sure that every feature matches, as in the feature set written "
            f"here.",
        )


@register
@dataclass(frozen=True)
class Elasticsearch(LtrPlugin):
    """The learning-to-rank plug-in for Elasticsearch: trees and linear models, without missing values.

    Attributes:
        format: how trees are written: ``xgboost`` or ``ranklib``.
    """

    name: ClassVar[str] = "elasticsearch"
    format: Literal["xgboost", "ranklib"] = "xgboost"

    def check_missing(self, source: PolicySource) -> tuple[str, ...]:
        """The plug-in cannot tell a missing value from 0."""
        raise self.refuse(
            source,
            "it was fitted to missing values, and the plug-in replaces them by 0; fill them in before "
            "fitting",
            ("opensearch", "solr", "vespa", "onnx"),
        )

    def missing_notes(self) -> tuple[str, ...]:
        """A feature that does not match a document is 0."""
        return (f"{UNMATCHED_ARE_ZERO}.",)


def feature_set(source: PolicySource, *, missing: bool) -> dict[str, Any]:
    """Features that read the document's fields of the same names.

    Args:
        source: the policy.
        missing: a document without the field does not match, and the feature is missing; otherwise it is 0.
    """

    def template(field: str) -> dict[str, Any]:
        query: dict[str, Any] = {"exists": {"field": field}} if missing else {"match_all": {}}
        value = {"field": field} if missing else {"field": field, "missing": 0}
        return {"function_score": {"query": query, "field_value_factor": value, "boost_mode": "replace"}}

    features = [
        {"name": name, "params": [], "template_language": "mustache", "template": template(name)}
        for name in source.names
    ]
    return {"featureset": {"name": source.name, "features": features}}
