"""Commands on simulated clicks: run the loop, report on runs, demonstrate both, and reproduce the paper."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from rankloop import extras
from rankloop.cli.options import FieldsOf, Given, JsonOption, argument, expand_options, option, read_spec
from rankloop.errors import RankloopError
from rankloop.experiments.reproduce.presets import Preset, preset_named
from rankloop.experiments.spec import RunSpec

if TYPE_CHECKING:
    from rankloop.experiments.reproduce import Reproduction
    from rankloop.experiments.setup import SetupFacts

# Held-out queries below which caution may err: with 200, no policy of 20 runs was more than .005 below its
# start; with 30, one was (docs/results/loop.md).
FEW_HELD_OUT = 100
# Defaults of options.
QUICK, LOCAL = "quick", "local"


@expand_options
def demo(
    spec: Annotated[
        RunSpec,
        FieldsOf(
            RunSpec,
            only=("data", "horizon", "interventions", "fold", "seed"),
            defaults={"interventions": "10"},
        ),
    ],
    out: Annotated[
        Path, option("Folder of the runs; an interrupted demo resumes there.", "--out", "-o")
    ] = Path("rankloop-demo"),
) -> None:
    """Learn from simulated clicks: a static log, an online method (PDGD), and the loop."""
    from rankloop.cli import console
    from rankloop.experiments.demo import demo_document, demonstrate, set_up

    with console.working(console.RESUMABLE) as progress:
        setup = set_up(spec, out, progress)
        _print_setup(setup.facts, spec.metric)
        results, page = demonstrate(spec, out, setup, progress)
    console.print_document(demo_document(results))
    console.announce_page(page)


@expand_options
def run(
    spec: RunSpec,
    out: Annotated[
        Path, option("Folder of the run; an interrupted run resumes there.", "--out", "-o")
    ] = Path("rankloop-run"),
    as_json: JsonOption = False,
) -> None:
    """Learn from the clicks of simulated users, and deploy learned policies along the way."""
    from rankloop.cli import console
    from rankloop.experiments.report import REPORT, run_document, write_report
    from rankloop.experiments.run import Run

    one = Run(spec, out)
    with console.working(console.RESUMABLE) as progress:
        setup = one.set_up(progress)
        _print_setup(setup.facts, one.spec.metric)
        held_out = setup.facts.queries["validation"]
        # Without an estimator, the clicks on all queries decide.
        by_held_out = one.spec.estimator is not None
        if by_held_out and one.spec.caution and one.spec.evidence is None and held_out < FEW_HELD_OUT:
            console.print_err(
                f"{held_out} held-out queries are few: the first policies that are deployed may be slightly "
                "worse than the start; --evidence click-noise is slower, and safer"
            )
        result = one.resume(setup, progress)
    page = write_report([result], out / REPORT)
    if result.rows[-1].kept_start and one.spec.caution:
        console.print_err(
            f"the starting policy was kept: on {held_out} held-out queries, no "
            f"learned policy gained more than {one.spec.caution:g} standard errors; more clicks or more "
            "held-out queries help, and a lower --caution asks for less"
            if by_held_out
            else "the starting policy was kept: no learned policy explains unseen clicks better by "
            f"{one.spec.caution:g} standard errors; more clicks help, and a lower --caution asks for less"
        )
    rows = [row.model_dump() for row in result.rows]
    console.present(rows, run_document(result), as_json=as_json, page=page)


def report(
    folders: Annotated[
        list[Path],
        argument("FOLDER…", "Folders of runs, or folders that contain such folders."),
    ],
    out: Annotated[
        Path | None,
        option(
            "The HTML page to write.",
            "--out",
            "-o",
            shown="report.html, inside the folder if only one is given",
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Turn runs into one page of tables and curves; runs that differ only in their seed are averaged."""
    from rankloop.cli import console
    from rankloop.experiments.report import REPORT, report_document
    from rankloop.experiments.results import find_results
    from rankloop.experiments.summary import group_runs, summarise
    from rankloop.reports.html import write_page
    from rankloop.storage.files import check_writable

    path = out or (folders[0] / REPORT if len(folders) == 1 else Path(REPORT))
    results = find_results(folders)
    check_writable(path)
    document = report_document(results)
    write_page(document, path)
    summary = [summarise(group) for group in group_runs(results)]
    console.present(summary, document, as_json=as_json, page=path)


def _print_setup(facts: SetupFacts, metric: str) -> None:
    from rankloop.cli import console
    from rankloop.experiments.baselines import PEAKED_ADVICE

    console.print_err(f"starting policy: {metric} {facts.start:.4f}; {facts.peakedness}")
    if facts.peakedness.nearly_deterministic:
        console.print_err(f"the starting policy is {PEAKED_ADVICE}")
    for name, value in (("oracle", facts.oracle), ("supervised", facts.supervised)):
        if value is not None:
            console.print_err(f"{name}: {metric} {value:.4f}")


@expand_options
def reproduce(
    given: Annotated[Given, FieldsOf(Preset)],
    folders: Annotated[
        list[str] | None,
        argument("FOLDER", "With --merge, further folders.", show_default=False),
    ] = None,
    preset: Annotated[
        str,
        option(
            "quick (5 runs, 1,000 queries), medium (10 runs, 6,000 queries, as the authors' programs), "
            "or paper (20 runs, 10⁸ impressions)."
        ),
    ] = QUICK,
    out: Annotated[
        Path,
        option("Folder to write to; an interrupted reproduction resumes there.", "--out", "-o"),
    ] = Path("rankloop-paper"),
    only: Annotated[
        list[str] | None,
        option(
            "example, estimators, interventions, online or pdgd, or for rankloop's own learner "
            "default-interventions or default-online; can be given several times.",
            shown="the paper's",
            metavar="FIGURE",
        ),
    ] = None,
    learner: Annotated[
        list[str] | None,
        option(
            "Make only the runs of this learner, such as intervention-aware-50 or pdgd-online; can be "
            "given several times.",
            shown="all learners of the figures",
            metavar="LEARNER",
        ),
    ] = None,
    seeds: Annotated[
        str | None,
        option("Make only the runs of these seeds, such as 3-5 or 3,7.", shown="all runs"),
    ] = None,
    merge: Annotated[
        bool,
        option("Merge the results in several folders (DATA and FOLDER…) instead of making runs.", "--merge"),
    ] = False,
    engine: Annotated[
        str, option("local: the cores of this machine; ray: a Ray cluster (needs the extra).")
    ] = LOCAL,
) -> None:
    """Reproduce the paper's experiments: every figure, and for every claim whether it holds."""
    extras.require("logs", "reports")
    from rankloop.experiments import reproduce as experiments

    if merge:
        if only or learner or seeds or preset != QUICK or engine != LOCAL:
            raise RankloopError("--merge takes folders and --out, and no other option")
        named = [given.get("data"), *(folders or ())]
        _print_outcome(experiments.merge([Path(folder) for folder in named if folder is not None], out))
        return
    if folders:
        raise RankloopError(f"unexpected arguments: {' '.join(folders)}; only --merge takes several folders")
    size = read_spec(Preset, {**preset_named(preset).model_dump(), **given})
    _print_outcome(_make(size, out, engine, only=only, learners=learner, seeds=seeds))


def _make(
    preset: Preset,
    out: Path,
    engine: str,
    *,
    only: list[str] | None,
    learners: list[str] | None,
    seeds: str | None,
) -> Reproduction:
    from rankloop.cli import console
    from rankloop.experiments import reproduce as experiments
    from rankloop.experiments.reproduce.executors import executor
    from rankloop.experiments.reproduce.figures import figure, figures_with

    if learners and not only:
        figures = figures_with(learners)
    else:
        figures = [figure(name) for name in dict.fromkeys(only or experiments.FIGURES)]
    execute = executor(engine)
    chosen = None if seeds is None else experiments.read_seeds(seeds)
    with console.telling(console.RESUMABLE), console.announce_compilation():
        planned = experiments.plan(preset, figures, out, chosen, learners)
        console.print_err(str(planned))
        with console.progress() as progress:
            return experiments.reproduce(planned, execute, progress)


def _print_outcome(done: Reproduction) -> None:
    from rankloop.cli import console
    from rankloop.experiments.reproduce.about import format_duration, spell_missing
    from rankloop.experiments.reproduce.report import claims_document

    console.print_document(claims_document(done.judged, {}))
    if done.missing:
        console.print_out(f"runs not made: {spell_missing(done.missing)}")
    console.print_out(f"took {format_duration(done.seconds)}")
    console.print_out(f"wrote {done.folder / 'claims.md'} and {done.folder / 'report.html'}")
