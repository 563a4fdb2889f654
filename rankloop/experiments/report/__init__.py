"""Reports on runs: one page, and the tables that the commands print."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rankloop.errors import RankloopError
from rankloop.experiments.report import sections
from rankloop.experiments.report.demonstration import demo_document as demo_document
from rankloop.experiments.results import RunResult
from rankloop.experiments.summary import group_runs
from rankloop.reports.document import Document
from rankloop.reports.html import write_page

REPORT = "report.html"


def report_document(runs: Sequence[RunResult]) -> Document:
    """The report on several runs; those that differ only in their seed are averaged.

    Raises:
        RankloopError: the runs were measured by different metrics.
    """
    metric = runs[0].spec.metric
    for run in runs:
        if run.spec.metric != metric:
            raise RankloopError(
                f"{runs[0].folder} was measured by {metric} and {run.folder} by {run.spec.metric}: "
                "make one report for each"
            )
    groups = group_runs(runs)
    datasets = sections.distinct(run.facts.dataset for run in runs)
    return Document(
        runs[0].facts.dataset,
        f"Learning to rank from clicks: {', '.join(datasets)}",
        (
            sections.introduction(groups, metric),
            sections.results(groups, metric),
            sections.values(groups, metric),
            sections.estimates(groups),
            sections.support(groups),
            sections.starting_policy(runs),
            sections.setup(runs),
            sections.timing(runs),
            sections.commands(runs),
            sections.evaluations(runs),
        ),
    )


def run_document(run: RunResult) -> Document:
    """The evaluations of one run, for the terminal; `report_document` has everything else."""
    return Document(run.name, run.name, (sections.evaluation_table(run, brief=True),))


def page_document(run: RunResult) -> Document:
    """The report on one run, as notebooks show it."""
    return report_document([run])


def write_report(runs: Sequence[RunResult], path: Path) -> Path:
    """Write the page on several runs and return its path."""
    return write_page(report_document(runs), path)
