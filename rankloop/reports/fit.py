"""The report on a ranker that was fitted to a log."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from rankloop.models import Linear
from rankloop.models.lightgbm import LightGBMModel
from rankloop.offline import Fit
from rankloop.offline.fit_result import ReportedEstimate
from rankloop.reports.bias import bias_table
from rankloop.reports.document import (
    Column,
    Document,
    Facts,
    Figure,
    Figures,
    LegendEntry,
    Section,
    Table,
    Text,
    next_step,
    warnings,
)
from rankloop.reports.drawing import colour, draw_svg, set_integer_axis
from rankloop.reports.self_test import self_test_section
from rankloop.types import Float64

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Features that the table lists; there may be hundreds more.
MOST_FEATURES = 20


def fit_document(fit: Fit) -> Document:
    """The report on a fit."""
    impressions = sum(part.impressions for part in fit.policies)
    return Document(
        f"{fit.spec} fitted to a log",
        f"{fit.spec}, fitted to {impressions:,} impressions",
        (
            Text(
                f"Fitted to the {fit.target} on {_queries(len(fit.train_queries))}, stopped on "
                f"{_queries(len(fit.stop_queries), 'other ')}. Fingerprint {fit.model.fingerprint}.",
                brief=True,
            ),
            *warnings(fit.notes),
            Section("Estimates from held-out clicks", _estimates(fit)),
            *_self_test(fit),
            Section("Training", (_training(fit),)),
            Section("What it was learned from", (_policies(fit),)),
            *_guess(fit),
            *_features(fit),
            Section("Setup", (_setup(fit), bias_table(fit.bias.alpha, fit.bias.beta, fit.bias.examination))),
            next_step(Text(_next_step(fit), brief=True)),
        ),
    )


def _estimates(fit: Fit) -> tuple[Table | Text, ...]:
    held = fit.held_out
    if held is None:
        return (Text("No query of the log judges it: evaluate it on another log.", brief=True),)
    rows = [
        ["sorted by the model’s scores", *_numbers(held.new)],
        [f"policy {held.against}", *_numbers(held.old)],
        ["difference", *_numbers(held.gain)],
    ]
    return (
        Table.build(
            f"{held.metric}, as rankloop evaluate estimates it on {_queries(held.queries)} "
            f"({held.impressions:,} impressions)",
            ["rankings", "estimate", "90 % interval"],
            rows,
            brief=True,
        ),
        Text(held.text, brief=True),
        *([Text(held.guess_gain)] if held.guess_gain else []),
        Text(_how_judged(fit), "quiet"),
    )


def _how_judged(fit: Fit) -> str:
    known = fit.judged_scores
    if known is None:
        return "The model has not seen the clicks on these queries."
    return (
        f"Each query is ranked by one of {known.folds} models that have not seen its clicks, neither to "
        f"train nor to stop. The model that is stored was trained in the same way and uses all queries, so "
        f"that it knows a little more."
    )


def _self_test(fit: Fit) -> tuple[Section, ...]:
    """The self-test of the log, which decided with the held-out queries."""
    tested = None if fit.held_out is None else fit.held_out.self_test
    return () if tested is None else (self_test_section(tested, of_decision=True),)


def _queries(number: int, kind: str = "") -> str:
    return f"{number:,} {kind}{'query' if number == 1 else 'queries'}"


def _numbers(estimate: ReportedEstimate) -> list[str]:
    return [f"{estimate.value:.4f}", f"{estimate.low:.4f} to {estimate.high:.4f}"]


def _training(fit: Fit) -> Figures:
    unit = "trees" if isinstance(fit.model, LightGBMModel) else "epochs"

    start = fit.history[0].held_out

    def draw(axes: Axes) -> None:
        axes.plot(
            [epoch.number for epoch in fit.history],
            [epoch.held_out - start for epoch in fit.history],
            color=colour(0),
        )
        axes.plot([fit.best.number], [fit.best.held_out - start], marker="o", color=colour(0), linestyle="")
        set_integer_axis(axes, unit)
        axes.set_ylabel("gain of the training objective")

    words = (
        f"The objective of training on the queries that stop it by {unit}, minus its value at the start: it "
        f"rises until {fit.best.number}, which were kept. Its units are not those of the estimates above."
    )
    legend = (LegendEntry("queries that stop training", 0),)
    caption = f"{fit.best.number} of {fit.history[-1].number} {unit} were kept."
    return Figures((Figure(partial(draw_svg, "training", draw), caption, words),), legend)


def _policies(fit: Fit) -> Table:
    levels = list(fit.policies[0].below)
    rows = [
        [
            part.policy_id,
            f"{part.impressions:,}",
            f"{part.queries:,}",
            f"{part.clicks:,}",
            *(f"{part.below[level]:.1%}" for level in levels),
        ]
        for part in fit.policies
    ]
    columns = ["policy", "impressions", "queries", "clicks"]
    columns += [f"expected α below {level:g}" for level in levels]
    return Table.build("Policies of the log, and the share of documents they hardly show", columns, rows)


def _guess(fit: Fit) -> tuple[Section, ...]:
    """How well relevance that is guessed from features explains clicks."""
    if fit.guess is None:
        return ()
    found = fit.guess.calibration
    rows = [
        [
            f"{row.relevance:.3f}",
            f"{row.displays:,}",
            f"{row.expected / row.displays:.4f}",
            f"{row.clicks / row.displays:.4f}",
        ]
        for row in found.rows
    ]
    better = "explain" if found.gain > 0.0 else "do not explain"
    alike, effects = "all documents", ""
    if found.query_effects:
        alike = "all documents of a query"
        effects = (
            f" How often a query brings {_outcome(fit)} whatever is shown is not for features to tell: it is "
            f"estimated from the {_outcome(fit)} of its other documents."
        )
    return (
        Section(
            f"How well features predict {_outcome(fit)}",
            (
                Text(
                    f"The guesses of {fit.guess.name} {better} {_outcome(fit)} that they did not see better "
                    f"than one relevance for {alike}: {found.gain:+.4f} nats per display. On average, "
                    f"expected and observed {_outcome(fit)} differ by {found.error:.4f} per display."
                    f"{effects}",
                ),
                Table.build(
                    f"{found.displays:,} displays by guessed relevance, and {_outcome(fit)} per display",
                    ["relevance", "displays", "expected", "observed"],
                    rows,
                ),
            ),
        ),
    )


def _features(fit: Fit) -> tuple[Section, ...]:
    values = importance(fit)
    if values is None:
        return ()
    order = np.argsort(-np.abs(values), kind="stable")[:MOST_FEATURES]
    names = fit.feature_names or tuple(f"feature {number}" for number in range(len(values)))
    rows = [[names[number], f"{values[number]:.4g}"] for number in order.tolist() if values[number]]
    what = "weight" if isinstance(fit.model, Linear) else "share of the gain"
    numbered = "" if fit.feature_names else "; the log has no names for them, so they are numbered from 0"
    caption = f"By {what}, the first {len(rows)} of {len(values)}{numbered}"
    columns: list[str | Column] = [Column("feature", words=True), what]
    return (Section("Features", (Table.build(caption, columns, rows),)),)


def importance(fit: Fit) -> Float64 | None:
    """Each feature's share of the gain of all splits, or its weight; None for networks."""
    if isinstance(fit.model, LightGBMModel):
        gain = np.asarray(fit.model.booster.feature_importance("gain"), dtype=np.float64)
        return gain / gain.sum() if gain.any() else gain
    if isinstance(fit.model, Linear):
        return np.asarray(fit.model.parameters[:-1], dtype=np.float64)
    return None


def _setup(fit: Fit) -> Facts:
    facts = [("model", fit.spec), ("estimator", fit.estimator), ("seed", f"{fit.seed}")]
    if fit.guess is not None:
        facts.append(("guess of relevance", fit.guess.name))
    return Facts(tuple(facts))


def _next_step(fit: Fit) -> str:
    """What to do with the fit, by what the queries say that judge it."""
    old = "OLD" if fit.held_out is None else fit.held_out.against
    evaluate = f"`rankloop evaluate LOG --policy POLICY --against {old}`"
    if fit.held_out is not None and fit.held_out.decision in ("worse", "leans worse"):
        return f"Do not deploy it. {evaluate} shows where it loses; more clicks or other features may help."
    return f"{evaluate} gives the whole evaluation; run it on a later log before you start an A/B test."


def _outcome(fit: Fit) -> str:
    """What a display brings: clicks, or shares of the highest amount."""
    return "clicks" if fit.target == "clicks" else "shares of the highest amount"


def measures_document(
    facts: Mapping[str, object], queries: int, ranking: Mapping[str, float], policy: Mapping[str, float]
) -> Document:
    """The metrics of a model.

    Args:
        facts: which model and which data.
        queries: number of queries that were ranked.
        ranking: metrics of the ranking by score.
        policy: metrics of the model's Plackett–Luce policy.
    """
    spelled = tuple(
        (name, f"{value:.4f}" if isinstance(value, float) else str(value)) for name, value in facts.items()
    )
    rows = [[name, f"{ranking[name]:.4f}", f"{policy[name]:.4f}"] for name in ranking]
    columns = ["metric", "sorted by score", "drawn from the policy"]
    table = Table.build(f"{queries} queries", columns, rows, brief=True)
    return Document("measures", "Measures", (Facts(spelled, brief=True), table))


def dataset_document(name: str, parts: Mapping[str, Mapping[str, object]]) -> Document:
    """The contents of a data set, with one column per part."""
    names = list(parts)
    rows = [[what, *(str(parts[part][what]) for part in names)] for what in parts[names[0]]]
    return Document(name, name, (Table.build(name, ["", *names], rows, brief=True),))
