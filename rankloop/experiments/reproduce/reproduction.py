"""A reproduction as a folder: what was asked for, all runs, and what comes of them.

reproduction.json       preset, seeds, figures, versions of everything
setups/seed-…/          starting policy, full information, and their values
runs/<arm>/seed-…/      one run: see `rankloop.experiments.results`
results.csv, .parquet   all evaluations, one tidy table
figures/                SVG, PDF, PNG, and each figure's spec
claims.md, claims.json  claim by claim
report.html             all of it on one page
"""

from __future__ import annotations

import json
import os
import platform
import shlex
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

from rankloop._version import __version__
from rankloop.errors import RankloopError
from rankloop.experiments.reproduce import table
from rankloop.experiments.reproduce.claims import CLAIMS, Judged, judge
from rankloop.experiments.reproduce.costs import Costs, in_words, measure
from rankloop.experiments.reproduce.executors import SETUPS, Executor, local, seeds_of, setup_name
from rankloop.experiments.reproduce.figures import AnyFigure
from rankloop.experiments.reproduce.plots import write_figure
from rankloop.experiments.reproduce.presets import Preset
from rankloop.experiments.reproduce.report import FigureFiles, claims_document
from rankloop.experiments.reproduce.schedule import Job, jobs
from rankloop.experiments.reproduce.seed_setups import SeedSetups
from rankloop.experiments.results import read_json
from rankloop.ragged import threads
from rankloop.reports.html import write_page
from rankloop.reports.markdown import markdown_page
from rankloop.storage.files import check_writable, write_whole

ABOUT, FIGURES = "reproduction.json", "figures"
CLAIMS_PAGE, CLAIMS_JSON, REPORT, DURATION = "claims.md", "claims.json", "report.html", "duration.json"
# What results may depend on.
PACKAGES = ("numpy", "numba", "scipy", "scikit-learn", "lightgbm", "matplotlib", "pydantic")

# Told what is done of everything, from 0 to 1, and the name of a run that has just come to its end.
Watch = Callable[[float, str | None], None]


@dataclass(frozen=True)
class Reproduction:
    """What came of it.

    Attributes:
        folder: where everything is.
        judged: the claims, in the order of the paper.
        seconds: how long it took, over all the times that it was gone on with.
    """

    folder: Path
    judged: tuple[Judged, ...]
    seconds: float


@dataclass(frozen=True, eq=False)
class Plan:
    """What is to be done.

    Attributes:
        preset: how large.
        figures: which.
        folder: where.
        jobs: all runs, those that take longest first within a seed.
        left: the runs that are not made yet.
        seeds_left: the seeds that are not set up yet.
        seed_setups: the data, and what runs stand on; None if there are no runs.
        costs: what things take; None likewise.
    """

    preset: Preset
    figures: tuple[AnyFigure, ...]
    folder: Path
    jobs: tuple[Job, ...]
    left: tuple[Job, ...]
    seeds_left: tuple[int, ...]
    seed_setups: SeedSetups | None
    costs: Costs | None

    @property
    def seconds(self) -> float:
        """About how long it will take on this machine."""
        return 0.0 if self.costs is None else self.costs.together(self.left, self.seeds_left, threads())

    def __str__(self) -> str:
        names = ", ".join(figure.name for figure in self.figures)
        if not self.jobs:
            return f"{names}: no runs are needed"
        arms = len({job.arm for job in self.jobs})
        made = len(self.jobs) - len(self.left)
        there = f" ({made} of them made before)" if made else ""
        return (
            f"{names}: {arms} learners × {self.preset.runs} runs = {len(self.jobs)} runs{there} on "
            f"{self.preset.data}, up to {self.preset.horizon:,} logged queries; "
            f"about {in_words(self.seconds)} on {threads()} cores"
        )


def plan(preset: Preset, figures: Sequence[AnyFigure], folder: Path) -> Plan:
    """Load the data, see what there is to do, and measure about how long it will take.

    Args:
        preset: how large, and on what.
        figures: which to make.
        folder: where; one that was begun is gone on with.

    Raises:
        RankloopError: the folder holds another reproduction, or cannot be written to.
    """
    check_writable(folder / ABOUT)
    _check_same(preset, folder)
    wanted = jobs(figures, preset)
    seed_setups = SeedSetups(preset, folder / SETUPS) if wanted else None
    write_whole(folder / ABOUT, json.dumps(_about(preset, figures), indent=2).encode())
    if seed_setups is None:
        return Plan(preset, tuple(figures), folder, (), (), (), None, None)
    costs = measure(*seed_setups.world, wanted)
    # Longest first: what is left at the end is short, and no core waits for the others for long.
    ordered = sorted(wanted, key=lambda job: (job.spec.seed, -costs.run(job)))
    return Plan(
        preset,
        tuple(figures),
        folder,
        tuple(ordered),
        tuple(job for job in ordered if not table.is_made(job, folder)),
        tuple(seed for seed in seeds_of(wanted) if not seed_setups.is_laid(seed)),
        seed_setups,
        costs,
    )


def reproduce(planned: Plan, engine: Executor = local, watch: Watch | None = None) -> Reproduction:
    """Make the runs, going on where an earlier call was cut; then the figures, the claims and the report.

    Args:
        planned: what `plan` gave.
        engine: where runs are made.
        watch: told of progress; it is called from several threads.
    """
    folder, by_paper = planned.folder, _as_planned(planned)
    clock = _Clock(folder / DURATION)
    if planned.seed_setups is not None:
        progress = _Progress(planned, clock, watch)
        engine(planned.jobs, planned.seed_setups, folder, progress.tell)
        table.write_table(table.tidy(by_paper, folder), folder)
    evidence = table.read_evidence(by_paper, folder)
    for figure in planned.figures:
        write_figure(figure, evidence, folder / FIGURES)
    judged = tuple(judge(claim, evidence) for claim in CLAIMS)
    content = json.dumps([one.model_dump() for one in judged], indent=2, ensure_ascii=False)
    write_whole(folder / CLAIMS_JSON, content.encode())
    seconds = clock.stop()
    about = _in_words(planned, seconds)
    write_whole(folder / CLAIMS_PAGE, markdown_page(claims_document(judged, about)).encode())
    drawn = FigureFiles(planned.figures, evidence, folder / FIGURES)
    write_page(claims_document(judged, about, drawn), folder / REPORT)
    return Reproduction(folder, judged, seconds)


class _Clock:
    """How long a reproduction has taken, over all the times that it was gone on with."""

    def __init__(self, path: Path) -> None:
        self._path, self._begun = path, time.monotonic()
        self._before = float(read_json(path)["seconds"]) if path.exists() else 0.0

    def stop(self) -> float:
        """Write down how long it has taken so far."""
        seconds = self._before + time.monotonic() - self._begun
        write_whole(self._path, json.dumps({"seconds": seconds}).encode())
        return seconds


class _Progress:
    """How much is done of everything, by the time that it takes; the table is kept up to date."""

    def __init__(self, planned: Plan, clock: _Clock, watch: Watch | None) -> None:
        assert planned.costs is not None  # there are runs
        self._planned, self._clock, self._watch = planned, clock, watch
        self._ordered = _as_planned(planned)
        self._seconds = {job.name: planned.costs.run(job) for job in planned.left}
        self._seconds |= {setup_name(seed): planned.costs.seed_setups for seed in planned.seeds_left}
        self._shares = dict.fromkeys(self._seconds, 0.0)
        self._lock = threading.Lock()

    def tell(self, name: str, share: float) -> None:
        """Note how far a run has come; one that was made before says nothing new."""
        if name not in self._shares:
            return
        with self._lock:
            self._shares[name] = max(share, self._shares[name])
            done = sum(self._seconds[one] * part for one, part in self._shares.items())
            share_of_all = done / sum(self._seconds.values())
            ended = share >= 1.0 and table.is_made_by_name(name, self._planned.folder)
            if ended:
                table.write_table(table.tidy(self._ordered, self._planned.folder), self._planned.folder)
                self._clock.stop()
        if self._watch is not None:
            self._watch(share_of_all, name if ended else None)


def _as_planned(planned: Plan) -> list[Job]:
    """The runs as figures name them: results do not depend on what takes how long."""
    return jobs(planned.figures, planned.preset)


def _about(preset: Preset, figures: Sequence[AnyFigure]) -> dict[str, Any]:
    return {
        "version": __version__,
        "preset": preset.model_dump(),
        "seeds": list(preset.seeds),
        "figures": [figure.name for figure in figures],
        "versions": versions(),
    }


def versions() -> dict[str, str]:
    """What results may depend on."""
    return {
        "rankloop": __version__,
        "python": platform.python_version(),
        **{name: metadata.version(name) for name in PACKAGES},
        "machine": f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores",
    }


def _in_words(planned: Plan, seconds: float) -> dict[str, str]:
    preset = planned.preset
    return {
        "command": command(planned),
        "data": preset.data if preset.fold == 1 else f"{preset.data}, fold {preset.fold}",
        "size": f"{preset.runs} runs of each learner (seeds 0 to {preset.runs - 1}), "
        f"{preset.horizon:,} logged queries, measured at {len(preset.grid)} times",
        "learning": preset.learning,
        "took": f"{in_words(seconds)} on {threads()} cores",
        "versions": ", ".join(f"{name} {version}" for name, version in versions().items()),
    }


def command(planned: Plan) -> str:
    """The command line that makes this reproduction."""
    preset = planned.preset
    words = ["rankloop", "reproduce", preset.data, "--preset", preset.name, "--runs", str(preset.runs)]
    words += ["--horizon", str(preset.horizon), "--learning", preset.learning, "--fold", str(preset.fold)]
    words += ["--relevance", preset.relevance, "--out", planned.folder.name]
    for figure in planned.figures:
        words += ["--only", figure.name]
    return shlex.join(words)


def _check_same(preset: Preset, folder: Path) -> None:
    """A folder that was begun may get more runs or figures, and nothing else may differ."""
    if not (folder / ABOUT).exists():
        return
    content = read_json(folder / ABOUT)
    before = {"version": content["version"], **content["preset"]}
    asked = {"version": __version__, **preset.model_dump(mode="json")}
    for name, value in asked.items():
        if name != "runs" and before.get(name) != value:
            raise RankloopError(
                f"{folder} holds another reproduction (its {name} is {before.get(name)!r}, not {value!r}): "
                "choose another folder, or remove it"
            )
