"""One word has one meaning (docs/design/vocabulary.md): words that were replaced do not come back."""

from __future__ import annotations

import re
from fnmatch import fnmatch
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SUFFIXES = {".py", ".pyi", ".md", ".yml", ".toml", ".json"}
FOLDERS = ("rankloop", "tests", "docs", "examples", "experiments", "benchmarks")
OWN = ("tests/test_vocabulary.py", "docs/design/vocabulary.md")

# What to write instead of each word: in prose, in strings, and as a part of a name.
WORDS = {
    "timestep": "impression", "timesteps": "impressions",
    "interaction": "impression", "interactions": "impressions",
    "item": "document", "items": "documents",
    "reward": "metric or value", "rewards": "metrics or values",
    "signal": "amount", "signals": "amounts",
    "verdict": "decision; outcome of a claim", "verdicts": "decisions; outcomes of claims",
}  # fmt: skip
# Only as a part of a longer name, or after a dot: alone, these are words of English.
PARTS = {"control": "guess", "worth": "amount, value or gain"}
NAMES = {
    "query_counts": "impressions_by_query", "logged_queries": "impressions",
    "doc_weights": "document_weights",
    "displays_by_rank": "displays_by_position", "clicks_by_rank": "clicks_by_position",
    "totals_by_rank": "totals_by_position", "click_rate_by_rank": "click_rate_by_position",
}  # fmt: skip

# Other meanings of the same words, wherever they occur.
PHRASES = (
    r"\.items\(|\.items\b(?=[,)])|\.item\(|`items\(\)`",  # of Python, NumPy and torch
    r"[Ii]tem[- ]selection",  # the literature's name of a bias
    r"[Cc]ontrol variates?|[Cc]ontrol characters?|Cache-Control|[Aa]ccess-[Cc]ontrol\S*",
    r"import signal\b|\bsignal\.\w+|raise_signal|send_signal|getsignal|_stop_by_signal|signal-to-noise",
    r"[Ss]ignals are handled|item_id",
    r"MkDocs\w*|WRITE_DOCS|__doc__|https?://\S+",
)
# By file: which words, and why.
EXCEPTIONS = {
    "rankloop/logs/importers/* tests/logs/importers/* rankloop/live/http/aliases.py "
    "tests/live/test_aliases.py": (
        {"item", "items", "interaction", "interactions", "signal", "reward"},
        "the formats of UBI and Metarank, and the words that people's tables use for columns",
    ),
    "rankloop/cli/logs.py docs/cli.md docs/logs.md docs/live.md docs/comparison.md docs/real-logs.md "
    "docs/walkthrough.md": (
        {"item", "items", "interaction", "interactions"},
        "the formats of UBI and Metarank",
    ),
    "conftest.py": ({"item"}, "a class of pytest"),
    "tests/policies/test_deep_queries.py tests/attack/moments.py": (
        {"signal", "signals"},
        "signals of the operating system",
    ),
    "tests/online/authors_pdgd.json tests/online/test_authors_runs.py "
    "tests/experiments/reproduce/authors_programs.json": (
        {"interactions", "interaction"},
        "output of the authors' programs",
    ),
    "tests/estimators/test_golden.py tests/objectives/test_sampled.py": (
        {"query_counts", "displays_by_rank", "clicks_by_rank", "doc_weights"},
        "output of the authors' programs",
    ),
    "tests/attack/accounting.py tests/attack/importers.py tests/cli/test_logs.py "
    "tests/live/test_hostile_input.py "
    "tests/live/test_http.py tests/offline/test_never_a_false_decision.py": (
        {"item", "items", "interaction"},
        "events as Metarank writes them",
    ),
    "rankloop/live/store/migrations.py tests/live/test_migrations.py": (
        {"verdicts"},
        "what a table was called",
    ),
}


@cache
def forbidden(word: str) -> dict[str, str]:
    """The forbidden words in a word or name, and what to write instead."""
    if word in NAMES:
        return {word: NAMES[word]}
    parts = [part.lower() for part in re.findall(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+", word)]
    found = {part: WORDS[part] for part in parts if part in WORDS}
    if len(parts) > 1 and not word.startswith("test_"):
        found |= {part: PARTS[part] for part in parts if part in PARTS}
    return found


def read(path: Path) -> dict[str, str]:
    """The forbidden words of a file: as they occur, and what to write instead."""
    text = re.sub("|".join(f"(?:{phrase})" for phrase in PHRASES), " ", path.read_text(encoding="utf-8"))
    name = path.relative_to(ROOT).as_posix()
    allowed = set[str]()
    for files, (words, _reason) in EXCEPTIONS.items():
        if any(fnmatch(name, pattern) for pattern in files.split()):
            allowed |= words
    return {
        word: ", ".join(instead.values())
        for word in set(re.findall(r"[A-Za-z_][A-Za-z0-9_]*", text))
        if (instead := {part: new for part, new in forbidden(word).items() if part not in allowed})
    }


def files() -> list[Path]:
    """The files that people read: code, documentation, stored outcomes."""
    found = [path for folder in FOLDERS for path in (ROOT / folder).rglob("*") if path.suffix in SUFFIXES]
    found += [path for path in ROOT.iterdir() if path.suffix in SUFFIXES]
    return sorted(path for path in found if path.relative_to(ROOT).as_posix() not in OWN)


def test_one_word_one_meaning() -> None:
    found = {path.relative_to(ROOT).as_posix(): words for path in files() if (words := read(path))}
    lines = [f"{path}: {word!r}: write {new}" for path, words in found.items() for word, new in words.items()]
    assert not lines, "\n".join(lines)


def test_names_of_files() -> None:
    names = {path.relative_to(ROOT).as_posix(): forbidden(path.stem) for path in files()}
    assert not {name: words for name, words in names.items() if words and "importers" not in name}


@pytest.mark.parametrize(
    ("word", "found"),
    [
        ("n_items", {"item"}), ("ItemIndex", {"item"}), ("document", set()), ("log_timesteps", {"timesteps"}),
        ("control", set()), ("check_control", {"control"}), ("query_counts", {"query_counts"}),
        ("itemise", set()), ("VERDICTS", {"verdicts"}),
    ],
)  # fmt: skip
def test_words_are_found_in_names(word: str, found: set[str]) -> None:
    assert {part.rstrip("s") for part in forbidden(word)} == {part.rstrip("s") for part in found}
