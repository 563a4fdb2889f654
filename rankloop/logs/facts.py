"""Facts about a log: how much, when, by which policies, with what support, and with which problems."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, fields, replace
from datetime import datetime
from pathlib import Path
from typing import Any

import ibis
import numpy as np
from ibis import _

from rankloop.logs.check_warnings import CheckWarning
from rankloop.logs.counter import LogCounter, as_text
from rankloop.logs.defects import DefectFinder
from rankloop.logs.display_order import DisplayOrder, measure_order
from rankloop.logs.features import why_unusable
from rankloop.logs.folder import LogFolder
from rankloop.logs.log_statistics import CandidateExposures, compute_exposures
from rankloop.logs.periods import Periods, count_by_period
from rankloop.logs.problems import KEPT, Problem, ProblemCounter
from rankloop.logs.sanity import Sanity, check_sanity
from rankloop.logs.schema import CANDIDATES, FEATURES, QUERY_DOCUMENT, REPORT_FILE
from rankloop.logs.slots import Slots, find_placements
from rankloop.logs.support import (
    LogSupport,
    Misfit,
    measure_misfit,
    measure_support,
)
from rankloop.progress import Progress, report
from rankloop.statistics.counts import EXPLORES, Counts
from rankloop.statistics.intervals import wilson
from rankloop.types import Bias

# Facts by rank stop at this one: few users look further down.
MOST_RANKS = 20
# A larger share of clicks before their impression is not a matter of seconds between clocks.
EARLY_CLICKS = 0.1
# Warnings about a log from which nothing should be learned before it is logged or imported in another way.
SEVERE = (
    "no_clicks", "only_clicked_rows", "everything_clicked", "one_clicked_rank", "clicks_one_row_off",
    "sessions_as_impressions",
    "one_position",
)  # fmt: skip
AS_IT_IS, REPAIRABLE = "present in the log", "; `rankloop import columns` repairs it"


@dataclass(frozen=True)
class PolicyFacts:
    """What one policy of a log showed.

    Attributes:
        policy_id: the policy.
        first: the time of its first impression; None in a log without times.
        last: the time of its last impression.
        impressions: the number of impressions.
        impressions_by_period: the number of impressions per period of the log; empty in a log without times.
        queries: the number of different queries.
        displays_by_position: the number of documents shown at each position.
        clicks_by_position: how many of them were clicked.
        explores: of its queries with more than one impression, the share whose ranking ever changed; None if
            there are no such queries.
        support: how much of what it could have shown it did show; None if its candidates are not known.
        misfit: how far displays are from what its scores predict; None if it cannot be tested.
        order: how much of where documents are shown depends on the document; None if too few came again.
        randomised: whether it was declared to rank at random.
    """

    policy_id: str
    first: datetime | None
    last: datetime | None
    impressions: int
    impressions_by_period: tuple[int, ...]
    queries: int
    displays_by_position: tuple[int, ...]
    clicks_by_position: tuple[int, ...]
    explores: float | None
    support: LogSupport | None
    misfit: Misfit | None
    order: DisplayOrder | None = None
    randomised: bool = False

    @property
    def click_rate_by_position(self) -> tuple[float | None, ...]:
        """The share of displays that was clicked, by rank; None where nothing was shown."""
        counts = zip(self.clicks_by_position, self.displays_by_position, strict=True)
        return tuple(clicks / shown if shown else None for clicks, shown in counts)

    @property
    def click_interval_by_position(self) -> tuple[tuple[float, float] | None, ...]:
        """The 90 % interval (Wilson) of each click rate."""
        counts = zip(self.clicks_by_position, self.displays_by_position, strict=True)
        return tuple(wilson(clicks, shown) if shown else None for clicks, shown in counts)

    def warnings(self) -> Iterator[CheckWarning]:
        """What to consider before computing anything from the policy's clicks."""
        return (CheckWarning.of(code, text) for code, text in self._warnings())

    def _warnings(self) -> Iterator[tuple[str, str]]:
        name = f"policy {self.policy_id!r}"
        if self.explores is not None and self.explores < EXPLORES:
            yield (
                "never_explores",
                f"{name} does not explore: of the queries that came again, fewer than {EXPLORES:.0%} ever "
                f"had another ranking. Nothing can be learned about documents that it does not show, nor "
                f"about position bias from its clicks alone.",
            )
        known = self.randomised or self.support is not None
        if self.order is not None and self.order.looks_randomised and not known:
            pooled = ", across queries," if self.order.across_queries else ""
            yield (
                "looks_randomised",
                f"{name} looks randomised: documents{pooled} explain {max(self.order.explained, 0.0):.1%} of "
                f"where they are shown. If it is randomised by design, declare it (--randomised "
                f"{shlex.quote(self.policy_id)}, for `rankloop import` or `rankloop bias`): position bias "
                f"then follows from its click rates.",
            )
        if self.support is None:
            text = f"{name} has no candidates: its exposures will be estimated from displays."
            yield "no_candidates", text
        elif self.support.unknown:
            yield (
                "some_candidates",
                f"{name} has no candidates for {self.support.unknown:,} of its queries: their exposures will "
                f"be estimated from displays.",
            )
        if self.support is not None and self.support.strangers:
            yield (
                "not_candidates",
                f"{name} showed {self.support.strangers:,} documents that are not among its candidates: "
                f"exposures cannot be computed from them.",
            )
        if self.support is not None and self.support.impossible:
            yield (
                "impossible_by_scores",
                f"{name} showed {self.support.impossible:,} documents that it never shows according to "
                f"its scores: exposures cannot be computed from them.",
            )
        if self.misfit is not None and self.misfit.value > self.misfit.bound:
            yield (
                "not_drawn_from_scores",
                f"{name} does not draw its rankings from its scores: displays deviate from the expectation "
                f"{self.misfit.value:.1f} times as much as chance explains. Log the scores that it draws "
                f"from, or estimate exposures from displays.",
            )


@dataclass(frozen=True)
class LogFacts:
    """The contents of a log; no opinion on what they are good for.

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
        left_out: the number of rows below the last rank of the tables.
        periods: the start of each period in which impressions are counted; empty without times.
        period_seconds: the length of a period; None without times.
        policies: what each policy showed, in the order of their first impressions.
        problems: what is wrong with the log.
        sanity: what impressions look like, and what is suspicious about it.
        explores: whether rankings vary, over all policies.
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
    positions: int
    left_out: int
    periods: tuple[datetime, ...]
    period_seconds: int | None
    policies: tuple[PolicyFacts, ...]
    problems: tuple[Problem, ...]
    sanity: Sanity
    explores: bool
    imported: tuple[Mapping[str, Any], ...]

    @property
    def warnings(self) -> tuple[CheckWarning, ...]:
        """What to consider before computing anything from the log; what makes it useless comes first."""
        of_policies = (warning for policy in self.policies for warning in policy.warnings())
        rest = (CheckWarning.of(code, text) for code, text in self._warnings())
        found = (*self.sanity.warnings, *of_policies, *rest)
        return tuple(sorted(found, key=lambda warning: warning.code not in SEVERE))

    def _warnings(self) -> Iterator[tuple[str, str]]:
        if all(policy.first is None for policy in self.policies):
            yield "no_timestamps", "The log has no timestamps: policies are ordered by name."
        early = sum(one["count"] for one in self.imported if one.get("name") == "early_clicks")
        if early > EARLY_CLICKS * self.clicks:
            yield (
                "early_clicks",
                f"{early:,} clicks of the import came before their impression; the log has {self.clicks:,}. "
                f"Clocks or time zones of the two sources differ, or clicks were joined with a later "
                f"impression of the same id: correct the times, or import with an id per list, and import "
                f"the log again.",
            )
        if self.without_features:
            text = f"{self.without_features:,} documents have no features: models leave them out."
            yield "documents_without_features", text
        if self.bad_features:
            yield "unusable_features", f"{self.bad_features}."
        if self.left_out:
            yield (
                "deep_rows",
                f"{self.left_out:,} rows below position {MOST_RANKS} are not in the tables by position.",
            )

    @property
    def severe(self) -> CheckWarning | None:
        """The first warning that nothing should be learned from the log as it is, if there is one."""
        return next((warning for warning in self.warnings if warning.code in SEVERE), None)

    def to_dict(self) -> dict[str, Any]:
        """The same as a dictionary for JSON."""
        # A subclass may have more fields, which are its own to tell.
        found = {part.name: getattr(self, part.name) for part in fields(LogFacts)}
        found |= {name: [asdict(one) for one in found[name]] for name in ("policies", "problems")}
        for policy, own in zip(found["policies"], self.policies, strict=True):
            for name in ("first", "last"):
                policy[name] = None if policy[name] is None else policy[name].isoformat()
            policy["order"] = None if own.order is None else own.order._asdict()
            policy["misfit"] = None if policy["misfit"] is None else policy["misfit"]._asdict()
            policy["click_rate_by_position"] = list(own.click_rate_by_position)
            policy["click_interval_by_position"] = list(own.click_interval_by_position)
        found["periods"] = [start.isoformat() for start in self.periods]
        del found["sanity"]
        return {
            **found,
            "log": str(self.log),
            "gaps": asdict(self.sanity.gaps),
            "clock_gaps": [[gap.start.isoformat(), gap.end.isoformat()] for gap in self.sanity.clock_gaps],
            "warnings": [warning.to_dict() for warning in self.warnings],
        }


def find_facts(
    counter: LogCounter, counts: Counts, slots: Slots, progress: Progress | None = None
) -> LogFacts:
    """Find the facts about a log.

    Args:
        counter: counts the log.
        counts: its counts.
        slots: the slots of its impressions.
        progress: called with what is being done.
    """
    log, deepest = counter.log, counter.totals["deepest"]
    counts = counts.of_ranks(min(deepest, MOST_RANKS))
    # With α = 1 at every rank, the exposure is the probability of being shown at all.
    anywhere = Bias(np.ones(counts.positions), np.zeros(counts.positions), np.ones(counts.positions))
    report(progress, "check", note="computing exposures")
    exact: Mapping[str, CandidateExposures] = {}
    if log.has(CANDIDATES):
        exact = compute_exposures(counter, counts, anywhere, find_placements(slots, counts))
    report(progress, "check", note="looking for problems")
    problems = _problems(counter)
    periods = count_by_period(counter)
    sanity = check_sanity(counter, counts, slots.gaps)
    report(progress, "check", note="checking features")
    without_features = _without_features(counter)
    bad_features = why_unusable(log, counts) if log.has(FEATURES) else None
    return LogFacts(
        log=log.folder,
        tables=log.tables,
        rows=counter.totals["rows"],
        impressions=counts.impressions,
        clicks=counter.totals["clicks"],
        queries=int((counts.impressions_by_query > 0).sum()),
        documents=counts.n_documents,
        without_features=without_features,
        bad_features=bad_features,
        positions=deepest,
        left_out=counts.left_out,
        periods=() if periods is None else periods.starts,
        period_seconds=None if periods is None else periods.seconds,
        policies=tuple(
            _policy(counts, number, times, exact.get(times["policy_id"]), periods, log.randomised)
            for number, times in enumerate(counter.policy_times)
        ),
        problems=problems,
        sanity=sanity,
        explores=counts.explores(),
        imported=_imported(log),
    )


def _policy(
    counts: Counts,
    number: int,
    times: Mapping[str, Any],
    exact: CandidateExposures | None,
    periods: Periods | None,
    randomised: tuple[str, ...],
) -> PolicyFacts:
    shown, clicked = counts.totals_by_position(number)
    support = None if exact is None else measure_support(counts, number, exact)
    return PolicyFacts(
        policy_id=times["policy_id"],
        first=times["first"],
        last=times["last"],
        impressions=int(counts.impressions_by_policy[number].sum()),
        impressions_by_period=() if periods is None else periods.impressions[times["policy_id"]],
        queries=int((counts.impressions_by_policy[number] > 0).sum()),
        displays_by_position=tuple(int(n) for n in shown),
        clicks_by_position=tuple(int(n) for n in clicked),
        explores=counts.exploration(number),
        support=support,
        misfit=None if exact is None or support is None else measure_misfit(counts, number, exact),
        order=measure_order(counts, number),
        randomised=times["policy_id"] in randomised,
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
    features = counter.engine.table(counter.log.files(FEATURES)).select(**as_text(*QUERY_DOCUMENT))
    missing = counter.documents.anti_join(features, QUERY_DOCUMENT).agg(missing=_.count())
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
