"""A claim on the setup: where runs start."""

from __future__ import annotations

from collections.abc import Sequence

from rankloop.experiments.reproduce.claims.base import NEGLIGIBLE, Claim, Finding, above
from rankloop.experiments.reproduce.evidence import Evidence, NotRunError


def _in_between(evidence: Evidence) -> Sequence[Finding]:
    if not evidence.bounds:
        raise NotRunError("no production ranker was trained")
    production = evidence.bound("production")
    return [
        above("production ranker − random", production - evidence.bound("random"), NEGLIGIBLE),
        above(
            "full information − production ranker",
            evidence.bound("full_information") - production,
            NEGLIGIBLE,
        ),
        above(
            "same optimiser − production ranker", evidence.bound("same_optimiser") - production, NEGLIGIBLE
        ),
    ]


CLAIMS = (
    Claim(
        name="production-in-between",
        where="Section 6",
        statement="The production ranker is much better than a random one, and leaves room for improvement.",
        criterion=f"more than {NEGLIGIBLE:g} above random rankings, and as much below full information and "
        "below the loop's own training on the true relevance",
        cause="The data decides how much a few labelled queries teach.",
        check=_in_between,
    ),
)
