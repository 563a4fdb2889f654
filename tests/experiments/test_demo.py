"""The demonstration in one folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from rankloop.errors import DataError, RankloopError
from rankloop.experiments import demo
from rankloop.experiments.report import report_document
from rankloop.experiments.results import find_results, read_rows
from rankloop.experiments.spec import RunSpec
from rankloop.progress import Update
from rankloop.reports.html import html_page
from tests.experiments.interruption import InterruptedRunError, interrupt_after

SPEC = RunSpec(data="synthetic(queries=30, features=3)", horizon=1000, interventions=2, seed=2)


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a demonstration."""
    folder = tmp_path_factory.mktemp("shown")
    seen: list[Update] = []
    runs, page = demo.demonstrate(SPEC, folder, demo.set_up(SPEC, folder, seen.append))
    assert list(runs) == ["loop", "pdgd", "static"]
    assert page == folder / "report.html"
    # What all runs share is trained once.
    assert list(dict.fromkeys(update.task for update in seen)) == ["starting policy", "oracle"]
    return folder


def test_three_runs_and_a_report(shown: Path) -> None:
    assert sorted(path.name for path in shown.iterdir()) == ["loop", "pdgd", "report.html", "static"]
    loop, pdgd, static = runs = find_results([shown])
    assert len({run.facts.model_dump_json() for run in runs}) == 1
    assert loop.spec == SPEC
    assert (pdgd.spec.method, pdgd.spec.times) == ("pdgd", SPEC.times)
    assert (static.spec.estimator, static.spec.times) == (SPEC.estimator, SPEC.times)
    assert static.spec.intervention_times == ()
    assert [len(run.rows) for run in runs] == [3, 3, 3]
    # `rankloop report` makes the same page again.
    assert (shown / "report.html").read_text(encoding="utf-8") == html_page(report_document(runs))


def test_an_interrupted_demo_resumes(shown: Path, tmp_path: Path) -> None:
    shared = demo.set_up(SPEC, tmp_path)
    with pytest.raises(InterruptedRunError):
        demo.demonstrate(SPEC, tmp_path, shared, interrupt_after(4))
    assert not (tmp_path / "report.html").exists()
    demo.demonstrate(SPEC, tmp_path, demo.set_up(SPEC, tmp_path))
    for name in ("loop", "pdgd", "static"):
        assert read_rows(tmp_path / name) == read_rows(shown / name)


def test_a_demo_that_is_done_is_not_done_again(shown: Path) -> None:
    before = (shown / "report.html").read_bytes()
    happened: list[Update] = []
    shared = demo.set_up(SPEC, shown, happened.append)
    demo.demonstrate(SPEC, shown, shared, happened.append)
    assert happened == []
    assert (shown / "report.html").read_bytes() == before


def test_another_demo_in_the_same_folder_is_refused(shown: Path) -> None:
    with pytest.raises(RankloopError, match=r"loop holds another run \(its horizon is 1000, not 3000\)"):
        demo.set_up(SPEC.model_copy(update={"horizon": 3000}), shown)


def test_data_that_is_not_there_leaves_no_folder(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="does not exist"):
        demo.set_up(SPEC.model_copy(update={"data": "nowhere"}), tmp_path / "demo")
    assert list(tmp_path.iterdir()) == []
