from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from rankloop.data import letor, load_split
from rankloop.errors import DataError
from rankloop.types import Split

Write = Callable[[str, str], Path]
TEXT = "2 qid:é 1:0.5 2:1 #docid = A\n0 qid:é 1:2 #docid = Bé\n1 qid:2 2:3 #docid = C\n"


@pytest.fixture
def parses(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The files that were parsed, in order."""
    seen: list[Path] = []
    parse = letor.read_svmlight

    def counted(path: Path, sizes: Path | None) -> Split:
        seen.append(path)
        return parse(path, sizes)

    monkeypatch.setattr(letor, "read_svmlight", counted)
    return seen


def same(a: Split, b: Split) -> bool:
    return all(
        np.array_equal(getattr(a, name), getattr(b, name))
        for name in ("features", "labels", "offsets", "query_ids", "doc_ids")
    )


def test_the_same_content_is_parsed_once(write: Write, parses: list[Path]) -> None:
    first = load_split(write("a.txt", TEXT))
    second = load_split(write("elsewhere/b.txt", TEXT))
    assert len(parses) == 1
    assert same(first, second)
    assert second.query_ids.tolist() == ["é", "2"]


def test_changed_content_is_parsed_again(write: Write, parses: list[Path]) -> None:
    load_split(write("a.txt", TEXT))
    assert load_split(write("a.txt", TEXT.replace("2 qid", "3 qid"))).labels[0] == 3
    assert len(parses) == 2


def test_query_sizes_are_part_of_the_content(write: Write, parses: list[Path]) -> None:
    path = write("rank.train", "1 1:1\n0 1:2\n")
    write("rank.train.query", "2\n")
    assert load_split(path).n_queries == 1
    write("rank.train.query", "1\n1\n")
    assert load_split(path).n_queries == 2
    assert len(parses) == 2


def test_a_new_parser_version_ignores_old_entries(
    write: Write, parses: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write("a.txt", TEXT)
    load_split(path)
    monkeypatch.setattr(letor, "PARSER_VERSION", letor.PARSER_VERSION + 1)
    load_split(path)
    assert len(parses) == 2


def test_the_cache_can_be_disabled(write: Write, parses: list[Path], cache_folder: Path) -> None:
    path = write("a.txt", TEXT)
    load_split(path, cache=False)
    load_split(path, cache=False)
    assert len(parses) == 2
    assert not list(cache_folder.iterdir())


def flip_last_feature(content: bytes) -> bytes:
    at = content.index(np.float32(3).tobytes())
    return content[: at + 2] + b"\x41" + content[at + 3 :]


@pytest.mark.parametrize(
    "damage",
    [lambda c: c[: len(c) // 2], lambda _: b"", lambda _: b"no safetensors at all", flip_last_feature],
    ids=["half", "empty", "foreign", "one byte"],
)
def test_a_damaged_entry_is_replaced(
    write: Write, parses: list[Path], cache_folder: Path, damage: Callable[[bytes], bytes]
) -> None:
    path = write("a.txt", TEXT)
    whole = load_split(path)
    (entry,) = cache_folder.iterdir()
    content = entry.read_bytes()
    assert damage(content) != content
    entry.write_bytes(damage(content))
    assert same(load_split(path), whole)
    assert len(parses) == 2
    assert same(load_split(path), whole)
    assert len(parses) == 2
    assert list(cache_folder.iterdir()) == [entry]


def test_an_unwritable_folder_disables_the_cache(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    # A file where the folder should be: even root cannot write below it.
    monkeypatch.setenv("RANKLOOP_CACHE", str(write("in-the-way", "") / "cache"))
    assert load_split(write("a.txt", TEXT)).n_documents == 3


def test_a_failed_write_leaves_no_partial_file(
    write: Write, cache_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError("no space left on device")

    monkeypatch.setattr(Path, "replace", full)
    assert load_split(write("a.txt", TEXT)).n_documents == 3
    assert not list(cache_folder.iterdir())


def test_an_invalid_file_leaves_no_entry(write: Write, cache_folder: Path) -> None:
    with pytest.raises(DataError):
        load_split(write("a.txt", TEXT + "x\n"))
    assert not list(cache_folder.iterdir())


def test_the_location_of_the_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANKLOOP_CACHE", "/a")
    monkeypatch.setenv("XDG_CACHE_HOME", "/b")
    monkeypatch.setenv("HOME", "/c")
    assert letor.cache_folder() == Path("/a")
    monkeypatch.delenv("RANKLOOP_CACHE")
    assert letor.cache_folder() == Path("/b/rankloop")
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert letor.cache_folder() == Path("/c/.cache/rankloop")
