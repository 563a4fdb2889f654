"""Check, bias, fit and evaluation of a log in one run, with one page: what a scheduler calls every night."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from rankloop.bias import BiasEstimate, save_bias
from rankloop.errors import RankloopError
from rankloop.evidence import DecisionKind, exit_code
from rankloop.offline import Comparison, Fit, Log
from rankloop.offline.assumptions import BiasSource, explain_missing_bias
from rankloop.progress import Progress, report
from rankloop.reports.bias import bias_document
from rankloop.reports.check import check_document
from rankloop.reports.document import Document, Section, Text, next_step, without_next_step
from rankloop.reports.evaluation import evaluation_document, what_now
from rankloop.reports.files import write_report
from rankloop.reports.fit import fit_document
from rankloop.reports.html import write_page
from rankloop.storage.plain import to_json
from rankloop.value.valuation import DEFAULT_METRIC

PAGE, RESULT, POLICY, BIAS = "index.html", "result.json", "policy", "bias.json"


@dataclass(frozen=True)
class PipelineOptions:
    """How a pipeline fits and evaluates.

    Attributes:
        model: the model to fit, as `rankloop.fit` takes it.
        bias: how users click, as `rankloop.fit` takes it; None to estimate it.
        against: the policy of the log to compare with; None for the one that logged last.
        metric: what is estimated, as `rankloop.evaluate` takes it.
        hold_out_from: judge by queries that first came at this time or later; None for ``judge``.
        judge: ``folds`` or ``split``, as `rankloop.fit` takes it.
        seed: the random seed.
    """

    model: str = "lightgbm"
    bias: BiasSource = None
    against: str | None = None
    metric: str = DEFAULT_METRIC
    hold_out_from: str | None = None
    judge: Literal["folds", "split"] = "folds"
    seed: int = 0


@dataclass(frozen=True, eq=False)
class Pipeline:
    """The result of a pipeline.

    Attributes:
        folder: everything that was written.
        fit: the new ranker.
        comparison: how it compares with the policy of the log.
    """

    folder: Path
    fit: Fit = field(repr=False)
    comparison: Comparison = field(repr=False)

    @property
    def exit_code(self) -> int:
        """0 if the new ranker is better, and otherwise the code of the decision."""
        return exit_code(self.comparison.decision.kind)


def run_pipeline(
    log: Log,
    folder: str | os.PathLike[str],
    options: PipelineOptions | None = None,
    *,
    progress: Progress | None = None,
) -> Pipeline:
    """Check a log, estimate its bias, fit a ranker to it and evaluate the ranker.

    Each stage writes its results as soon as they are there, and ``index.html`` has a section for every stage
    so far: a run that fails leaves what came before the failure.

    Args:
        log: a log with features, as `rankloop.open_log` opens it.
        folder: where to write; it may exist, and files of an earlier run are replaced.
        options: how to fit and to evaluate; None for the defaults.
        progress: called with what is being done.
    """
    chosen, place = options or PipelineOptions(), Path(folder)
    if chosen.judge not in ("folds", "split"):
        raise RankloopError(f"a pipeline judges its ranker by folds or split, not {chosen.judge!r}")
    place.mkdir(parents=True, exist_ok=True)
    sections: list[Section] = []

    def publish(name: str, document: Document) -> None:
        sections.append(Section(f"{name}: {document.heading}", document.blocks))
        write_page(_page(log, sections), place / PAGE)
        # Every stage is the next step of the one before it.
        sections[-1] = Section(sections[-1].heading, without_next_step(document.blocks))
        report(progress, "pipeline", note=f"{name}: done", milestone=True)

    publish("Check", check_document(log.check(seed=chosen.seed, progress=progress)))
    bias = chosen.bias
    if bias is None:
        with explain_missing_bias():
            bias = log.estimate_bias(seed=chosen.seed, progress=progress)
    if isinstance(bias, BiasEstimate):
        save_bias(bias, place / BIAS)
        publish("Bias", bias_document(bias))
    fit = log.fit(
        chosen.model,
        bias=bias,
        held_out=chosen.hold_out_from or 0.2,
        judge=chosen.judge,
        seed=chosen.seed,
        progress=progress,
    )
    fit.save(place / POLICY)
    publish("Fit", fit_document(fit))
    write_report(fit, place / POLICY / "report.html")
    comparison = _compare(log, fit, chosen, progress)
    (place / RESULT).write_text(to_json(comparison) + "\n", encoding="utf-8")
    evaluated = evaluation_document(comparison)
    publish("Evaluation", evaluated)
    # The decision and its number first: they are what the reader came for. What to do about it is last.
    sections.insert(0, Section("Decision", evaluated.blocks[:3]))
    export = f"`rankloop export {place / POLICY} --to opensearch` takes it to a search engine."
    better = comparison.decision.kind in (DecisionKind.BETTER, DecisionKind.LEANS_BETTER)
    advice = f"{what_now(comparison)}{f' {export}' if better else ''}"
    sections.append(next_step(Text(advice, brief=True)))
    write_page(_page(log, sections), place / PAGE)
    return Pipeline(place, fit, comparison)


def _compare(log: Log, fit: Fit, options: PipelineOptions, progress: Progress | None) -> Comparison:
    """The evaluation that came with the fit if it answers what was asked, and a new one otherwise."""
    first = fit.comparison
    assert first is not None, "fits are evaluated before they are stored"
    against = options.against or first.against.name
    if against == first.against.name and options.metric in (DEFAULT_METRIC, first.metric):
        return first
    return log.evaluate(fit, against, metric=options.metric, progress=progress)


def _page(log: Log, sections: list[Section]) -> Document:
    name = log.folder.resolve().name
    return Document(f"pipeline of {name}", f"From the log ‘{name}’ to a ranker", tuple(sections))
