"""The report on a comparison of two policies by their lists."""

from __future__ import annotations

from rankloop.evidence import DecisionKind
from rankloop.offline import ListComparison
from rankloop.reports.document import Document, Section, Table, Text

WORDS = {
    DecisionKind.BETTER: "is better than",
    DecisionKind.WORSE: "is worse than",
    DecisionKind.LEANS_BETTER: "leans better than",
    DecisionKind.LEANS_WORSE: "leans worse than",
}


def list_document(found: ListComparison) -> Document:
    """The report on a comparison by lists."""
    decision = found.decision
    if decision.kind in WORDS:
        text = f"{found.policy} {WORDS[decision.kind]} {found.against}, by the clicks on the lists of both."
    else:
        more = "" if decision.more is None else f" About {decision.more:,} more impressions would tell."
        text = f"Whether {found.policy} is better than {found.against} is not decided.{more}"
    rows = [
        ["difference", f"{decision.estimate:+.4f} clicks per impression"],
        ["95 % interval, for people", f"{decision.lower:+.4f} to {decision.upper:+.4f}"],
        ["E that it is better, at most", f"10^{found.better:.1f}"],
        ["E that it is worse, at most", f"10^{found.worse:.1f}"],
        ["impressions", f"{found.impressions:,}, of which it served {found.share:.0%}"],
        ["left out", f"{found.left_out:,}"],
    ]
    assumed = (
        "Nothing is assumed about users."
        if found.evidence == "list"
        else "It is assumed that what is shown below a document does not change whether it is clicked."
    )
    title = f"{found.policy} against {found.against}, by their lists"
    return Document(
        title,
        title,
        (
            Text(text, "strong", brief=True),
            Section(
                "Evidence",
                (
                    Table.build("Impressions of the time in which both served", ["", ""], rows, brief=True),
                    Text(
                        f"{assumed} At E = {1.0 / decision.level:.0f} bets decide. Without a difference, one "
                        f"of them ever gets there with a chance of {decision.level:.0%} at most. They need a "
                        f"coin per impression that chose the policy.",
                        "quiet",
                    ),
                ),
            ),
        ),
    )
