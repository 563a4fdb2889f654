"""A report: runs in, one page of HTML out that needs nothing from anywhere else."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rankloop.errors import RankloopError
from rankloop.experiments.report import sections
from rankloop.experiments.results import RunResult
from rankloop.experiments.summary import group_runs
from rankloop.reports.components import page
from rankloop.reports.html import joined
from rankloop.storage.files import write_whole

REPORT = "report.html"


def report(runs: Sequence[RunResult]) -> str:
    """The page: the same runs give the same page, byte for byte.

    Raises:
        RankloopError: the runs were measured by different metrics.
    """
    metric = runs[0].spec.metric
    for run in runs:
        if run.spec.metric != metric:
            raise RankloopError(
                f"{runs[0].folder} was measured by {metric} and {run.folder} by {run.spec.metric}: "
                "report them apart"
            )
    groups = group_runs(runs)
    body = joined(
        sections.heading(groups, metric),
        sections.results(groups, metric),
        sections.values(groups, metric),
        sections.estimates(groups),
        sections.support(groups),
        sections.starting(runs),
        sections.setup(runs),
        sections.timing(runs),
        sections.reproduction(runs),
        sections.rows(runs),
    )
    return page(f"rankloop: {runs[0].facts.dataset}", body)


def write_report(runs: Sequence[RunResult], path: Path) -> Path:
    """Write the page; the path says where."""
    return write_whole(path, report(runs).encode())
