"""The demonstration in one folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from rankloop.errors import DataError, RankloopError
from rankloop.experiments import demo
from rankloop.experiments.report import report_document
from rankloop.experiments.results import find_runs, read_rows
from rankloop.experiments.spec import RunSpec
from rankloop.reports.html import html_page
from rankloop.training import Epoch
from tests.experiments.cutting import CutError, cut_after

SPEC = RunSpec(data="synthetic(queries=30, features=3)", horizon=1000, interventions=2, seed=2)


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a demonstration."""
    folder = tmp_path_factory.mktemp("shown")
    seen: list[str] = []

    def preparing(name: str, _epoch: Epoch) -> None:
        seen.append(name)

    runs, page = demo.demonstrate(SPEC, folder, demo.begin(SPEC, folder, preparing))
    assert list(runs) == ["loop", "naive", "static"]
    assert page == folder / "report.html"
    # What all stand on is trained once.
    assert list(dict.fromkeys(seen)) == ["starting policy", "full information"]
    return folder


def test_three_runs_and_a_report(shown: Path) -> None:
    assert sorted(path.name for path in shown.iterdir()) == ["loop", "naive", "report.html", "static"]
    loop, naive, static = runs = find_runs([shown])
    assert len({run.facts.model_dump_json() for run in runs}) == 1
    assert loop.spec == SPEC
    assert (naive.spec.estimator, naive.spec.times) == ("naive", SPEC.times)
    assert (static.spec.estimator, static.spec.times) == (SPEC.estimator, (SPEC.horizon,))
    assert [len(run.rows) for run in runs] == [3, 3, 1]
    # `rankloop report` makes the same page again.
    assert (shown / "report.html").read_text(encoding="utf-8") == html_page(report_document(runs))


def test_a_demo_that_was_cut_goes_on(shown: Path, tmp_path: Path) -> None:
    shared = demo.begin(SPEC, tmp_path)
    with pytest.raises(CutError):
        demo.demonstrate(SPEC, tmp_path, shared, cut_after(4))
    assert not (tmp_path / "report.html").exists()
    demo.demonstrate(SPEC, tmp_path, demo.begin(SPEC, tmp_path))
    for name in ("loop", "naive", "static"):
        assert read_rows(tmp_path / name) == read_rows(shown / name)


def test_a_demo_that_is_done_is_not_done_again(shown: Path) -> None:
    before = (shown / "report.html").read_bytes()
    happened: list[str] = []
    shared = demo.begin(SPEC, shown, lambda name, _epoch: happened.append(name))
    demo.demonstrate(SPEC, shown, shared, lambda name, _event: happened.append(name))
    assert happened == []
    assert (shown / "report.html").read_bytes() == before


def test_another_demo_in_the_same_folder_is_refused(shown: Path) -> None:
    with pytest.raises(RankloopError, match=r"loop holds another run \(its horizon is 1000, not 3000\)"):
        demo.begin(SPEC.model_copy(update={"horizon": 3000}), shown)


def test_data_that_is_not_there_leaves_no_folder(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="does not exist"):
        demo.begin(SPEC.model_copy(update={"data": "nowhere"}), tmp_path / "demo")
    assert list(tmp_path.iterdir()) == []
