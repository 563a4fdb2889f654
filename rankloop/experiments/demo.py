"""The demonstration: the loop beside learning without interventions and learning that corrects nothing."""

from __future__ import annotations

from pathlib import Path

from rankloop.experiments import parallel, setup
from rankloop.experiments.report import REPORT, write_report
from rankloop.experiments.results import Run, find_runs, read_run
from rankloop.experiments.run import prepare
from rankloop.experiments.setup import Setup
from rankloop.experiments.spec import RunSpec
from rankloop.storage.files import check_writable

LOOP, STATIC, NAIVE = "loop", "static", "naive"


def specs(loop: RunSpec) -> dict[str, RunSpec]:
    """The runs of the demonstration by name, the longest first.

    >>> loop = RunSpec(interventions=5, estimator="intervention-aware")
    >>> {name: (spec.estimator, spec.interventions) for name, spec in specs(loop).items()}
    {'loop': ('intervention-aware', 5), 'naive': ('naive', 5), 'static': ('intervention-aware', 0)}
    """
    return {
        LOOP: loop,
        NAIVE: loop.model_copy(update={"estimator": NAIVE}),
        STATIC: loop.model_copy(update={"interventions": 0}),
    }


def begin(loop: RunSpec, folder: Path, watch: setup.Watch | None = None) -> Setup:
    """Lay, or read again, what all runs stand on.

    Args:
        loop: the loop with interventions; the other runs differ from it in one thing each.
        folder: gets one folder a run, and the report.
        watch: told of every epoch of what is trained beforehand.
    """
    check_writable(folder / REPORT)
    return prepare(loop, folder / LOOP, watch=watch)


def demonstrate(
    loop: RunSpec, folder: Path, shared: Setup, watch: parallel.Watch | None = None
) -> tuple[dict[str, Run], Path]:
    """Run everything, going on where an earlier call was cut, and write the report.

    Args:
        loop: as in `begin`.
        folder: likewise.
        shared: what `begin` gave.
        watch: told of every event of every run; it is called from several threads.

    Returns:
        The runs by name, and where the report is.
    """
    parallel.run_together(specs(loop), folder, shared, watch)
    runs = {name: read_run(folder / name) for name in specs(loop)}
    return runs, write_report(find_runs([folder]), folder / REPORT)
