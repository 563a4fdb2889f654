"""Reports on runs: one page, and the tables that the commands print."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from pathlib import Path

from rankloop.errors import RankloopError
from rankloop.experiments.baselines import PEAKED_ADVICE
from rankloop.experiments.curves import estimate_figures, full_name, support_figures, value_figures
from rankloop.experiments.results import RunResult
from rankloop.experiments.run import PREPARED
from rankloop.experiments.summary import (
    CONFIDENCE,
    Group,
    PairedDifference,
    configuration,
    group_runs,
    paired_differences,
    summarise,
)
from rankloop.reports.bias import bias_table
from rankloop.reports.document import (
    NONE,
    Cell,
    Column,
    Document,
    Facts,
    Listing,
    Section,
    Table,
    Text,
    warnings,
)
from rankloop.reports.html import write_page

REPORT = "report.html"
# A longer table of differences is folded.
MOST_SHOWN = 15


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
    datasets = distinct(run.facts.dataset for run in runs)
    return Document(
        runs[0].facts.dataset,
        f"Learning to rank from clicks: {', '.join(datasets)}",
        (
            introduction(groups, metric),
            results(groups, metric),
            *differences(groups, metric),
            values(groups, metric),
            estimates(groups),
            support(groups),
            starting_policy(runs),
            setup(runs),
            timing(runs),
            commands(runs),
            evaluations(runs),
        ),
    )


def run_document(run: RunResult) -> Document:
    """The evaluations of one run, for the terminal; `report_document` has everything else."""
    return Document(run.name, run.name, (evaluation_table(run, brief=True),))


def page_document(run: RunResult) -> Document:
    """The report on one run, as notebooks show it."""
    return report_document([run])


def write_report(runs: Sequence[RunResult], path: Path) -> Path:
    """Write the page on several runs and return its path."""
    return write_page(report_document(runs), path)


# The level of support that a terminal shows.
BRIEF_LEVEL = "0.01"
# What the stages of the loop are called in the table of times.
STAGES = {
    PREPARED: "starting policy, oracle",
    "gathered": "collecting clicks",
    "trained": "training",
    "evaluated": "evaluating",
    "deployed": "deploying",
}


def introduction(groups: Sequence[Group], metric: str) -> Text:
    """An explanation of the numbers on the page."""
    runs = [run for group in groups for run in group.runs]
    queries = " or ".join(distinct(f"{run.facts.queries['test']:,}" for run in runs))
    counted = "One run" if len(runs) == 1 else f"{len(runs)} runs"
    intervals = (
        f" For runs that differ only in their seed, numbers are means with {CONFIDENCE:.0%} confidence "
        "intervals (Student’s t)."
        if any(len(group.runs) > 1 for group in groups)
        else ""
    )
    return Text(
        f"{counted}. Values are the expected {metric} on {queries} test queries when rankings are drawn from "
        f"a policy, computed exactly from the true labels, which learning never sees.{intervals}"
    )


def results(groups: Sequence[Group], metric: str) -> Section:
    """The final table."""
    rows: list[list[str | Cell]] = []
    for line in map(summarise, groups):
        gain = f"{line.gain:+}"
        bound = NONE if line.oracle is None else str(line.oracle)
        values = [str(line.learned), gain, str(line.start), bound, str(line.logging), str(line.shown)]
        name = Cell(line.group.name, line.group.label)
        rows.append([name, *values, f"{line.impressions:,}", str(line.interventions)])
    columns: list[str | Column] = [
        "run",
        "learned",
        "learned − start",
        Column("start", brief=False),
        Column("oracle", brief=False),
        Column("logging at the end", brief=False),
        "shown on average",
        Column("impressions", brief=False),
        Column("interventions", brief=False),
    ]
    unfinished = [f"{full_name(group)} is not finished." for group in groups if not group.finished]
    return Section(
        "Results",
        (
            Table.build(f"{metric} on the test queries", columns, rows, brief=True),
            Text(
                "Learned: the policy learned in the end. Oracle: the same network and training objective, "
                "trained from the same start on the true relevance. Logging at the end: the policy that "
                "collected the last clicks. Shown on average: what users were shown over all impressions; "
                "compared with the start, it is the cost of exploration, or the gain during learning.",
                "quiet",
            ),
            *warnings(unfinished),
        ),
    )


def differences(groups: Sequence[Group], metric: str) -> tuple[Section, ...]:
    """The differences between the learners, seed by seed; none if there is nothing to compare."""
    learned = [(full_name(group), group.curves(lambda row: row.learned)) for group in groups]
    tables = difference_tables(metric, paired_differences(learned))
    return (Section("Differences", tables),) if tables else ()


def difference_tables(metric: str, pairs: Sequence[PairedDifference]) -> tuple[Table, ...]:
    """The table of paired differences; none if there are none."""
    if not pairs:
        return ()
    rows = [
        [pair.one, pair.other, f"{pair.difference:+}", str(pair.seeds), f"{pair.impressions:,}"]
        for pair in pairs
    ]
    caption = (
        f"Paired differences: {metric} of the learned policies, seed by seed, at the last time that both "
        f"have, with {CONFIDENCE:.0%} confidence intervals (Student’s t)"
    )
    columns: list[str | Column] = [
        Column("learner", words=True),
        Column("minus", words=True),
        "difference",
        "seeds",
        "impressions",
    ]
    return (Table.build(caption, columns, rows, folded=len(rows) > MOST_SHOWN),)


def values(groups: Sequence[Group], metric: str) -> Section:
    """The curves of the learned and of the logging policies."""
    return Section("Learned and logging policies", (value_figures(groups, metric),))


def estimates(groups: Sequence[Group]) -> Section:
    """The estimates from held-out clicks, which need no labels."""
    return Section(
        "The estimate and the truth",
        (
            Text(
                "The metric of the learned policy as estimated from held-out clicks, with the noise (90 %) "
                "of one run over its queries, next to the true metric on the same queries. Clipping makes "
                "estimates too low."
            ),
            estimate_figures(groups),
        ),
    )


def support(groups: Sequence[Group]) -> Section:
    """The support of the logging policies."""
    return Section(
        "Support: how much can still be learned",
        (
            Text(
                "A document’s expected α says how much its clicks reveal about its relevance, averaged over "
                "the rankings of the logging policy. Almost nothing is learned about documents that are "
                "hardly ever shown."
            ),
            support_figures(groups),
        ),
    )


def starting_policy(runs: Sequence[RunResult]) -> Section:
    """The peakedness of the starting policies."""
    rows, peaked = [], []
    for run in {(run.facts.start_fingerprint, run.spec.data): run for run in runs}.values():
        sure = run.facts.peakedness
        start = f"{run.spec.start}, {run.facts.start_kind} {run.facts.start_fingerprint}"
        shares = [f"{share:.1%}" for share in sure.support.values()]
        rows.append([start, f"{run.facts.start:.4f}", f"{sure.top_first:.3f}", *shares])
        if sure.nearly_deterministic:
            peaked.append(f"{start}: {PEAKED_ADVICE}")
    levels = [f"documents with expected α below {level}" for level in runs[0].facts.peakedness.support]
    return Section(
        "The starting policy",
        (
            Table.build(
                "How peaked it is, on the training and validation queries that clicks come from",
                ["starting policy", "value", "probability that its favourite is first", *levels],
                rows,
            ),
            *warnings(peaked),
        ),
    )


def setup(runs: Sequence[RunResult]) -> Section:
    """The common options of all runs, their data, and their users."""
    parts = [configuration(run) for run in runs]
    shared = tuple(
        (name.replace("_", " "), value)
        for name, value in parts[0].items()
        if all(part[name] == value for part in parts)
    )
    data = {
        (run.spec.data, run.spec.fold): [
            run.facts.dataset,
            *(f"{run.facts.queries[split]:,}" for split in run.facts.queries),
            f"{sum(run.facts.documents.values()):,}",
            str(run.facts.features),
        ]
        for run in runs
    }
    columns = ["", *(f"{split} queries" for split in runs[0].facts.queries), "documents", "features"]
    by_users = {run.spec.users: run for run in runs}.values()
    return Section(
        "What was run",
        (Facts(shared), Table.build("The data", columns, list(data.values())), *map(_users, by_users)),
    )


def _users(run: RunResult) -> Table:
    facts = run.facts
    caption = f"How users click ({run.spec.users})"
    return bias_table(facts.alpha, facts.beta, facts.examination, caption)


def timing(runs: Sequence[RunResult]) -> Section:
    """The time that each stage took."""
    rows = [
        [
            run.name,
            *(f"{run.timing.get(stage, 0.0):.1f}" for stage in STAGES),
            f"{sum(run.timing.values()):.1f}",
        ]
        for run in runs
    ]
    caption = "Seconds, including those before a run was interrupted and resumed"
    return Section("Time", (Table.build(caption, ["run", *STAGES.values(), "total"], rows),))


def commands(runs: Sequence[RunResult]) -> Section:
    """The commands that repeat these runs."""
    versions = ", ".join(sorted({run.version for run in runs}))
    lines = [run.spec.command(run.name) for run in runs]
    lines.append(shlex.join(["rankloop", "report", *(run.name for run in runs)]))
    return Section(
        "How to repeat it",
        (
            Text(f"With rankloop {versions}; the same seed on the same machine gives the same numbers."),
            Listing("\n\n".join(lines)),
        ),
    )


def evaluations(runs: Sequence[RunResult]) -> Section:
    """Every number that is drawn, run by run."""
    return Section("Every evaluation", tuple(evaluation_table(run) for run in runs))


def evaluation_table(run: RunResult, *, brief: bool = False) -> Table:
    """All evaluations of one run."""
    levels = list(run.rows[0].support)
    columns: list[str | Column] = [
        "impressions",
        "learned",
        "logging",
        Column("estimate", brief=False),
        Column("± (standard error)", brief=False),
        Column("truth", brief=False),
        Column("start kept", brief=False),
        Column("scale", brief=False),
        Column("explored", brief=False),
        Column("gain of the guess", brief=False),
        *(Column(f"documents below {level}", brief=level == BRIEF_LEVEL) for level in levels),
    ]
    rows = [
        [
            f"{row.impressions:,}",
            f"{row.learned:.4f}",
            f"{row.logging:.4f}",
            NONE if row.estimate is None else f"{row.estimate:.4f}",
            NONE if row.estimate_error is None else f"{row.estimate_error:.4f}",
            f"{row.truth:.4f}",
            "yes" if row.kept_start else "no",
            f"{row.scale:.3g}",
            f"{row.explored:.1%}",
            NONE if row.guess_gain is None else f"{row.guess_gain:.4f}",
            *(f"{row.support[level]:.1%}" for level in levels),
        ]
        for row in run.rows
    ]
    caption = f"{run.name}: {run.spec.metric} on the test queries, {run.spec.learner}, seed {run.spec.seed}"
    return Table.build(caption, columns, rows, brief=brief, folded=True)


def distinct(values: Iterable[str]) -> list[str]:
    """Each value once, in the order of first appearance."""
    return list(dict.fromkeys(values))
