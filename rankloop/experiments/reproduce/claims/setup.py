"""A claim about the setup: where runs start."""

from __future__ import annotations

from collections.abc import Sequence

from rankloop.experiments.reproduce.claims.base import NEGLIGIBLE, Claim, Finding, above
from rankloop.experiments.reproduce.evidence import AllRuns
from rankloop.experiments.setup import ORACLE, SUPERVISED


def _between(evidence: AllRuns) -> Sequence[Finding]:
    production = evidence.baseline("start")
    random, supervised, oracle = (evidence.baseline(name) for name in ("random", SUPERVISED, ORACLE))
    return [
        above("production ranker − random", production - random, NEGLIGIBLE),
        above("supervised − production ranker", supervised - production, NEGLIGIBLE),
        above("oracle − production ranker", oracle - production, NEGLIGIBLE),
    ]


CLAIMS = (
    Claim(
        name="production-in-between",
        where="Section 6",
        statement="The production ranker is much better than a random one, and leaves room for improvement.",
        criterion=f"more than {NEGLIGIBLE:g} above random rankings, and as much below the supervised "
        "baseline and below the oracle",
        cause="How much a few labelled queries teach depends on the data.",
        check=_between,
    ),
)
