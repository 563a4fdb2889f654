"""The description of a reproduction, which is stored beside its results: ``reproduction.json``."""

from __future__ import annotations

import json
import math
import os
import platform
import shlex
from collections.abc import Mapping, Sequence
from importlib import metadata
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from rankloop._version import __version__
from rankloop.data.by_name import is_generated
from rankloop.experiments.files import read_model, read_object, write_json
from rankloop.experiments.reproduce.figures import DEFAULT_FIGURES, FIGURES, AnyFigure, arms
from rankloop.experiments.reproduce.presets import Preset, spell_seeds
from rankloop.experiments.reproduce.results import AllRuns
from rankloop.storage.files import write_whole

ABOUT, DURATION = "reproduction.json", "duration.json"
DATA_FINGERPRINT = "data_fingerprint"
# In seconds; durations below are not told apart.
MINUTE = 60
# Packages that results may depend on.
PACKAGES = ("numpy", "numba", "scipy", "scikit-learn", "matplotlib", "pydantic")


class MergedPart(BaseModel):
    """A folder whose results were merged into another.

    Attributes:
        seeds: the seeds of its runs.
        figures: the figures that it was made for.
        versions: the versions of everything that its results may depend on.
        seconds: how long its runs took.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    seeds: tuple[int, ...]
    figures: tuple[str, ...]
    versions: dict[str, str]
    seconds: float


class About(BaseModel):
    """What a folder holds.

    Attributes:
        version: the version of rankloop.
        preset: how large the reproduction is when it is complete.
        seeds: the seeds whose runs were asked for so far.
        figures: the names of the figures that were asked for so far.
        data_fingerprint: a name for the content of the data; None if no run was asked for.
        versions: the versions of everything that results may depend on.
        merged: the folders that it was merged from; empty if it holds its own runs.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    version: str
    preset: Preset
    seeds: tuple[int, ...]
    figures: tuple[str, ...]
    data_fingerprint: str | None
    versions: dict[str, str]
    merged: tuple[MergedPart, ...] = ()

    @classmethod
    def read(cls, folder: Path) -> About:
        """The description in a folder.

        Raises:
            RankloopError: there is none, or it is damaged.
        """
        return read_model(cls, folder / ABOUT)

    def write(self, folder: Path) -> None:
        """Write it to a folder."""
        write_json(folder / ABOUT, self.model_dump(mode="json"))

    def difference(self, other: About) -> str | None:
        """Why the runs of two reproductions do not belong together, in a few words; None if they do.

        Numbers of runs, seeds and figures may differ, and versions of other packages. So may the last digits
        of generated data, which depend on the processor: its name says what it is.
        """
        asked = other._identity()
        for name, value in self._identity().items():
            # Where no runs were asked for, the data is not known.
            known = name != DATA_FINGERPRINT or (value and asked[name])
            if known and value != asked[name]:
                return f"its {name.replace('_', ' ')} is {value!r}, not {asked[name]!r}"
        return None

    def joined(self, other: About) -> About:
        """The description of both: the seeds and figures of either, and the larger number of runs."""
        runs = max(self.preset.runs, other.preset.runs)
        return other.model_copy(
            update={
                "preset": other.preset.model_copy(update={"runs": runs}),
                "seeds": tuple(sorted({*self.seeds, *other.seeds})),
                "figures": tuple(dict.fromkeys((*self.figures, *other.figures))),
                "data_fingerprint": other.data_fingerprint or self.data_fingerprint,
            }
        )

    def shown_figures(self, asked: Sequence[AnyFigure] = ()) -> tuple[AnyFigure, ...]:
        """The figures to draw, those of the paper first: all that were asked for so far."""
        known = {**FIGURES, **DEFAULT_FIGURES, **{figure.name: figure for figure in asked}}
        return tuple(figure for name, figure in known.items() if name in self.figures)

    def _identity(self) -> dict[str, object]:
        fingerprint = None if is_generated(self.preset.data) else self.data_fingerprint
        return {
            "version": self.version,
            **self.preset.model_dump(mode="json", exclude={"runs"}),
            DATA_FINGERPRINT: fingerprint,
        }


def versions() -> dict[str, str]:
    """The versions of everything that results may depend on."""
    return {
        "rankloop": __version__,
        "python": platform.python_version(),
        **{name: metadata.version(name) for name in PACKAGES},
        "machine": f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores",
    }


def missing_runs(about: About, figures: Sequence[AnyFigure], evidence: AllRuns) -> dict[str, str]:
    """The runs of a complete reproduction that are not there: by learner, their seeds."""
    missing: dict[str, str] = {}
    for arm in arms(figures):
        made = evidence.learned[arm].seeds if arm in evidence.learned else ()
        if lacking := set(about.preset.seeds).difference(made):
            missing[arm.name] = spell_seeds(lacking)
    return missing


def describe(
    about: About, figures: Sequence[AnyFigure], evidence: AllRuns, seconds: float, out: str
) -> dict[str, str]:
    """The description of a reproduction for people.

    Args:
        about: the stored description.
        figures: the figures that it has.
        evidence: the results.
        seconds: how long all runs took.
        out: the name of its folder.
    """
    preset = about.preset
    missing = missing_runs(about, figures, evidence)
    parts = f", merged from {len(about.merged)} parts" if len(about.merged) > 1 else ""
    return {
        "command": command(about, figures, out),
        "data": preset.data if preset.fold == 1 else f"{preset.data}, fold {preset.fold}",
        "size": f"{preset.runs} {'run' if preset.runs == 1 else 'runs'} of each learner, {preset.horizon:,} "
        f"impressions, evaluated at {len(preset.grid)} times",
        "seeds": (spell_seeds(evidence.seeds) or "none") + parts,
        **({"runs not made": spell_missing(missing)} if missing else {}),
        "learning": preset.learning,
        "times of deployment": preset.times,
        "production ranker": preset.supervision
        + ("" if preset.temperature == 1.0 else f", temperature {preset.temperature:g}"),
        "duration": format_duration(seconds),
        "versions": ", ".join(f"{name} {version}" for name, version in about.versions.items()),
    }


def spell_missing(missing: Mapping[str, str]) -> str:
    """Missing runs as text.

    >>> spell_missing({"affine-0": "3", "pdgd-online": "0-4"})
    'affine-0: seed 3; pdgd-online: seeds 0-4'
    """
    return "; ".join(
        f"{name}: {'seed' if seeds.isdigit() else 'seeds'} {seeds}" for name, seeds in missing.items()
    )


def command(about: About, figures: Sequence[AnyFigure], out: str) -> str:
    """The command line that makes the runs of this reproduction."""
    preset = about.preset
    words = ["rankloop", "reproduce", preset.data, "--preset", preset.name, "--runs", str(preset.runs)]
    if about.seeds != preset.seeds:
        words += ["--seeds", spell_seeds(about.seeds)]
    words += ["--horizon", str(preset.horizon), "--learning", preset.learning, "--fold", str(preset.fold)]
    words += ["--supervision", preset.supervision, "--temperature", f"{preset.temperature:g}"]
    words += ["--times", preset.times, "--relevance", preset.relevance, "--out", out]
    for figure in figures:
        words += ["--only", figure.name]
    return shlex.join(words)


def write_seconds(folder: Path, seconds: float) -> None:
    """Write how long the runs in a folder took."""
    write_whole(folder / DURATION, json.dumps({"seconds": seconds}).encode())


def read_seconds(folder: Path) -> float:
    """How long the runs in a folder took; 0 if nothing says so."""
    path = folder / DURATION
    seconds = read_object(path).get("seconds") if path.exists() else 0.0
    # A damaged file costs the time that was counted so far, which no result depends on.
    return float(seconds) if isinstance(seconds, int | float) and math.isfinite(seconds) else 0.0


def format_duration(seconds: float) -> str:
    """A duration in words.

    >>> [format_duration(seconds) for seconds in (20, 70, 95, 1500, 9000, 400_000)]
    ['under a minute', 'a minute', '2 minutes', '25 minutes', '2.5 hours', '4.6 days']
    """
    if seconds < MINUTE:
        return "under a minute"
    if seconds < 90:
        return "a minute"
    for size, name, most in ((60, "minutes", 90), (3600, "hours", 48)):
        if seconds / size < most:
            number = f"{seconds / size:.0f}" if name == "minutes" else f"{seconds / size:.1f}"
            return f"{number} {name}"
    return f"{seconds / 86400:.1f} days"
