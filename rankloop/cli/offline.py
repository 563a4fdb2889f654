"""Commands on a log: fit a ranker to it, rank with it, and evaluate it before anybody sees it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rankloop.cli.options import EngineOption, JsonOption, LogArgument, MasterOption, SeedOption
from rankloop.errors import RankloopError

if TYPE_CHECKING:
    from rankloop.logs import Log, LogCounts
    from rankloop.progress import Progress
    from rankloop.types import Bias

ESTIMATE = "estimate"
# What is written beside a policy.
BIAS_FILE, HELD_OUT_FILE, PAGE_FILE = ".bias.json", ".held-out.txt", ".html"
# What every report must say.
ESTIMATED = "The bias was estimated from this very log; how sure it is, is not part of any interval here."
RANKINGS = "How policies rank"

BiasOption = Annotated[
    str,
    typer.Option(
        help="How users click: a file that `rankloop bias` wrote, estimate (from the log itself), or the "
        "name of users, as in paper@5."
    ),
]
RanksOption = Annotated[
    int | None,
    typer.Option(help=r"With --bias estimate: how many ranks to look at. \[default: all]", min=1),
]
DisplaysOption = Annotated[
    bool,
    typer.Option(
        "--displays",
        help="Estimate exposures from displays: for policies that do not draw rankings from their scores.",
    ),
]


def fit(
    log: LogArgument,
    out: Annotated[Path, typer.Option("--out", "-o", help="Where the policy is stored.")] = Path(
        "policy.rankloop"
    ),
    model: Annotated[
        str, typer.Option(help="lightgbm, mlp or linear; with options: lightgbm(rounds=300).")
    ] = "lightgbm",
    bias: BiasOption = ESTIMATE,
    ranks: RanksOption = None,
    estimator: Annotated[
        str | None,
        typer.Option(
            help="How clicks become weights: naive, ips, policy-aware, affine, intervention-oblivious, "
            r"intervention-aware. \[default: the last one, as --learning has it]"
        ),
    ] = None,
    learning: Annotated[str, typer.Option(help="robust, or paper.")] = "robust",
    validation: Annotated[float, typer.Option(help="The share of the queries that is held out.")] = 0.2,
    displays: DisplaysOption = False,
    seed: SeedOption = 0,
    engine: EngineOption = "duckdb",
    master: MasterOption = None,
    as_json: JsonOption = False,
) -> None:
    """Fit a ranker to a log’s clicks; its bias, its held-out queries and a page are written beside it."""
    from rankloop import offline
    from rankloop.cli import console
    from rankloop.logs import open_log
    from rankloop.model_files import save
    from rankloop.names import unknown
    from rankloop.progress import rename_task
    from rankloop.reports.fit import fit_document
    from rankloop.reports.html import write_page
    from rankloop.storage.files import check_writable, write_whole
    from rankloop.training import LEARNING

    beside = {name: out.with_name(out.name + name) for name in (BIAS_FILE, HELD_OUT_FILE, PAGE_FILE)}
    check_writable(out, *beside.values())
    if learning not in LEARNING:
        raise unknown("learning", learning, LEARNING)
    opened = open_log(log)
    with console.announce_compilation(), console.progress() as progress:
        assumed = _Assumed.of(bias, opened, progress, ranks=ranks, engine=engine, master=master, seed=seed)
        found = offline.fit(
            opened,
            assumed.bias,
            model=model,
            estimator=estimator,
            validation=validation,
            learning=LEARNING[learning],
            seed=seed,
            exposure="displays" if displays else "candidates",
            counts=assumed.counts,
            engine=engine,
            master=master,
            progress=rename_task(progress, f"fitting {model}"),
        )
    found = replace(found, notes=(*assumed.notes, *found.notes))
    assumed.save(beside[BIAS_FILE])
    write_whole(beside[HELD_OUT_FILE], "".join(f"{query}\n" for query in found.held_out_queries).encode())
    document = fit_document(found)
    write_page(document, beside[PAGE_FILE])
    # Last, so that a policy is never without what belongs to it.
    save(found.model, out)
    if as_json:
        paths = {"path": str(out), "bias_path": str(beside[BIAS_FILE]), "page": str(beside[PAGE_FILE])}
        held_out = {"held_out_path": str(beside[HELD_OUT_FILE])}
        typer.echo(json.dumps({**found.to_dict(), **paths, **held_out}, indent=2))
        return
    console.print_document(document)
    for path in (out, *beside.values()):
        console.print_out(f"wrote {path}")


def rank(
    policy: Annotated[Path, typer.Argument(metavar="POLICY", help="A policy that `rankloop fit` stored.")],
    features: Annotated[
        Path,
        typer.Argument(
            metavar="FEATURES",
            help="A log's folder, or a table (Parquet, CSV) of query_id, doc_id, features.",
        ),
    ],
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            "-o",
            help=r"Parquet if it ends in .parquet, else a TREC run. \[default: to standard output]",
        ),
    ] = None,
    top: Annotated[
        int | None, typer.Option(help=r"How many documents a query. \[default: all]", min=1)
    ] = None,
    draw: Annotated[
        bool, typer.Option("--draw", help="Draw rankings (Plackett–Luce) rather than sort by score.")
    ] = False,
    tag: Annotated[str, typer.Option(help="The last column of a TREC run.")] = "rankloop",
    seed: SeedOption = 0,
) -> None:
    """Score and rank documents: a TREC run, or Parquet."""
    import numpy as np

    import rankloop
    from rankloop import offline
    from rankloop.cli import console
    from rankloop.progress import report
    from rankloop.storage.files import check_writable

    check_writable(out)
    model = rankloop.load(policy)
    with console.announce_compilation(), console.progress() as progress:
        ranked = offline.rank(
            model,
            features,
            top=top,
            draw=draw,
            rng=np.random.default_rng(seed),
            watch=lambda done: report(progress, "ranking", note=f"{done:,} documents"),
        )
    if out is None:
        typer.echo(ranked.trec(tag), nl=False)
        return
    offline.write_ranked(ranked, out, tag=tag)
    console.print_out(f"wrote {out}: {len(ranked):,} documents of {len(ranked.query_ids.unique()):,} queries")


def evaluate(
    log: LogArgument,
    policy: Annotated[
        str,
        typer.Option(
            "--policy",
            metavar="NEW",
            help="A stored policy, a table of scores (query_id, doc_id, score), or the id of a policy of the "
            "log.",
        ),
    ],
    against: Annotated[str, typer.Option("--against", metavar="OLD", help="What it is held against, alike.")],
    bias: BiasOption = ESTIMATE,
    ranks: RanksOption = None,
    out: Annotated[Path, typer.Option("--report", "--out", "-o", help="The page of HTML.")] = Path(
        "evaluation.html"
    ),
    measure: Annotated[
        str, typer.Option(help="What a ranking is worth: dcg, dcg@10, clicks.", rich_help_panel=RANKINGS)
    ] = "dcg",
    ranking: Annotated[
        str,
        typer.Option(
            help="How stored policies and tables rank: sorted by score, or drawn. Policies of the log draw.",
            rich_help_panel=RANKINGS,
        ),
    ] = "sorted",
    queries: Annotated[
        Path | None,
        typer.Option(
            help="A file with one query id a line, to estimate on these alone, such as the .held-out.txt "
            "beside a policy that was fitted to this log."
        ),
    ] = None,
    support: Annotated[
        float | None,
        typer.Option(help=r"The least expected α of a document for its clicks to count. \[default: 0.1/√T]"),
    ] = None,
    displays: DisplaysOption = False,
    seed: SeedOption = 0,
    engine: EngineOption = "duckdb",
    master: MasterOption = None,
    as_json: JsonOption = False,
) -> None:
    """Estimate what a policy that nobody has seen yet is worth, with an interval and a verdict."""
    from rankloop import offline
    from rankloop.cli import console
    from rankloop.logs import open_log
    from rankloop.progress import report
    from rankloop.reports.evaluation import evaluation_document
    from rankloop.reports.html import write_page
    from rankloop.storage.files import check_writable

    check_writable(out)
    opened = open_log(log)
    chosen = None if queries is None else _read_queries(queries)
    with console.announce_compilation(), console.progress() as progress:
        assumed = _Assumed.of(bias, opened, progress, ranks=ranks, engine=engine, master=master, seed=seed)
        found = offline.evaluate(
            opened,
            assumed.bias,
            policy,
            against,
            measure=measure,
            ranking=ranking,  # type: ignore[arg-type]  # refused there if it is none
            queries=chosen,
            support=support,
            exposure="displays" if displays else "candidates",
            counts=assumed.counts,
            seed=seed,
            engine=engine,
            master=master,
            watch=lambda what: report(progress, "evaluating", note=what),
        )
    flattered = () if queries is not None else _notes_on_own_clicks(policy, against)
    found = replace(found, notes=(*assumed.notes, *flattered, *found.notes))
    document = evaluation_document(found)
    write_page(document, out)
    if as_json:
        typer.echo(json.dumps({**found.to_dict(), "page": str(out)}, indent=2))
        return
    console.print_document(document)
    console.print_out(f"wrote {out}")


def _notes_on_own_clicks(*policies: str) -> tuple[str, ...]:
    """What must be said of policies that `rankloop fit` has written, where all queries are used."""
    files = [(policy, Path(f"{policy}{HELD_OUT_FILE}")) for policy in policies]
    return tuple(
        f"{policy} looks better than it is if it was fitted to these very clicks: for the queries that it "
        f"was not fitted to, add --queries {held_out}."
        for policy, held_out in files
        if held_out.is_file()
    )


class _Assumed:
    """The bias that a command goes by: read, named, or estimated from the log."""

    def __init__(
        self, bias: Bias, kept: Any, counts: LogCounts | None = None, notes: tuple[str, ...] = ()
    ) -> None:
        self.bias, self.counts, self.notes = bias, counts, notes
        self._kept = kept

    @classmethod
    def of(
        cls,
        text: str,
        log: Log,
        progress: Progress,
        *,
        ranks: int | None,
        engine: str,
        master: str | None,
        seed: int,
    ) -> _Assumed:
        import numpy as np

        from rankloop import clicks
        from rankloop.bias import estimate_bias, load_bias
        from rankloop.logs import count
        from rankloop.names import BadNameError
        from rankloop.progress import report

        if text == ESTIMATE:
            report(progress, "bias", note="counting")
            counts = count(log, ranks=ranks, engine=engine, master=master)
            with _another_bias_helps():
                estimate = estimate_bias(
                    counts,
                    rng=np.random.default_rng(seed),
                    progress=lambda update: report(progress, "bias", update.share, update.task),
                )
            fitting = counts if counts.ranks == estimate.bias.ranks else None
            return cls(estimate.bias, estimate, fitting, (*estimate.notes, ESTIMATED))
        if ranks is not None:
            raise RankloopError(f"--ranks is for --bias {ESTIMATE}: a bias that is given has its own ranks")
        if Path(text).exists() or text.endswith(".json"):
            bias = load_bias(text)
            return cls(bias, bias)
        try:
            bias = clicks.bias_of(clicks.users(text))
        except BadNameError as error:
            raise RankloopError(
                f"--bias {text!r} is neither a file, nor {ESTIMATE!r}, nor the name of users: {error}"
            ) from error
        return cls(bias, bias)

    def save(self, path: Path) -> None:
        from rankloop.bias import save_bias

        save_bias(self._kept, path)


@contextmanager
def _another_bias_helps() -> Iterator[None]:
    try:
        yield
    except RankloopError as error:
        raise RankloopError(
            f"the bias cannot be estimated from this log: {error}; give one with --bias (a file, or the name "
            f"of users such as paper@5)"
        ) from error


def _read_queries(path: Path) -> list[str]:
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise RankloopError(f"{path}: the list of queries cannot be read: {error}") from error
    queries = [line for line in lines if line]
    if not queries:
        raise RankloopError(f"{path} lists no query: expected one query id a line")
    return queries
