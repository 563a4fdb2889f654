"""What is in a log: how much, when, by which policies, with what support, and what is wrong with it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

import ibis
import numpy as np
from ibis import _

from rankloop.logs.counting import Counting, as_text
from rankloop.logs.counts import LogCounts
from rankloop.logs.defects import DefectFinder
from rankloop.logs.engines import engine as open_engine
from rankloop.logs.features import why_unusable
from rankloop.logs.folder import Log
from rankloop.logs.periods import Periods, periods_of
from rankloop.logs.policy_exposures import Candidates, exposures_of_candidates
from rankloop.logs.problems import KEPT, Found, Problem
from rankloop.logs.schema import CANDIDATES, FEATURES, ITEM, REPORT_FILE
from rankloop.logs.support import LogSupport, Misfit, explores, misfit, support_of
from rankloop.types import Bias

# Ranks that are looked at, where a log has more: few users come as far.
MOST_RANKS = 20
AS_IT_IS, REPAIRABLE = "in the log as it is", "; `rankloop import columns` repairs it"


@dataclass(frozen=True)
class PolicyCheck:
    """What one policy showed.

    Attributes:
        policy_id: the policy.
        first: the time of its first impression; None in a log without times.
        last: that of its last.
        impressions: how many.
        impressions_by_period: how many in each of the log's periods; empty in a log without times.
        queries: how many different queries came.
        displays_by_rank: how many documents were shown, by rank.
        click_rate_by_rank: the share of them that was clicked; None where nothing was shown.
        explores: the share of its queries, of those that came more than once, whose ranking ever changed;
            None where none did.
        support: what it could have shown, and whether it did; None where its candidates are not known.
        misfit: how far displays are from what its scores say; None where it cannot be told.
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
        """What to think of before anything is computed from the policy's clicks."""
        name = f"policy {self.policy_id!r}"
        if self.explores == 0.0:
            yield (
                f"{name} never explores: every query that came again had the same ranking. Nothing can be "
                f"learned of documents that it does not show, nor of positions from its clicks alone."
            )
        if self.support is None:
            yield f"{name} has no candidates: its exposures will be estimated from displays."
        elif self.support.unknown:
            yield (
                f"{name} has no candidates for {self.support.unknown:,} of the queries that came: exposures "
                f"there will be estimated from displays."
            )
        if self.support is not None and self.support.strangers:
            yield (
                f"{name} showed {self.support.strangers:,} documents that are not among its candidates: "
                f"exposures cannot be computed from them."
            )
        if self.support is not None and self.support.impossible:
            yield (
                f"{name} showed {self.support.impossible:,} documents that by its scores it never shows: "
                f"exposures cannot be computed from them."
            )
        if self.misfit is not None and self.misfit.value > self.misfit.bound:
            yield (
                f"{name} does not draw its rankings from its scores: displays are {self.misfit.value:.1f} "
                f"times as far from what is expected as chance would have them. Give the scores that it "
                f"draws from, or estimate exposures from displays."
            )


@dataclass(frozen=True)
class LogCheck:
    """What is in a log.

    Attributes:
        log: its folder.
        tables: the tables that are there.
        rows: rows of impressions.
        impressions: how many impressions.
        clicks: how many clicked rows.
        queries: how many different queries came.
        documents: how many documents of queries were shown or are candidates.
        without_features: how many of these have no features; None where there are no features at all.
        bad_features: what else is wrong with their features, if anything.
        ranks: the deepest position.
        left_out: rows below the last rank that is looked at.
        periods: when each of the periods begins in which impressions are counted; none without times.
        period_seconds: how long each of them is; None where there are none.
        policies: what each policy showed, in the order of their first impressions.
        problems: what is wrong with the log as it is.
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
        """What to think of before anything is computed from the log."""
        said = [warning for policy in self.policies for warning in policy.warnings()]
        if all(policy.first is None for policy in self.policies):
            said.append("The log has no timestamps: policies are in the order of their names.")
        if self.without_features:
            said.append(
                f"{self.without_features:,} documents have no features: no model can be fitted to them."
            )
        if self.bad_features:
            said.append(f"{self.bad_features}.")
        if self.left_out:
            said.append(f"{self.left_out:,} rows below rank {MOST_RANKS} are not looked at.")
        return tuple(said)

    def to_dict(self) -> dict[str, Any]:
        """The same for JSON."""
        found = asdict(self)
        for policy in found["policies"]:
            for name in ("first", "last"):
                policy[name] = None if policy[name] is None else policy[name].isoformat()
            policy["misfit"] = None if policy["misfit"] is None else policy["misfit"]._asdict()
        found["periods"] = [start.isoformat() for start in self.periods]
        return {**found, "log": str(self.log), "warnings": list(self.warnings)}


def check(
    log: Log,
    *,
    engine: str = "duckdb",
    master: str | None = None,
    progress: Callable[[str], None] | None = None,
) -> LogCheck:
    """Look at a log.

    Args:
        log: what `open_log` gives.
        engine: ``duckdb`` or ``spark``.
        master: where Spark runs.
        progress: called with what is being done.
    """
    tell = progress or (lambda _what: None)
    with open_engine(engine, master=master) as running:
        tell("counting")
        counting = Counting(log, running)
        counting.ranks = min(counting.totals["deepest"], MOST_RANKS)
        counts = counting.counts()
        anywhere = Bias(np.ones(counts.ranks), np.zeros(counts.ranks), np.ones(counts.ranks))
        tell("computing exposures")
        exact = exposures_of_candidates(counting, counts, anywhere) if log.has(CANDIDATES) else {}
        tell("looking for problems")
        problems = _problems(counting)
        periods = periods_of(counting)
        tell("looking at features")
        without_features = _without_features(counting)
        bad_features = why_unusable(log, counts) if log.has(FEATURES) else None
    return LogCheck(
        log=log.folder,
        tables=log.tables,
        rows=counting.totals["rows"],
        impressions=int(counts.query_counts.sum()),
        clicks=counting.totals["clicks"],
        queries=int((counts.query_counts.sum(axis=0) > 0).sum()),
        documents=counts.n_items,
        without_features=without_features,
        bad_features=bad_features,
        ranks=counting.totals["deepest"],
        left_out=counts.left_out,
        periods=() if periods is None else periods.starts,
        period_seconds=None if periods is None else periods.seconds,
        policies=tuple(
            _policy(counts, number, times, exact.get(times["policy_id"]), periods)
            for number, times in enumerate(counting.policy_times)
        ),
        problems=problems,
        imported=_imported(log),
    )


def _policy(
    counts: LogCounts,
    number: int,
    times: Mapping[str, Any],
    exact: Candidates | None,
    periods: Periods | None,
) -> PolicyCheck:
    own = counts.cells.policy == number
    shown, clicked = (
        np.bincount(counts.cells.rank[own], weights=counted[own], minlength=counts.ranks)
        for counted in (counts.cells.displays, counts.cells.clicks)
    )
    support = None if exact is None else support_of(counts, number, exact)
    return PolicyCheck(
        policy_id=times["policy_id"],
        first=times["first"],
        last=times["last"],
        impressions=int(counts.query_counts[number].sum()),
        impressions_by_period=() if periods is None else periods.impressions[times["policy_id"]],
        queries=int((counts.query_counts[number] > 0).sum()),
        displays_by_rank=tuple(int(n) for n in shown),
        click_rate_by_rank=tuple(float(c / n) if n else None for c, n in zip(clicked, shown, strict=True)),
        explores=explores(counts, number),
        support=support,
        misfit=None if exact is None or support is None else misfit(counts, number, exact),
    )


def _problems(counting: Counting) -> tuple[Problem, ...]:
    found = Found()
    look = DefectFinder(counting.engine, found)
    ids = as_text("impression_id", "query_id", "policy_id", "doc_id")
    rows = counting.impressions.mutate(**ids, place=ibis.literal(0))
    timed = any(row["first"] for row in counting.policy_times)
    suspicious = look.suspicious(rows, timed=timed)
    if suspicious is not None:
        look.impressions(look.distinct_rows(suspicious), timed=timed)
    return tuple(
        replace(problem, done=AS_IT_IS + REPAIRABLE * (problem.done != KEPT), left_out=0)
        for problem in found.problems()
    )


def _without_features(counting: Counting) -> int | None:
    if not counting.log.has(FEATURES):
        return None
    features = counting.engine.table(counting.log.files(FEATURES)).select(**as_text(*ITEM))
    missing = counting.items.anti_join(features, ITEM).agg(missing=_.count())
    return int(counting.rows(missing)[0]["missing"])


def _imported(log: Log) -> tuple[Mapping[str, Any], ...]:
    report = log.folder / REPORT_FILE
    if not report.is_file():
        return ()
    try:
        return tuple(json.loads(report.read_text(encoding="utf-8"))["problems"])
    except (ValueError, KeyError, TypeError):
        # Somebody else's file of the same name.
        return ()
