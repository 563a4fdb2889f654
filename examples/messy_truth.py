"""Compare the results of an import, a bias estimate and an evaluation of a messy log with the truth.

    python -m examples.messy_truth shop log bias.json policy production

The first folder is the output of `examples.messy_log`. The other arguments are the results of
`rankloop import`, `rankloop bias` and `rankloop fit`, and the policy of the log to compare with, on held-out
queries.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq

import rankloop
from rankloop.bias import anchored, load_bias
from rankloop.cli import console
from rankloop.offline import Fit, Log, open_log
from rankloop.policies import expected_rank_weights
from rankloop.ragged import segment_index
from rankloop.rank_weights import dcg
from rankloop.reports.document import Document, Table
from rankloop.statistics import Counts
from rankloop.types import Bias, Float64


def true_users(shop: Path) -> Bias:
    """Read how users click; relevance is the grade divided by the highest grade."""
    return Bias(**json.loads((shop / "truth" / "users.json").read_text()))


def rescaled(relevance: Float64, users: Bias, anchor: Bias) -> Float64:
    """Convert relevance to the scale of an equivalent bias: ``α R + β = α' R' + β'`` at every rank."""
    result: Float64 = (users.alpha[0] * relevance + users.beta[0] - anchor.beta[0]) / anchor.alpha[0]
    return result


def true_relevance(shop: Path, counts: Counts) -> Float64:
    """Read the relevance of the documents of a log."""
    columns = pq.read_table(shop / "truth" / "relevance.parquet").to_pydict()
    pairs = zip(columns["query_id"], columns["doc_id"], strict=True)
    known = dict(zip(pairs, columns["relevance"], strict=True))
    queries = counts.query_ids[segment_index(counts.offsets)]
    return np.array([known[pair] for pair in zip(queries.tolist(), counts.doc_ids.tolist(), strict=True)])


def true_values(log: Log, counts: Counts, relevance: Float64, fit: Fit, against: str) -> tuple[float, float]:
    """Compute the DCG: of the new policy, as it is judged and sorted, and of the log's policy, drawn."""
    ranks = counts.positions
    # A sorted ranking is a drawn one whose scores are far apart.
    known = fit.judged_scores
    assert known is not None, "the fit is judged by folds, whose models rank the queries that they never saw"
    pairs = zip(known.query_ids.tolist(), known.doc_ids.tolist(), strict=True)
    of_folds = dict(zip(pairs, known.scores.tolist(), strict=True))
    queries = counts.query_ids[segment_index(counts.offsets)]
    by_model = np.array(
        [of_folds[pair] for pair in zip(queries.tolist(), counts.doc_ids.tolist(), strict=True)]
    )
    order = np.lexsort((-by_model, segment_index(counts.offsets)))
    far_apart = np.empty(len(order))
    far_apart[order] = -100.0 * (np.arange(len(order)) - counts.offsets[segment_index(counts.offsets)])
    table = pq.read_table(log.source("candidates"), filters=[("policy_id", "=", against)]).to_pydict()
    scores = dict(zip(zip(table["query_id"], table["doc_id"], strict=True), table["score"], strict=True))
    drawn = np.array([scores[pair] for pair in zip(queries.tolist(), counts.doc_ids.tolist(), strict=True)])
    times = np.where(np.isin(counts.query_ids, fit.held_out_queries), counts.impressions_by_query, 0)
    share = (times / times.sum())[segment_index(counts.offsets)]
    values = [expected_rank_weights(each, counts.offsets, dcg(ranks)) for each in (far_apart, drawn)]
    return float(share * relevance @ values[0]), float(share * relevance @ values[1])


def main(shop: Path, folder: Path, bias_file: Path, new: Path, against: str) -> None:
    """Print the truth next to the defects, the bias and the values that were found."""
    planted = json.loads((shop / "truth" / "planted.json").read_text())["problems"]
    problems = json.loads((folder / "import.json").read_text())["problems"]
    found = {problem["name"]: problem["count"] for problem in problems}
    rows = [
        [name, f"{planted.get(name, 0):,}", f"{found.get(name, 0):,}"]
        for name in sorted({**planted, **found})
    ]
    tables = [Table.build("Defects", ["", "planted", "found"], rows, brief=True)]

    bias, users = load_bias(bias_file), true_users(shop)
    truth = anchored(users)
    rows = [
        [str(rank + 1), *(f"{each:.3f}" for each in numbers)]
        for rank, numbers in enumerate(
            zip(truth.alpha, bias.alpha, truth.beta, bias.beta, strict=True)
        )
    ]  # fmt: skip
    head = ["rank", "true α", "estimated α", "true β", "estimated β"]
    tables.append(Table.build("How users click", head, rows, brief=True))

    log = open_log(folder)
    counts = log.count(bias.positions)
    fit = rankloop.load_fit(new)
    said = log.evaluate(fit, against, bias=bias)
    relevance = rescaled(true_relevance(shop, counts), users, truth)
    first, second = true_values(log, counts, relevance, fit, against)
    rows = [
        [name, f"{true:.3f}", f"{interval.value:.3f}", f"{interval.low:.3f} to {interval.high:.3f}"]
        for name, true, interval in (
            (new.name, first, said.new.estimate),
            (against, second, said.against.estimate),
            ("difference", first - second, said.difference.estimate),
        )
    ]
    head = ["", "true", "estimate", "90% interval"]
    tables.append(Table.build(f"{said.metric} per query", head, rows, brief=True))
    console.print_document(Document("messy log", "Messy log", tuple(tables)))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m examples.messy_truth", description=main.__doc__)
    parser.add_argument("shop", type=Path, help="the folder that examples.messy_log wrote")
    parser.add_argument("folder", type=Path, help="the imported log")
    parser.add_argument("bias_file", type=Path, help="the estimated bias")
    parser.add_argument("new", type=Path, help="the fitted policy")
    parser.add_argument("against", help="the policy of the log to compare with")
    main(**vars(parser.parse_args()))
