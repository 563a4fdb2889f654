"""Every test has its own cache folder."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from rankloop.types import Split


@pytest.fixture(autouse=True)
def cache_folder(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path_factory.mktemp("cache")
    monkeypatch.setenv("RANKLOOP_CACHE", str(folder))
    return folder


@pytest.fixture
def write(tmp_path: Path) -> Callable[[str, str], Path]:
    def write_text(name: str, text: str) -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    return write_text


@pytest.fixture
def as_text() -> Callable[[Split], str]:
    """SVMlight text of a split; repr of a float32 as float64 is read back as the same float32."""

    def text_of(split: Split) -> str:
        lines = []
        for q in range(split.n_queries):
            for d in range(split.offsets[q], split.offsets[q + 1]):
                features = " ".join(
                    f"{f + 1}:{float(x)!r}" for f, x in enumerate(split.features[d]) if x != 0
                )
                comment = "" if split.doc_ids is None else f" #docid = {split.doc_ids[d]} inc = 1"
                lines.append(f"{float(split.labels[d])!r} qid:{split.query_ids[q]} {features}{comment}\n")
        return "".join(lines)

    return text_of
