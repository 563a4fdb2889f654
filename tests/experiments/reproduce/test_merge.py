"""Results of several folders as one: equal to what one folder would have had, or refused."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from rankloop.errors import RankloopError
from rankloop.experiments.reproduce import FIGURES, merge, plan, plots, read_seeds, reproduce
from rankloop.experiments.reproduce.about import About
from rankloop.experiments.reproduce.figures import CurvesFigure
from rankloop.experiments.reproduce.results import read_table, write_table
from tests.experiments.reproduce.small import CURVES, TINY, made

# What follows from the results alone: not the description, which says how they came to be.
SAME = ("results.csv", "results.parquet", "claims.json", "figures/curves.svg")


@pytest.fixture(scope="module", autouse=True)
def known() -> Iterator[None]:
    """Merging finds figures by their names; one format is enough here."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setitem(FIGURES, "curves", CURVES)
        patched.setattr(plots, "FORMATS", ("svg",))
        yield


@pytest.fixture(scope="module")
def pieces(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A whole reproduction, and the same in two parts that overlap: they share one run."""
    folder = tmp_path_factory.mktemp("pieces")
    made(folder / "whole", CURVES)
    only_affine = CurvesFigure(
        name="curves",
        caption=CURVES.caption,
        panels=tuple(panel.model_copy(update={"lines": (panel.lines[1],)}) for panel in CURVES.panels),
    )
    reproduce(plan(TINY, [CURVES], folder / "first", seeds=[0]))
    reproduce(plan(TINY, [CURVES], folder / "second", seeds=[1]))
    reproduce(plan(TINY, [only_affine], folder / "affine", seeds=[0]))
    return {path.name: path for path in folder.iterdir()}


def test_parts_become_what_one_folder_would_have_been(pieces: dict[str, Path], tmp_path: Path) -> None:
    done = merge([pieces["second"], pieces["affine"], pieces["first"]], tmp_path / "out")
    assert done.missing == {}
    for name in SAME:
        assert (tmp_path / "out" / name).read_bytes() == (pieces["whole"] / name).read_bytes(), name
    about = About.read(tmp_path / "out")
    assert (about.seeds, about.preset, len(about.merged)) == ((0, 1), TINY, 3)
    assert done.seconds == pytest.approx(sum(part.seconds for part in about.merged))
    page = (tmp_path / "out" / "claims.md").read_text()
    assert "- seeds: 0-1, merged from 3 parts\n" in page


def test_the_table_and_the_description_are_enough_and_can_be_merged_again(
    pieces: dict[str, Path], tmp_path: Path
) -> None:
    small = tmp_path / "small"
    small.mkdir()
    for name in ("results.parquet", "reproduction.json"):
        shutil.copy(pieces["first"] / name, small / name)
    merge([small], out := tmp_path / "out")
    assert not (out / "runs").exists()
    missing = merge([out], out).missing
    assert missing == dict.fromkeys(("intervention-aware-0", "affine-4", "pdgd-online"), "1")
    merge([out, pieces["second"]], out)
    for name in SAME:
        assert (out / name).read_bytes() == (pieces["whole"] / name).read_bytes(), name
    # The part that was merged twice is listed once.
    assert [part.seeds for part in About.read(out).merged] == [(0,), (1,)]


def test_arms_with_different_seeds_are_compared_on_those_that_they_share(
    pieces: dict[str, Path], tmp_path: Path
) -> None:
    done = merge([pieces["affine"], pieces["second"]], tmp_path / "out")
    assert done.missing == {"intervention-aware-0": "0", "pdgd-online": "0"}
    page = (tmp_path / "out" / "claims.md").read_text()
    assert "- runs not made: intervention-aware-0: seed 0; pdgd-online: seed 0\n" in page


def change(folder: Path, out: Path, **fields: object) -> Path:
    """A copy of a folder whose description is another."""
    out.mkdir()
    shutil.copy(folder / "results.parquet", out)
    about = json.loads((folder / "reproduction.json").read_text())
    for name, value in fields.items():
        (about["preset"] if name in about["preset"] else about)[name] = value
    (out / "reproduction.json").write_text(json.dumps(about))
    return out


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("horizon", 2_000, "its horizon is 2000, not 1000"),
        ("temperature", 4.0, "its temperature is 4.0, not 1.0"),
        ("version", "0.0.9", "its version is '0.0.9'"),
        ("data", "synthetic(queries=61, features=5)", r"its data is 'synthetic\(queries=61, features=5\)'"),
    ],
)
def test_what_does_not_belong_together_is_refused(
    pieces: dict[str, Path], tmp_path: Path, field: str, value: object, message: str
) -> None:
    other = change(pieces["second"], tmp_path / "other", **{field: value})
    with pytest.raises(RankloopError, match=message):
        merge([pieces["first"], other], tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_data_of_files_is_compared_by_content_and_generated_data_by_name(
    pieces: dict[str, Path], tmp_path: Path
) -> None:
    """Another processor generates the same data but for the last digits, which changes its fingerprint."""
    generated = change(pieces["second"], tmp_path / "generated", data_fingerprint="another")
    assert merge([pieces["first"], generated], tmp_path / "out").missing == {}
    files = [
        change(pieces[name], tmp_path / name, data="MQ2008", data_fingerprint=f"of the {name}")
        for name in ("first", "second")
    ]
    with pytest.raises(RankloopError, match="its data fingerprint is 'of the second', not 'of the first'"):
        merge(files, tmp_path / "both")


def test_a_run_that_differs_is_refused(pieces: dict[str, Path], tmp_path: Path) -> None:
    other = change(pieces["first"], tmp_path / "other")
    rows = [dict(row) for row in read_table(other)]
    rows[0]["learned"] += 1e-15
    write_table(rows, other)
    with pytest.raises(RankloopError, match=r"both hold the run intervention-aware-0/seed-0, with different"):
        merge([pieces["first"], other], tmp_path / "out")
    write_table(rows[1:], other)
    with pytest.raises(RankloopError, match="4 and 3 rows"):
        merge([pieces["first"], other], tmp_path / "out")


def test_runs_are_neither_overwritten_nor_added_to_merged_results(
    pieces: dict[str, Path], tmp_path: Path
) -> None:
    with pytest.raises(RankloopError, match="with its runs: merge into another folder"):
        merge([pieces["first"]], pieces["second"])
    merge([pieces["first"]], tmp_path / "out")
    with pytest.raises(RankloopError, match="holds merged results without their runs"):
        plan(TINY, [CURVES], tmp_path / "out")


def test_folders_that_hold_nothing_are_refused(tmp_path: Path) -> None:
    with pytest.raises(RankloopError, match="nothing to merge"):
        merge([], tmp_path / "out")
    with pytest.raises(RankloopError, match=r"reproduction\.json cannot be read"):
        merge([tmp_path], tmp_path / "out")


def test_a_reproduction_without_results_is_refused(pieces: dict[str, Path], tmp_path: Path) -> None:
    (tmp_path / "reproduction.json").write_bytes((pieces["first"] / "reproduction.json").read_bytes())
    with pytest.raises(RankloopError, match=r"results\.parquet does not exist: name the folder of a reprod"):
        merge([tmp_path], tmp_path / "out")


@pytest.mark.parametrize("text", ["", "5-3", "a", "1,,2", "-1", "3-99999"])
def test_seeds_that_mean_nothing_are_refused(text: str) -> None:
    with pytest.raises(RankloopError, match="seeds are written as 3-5 or 3,7"):
        read_seeds(text)
