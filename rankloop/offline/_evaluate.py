"""What a policy that nobody has seen yet would be worth, by the clicks of a log: with an interval."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np
from numpy.typing import NDArray

from rankloop.errors import DataError, RankloopError
from rankloop.estimators import InterventionAware
from rankloop.logs import Log, LogCounts, count, statistics_of_log
from rankloop.logs.engines import engine as open_engine
from rankloop.logs.log_statistics import Source
from rankloop.offline.comparison import Comparison, Contestant, Difference
from rankloop.offline.control_variate import ControlVariate, SupportBounds
from rankloop.offline.impression_sums import impression_sums
from rankloop.offline.intervals import ImpressionSample, ValueInterval
from rankloop.offline.policy_rankings import Measure, Policy, PolicyRanking, Ranking, RankingResolver
from rankloop.types import Bias

# What the point estimate is: unbiased whatever traffic does, and displays are no noise to it.
ESTIMATOR = InterventionAware(clip="off", average="query", control="mean")

# Resampling fewer queries than this makes intervals that are too narrow.
FEW_QUERIES = 30

Say = Callable[[str], None]


def evaluate(
    log: Log,
    bias: Bias,
    new: Policy,
    against: Policy,
    *,
    measure: str = "dcg",
    ranking: Ranking = "sorted",
    queries: Iterable[str] | None = None,
    support: float | None = None,
    exposure: Source = "candidates",
    counts: LogCounts | None = None,
    seed: int = 0,
    engine: str = "duckdb",
    master: str | None = None,
    watch: Say | None = None,
) -> Comparison:
    """Estimate what two policies are worth on the log's traffic, and their difference, with 90 % intervals.

        V̂(π) = 1/T Σ_q N_q Σ_d λ_d · R̂_d,    R̂_d = m + (C_d − Σ_k n_dk (α_k m + β_k)) / (N_q ᾱ_d)

    N_q is how often query q came, T of them in all; C_d how often d was clicked, n_dk how often it was shown
    at rank k, ᾱ_d its expected α over the impressions of its query; m the mean relevance of what was shown;
    λ_d what d's rank under π counts. Where ᾱ_d is below the support, R̂_d is m, and the result says what if
    it were 0 or 1.

    Args:
        log: what `rankloop.logs.open_log` gives.
        bias: how users click.
        new: a policy: a model, the path of a stored one or of a table of scores (query_id, doc_id, score), or
            the id of a policy of the log.
        against: the policy that it is held against, alike.
        measure: ``dcg`` (down to the last rank of the bias), ``dcg@10`` or ``clicks``.
        ranking: how models and tables rank: ``sorted`` by score, or ``drawn`` (Plackett–Luce). A policy of
            the log draws, if the log has its candidates; otherwise its displays say what it shows.
        queries: ids of the queries to estimate on; None: all that came. A policy that was fitted to this very
            log must be evaluated on queries it was not fitted to.
        support: the least ᾱ of a document for its clicks to count; None: 0.1/√T.
        exposure: ``displays`` for policies that do not draw rankings from their scores.
        counts: what `rankloop.logs.count` gave with as many ranks as the bias has, if it was called before.
        seed: of the bootstrap.
        engine: ``duckdb`` or ``spark``.
        master: where Spark runs.
        watch: told what is being done.

    Raises:
        RankloopError: no such policy, scores or features that are missing or wrong, an empty log.

    Reference: docs/offline.md.
    """
    say = watch or (lambda _: None)
    worth = Measure.of(measure, bias)
    if support is not None and not 0.0 <= support < 1.0:
        raise RankloopError(f"support is an expected α, from 0 to below 1, got {support}")
    say("counting")
    known = count(log, ranks=bias.ranks, engine=engine, master=master) if counts is None else counts
    chosen = _chosen(known, queries)
    showing = RankingResolver(log, known, worth, candidates=exposure == "candidates")
    say("ranking")
    shown = showing.of(new, ranking), showing.of(against, ranking)
    used, notes = _used(known, chosen, shown)
    say("exposures")
    found = statistics_of_log(log, bias, exposure=exposure, counts=known, engine=engine, master=master)
    beliefs = ControlVariate.of(found.statistics, bias, used, support)
    say("summing over impressions")
    with open_engine(engine, master=master) as running:
        sums = impression_sums(running, log, known, beliefs.factors(shown), bias, beliefs.guess)
    times = np.where(used, found.statistics.query_counts, 0)
    impressions = ImpressionSample(times, beliefs.before(shown), sums)
    say("resampling queries")
    return compared(shown, beliefs, impressions, measure=worth.name, notes=(*found.notes, *notes), seed=seed)


def compared(
    shown: tuple[PolicyRanking, PolicyRanking],
    beliefs: ControlVariate,
    impressions: ImpressionSample,
    *,
    measure: str,
    notes: tuple[str, ...] = (),
    seed: int = 0,
) -> Comparison:
    """The comparison of two policies, from sums over impressions, wherever these come from."""
    of_new, of_other, gain = impressions.intervals(np.random.default_rng(seed))
    effective, unseen = impressions.effective(), beliefs.unseen(shown)
    return Comparison(
        measure=measure,
        new=_contestant(shown[0], of_new, effective[0], unseen, 0),
        against=_contestant(shown[1], of_other, effective[1], unseen, 1),
        difference=Difference(gain, gain.low + unseen.worst, gain.high + unseen.best),
        impressions=impressions.total,
        queries=int((impressions.times > 0).sum()),
        guess=beliefs.guess,
        support=beliefs.support,
        estimator=str(ESTIMATOR),
        notes=notes,
    )


def _chosen(counts: LogCounts, queries: Iterable[str] | None) -> NDArray[np.bool_]:
    """Which queries were asked for, of those that came."""
    came: NDArray[np.bool_] = counts.query_counts.sum(axis=0) > 0
    if queries is None:
        return came
    named = np.unique(np.asarray(list(queries), dtype=np.str_))
    inside = np.isin(named, counts.query_ids)
    if not inside.all():
        missing = named[~inside]
        raise DataError(
            f"query {str(missing[0])!r} is not in the log ({len(missing)} of the {len(named)} queries asked "
            f"for are not): give the log that the list of queries was made with"
        )
    chosen: NDArray[np.bool_] = came & np.isin(counts.query_ids, named)
    if not chosen.any():
        raise DataError(f"none of the {len(named)} queries asked for ever came: there is nothing to go by")
    return chosen


def _used(
    counts: LogCounts, chosen: NDArray[np.bool_], shown: tuple[PolicyRanking, PolicyRanking]
) -> tuple[NDArray[np.bool_], list[str]]:
    """Which queries are used, and what is to be said of those that are not."""
    used, notes = chosen, []
    for policy in shown:
        unknown = np.flatnonzero(chosen & ~policy.known)
        if not len(unknown):
            continue
        if policy.name not in counts.policy_ids:
            raise DataError(
                f"{policy.name}: no scores for query {str(counts.query_ids[unknown[0]])!r} ({len(unknown)} "
                f"of {chosen.sum()} queries in all): give scores for the documents of every query"
            )
        notes.append(
            f"{len(unknown):,} queries are left out: they never came under policy {policy.name!r}, which has "
            f"no candidates for them, so that nobody knows how it would rank them."
        )
        used = used & policy.known
    if not used.any():
        raise DataError("there is no query that both policies are known to rank")
    if used.sum() < FEW_QUERIES:
        notes.append(
            f"Only {used.sum()} queries came: that is too few to tell how much queries differ, and intervals "
            f"are too narrow."
        )
    return used, notes


def _contestant(
    shown: PolicyRanking, estimate: ValueInterval, effective: float, unseen: SupportBounds, at: int
) -> Contestant:
    return Contestant(
        name=shown.name,
        ranking=shown.ranking,
        estimate=estimate,
        effective=effective,
        outside=float(unseen.shares[at]),
        if_nothing=float(estimate.value + unseen.nothing[at]),
        if_everything=float(estimate.value + unseen.everything[at]),
    )
