"""What a log can be used for: to estimate a bias, to fit a ranker, to evaluate a ranker."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Literal

from rankloop.logs.document_movement import DocumentMovement

Answer = Literal["yes", "partly", "no"]
# About as many clicks on documents that moved are needed to compare one rank with the first.
CLICKS_PER_RANK = 100
# Fewer queries do not tell how much queries differ.
FEW_QUERIES = 30
NO_POLICIES: Mapping[str, int] = MappingProxyType({})
# With fewer queries, no bias is estimated from features.
QUERIES_FOR_FEATURES = 500
# The curve to assume where nothing can be estimated: rank k is examined 1/k times as often as rank 1.
CURVE = "position@10(eta=1)"


@dataclass(frozen=True)
class LogUse:
    """Whether a log can be used for one thing.

    Attributes:
        what: ``bias``, ``fit`` or ``evaluate``.
        answer: ``yes``, ``partly`` or ``no``.
        text: why, in a sentence.
    """

    what: str
    answer: Answer
    text: str


@dataclass(frozen=True)
class LogVerdict:
    """What a log can be used for, and the next step.

    Attributes:
        summary: the verdict in one sentence.
        uses: bias, fit and evaluate.
        bias_method: where a bias can come from: a policy that is ``randomised``, ``pairs`` that moved,
            ``documents`` that moved, ``features``, or ``assumed``.
        next_step: what to do next, in a sentence.
        command: the command to run; None if the log must be logged or imported again first.
    """

    summary: str
    uses: tuple[LogUse, ...]
    bias_method: str
    next_step: str
    command: str | None


def judge_log(
    *,
    folder: str,
    movement: DocumentMovement,
    clicks: int,
    queries: int,
    explores: bool,
    features: tuple[bool, int | None],
    randomised: Mapping[str, int] = NO_POLICIES,
    blocking: tuple[str, ...] = (),
) -> LogVerdict:
    """Decide what a log can be used for, from what is known of it.

    Args:
        folder: the log, as commands name it.
        movement: how much documents moved.
        clicks: the number of clicks.
        queries: the number of queries.
        explores: whether any repeated query had more than one ranking; if no query came again, whether any
            document was shown at several ranks.
        features: whether the log has features that can be used, and how many documents have none.
        randomised: the policies that were declared to rank at random, with their clicks at rank 1.
        blocking: sentences that say why nothing can be learned before they are dealt with.
    """
    method = "assumed"
    if randomised:
        method = "randomised"
    elif movement.pair_clicks >= CLICKS_PER_RANK:
        method = "pairs"
    elif movement.document_clicks >= CLICKS_PER_RANK:
        method = "documents"
    elif features[0] and queries >= QUERIES_FOR_FEATURES and clicks >= CLICKS_PER_RANK * movement.ranks:
        method = "features"
    on_bias = _use_for_bias(movement, method, randomised)
    enough = CLICKS_PER_RANK * (movement.ranks - 1)
    sure = on_bias.answer == "yes" or (method == "documents" and movement.document_clicks >= enough)
    uses = (
        on_bias,
        _use_for_fit(features, clicks, queries),
        _use_for_evaluation(method, explores, queries, sure=sure),
    )
    if blocking:
        stuck = tuple(replace(use, answer="no", text=blocking[0]) for use in uses)
        return LogVerdict(
            "Nothing should be learned from this log as it is.", stuck, method,
            f"First: {blocking[0]}", None,
        )  # fmt: skip
    able = {use.what: use.answer for use in uses}
    summary = _summary(able)
    if able["fit"] == "no" and not features[0] and method != "assumed":
        return LogVerdict(
            summary, uses, method,
            "Estimate how users click; then `rankloop relevance` gives the relevance of every document, "
            "without features. To fit a ranker, import the log again with a table of features.",
            f"rankloop bias {folder} -o bias.json --report bias.html",
        )  # fmt: skip
    if able["fit"] == "no" and not features[0]:
        return LogVerdict(
            summary, uses, method,
            "Assume a curve of position bias, and see what relevance follows from it; to fit a ranker, "
            "import the log again with a table of features.",
            f"rankloop relevance {folder} --bias '{CURVE}'",
        )  # fmt: skip
    if method == "assumed":
        return LogVerdict(
            summary, uses, method,
            "Assume a curve of position bias, and see how the result depends on it; better, vary rankings at "
            "random for a share of the traffic.",
            f"rankloop fit {folder} --bias '{CURVE}' -o policy",
        )  # fmt: skip
    return LogVerdict(
        summary, uses, method,
        "Estimate how users click; then fit a ranker and evaluate it.",
        f"rankloop bias {folder} -o bias.json --report bias.html",
    )  # fmt: skip


def _summary(able: dict[str, Answer]) -> str:
    words = {"bias": "how users click", "fit": "a ranker", "evaluate": "what a ranker is worth"}
    groups = {
        answer: _listed([words[what] for what, given in able.items() if given == answer], joint)
        for answer, joint in (("yes", "and"), ("partly", "and"), ("no", "or"))
    }
    parts = [
        sentence.format(groups[answer])
        for answer, sentence in (
            ("yes", "can teach {}"), ("partly", "can teach {} only in part"), ("no", "cannot teach {}"),
        )
        if groups[answer]
    ]  # fmt: skip
    return f"This log {'; it '.join(parts)}."


def _listed(names: list[str], joint: str) -> str:
    """Names in a sentence.

    >>> _listed(["a", "b", "c"], "and")
    'a, b and c'
    """
    *first, last = names or [""]
    return f"{', '.join(first)} {joint} {last}" if first else last


def _use_for_bias(movement: DocumentMovement, method: str, randomised: Mapping[str, int]) -> LogUse:
    if method == "randomised":
        # A query that came once compares two ranks half as well as its clicks alone suggest.
        enough = sum(randomised.values()) >= 2 * CLICKS_PER_RANK
        return LogUse(
            "bias", "yes" if enough else "partly",
            f"{' and '.join(map(repr, randomised))} was declared randomised: position bias follows from its "
            + ("click rates." if enough else
               f"click rates, but {sum(randomised.values()):,} clicks at rank 1 are few."),
        )  # fmt: skip
    if method == "pairs":
        enough = movement.pair_clicks >= CLICKS_PER_RANK * (movement.ranks - 1)
        where = "" if enough else ", though perhaps not for all ranks"
        return LogUse(
            "bias", "yes" if enough else "partly",
            f"{movement.pairs_moved:,} of {movement.pairs:,} documents of queries were shown at several "
            f"ranks, with about {movement.pair_clicks:,} clicks that compare ranks: position bias can be "
            f"estimated from them{where}.",
        )  # fmt: skip
    few = (
        f"Only about {movement.pair_clicks:,} clicks compare ranks within a document of a query"
        if movement.pair_clicks
        else "No click compares ranks within a document of a query"
    )
    if method == "documents":
        return LogUse(
            "bias", "partly",
            f"{few}, but {movement.documents_moved:,} of {movement.documents:,} documents moved across "
            f"queries (about {movement.document_clicks:,} clicks): position bias can be estimated if a "
            f"document is about as relevant to each query that shows it.",
        )  # fmt: skip
    if method == "features":
        return LogUse(
            "bias", "partly",
            f"{few}, and about {movement.document_clicks:,} across queries, but there are features: position "
            f"bias can be estimated if documents with the same features are equally relevant on average at "
            f"every rank. The estimate checks this as far as it can.",
        )  # fmt: skip
    return LogUse(
        "bias", "no",
        f"{few}, and about {movement.document_clicks:,} across queries; some {CLICKS_PER_RANK} per rank are "
        f"needed: position bias must be assumed, as a curve by name, or come from a policy that is known to "
        f"rank at random.",
    )  # fmt: skip


def _use_for_fit(features: tuple[bool, int | None], clicks: int, queries: int) -> LogUse:
    usable, without = features
    if not usable:
        return LogUse(
            "fit", "no",
            "There are no features that can be used: import the log with --features TABLE (query_id, doc_id "
            "and features, or doc_id and features), or with --feature-columns auto if it has them.",
        )  # fmt: skip
    if queries == 1:
        return LogUse("fit", "no", "One query is not enough to learn from: some have to be held out.")
    if not clicks or not queries:
        return LogUse("fit", "no", f"{clicks:,} clicks on {queries:,} queries are too few.")
    if without:
        return LogUse(
            "fit", "partly", f"{without:,} documents have no features and will be left out."
        )  # fmt: skip
    if queries < FEW_QUERIES:
        return LogUse("fit", "partly", f"{queries:,} queries are few to learn from.")
    return LogUse("fit", "yes", f"There are features, and {clicks:,} clicks on {queries:,} queries.")


def _use_for_evaluation(method: str, explores: bool, queries: int, *, sure: bool) -> LogUse:
    """Whether policies can be compared; ``sure`` if clicks suffice to estimate the bias."""
    if not explores:
        return LogUse(
            "evaluate", "partly",
            "No query ever had another ranking: a policy can lean better or worse, but no firm verdict is "
            "possible before some traffic is explored.",
        )  # fmt: skip
    if method == "assumed":
        return LogUse(
            "evaluate", "partly",
            "The position bias would be assumed, so that a policy can lean better or worse, but no firm "
            "verdict is possible.",
        )  # fmt: skip
    if queries < FEW_QUERIES:
        few = "One query does not" if queries == 1 else f"{queries:,} queries are too few to"
        return LogUse("evaluate", "partly", f"{few} tell how much queries differ.")
    if not sure:
        return LogUse(
            "evaluate", "partly",
            "Rankings vary; a verdict is as good as the estimate of how users click, which may fail.",
        )  # fmt: skip
    return LogUse("evaluate", "yes", "Rankings vary, and position bias can be estimated.")
