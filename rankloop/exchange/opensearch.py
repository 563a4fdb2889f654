"""The learning-to-rank plug-ins of OpenSearch and Elasticsearch.

The model's file is the body of ``POST _ltr/_featureset/NAME/_createmodel``, and the features' file that of
``PUT _ltr/_featureset/NAME``. Trees are written in one of two forms:

* XGBoost's dump as JSON. The plug-ins' rule at a split: left ("yes") if ``split_condition > x`` in float32,
  right ("no") otherwise. So the bound b of ``x <= b`` is written as the next float32 above b.
* RankLib's text. Its rule: left if ``x <= threshold`` in float32. Features are numbers from 1, in the order
  of the feature set; a feature without a value is 0.
"""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ET
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np

from rankloop.errors import ModelFileError
from rankloop.exchange.formats import Export, ExportFormat, PolicySource, names_note
from rankloop.models.trees import TreeBuilder, TreeEnsemble, next_above, next_below
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


# Java reads a number past the largest float32 as infinity; JSON has no other way to spell it.
PAST_LARGEST = 1e39
# XGBoost's own names of features without names.
NUMBERED = re.compile(r"f(\d+)")


def dump_trees(trees: TreeEnsemble, names: Sequence[str]) -> list[dict[str, Any]]:
    """One nested object per tree; the start is added to the leaves of the first one."""
    conditions = [float(c) if np.isfinite(c) else PAST_LARGEST for c in next_above(trees.bound)]
    dumped = []
    for number, root in enumerate(trees.roots.tolist()):
        start = trees.start if number == 0 else 0.0
        dumped.append(_dump(trees, conditions, names, root, start))
    return dumped or [{"nodeid": 0, "leaf": float(np.float32(trees.start))}]


def _dump(
    trees: TreeEnsemble, conditions: list[float], names: Sequence[str], root: int, start: float
) -> dict[str, Any]:
    next_id = iter(range(2**31))

    def dump(node: int, depth: int) -> dict[str, Any]:
        number = next(next_id)
        if node < 0:
            return {"nodeid": number, "leaf": float(np.float32(trees.values[-1 - node] + start))}
        yes, no = dump(int(trees.left[node]), depth + 1), dump(int(trees.right[node]), depth + 1)
        return {
            "nodeid": number,
            "depth": depth,
            "split": names[trees.feature[node]],
            "split_condition": conditions[node],
            "yes": yes["nodeid"],
            "no": no["nodeid"],
            "missing": (yes if trees.nan_left[node] else no)["nodeid"],
            "children": [yes, no],
        }

    return dump(root, 0)


def read_dump(content: Sequence[Mapping[str, Any]]) -> TreeEnsemble:
    """The trees of such a dump; features are those that splits use, in the order of their appearance.

    Names ``f0``, ``f1`` and so on are numbers of features that have no names.
    """
    builder = TreeBuilder()
    names: dict[str, int] = {}
    directions = False

    def read(node: Mapping[str, Any]) -> int:
        nonlocal directions
        if "leaf" in node:
            return builder.leaf(node["leaf"])
        children = {child["nodeid"]: child for child in node["children"]}
        with np.errstate(over="ignore"):
            bound = float(next_below(np.float32(node["split_condition"])))
        nan_left = bound >= 0
        if "missing" in node:
            nan_left = node["missing"] == node["yes"]
            directions |= nan_left != (bound >= 0)
        return builder.split(
            names.setdefault(node["split"], len(names)),
            bound,
            bool(nan_left),
            read(children[node["yes"]]),
            read(children[node["no"]]),
        )

    try:
        for tree in content:
            builder.root(read(tree))
    except (KeyError, TypeError, ValueError) as error:
        raise ModelFileError(f"this is not a dump of XGBoost's trees, or it is damaged: {error!r}") from error
    numbers = [NUMBERED.fullmatch(name) for name in names]
    if names and all(numbers):
        order = [int(match[1]) for match in numbers if match]
        return builder.ensemble(max(order) + 1, order=order, learned_missing=directions)
    return builder.ensemble(len(names), names=tuple(names), learned_missing=directions)


FIRST_LINE = "## LambdaMART"
# A comment of this project: RankLib itself knows no names.
NAMES = "## features = "


def ranklib_text(trees: TreeEnsemble, names: Sequence[str]) -> str:
    """The trees as RankLib writes them, with the names of the features in a comment."""
    lines = [
        FIRST_LINE,
        NAMES + json.dumps(list(names)),
        f"## No. of trees = {trees.n_trees}",
        "",
        "<ensemble>",
    ]

    def write(node: int, depth: int, start: float) -> None:
        indent = "\t" * depth
        if node < 0:
            value = np.float32(trees.values[-1 - node] + start)
            lines.append(f"{indent}<output> {_number(value)} </output>")
            return
        lines.append(f"{indent}<feature> {trees.feature[node] + 1} </feature>")
        lines.append(f"{indent}<threshold> {_number(trees.bound[node])} </threshold>")
        for side, child in (("left", trees.left[node]), ("right", trees.right[node])):
            lines.append(f'{indent}<split pos="{side}">')
            write(int(child), depth + 1, start)
            lines.append(f"{indent}</split>")

    for number, root in enumerate(trees.roots.tolist() or [None]):
        lines += [f'\t<tree id="{number + 1}" weight="1.0">', "\t\t<split>"]
        if root is None:
            lines.append(f"\t\t\t<output> {_number(np.float32(trees.start))} </output>")
        else:
            write(root, 3, trees.start if number == 0 else 0.0)
        lines += ["\t\t</split>", "\t</tree>"]
    return "\n".join([*lines, "</ensemble>", ""])


def _number(value: np.float32) -> str:
    """A float32 as Java reads it back."""
    if np.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    return repr(float(value))


def read_ranklib(text: str) -> TreeEnsemble:
    """The trees of a LambdaMART or MART model of RankLib.

    Raises:
        ModelFileError: the text is damaged, or another kind of model.
    """
    comments, names = [], None
    for line in text.splitlines():
        if line.startswith("##"):
            comments.append(line)
            if line.startswith(NAMES):
                names = tuple(json.loads(line.removeprefix(NAMES)))
    kind = comments[0].removeprefix("##").strip() if comments else "LambdaMART"
    if kind.lower() not in ("lambdamart", "mart"):
        raise ModelFileError(f"RankLib's {kind} models cannot be read, only LambdaMART and MART")
    body = "\n".join(line for line in text.splitlines() if not line.startswith("##"))
    builder = TreeBuilder()

    def read(element: ET.Element, weight: float) -> int:
        output = element.find("output")
        if output is not None:
            return builder.leaf(float(np.float32(output.text) * np.float32(weight)))
        feature, threshold = element.findtext("feature"), element.findtext("threshold")
        left, right = element.findall("split")
        bound = float(np.float32(threshold))
        return builder.split(
            int(str(feature)) - 1, bound, bound >= 0, read(left, weight), read(right, weight)
        )

    try:
        for tree in ET.fromstring(body).iter("tree"):
            split = tree.find("split")
            assert split is not None
            builder.root(read(split, float(tree.attrib["weight"])))
        return builder.ensemble(_width(text) if names is None else len(names), names=names)
    except (ET.ParseError, KeyError, TypeError, ValueError, AssertionError) as error:
        raise ModelFileError(f"this is not a RankLib model, or it is damaged: {error!r}") from error


def _width(text: str) -> int:
    """The largest number of a feature: all that RankLib's text tells about how many there are."""
    parts = text.split("<feature>")[1:]
    return max((int(part.partition("<")[0]) for part in parts), default=1)
