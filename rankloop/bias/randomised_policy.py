"""Estimate a bias from the displays of a policy that was declared randomised."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from rankloop.bias.bias_estimate import ASSUMPTIONS, CURVE, BiasEstimate, BiasOptions
from rankloop.bias.examination import check_by_harvest, estimate_curve, harvest, with_ranks_below
from rankloop.bias.moved_documents import estimate_from_movement
from rankloop.bias.movement import measure_movement
from rankloop.bias.resampling import bootstrap, few_clusters
from rankloop.errors import DataError
from rankloop.names import unknown
from rankloop.progress import Progress
from rankloop.statistics.counts import EXPLORES, Counts
from rankloop.statistics.tables import CellTable, Unit
from rankloop.types import BiasEvidence, ContextEffects, Lines

METHOD = "randomised"


def estimate_from_randomised(
    counts: Counts,
    policy: str,
    options: BiasOptions,
    rng: np.random.Generator,
    *,
    effects: ContextEffects | None = None,
    progress: Progress | None = None,
) -> BiasEstimate:
    """Estimate click bias from the clicks of a randomised policy.

        θ_k / θ_1 = (clicks per display at rank k) / (clicks per display at rank 1)

    Documents at all ranks of a query are equally relevant on average, so click rates by rank are compared
    within each query. If every impression fills all ranks, the result is exactly the ratio of click rates;
    otherwise, short lists do not distort it. If pairs, or documents, moved enough under this policy, α and β
    come from these, and the ratios check them. Otherwise β is 0, the ratios are α, and a note says so.

    Args:
        counts: the counts of the log.
        policy: the randomised policy.
        options: what is estimated.
        rng: random generator.
        effects: how much more users click in some contexts.
        progress: receives a task for each fit and for the resamples.

    Raises:
        RankloopError: the log has no such policy.
        DataError: the policy has too few clicks, or never changes its rankings.
    """
    if policy not in counts.policy_ids:
        raise unknown("policy", policy, counts.policy_ids)
    own = counts.of_policy(policy)
    varied = own.exploration()
    if varied is not None and varied < EXPLORES:
        raise DataError(
            f"policy {policy!r} was declared randomised, but it ranked {1.0 - varied:.0%} of the queries "
            "that came again in the same way each time; declare a policy that draws its rankings"
        )
    unit: Unit = "queries"
    by_query = CellTable.of(own, unit=unit, effects=effects)
    if len(by_query.position) == by_query.n_documents:
        # Each impression is a query of its own with one document: ranks are compared within documents.
        unit = "documents"
        by_query = CellTable.of(own, unit=unit, effects=effects)
    assumption = f"{ASSUMPTIONS[METHOD]} ({policy!r} was declared randomised)"
    try:
        if options.model == CURVE:
            raise DataError("a curve was asked for")
        movement = measure_movement(by_query)
    except DataError as error:
        try:
            return estimate_curve(
                by_query, options, rng, method=METHOD, assumption=assumption, progress=progress
            )
        except DataError as reason:
            raise DataError(
                f"policy {policy!r} has too few clicks at rank 1 or at other ranks: {error}; {reason}"
            ) from error
    shown = by_query.first_positions(movement.positions)
    notes = []
    if options.model == "affine":
        separated = _separate(own.of_ranks(shown.positions), options, rng, effects, progress)
        if separated is not None:
            if separated.method == "documents":
                notes.append("α and β come from documents that moved across queries under this policy.")
            known = separated.bias.evidence
            evidence = BiasEvidence(METHOD, None if known is None else known.resamples)
            seed = int(rng.integers(2**32)) if options.resamples else None
            found = replace(
                separated,
                method=METHOD,
                movement=movement,
                assumption=assumption,
                bias=replace(separated.bias, evidence=evidence),
                notes=tuple(dict.fromkeys([*notes, *separated.notes])),
                resample_seed=None,
            ).checked(check_by_harvest(separated.bias, shown, seed=seed, unit=unit))
            return with_ranks_below(found, by_query)
        notes.append(
            f"Trust bias (β) cannot be separated from examination: too few documents moved between ranks "
            f"under policy {policy!r}. The bias is position-based, with β = 0."
        )
    theta, resampled, zeros = harvest(shown), None, np.zeros(shown.positions)
    if options.resamples:
        drawn = bootstrap(harvest, shown, options.resamples, rng, progress)
        resampled = Lines(drawn, np.zeros_like(drawn))
        notes += few_clusters(shown)
    position_based = BiasEstimate.assemble(
        Lines(theta, zeros),
        resampled,
        movement,
        options,
        method=METHOD,
        notes=notes,
        assumption=assumption,
        model="position",
    )
    return with_ranks_below(position_based, by_query)


def _separate(
    own: Counts,
    options: BiasOptions,
    rng: np.random.Generator,
    effects: ContextEffects | None,
    progress: Progress | None,
) -> BiasEstimate | None:
    """α and β from documents that the policy moved, if they moved at every rank."""
    units: tuple[Unit, ...] = ("pairs", "documents")
    for unit in units:
        try:
            found = estimate_from_movement(
                CellTable.of(own, unit=unit, effects=effects), options, rng, method=unit, progress=progress
            )
        except DataError:
            continue
        if found.bias.positions == own.positions:
            return found
    return None
