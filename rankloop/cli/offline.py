"""Commands on a log: fit a ranker to it, rank with it, and evaluate it before it is deployed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from rankloop.cli.options import EngineOption, JsonOption, LogArgument, MasterOption, SeedOption
from rankloop.errors import RankloopError

if TYPE_CHECKING:
    from rankloop.bias import BiasEstimate
    from rankloop.offline import Log
    from rankloop.progress import Progress

ESTIMATE, ALL = "estimate", "all"
RANKINGS = "How policies rank"

BiasOption = Annotated[
    str | None,
    typer.Option(
        help="How users click: a file that `rankloop bias` wrote, the name of simulated users such as "
        r"paper@5, or estimate, from the log itself. \[default: estimate]",
        show_default=False,
    ),
]
PolicyBiasOption = Annotated[
    str | None,
    typer.Option(
        help="How users click: a file that `rankloop bias` wrote, the name of simulated users such as "
        r"paper@5, or estimate, from the log itself. \[default: as NEW was fitted, or estimate]",
        show_default=False,
    ),
]
RanksOption = Annotated[
    int | None,
    typer.Option(help=r"If the bias is estimated: how many ranks to use. \[default: all]", min=1),
]
DisplaysOption = Annotated[
    bool,
    typer.Option(
        "--displays",
        help="Estimate exposures from displays, for policies that do not draw rankings from their scores.",
    ),
]
TargetOption = Annotated[
    str,
    typer.Option(
        help="What policies are fitted to and judged by: clicks, signal (what displays were worth, by the "
        "weights of the import), or auto: the signal of logs that have one."
    ),
]
HoldOutFromOption = Annotated[
    str | None,
    typer.Option(
        metavar="DATE",
        help="Hold out the queries first seen on this date or later, and train on the impressions "
        "before it, instead of holding out a random share.",
        show_default=False,
    ),
]


def fit(
    log: LogArgument,
    out: Annotated[Path, typer.Option("--out", "-o", help="The folder to store the policy in.")] = Path(
        "policy"
    ),
    model: Annotated[
        str, typer.Option(help="lightgbm, mlp or linear; with options: lightgbm(rounds=300).")
    ] = "lightgbm",
    bias: BiasOption = None,
    ranks: RanksOption = None,
    estimator: Annotated[
        str | None,
        typer.Option(
            help="How clicks become weights: naive, ips, policy-aware, affine, intervention-oblivious or "
            r"intervention-aware. \[default: intervention-aware, with the options of --learning]"
        ),
    ] = None,
    learning: Annotated[str, typer.Option(help="doubly-robust, robust or paper.")] = "doubly-robust",
    guess: Annotated[
        str,
        typer.Option(
            help="Model that guesses relevance from features, for doubly robust estimates: trees, logistic "
            "or constant; with options: logistic(penalty=10)."
        ),
    ] = "trees",
    validation: Annotated[float, typer.Option(help="The share of the queries to hold out.")] = 0.2,
    missing: Annotated[
        str,
        typer.Option(
            help="How to replace missing feature values in models that do not support them (lightgbm does): "
            "error, zero or mean."
        ),
    ] = "error",
    hold_out_from: HoldOutFromOption = None,
    displays: DisplaysOption = False,
    target: TargetOption = "auto",
    seed: SeedOption = 0,
    engine: EngineOption = "duckdb",
    master: MasterOption = None,
    as_json: JsonOption = False,
) -> None:
    """Fit a ranker to the clicks of a log, and store it with its bias, held-out queries and report.

    Ctrl-C ends training, and the best model so far is stored.
    """
    require_for_fit(model)
    from rankloop import write_report
    from rankloop.cli import console
    from rankloop.offline.fit_result import PAGE_FILE, check_fit_path
    from rankloop.reports.fit import fit_document
    from rankloop.training import learning_named

    check_fit_path(out)
    chosen = learning_named(learning, estimator=estimator, guess=guess)
    opened = opened_log(log, engine, master, displays=displays, target=target)
    with console.announce_compilation(), console.progress() as progress:
        found = opened.fit(
            model,
            bias=chosen_bias(opened, bias, ranks, seed, progress),
            learning=chosen,
            held_out=hold_out_from or validation,
            missing=missing,  # type: ignore[arg-type]  # refused if it is something else
            seed=seed,
            progress=progress,
        )
    found.save(out)
    page = write_report(found, out / PAGE_FILE)
    if as_json:
        typer.echo(json.dumps({**found.to_dict(), "path": str(out), "page": str(page)}, indent=2))
        return
    console.print_document(fit_document(found))
    for path in sorted(out.iterdir()):
        console.print_out(f"wrote {path}")


def rank(
    policy: Annotated[
        Path,
        typer.Argument(
            metavar="POLICY",
            help="A policy that `rankloop fit` stored, a model (also of LightGBM, XGBoost or ONNX), or "
            "an exported file.",
        ),
    ],
    features: Annotated[
        list[Path],
        typer.Argument(
            metavar="FEATURES",
            help="The folder of a log, or a table (Parquet, CSV) of query_id, doc_id and features; a table "
            "of doc_id and features may follow.",
        ),
    ],
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help=r"The file to write. \[default: standard output]"),
    ] = None,
    top: Annotated[
        int | None, typer.Option(help=r"How many documents per query. \[default: all]", min=1)
    ] = None,
    form: Annotated[
        str | None,
        typer.Option(
            "--format",
            help="tsv (with a header; ids may contain spaces), jsonl, parquet, or trec, a TREC run. "
            r"\[default: by the ending of OUT, or tsv]",
            show_default=False,
        ),
    ] = None,
    draw: Annotated[
        bool, typer.Option("--draw", help="Draw rankings (Plackett–Luce) rather than sort by score.")
    ] = False,
    tag: Annotated[str, typer.Option(help="The last column of a TREC run.")] = "rankloop",
    seed: SeedOption = 0,
) -> None:
    """Score and rank documents; documents of equal score are ranked by their ids."""
    import numpy as np

    import rankloop
    from rankloop.cli import console
    from rankloop.offline.tables import RANKING_FORMATS
    from rankloop.storage.files import check_writable

    if form is not None and form not in RANKING_FORMATS:
        *first, last = RANKING_FORMATS
        raise RankloopError(f"--format is {', '.join(first)} or {last}, not {form!r}")
    if out is None and form == "parquet":
        raise RankloopError("Parquet is not for a terminal: name a file, as in -o rankings.parquet")
    check_writable(out)
    with console.announce_compilation(), console.progress() as progress:
        rng = np.random.default_rng(seed) if draw else None
        ranked = rankloop.rank(policy, features, top=top, rng=rng, progress=progress)
    for note in ranked.notes:
        console.print_err(f"note: {note}")
    if out is None:
        typer.echo(ranked.text(form or "tsv", tag=tag), nl=False)
        return
    ranked.save(out, form, tag=tag)
    console.print_out(f"wrote {out}: {len(ranked):,} documents of {len(ranked.query_ids.unique()):,} queries")


def evaluate(
    log: LogArgument,
    policy: Annotated[
        str,
        typer.Option(
            "--policy",
            metavar="NEW",
            help="A stored policy, a table of scores (query_id, doc_id, score), the id of a policy of the "
            "log, or a model of LightGBM, XGBoost, ONNX or a search engine.",
        ),
    ],
    against: Annotated[
        str,
        typer.Option(
            "--against", metavar="OLD", help="The policy to compare with; accepts the same forms as --policy."
        ),
    ],
    bias: PolicyBiasOption = None,
    ranks: RanksOption = None,
    out: Annotated[Path, typer.Option("--report", "--out", "-o", help="The HTML report.")] = Path(
        "evaluation.html"
    ),
    measure: Annotated[
        str, typer.Option(help="The value of a ranking: dcg, dcg@10 or clicks.", rich_help_panel=RANKINGS)
    ] = "dcg",
    ranking: Annotated[
        str,
        typer.Option(
            help="How stored policies and tables rank: sorted by score, or drawn. Policies of the log draw.",
            rich_help_panel=RANKINGS,
        ),
    ] = "sorted",
    rerank: Annotated[
        str | None,
        typer.Option(
            help="What policies rank: impression, the documents that an impression displayed, or query, all "
            r"documents of the query. \[default: query where candidates are known, else impression]",
            rich_help_panel=RANKINGS,
        ),
    ] = None,
    queries: Annotated[
        str | None,
        typer.Option(
            metavar="FILE|all",
            help="The queries to use: a JSON list of query ids, a text file with one query id per line, or "
            r"all. \[default: if a policy was fitted to this log, the queries that it held out, else all]",
        ),
    ] = None,
    support: Annotated[
        float | None,
        typer.Option(
            help=r"Use clicks only on documents whose expected α is at least this. \[default: 0.1/√T]"
        ),
    ] = None,
    control: Annotated[
        str,
        typer.Option(
            help="Guess of relevance that narrows the intervals: from scores "
            "(those of the policies), mean (no guess), or from features (trees, logistic)."
        ),
    ] = "scores",
    require: Annotated[
        str | None,
        typer.Option(
            metavar="VERDICT",
            help="Exit with an error code unless the verdict is at least this: better, leans-better, same, "
            "undecided or leans-worse.",
        ),
    ] = None,
    sensitivity: Annotated[
        bool,
        typer.Option(
            "--sensitivity",
            help="Also compare under a range of plausible curves of position bias, and report whether the "
            "verdict depends on them.",
        ),
    ] = False,
    displays: DisplaysOption = False,
    target: TargetOption = "auto",
    seed: SeedOption = 0,
    engine: EngineOption = "duckdb",
    master: MasterOption = None,
    as_json: JsonOption = False,
) -> None:
    """Estimate the value of a policy before it is deployed, with an interval and a verdict."""
    import rankloop
    from rankloop import EvaluationOptions
    from rankloop.cli import console
    from rankloop.offline import VerdictKind, exit_code
    from rankloop.reports.evaluation import evaluation_document
    from rankloop.reports.html import write_page
    from rankloop.storage.files import check_writable

    check_writable(out)
    required = None if require is None else VerdictKind.read(require)
    opened = opened_log(log, engine, master, displays=displays, target=target)
    chosen = _read_queries(Path(queries)) if queries not in (None, ALL) else queries
    options = EvaluationOptions(
        ranking=ranking,  # type: ignore[arg-type]
        rerank=rerank,  # type: ignore[arg-type]
        support=support,
        control=control,
        seed=seed,
    )
    with console.announce_compilation(), console.progress() as progress:
        found = opened.evaluate(
            policy,
            against,
            bias=chosen_bias(opened, bias, ranks, seed, progress),
            measure=measure,
            queries=chosen,
            options=options,
            progress=progress,
        )
        others = None
        if sensitivity:
            others = rankloop.sensitivity(
                opened, policy, against, measure=measure, queries=chosen, options=options, progress=progress
            )
    document = evaluation_document(found, others)
    write_page(document, out)
    if as_json:
        more = {} if others is None else {"sensitivity": others.to_dict()}
        typer.echo(json.dumps({**found.to_dict(), **more, "page": str(out)}, indent=2))
    else:
        console.print_document(document)
        console.announce_page(out)
    if required is not None:
        raise typer.Exit(exit_code(found.verdict.kind, required))


def require_for_fit(model: str) -> None:
    """Name all extras at once that a fit needs and that are not installed."""
    from rankloop import extras
    from rankloop.models.specs import LightGBMSpec, model_spec

    extras.require("logs", *(["trees"] if isinstance(model_spec(model), LightGBMSpec) else []))


def opened_log(log: Path, engine: str, master: str | None, *, displays: bool, target: str) -> Log:
    """Open a log as the options of fit, evaluate and pipeline say."""
    from rankloop import open_log

    exposure: Literal["displays", "candidates"] = "displays" if displays else "candidates"
    return open_log(log, engine=engine, master=master, exposure=exposure, target=target)


def chosen_bias(
    log: Log, text: str | None, ranks: int | None, seed: int, progress: Progress
) -> str | BiasEstimate | None:
    """The bias that was asked for; None for the default of the function that is called."""
    from rankloop.offline.assumed_bias import explain_missing_bias

    if text not in (None, ESTIMATE):
        if ranks is not None:
            raise RankloopError(f"--ranks is for --bias {ESTIMATE}: a bias that is given has its own ranks")
        return text
    if text is None and ranks is None:
        return None
    with explain_missing_bias():
        return log.estimate_bias(ranks=ranks, seed=seed, progress=progress)


def _read_queries(path: Path) -> list[str]:
    try:
        text = path.read_text(encoding="utf-8")
        # Only line feeds end a line: ids may contain other separators.
        queries = json.loads(text) if path.suffix == ".json" else [line for line in text.split("\n") if line]
    except (OSError, ValueError) as error:
        raise RankloopError(f"{path}: the list of queries cannot be read: {error}") from error
    if not isinstance(queries, list) or not queries or not all(isinstance(query, str) for query in queries):
        raise RankloopError(f"{path} lists no queries: expected one query id per line, or a JSON list of ids")
    return queries
