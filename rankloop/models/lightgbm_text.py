"""The text of a LightGBM model: the names of its features, where it ends, and whether LightGBM may read it.

LightGBM trusts its files: a wrong index or length makes it read beyond its arrays, and children that lead
back to their parents make it search for a leaf for ever. A file that passes `check_text` describes trees:
every list has its length, every index is within its list, and every node is reached exactly once.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankloop.errors import ModelFileError

# LightGBM separates names by spaces and refuses characters that JSON uses.
UNSPELLABLE = re.compile(r"[\s\",:\[\]{}=]|[^\x21-\x7e]")
NAMES, IMPORTANCES = "feature_names=", "feature_importances:"
# The last line that LightGBM writes.
LAST = re.compile(r"\npandas_categorical:(null|\[[^\n]*\])\n*\Z")

Names = tuple[str, ...]


def default_names(n_features: int) -> Names:
    """The names that LightGBM gives to features without names.

    >>> default_names(2)
    ('Column_0', 'Column_1')
    """
    return tuple(f"Column_{i}" for i in range(n_features))


def spelt_names(text: str) -> Names:
    """The names of the features as a model's text has them; empty if it has none."""
    start = text.find(f"\n{NAMES}")
    if start < 0:
        return ()
    line = text[start + 1 + len(NAMES) :].split("\n", 1)[0]
    return tuple(line.split(" "))


def spell_names(text: str, names: Names) -> str:
    r"""A model's text with other names of features, as far as LightGBM can spell them.

    >>> spell_names("tree\nfeature_names=Column_0 Column_1\n", ("age", "list price"))
    'tree\nfeature_names=age list_price\n'
    """
    before, after = spelt_names(text), spellable(names)
    if before == after:
        return text
    text = text.replace(f"\n{NAMES}{' '.join(before)}\n", f"\n{NAMES}{' '.join(after)}\n", 1)
    start = text.find(f"\n{IMPORTANCES}\n")
    if start < 0:
        return text
    # One line per feature that is used, up to an empty line.
    head, listed = text[: start + len(IMPORTANCES) + 2], text[start + len(IMPORTANCES) + 2 :].split("\n")
    renamed = dict(zip(before, after, strict=True))
    end = listed.index("")
    for place, line in enumerate(listed[:end]):
        name, value = line.rsplit("=", 1)
        listed[place] = f"{renamed[name]}={value}"
    return head + "\n".join(listed)


def is_whole(text: str) -> bool:
    """Whether the text of a model is complete."""
    return "\nend of trees\n" in text and LAST.search(text) is not None


def spellable(names: Names) -> Names:
    """Names as LightGBM can spell them, each different."""
    spelt: list[str] = []
    for i, name in enumerate(names):
        word = UNSPELLABLE.sub("_", name) or f"Column_{i}"
        spelt.append(word if word not in spelt else f"{word}_{i}")
    return tuple(spelt)


END_OF_TREES = "end of trees"
# Objectives with one score per document, and their options. Scores are read before they are applied.
OBJECTIVE = re.compile(
    r"(regression(_l1|_l2)?|huber|fair|poisson|quantile|mape|gamma|tweedie|binary|cross_entropy(_lambda)?|"
    r"lambdarank|rank_xendcg)( [a-z_]+(:[-+.e0-9]{1,30})?){0,5}"
)
INTEGER = re.compile(r"-?[0-9]{1,18}")
# Lines of the header that hold one number, and the numbers that are read.
HEADER = {
    "num_class": (1, 1),
    "num_tree_per_iteration": (1, 1),
    "label_index": (0, 2**31 - 1),
    "max_feature_idx": (0, 2**31 - 2),
}
# Lists of a tree by what they have a number for; those that are whole numbers first.
PER_NODE_WHOLE = ("split_feature", "decision_type", "left_child", "right_child")
PER_NODE = ("split_gain", "threshold", "internal_value", "internal_weight", "internal_count")
PER_LEAF = ("leaf_value", "leaf_weight", "leaf_count")
REQUIRED = ("num_leaves", "num_cat", "leaf_value", "shrinkage")
LINEAR = ("leaf_const", "num_features", "leaf_features", "leaf_coeff")
CATEGORIES = ("cat_boundaries", "cat_threshold")
KNOWN = {*PER_NODE_WHOLE, *PER_NODE, *PER_LEAF, *REQUIRED, *LINEAR, *CATEGORIES, "is_linear"}
# The bits of a decision type: categorical or not, where missing values go, and what counts as missing.
CATEGORICAL, LARGEST_DECISION = 1, 15
Lines = Mapping[str, str]
UNREAD = re.compile(r"=.*_")
# Python also reads other digits and divides words at other white space; LightGBM knows spaces only.
WRITTEN = re.compile(r"[\x20-\x7e]*")


def check_text(text: str) -> None:
    """Refuse a text that LightGBM cannot read safely.

    Raises:
        ModelFileError: it is not what LightGBM 4 writes.
    """
    end = text.find(f"\n{END_OF_TREES}\n")
    begin = text.find("\nTree=")
    if end < 0:
        raise ModelFileError("there is no line that ends the trees: store or copy the file again")
    first = end + 1 if begin < 0 or begin > end else begin + 1
    features, sizes = _check_header(text[:first])
    place = first
    for number, size in enumerate(sizes):
        block = text[place : place + size]
        if place + size > end + 1 or not block.startswith(f"Tree={number}\n") or not block.endswith("\n"):
            raise _damaged(f"tree {number}", "is not where tree_sizes says")
        _check_tree(block, number, features)
        place += size
    if place != end + 1:
        raise _damaged("tree_sizes", "does not cover all trees")


def without_parameters(text: str) -> str:
    """A model's text without what follows its trees, such as the parameters of its training."""
    head, mark, _ = text.partition(f"\n{END_OF_TREES}\n")
    return head + mark


def with_categories(text: str, categories: Sequence[Sequence[str]]) -> str:
    r"""A model's text with the categories of its features, in the order of the features that have some.

    >>> with_categories("end of trees\n\npandas_categorical:null\n", [("a", "b")])
    'end of trees\n\npandas_categorical:[["a", "b"]]\n'
    """
    line = json.dumps([[*values] for values in categories])
    return LAST.sub("", text.rstrip("\n")) + f"\npandas_categorical:{line}\n"


def _check_header(text: str) -> tuple[int, list[int]]:
    """The number of features, and the lengths of the trees in characters."""
    lines = _lines(text, "the header", bare=("tree", "average_output"))
    for name, (lowest, highest) in HEADER.items():
        value = _whole(lines, name, "the header")
        if not lowest <= value <= highest:
            raise _damaged(name, f"is {value}, which is not a model of one score per document")
    features = _whole(lines, "max_feature_idx", "the header") + 1
    for name in ("feature_names", "feature_infos"):
        if len(lines.get(name, "").split(" ")) != features:
            raise _damaged(name, f"does not list {features} features")
    if "objective" in lines and not OBJECTIVE.fullmatch(lines["objective"]):
        raise _damaged("the objective", f"is {lines['objective'][:40]!r}, which does not give scores")
    if "monotone_constraints" in lines:
        _list(lines, "monotone_constraints", features, np.int64, "the header", within=(-1, 1))
    known = {"version", "objective", "feature_names", "feature_infos", "tree_sizes", "monotone_constraints"}
    _refuse_others(lines, known | set(HEADER), "the header")
    sizes = _words(lines, "tree_sizes", "the header")
    if not all(INTEGER.fullmatch(size) and int(size) > 0 for size in sizes):
        raise _damaged("tree_sizes", "is not a list of lengths")
    return features, list(map(int, sizes))


def _check_tree(block: str, number: int, features: int) -> None:
    where = f"tree {number}"
    # Python reads underscores between digits; LightGBM does not.
    if UNREAD.search(block):
        raise _damaged(where, "has characters that LightGBM does not write")
    lines = _lines(block.split("\n", 1)[1], where)
    _refuse_others(lines, KNOWN, where)
    leaves, categories = _whole(lines, "num_leaves", where), _whole(lines, "num_cat", where)
    if leaves < 1 or categories < 0:
        raise _damaged(where, f"has {leaves} leaves and {categories} categorical splits")
    nodes = leaves - 1
    for name in PER_LEAF:
        _list(lines, name, leaves, np.float64, where, optional=name != "leaf_value")
    _list(lines, "shrinkage", 1, np.float64, where)
    for name in PER_NODE:
        # A split of missing values against all others has an infinite threshold.
        _list(
            lines, name, nodes, np.float64, where, optional=name != "threshold", infinite=name == "threshold"
        )
    whole = {name: _list(lines, name, nodes, np.int64, where) for name in PER_NODE_WHOLE}
    _within(whole["split_feature"], 0, features - 1, "split_feature", where)
    _within(whole["decision_type"], 0, LARGEST_DECISION, "decision_type", where)
    _check_children(whole["left_child"], whole["right_child"], leaves, where)
    _check_categories(lines, whole["decision_type"], categories, where)
    if _whole({"is_linear": "0", **lines}, "is_linear", where):
        _check_linear(lines, leaves, features, where)


def _check_children(left: NDArray[Any], right: NDArray[Any], leaves: int, where: str) -> None:
    """Every leaf and every node but the root has one parent, which comes before it."""
    children = np.concatenate([left, right])
    _within(children, -leaves, leaves - 2, "a child", where)
    if len(np.unique(children)) < len(children) or (children == 0).any():
        raise _damaged(where, "has a node with two parents, or none")
    parents = np.tile(np.arange(leaves - 1), 2)
    if (children[children > 0] <= parents[children > 0]).any():
        raise _damaged(where, "has a node that leads back to its parents")


def _check_categories(lines: Lines, decisions: NDArray[Any], categories: int, where: str) -> None:
    chosen = (decisions & CATEGORICAL) > 0
    if not categories:
        if chosen.any() or set(CATEGORIES) & set(lines):
            raise _damaged(where, "has categorical splits that num_cat does not count")
        return
    bounds = _list(lines, "cat_boundaries", categories + 1, np.int64, where)
    if bounds[0] != 0 or (bounds[1:] < bounds[:-1]).any():
        raise _damaged(where, "has cat_boundaries that do not ascend from 0")
    _list(lines, "cat_threshold", int(bounds[-1]), np.int64, where, within=(0, 2**32 - 1))
    which = _list(lines, "threshold", len(decisions), np.float64, where)[chosen]
    if not np.isfinite(which).all() or (which != np.floor(which)).any():
        raise _damaged(where, "has a categorical split without a number")
    _within(which, 0, categories - 1, "the threshold of a categorical split", where)


def _check_linear(lines: Lines, leaves: int, features: int, where: str) -> None:
    _list(lines, "leaf_const", leaves, np.float64, where)
    counts = _list(lines, "num_features", leaves, np.int64, where, within=(0, features))
    total = int(counts.sum())
    _list(lines, "leaf_features", total, np.int64, where, within=(0, features - 1))
    _list(lines, "leaf_coeff", total, np.float64, where)


def _lines(text: str, where: str, bare: tuple[str, ...] = ()) -> dict[str, str]:
    found: dict[str, str] = {}
    for line in text.split("\n"):
        name, equals, value = line.partition("=")
        if not line or (not equals and name in bare):
            continue
        if not equals or name in found:
            raise _damaged(where, f"has the line {line[:40]!r}")
        found[name] = value
    return found


def _whole(lines: Lines, name: str, where: str) -> int:
    text = lines.get(name, "")
    if not INTEGER.fullmatch(text):
        raise _damaged(where, f"has {name}={text[:40]!r}, which is not a whole number")
    return int(text)


def _words(lines: Lines, name: str, where: str) -> list[str]:
    """The words of a line, as LightGBM divides it."""
    line = lines.get(name, "")
    if not WRITTEN.fullmatch(line):
        raise _damaged(where, f"has characters in {name} that LightGBM does not write")
    return line.split()


def _list(
    lines: Lines,
    name: str,
    length: int,
    dtype: type[np.generic],
    where: str,
    *,
    within: tuple[int, int] | None = None,
    optional: bool = False,
    infinite: bool = False,
) -> NDArray[Any]:
    """The numbers of a line, which has exactly this many."""
    if optional and name not in lines:
        return np.zeros(length, dtype)
    words = _words(lines, name, where)
    if len(words) != length:
        raise _damaged(where, f"has {len(words)} numbers in {name}, not {length}")
    try:
        values = np.array(words, dtype="U32").astype(dtype) if max(map(len, words), default=0) <= 32 else None
    except (ValueError, OverflowError):
        values = None
    allowed = "numbers" if infinite else "finite numbers"
    if values is None or np.isnan(values).any() or (np.isinf(values).any() and not infinite):
        raise _damaged(where, f"has {name} with something else than {allowed}")
    if within is not None:
        _within(values, *within, name, where)
    return values


def _within(values: NDArray[Any], lowest: int, highest: int, name: str, where: str) -> None:
    if len(values) and not (values.min() >= lowest and values.max() <= highest):
        bad = values[(values < lowest) | (values > highest)][0]
        raise _damaged(where, f"has {name} {bad}, which is not between {lowest} and {highest}")


def _refuse_others(lines: Lines, known: set[str], where: str) -> None:
    others = sorted(set(lines) - known)
    if others:
        raise _damaged(where, f"has the line {others[0][:40]!r}, which LightGBM 4 does not write")


def _damaged(where: str, what: str) -> ModelFileError:
    return ModelFileError(f"this is not a model that LightGBM can read safely: {where} {what}")
