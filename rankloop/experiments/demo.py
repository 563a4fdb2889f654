"""The demonstration: the loop, compared to learning from a static log and to an online method."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from rankloop.experiments import parallel
from rankloop.experiments.report import REPORT, write_report
from rankloop.experiments.results import RunResult, find_results
from rankloop.experiments.run import Run
from rankloop.experiments.setup import Setup
from rankloop.experiments.spec import RunSpec
from rankloop.progress import Progress
from rankloop.reports.document import NONE, Document, Table
from rankloop.storage.files import check_writable

LOOP, STATIC, PDGD = "loop", "static", "pdgd"
# What says how clicks become a policy, which an online method does in its own way.
OF_ESTIMATORS = (
    "estimator",
    "objective",
    "caution",
    "evidence",
    "exploration",
    "interventions",
    "evaluations",
)


def specs(loop: RunSpec) -> dict[str, RunSpec]:
    """The runs of the demonstration by name, the longest first.

    >>> loop = RunSpec(interventions=5, estimator="intervention-aware")
    >>> {name: (spec.learner, spec.interventions) for name, spec in specs(loop).items()}
    {'loop': ('intervention-aware', 5), 'pdgd': ('pdgd', 'all'), 'static': ('intervention-aware', 0)}
    """
    online = {name: value for name, value in loop.model_dump().items() if name not in OF_ESTIMATORS}
    return {
        LOOP: loop,
        PDGD: RunSpec(**{**online, "method": PDGD, "evaluations": loop.intervention_times}),
        STATIC: loop.model_copy(update={"interventions": 0, "evaluations": loop.intervention_times}),
    }


def set_up(loop: RunSpec, folder: Path, progress: Progress | None = None) -> Setup:
    """Build the setup that all runs share, or read it again.

    Args:
        loop: the loop with interventions; each of the other runs differs from it in one thing.
        folder: gets one folder per run, and the report.
        progress: called after every epoch of what is trained.
    """
    check_writable(folder / REPORT)
    runs = _runs(loop, folder)
    for run in runs:
        run.check()
    return runs[0].set_up(progress)


def demonstrate(
    loop: RunSpec, folder: Path, setup: Setup, progress: Progress | None = None
) -> tuple[dict[str, RunResult], Path]:
    """Run everything, or resume an interrupted call, and write the report.

    Args:
        loop: as in `set_up`.
        folder: as in `set_up`.
        setup: what `set_up` returned.
        progress: called after every event of every run, from several threads.

    Returns:
        The results by the names of the runs, and the path of the report.
    """
    runs = _runs(loop, folder)
    parallel.resume_all(runs, setup, progress)
    results = {run.name: run.result for run in runs}
    return results, write_report(find_results([folder]), folder / REPORT)


def _runs(loop: RunSpec, folder: Path) -> list[Run]:
    return [Run(spec, folder / name, name) for name, spec in specs(loop).items()]


# The runs of the demonstration by name, in the order of the table.
RUNS = ("static", "pdgd", "loop")


def demo_document(runs: Mapping[str, RunResult]) -> Document:
    """The demonstration in one table, from its runs by name."""
    facts, metric = runs["loop"].facts, runs["loop"].spec.metric
    values: list[tuple[str, float, float | None]] = [
        ("random", facts.random, None),
        ("production ranker", facts.start, None),
    ]
    for name in RUNS:
        run = runs[name]
        values.append((name, run.rows[-1].learned, run.shown(len(run.rows) - 1)))
    if facts.oracle is not None:
        values.append(("oracle", facts.oracle, None))
    rows = [
        [name, f"{value:.4f}", f"{value - facts.start:+.4f}", NONE if shown is None else f"{shown:.4f}"]
        for name, value, shown in values
    ]
    title = f"{metric} on {facts.queries['test']} test queries of {facts.dataset}"
    columns = ["ranker", metric, "− production", "shown on average"]
    return Document("demonstration", "Demonstration", (Table.build(title, columns, rows, brief=True),))
