"""Commands on clicks: run the loop, report on runs, demonstrate all of it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rankloop.cli.options import DATA, DataArgument, FoldOption, JsonOption, SeedOption
from rankloop.errors import RankloopError

if TYPE_CHECKING:
    from rankloop.experiments.setup import Facts
    from rankloop.experiments.spec import RunSpec
    from rankloop.loop import Event
    from rankloop.progress import Progress
    from rankloop.training import Epoch

USERS, START, LEARNING, LENGTH, MEASURES = (
    "Who clicks",
    "The starting policy",
    "Learning and exploring",
    "How long, and how many deployments",
    "What is measured",
)

HorizonOption = Annotated[
    int, typer.Option(help="How many interactions there are in the end.", min=1, rich_help_panel=LENGTH)
]
InterventionsOption = Annotated[
    str,
    typer.Option(
        help="How many learned policies are deployed, exponentially spread; or when, as in 1000,10000 "
        "(once: 1000,). 0 for none.",
        rich_help_panel=LENGTH,
    ),
]


def demo(
    data: DataArgument = DATA,
    out: Annotated[
        Path, typer.Option("--out", "-o", help="The folder of the runs; a demo that was cut goes on there.")
    ] = Path("rankloop-demo"),
    horizon: HorizonOption = 1_000_000,
    interventions: InterventionsOption = "10",
    fold: FoldOption = 1,
    seed: SeedOption = 0,
) -> None:
    """Learn from simulated clicks: the loop, beside a static and a naive learner. A table and a page."""
    from rankloop.cli import console
    from rankloop.experiments.demo import begin, demonstrate, specs
    from rankloop.experiments.report import demo_document

    spec = _spec(data=data, horizon=horizon, interventions=interventions, fold=fold, seed=seed)
    by_name = specs(spec)
    with _resumable(), console.announce_compilation(), console.progress() as progress:
        setup = begin(spec, out, _preparing(progress))
        _mention_start(setup.facts, spec.metric)

        def watch(name: str, event: Event) -> None:
            _show(progress, name, by_name[name], event)

        runs, page = demonstrate(spec, out, setup, watch)
    console.print_document(demo_document(runs))
    console.print_out(f"wrote {page}")


def run(
    data: DataArgument = DATA,
    out: Annotated[
        Path, typer.Option("--out", "-o", help="The folder of the run; a run that was cut goes on there.")
    ] = Path("rankloop-run"),
    users: Annotated[
        str, typer.Option(help="As in paper@5, position@5, affine(…).", rich_help_panel=USERS)
    ] = "paper@5",
    relevance: Annotated[
        str,
        typer.Option(help="How a label becomes a chance: linear(max_label=2), …", rich_help_panel=USERS),
    ] = "linear",
    start: Annotated[
        str,
        typer.Option(
            help="production (trained on few labels), random, or the path of a stored network.",
            rich_help_panel=START,
        ),
    ] = "production",
    production_queries: Annotated[
        int | None,
        typer.Option(
            help=r"Labelled queries that the production ranker sees. \[default: 1 % of them]",
            min=1,
            rich_help_panel=START,
        ),
    ] = None,
    temperature: Annotated[
        float,
        typer.Option(
            help="Its scores are divided by this: above 1 its rankings vary more.",
            rich_help_panel=START,
        ),
    ] = 1.0,
    method: Annotated[
        str | None,
        typer.Option(
            help="An online method to learn with: pdgd, biased-pdgd or coltr. "
            r"\[default: none, but the estimator]",
            rich_help_panel=LEARNING,
        ),
    ] = None,
    estimator: Annotated[
        str | None,
        typer.Option(
            help="How clicks become weights: naive, ips, policy-aware, affine, intervention-oblivious, "
            r"intervention-aware. \[default: the last one, as --learning has it]",
            rich_help_panel=LEARNING,
        ),
    ] = None,
    learning: Annotated[str, typer.Option(help="robust, or paper.", rich_help_panel=LEARNING)] = "robust",
    exploration: Annotated[
        str | None,
        typer.Option(
            help=r"How soft a learned policy logs: soft(by=…), spread(to=…), support(share=…), as-learned. "
            r"\[default: as --learning has it]",
            rich_help_panel=LEARNING,
        ),
    ] = None,
    caution: Annotated[
        float | None,
        typer.Option(
            help="How many standard errors a learned policy must gain on held-out clicks to replace the "
            r"starting one. \[default: as --learning has it]",
            min=0,
            rich_help_panel=LEARNING,
        ),
    ] = None,
    floor: Annotated[
        float,
        typer.Option(
            help="The share of interactions that the starting policy goes on to serve.",
            rich_help_panel=LEARNING,
        ),
    ] = 0.0,
    horizon: HorizonOption = 1_000_000,
    interventions: Annotated[
        str | None,
        typer.Option(
            help="How many learned policies are deployed, exponentially spread; or when, as in 1000,10000 "
            "(once: 1000,). 0 for none; all, for online methods that log what they learn. "
            r"\[default: 20, and all for online methods]",
            rich_help_panel=LENGTH,
        ),
    ] = None,
    evaluations: Annotated[
        str | None,
        typer.Option(
            help="How many times, or when, to learn and measure without deploying. "
            r"\[default: 0, and 20 for online methods]",
            rich_help_panel=LENGTH,
        ),
    ] = None,
    metric: Annotated[
        str, typer.Option(help="Of policies, on the test queries.", rich_help_panel=MEASURES)
    ] = "ndcg@5",
    full_information: Annotated[
        bool,
        typer.Option(
            help="Also train on the true relevance: the bound to strive for.", rich_help_panel=MEASURES
        ),
    ] = True,
    fold: FoldOption = 1,
    seed: SeedOption = 0,
    as_json: JsonOption = False,
) -> None:
    """Learn from the clicks of simulated users, deploying learned policies along the way."""
    from rankloop.cli import console
    from rankloop.experiments import run as experiment
    from rankloop.experiments.report import REPORT, run_document, write_report
    from rankloop.experiments.results import read_run

    spec = _spec(
        data=data,
        fold=fold,
        users=users,
        relevance=relevance,
        start=start,
        production_queries=production_queries,
        temperature=temperature,
        method=method,
        estimator=estimator,
        learning=learning,
        exploration=exploration,
        caution=caution,
        floor=floor,
        horizon=horizon,
        interventions=interventions,
        evaluations=evaluations,
        metric=metric,
        full_information=full_information,
        seed=seed,
    )
    with _resumable(), console.announce_compilation(), console.progress() as progress:
        setup = experiment.prepare(spec, out, watch=_preparing(progress))
        _mention_start(setup.facts, spec.metric)
        rows = experiment.run(spec, out, lambda event: _show(progress, "run", spec, event), shared=setup)
    made = read_run(out)
    page = write_report([made], out / REPORT)
    if rows[-1].kept_start and spec.caution:
        console.print_err(
            f"the starting policy was kept: on {setup.facts.queries['validation']} held-out queries no "
            f"learned one gained more than {spec.caution:g} standard errors; more clicks or more held-out "
            "queries help, and --caution lowers the bar"
        )
    if as_json:
        typer.echo(json.dumps([row.model_dump() for row in rows], indent=2))
        return
    console.print_document(run_document(made))
    console.print_out(f"wrote {page}")


def report(
    folders: Annotated[
        list[Path],
        typer.Argument(metavar="FOLDER…", help="Folders of runs, or folders that hold such folders."),
    ],
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", "-o", help=r"The page. \[default: report.html, in the folder if there is one only]"
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Turn runs into one page of tables and curves; those that differ in their seed alone are averaged."""
    from rankloop.cli import console
    from rankloop.experiments.report import REPORT, report_document
    from rankloop.experiments.results import find_runs
    from rankloop.experiments.summary import final_line, grouped
    from rankloop.reports.html import write_page
    from rankloop.storage.files import check_writable

    path = out or (folders[0] / REPORT if len(folders) == 1 else Path(REPORT))
    runs = find_runs(folders)
    check_writable(path)
    document = report_document(runs)
    write_page(document, path)
    if as_json:
        lines = [final_line(group) for group in grouped(runs)]
        typer.echo(json.dumps([line.as_dict() for line in lines], indent=2))
        return
    console.print_document(document)
    console.print_out(f"wrote {path}")


@contextmanager
def _resumable() -> Iterator[None]:
    from rankloop.cli import console

    try:
        yield
    except KeyboardInterrupt:
        console.print_err("stopped; the same command goes on from here")
        raise


def _spec(**fields: Any) -> RunSpec:
    """The spec that options spell; those that are None keep their default."""
    from pydantic import ValidationError

    from rankloop.experiments.spec import RunSpec

    try:
        return RunSpec(**{name: value for name, value in fields.items() if value is not None})
    except ValidationError as error:
        first = error.errors()[0]
        # An error of ours says it all; pydantic's do not say what was given.
        message = first.get("ctx", {}).get("error") or f"{first['msg']}, got {first['input']!r}"
        where = f"--{str(first['loc'][0]).replace('_', '-')}: " if first["loc"] else ""
        raise RankloopError(f"{where}{message}") from error


def _preparing(progress: Progress) -> Callable[[str, Epoch], None]:
    from rankloop.progress import report

    def watch(name: str, epoch: Epoch) -> None:
        report(progress, name, note=f"epoch {epoch.number:3d}  validation {epoch.held_out:.4f}")

    return watch


def _show(progress: Progress, name: str, spec: RunSpec, event: Event) -> None:
    from rankloop.experiments.run import share_done
    from rankloop.loop import Evaluated
    from rankloop.progress import report

    share = share_done(spec, event)
    if isinstance(event, Evaluated):
        values = f"learned {event.learned:.4f}, logging {event.logging:.4f}"
        report(progress, name, share, f"{event.timesteps:,}: {values}", milestone=True)
    else:
        report(progress, name, share)


def _mention_start(facts: Facts, metric: str) -> None:
    from rankloop.cli import console
    from rankloop.experiments.starting_policy import PEAKED_ADVICE

    console.print_err(f"starting policy: {metric} {facts.start:.4f}; {facts.peakedness}")
    if facts.peakedness.nearly_deterministic:
        console.print_err(f"the starting policy is {PEAKED_ADVICE}")
    if facts.full_information is not None:
        console.print_err(f"full information: {metric} {facts.full_information:.4f}")
