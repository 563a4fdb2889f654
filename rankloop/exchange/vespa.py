"""Vespa: trees as LightGBM's JSON or as ONNX, networks and linear models as ONNX, with a rank profile.

Vespa turns a split of LightGBM's JSON into ``x < threshold``, or ``!(x >= threshold)`` if missing values go
left, in double or single precision. So the bound b of ``x <= b`` is written as the next float32 above b,
and not as LightGBM itself would write it.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np

from rankloop.exchange.formats import Export, ExportFormat, PolicySource, names_note
from rankloop.exchange.onnx import INPUT, OUTPUT, onnx_bytes
from rankloop.models.trees import TreeEnsemble, next_above
from rankloop.registry import register

# What can stand in a ranking expression as it is: a function or a rank feature such as attribute(price).
IDENTIFIER = re.compile(r"[A-Za-z_]\w*", re.ASCII)
RANK_FEATURE = re.compile(r"[A-Za-z_]\w*\([^()\"]*\)(\.\w+)*")
PAST_LARGEST = 1e39
# A key that Vespa ignores: by it, the thresholds are told from LightGBM's own.
VESPA_RULE = "x < threshold"


@register
@dataclass(frozen=True)
class Vespa(ExportFormat):
    """Vespa: trees as LightGBM's JSON, everything as ONNX, and a rank profile.

    Attributes:
        format: how the model is written: ``lightgbm``, ``onnx``, or ``auto`` for LightGBM's JSON where it is
            trees, and ONNX elsewhere.
    """

    name: ClassVar[str] = "vespa"
    suffix: ClassVar[str] = ".json"
    format: Literal["auto", "lightgbm", "onnx"] = "auto"

    def write(self, source: PolicySource) -> Export:
        """The model, and a rank profile that calls it.

        Raises:
            ExportError: the model is not of trees, and LightGBM's JSON was asked for.
        """
        trees = source.trees if self.format != "onnx" else None
        if trees is None and self.format == "lightgbm":
            raise self.refuse(source, "LightGBM's JSON holds only trees", ("vespa(format=onnx)",))
        names = vespa_names(source.names)
        notes = names_note(source)
        if trees is None:
            model, suffix = onnx_bytes(source), ".onnx"
            body = _onnx_profile(source, names)
        else:
            model, suffix = json.dumps(lightgbm_json(trees, names), indent=1).encode(), ".json"
            body = f'    first-phase {{\n        expression: lightgbm("{source.name}{suffix}")\n    }}\n'
            notes = (*notes, f"Put the model into the application package as models/{source.name}{suffix}.")
        profile = f"rank-profile {_identifier(source)} {{\n"
        for own, name in zip(source.names, names, strict=True):
            if IDENTIFIER.fullmatch(name):
                profile += f"    function {name}() {{\n        expression: attribute({name})"
                profile += "\n    }\n" if name == own else f"  # {json.dumps(own)}\n    }}\n"
        return Export(str(self), model, suffix, f"{profile}{body}}}\n".encode(), ".profile", notes)


def vespa_names(names: tuple[str, ...]) -> tuple[str, ...]:
    """Names that ranking expressions can use: rank features as they are, others as names of functions.

    >>> vespa_names(("price", "fieldMatch(title).completeness", "list price"))
    ('price', 'fieldMatch(title).completeness', 'list_price')
    """
    found: list[str] = []
    for number, name in enumerate(names):
        word = name
        if not RANK_FEATURE.fullmatch(name) and not IDENTIFIER.fullmatch(name):
            word = re.sub(r"\W", "_", name, flags=re.ASCII) or "feature"
            word = word if IDENTIFIER.fullmatch(word) else f"_{word}"
        found.append(word if word not in found else f"{word}_{number}")
    return tuple(found)


def lightgbm_json(trees: TreeEnsemble, names: tuple[str, ...]) -> dict[str, Any]:
    """Trees as LightGBM dumps them, with thresholds for Vespa's rule."""
    conditions = [float(c) if np.isfinite(c) else PAST_LARGEST for c in next_above(trees.bound)]

    def write(node: int) -> dict[str, Any]:
        if node < 0:
            return {"leaf_index": -1 - node, "leaf_value": float(trees.values[-1 - node])}
        return {
            "split_feature": int(trees.feature[node]),
            "threshold": conditions[node],
            "decision_type": "<=",
            "default_left": bool(trees.nan_left[node]),
            "missing_type": "NaN",
            "left_child": write(int(trees.left[node])),
            "right_child": write(int(trees.right[node])),
        }

    structures = [write(root) for root in trees.roots.tolist()]
    if trees.start or not structures:
        structures.insert(0, {"leaf_index": 0, "leaf_value": trees.start})
    return {
        "name": "tree",
        "version": "v4",
        "rule": VESPA_RULE,
        "num_class": 1,
        "num_tree_per_iteration": 1,
        "max_feature_idx": len(names) - 1,
        "objective": "lambdarank",
        "average_output": False,
        "feature_names": list(names),
        "feature_infos": {},
        "tree_info": [
            {"tree_index": number, "tree_structure": structure} for number, structure in enumerate(structures)
        ],
        "pandas_categorical": [],
    }


def _identifier(source: PolicySource) -> str:
    """The name of the model as Vespa's schema language takes it."""
    return re.sub(r"[.-]", "_", source.name)


def _onnx_profile(source: PolicySource, names: tuple[str, ...]) -> str:
    values = ", ".join(names)
    return (
        f"    function {INPUT}() {{\n"
        f"        expression: tensor<float>(d0[1],d1[{len(names)}]):[[{values}]]\n"
        f"    }}\n"
        f"    onnx-model {_identifier(source)} {{\n"
        f"        file: models/{source.name}.onnx\n"
        f"        input {INPUT}: {INPUT}\n"
        f"        output {OUTPUT}: {OUTPUT}\n"
        f"    }}\n"
        f"    first-phase {{\n"
        f"        expression: sum(onnx({_identifier(source)}).{OUTPUT})\n"
        f"    }}\n"
    )
