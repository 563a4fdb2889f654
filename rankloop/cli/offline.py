"""Commands on a log: check it, estimate its bias and relevance, fit a ranker, evaluate it, and all in one."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rankloop.cli.options import (
    JsonOption,
    LogSource,
    PageOption,
    SeedOption,
    TargetedLogSource,
    expand_options,
    option,
)
from rankloop.errors import RankloopError

if TYPE_CHECKING:
    from rankloop.bias import BiasEstimate
    from rankloop.offline import Log
    from rankloop.progress import Progress

ESTIMATE, ALL, MODEL = "estimate", "all", "model"
RANKINGS = "How policies rank"
MEASURE_HELP = "The value of a ranking: dcg, dcg@10 or clicks."
BIAS_HELP = (
    "How users click: a file that `rankloop bias` wrote, the name of simulated users such as paper@5, "
    "or estimate, from the log itself."
)

BiasOption = Annotated[str | None, option(BIAS_HELP, shown=ESTIMATE)]
RanksOption = Annotated[
    int | None, option("If the bias is estimated: how many ranks to use.", shown="all", min=1)
]
HoldOutFromOption = Annotated[
    str | None,
    option(
        "Hold out the queries first seen on this date or later, and train on the impressions before it, "
        "instead of holding out a random share.",
        shown="",
        metavar="DATE",
    ),
]
JudgeOption = Annotated[
    str,
    option(
        "What judges the policy: folds, each query ranked by a model that never saw it, which takes about "
        "five times the training; split, a share of the queries that is held out, for large logs; or none. "
        "With --hold-out-from, later queries judge."
    ),
]
ModelOption = Annotated[str, option("{models}; with options: lightgbm(rounds=300).")]


@expand_options
def check(
    page: PageOption = None,
    *,
    source: LogSource,
    seed: SeedOption = 0,
    as_json: JsonOption = False,
) -> None:
    """Check what is in a log, and what each command will say to it."""
    from rankloop import write_report
    from rankloop.cli import console
    from rankloop.reports.check import check_document
    from rankloop.storage.files import check_writable

    check_writable(page)
    log = source.open()
    with console.working() as progress:
        found = log.check(seed=seed, progress=progress)
    if page is not None:
        write_report(found, page)
    console.present(found, check_document(found), as_json=as_json, page=page)


@expand_options
def bias(
    out: Annotated[Path, option("The file to store the bias in.", "--out", "-o")] = Path("bias.json"),
    model: Annotated[
        str,
        option(
            "affine, position, harvesting (also position-based, from pairs of ranks), or curve (k^−η, for "
            "few clicks)."
        ),
    ] = "affine",
    method: Annotated[
        str,
        option(
            "Where the estimate comes from: pairs, documents, features, randomised or assumed; auto for the "
            "first that the log supports."
        ),
    ] = "auto",
    randomised: Annotated[
        str | None, option("A policy of the log that ranks at random.", metavar="POLICY")
    ] = None,
    curve: Annotated[
        str | None, option("The curve to assume if nothing can be estimated, such as paper@10.")
    ] = None,
    ranks: Annotated[int | None, option("How many ranks to use.", shown="all", min=1)] = None,
    resamples: Annotated[
        int, option("How often queries are resampled for the intervals; 0 for no intervals.", min=0)
    ] = 200,
    confidence: Annotated[float, option("Confidence level of the intervals.")] = 0.9,
    held_out: Annotated[
        bool, option("Compare the affine and the position-based model on held-out queries.")
    ] = True,
    context: Annotated[
        str,
        option(
            "In which contexts users may click more: length, for lists of other lengths; a column of the "
            "log, such as device; auto, what the self-test finds; or none."
        ),
    ] = "auto",
    page: PageOption = None,
    *,
    source: LogSource,
    seed: SeedOption = 0,
    as_json: JsonOption = False,
) -> None:
    """Estimate how users click, α and β per rank, by the best method that the log supports."""
    from rankloop import save_bias, write_report
    from rankloop.bias import BiasOptions
    from rankloop.cli import console
    from rankloop.reports.bias import bias_document
    from rankloop.storage.files import check_writable

    check_writable(out, page)
    options = BiasOptions(method, model, randomised, curve, resamples, confidence, held_out, context)
    log = source.open()
    with console.working() as progress:
        estimate = log.estimate_bias(options, ranks=ranks, seed=seed, progress=progress)
    save_bias(estimate, out)
    if page is not None:
        write_report(estimate, page)
    value = {"path": out, **estimate.to_dict()}
    console.present(value, bias_document(estimate), as_json=as_json, wrote=[out], page=page)


@expand_options
def relevance(
    out: Annotated[
        Path,
        option(
            "The table to write (.parquet or .csv), or judgments (.qrels for TREC, .json for OpenSearch).",
            "--out",
            "-o",
        ),
    ] = Path("relevance.parquet"),
    form: Annotated[
        str | None,
        option(
            "Judgments for another tool: qrels (TREC), opensearch (Search Relevance Workbench) or quepid.",
            "--format",
            shown="told by the name of the file",
        ),
    ] = None,
    grades: Annotated[int, option("The grade of relevance 1 in judgments.")] = 4,
    bias: BiasOption = None,
    ranks: RanksOption = None,
    shrink: Annotated[
        bool,
        option(
            "Shrink estimates from few displays towards the mean of the document's ranks.",
            "--shrink/--no-shrink",
        ),
    ] = True,
    *,
    source: LogSource,
    seed: SeedOption = 0,
    as_json: JsonOption = False,
) -> None:
    """Estimate the relevance of every document that was shown, corrected for position and trust bias.

    No features are needed. The table has one row per query and document, and is a policy for `rankloop
    evaluate`: evaluate it on another log, such as that of a later week.
    """
    from rankloop.cli import console
    from rankloop.reports.relevance import relevance_document
    from rankloop.storage.files import check_writable

    check_writable(out)
    log = source.open()
    with console.working() as progress:
        known = _choose_bias(log, bias, ranks, seed, progress)
        found = log.relevance(bias=known, shrink=shrink, seed=seed, progress=progress)
    found.save(out, form, grades=grades)
    value = {
        "path": out,
        "documents": len(found),
        "mean": found.mean,
        "spread": found.spread,
        "notes": found.notes,
    }
    console.present(value, relevance_document(found), as_json=as_json, wrote=[out])


@expand_options
def fit(
    out: Annotated[Path, option("The folder to store the policy in.", "--out", "-o")] = Path("policy"),
    model: ModelOption = "lightgbm",
    bias: BiasOption = None,
    ranks: RanksOption = None,
    estimator: Annotated[
        str | None,
        option(
            "How clicks become weights: {estimators}.",
            shown="intervention-aware, with the options of --learning",
        ),
    ] = None,
    learning: Annotated[str, option("{learning}.")] = "doubly-robust",
    guess: Annotated[
        str,
        option(
            "Model that guesses relevance from features, for doubly robust estimates: {guesses}; with "
            "options: logistic(penalty=10)."
        ),
    ] = "trees",
    judge: JudgeOption = "folds",
    validation: Annotated[
        float, option("The share of the queries that a model never sees: 0.2 makes five folds.")
    ] = 0.2,
    missing: Annotated[
        str,
        option(
            "How to replace missing feature values in models that do not support them (lightgbm does): "
            "error, zero or mean."
        ),
    ] = "error",
    hold_out_from: HoldOutFromOption = None,
    *,
    source: TargetedLogSource,
    seed: SeedOption = 0,
    as_json: JsonOption = False,
) -> None:
    """Fit a ranker to the clicks of a log, and store it with its bias, what judges it, and a report.

    Ctrl-C ends training, and the best model so far that some queries can judge is stored.
    """
    _require_for_fit(model)
    from rankloop import write_report
    from rankloop.cli import console
    from rankloop.offline.fit_result import PAGE_FILE, check_fit_path
    from rankloop.reports.fit import fit_document
    from rankloop.training import learning_named

    check_fit_path(out)
    chosen = learning_named(learning, estimator=estimator, guess=guess)
    log = source.open()
    with console.working() as progress:
        found = log.fit(
            model,
            bias=_choose_bias(log, bias, ranks, seed, progress),
            learning=chosen,
            held_out=hold_out_from or validation,
            judge=judge,  # type: ignore[arg-type]  # refused if it is something else
            missing=missing,  # type: ignore[arg-type]  # refused if it is something else
            seed=seed,
            progress=progress,
        )
    found.save(out)
    page = write_report(found, out / PAGE_FILE)
    value = {**found.to_dict(), "path": out, "page": page}
    console.present(value, fit_document(found), as_json=as_json, wrote=sorted(out.iterdir()))


@expand_options
def evaluate(
    policy: Annotated[
        str,
        option(
            "A stored policy, a table of scores (query_id, doc_id, score), the id of a policy of the log, or "
            "a model of LightGBM, XGBoost, ONNX or a search engine.",
            "--policy",
            metavar="NEW",
        ),
    ],
    against: Annotated[
        str,
        option("The policy to compare with; accepts the same forms as --policy.", "--against", metavar="OLD"),
    ],
    bias: Annotated[str | None, option(BIAS_HELP, shown="as NEW was fitted, or estimate")] = None,
    ranks: RanksOption = None,
    out: Annotated[Path, option("The HTML report.", "--report", "--out", "-o")] = Path("evaluation.html"),
    metric: Annotated[str, option(MEASURE_HELP, panel=RANKINGS)] = "dcg",
    ranking: Annotated[
        str,
        option(
            "How stored policies and tables rank: sorted by score, or drawn. Policies of the log draw.",
            panel=RANKINGS,
        ),
    ] = "sorted",
    rerank: Annotated[
        str | None,
        option(
            "What policies rank: impression, the documents that an impression displayed, or query, all "
            "documents of the query.",
            shown="query where candidates are known, else impression",
            panel=RANKINGS,
        ),
    ] = None,
    queries: Annotated[
        str | None,
        option(
            "The queries to use: a JSON list of query ids, a text file with one query id per line, or all.",
            shown="if a policy was fitted to this log, the queries that judge it, else all",
            metavar="FILE|all",
        ),
    ] = None,
    support: Annotated[
        float | None,
        option("Use clicks only on documents whose expected α is at least this.", shown="0.1/√T"),
    ] = None,
    guess: Annotated[
        str,
        option(
            "Guess of relevance that narrows the intervals: from scores (those of the policies), mean (no "
            "guess), or from features ({guesses})."
        ),
    ] = "scores",
    segments: Annotated[
        str | None,
        option(
            "Also compare on the impressions with each value of this column of the log, such as device, with "
            "intervals that hold together.",
            metavar="COLUMN",
        ),
    ] = None,
    judgments: Annotated[
        Path | None,
        option(
            "Grades from people or a language model (CSV, Parquet, qrels, or JSON of the Search Relevance "
            "Workbench), used in the guess; the report says whether the judge agrees with the users.",
            metavar="FILE",
            shown="none",
        ),
    ] = None,
    require: Annotated[
        str | None,
        option(
            "Exit with an error code unless the decision is at least this: better, leans-better, same, "
            "undecided or leans-worse.",
            metavar="DECISION",
        ),
    ] = None,
    evidence: Annotated[
        str,
        option(
            "What decides: model, a model of users; or, for two policies of the log that served at the same "
            "time with known scores, list, the probabilities of their lists, or prefix, the same if nothing "
            "below a click matters."
        ),
    ] = MODEL,
    sensitivity: Annotated[
        bool,
        option(
            "Also compare under a range of plausible curves of position bias, and report whether the "
            "decision depends on them.",
            "--sensitivity",
        ),
    ] = False,
    *,
    source: TargetedLogSource,
    seed: SeedOption = 0,
    as_json: JsonOption = False,
) -> None:
    """Estimate the value of a policy before it is deployed, with an interval and a decision."""
    import rankloop
    from rankloop.cli import console
    from rankloop.evidence import DecisionKind, exit_code
    from rankloop.offline import EvaluationOptions
    from rankloop.reports.evaluation import evaluation_document, list_document
    from rankloop.reports.html import write_page
    from rankloop.storage.files import check_writable

    check_writable(out)
    required = None if require is None else DecisionKind.read(require)
    log = source.open()
    if evidence != MODEL:
        compared = log.compare_lists(policy, against, evidence=evidence)  # type: ignore[arg-type]
        lists = list_document(compared)
        write_page(lists, out)
        console.present({**compared.to_dict(), "page": out}, lists, as_json=as_json, page=out)
        if required is not None:
            raise typer.Exit(exit_code(compared.decision.kind, required))
        return
    chosen = _read_queries(Path(queries)) if queries not in (None, ALL) else queries
    options = EvaluationOptions(
        ranking=ranking,  # type: ignore[arg-type]
        rerank=rerank,  # type: ignore[arg-type]
        support=support,
        guess=guess,
        judgments=judgments,
        seed=seed,
        segments=segments,
    )
    with console.working() as progress:
        found = log.evaluate(
            policy,
            against,
            bias=_choose_bias(log, bias, ranks, seed, progress),
            metric=metric,
            queries=chosen,
            options=options,
            progress=progress,
        )
        others = None
        if sensitivity:
            others = rankloop.sensitivity(
                log, policy, against, metric=metric, queries=chosen, options=options, progress=progress
            )
    document = evaluation_document(found, others)
    write_page(document, out)
    more = {} if others is None else {"sensitivity": others}
    console.present({**found.to_dict(), **more, "page": out}, document, as_json=as_json, page=out)
    if required is not None:
        raise typer.Exit(exit_code(found.decision.kind, required))


@expand_options
def backtest(
    policies: Annotated[
        list[str] | None,
        option(
            "A policy of the log; give the option once per policy.",
            "--policy",
            shown="all that served at the same time as another one",
            metavar="ID",
        ),
    ] = None,
    bias: Annotated[
        str | None, option(BIAS_HELP, shown="from the clicks of the policy that predicts, where they tell")
    ] = None,
    ranks: RanksOption = None,
    page: PageOption = None,
    *,
    source: LogSource,
    seed: SeedOption = 0,
    as_json: JsonOption = False,
) -> None:
    """Predict each policy's clicks from those of another that served at the same time, and compare."""
    from rankloop import write_report
    from rankloop.cli import console
    from rankloop.reports.backtest import backtest_document
    from rankloop.storage.files import check_writable

    check_writable(page)
    log = source.open()
    with console.working() as progress:
        found = log.backtest(
            policies, bias=_choose_bias(log, bias, ranks, seed, progress), seed=seed, progress=progress
        )
    if page is not None:
        write_report(found, page)
    console.present(found, backtest_document(found), as_json=as_json, page=page)


@expand_options
def pipeline(
    out: Annotated[Path, option("The folder to write to.", "--out", "-o")] = Path("pipeline"),
    model: ModelOption = "lightgbm",
    bias: BiasOption = None,
    against: Annotated[
        str | None, option("The policy of the log to compare with.", shown="the last one", metavar="OLD")
    ] = None,
    metric: Annotated[str, option(MEASURE_HELP)] = "dcg",
    hold_out_from: HoldOutFromOption = None,
    judge: Annotated[str, option("What judges the policy: folds or split, as in `rankloop fit`.")] = "folds",
    *,
    source: TargetedLogSource,
    seed: SeedOption = 0,
    as_json: JsonOption = False,
) -> None:
    """Check a log, estimate its bias, fit a ranker and evaluate it, with one page for everything.

    A table of clicks is imported first, with the columns that look like features, as the log of the folder.

    The exit code is for schedulers: 0 if the new ranker is better than the old policy, 10 if it leans better,
    11 if both rank alike, 12 if the log does not tell, 13 if it leans worse, 14 if it is worse, 2 for errors.
    """
    _require_for_fit(model)
    from rankloop.cli import console
    from rankloop.reports.evaluation import evaluation_document
    from rankloop.reports.pipeline import PAGE, PipelineOptions, run_pipeline

    if source.log.is_file():
        source = replace(source, log=_import_table(source.log, out / "log"))
    log = source.open()
    options = PipelineOptions(
        model=model,
        bias=None if bias == ESTIMATE else bias,
        against=against,
        metric=metric,
        hold_out_from=hold_out_from,
        judge=judge,  # type: ignore[arg-type]  # refused if it is something else
        seed=seed,
    )
    stages = f"the stages that are done, if any, are in {out}; the same command starts again"
    with console.working(stages) as progress:
        found = run_pipeline(log, out, options, progress=progress)
    value = {**found.comparison.to_dict(), "exit_code": found.exit_code, "page": out / PAGE}
    console.present(value, evaluation_document(found.comparison), as_json=as_json, page=out / PAGE)
    raise typer.Exit(found.exit_code)


def _import_table(table: Path, log: Path) -> Path:
    """Import a table of clicks as a log; one that was imported here before is replaced."""
    from rankloop.cli import console
    from rankloop.logs import ImportOptions, import_columns

    log.parent.mkdir(parents=True, exist_ok=True)
    with console.telling(console.NOTHING_WRITTEN), console.progress() as progress:
        options = ImportOptions(overwrite=True, progress=progress)
        found = import_columns(table, log, feature_columns=("auto",), options=options)
    for hint in found.hints:
        console.print_err(f"note: {hint}")
    return log


def _require_for_fit(model: str) -> None:
    """Name all extras at once that a fit needs and that are not installed."""
    from rankloop import extras
    from rankloop.models.specs import LightGBMSpec, model_spec

    extras.require("logs", *(["trees"] if isinstance(model_spec(model), LightGBMSpec) else []))


def _choose_bias(
    log: Log, text: str | None, ranks: int | None, seed: int, progress: Progress
) -> str | BiasEstimate | None:
    """The bias that was asked for; None for the default of the function that is called."""
    from rankloop.offline.assumptions import explain_missing_bias

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
