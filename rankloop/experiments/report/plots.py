"""The figures of a report, each with its legend and with words for those who do not see it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from rankloop.experiments.figures import Level, Series, curves
from rankloop.experiments.results import Row
from rankloop.experiments.summary import Curve, Group, Mean
from rankloop.loop import SUPPORT_LEVELS
from rankloop.reports.components import figure, figures
from rankloop.reports.components import legend as legend_of
from rankloop.reports.html import Html

# Of a normal distribution: a 90 % interval is this many standard errors on either side.
NORMAL_90 = 1.645
# What is left free above and below what is drawn, as a share of it.
MARGIN = 0.05
# Room for the markers at 0 and at 1.
SHARE_LIMITS = (-0.03, 1.03)
# How the levels that runs are compared with are drawn, in the figures and in their legend.
START_DASHES, ORACLE_DASHES, TRUTH_DASHES = ":", "--", "--"


def legend(groups: Sequence[Group], *lines: tuple[str, str]) -> Html:
    """A legend: one curve a group, and lines in ink by their name and their dashes."""
    entries = [(called(group), i, "-") for i, group in enumerate(groups)]
    return legend_of([*entries, *((name, None, dashes) for name, dashes in lines)])


def levels_legend(groups: Sequence[Group]) -> Html:
    """The legend of figures that show the starting policy and, where it is known, the oracle."""
    drawn = {level.dashes for level in _levels(groups)}
    lines = [("starting policy", START_DASHES), ("oracle", ORACLE_DASHES)]
    return legend(groups, *(line for line in lines if line[1] in drawn))


def called(group: Group) -> str:
    """A group by its folder's name and by what sets it apart."""
    return f"{group.name}: {group.label}"


def value_figures(groups: Sequence[Group], metric: str) -> Html:
    """The true metric of the learned and of the logging policies, on the same axes."""
    quantities: list[tuple[str, Callable[[Row], float]]] = [
        ("learned", lambda row: row.learned),
        ("logging", lambda row: row.logging),
    ]
    drawn = {name: [group.curve(quantity) for group in groups] for name, quantity in quantities}
    levels = _levels(groups)
    limits = _limits([curve for several in drawn.values() for curve in several], levels)
    captions = {
        "learned": "Learned policies: what all clicks so far came to.",
        "logging": "Logging policies: what users were shown while these clicks were gathered.",
    }
    return figures(
        figure(
            curves(name, _series(several), metric, span=_span(groups), levels=levels, limits=limits),
            captions[name],
            f"{metric} of the {name} policies by logged interactions. {_ends(groups, several)}",
        )
        for name, several in drawn.items()
    )


def estimate_figures(groups: Sequence[Group]) -> Html:
    """What held-out clicks say of each learned policy, beside the truth."""
    drawn_figures = []
    for i, group in enumerate(groups):
        estimate = group.curve(lambda row: row.estimate)
        errors = group.curve(lambda row: row.estimate_error).values
        noisy = Curve(estimate.times, estimate.values, NORMAL_90 * np.nan_to_num(errors))
        truth = group.curve(lambda row: row.truth)
        exact = Curve(truth.times, truth.values, np.zeros_like(truth.values))
        drawn = [Series(exact, None), Series(noisy, i)]
        drawn_figures.append(
            figure(
                curves(f"estimate-{i}", drawn, "reward a held-out query", span=_span(groups)),
                called(group),
                f"Estimated and true reward by logged interactions. At the end the estimate is "
                f"{noisy.values[-1]:.4f} ± {noisy.half_widths[-1]:.4f}, the truth {truth.values[-1]:.4f}.",
            )
        )
    return figures(drawn_figures)


def support_figures(groups: Sequence[Group]) -> Html:
    """How many items the logging policies hardly show, and how soft these policies are."""
    drawn_figures = []
    for level in (f"{level:g}" for level in SUPPORT_LEVELS):
        several = [group.curve(_share_below(level)) for group in groups]
        drawn_figures.append(
            figure(
                curves(
                    f"support-{level}",
                    _series(several),
                    "share of items",
                    span=_span(groups),
                    limits=SHARE_LIMITS,
                ),
                f"Items whose expected α is below {level} under the logging policy.",
                f"Share of items with an expected α below {level}. {_ends(groups, several)}",
            )
        )
    several = [group.curve(lambda row: row.scale) for group in groups]
    drawn_figures.append(
        figure(
            curves("scale", _series(several), "scale of the scores", span=_span(groups), limits=SHARE_LIMITS),
            "How soft the logging policies were: what the learned scores were multiplied by.",
            f"Scale of the logging policies' scores. {_ends(groups, several)}",
        )
    )
    return figures(drawn_figures)


def _share_below(level: str) -> Callable[[Row], float]:
    return lambda row: row.support[level]


def _series(several: Sequence[Curve]) -> list[Series]:
    return [Series(curve, i) for i, curve in enumerate(several)]


def _span(groups: Sequence[Group]) -> tuple[float, float]:
    """All figures have the same axis, so that they can be read side by side."""
    return float(min(group.times[0] for group in groups)), float(max(group.times[-1] for group in groups))


def _levels(groups: Sequence[Group]) -> list[Level]:
    """The starting policy and the oracle of each group; in ink where all have the same."""
    levels = []
    for dashes, values in (
        (START_DASHES, [group.mean(lambda run: run.facts.start).value for group in groups]),
        (ORACLE_DASHES, [bound.value if (bound := group.oracle) else None for group in groups]),
    ):
        shared = len(set(values)) == 1
        for i, value in enumerate(values[:1] if shared else values):
            if value is not None:
                levels.append(Level(value, dashes, None if shared else i))
    return levels


def _limits(drawn: Sequence[Curve], levels: Sequence[Level]) -> tuple[float, float]:
    ends = [end for c in drawn for end in (*(c.values - c.half_widths), *(c.values + c.half_widths))]
    ends += [level.value for level in levels]
    low, high = min(ends), max(ends)
    margin = MARGIN * ((high - low) or 1.0)
    return low - margin, high + margin


def _ends(groups: Sequence[Group], several: Sequence[Curve]) -> str:
    ends = (
        f"{called(group)}: {Mean(float(curve.values[-1]), float(curve.half_widths[-1]))}"
        for group, curve in zip(groups, several, strict=True)
    )
    return f"At the end, {'; '.join(ends)}."
