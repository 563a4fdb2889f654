"""What another command reads is read back before it takes its place."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import rankloop
from rankloop.errors import RankloopError
from rankloop.logs.writer import LogWriter
from rankloop.models import Linear
from rankloop.storage.files import replace_folder, write_folder, write_whole
from tests.offline.worlds_of_logs import Simulated, simulated

PACKAGE = Path(rankloop.__file__).parent
# Files that people and other programs read, or that a program renews if it cannot read them.
NOT_READ_BACK = {
    "cli/reference.py": "a page",
    "reports/html.py": "a page",
    "offline/_rank.py": "rankings as text",
    "offline/_relevance.py": "judgments, for other programs",
    "exchange/formats.py": "read back when it is made, in write_model; the features' file is for the engine",
    "logs/importers/mapping.py": "a proposal that people complete",
    "live/backup.py": "opened as a store before it takes its place",
    "live/sealing.py": "the manifest is for people",
    "experiments/reproduce/plots.py": "figures",
    "experiments/reproduce/about.py": "how long the runs took, for people",
    "experiments/reproduce/results.py": "for people; a reproduction reads the folders of its runs",
    "experiments/reproduce/reproduction.py": "a page, and the same as JSON",
}
WRITERS = {"write_whole", "replace_file", "replace_folder", "write_folder"}


def refuse(path: Path) -> None:
    raise ValueError(f"{path}: the third line is wrong\nwith more below")


def test_a_file_that_cannot_be_read_back_changes_nothing(tmp_path: Path) -> None:
    path = write_whole(tmp_path / "file", b"old", read_back=Path.read_bytes)
    with pytest.raises(RankloopError, match=r"file is not written, .*: file: the third line is wrong"):
        write_whole(path, b"new", read_back=refuse)
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_folder_that_cannot_be_read_back_leaves_nothing_behind(tmp_path: Path) -> None:
    path = tmp_path / "new" / "folder"
    with pytest.raises(RankloopError, match="could not be read again: folder: the third line is wrong"):
        write_folder(path, {"a": b"1"}, read_back=refuse)
    with (
        pytest.raises(RankloopError, match="could not be read again"),
        replace_folder(path, read_back=refuse),
    ):
        pass
    assert list(tmp_path.iterdir()) == []


def calls(file: Path) -> Iterator[ast.Call]:
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in WRITERS:
            yield node


def test_every_other_writer_reads_back() -> None:
    without = {
        file.relative_to(PACKAGE).as_posix()
        for file in PACKAGE.rglob("*.py")
        for call in calls(file)
        if "read_back" not in {keyword.arg for keyword in call.keywords}
    }
    assert without == set(NOT_READ_BACK)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Simulated:
    return simulated(tmp_path_factory.mktemp("read_back") / "log", queries=12, impressions=3_000)


class Cut(Linear):
    """A model whose file ends too early."""

    def to_bytes(self) -> bytes:
        return super().to_bytes()[:-1]


def test_a_model_that_no_command_reads_is_not_stored(world: Simulated, tmp_path: Path) -> None:
    fit = world.log.fit("linear", bias="paper@2")
    fit.save(tmp_path / "policy")
    before = {file.name: file.read_bytes() for file in (tmp_path / "policy").iterdir()}
    cut = Cut(fit.model.n_features, np.zeros(fit.model.n_features + 1))
    reason = r"is not written.*model.*is damaged \(its length is wrong\)"
    with pytest.raises(RankloopError, match=f"policy {reason}"):
        replace(fit, model=cut).save(tmp_path / "policy")
    with pytest.raises(RankloopError, match=f"alone {reason}"):
        rankloop.save(cut, tmp_path / "alone")
    assert {file.name: file.read_bytes() for file in (tmp_path / "policy").iterdir()} == before
    assert [path.name for path in tmp_path.iterdir()] == ["policy"]


def test_rankings_that_cannot_be_evaluated_are_not_stored(world: Simulated, tmp_path: Path) -> None:
    rankings = world.log.rank(Linear(3, np.array([1.0, 0.0, 0.0, 0.0])))
    rankings.save(tmp_path / "good.parquet")
    huge = replace(rankings, scores=rankings.scores * 1e300)
    with pytest.raises(RankloopError, match=r"bad.parquet is not written.*bad.parquet: .*the score is"):
        huge.save(tmp_path / "bad.parquet")
    assert [path.name for path in tmp_path.iterdir()] == ["good.parquet"]


def test_a_log_that_lost_rows_is_not_written(tmp_path: Path) -> None:
    row = {"impression_id": ["1"], "timestamp": [None], "query_id": ["q"], "policy_id": ["a"]}
    row |= {"position": [1], "doc_id": ["x"], "clicked": [True]}
    cut = pytest.raises(RankloopError, match=r"log is not written.*impressions.parquet has 1 of 2 rows")
    with cut, LogWriter(tmp_path / "log") as writer:
        writer.write("impressions", row)
        writer._rows["impressions"] += 1
    empty = pytest.raises(RankloopError, match=r"log is not written.*is not a log")
    with empty, LogWriter(tmp_path / "log"):
        pass
    assert list(tmp_path.iterdir()) == []
