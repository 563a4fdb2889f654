"""The report on a reproduction: claim by claim, with the figures and the numbers behind them.

``report.html`` and ``claims.md`` are one document, as HTML and, without the figures, as Markdown; the
terminal shows its table of claims.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

from rankloop.experiments.report import difference_tables
from rankloop.experiments.reproduce.claims import FAILS, HOLDS, UNDECIDED, Finding, Judged
from rankloop.experiments.reproduce.claims.base import spell_runs
from rankloop.experiments.reproduce.figures import AnyFigure, CurvesFigure, Panel
from rankloop.experiments.reproduce.presets import Arm
from rankloop.experiments.reproduce.results import AllRuns
from rankloop.experiments.summary import Mean, paired_differences
from rankloop.reports.document import (
    NONE,
    Column,
    Document,
    Facts,
    Figure,
    Figures,
    Section,
    Table,
    Text,
    warnings,
)

INTERVALS = "Means over runs; the shaded areas are 90 % confidence intervals (Student’s t)."
SIGNS = {HOLDS: "✓", FAILS: "✗", UNDECIDED: "?"}
Description = Mapping[str, str]


def claims_document(
    judged: Sequence[Judged], about: Description, figures: Sequence[Section] = ()
) -> Document:
    """Report which claims hold, which do not, and which are undecided.

    Args:
        judged: the claims, in the order of the paper.
        about: how the reproduction was made.
        figures: what `figure_sections` returned; none for the claims alone.
    """
    return Document(
        "the paper's experiments",
        "Unifying Online and Counterfactual Learning to Rank: the paper's experiments",
        (
            Facts(tuple(about.items())),
            Section("Claims", (_claims(judged), Text(f"{summary(judged)}.", "strong", brief=True))),
            *((Section("Figures", (Text(INTERVALS, "quiet"), *figures)),) if figures else ()),
            Section(
                "The numbers behind the claims",
                (
                    Text(
                        "Intervals have 90 % confidence over runs. A claim holds if every interval lies "
                        "where it should, does not hold if one lies entirely elsewhere, and is undecided at "
                        "this size otherwise. Runs to decide: how many would decide with a chance of 80 %, "
                        "if means and spreads are those observed here; none where more runs of this length "
                        "would not help.",
                        "quiet",
                    ),
                    *(_claim(one) for one in judged),
                ),
            ),
        ),
    )


def summary(judged: Sequence[Judged]) -> str:
    """The number of claims per outcome."""
    number = {outcome: sum(one.outcome == outcome for one in judged) for outcome in SIGNS}
    verb = "does" if number[FAILS] == 1 else "do"
    return (
        f"{number[HOLDS]} of {len(judged)} claims hold, {number[FAILS]} {verb} not, "
        f"{number[UNDECIDED]} are undecided at this size"
    )


def _claims(judged: Sequence[Judged]) -> Table:
    return Table.build(
        "The paper's claims, in its order",
        ["claim", Column("outcome", words=True), Column("where", words=True), "runs to decide"],
        [
            [f"{SIGNS[one.outcome]} {one.name}", one.outcome, one.where, spell_runs(one.runs_to_decide)]
            for one in judged
        ],
        brief=True,
    )


def _claim(one: Judged) -> Section:
    columns: list[str | Column] = [
        Column("number", words=True), "value", "90% interval", "expected", "", "runs to decide",
    ]  # fmt: skip
    return Section(
        one.name,
        (
            Text(f"{SIGNS[one.outcome]} {one.name}: {one.outcome}", "strong"),
            Text(one.statement),
            Table.build(
                f"{one.where}. Criterion: {one.criterion}.", columns, [_cells(each) for each in one.findings]
            ),
            *(
                warnings([f"{one.name} does not hold. Likely cause: {one.cause}"])
                if one.outcome == FAILS
                else ()
            ),
        ),
    )


def _cells(finding: Finding) -> list[str]:
    note = f" ({finding.note})" if finding.note else ""
    return [
        finding.what + note,
        _number(finding.value),
        NONE if finding.low is None else f"{_number(finding.low)} to {_number(finding.high)}",
        finding.wanted or NONE,
        SIGNS[finding.outcome],
        spell_runs(finding.runs_to_decide),
    ]


def _number(value: float | None) -> str:
    """A number with four decimals, or as a power of ten if those would all be 0.

    >>> _number(0.12345), _number(1e-12), _number(0.0), _number(None), _number(-0.5)
    ('0.1235', '1e-12', '0.0000', '–', '−0.5000')
    """
    if value is None:
        return NONE
    text = f"{value:.4f}" if value == 0.0 or abs(value) >= 5e-5 else f"{value:.0e}"
    return text.replace("-", "−") if abs(value) >= 5e-5 else text


def figure_sections(figures: Sequence[AnyFigure], evidence: AllRuns, folder: Path) -> list[Section]:
    """The figures of a reproduction, with the numbers behind them.

    Args:
        figures: their specs.
        evidence: what they show.
        folder: holds their SVG files.
    """
    return [_figure(figure, evidence, folder / f"{figure.name}.svg") for figure in figures]


def _figure(figure: AnyFigure, evidence: AllRuns, path: Path) -> Section:
    panels = figure.panels if isinstance(figure, CurvesFigure) else ()
    ends = [_ends(panel, evidence) for panel in panels]
    read = partial(path.read_text, encoding="utf-8")
    shown = Figure(read, figure.caption, " ".join(ends) or figure.caption, standalone=True)
    texts = (Text(line, "quiet") for line in ends)
    return Section(figure.name, (Figures((shown,)), *texts, *_differences(figure.arms, evidence)))


def _differences(shown: Sequence[Arm], evidence: AllRuns) -> tuple[Table, ...]:
    """Every pair of the learners of a figure that have runs of the same seeds."""
    made = [(arm.name, evidence.learned[arm]) for arm in shown if arm in evidence.learned]
    return difference_tables("NDCG@5", paired_differences(made))


def _ends(panel: Panel, evidence: AllRuns) -> str:
    ends = []
    for line in panel.lines:
        if line.arm not in evidence.learned:
            ends.append(f"{line.label} was not run")
            continue
        curves = evidence.curves(line.arm, panel.quantity)
        ends.append(f"{line.label} {Mean.of(list(curves.last))} at {curves.times[-1]:,}")
    return f"{panel.title}, at the end: {'; '.join(ends)}."
