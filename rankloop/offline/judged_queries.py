"""The queries that a policy may be judged on: not those whose clicks it was fitted to."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, NamedTuple

from rankloop.errors import DataError
from rankloop.logs import LogCounts
from rankloop.offline.fit_result import Fit

# None to leave out the queries that the policies were fitted to, "all" for all queries.
QueryChoice = Iterable[str] | Literal["all"] | None


class JudgedQueries(NamedTuple):
    """The queries of an evaluation.

    Attributes:
        ids: the ids of the queries; None for all queries of the log.
        notes: caveats that every report must state.
    """

    ids: tuple[str, ...] | None
    notes: tuple[str, ...]


def judge_on(queries: QueryChoice, policies: Iterable[object], counts: LogCounts) -> JudgedQueries:
    """The queries to judge policies on.

    Args:
        queries: the ids of the queries; ``all``; or None to choose the queries that were held out by policies
            that were fitted to this log, and all queries if there are no such policies.
        policies: what is judged; only those that are a `Fit` matter here.
        counts: the counts of the log.
    """
    fits = [policy for policy in policies if isinstance(policy, Fit)]
    own = [fit for fit in fits if fit.log == counts.fingerprint]
    notes = [_note_on_another_log(fit) for fit in fits if fit not in own and _may_contain(counts, fit)]
    if queries == "all":
        return JudgedQueries(None, (*(_note_on_own_clicks(fit, "all queries") for fit in own), *notes))
    if queries is not None:
        ids = tuple(queries)
        seen = {fit: len(set(ids).intersection(fit.train_queries)) for fit in own}
        flattered = (_note_on_own_clicks(fit, f"{n:,} of the queries") for fit, n in seen.items() if n)
        return JudgedQueries(ids, (*flattered, *notes))
    if not own:
        return JudgedQueries(None, tuple(notes))
    held_out = set(own[0].held_out_queries).intersection(*(fit.held_out_queries for fit in own[1:]))
    if not held_out:
        raise DataError(
            "both policies were fitted to this log, and no query was held out by both: fit them with the "
            "same seed and the same share of held-out queries, or evaluate on another log"
        )
    names = " and ".join(dict.fromkeys(map(name_of, own)))
    note = f"Estimated on the {len(held_out):,} queries of this log that {names} was not fitted to."
    return JudgedQueries(tuple(sorted(held_out)), (note, *notes))


def name_of(fit: Fit) -> str:
    """What reports call a fit."""
    return fit.name or fit.model.fingerprint


def _note_on_own_clicks(fit: Fit, which: str) -> str:
    return (
        f"{name_of(fit)} was fitted to clicks on {which} of this evaluation, so its estimate is too high: "
        f"leave out the choice of queries to use those that it held out."
    )


def _note_on_another_log(fit: Fit) -> str:
    return (
        f"{name_of(fit)} was fitted to another log. If the impressions of that log are part of this one, its "
        f"estimate is too high."
    )


def _may_contain(counts: LogCounts, fit: Fit) -> bool:
    """Whether a log has as many impressions of every policy as the log that a policy was fitted to."""
    impressions = dict(zip(counts.policy_ids, counts.query_counts.sum(axis=1).tolist(), strict=True))
    return all(impressions.get(part.policy_id, 0) >= part.impressions for part in fit.policies)
