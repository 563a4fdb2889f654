"""The contents of a log: how much, when, by which policies, with what support, and with which problems."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

import ibis
import numpy as np
from ibis import _

from rankloop.logs.counter import LogCounter, as_text
from rankloop.logs.counts import LogCounts
from rankloop.logs.defects import DefectFinder
from rankloop.logs.engines import Engine
from rankloop.logs.features import why_unusable
from rankloop.logs.folder import LogFolder
from rankloop.logs.periods import Periods, count_by_period
from rankloop.logs.policy_exposures import CandidateExposures, compute_exposures
from rankloop.logs.problems import KEPT, Problem, ProblemCounter
from rankloop.logs.schema import CANDIDATES, FEATURES, ITEM, REPORT_FILE
from rankloop.logs.support import (
    LogSupport,
    Misfit,
    measure_exploration,
    measure_misfit,
    measure_support,
)
from rankloop.progress import Progress, report
from rankloop.types import Bias

# The check stops at this rank: few users look further down.
MOST_RANKS = 20
AS_IT_IS, REPAIRABLE = "present in the log", "; `rankloop import columns` repairs it"


@dataclass(frozen=True)
class PolicyCheck:
    """What one policy of a log showed.

    Attributes:
        policy_id: the policy.
        first: the time of its first impression; None in a log without times.
        last: the time of its last impression.
        impressions: the number of impressions.
        impressions_by_period: the number of impressions per period of the log; empty in a log without times.
        queries: the number of different queries.
        displays_by_rank: the number of documents shown at each rank.
        click_rate_by_rank: the share of them that was clicked; None where nothing was shown.
        explores: of its queries with more than one impression, the share whose ranking ever changed; None if
            there are no such queries.
        support: how much of what it could have shown it did show; None if its candidates are not known.
        misfit: how far displays are from what its scores predict; None if it cannot be tested.
    """

    policy_id: str
    first: datetime | None
    last: datetime | None
    impressions: int
    impressions_by_period: tuple[int, ...]
    queries: int
    displays_by_rank: tuple[int, ...]
    click_rate_by_rank: tuple[float | None, ...]
    explores: float | None
    support: LogSupport | None
    misfit: Misfit | None

    def warnings(self) -> Iterator[str]:
        """What to consider before computing anything from the policy's clicks."""
        name = f"policy {self.policy_id!r}"
        if self.explores == 0.0:
            yield (
                f"{name} never explores: every repeated query had the same ranking. Nothing can be learned "
                f"about documents that it does not show, nor about position bias from its clicks alone."
            )
        if self.support is None:
            yield f"{name} has no candidates: its exposures will be estimated from displays."
        elif self.support.unknown:
            yield (
                f"{name} has no candidates for {self.support.unknown:,} of its queries: their exposures will "
                f"be estimated from displays."
            )
        if self.support is not None and self.support.strangers:
            yield (
                f"{name} showed {self.support.strangers:,} documents that are not among its candidates: "
                f"exposures cannot be computed from them."
            )
        if self.support is not None and self.support.impossible:
            yield (
                f"{name} showed {self.support.impossible:,} documents that it never shows according to "
                f"its scores: exposures cannot be computed from them."
            )
        if self.misfit is not None and self.misfit.value > self.misfit.bound:
            yield (
                f"{name} does not draw its rankings from its scores: displays deviate from the expectation "
                f"{self.misfit.value:.1f} times as much as chance explains. Log the scores that it draws "
                f"from, or estimate exposures from displays."
            )


@dataclass(frozen=True)
class LogCheck:
    """The contents of a log.

    Attributes:
        log: its folder.
        tables: the tables it has.
        rows: the number of rows of impressions.
        impressions: the number of impressions.
        clicks: the number of clicked rows.
        queries: the number of different queries.
        documents: the number of documents, over all queries, that were shown or are candidates.
        without_features: how many of them have no features; None if the log has no features at all.
        bad_features: what else is wrong with their features, if anything.
        ranks: the deepest position.
        left_out: the number of rows below the last rank that is checked.
        periods: the start of each period in which impressions are counted; empty without times.
        period_seconds: the length of a period; None without times.
        policies: what each policy showed, in the order of their first impressions.
        problems: what is wrong with the log.
        imported: what was wrong with its source, as the import reported it.
    """

    log: Path
    tables: tuple[str, ...]
    rows: int
    impressions: int
    clicks: int
    queries: int
    documents: int
    without_features: int | None
    bad_features: str | None
    ranks: int
    left_out: int
    periods: tuple[datetime, ...]
    period_seconds: int | None
    policies: tuple[PolicyCheck, ...]
    problems: tuple[Problem, ...]
    imported: tuple[Mapping[str, Any], ...]

    @property
    def warnings(self) -> tuple[str, ...]:
        """What to consider before computing anything from the log."""
        warnings = [warning for policy in self.policies for warning in policy.warnings()]
        if all(policy.first is None for policy in self.policies):
            warnings.append("The log has no timestamps: policies are ordered by name.")
        if self.without_features:
            warnings.append(
                f"{self.without_features:,} documents have no features: no model can be fitted to them."
            )
        if self.bad_features:
            warnings.append(f"{self.bad_features}.")
        if self.left_out:
            warnings.append(f"{self.left_out:,} rows below rank {MOST_RANKS} are not checked.")
        return tuple(warnings)

    def to_dict(self) -> dict[str, Any]:
        """The same as a dictionary for JSON."""
        found = asdict(self)
        for policy in found["policies"]:
            for name in ("first", "last"):
                policy[name] = None if policy[name] is None else policy[name].isoformat()
            policy["misfit"] = None if policy["misfit"] is None else policy["misfit"]._asdict()
        found["periods"] = [start.isoformat() for start in self.periods]
        return {**found, "log": str(self.log), "warnings": list(self.warnings)}


def check_log(log: LogFolder, engine: Engine, progress: Progress | None = None) -> LogCheck:
    """Check the contents of a log on an engine."""
    report(progress, "check", note="counting")
    counter = LogCounter(log, engine)
    counter.ranks = min(counter.totals["deepest"], MOST_RANKS)
    counts = counter.counts()
    # With α = 1 at every rank, the exposure is the probability of being shown at all.
    anywhere = Bias(np.ones(counts.ranks), np.zeros(counts.ranks), np.ones(counts.ranks))
    report(progress, "check", note="computing exposures")
    exact = compute_exposures(counter, counts, anywhere) if log.has(CANDIDATES) else {}
    report(progress, "check", note="looking for problems")
    problems = _problems(counter)
    periods = count_by_period(counter)
    report(progress, "check", note="checking features")
    without_features = _without_features(counter)
    bad_features = why_unusable(log, counts) if log.has(FEATURES) else None
    return LogCheck(
        log=log.folder,
        tables=log.tables,
        rows=counter.totals["rows"],
        impressions=int(counts.query_counts.sum()),
        clicks=counter.totals["clicks"],
        queries=int((counts.query_counts.sum(axis=0) > 0).sum()),
        documents=counts.n_items,
        without_features=without_features,
        bad_features=bad_features,
        ranks=counter.totals["deepest"],
        left_out=counts.left_out,
        periods=() if periods is None else periods.starts,
        period_seconds=None if periods is None else periods.seconds,
        policies=tuple(
            _policy(counts, number, times, exact.get(times["policy_id"]), periods)
            for number, times in enumerate(counter.policy_times)
        ),
        problems=problems,
        imported=_imported(log),
    )


def _policy(
    counts: LogCounts,
    number: int,
    times: Mapping[str, Any],
    exact: CandidateExposures | None,
    periods: Periods | None,
) -> PolicyCheck:
    own = counts.cells.policy == number
    shown, clicked = (
        np.bincount(counts.cells.rank[own], weights=counted[own], minlength=counts.ranks)
        for counted in (counts.cells.displays, counts.cells.clicks)
    )
    support = None if exact is None else measure_support(counts, number, exact)
    return PolicyCheck(
        policy_id=times["policy_id"],
        first=times["first"],
        last=times["last"],
        impressions=int(counts.query_counts[number].sum()),
        impressions_by_period=() if periods is None else periods.impressions[times["policy_id"]],
        queries=int((counts.query_counts[number] > 0).sum()),
        displays_by_rank=tuple(int(n) for n in shown),
        click_rate_by_rank=tuple(float(c / n) if n else None for c, n in zip(clicked, shown, strict=True)),
        explores=measure_exploration(counts, number),
        support=support,
        misfit=None if exact is None or support is None else measure_misfit(counts, number, exact),
    )


def _problems(counter: LogCounter) -> tuple[Problem, ...]:
    found = ProblemCounter()
    look = DefectFinder(counter.engine, found)
    ids = as_text("impression_id", "query_id", "policy_id", "doc_id")
    rows = counter.impressions.mutate(**ids, place=ibis.literal(0))
    timed = any(row["first"] for row in counter.policy_times)
    suspicious = look.suspicious(rows, timed=timed)
    if suspicious is not None:
        look.impressions(look.distinct_rows(suspicious), timed=timed)
    return tuple(
        replace(problem, done=AS_IT_IS + REPAIRABLE * (problem.done != KEPT), left_out=0)
        for problem in found.problems()
    )


def _without_features(counter: LogCounter) -> int | None:
    if not counter.log.has(FEATURES):
        return None
    features = counter.engine.table(counter.log.files(FEATURES)).select(**as_text(*ITEM))
    missing = counter.items.anti_join(features, ITEM).agg(missing=_.count())
    return int(counter.rows(missing)[0]["missing"])


def _imported(log: LogFolder) -> tuple[Mapping[str, Any], ...]:
    report = log.folder / REPORT_FILE
    if not report.is_file():
        return ()
    try:
        return tuple(json.loads(report.read_text(encoding="utf-8"))["problems"])
    except (ValueError, KeyError, TypeError):
        # A file of the same name that another program wrote.
        return ()
