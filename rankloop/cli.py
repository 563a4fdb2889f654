"""The command line: argv → one call."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from rankloop._version import __version__
from rankloop.errors import RankloopError

app = typer.Typer(
    name="rankloop",
    help="Learn ranking policies from clicks, with exact Plackett–Luce mathematics.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
)

DataArgument = Annotated[
    str,
    typer.Argument(
        metavar="DATA",
        help="A LETOR or SVMlight file or folder, or synthetic(shape=…, queries=…, features=…, seed=…).",
    ),
]
FoldOption = Annotated[int, typer.Option(help="Which fold, where the folder has several.", min=1)]
SeedOption = Annotated[int, typer.Option(help="Of everything random: same seed, same result.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print the result as JSON, for other programs.")]
MetricsOption = Annotated[
    list[str] | None,
    typer.Option("--metric", help=r"May be given several times. \[default: ndcg@5]", show_default=False),
]


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"rankloop {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    _show: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    pass


@app.command()
def demo(
    data: DataArgument = "synthetic(queries=2000, features=100)",
    out: Annotated[Path, typer.Option(help="The folder that results are written to.")] = Path(
        "rankloop-demo"
    ),
    fold: FoldOption = 1,
    seed: SeedOption = 0,
) -> None:
    """Train rankers by exact gradients, from random to full information: a table and a picture."""
    from rankloop import console
    from rankloop.experiments import demo as experiment
    from rankloop.files import check_writable

    check_writable(out / "results.json")
    with console.saying_what_compiles(), console.progress() as bar:
        tasks: dict[str, Any] = {}

        def finish() -> None:
            for task in tasks.values():
                bar.update(task, total=1, completed=1)

        def watch(name: str, epoch: Any) -> None:
            if name not in tasks:
                finish()
                tasks[name] = bar.add_task(name, total=None, note="")
            bar.update(tasks[name], note=f"epoch {epoch.number:3d}  validation {epoch.held_out:.4f}")

        result = experiment.run(data, fold=fold, seed=seed, folder=out, watch=watch)
        finish()
    console.out.print(
        console.table(
            f"{result.metric} on {result.test_queries} test queries of {result.dataset}",
            ["ranker", "queries", "sorted by score", "drawn from the policy"],
            [
                [rung.name, str(rung.queries or "–"), f"{rung.ranking:.4f}", f"{rung.policy:.4f}"]
                for rung in result.rungs
            ],
        )
    )
    for path in result.written:
        console.say(f"wrote {path}")


@app.command()
def train(
    data: DataArgument = "synthetic(queries=2000, features=100)",
    out: Annotated[Path, typer.Option("--out", "-o", help="Where the model is stored.")] = Path(
        "model.rankloop"
    ),
    model: Annotated[
        str, typer.Option(help="mlp, linear or lightgbm; with options: mlp(hidden=64-32).")
    ] = "mlp",
    metric: Annotated[str, typer.Option(help="What is maximised.")] = "ndcg@5",
    optimiser: Annotated[
        str | None,
        typer.Option(help=r"Of networks: adam or sgd, as in adam(rate=0.01). \[default: adam(rate=0.003)]"),
    ] = None,
    epochs: Annotated[
        int | None, typer.Option(help=r"Of networks: at most this many. \[default: 100]", min=1)
    ] = None,
    patience: Annotated[
        int | None,
        typer.Option(help=r"Of networks: epochs without gain before stopping. \[default: 5]", min=1),
    ] = None,
    batch: Annotated[
        int | None, typer.Option(help=r"Of networks: queries a step. \[default: 1]", min=1)
    ] = None,
    fold: FoldOption = 1,
    seed: SeedOption = 0,
    as_json: JsonOption = False,
) -> None:
    """Train a ranker on labelled data by exact gradients, store it, and measure it on the test queries."""
    import rankloop
    from rankloop import console
    from rankloop.files import check_writable
    from rankloop.models.optimisers import optimiser as optimiser_named
    from rankloop.models.specs import LightGBMSpec, model_spec
    from rankloop.training import Epoch, Settings

    check_writable(out)
    given = {"epochs": epochs, "patience": patience, "batch": batch}
    options: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    if optimiser is not None:
        options["optimiser"] = optimiser_named(optimiser)
    if options and isinstance(model_spec(model), LightGBMSpec):
        raise RankloopError(
            f"--{min(options)} is for networks; trees have their options in their name, as in "
            "--model 'lightgbm(rounds=300, rate=0.1)'"
        )
    settings = Settings(**options)
    collection = rankloop.dataset(data, fold=fold)
    with console.saying_what_compiles(), console.progress() as bar:
        task = bar.add_task(f"training {model}", total=None, note="")

        def watch(epoch: Epoch) -> None:
            bar.update(task, note=f"epoch {epoch.number:3d}  validation {epoch.held_out:.4f}")

        result = rankloop.train(collection, model, metric=metric, settings=settings, seed=seed, watch=watch)
    rankloop.save(result.model, out)
    scores = result.model.scores(collection.test.features)
    _print_measures(
        {
            "model": result.model.kind,
            "fingerprint": result.model.fingerprint,
            "data": collection.name,
            "path": str(out),
            "epochs": result.history[-1].number,
            "best_epoch": result.best.number,
            "validation": result.best.held_out,
        },
        collection.test,
        scores,
        [metric],
        as_json,
    )


@app.command()
def run(
    data: DataArgument = "synthetic(queries=2000, features=100)",
    out: Annotated[
        Path, typer.Option("--out", "-o", help="The folder of the run; a run that was cut goes on there.")
    ] = Path("rankloop-run"),
    horizon: Annotated[
        int, typer.Option(help="How many interactions there are in the end.", min=1)
    ] = 1_000_000,
    interventions: Annotated[
        int, typer.Option(help="How many new policies are deployed, exponentially spread.", min=0)
    ] = 20,
    estimator: Annotated[str, typer.Option(help="How clicks become weights.")] = "intervention-aware",
    exploration: Annotated[
        str, typer.Option(help="How soft a learned policy logs: soft(by=…), support(share=…), as-learned.")
    ] = "soft(by=0.1)",
    learning: Annotated[str, typer.Option(help="robust, or paper.")] = "robust",
    users: Annotated[str, typer.Option(help="Who clicks, as in paper@5 or position@5.")] = "paper@5",
    relevance: Annotated[
        str, typer.Option(help="How a label becomes a chance, as in linear(max_label=2).")
    ] = "linear",
    start: Annotated[
        Path | None, typer.Option(help="A stored model to start from, instead of a production ranker.")
    ] = None,
    floor: Annotated[
        float, typer.Option(help="The share of interactions that the starting policy goes on to serve.")
    ] = 0.0,
    fold: FoldOption = 1,
    seed: SeedOption = 0,
    as_json: JsonOption = False,
) -> None:
    """Learn from the clicks of simulated users, deploying learned policies along the way."""
    from pydantic import ValidationError

    from rankloop import console
    from rankloop.experiments import run as experiment
    from rankloop.loop import Evaluated, Event

    try:
        spec = experiment.RunSpec(
            data=data,
            fold=fold,
            users=users,
            relevance=relevance,
            estimator=estimator,
            learning=learning,  # type: ignore[arg-type]  # checked by the spec
            exploration=exploration,
            floor=floor,
            horizon=horizon,
            interventions=interventions,
            start=None if start is None else str(start),
            seed=seed,
        )
    except ValidationError as error:
        first = error.errors()[0]
        raise RankloopError(f"--{first['loc'][0]}: {first['msg']}, got {first['input']!r}") from error
    with console.saying_what_compiles(), console.progress() as bar:
        task = bar.add_task("interactions", total=horizon, note="")

        def watch(event: Event) -> None:
            bar.update(task, completed=event.timesteps)
            if isinstance(event, Evaluated):
                note = f"learned {event.learned:.4f}  logging {event.logging:.4f}"
                bar.update(task, note=f"{event.timesteps:,}: {note}")

        rows = experiment.run(spec, out, watch)
    if as_json:
        typer.echo(json.dumps(rows, indent=2))
        return
    shown = [
        [
            f"{row['timesteps']:,}",
            f"{row['learned']:.4f}",
            f"{row['logging']:.4f}",
            f"{row['support']['0.01']:.0%}",
        ]
        for row in rows
    ]
    columns = ["interactions", "learned", "logging", "items below 0.01"]
    console.out.print(console.table(f"ndcg@5 on the test queries, {estimator}", columns, shown))
    console.say(f"wrote {out}")


@app.command()
def measure(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="A model that `rankloop train` stored.")],
    data: DataArgument = "synthetic(queries=2000, features=100)",
    metric: MetricsOption = None,
    split: Annotated[str, typer.Option(help="train, validation or test.")] = "test",
    fold: FoldOption = 1,
    as_json: JsonOption = False,
) -> None:
    """Measure a stored model: of the ranking by score, and exactly of its Plackett–Luce policy."""
    import rankloop

    loaded = rankloop.load(model)
    collection = rankloop.dataset(data, fold=fold)
    if split not in ("train", "validation", "test"):
        raise RankloopError(f"--split must be train, validation or test, got {split!r}")
    chosen = getattr(collection, split)
    _print_measures(
        {"model": loaded.kind, "fingerprint": loaded.fingerprint, "data": collection.name, "split": split},
        chosen,
        loaded.scores(chosen.features),
        metric or ["ndcg@5"],
        as_json,
    )


@app.command()
def describe(
    data: DataArgument = "synthetic(queries=2000, features=100)",
    fold: FoldOption = 1,
    as_json: JsonOption = False,
) -> None:
    """Say what is in a data set: queries, documents, features, labels."""
    import rankloop
    from rankloop import console
    from rankloop.data import describe as described

    rows = described(rankloop.dataset(data, fold=fold))
    if as_json:
        typer.echo(json.dumps(rows, indent=2))
        return
    names = list(rows)
    console.out.print(
        console.table(
            data, ["", *names], [[what, *(str(rows[n][what]) for n in names)] for what in rows[names[0]]]
        )
    )


def _print_measures(
    facts: dict[str, Any], split: Any, scores: Any, metrics: list[str], as_json: bool
) -> None:
    from rankloop import console
    from rankloop.evaluation import policy_metrics, ranking_metrics

    ranking, policy = ranking_metrics(scores, split, metrics), policy_metrics(scores, split, metrics)
    if as_json:
        typer.echo(json.dumps({**facts, "ranking": ranking, "policy": policy}, indent=2))
        return
    for name, value in facts.items():
        shown = f"{value:.4f}" if isinstance(value, float) else value
        console.say(f"{name:12} {shown}")
    rows = [[name, f"{ranking[name]:.4f}", f"{policy[name]:.4f}"] for name in ranking]
    console.out.print(
        console.table(
            f"{split.n_queries} queries", ["metric", "sorted by score", "drawn from the policy"], rows
        )
    )


def main() -> None:
    """Run the command line; what a user got wrong is said in one line, with exit code 2."""
    try:
        app(prog_name="rankloop")
    except RankloopError as error:
        typer.echo(f"rankloop: {error}", err=True)
        sys.exit(2)
