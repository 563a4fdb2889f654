"""The report on a ranker that was fitted to a log."""

from __future__ import annotations

from functools import partial

import numpy as np
from matplotlib.axes import Axes

from rankloop.models import Linear
from rankloop.models.lightgbm import LightGBMModel
from rankloop.offline import Fit
from rankloop.reports.bias import bias_table
from rankloop.reports.document import (
    Document,
    Facts,
    Figure,
    Figures,
    LegendEntry,
    Section,
    Table,
    Text,
    warnings,
)
from rankloop.reports.drawing import draw_level, draw_svg, set_integer_axis
from rankloop.reports.style import colour
from rankloop.types import Float64

# Features that the table lists; there may be hundreds more.
MOST_FEATURES = 20
LOGGED, EQUAL = "--", ":"


def fit_document(fit: Fit) -> Document:
    """The report on a fit."""
    impressions = sum(part.impressions for part in fit.policies)
    return Document(
        f"{fit.spec} fitted to a log",
        f"{fit.spec}, fitted to {impressions:,} impressions",
        (
            Text(
                f"Fitted to the clicks on {len(fit.train_queries):,} queries; {len(fit.held_out_queries):,} "
                f"others were held out. Fingerprint {fit.model.fingerprint}.",
                brief=True,
            ),
            *warnings(fit.notes),
            Section("Estimates from held-out clicks", _estimates(fit)),
            Section("Training", (_training(fit),)),
            Section("What it was learned from", (_policies(fit),)),
            *_features(fit),
            Section("Setup", (_setup(fit), bias_table(fit.bias.alpha, fit.bias.beta, fit.bias.examination))),
        ),
    )


def _estimates(fit: Fit) -> tuple[Table, Text]:
    held = fit.held_out
    rows = [
        ["sorted by the model’s scores", f"{held.sorted:.4f}", f"{held.gain:+.4f} ± {held.gain_error:.4f}"],
        ["drawn from the model’s scores", f"{held.drawn:.4f}", f"{held.drawn - held.logged:+.4f}"],
        ["as the log shows them", f"{held.logged:.4f}", ""],
        ["in random order", f"{held.equal:.4f}", f"{held.equal - held.logged:+.4f}"],
    ]
    return (
        Table.build(
            f"Estimated {fit.reward} per held-out query",
            ["rankings", "estimate", "− logged"],
            rows,
            brief=True,
        ),
        Text(
            "± is one standard error over queries. The same clicks decided when to stop training, so these "
            "estimates are slightly too high: `rankloop evaluate` on a later log decides.",
            "quiet",
        ),
    )


def _training(fit: Fit) -> Figures:
    unit = "trees" if isinstance(fit.model, LightGBMModel) else "epochs"

    def draw(axes: Axes) -> None:
        for level, dashes in ((fit.held_out.logged, LOGGED), (fit.held_out.equal, EQUAL)):
            draw_level(axes, level, dashes)
        axes.plot(
            [epoch.number for epoch in fit.history],
            [epoch.held_out for epoch in fit.history],
            color=colour(0),
        )
        axes.plot([fit.best.number], [fit.best.held_out], marker="o", color=colour(0), linestyle="")
        set_integer_axis(axes, unit)
        axes.set_ylabel(f"{fit.reward} per query, drawn")

    words = (
        f"Held-out estimate by {unit}: {fit.history[0].held_out:.4f} at the start, {fit.best.held_out:.4f} "
        f"at {fit.best.number}, which were kept."
    )
    legend = (
        LegendEntry("held-out estimate", 0),
        LegendEntry("as the log shows them", None, LOGGED),
        LegendEntry("in random order", None, EQUAL),
    )
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


def _features(fit: Fit) -> tuple[Section, ...]:
    values = importance(fit)
    if values is None:
        return ()
    order = np.argsort(-np.abs(values), kind="stable")[:MOST_FEATURES]
    names = fit.feature_names or tuple(map(str, range(len(values))))
    rows = [[names[number], f"{values[number]:.4g}"] for number in order.tolist() if values[number]]
    what = "weight" if isinstance(fit.model, Linear) else "share of the gain"
    numbered = "" if fit.feature_names else "; numbered from 0"
    caption = f"By {what}, the first {len(rows)} of {len(values)}{numbered}"
    return (Section("Features", (Table.build(caption, ["feature", what], rows),)),)


def importance(fit: Fit) -> Float64 | None:
    """Each feature's share of the gain of all splits, or its weight; None for networks."""
    if isinstance(fit.model, LightGBMModel):
        gain = np.asarray(fit.model.booster.feature_importance("gain"), dtype=np.float64)
        return gain / gain.sum() if gain.any() else gain
    if isinstance(fit.model, Linear):
        return np.asarray(fit.model.parameters[:-1], dtype=np.float64)
    return None


def _setup(fit: Fit) -> Facts:
    return Facts((("model", fit.spec), ("estimator", fit.estimator), ("seed", f"{fit.seed}")))
