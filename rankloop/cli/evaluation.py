"""The command that compares a policy with another one before it is deployed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from rankloop.cli.log_options import RanksOption, TargetedLogSource, choose_bias
from rankloop.cli.option_groups import expand_groups
from rankloop.cli.options import JsonOption, SeedOption
from rankloop.errors import RankloopError

ALL = "all"
RANKINGS = "How policies rank"

PolicyBiasOption = Annotated[
    str | None,
    typer.Option(
        help="How users click: a file that `rankloop bias` wrote, the name of simulated users such as "
        r"paper@5, or estimate, from the log itself. \[default: as NEW was fitted, or estimate]",
        show_default=False,
    ),
]


@expand_groups
def evaluate(
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
    *,
    source: TargetedLogSource,
    seed: SeedOption = 0,
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
    log = source.open()
    chosen = _read_queries(Path(queries)) if queries not in (None, ALL) else queries
    options = EvaluationOptions(
        ranking=ranking,  # type: ignore[arg-type]
        rerank=rerank,  # type: ignore[arg-type]
        support=support,
        control=control,
        seed=seed,
    )
    with console.announce_compilation(), console.progress() as progress:
        found = log.evaluate(
            policy,
            against,
            bias=choose_bias(log, bias, ranks, seed, progress),
            measure=measure,
            queries=chosen,
            options=options,
            progress=progress,
        )
        others = None
        if sensitivity:
            others = rankloop.sensitivity(
                log, policy, against, measure=measure, queries=chosen, options=options, progress=progress
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
