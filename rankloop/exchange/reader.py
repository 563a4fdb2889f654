"""Reads models of other programs; the content of a file tells which program wrote it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from rankloop.errors import ModelFileError
from rankloop.exchange.onnx import OnnxModel
from rankloop.exchange.opensearch import LINEAR, RANKLIB, XGBOOST, read_dump, read_ranklib
from rankloop.exchange.solr import read_solr
from rankloop.exchange.vespa import VESPA_RULE
from rankloop.exchange.xgboost import read_ubjson, read_xgboost
from rankloop.models import Linear, TreeEnsemble, model_from_bytes
from rankloop.models.lightgbm_trees import trees_of_json
from rankloop.models.trees import next_below
from rankloop.types import Float32, Float64, Model

UNKNOWN = (
    "this is not a model that rankloop knows: its own files, LightGBM's text or JSON, XGBoost's JSON or "
    "UBJSON, ONNX, RankLib's trees, and exported models of OpenSearch, Elasticsearch, Solr and Vespa can be "
    "read"
)
# A node of the protocol buffers in an ONNX file: field 1 (the version), as a number.
ONNX_START = b"\x08"
# UBJSON starts with an object, as JSON does, but a length follows.
UBJSON_STARTS = tuple(b"{" + marker for marker in (b"i", b"U", b"I", b"l", b"L", b"#"))


def is_foreign(data: bytes) -> bool:
    r"""Whether a file is of another program, by how it starts.

    Files of this project are tensor files, which start with the length of a JSON object, or LightGBM's text.

    >>> is_foreign(b'{"learner": 1}'), is_foreign(b"\x7b" + bytes(7) + b"{"), is_foreign(b"tree")
    (True, False, False)
    """
    if data[4:9] == b"\0\0\0\0{":
        return False
    return data.lstrip()[:1] in (b"{", b"[", b"<") or data.startswith((ONNX_START, b"##"))


def any_model(data: bytes) -> Model:
    """The model in a file of this project, or of another program.

    Raises:
        ModelFileError: the file is damaged, or of no known kind.
    """
    return read_model(data) if is_foreign(data) else model_from_bytes(data)


def read_model(data: bytes) -> Model:
    """The model in a file of another program.

    Raises:
        ModelFileError: the file is damaged, or of no known kind.
    """
    if data.startswith(UBJSON_STARTS):
        return _read_json(read_ubjson(data))
    if data.lstrip()[:1] in (b"{", b"["):
        try:
            content = json.loads(data)
        except (ValueError, RecursionError) as error:
            raise ModelFileError(f"the JSON file is damaged: {error}") from error
        return _read_json(content)
    if data.startswith(ONNX_START):
        return OnnxModel.from_bytes(data)
    if data.lstrip().startswith((b"##", b"<ensemble")):
        return read_ranklib(data.decode("utf-8", "replace"))
    raise ModelFileError(UNKNOWN)


def _read_json(content: Any) -> Model:
    if isinstance(content, list) and content and all(isinstance(tree, str) for tree in content):
        content = [json.loads(tree) for tree in content]  # what XGBoost's get_dump returns, stored as it is
    if isinstance(content, list) and content and isinstance(content[0], Mapping):
        return read_dump(content) if "nodeid" in content[0] else _unknown()
    if not isinstance(content, Mapping):
        return _unknown()
    if "learner" in content:
        return read_xgboost(content)
    if "tree_info" in content:
        return _read_lightgbm(content)
    if "splits" in content:
        return read_dump(content["splits"])
    if str(content.get("class", "")).startswith("org.apache.solr.ltr."):
        return read_solr(content)
    if "_source" in content:
        return _read_json(content["_source"])
    if isinstance(content.get("model"), Mapping):
        return _read_plugin(content["model"])
    return _unknown()


def _read_lightgbm(content: Mapping[str, Any]) -> TreeEnsemble:
    if content.get("rule") != VESPA_RULE:
        return trees_of_json(content)
    return trees_of_json(content, lambda threshold: next_below(_float32(threshold)))


def _float32(values: Float64) -> Float32:
    """Values in single precision; past its largest number is infinity."""
    with np.errstate(over="ignore"):
        return values.astype(np.float32)


def _read_plugin(content: Mapping[str, Any]) -> Model:
    """A model of the plug-ins of OpenSearch and Elasticsearch, as it is created or as it is returned."""
    inner = content.get("model", content)
    kind, definition = inner.get("type"), inner.get("definition")
    if kind == RANKLIB:
        return read_ranklib(str(definition))
    if isinstance(definition, str):
        try:
            definition = json.loads(definition)
        except ValueError as error:
            raise ModelFileError(f"the definition of the model is damaged: {error}") from error
    if kind == XGBOOST:
        return _read_json(definition)
    if kind == LINEAR and isinstance(definition, Mapping):
        weights = np.array([*definition.values(), 0.0], np.float32)
        return Linear(len(definition), weights, feature_names=tuple(definition))
    raise ModelFileError(
        f"a model of type {kind!r} cannot be read; those of type {XGBOOST}, {RANKLIB} and {LINEAR} can"
    )


def _unknown() -> Model:
    raise ModelFileError(UNKNOWN)
