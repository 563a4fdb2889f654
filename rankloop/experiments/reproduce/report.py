"""What a reproduction says of itself: the page of claims in Markdown, and the report in HTML."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from pathlib import Path

from rankloop.experiments.reproduce.claims import FAILS, HOLDS, UNDECIDED, Finding, Judged
from rankloop.experiments.reproduce.evidence import Evidence
from rankloop.experiments.reproduce.figures import AnyFigure, CurvesFigure, Panel
from rankloop.experiments.summary import Mean
from rankloop.reports.components import page
from rankloop.reports.html import Html, element, joined, listing, table

SIGNS = {HOLDS: "✓", FAILS: "✗", UNDECIDED: "?"}
NONE = "–"
About = Mapping[str, str]


def claims_page(judged: Sequence[Judged], about: About) -> str:
    """The claims as Markdown: what holds, what does not and what is open, alike."""
    lines = ["# The paper's claims", "", *(f"- {name}: {value}" for name, value in about.items()), ""]
    lines += [f"**{counted(judged)}.**", ""]
    lines += ["| | claim | where | verdict |", "|---|---|---|---|"]
    lines += [
        f"| {SIGNS[one.verdict]} | [{one.name}](#{one.name}) | {one.where} | **{one.verdict}** |"
        for one in judged
    ]
    lines += [
        "",
        "Intervals are of 90 % confidence over runs. A claim holds if every interval lies where it is "
        "wanted, does not hold if one lies wholly elsewhere, and is undecided at this size otherwise.",
    ]
    for one in judged:
        lines += ["", f"## {one.name}", "", f"{SIGNS[one.verdict]} **{one.verdict}** ({one.where})", ""]
        lines += [f"> {one.statement}", "", f"Criterion: {one.criterion}.", ""]
        lines += ["| number | value | 90 % interval | wanted | |", "|---|---|---|---|---|"]
        lines += [f"| {' | '.join(_cells(finding))} |" for finding in one.findings]
        if one.verdict == FAILS:
            lines += ["", f"What we believe the cause is: {one.cause}"]
    return "\n".join(lines) + "\n"


def counted(judged: Sequence[Judged]) -> str:
    """How many claims there are of each verdict."""
    number = {verdict: sum(one.verdict == verdict for one in judged) for verdict in SIGNS}
    return (
        f"{number[HOLDS]} of {len(judged)} claims hold, {number[FAILS]} do not, "
        f"{number[UNDECIDED]} are undecided at this size"
    )


def _cells(finding: Finding) -> list[str]:
    note = f" ({finding.note})" if finding.note else ""
    return [
        finding.what + note,
        _number(finding.value),
        NONE if finding.low is None else f"{_number(finding.low)} to {_number(finding.high)}",
        finding.wanted or NONE,
        SIGNS[finding.verdict],
    ]


def _number(value: float | None) -> str:
    """A number to four digits after the point, or as a power of ten where that says nothing.

    >>> _number(0.12345), _number(1e-12), _number(0.0), _number(None), _number(-0.5)
    ('0.1235', '1e-12', '0.0000', '–', '−0.5000')
    """
    if value is None:
        return NONE
    text = f"{value:.4f}" if value == 0.0 or abs(value) >= 5e-5 else f"{value:.0e}"
    return text.replace("-", "−") if abs(value) >= 5e-5 else text


def report(
    judged: Sequence[Judged], figures: Sequence[AnyFigure], evidence: Evidence, about: About, folder: Path
) -> str:
    """The report as one page of HTML; the pictures are read from the folder of figures."""
    body = joined(
        element("h1", "Unifying Online and Counterfactual Learning to Rank: the paper's experiments"),
        listing(list(about.items())),
        element("h2", "Claims"),
        element("p", f"{counted(judged)}."),
        table(
            "Every claim, in the order of the paper",
            ["claim", "where", "verdict"],
            [[one.name, one.where, f"{SIGNS[one.verdict]} {one.verdict}"] for one in judged],
        ),
        element("h2", "Figures"),
        element("p", "Means over runs; shaded are 90 % confidence bounds (Student’s t).", class_="quiet"),
        *(_figure(figure, evidence, folder) for figure in figures),
        element("h2", "The numbers behind the claims"),
        element(
            "p",
            "A claim holds if every interval lies where it is wanted, does not hold if one lies wholly "
            "elsewhere, and is undecided at this size otherwise.",
            class_="quiet",
        ),
        *(_claim(one) for one in judged),
    )
    return page("rankloop: the paper's experiments", body)


def _claim(one: Judged) -> Html:
    rows = [
        [element("span", cells[0], style="white-space: normal"), *cells[1:]]
        for cells in map(_cells, one.findings)
    ]
    cause = [element("p", f"What we believe the cause is: {one.cause}", class_="warning")]
    return joined(
        element("h3", f"{SIGNS[one.verdict]} {one.name}: {one.verdict}"),
        element("p", one.statement),
        table(
            f"{one.where}. Criterion: {one.criterion}.",
            ["number", "value", "90 % interval", "wanted", ""],
            rows,
        ),
        *(cause if one.verdict == FAILS else []),
    )


def _figure(figure: AnyFigure, evidence: Evidence, folder: Path) -> Html:
    picture = base64.b64encode((folder / f"{figure.name}.svg").read_bytes()).decode()
    panels = figure.panels if isinstance(figure, CurvesFigure) else ()
    words = " ".join(_ends(panel, evidence) for panel in panels) or figure.caption
    image = element(
        "img", src=f"data:image/svg+xml;base64,{picture}", alt=words, style="width: 100%; background: white"
    )
    ends = [element("p", _ends(panel, evidence), class_="quiet") for panel in panels]
    return joined(
        element("h3", figure.name),
        element("figure", Html(image.removesuffix("</img>")), element("figcaption", figure.caption)),
        *ends,
    )


def _ends(panel: Panel, evidence: Evidence) -> str:
    ends = []
    for line in panel.lines:
        curves = evidence.curves(line.arm, panel.quantity)
        ends.append(f"{line.label} {Mean.of(list(curves.last))} at {curves.times[-1]:,}")
    return f"{panel.title}, at the end: {'; '.join(ends)}."
