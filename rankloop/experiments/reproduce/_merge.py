"""Merge reproductions: the runs of several machines or nights become one set of results."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rankloop.errors import RankloopError
from rankloop.experiments.reproduce.about import ABOUT, About, MergedPart
from rankloop.experiments.reproduce.reproduction import DURATION, Reproduction, write_outcome
from rankloop.experiments.reproduce.schedule import arms
from rankloop.experiments.reproduce.table import TableRow, arm_of, evidence_of, read_table, write_table
from rankloop.experiments.reproduce.tracker import read_seconds, write_seconds
from rankloop.storage.files import check_writable
from rankloop.storage.locks import hold_folder

# The rows of one run, in the order of their times.
RunRows = list[TableRow]


def merge(folders: Sequence[Path], out: Path) -> Reproduction:
    """Merge the results of several reproductions, and make figures, claims and report from all of them.

    Only the description and the table of each folder are read, not its runs, so a merged folder is small and
    can be merged again. The result lists the runs that a complete reproduction still lacks.

    Args:
        folders: the reproductions: the same preset, version and data; seeds and figures may differ. A run
            that is in several of them must have exactly the same results in each.
        out: where to write: a new folder, or one that was merged before.

    Raises:
        RankloopError: they do not belong together, or the same run differs; nothing is written then.
    """
    if not folders:
        raise RankloopError("there is nothing to merge: name the folders of at least one reproduction")
    parts = [About.read(folder) for folder in folders]
    about = parts[0]
    for folder, part in zip(folders[1:], parts[1:], strict=True):
        if difference := part.difference(about):
            raise RankloopError(f"{folder} does not belong to {folders[0]}: {difference}")
        about = about.joined(part)
    runs = _merge_runs(folders)
    merged = _unique([one for each in zip(folders, parts, strict=True) for one in _parts(*each)])
    about = about.model_copy(update={"merged": merged})
    _check_out(out)
    figures = about.shown_figures()
    order = {arm: place for place, arm in enumerate(arms(figures))}

    def place(rows: RunRows) -> tuple[int, str, int]:
        arm = arm_of(rows[0])
        return order.get(arm, len(order)), arm.name, rows[0]["seed"]

    ordered = sorted(runs.values(), key=place)
    rows = [row for own in ordered for row in own]
    seconds = sum(part.seconds for part in merged)
    with hold_folder(out):
        write_table(rows, out)
        write_seconds(out / DURATION, seconds)
        done = write_outcome(out, about, figures, evidence_of(rows), seconds)
        # Last: a folder with a description has everything else.
        about.write(out)
    return done


def _merge_runs(folders: Sequence[Path]) -> dict[str, RunRows]:
    """The rows of every run by its name."""
    runs: dict[str, RunRows] = {}
    source: dict[str, Path] = {}
    for folder in folders:
        own: dict[str, RunRows] = {}
        for row in read_table(folder):
            own.setdefault(row["run"], []).append(row)
        for name, rows in own.items():
            if name in runs and runs[name] != rows:
                raise RankloopError(
                    f"{source[name]} and {folder} both hold the run {name}, with different results "
                    f"({_difference(runs[name], rows)}): leave one of the two folders out"
                )
            runs.setdefault(name, rows)
            source.setdefault(name, folder)
    return runs


def _difference(one: RunRows, other: RunRows) -> str:
    """Where two versions of a run differ first."""
    if len(one) != len(other):
        return f"{len(one)} and {len(other)} rows"
    column, a, b = next(
        (column, left, right) for left, right in zip(one, other, strict=True) for column in left
        if left[column] != right.get(column)
    )  # fmt: skip
    return f"{column} is {a[column]} and {b.get(column)} at {a['impressions']:,} impressions"


def _parts(folder: Path, about: About) -> Sequence[MergedPart]:
    if about.merged:
        return about.merged
    seconds = read_seconds(folder / DURATION)
    return [MergedPart(seeds=about.seeds, figures=about.figures, versions=about.versions, seconds=seconds)]


def _unique(parts: Sequence[MergedPart]) -> tuple[MergedPart, ...]:
    """The parts, each once: a folder may be merged again together with one that it is a part of."""
    unique: list[MergedPart] = []
    for part in parts:
        if part not in unique:
            unique.append(part)
    return tuple(unique)


def _check_out(out: Path) -> None:
    check_writable(out / ABOUT)
    if (out / ABOUT).exists() and not About.read(out).merged:
        raise RankloopError(f"{out} holds a reproduction with its runs: merge into another folder")
