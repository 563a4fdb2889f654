"""Commands on labelled data: train, measure, describe."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from rankloop.cli.options import DATA, DataArgument, FoldOption, JsonOption, SeedOption, argument, option
from rankloop.errors import RankloopError

MetricsOption = Annotated[
    list[str] | None,
    option("Metric ({metrics}); can be given several times.", "--metric", shown="ndcg@5"),
]


NormaliseOption = Annotated[
    str,
    option(
        "How features of files are scaled: query, to 0 … 1 within each query, or none, which `rankloop "
        "export` needs."
    ),
]


def train(
    data: DataArgument = DATA,
    out: Annotated[Path, option("File to write the model to.", "--out", "-o")] = Path("model.rankloop"),
    model: Annotated[str, option("{models}, with options such as mlp(hidden=64-32).")] = "mlp",
    metric: Annotated[str, option("Metric to maximise.")] = "ndcg@5",
    objective: Annotated[
        str | None,
        option(
            "Networks only: what to train on instead of the metric, which still decides when to stop: "
            "{objectives}.",
            shown="the metric, in expectation",
        ),
    ] = None,
    optimiser: Annotated[
        str | None,
        option("Networks only: {optimisers}, such as adam(rate=0.01).", shown="adam(rate=0.003)"),
    ] = None,
    epochs: Annotated[
        int | None, option("Networks only: maximum number of epochs.", shown="100", min=1)
    ] = None,
    patience: Annotated[
        int | None,
        option("Networks only: epochs without improvement before training stops.", shown="5", min=1),
    ] = None,
    batch: Annotated[int | None, option("Networks only: queries per step.", shown="1", min=1)] = None,
    normalise: NormaliseOption = "query",
    fold: FoldOption = 1,
    seed: SeedOption = 0,
    as_json: JsonOption = False,
) -> None:
    """Train a ranker on labelled data with exact gradients, save it, and evaluate it on the test queries."""
    import rankloop
    from rankloop.cli import console
    from rankloop.models.optimisers import optimiser as optimiser_named
    from rankloop.models.specs import LightGBMSpec, model_spec
    from rankloop.progress import rename_task
    from rankloop.storage.files import check_writable
    from rankloop.training import Settings

    check_writable(out)
    given = {"epochs": epochs, "patience": patience, "batch": batch}
    options: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    if optimiser is not None:
        options["optimiser"] = optimiser_named(optimiser)
    if options and isinstance(model_spec(model), LightGBMSpec):
        raise RankloopError(
            f"--{min(options)} is for networks; options of trees are part of the name, as in "
            "--model 'lightgbm(rounds=300, rate=0.1)'"
        )
    settings = Settings(**options)
    collection = rankloop.dataset(data, fold=fold, normalise=_scaling(normalise))
    with console.working() as progress:
        named = rename_task(progress, f"training {model}")
        result = rankloop.train(
            collection,
            model,
            metric=metric,
            objective=objective,
            settings=settings,
            seed=seed,
            progress=named,
        )
    rankloop.save(result.model, out)
    scores = result.model.scores(collection.test.features)
    _measure(
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


def measure(
    model: Annotated[Path, argument("MODEL", "A model file written by `rankloop train`.")],
    data: DataArgument = DATA,
    metric: MetricsOption = None,
    split: Annotated[str, option("Split to measure on: train, validation or test.")] = "test",
    fold: FoldOption = 1,
    as_json: JsonOption = False,
) -> None:
    """Compute metrics of a saved model: of its ranking by score, and exactly of its policy.

    Features of files are scaled as in the training of the model.
    """
    import rankloop
    from rankloop.models.feature_names import scaling_of_model

    loaded = rankloop.load(model)
    scaling = scaling_of_model(loaded) or "query"
    collection = rankloop.dataset(data, fold=fold, normalise=_scaling(scaling))
    if split not in ("train", "validation", "test"):
        raise RankloopError(f"--split must be train, validation or test, got {split!r}")
    chosen = getattr(collection, split)
    _measure(
        {"model": loaded.kind, "fingerprint": loaded.fingerprint, "data": collection.name, "split": split},
        chosen,
        loaded.scores(chosen.features),
        metric or ["ndcg@5"],
        as_json,
    )


def describe(
    data: DataArgument = DATA,
    fold: FoldOption = 1,
    as_json: JsonOption = False,
) -> None:
    """Summarise a data set: queries, documents, features, labels."""
    import rankloop
    from rankloop.cli import console
    from rankloop.data import describe as described
    from rankloop.reports.fit import dataset_document

    rows = described(rankloop.dataset(data, fold=fold))
    console.present(rows, dataset_document(data, rows), as_json=as_json)


def _scaling(text: str) -> Literal["query"] | None:
    if text not in ("query", "none"):
        raise RankloopError(f"--normalise is query or none, not {text!r}")
    return "query" if text == "query" else None


def _measure(facts: dict[str, Any], split: Any, scores: Any, metrics: list[str], as_json: bool) -> None:
    from rankloop.cli import console
    from rankloop.evaluation import policy_metrics, ranking_metrics
    from rankloop.reports.fit import measures_document

    ranking, policy = ranking_metrics(scores, split, metrics), policy_metrics(scores, split, metrics)
    value = {**facts, "ranking": ranking, "policy": policy}
    document = measures_document(facts, split.n_queries, ranking, policy)
    console.present(value, document, as_json=as_json)
