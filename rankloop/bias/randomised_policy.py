"""Estimate a bias from the displays of a policy that was declared randomised."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from rankloop.bias.anchor import Anchor, Lines, as_bias
from rankloop.bias.bias_estimate import ASSUMPTIONS, BiasEstimate
from rankloop.bias.bias_options import BiasOptions
from rankloop.bias.bootstrap import bootstrap, few_clusters, percentile_interval
from rankloop.bias.harvesting import harvest
from rankloop.bias.moved_items import estimate_from_items
from rankloop.bias.movement import measure_movement
from rankloop.bias.rank_counts import RankCounts, Unit
from rankloop.errors import DataError
from rankloop.logs import LogCounts
from rankloop.names import unknown
from rankloop.progress import Progress
from rankloop.types import BiasEvidence

METHOD = "randomised"


def counts_of_policy(counts: LogCounts, policy: str) -> LogCounts:
    """The counts of one policy of a log.

    Raises:
        RankloopError: the log has no such policy.
    """
    if policy not in counts.policy_ids:
        raise unknown("policy", policy, counts.policy_ids)
    number = counts.policy_ids.index(policy)
    cells = counts.cells.select(counts.cells.policy == number)
    own = np.arange(len(counts.policy_ids)) == number
    rows = int(cells.displays.sum())
    return replace(
        counts, query_counts=np.where(own[:, None], counts.query_counts, 0), cells=cells, rows=rows
    )


def estimate_from_randomised(
    counts: LogCounts,
    policy: str,
    options: BiasOptions,
    rng: np.random.Generator,
    *,
    progress: Progress | None = None,
) -> BiasEstimate:
    """Estimate click bias from the clicks of a randomised policy.

        θ_k / θ_1 = (clicks per display at rank k) / (clicks per display at rank 1)

    Documents at all ranks of a query are equally relevant on average, so click rates by rank are compared
    within each query. If every impression fills all ranks, the result is exactly the ratio of click rates;
    otherwise, short lists do not distort it. α and β are separated if pairs, or documents, moved enough under
    this policy. Otherwise β is 0 and a note says so.

    Args:
        counts: the counts of the log.
        policy: the randomised policy.
        options: what is estimated.
        rng: random generator.
        progress: receives a task for each fit and for the resamples.

    Raises:
        RankloopError: the log has no such policy.
        DataError: the policy has too few clicks.
    """
    own = counts_of_policy(counts, policy)
    by_query = RankCounts.of(own, unit="queries")
    try:
        movement = measure_movement(by_query)
    except DataError as error:
        raise DataError(
            f"policy {policy!r} has too few clicks at rank 1 or at other ranks: {error}"
        ) from error
    shown = by_query.first_ranks(movement.ranks)
    theta = harvest(shown)
    assumption = f"{ASSUMPTIONS[METHOD]} ({policy!r} was declared randomised)"
    notes = []
    if movement.missing_ranks is not None:
        notes.append(f"No estimate below rank {shown.ranks}: {movement.missing_ranks}.")
    separated = None
    if options.model == "affine":
        separated = _separate(own.of_ranks(shown.ranks), options, rng, progress)
        if separated is None:
            notes.append(
                f"Trust bias (β) cannot be separated from examination: too few documents moved between ranks "
                f"under policy {policy!r}. The bias is position-based, with β = 0."
            )
    resampled, interval = None, None
    if options.resamples:
        resampled = bootstrap(harvest, shown, options.resamples, rng, progress)
        interval = percentile_interval(resampled, options.confidence)
        notes += few_clusters(shown)
    if separated is not None:
        return _with_examination(separated, theta, resampled, assumption=assumption, notes=notes)
    zeros = np.zeros(shown.ranks)
    clipped = np.clip(theta, 0.0, 1.0)
    if (theta > 1.0).any():
        ranks = ", ".join(str(rank) for rank in np.flatnonzero(theta > 1.0) + 1)
        notes.append(f"Rank {ranks} is clicked more often than rank 1; α is 1 there.")
    evidence = None
    if resampled is not None:
        evidence = np.stack([np.clip(resampled, 0.0, 1.0), np.zeros_like(resampled), resampled], axis=1)
    return BiasEstimate(
        method=METHOD,
        assumption=assumption,
        model="position",
        bias=as_bias(Lines(clipped, zeros), theta, BiasEvidence(METHOD, evidence)),
        anchor=Anchor(1, shown.ranks),
        alpha=interval,
        beta=None if interval is None else type(interval)(zeros, zeros),
        examination=interval,
        confidence=options.confidence,
        resamples=options.resamples,
        movement=movement,
        comparison=None,
        harvested=theta,
        notes=tuple(notes),
    )


def _separate(
    own: LogCounts, options: BiasOptions, rng: np.random.Generator, progress: Progress | None
) -> BiasEstimate | None:
    """α and β from items that the policy moved, if they moved at every rank."""
    units: tuple[Unit, ...] = ("pairs", "documents")
    for unit in units:
        try:
            found = estimate_from_items(
                RankCounts.of(own, unit=unit), options, rng, method=unit, progress=progress
            )
        except DataError:
            continue
        if found.bias.ranks == own.ranks:
            return found
    return None


def _with_examination(
    found: BiasEstimate,
    theta: np.ndarray[tuple[int, ...], np.dtype[np.float64]],
    resampled: np.ndarray[tuple[int, ...], np.dtype[np.float64]] | None,
    *,
    assumption: str,
    notes: list[str],
) -> BiasEstimate:
    """An estimate of α and β, with the examination that the click rates of the randomised policy give."""
    evidence, interval = None, None
    known = found.bias.evidence
    if resampled is not None and known is not None and known.resamples is not None:
        evidence = np.concatenate([known.resamples[:, :2], resampled[:, None]], axis=1)
        interval = percentile_interval(resampled, found.confidence)
    if found.method == "documents":
        notes = [*notes, "α and β come from documents that moved across queries under this policy."]
    return replace(
        found,
        method=METHOD,
        assumption=assumption,
        bias=replace(found.bias, examination=theta, evidence=BiasEvidence(METHOD, evidence)),
        examination=interval,
        notes=tuple(dict.fromkeys([*notes, *found.notes])),
    )
