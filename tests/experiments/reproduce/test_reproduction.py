"""A reproduction as a folder: what is in it, and that one that was killed resumes to the same end."""

from __future__ import annotations

import csv
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from pyarrow import parquet

from rankloop.errors import RankloopError
from rankloop.experiments.reproduce import FIGURES, plan, plots, reproduce, reproduction
from rankloop.experiments.reproduce.claims import CLAIMS
from rankloop.experiments.reproduce.executors import local
from rankloop.experiments.reproduce.figures import CurvesFigure, learned_and_logging
from rankloop.experiments.reproduce.presets import Arm
from rankloop.experiments.reproduce.results import TableRow
from rankloop.experiments.results import RunResult, find_results
from rankloop.experiments.run import Run
from rankloop.experiments.setup import Setup, read_facts
from rankloop.experiments.summary import Mean
from rankloop.progress import Update
from tests.conftest import ROOT
from tests.experiments.interruption import InterruptedRunError
from tests.experiments.reproduce.small import CURVES, FEW, TINY, made

RESULTS = ("results.csv", "results.parquet", "claims.json", "figures/curves.svg", "figures/example.png")


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A reproduction that was never interrupted."""
    folder = tmp_path_factory.mktemp("whole")
    made(folder)
    return folder


@pytest.fixture
def one_format(monkeypatch: pytest.MonkeyPatch) -> None:
    """Figures in one format are enough, and much faster."""
    monkeypatch.setattr(plots, "FORMATS", ("svg",))


def test_everything_is_in_the_folder(whole: Path) -> None:
    assert sorted(path.name for path in whole.iterdir()) == [
        "claims.json", "claims.md", "duration.json", "figures", "report.html", "reproduction.json",
        "results.csv", "results.parquet", "runs", "setups",
    ]  # fmt: skip
    about = json.loads((whole / "reproduction.json").read_text())
    assert about["preset"] == TINY.model_dump()
    assert about["data_fingerprint"] == read_facts(whole / "setups" / "seed-0").data_fingerprint
    assert (about["seeds"], about["figures"]) == ([0, 1], ["example", "curves"])
    assert {"rankloop", "python", "numpy", "numba"} < set(about["versions"])
    assert sorted(path.name for path in (whole / "figures").iterdir()) == sorted(
        f"{figure.name}.{kind}" for figure in FEW for kind in ("json", "pdf", "png", "svg")
    )
    for figure in FEW:
        content = (whole / "figures" / f"{figure.name}.json").read_text()
        assert type(figure).model_validate_json(content) == figure


def test_the_table_is_every_row_of_every_run(whole: Path) -> None:
    with (whole / "results.csv").open() as file:
        rows = list(csv.DictReader(file))
    runs = {run.name: run for run in find_results([whole / "runs"])}
    assert len(runs) == 3 * 2
    assert len(rows) == sum(len(run.rows) for run in runs.values())
    facts = read_facts(whole / "setups" / "seed-1")
    own = [row for row in rows if row["run"] == "affine-4/seed-1"]
    assert [float(row["learned"]) for row in own] == [row.learned for row in runs["affine-4/seed-1"].rows]
    assert {(row["learner"], row["interventions"], row["seed"]) for row in own} == {("affine", "4", "1")}
    for name in ("random", "start", "supervised", "oracle"):
        assert {float(row[name]) for row in own} == {getattr(facts, name)}
    assert facts == runs["affine-4/seed-1"].facts
    table = parquet.read_table(whole / "results.parquet").to_pylist()
    assert [str(row["learned"]) for row in table] == [row["learned"] for row in rows]


def test_runs_that_ended_keep_no_checkpoint_and_are_not_made_again(
    whole: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert not list(whole.rglob("checkpoint.rankloop"))
    before = {path: path.read_bytes() for path in whole.rglob("*") if path.name in RESULTS}
    monkeypatch.setattr(Run, "_run", None)
    monkeypatch.setattr(Setup, "build", None)
    planned = plan(TINY, FEW, whole)
    assert planned.unfinished == ()
    assert "(6 of them finished before)" in str(planned)
    reproduce(planned)
    assert {path: path.read_bytes() for path in before} == before


def test_claims_and_report_tell_all(whole: Path) -> None:
    judged = json.loads((whole / "claims.json").read_text())
    assert [one["name"] for one in judged] == [claim.name for claim in CLAIMS]
    page, report = (whole / "claims.md").read_text(), (whole / "report.html").read_text()
    for one in judged:
        assert f"## {one['name']}\n" in page
        assert f" {one['name']} | {one['outcome']} | {one['where']} | " in page
        assert f"{one['name']}: {one['outcome']}" in report
        # What does not hold is explained.
        assert (one["cause"] in page) == (one["outcome"] == "does not hold")
    assert "rankloop reproduce 'synthetic(queries=60, features=5)'" in page
    # Runs of other figures were not made, and that is said.
    assert "coltr(remainder=logging, variance=0.447)-online was not run" in page
    assert report.count("data:image/svg+xml;base64,") == 2


KILLED = """
import os, sys
from pathlib import Path
from rankloop.experiments.reproduce import plan, reproduce
from tests.experiments.reproduce.small import FEW, TINY
planned = plan(TINY, FEW, Path(sys.argv[1]))
reproduce(planned, progress=lambda update: update.detail and print(update.note, flush=True))
"""


@pytest.mark.long
def test_killed_and_resumed_equals_never_killed(whole: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-c", KILLED, str(tmp_path)]
    with subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, env={**os.environ, "PYTHONPATH": str(ROOT)}
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline()
        time.sleep(0.1)  # somewhere in the middle of the next
        process.send_signal(signal.SIGKILL)
        assert process.wait() == -signal.SIGKILL
    assert not (tmp_path / "claims.json").exists()
    # What there was is in the table already.
    assert len((tmp_path / "results.csv").read_text().splitlines()) > 3
    made(tmp_path)
    for name in RESULTS:
        assert (tmp_path / name).read_bytes() == (whole / name).read_bytes(), name


def test_interrupted_and_resumed_equals_uninterrupted(whole: Path, tmp_path: Path) -> None:
    planned = plan(TINY, FEW, tmp_path)

    def interrupt(update: Update) -> None:
        if update.detail is not None:
            raise InterruptedRunError

    with pytest.raises(InterruptedRunError):
        reproduce(planned, local, interrupt)
    again = plan(TINY, FEW, tmp_path)
    assert 0 < len(again.unfinished) < len(again.jobs)
    reproduce(again)
    for name in RESULTS:
        assert (tmp_path / name).read_bytes() == (whole / name).read_bytes(), name


@pytest.mark.usefixtures("one_format")
def test_more_runs_and_figures_may_be_added(whole: Path, tmp_path: Path) -> None:
    one = TINY.model_copy(update={"runs": 1})
    made(tmp_path, FIGURES["example"], preset=one)
    assert not (tmp_path / "runs").exists()
    made(tmp_path, CURVES, preset=one)
    made(tmp_path)
    assert (tmp_path / "results.csv").read_bytes() == (whole / "results.csv").read_bytes()


@pytest.mark.usefixtures("one_format")
def test_parts_of_the_seeds_add_up_to_the_whole(whole: Path, tmp_path: Path) -> None:
    reproduce(plan(TINY, [CURVES], tmp_path, seeds=[1]))
    about = json.loads((tmp_path / "reproduction.json").read_text())
    assert (about["seeds"], about["preset"]["runs"]) == ([1], 2)
    page = (tmp_path / "claims.md").read_text()
    assert "- runs not made: intervention-aware-0: seed 0; affine-4: seed 0; pdgd-online: seed 0\n" in page
    assert "--runs 2 --seeds 1" in page
    planned = plan(TINY, [CURVES], tmp_path, seeds=[0])
    assert {job.spec.seed for job in planned.unfinished} == {0}
    assert reproduce(planned).missing == {}
    for name in ("results.csv", "results.parquet", "claims.json", "figures/curves.svg"):
        assert (tmp_path / name).read_bytes() == (whole / name).read_bytes(), name


@pytest.mark.usefixtures("one_format")
def test_parts_of_the_learners_add_up_to_the_whole(whole: Path, tmp_path: Path) -> None:
    done = reproduce(plan(TINY, [CURVES], tmp_path, learners=["affine-4"]))
    assert done.missing == {"intervention-aware-0": "0-1", "pdgd-online": "0-1"}
    assert reproduce(plan(TINY, [CURVES], tmp_path)).missing == {}
    for name in ("results.csv", "results.parquet", "claims.json", "figures/curves.svg"):
        assert (tmp_path / name).read_bytes() == (whole / name).read_bytes(), name


@pytest.mark.usefixtures("one_format")
def test_figures_that_are_added_keep_the_rows_of_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = CurvesFigure(
        name="one", caption="One learner.", panels=learned_and_logging(CURVES.panels[0].lines[1])
    )
    monkeypatch.setitem(FIGURES, "curves", CURVES)
    monkeypatch.setitem(FIGURES, "one", one)
    preset = TINY.model_copy(update={"runs": 1})
    made(tmp_path, CURVES, preset=preset)
    before = (tmp_path / "results.csv").read_bytes()
    made(tmp_path, one, preset=preset)
    assert (tmp_path / "results.csv").read_bytes() == before
    assert json.loads((tmp_path / "reproduction.json").read_text())["figures"] == ["curves", "one"]


def test_only_seeds_of_the_preset_can_be_made(tmp_path: Path) -> None:
    with pytest.raises(
        RankloopError, match=r"--seeds 2-3 is beyond --runs 2, whose seeds are 0-1: make more runs"
    ):
        plan(TINY, FEW, tmp_path, seeds=[1, 2, 3])
    assert not list(tmp_path.iterdir())


def test_a_folder_of_another_reproduction_is_left_alone(whole: Path) -> None:
    before = (whole / "reproduction.json").read_bytes()
    with pytest.raises(RankloopError, match=r"holds another reproduction \(its horizon is 1000, not 2000\)"):
        plan(TINY.model_copy(update={"horizon": 2_000}), [FIGURES["example"]], whole)
    assert (whole / "reproduction.json").read_bytes() == before


@pytest.mark.usefixtures("one_format")
def test_progress_goes_up_to_one_and_names_every_run(tmp_path: Path) -> None:
    updates: list[Update] = []
    preset = TINY.model_copy(update={"runs": 1})
    planned = plan(preset, [CURVES], tmp_path)
    reproduce(planned, progress=updates.append)
    assert max(update.share or 0.0 for update in updates) == pytest.approx(1.0)
    finished = [update for update in updates if update.milestone]
    assert {update.detail for update in finished} == set(planned.jobs)
    assert [update.note.split(",")[0] for update in finished] == ["1 of 3 runs", "2 of 3 runs", "3 of 3 runs"]


@pytest.mark.usefixtures("one_format")
def test_a_run_that_finishes_is_read_once_and_no_other_is_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[str] = []
    rows = reproduction.table_rows

    def counted(name: str, arm: Arm, result: RunResult) -> list[TableRow]:
        read.append(name)
        return rows(name, arm, result)

    monkeypatch.setattr(reproduction, "table_rows", counted)
    planned = plan(TINY.model_copy(update={"runs": 1}), [CURVES], tmp_path)
    reproduce(planned)
    assert sorted(read) == sorted(job.name for job in planned.jobs)


def test_what_takes_longest_comes_first_within_a_seed(tmp_path: Path) -> None:
    planned = plan(TINY, [FIGURES["pdgd"], FIGURES["estimators"]], tmp_path)
    assert [job.spec.seed for job in planned.jobs] == [0] * 10 + [1] * 10
    first = [job.arm.name for job in planned.jobs[:10]]
    assert first[:3] == ["pdgd-100", "pdgd-online", "pdgd-0"]
    assert all(name.endswith("-50") for name in first[3:7])
    assert all(name.endswith("-0") for name in first[7:])


def test_differences_between_learners_are_on_the_page(whole: Path) -> None:
    page = (whole / "report.html").read_text()
    assert "Paired differences: NDCG@5 of the learned policies" in page
    rows = {row["run"]: row["learned"] for row in parquet.read_table(whole / "results.parquet").to_pylist()}
    gaps = [rows[f"affine-4/seed-{seed}"] - rows[f"intervention-aware-0/seed-{seed}"] for seed in (0, 1)]
    assert f"{Mean.of(gaps):+}" in page
    assert "PDGD" in page


def test_an_outcome_is_a_frame_of_all_evaluations(whole: Path) -> None:
    frame = made(whole).to_arrow()
    assert frame.equals(parquet.read_table(whole / "results.parquet"))
