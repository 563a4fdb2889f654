"""How much more users click in some contexts: lists of other lengths, or values of a column of the log.

    P(C | d, k, context c) = λ_ck (α_k R_d + β_k)

The same document at the same position is clicked λ times as often, so that λ does not depend on relevance, α
or β: of the clicks of a document at a position, those in context c are a share ``n_dkc λ_c / Σ_j n_dkj λ_j``.
The likelihood of these shares has its maximum where, for every context,

    λ_c = Σ_dk C_dkc / Σ_dk n_dkc μ_dk        μ_dk = C_dk / Σ_j n_dkj λ_j

which is solved by repeating it. Displays then count λ times (`rankloop.statistics.Counts.weights`), and α and
β are estimated, and used, as if there were no contexts.

The length of a list has one λ for all positions: longer lists divide clicks among more documents. Values of a
column have a λ of their own at each position, so that each has its own curve.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import sparse

from rankloop.errors import DataError
from rankloop.statistics import Counts
from rankloop.statistics.intervals import CONFIDENCE, normal_quantile
from rankloop.statistics.tables import document_groups
from rankloop.types import LIST_LENGTH, OTHER, ContextEffects, Float64, Int64

# A context has an effect of its own if documents that other contexts show at the same position have as many
# clicks in it: the relative error of λ is then about 10 %.
LEAST_CLICKS = 100.0
# Effects of more contexts say little more.
MOST_LENGTHS, MOST_VALUES = 12, 6
# Positions below share the effects of the last one: few users look there.
MOST_RANKS = 10
MAX_ITERATIONS, TOLERANCE = 500, 1e-9


def estimate_effects(counts: Counts, *, confidence: float = CONFIDENCE) -> ContextEffects:
    """Estimate how much more users click in each context that a log was counted by.

    Args:
        counts: the counts of the log, by context.
        confidence: confidence level of the intervals.

    Raises:
        DataError: no document was shown at one position in several contexts often enough.

    Example:
        Documents in lists of two are clicked twice as often as in lists of four, wherever they stand.

        >>> from rankloop.statistics.counts import Cells
        >>> cells = Cells(*np.zeros((2, 4), np.int32), np.array([0, 0, 1, 1]), np.full(4, 1000),
        ...               np.array([400, 200, 200, 100]), np.array([0, 1, 0, 1]))
        >>> counts = Counts(np.array([0, 1]), ("a",), np.array([[4000]]), cells, 2,
        ...                 context_of="list length", contexts=("2", "4"))
        >>> estimate_effects(counts).factors.round(3)
        array([[1.333, 1.333],
               [0.667, 0.667]])
    """
    if counts.cells.context is None or counts.context_of is None:
        raise DataError("the log was not counted by context")
    table = _Table.of(counts, "pairs")
    if table.shared_clicks(table.context).sum() < 2 * LEAST_CLICKS:
        # In logs of recommendations, hardly any query comes twice.
        table = _Table.of(counts, "documents")
    if counts.context_of == LIST_LENGTH:
        return _of_lengths(counts, table, confidence)
    return _of_values(counts, table, confidence)


def period_levels(periods: Sequence[Counts]) -> Float64:
    """How much more users click in each period: λ by the same documents at the same positions, of mean 1.

    If demand rises, α and β rise together, as in a context; a log of periods with one bias for all would take
    that for relevance, most of all at ranks with much trust bias. Periods that can hardly be compared have 1.

    Args:
        periods: the counts of each, with the same queries, documents and ranks.

    Example:
        >>> def shown_a_thousand_times(clicks):
        ...     shown = np.array([[1000]])
        ...     return Counts.of_arrays(np.array([0, 1]), {"a": (shown[0], shown, np.array([[clicks]]))})
        >>> period_levels([shown_a_thousand_times(200), shown_a_thousand_times(300)])
        array([0.8, 1.2])
    """
    positions = periods[0].positions
    document, position, displays, clicks = (
        np.concatenate([getattr(part.cells, name) for part in periods]).astype(np.int64)
        for name in ("document", "position", "displays", "clicks")
    )
    period = np.repeat(np.arange(len(periods)), [len(part.cells.document) for part in periods])
    group = np.unique(document * positions + position, return_inverse=True)[1].astype(np.int64)
    table = _Table(
        group, document, position, period, displays.astype(float), clicks.astype(float), len(periods)
    )
    levels = np.ones(len(periods))
    shared = np.pad(table.shared_clicks(period), (0, len(periods)))[: len(periods)]
    known = shared >= LEAST_CLICKS
    if known.sum() < 2:
        return levels
    logs, _ = table.fit(period)
    shown = np.bincount(period, displays, len(periods))[known]
    factors = np.exp(logs)[: len(periods)][known[: len(logs)]]
    levels[known] = factors * shown.sum() / float(shown @ factors)
    return levels


@dataclass(frozen=True, eq=False)
class _Table:
    """Displays and clicks by document, position and context: arrays of cells.

    Attributes:
        group: the number of the document at its position.
        unit: the number of the document.
        position: from 0.
        context: the number of the context.
        displays: n_dkc.
        clicks: C_dkc.
        contexts: how many there are.
    """

    group: Int64
    unit: Int64
    position: Int64
    context: Int64
    displays: Float64
    clicks: Float64
    contexts: int

    @classmethod
    def of(cls, counts: Counts, unit: str) -> _Table:
        cells, contexts = counts.cells, len(counts.contexts)
        assert cells.context is not None
        document = document_groups(counts, unit)[cells.document]  # type: ignore[arg-type]  # a unit
        place = document.astype(np.int64) * counts.positions + cells.position
        key = place * contexts + cells.context
        keys, where = np.unique(key, return_inverse=True)
        places = keys // contexts
        groups = np.unique(places, return_inverse=True)[1].astype(np.int64)
        displays, clicks = (
            np.bincount(where, part, len(keys)).astype(np.float64) for part in (cells.displays, cells.clicks)
        )
        unit_of, position = places // counts.positions, places % counts.positions
        return cls(groups, unit_of, position, keys % contexts, displays, clicks, contexts)

    def shared_clicks(self, effect: Int64) -> Float64:
        """The clicks of each effect on documents at positions that others show, too."""
        effects = int(effect.max(initial=0)) + 1
        pairs = np.unique(self.group * effects + effect) // effects
        shared = (np.bincount(pairs, minlength=int(self.group.max(initial=-1)) + 1) > 1)[self.group]
        return np.bincount(effect, self.clicks * shared, effects).astype(np.float64)

    def fit(self, effect: Int64) -> tuple[Float64, Float64]:
        """Log λ of every effect, up to constants, and the covariance of their estimates, by document."""
        effects = int(effect.max(initial=0)) + 1
        groups = int(self.group.max()) + 1
        clicks = np.bincount(self.group, self.clicks, groups).astype(np.float64)
        clicked = np.bincount(effect, self.clicks, effects)
        factors = np.ones(effects)
        for _ in range(MAX_ITERATIONS):
            expected = self._expected(factors[effect], clicks)
            step = np.bincount(effect, expected, effects)
            change = np.divide(clicked, step, out=np.ones(effects), where=(step > 0.0) & (clicked > 0.0))
            factors *= change
            if np.abs(change - 1.0).max() < TOLERANCE:
                break
        expected = self._expected(factors[effect], clicks)
        share = np.sqrt(np.maximum(clicks, 1.0))
        by_group = sparse.csr_matrix((expected / share[self.group], (self.group, effect)), (groups, effects))
        size = np.bincount(effect, expected, effects)
        information = np.diag(size) - (by_group.T @ by_group).toarray()
        surprise = sparse.csr_matrix(
            (self.clicks - expected, (self.unit, effect)), (int(self.unit.max()) + 1, effects)
        )
        inverse = np.linalg.pinv(information, rcond=1e-9, hermitian=True)
        covariance = inverse @ (surprise.T @ surprise).toarray() @ inverse
        return np.log(factors), covariance

    def _expected(self, weight: Float64, clicks: Float64) -> Float64:
        weighted = self.displays * weight
        scale = np.bincount(self.group, weighted, len(clicks))
        result: Float64 = weighted * (clicks / np.maximum(scale, 1e-300))[self.group]
        return result


def _of_lengths(counts: Counts, table: _Table, confidence: float) -> ContextEffects:
    """One effect per length of the list; neighbouring lengths with few clicks have one together."""
    lengths = np.array([int(name) for name in counts.contexts])
    order = np.argsort(lengths)
    rank = np.empty(len(order), np.int64)
    rank[order] = np.arange(len(order))
    starts = list(range(len(lengths)))
    context = rank[table.context]
    while True:
        group = np.searchsorted(starts, np.arange(len(lengths)), side="right") - 1
        effect = group[context]
        clicks = table.shared_clicks(effect)
        if len(starts) < 2:
            raise _too_few(counts)
        weakest = int(np.argmin(clicks))
        if clicks[weakest] >= LEAST_CLICKS and len(starts) <= MOST_LENGTHS:
            break
        # With the neighbour that has fewer clicks.
        beside = [place for place in (weakest - 1, weakest + 1) if 0 <= place < len(starts)]
        other = min(beside, key=lambda place: clicks[place])
        del starts[max(weakest, other)]
    names = tuple(str(lengths[order[start]]) for start in starts)
    logs, covariance = table.fit(effect)
    place = np.arange(len(names))[:, None].repeat(counts.positions, axis=1)
    shown = np.bincount(effect, table.displays, len(names)).astype(np.float64)
    return _effects(counts, names, place, logs, covariance, [shown], confidence)


def _of_values(counts: Counts, table: _Table, confidence: float) -> ContextEffects:
    """One effect per value and position; values and positions with few clicks share one."""
    clicks = np.bincount(table.context, table.clicks, table.contexts)
    frequent = [place for place in np.argsort(-clicks, kind="stable") if counts.contexts[place] != OTHER]
    own = sorted(frequent[:MOST_VALUES])
    while True:
        names = (*(counts.contexts[place] for place in own), OTHER)
        value = np.full(table.contexts, len(own), np.int64)
        value[own] = np.arange(len(own))
        shared = table.shared_clicks(value[table.context])[: len(own)]
        if not len(own) or len(shared) < len(own):
            raise _too_few(counts)
        if shared.min() >= LEAST_CLICKS:
            break
        del own[int(np.argmin(shared))]
    if len(own) < 2 and not (value[table.context] == len(own)).any():
        raise _too_few(counts)
    depth = _depth(table, value, len(names), min(MOST_RANKS, counts.positions))
    rank = np.minimum(table.position, depth - 1)
    effect = value[table.context] * depth + rank
    logs, covariance = table.fit(effect)
    logs = np.pad(logs, (0, len(names) * depth - len(logs)))
    missing = len(logs) - len(covariance)
    covariance = np.pad(covariance, ((0, missing), (0, missing)))
    displays = np.bincount(effect, table.displays, len(names) * depth)
    # A value that was never shown is like the mean of the others.
    place = np.arange(len(names))[:, None] * depth + np.minimum(np.arange(counts.positions), depth - 1)
    blocks = [np.where(np.arange(len(logs)) % depth == k, displays, 0.0) for k in range(depth)]
    return _effects(counts, names, place, logs, covariance, blocks, confidence)


def _depth(table: _Table, value: Int64, values: int, most: int) -> int:
    """How many positions have effects of their own: those at which every value has enough clicks."""
    for depth in range(most, 1, -1):
        rank = np.minimum(table.position, depth - 1)
        shared = table.shared_clicks(value[table.context] * depth + rank)
        known = np.bincount(value[table.context], table.displays, values) > 0
        own = np.pad(shared, (0, values * depth - len(shared))).reshape(values, depth)[known]
        if own.min() >= LEAST_CLICKS:
            return depth
    return 1


def _effects(
    counts: Counts,
    names: tuple[str, ...],
    place: Int64,
    logs: Float64,
    covariance: Float64,
    blocks: list[Float64],
    confidence: float,
) -> ContextEffects:
    """Effects relative to the mean of the displays of each block.

    Args:
        counts: the counts of the log.
        names: contexts.
        place: contexts × ranks; the number of the effect.
        logs: effects; log λ, up to a constant per block.
        covariance: effects × effects.
        blocks: for each block of effects that are compared with each other, the displays of all effects.
        confidence: confidence level of the intervals.
    """
    centred, project = logs.copy(), np.eye(len(logs))
    for displays in blocks:
        inside = displays > 0.0
        share = displays / displays.sum()
        mean = float(share @ np.exp(logs))
        centred[inside] -= np.log(mean)
        project[inside] -= share * np.exp(logs) / mean
    seen = np.add.reduce(blocks) > 0.0
    centred[~seen] = 0.0
    errors = np.sqrt(np.maximum(np.diag(project @ covariance @ project.T), 0.0))
    errors[~seen] = 0.0
    half = normal_quantile(confidence) * errors
    factors, low, high = (np.exp(centred + sign * half)[place] for sign in (0.0, -1.0, 1.0))
    assert counts.context_of is not None
    return ContextEffects(counts.context_of, names, factors, low, high)


def _too_few(counts: Counts) -> DataError:
    return DataError(
        f"effects of {counts.context_of} cannot be estimated: too few clicks on documents that were shown at "
        f"the same position in several of its contexts ({LEAST_CLICKS:.0f} are needed in each of two)"
    )
