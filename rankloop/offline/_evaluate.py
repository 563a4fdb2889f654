"""The value of a policy before it is deployed, estimated from the clicks of a log, with an interval."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rankloop.errors import DataError, RankloopError
from rankloop.evidence.assumption_tests import POLICY
from rankloop.evidence.attraction import know_clicks
from rankloop.evidence.decision import Assumption
from rankloop.evidence.self_test import SelfTest, Setting, drifts_within, meaning_for
from rankloop.evidence.traffic import rankings_changed
from rankloop.logs import LogReader, LogStatistics
from rankloop.logs.grading import Grading
from rankloop.logs.impression_rows import (
    unit_name,
)
from rankloop.logs.sanity import only_clicked_impressions, read_graded_clicks
from rankloop.offline.assumptions import (
    NO_RESAMPLES,
    AssumedBias,
    BiasSource,
    accounted_tests,
    assume_bias,
    periods_of,
    periods_since,
    self_test_of,
)
from rankloop.offline.comparison import (
    LITTLE_GAIN,
    Comparison,
    GuessGain,
    RankingExample,
    assumptions_of,
    compare,
)
from rankloop.offline.fit_result import Fit, QueryChoice, is_fit, judge_on, load_fit, name_of
from rankloop.offline.log_sums import in_periods, spread_of, sum_moments, sum_units, support_of
from rankloop.offline.policy_rankings import DISPLAYED, WITHIN, Policy, Ranking, RankingResolver
from rankloop.offline.relevance_guess import (
    MEAN,
    SCORES,
    ScaledGuess,
    check_guess,
    grades_of,
    guess_by_features,
    guess_by_scores,
)
from rankloop.offline.segments import SegmentedLog, SegmentedResult, compare_segments
from rankloop.progress import Progress, report
from rankloop.relevance.judge import judge_agreement
from rankloop.statistics import CellTable, Counts
from rankloop.statistics.counts import ImpressionTable
from rankloop.statistics.intervals import FEW_UNITS
from rankloop.types import Bias, Float64
from rankloop.value.uncertainty import (
    QueryValues,
)
from rankloop.value.valuation import DEFAULT_METRIC, LoggedMetric, RankingPair, Valuation

Rerank = Literal["impression", "query"]
RERANKS = ("impression", "query")
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
        guess: what guesses the relevance of documents before their clicks, which makes intervals narrower:
            ``scores`` (a curve of the policies' own scores, if they have any), ``mean`` (all documents are
            average), or a guess from features by name: ``trees``, ``logistic``.
        judgments: a file of grades from people or a language model (`read_judgments`), used in the guess
            besides the policies' scores: a curve through clicks of other queries says what a grade is worth,
            and clicks correct it. Grades that explain no clicks are not used.
        seed: the random seed of the bootstrap, and of the estimated bias.
        segments: a column of the log, such as ``device``: the policies are also compared on the impressions
            with each of its values, with intervals that hold together.
    """

    ranking: Ranking = "sorted"
    rerank: Rerank | None = None
    support: float | None = None
    guess: str = SCORES
    judgments: str | os.PathLike[str] | None = None
    seed: int = 0
    segments: str | None = None

    def __post_init__(self) -> None:
        if self.support is not None and not 0.0 <= self.support < 1.0:
            raise RankloopError(f"support is an expected α, from 0 to below 1, got {self.support}")
        if self.rerank not in (None, *RERANKS):
            raise RankloopError(f"policies re-rank each {' or '.join(RERANKS)}, not {self.rerank!r}")
        check_guess(self.guess)
        if self.judgments is not None and self.guess not in (SCORES, MEAN):
            raise RankloopError(
                f"judgments take the place of a guess from features: leave the guess {self.guess!r} out"
            )


DEFAULTS = EvaluationOptions()


def evaluate(
    log: LogReader,
    policy: Policy,
    against: Policy,
    *,
    bias: BiasSource = None,
    metric: str = DEFAULT_METRIC,
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
        metric: ``dcg`` (down to the last rank of the bias), ``dcg@10`` or ``clicks``.
        queries: ids of the queries to use, or ``all``. None: if a policy was fitted to this log, the queries
            that judge it (`rankloop.fit`); otherwise all.
        options: how the policies rank, which documents have support, and the random seed.
        progress: called with what is being done.

    Raises:
        RankloopError: there is no such policy, scores or features are missing or wrong, or the log is empty.

    Reference: docs/offline.md.
    """
    policies = _load(policy, log), _load(against, log)
    assumed = _choose_bias(log, bias, policies, options.seed, progress)
    report(progress, "evaluate", note="counting")
    grading, graded_bias, counts = read_graded_clicks(log, assumed.bias)
    logged_metric = LoggedMetric.of(metric, graded_bias, unit=grading.unit if grading.graded else None)
    # The metric may have more ranks than the bias.
    deep = log.count(max(assumed.bias.positions, logged_metric.ranks))
    judged = judge_on(queries, policies, counts)
    chosen = _choose_queries(counts, judged.ids)
    report(progress, "evaluate", note="computing exposures")
    found = grading.statistics(log, graded_bias)
    report(progress, "evaluate", note="ranking")
    within = _reranked_queries(counts, found, options.rerank)
    resolver = RankingResolver(log, deep, logged_metric, within=within, queries=chosen)
    rankings = _as_often_as_clicked(
        resolver.resolve(policies, options.ranking), log, logged_metric, graded_bias
    )
    used, notes = _usable_queries(counts, chosen, rankings, by_features=resolver.by_features)
    notes += _notes_on_reranking(rankings, within & used)
    first, second = (ranking.select(used, counts.offsets) for ranking in rankings)
    statistics = found.statistics.select(np.flatnonzero(used))
    valuation = Valuation(
        statistics, graded_bias, logged_metric, (first, second), support_of(statistics, options.support)
    )
    knows_clicks = any(_was_fitted_to(policy, counts, used) for policy in policies)
    scores = [] if knows_clicks else resolver.document_scores
    inside = np.repeat(used, np.diff(counts.offsets))
    grades = None if options.judgments is None else grades_of(options.judgments, counts)
    judge = None
    if grades is not None:
        judge = judge_agreement(grades[inside], CellTable.of_statistics(statistics), graded_bias)
    plain, guess_gain = valuation, None
    # Judgments that are worth no impressions are left out: they would only make the bias matter more.
    for judgments in (None,) if grades is None else (grades, None):
        guessed = _guess(log, found, graded_bias, used, scores, options.guess, judgments)
        valuation, guess_gain = _guided(plain, guessed, inside)
        if guess_gain is not None and guess_gain.factor >= 1.0 + LITTLE_GAIN:
            break
    report(progress, "evaluate", note="summing over impressions")
    known = _find_known_clicks(log, counts, rankings, resolver.document_scores, logged_metric, graded_bias)
    parts = list(in_periods(log, found, counts, used, valuation, options.support, judging=known.judging))
    moments = [sum_moments(log, counts, used, part.valuation, part.span, part.level) for part in parts]
    client = log.client
    units = client and [sum_units(log, counts, used, part.valuation, part.span, part.level) for part in parts]
    report(progress, "evaluate", note="resampling queries")
    if assumed.estimated and assumed.resamples is None:
        notes.append(NO_RESAMPLES)
    report(progress, "evaluate", note="testing assumptions")
    setting = Setting(
        predicts_clicks=logged_metric.discounts is None,
        other_documents=_show_other_documents(valuation),
        accounted=accounted_tests(graded_bias),
    )
    tested = evaluation_assumptions(log, counts, used, assumed, setting)
    divided = SegmentedResult((), ())
    if options.segments is not None:
        report(progress, "evaluate", note=f"comparing by {options.segments}")
        whole = SegmentedLog(
            log,
            found,
            counts,
            used,
            valuation,
            options.support,
            assumed.resamples,
            (*tested.assumptions, *known.assumptions),
            options.seed,
            known.judging,
        )
        divided = compare_segments(whole, options.segments)
    pooled = compare(
        [part.valuation for part in parts],
        moments,
        assumptions=(*tested.assumptions, *known.assumptions),
        notes=(
            *_on_target(grading, policies),
            *assumed.notes,
            *judged.notes,
            *found.notes,
            *resolver.notes,
            *notes,
            *known.notes,
            *tested.notes,
            *divided.notes,
        ),
        seed=options.seed,
        spread=spread_of(log, found, counts, used, parts, assumed.resamples),
        guesses=guess_gain,
        judge=judge,
        self_test=tested.self_test,
        units=units or None,
        unit=unit_name(client),
        example=RankingExample.of(
            rankings, counts.query_ids, counts.doc_ids, counts.offsets, counts.impressions_by_query * used
        ),
    )
    return replace(pooled, segments=divided.segments, segmented_by=options.segments or "")


class TestedAssumptions(NamedTuple):
    """What a decision by a log rests on.

    Attributes:
        assumptions: whether each holds.
        notes: what the self-test found that does not make the decision less firm, in sentences.
        self_test: what the clicks of the log say; None if no row can be tested.
    """

    assumptions: tuple[Assumption, ...]
    notes: tuple[str, ...]
    self_test: SelfTest | None


def evaluation_assumptions(
    log: LogReader,
    counts: Counts,
    used: NDArray[np.bool_],
    assumed: AssumedBias,
    setting: Setting | None = None,
) -> TestedAssumptions:
    """What a decision by this log rests on, and whether it holds.

    Args:
        log: the log.
        counts: its counts.
        used: bool, queries; those that are compared.
        assumed: the bias.
        setting: how the decision uses the clicks; None for the usual one.
    """
    known = assumptions_of(
        bias_estimated=assumed.estimated,
        explores=counts.explores(used),
        several_queries=int(used.sum()) > 1,
        complete=not only_clicked_impressions(log, counts),
        curve=assumed.is_curve,
    )
    tested = self_test_of(log, assumed)
    if tested is None:
        return TestedAssumptions(known, (), None)
    table, periods = log.impression_table(), periods_of(log)
    by_policy = tested.test(POLICY).state == "found"
    chosen = replace(
        setting or Setting(),
        rankings_changed=rankings_changed(table),
        periods=1 if periods is None else len(periods),
        drifts_within=by_policy
        and periods is not None
        and drifts_within(table, periods.of_impressions(table)),
    )
    meaning = meaning_for(tested, chosen)
    return TestedAssumptions((*known, *meaning.assumptions), meaning.notes, tested)


def _show_other_documents(valuation: Valuation) -> bool:
    """Whether a policy may show documents of a query that the other one does not show.

    Not if one of them orders the documents that an impression displayed, since the other one then displayed
    them or orders them, too; nor if impressions show all documents of their query.
    """
    if any(policy.ranking.endswith(WITHIN) for policy in valuation.policies):
        return False
    statistics = valuation.statistics
    shown = statistics.displays_by_position.sum(axis=1)
    return bool((shown < statistics.per_document(statistics.impressions_by_query)).any())


def _guided(
    plain: Valuation, guessed: ScaledGuess | None, inside: NDArray[np.bool_]
) -> tuple[Valuation, GuessGain | None]:
    """The valuation with a guess that explains clicks, and what the guess is worth; the plain one without."""
    if guessed is None or not guessed.is_useful:
        return plain, None
    guided = replace(plain, guesses=guessed.guesses[inside])
    before, after = (float(QueryValues.of(each).query_variances[-1]) for each in (plain, guided))
    return guided, GuessGain(guessed.name, before / after if after > 0.0 else 1.0, guessed.calibration.gain)


def _guess(
    log: LogReader,
    found: LogStatistics,
    bias: Bias,
    used: NDArray[np.bool_],
    scores: Sequence[Float64],
    guess: str,
    grades: Float64 | None,
) -> ScaledGuess | None:
    """Guess the relevance of documents, if that can be done."""
    chosen = scores if guess == SCORES else ()
    # A curve through the clicks of a few queries predicts nothing.
    if used.sum() < FEW_UNITS or (guess in (SCORES, MEAN) and not chosen and grades is None):
        return None
    if guess in (SCORES, MEAN):
        return guess_by_scores(chosen, found.statistics, bias, used, grades=grades)
    return guess_by_features(guess, log, found, bias)


def _as_often_as_clicked(
    rankings: RankingPair, log: LogReader, logged_metric: LoggedMetric, bias: Bias
) -> RankingPair:
    """The rankings, weighted as users click in the contexts of each query, if the metric is clicks."""
    if bias.contexts is None or logged_metric.discounts is not None:
        return rankings
    counts = log.count(bias.positions, context_of=bias.contexts.of)
    relative = counts.mean_effects(bias.contexts)
    first, second = (
        replace(
            policy,
            placed=policy.placed * np.repeat(relative, np.diff(counts.offsets), axis=0),
            elsewhere=policy.elsewhere * relative,
        )
        for policy in rankings
    )
    return first, second


def _on_target(grading: Grading, policies: tuple[Policy, Policy]) -> tuple[str, ...]:
    """Notes on what the policies are judged by."""
    other = [name_of(one) for one in policies if isinstance(one, Fit) and one.target != grading.target]
    if not other:
        return grading.notes
    fitted = "clicks" if grading.graded else "amount"
    return (*grading.notes, f"{other[0]} was fitted to the {fitted}, and is judged by the {grading.target}.")


class KnownClicks(NamedTuple):
    """What policies know of the clicks of the log that judges them.

    Attributes:
        assumptions: whether they know them.
        notes: which clicks are not used for that reason.
        judging: bool, periods; those whose clicks no policy knows. None for all clicks.
    """

    assumptions: tuple[Assumption, ...] = ()
    notes: tuple[str, ...] = ()
    judging: NDArray[np.bool_] | None = None


def _find_known_clicks(
    log: LogReader,
    counts: Counts,
    rankings: RankingPair,
    document_scores: Sequence[Float64],
    metric: LoggedMetric,
    bias: Bias,
) -> KnownClicks:
    """Whether tables and models know the clicks of the log, and policies of the log those before they served.

    A policy of the log that was learned from earlier clicks, such as a ranker that is trained every week, is
    judged by the clicks of the periods since it began to serve.
    """
    try:
        table = log.impression_table()
    except DataError:
        return KnownClicks()
    if table.numbers is None:
        return KnownClicks()
    scored = [policy.name for policy in rankings if policy.name not in log.policy_ids]
    knowing = [
        name
        for name, scores in zip(scored, document_scores, strict=False)
        if know_clicks(table, scores[table.numbers])
    ]
    if knowing:
        text = (
            f"{' and '.join(knowing)} predicts the clicks of this log better than any scores could that do "
            f"not know them"
        )
        remedy = "Evaluate on another log, such as that of a later week."
        return KnownClicks((Assumption("scores", "broken", text, remedy),))
    held = (Assumption("scores", "held", ""),)
    learned = {}
    for policy in rankings:
        start = _start_of(table, policy.name)
        gain = metric.gain(policy.placed, bias)
        gain = np.where(np.repeat(policy.known, np.diff(counts.offsets)), gain, np.nan)
        if start is not None and know_clicks(table, gain[table.numbers], before=start):
            learned[policy.name] = start
    if not learned:
        return KnownClicks(held if document_scores else ())
    judging, names = periods_since(log, max(learned.values())), " and ".join(learned)
    if judging.any():
        share = f"{judging.sum()} of {len(judging)} periods"
        note = (
            f"{names} ranks as if it had been learned from clicks of this log before it served: only the "
            f"clicks since then judge it ({share})."
        )
        return KnownClicks(held, (note,), judging)
    text = f"{names} predicts the clicks before it served better than a policy could that does not know them"
    remedy = "Evaluate on a log of the time since it served, in which rankings vary."
    return KnownClicks((Assumption("scores", "broken", text, remedy),))


def _start_of(table: ImpressionTable, policy: str) -> float | None:
    """When a policy of the log began to serve: seconds since 1970; None if that is not known."""
    if policy not in table.policy_ids or table.time is None:
        return None
    times = table.time[table.policy == table.policy_ids.index(policy)]
    times = times[~np.isnan(times)]
    return float(times.min()) if len(times) else None


def _was_fitted_to(policy: Policy, counts: Counts, used: NDArray[np.bool_]) -> bool:
    """Whether a policy's scores know the clicks of some of these queries."""
    return isinstance(policy, Fit) and bool(
        policy.has_seen(counts.fingerprint, counts.query_ids[used].tolist())
    )


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


def _choose_queries(counts: Counts, queries: Iterable[str] | None) -> NDArray[np.bool_]:
    """Which of the queries with impressions were asked for."""
    came: NDArray[np.bool_] = counts.impressions_by_query > 0
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


def _reranked_queries(counts: Counts, found: LogStatistics, rerank: Rerank | None) -> NDArray[np.bool_]:
    """Which queries are re-ranked impression by impression, rather than as a whole."""
    if rerank is not None:
        return np.full(counts.n_queries, rerank == "impression")
    result = np.zeros(counts.n_queries, np.bool_)
    for number, policy in enumerate(counts.policy_ids):
        result |= (counts.impressions_by_policy[number] > 0) & ~found.scored.get(
            policy, np.zeros_like(result)
        )
    return result


def _notes_on_reranking(rankings: RankingPair, within: NDArray[np.bool_]) -> list[str]:
    named = [policy.name for policy in rankings if policy.ranking != DISPLAYED]
    if not named or not within.any():
        return []
    return [
        f"On {within.sum():,} queries, {' and '.join(named)} re-ranks the documents that each impression "
        f"displayed, among the positions that they had: the log does not tell which other documents could "
        f"have been shown."
    ]


def _usable_queries(
    counts: Counts,
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
    if used.sum() < FEW_UNITS:
        notes.append(
            f"Only {used.sum()} queries are used: that is too few to tell how much queries differ, and the "
            f"intervals are too narrow."
        )
    return used, notes
