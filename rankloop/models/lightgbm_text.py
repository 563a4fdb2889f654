"""The names of features in the text of a LightGBM model, and where that text ends."""

from __future__ import annotations

import re

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
