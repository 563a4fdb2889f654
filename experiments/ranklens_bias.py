"""The bias of RankLens, Metarank's published log, from documents that moved across impressions.

    python -m experiments.ranklens_bias events.jsonl.gz [ranks] [resamples]

RankLens is a log of recommendations: it has no queries, so every ranking is a query of its own and no pair of
query and document was shown twice. docs/results/bias.md shows the result.
"""

from __future__ import annotations

import gzip
import json
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np

from rankloop.bias import BiasOptions, estimate_bias
from rankloop.ragged import offsets_of
from rankloop.statistics import Counts


def read_counts(path: Path, ranks: int) -> Counts:
    """The counts of the log, with one query per ranking."""
    lists: dict[str, list[str]] = {}
    clicked: set[tuple[str, str]] = set()
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        for line in lines:
            event = json.loads(line)
            if event["event"] == "ranking":
                lists[event["id"]] = [document["id"] for document in event["documents"]][:ranks]
            elif event["event"] == "impression":
                clicked.add((event["ranking"], event["document"]))
    sizes = np.array([len(documents) for documents in lists.values()])
    documents = np.array([name for names in lists.values() for name in names])
    clicks = np.array([(ranking, name) in clicked for ranking, names in lists.items() for name in names])
    offsets = offsets_of(sizes)
    displays = np.zeros((len(documents), ranks), np.int64)
    displays[np.arange(len(documents)), np.arange(len(documents)) - np.repeat(offsets[:-1], sizes)] = 1
    part = np.ones(len(lists), np.int64), displays, displays * clicks[:, None]
    return replace(Counts.of_arrays(offsets, {"logged": part}), doc_ids=documents)


def main(path: Path, ranks: int = 24, resamples: int = 100) -> None:
    """Print the method, the notes, and the curve."""
    counts = read_counts(path, ranks)
    found = estimate_bias(counts, BiasOptions(resamples=resamples), rng=np.random.default_rng(0))
    print(f"{found.headline}\n{found.method}: {found.assumption}")
    for note in found.notes:
        print(f"note: {note}")
    if found.comparison is not None:
        print(found.comparison.conclusion)
    assert found.alpha is not None
    assert found.beta is not None
    assert found.examination is not None
    assert found.check is not None
    rates = found.movement.rates
    share = "90 % interval"
    print(f"| rank | click rate | α | {share} | β | {share} | examination | {share} | harvested | expected |")
    print("|---|---|---|---|---|---|---|---|---|---|")
    for k in range(found.bias.positions):
        cells = [f"{k + 1}", f"{rates[k]:.3f}"]
        for name in ("alpha", "beta", "examination"):
            ends = getattr(found, name)
            cells += [f"{getattr(found.bias, name)[k]:.3f}", f"{ends.low[k]:.3f} to {ends.high[k]:.3f}"]
        cells += [f"{found.check.harvested[k]:.3f}", f"{found.check.expected[k]:.3f}"]
        print(f"| {' | '.join(cells)} |")


if __name__ == "__main__":
    main(Path(sys.argv[1]), *(int(number) for number in sys.argv[2:]))
