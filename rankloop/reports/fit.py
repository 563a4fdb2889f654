"""The page on a ranker that was fitted to a log."""

from __future__ import annotations

import matplotlib
import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from rankloop.models import Linear
from rankloop.models.lightgbm import LightGBMModel
from rankloop.offline import Fit
from rankloop.reports.components import figure, legend, page
from rankloop.reports.html import Html, element, joined, listing, table
from rankloop.reports.style import PLACE, STYLE, colour, svg
from rankloop.types import Float64

# Features that are told apart by what they do; the others are too many to read.
MOST_FEATURES = 20
LOGGED, EQUAL = "--", ":"


def fit_page(fit: Fit) -> str:
    """The page: the same fit gives the same page, byte for byte."""
    body = joined(
        _heading(fit),
        _notes(fit),
        _estimates(fit),
        _training(fit),
        _learned(fit),
        _features(fit),
        _setup(fit),
    )
    return page(f"rankloop: {fit.spec} fitted to a log", body)


def _heading(fit: Fit) -> Html:
    impressions = sum(part.impressions for part in fit.policies)
    return joined(
        element("h1", f"{fit.spec}, fitted to {impressions:,} impressions"),
        element(
            "p",
            f"Fitted to the clicks on {len(fit.train_queries):,} queries; {len(fit.held_out_queries):,} "
            f"others were held out. Fingerprint {fit.model.fingerprint}.",
        ),
    )


def _notes(fit: Fit) -> Html:
    return joined(*(element("p", note, class_="warning") for note in fit.notes))


def _estimates(fit: Fit) -> Html:
    held = fit.held_out
    rows = [
        ["sorted by the model’s scores", f"{held.sorted:.4f}", f"{held.gain:+.4f} ± {held.gain_error:.4f}"],
        ["drawn from the model’s scores", f"{held.drawn:.4f}", f"{held.drawn - held.logged:+.4f}"],
        ["as the log shows them", f"{held.logged:.4f}", ""],
        ["in random order", f"{held.equal:.4f}", f"{held.equal - held.logged:+.4f}"],
    ]
    return joined(
        element("h2", "What held-out clicks say"),
        table(f"Estimated {fit.reward} a held-out query", ["rankings", "estimate", "− logged"], rows),
        element(
            "p",
            "± is one standard error over queries. The same clicks chose when to stop, and so they flatter "
            "the model a little: ",
            element("code", "rankloop evaluate"),
            " on a later log has the last word.",
            class_="quiet",
        ),
    )


def _training(fit: Fit) -> Html:
    unit = "trees" if isinstance(fit.model, LightGBMModel) else "epochs"
    words = (
        f"Held-out estimate by {unit}, from {fit.history[0].held_out:.4f} to {fit.best.held_out:.4f} at "
        f"{fit.best.number}, which were kept."
    )
    lines = [("held-out estimate", 0, "-"), ("as the log shows them", None, LOGGED)]
    return joined(
        element("h2", "Training"),
        legend([*lines, ("in random order", None, EQUAL)]),
        figure(_curve(fit, unit), f"{fit.best.number} of {fit.history[-1].number} {unit} were kept.", words),
    )


def _curve(fit: Fit, unit: str) -> str:
    with matplotlib.rc_context({**STYLE, "svg.hashsalt": "training"}):
        drawn = Figure()
        axes = drawn.subplots(gridspec_kw=PLACE)
        for level, dashes in ((fit.held_out.logged, LOGGED), (fit.held_out.equal, EQUAL)):
            axes.axhline(level, color=colour(None), linestyle=dashes, linewidth=1.1)
        numbers = [epoch.number for epoch in fit.history]
        axes.plot(numbers, [epoch.held_out for epoch in fit.history], color=colour(0))
        axes.plot([fit.best.number], [fit.best.held_out], marker="o", color=colour(0), linestyle="")
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.set_xlabel(unit)
        axes.set_ylabel(f"{fit.reward} a query, drawn")
        return svg(drawn)


def _learned(fit: Fit) -> Html:
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
    head = [
        "policy",
        "impressions",
        "queries",
        "clicks",
        *(f"expected α below {level:g}" for level in levels),
    ]
    return joined(
        element("h2", "What it was learned from"),
        table("Policies of the log, and the share of documents they hardly show", head, rows),
    )


def _features(fit: Fit) -> Html:
    values = importance(fit)
    if values is None:
        return Html("")
    order = np.argsort(-np.abs(values), kind="stable")[:MOST_FEATURES]
    rows = [[f"{number}", f"{values[number]:.4g}"] for number in order.tolist() if values[number]]
    what = "weight" if isinstance(fit.model, Linear) else "share of the gain"
    return joined(
        element("h2", "Features"),
        table(f"By {what}, the first {len(rows)} of {len(values)}; numbered from 0", ["feature", what], rows),
    )


def importance(fit: Fit) -> Float64 | None:
    """What each feature does: its share of the gain of all splits, or its weight; None for networks."""
    if isinstance(fit.model, LightGBMModel):
        gain = np.asarray(fit.model.booster.feature_importance("gain"), dtype=np.float64)
        return gain / gain.sum() if gain.any() else gain
    if isinstance(fit.model, Linear):
        return np.asarray(fit.model.parameters[:-1], dtype=np.float64)
    return None


def _setup(fit: Fit) -> Html:
    ranks = [f"rank {k}" for k in range(1, fit.bias.ranks + 1)]
    rows = [
        [name, *(f"{value:.4f}" for value in getattr(fit.bias, part))]
        for name, part in (("α", "alpha"), ("β", "beta"), ("examination", "examination"))
    ]
    return joined(
        element("h2", "With what"),
        listing([("model", fit.spec), ("estimator", fit.estimator), ("seed", fit.seed)]),
        table(
            "How users click: a document of relevance R at rank k, with the chance α R + β",
            ["", *ranks],
            rows,
        ),
    )
