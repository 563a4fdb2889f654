"""RankLib's text of boosted trees, which the LTR plug-ins of OpenSearch and Elasticsearch take too.

RankLib's rule at a split: left if ``x <= threshold`` in float32. Features are numbers from 1, in the order of
the feature set; a feature without a value is 0.
"""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from collections.abc import Sequence

import numpy as np

from rankloop.errors import ModelFileError
from rankloop.exchange.tree_builder import TreeBuilder
from rankloop.models.trees import TreeEnsemble

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
