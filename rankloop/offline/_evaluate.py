"""The value of a policy before it is deployed, estimated from the clicks of a log, with an interval."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from rankloop.errors import DataError, RankloopError
from rankloop.logs import LogCounts, LogReader, LogStatistics
from rankloop.logs.grading import Grading
from rankloop.offline.assumed_bias import NO_RESAMPLES, AssumedBias, BiasSource, assume_bias
from rankloop.offline.click_contrast import only_clicked_impressions, require_contrast
from rankloop.offline.comparison import Comparison, ControlReport, compare
from rankloop.offline.control_variate import ControlVariate
from rankloop.offline.fit_result import Fit, is_fit, load_fit
from rankloop.offline.intervals import DIFFERENCE
from rankloop.offline.judged_clicks import FEW_QUERIES, JudgedClicks, RankingPair
from rankloop.offline.judged_queries import QueryChoice, judge_on, name_of
from rankloop.offline.policy_rankings import (
    DEFAULT_MEASURE,
    Measure,
    Policy,
    Ranking,
    RankingResolver,
)
from rankloop.offline.relevance_control import (
    SCORES,
    check_control,
)
from rankloop.offline.verdict import VerdictEvidence
from rankloop.progress import Progress, report

Rerank = Literal["impression", "query"]
RERANKS = ("impression", "query")
# The log explores if the ranking changed for at least this share of the queries that came again.
EXPLORES = 0.01
# A table of scores may lack this share of the queries; beyond it, it is probably one of another log.
MOST_UNSCORED = 0.5


@dataclass(frozen=True)
class EvaluationOptions:
    """How policies are compared.

    Attributes:
        ranking: how models and tables of scores rank: ``sorted`` by score, or ``drawn`` (Plackett–Luce). A
            policy of the log draws if the log has its candidates; otherwise its displays tell how it ranks.
        rerank: what policies rank: ``query``, all documents of the query that the log knows, or
            ``impression``, the documents that an impression displayed, among its own slots. None: whole
            queries where the candidates of all policies that served the query are known, impressions
            elsewhere.
        support: the smallest expected α of a document whose clicks are used; None for 0.1/√T.
        control: what guesses the relevance of documents before their clicks, which makes intervals narrower:
            ``scores`` (a curve of the policies' own scores, if they have any), ``mean`` (all documents are
            average), or a guess from features by name: ``trees``, ``logistic``.
        seed: the random seed of the bootstrap, and of the estimated bias.
    """

    ranking: Ranking = "sorted"
    rerank: Rerank | None = None
    support: float | None = None
    control: str = SCORES
    seed: int = 0

    def __post_init__(self) -> None:
        if self.support is not None and not 0.0 <= self.support < 1.0:
            raise RankloopError(f"support is an expected α, from 0 to below 1, got {self.support}")
        if self.rerank not in (None, *RERANKS):
            raise RankloopError(f"policies re-rank each {' or '.join(RERANKS)}, not {self.rerank!r}")
        check_control(self.control)


DEFAULTS = EvaluationOptions()


def evaluate(
    log: LogReader,
    policy: Policy,
    against: Policy,
    *,
    bias: BiasSource = None,
    measure: str = DEFAULT_MEASURE,
    queries: QueryChoice = None,
    options: EvaluationOptions = DEFAULTS,
    progress: Progress | None = None,
) -> Comparison:
    """Estimate the values of two policies on the log's traffic, and their difference, with 90 % intervals.

        V̂(π) = 1/T Σ_q N_q Σ_d λ_d · R̂_d,    R̂_d = m + (C_d − Σ_k n_dk (α_k m + β_k)) / (N_q ᾱ_d)

    N_q is the number of impressions of query q, T their total; C_d the clicks on d, n_dk how often d was
    shown at rank k, ᾱ_d its expected α over the impressions of its query; m the mean relevance of what was
    shown; λ_d what d's rank under π is worth. Where ᾱ_d is below the support, R̂_d is m, and the result
    states what changes if it is 0 or 1.

    Args:
        log: the log, as `rankloop.open_log` opens it.
        policy: the new policy: a `Fit`, a model, the path of either or of a table of scores (query_id,
            doc_id, score), or the id of a policy of the log. Models of other programs can be read, too:
            docs/export.md lists them.
        against: the policy to compare with; accepts the same forms.
        bias: how users click: a bias, the path of a stored one, or the name of simulated users. None for the
            bias that the policy was fitted with, if it is a fit; otherwise it is estimated from the log.
        measure: ``dcg`` (down to the last rank of the bias), ``dcg@10`` or ``clicks``.
        queries: ids of the queries to use, or ``all``. None: if a policy was fitted to this log, the queries
            that it held out; otherwise all.
        options: how the policies rank, which documents have support, and the random seed.
        progress: called with what is being done.

    Raises:
        RankloopError: there is no such policy, scores or features are missing or wrong, or the log is empty.

    Reference: docs/offline.md.
    """
    policies = _load(policy, log), _load(against, log)
    assumed = _choose_bias(log, bias, policies, options.seed, progress)
    grading = log.grading()
    graded_bias = grading.bias(assumed.bias)
    worth = Measure.of(measure, graded_bias).of_worth(grading)
    report(progress, "evaluate", note="counting")
    # The measure may have more ranks than the bias.
    deep = log.count(max(assumed.bias.ranks, len(worth.gain)))
    counts = log.count(assumed.bias.ranks)
    require_contrast(counts)
    judged = judge_on(queries, policies, counts)
    chosen = _choose_queries(counts, judged.ids)
    report(progress, "evaluate", note="computing exposures")
    found = grading.statistics(log, graded_bias)
    report(progress, "evaluate", note="ranking")
    within = _reranked_queries(counts, found, options.rerank)
    resolver = RankingResolver(log, deep, worth, within=within, queries=chosen)
    rankings = resolver.resolve(policies, options.ranking)
    used, notes = _usable_queries(counts, chosen, rankings, by_features=resolver.by_features)
    notes += _notes_on_reranking(rankings, within & used)
    variate = ControlVariate.of(found.statistics, graded_bias, used, options.support)
    report(progress, "evaluate", note="summing over impressions")
    judged_by = JudgedClicks(log, counts, found, graded_bias, used)
    impressions = judged_by.sample(rankings, variate)
    control = None
    knows_clicks = any(_was_fitted_to(policy, counts, used) for policy in policies)
    guessed = judged_by.guess([] if knows_clicks else resolver.item_scores, options.control)
    if guessed is not None and guessed.is_useful:
        plain = impressions.query_variance(DIFFERENCE)
        variate = replace(variate, item_guesses=guessed.guesses)
        impressions = judged_by.sample(rankings, variate)
        variance = impressions.query_variance(DIFFERENCE)
        ratio = plain / variance if variance > 0.0 else 1.0
        control = ControlReport(guessed.name, ratio, guessed.calibration.gain)
    report(progress, "evaluate", note="resampling queries")
    if assumed.estimated and assumed.resamples is None:
        notes.append(NO_RESAMPLES)
    return compare(
        rankings,
        variate,
        impressions,
        measure=worth.name,
        evidence=VerdictEvidence(
            assumed.estimated,
            explores(counts, used),
            several_queries=int(used.sum()) > 1,
            complete=not only_clicked_impressions(log, counts),
        ),
        notes=(
            *_on_target(grading, policies),
            *assumed.notes,
            *judged.notes,
            *found.notes,
            *resolver.notes,
            *notes,
        ),
        seed=options.seed,
        spread=judged_by.spread(rankings, variate, assumed.resamples),
        control=control,
    )


def _on_target(grading: Grading, policies: tuple[Policy, Policy]) -> tuple[str, ...]:
    """Notes on what the policies are judged by."""
    other = [name_of(one) for one in policies if isinstance(one, Fit) and one.target != grading.target]
    if not other:
        return grading.notes
    fitted = "clicks" if grading.graded else "signal"
    return (*grading.notes, f"{other[0]} was fitted to the {fitted}, and is judged by the {grading.target}.")


def _was_fitted_to(policy: Policy, counts: LogCounts, used: NDArray[np.bool_]) -> bool:
    """Whether a policy's scores know the clicks of some of these queries."""
    if not isinstance(policy, Fit) or policy.log != counts.fingerprint:
        return False
    return bool(np.isin(counts.query_ids[used], np.array(policy.train_queries, dtype=np.str_)).any())


def _load(policy: Policy, log: LogReader) -> Policy:
    """A policy, with stored fits loaded."""
    if not isinstance(policy, str | os.PathLike) or not is_fit(policy) or policy in log.policy_ids:
        return policy
    return load_fit(Path(policy))


def _choose_bias(
    log: LogReader,
    bias: BiasSource,
    policies: tuple[Policy, Policy],
    seed: int,
    progress: Progress | None,
) -> AssumedBias:
    fits = [policy for policy in policies if isinstance(policy, Fit)]
    if bias is not None or not fits:
        return assume_bias(log, bias, seed=seed, progress=progress)
    note = f"The bias is the one that {name_of(fits[0])} was fitted with."
    return AssumedBias(fits[0].bias, fits[0].bias_details, (note,))


def _choose_queries(counts: LogCounts, queries: Iterable[str] | None) -> NDArray[np.bool_]:
    """Which of the queries with impressions were asked for."""
    came: NDArray[np.bool_] = counts.query_counts.sum(axis=0) > 0
    if queries is None:
        return came
    named = np.unique(np.asarray(list(queries), dtype=np.str_))
    inside = np.isin(named, counts.query_ids)
    if not inside.all():
        missing = named[~inside]
        raise DataError(
            f"query {str(missing[0])!r} is not in the log ({len(missing)} of the {len(named)} requested "
            f"queries are not): use the log that the list of queries was made from"
        )
    chosen: NDArray[np.bool_] = came & np.isin(counts.query_ids, named)
    if not chosen.any():
        raise DataError(
            f"none of the {len(named)} requested queries has an impression in the log: name queries that "
            f"users saw, or leave out the choice of queries"
        )
    return chosen


def _reranked_queries(counts: LogCounts, found: LogStatistics, rerank: Rerank | None) -> NDArray[np.bool_]:
    """Which queries are re-ranked impression by impression, rather than as a whole."""
    if rerank is not None:
        return np.full(counts.n_queries, rerank == "impression")
    result = np.zeros(counts.n_queries, np.bool_)
    for number, policy in enumerate(counts.policy_ids):
        result |= (counts.query_counts[number] > 0) & ~found.scored.get(policy, np.zeros_like(result))
    return result


def _notes_on_reranking(rankings: RankingPair, within: NDArray[np.bool_]) -> list[str]:
    named = [policy.name for policy in rankings if policy.ranking != "as displayed"]
    if not named or not within.any():
        return []
    return [
        f"On {within.sum():,} queries, {' and '.join(named)} re-ranks the documents that each impression "
        f"displayed, among the positions that they had: the log does not tell which other documents could "
        f"have been shown."
    ]


def explores(counts: LogCounts, used: NDArray[np.bool_]) -> bool:
    """Whether rankings vary: of the queries that came again, 1 % were not always ranked in the same way.

    If no query came again, whether any document was ever shown at two ranks.
    """
    cells = counts.cells
    query = np.searchsorted(counts.offsets, cells.item, side="right") - 1
    here = used[query]
    pairs = np.unique(np.stack([cells.item[here], cells.rank[here]], axis=1), axis=0)
    places = np.stack([np.searchsorted(counts.offsets, pairs[:, 0], side="right") - 1, pairs[:, 1]], axis=1)
    distinct, documents = np.unique(places, axis=0, return_counts=True)
    varied = np.zeros(counts.n_queries, np.bool_)
    varied[distinct[documents > 1, 0]] = True
    again = used & (counts.query_counts.sum(axis=0) > 1)
    if again.any():
        return bool(varied[again].mean() >= EXPLORES)
    names, documents_of = np.unique(counts.doc_ids[pairs[:, 0]], return_inverse=True)
    ranks = np.unique(np.stack([documents_of, pairs[:, 1]], axis=1), axis=0)
    return bool(len(ranks) > len(names))


def _usable_queries(
    counts: LogCounts,
    chosen: NDArray[np.bool_],
    rankings: RankingPair,
    *,
    by_features: set[str],
) -> tuple[NDArray[np.bool_], list[str]]:
    """Which queries can be used, and notes on those that cannot."""
    used, notes = chosen, []
    for policy in rankings:
        unknown = np.flatnonzero(chosen & ~policy.known)
        if not len(unknown):
            continue
        if policy.name in by_features:
            used = used & policy.known  # the resolver's notes count them
            continue
        if policy.name not in counts.policy_ids:
            if len(unknown) > MOST_UNSCORED * chosen.sum():
                raise DataError(
                    f"{policy.name}: no scores for query {str(counts.query_ids[unknown[0]])!r} "
                    f"({len(unknown)} of {chosen.sum()} queries in total): provide scores for the documents "
                    f"of every query"
                )
            notes.append(
                f"{len(unknown):,} of {chosen.sum():,} queries are left out: {policy.name} has no scores for "
                f"their documents."
            )
            used = used & policy.known
            continue
        notes.append(
            f"{len(unknown):,} queries are left out: policy {policy.name!r} never served them and has no "
            f"candidates for them, so it is not known how it would rank them."
        )
        used = used & policy.known
    if not used.any():
        raise DataError(
            "there is no query for which it is known how both policies rank it: give scores for the "
            "documents of the log, or compare with a policy that served the same queries"
        )
    if used.sum() < FEW_QUERIES:
        notes.append(
            f"Only {used.sum()} queries are used: that is too few to tell how much queries differ, and the "
            f"intervals are too narrow."
        )
    return used, notes
