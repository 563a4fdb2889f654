"""RankLens, Metarank's published log: `rankloop fit` and LightGBM's lambdarank on fresh divisions.

    python -m experiments.ranklens_table run EVENTS FIRST LAST FILE  # divisions FIRST to LAST, one line each
    python -m experiments.ranklens_table show FILE                   # means, with 90 % intervals

Each division takes a fifth of the 9,800 lists, at random, as a test. The others are a log of their own:
`rankloop fit` estimates the bias of users from it, and both methods hold out a fifth of it to stop on. The
trees are the same: at most 500, of 31 leaves, at rate 0.05. NDCG@10 is that of the clicks on the test lists,
sorted by score; documents without features are last. Intervals are those of the mean over divisions, which
share their lists, with the standard error of a mean of overlapping tests (Nadeau and Bengio, 2003). Lines
that are in the file already are not run again.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import lightgbm
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from experiments.rows import read_rows
from rankloop import import_metarank, open_log
from rankloop.bias import BiasOptions
from rankloop.models.lightgbm import DEFAULTS
from rankloop.models.specs import LightGBMSpec
from rankloop.statistics.intervals import student_quantile
from rankloop.types import Float64

TEST, HELD_OUT, DEPTH = 0.2, 0.2, 10
TREES = LightGBMSpec()
LAMBDARANK = {
    **DEFAULTS,
    # LightGBM's own default; ours is for curvatures of another size.
    "min_sum_hessian_in_leaf": 1e-3,
    "objective": "lambdarank",
    "metric": "ndcg",
    "eval_at": [DEPTH],
}


class Lists:
    """The lists of a log: one row per document shown, ordered by list and position.

    Args:
        folder: the log; every list is a query of its own.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        shown = pq.read_table(folder / "impressions.parquet").sort_by(
            [("query_id", "ascending"), ("position", "ascending")]
        )
        codes = shown["query_id"].combine_chunks().dictionary_encode()
        self.names: list[str] = codes.dictionary.to_pylist()
        self.list = codes.indices.to_numpy()
        self.clicked = shown["clicked"].to_numpy()
        self.position = shown["position"].to_numpy()
        features = pq.read_table(folder / "features.parquet")
        columns = [name for name in features.column_names if name not in ("query_id", "doc_id")]
        values = np.stack([features[name].to_numpy() for name in columns], axis=1)
        # A line feed is in no id.
        keys, wanted = (
            pc.binary_join_element_wise(table["query_id"], table["doc_id"], "\n").combine_chunks()
            for table in (features, shown)
        )
        places = pc.index_in(wanted, value_set=keys)
        self.known = places.is_valid().to_numpy(zero_copy_only=False)
        self.features = np.full((len(shown), len(columns)), np.nan, np.float32)
        self.features[self.known] = values[places.drop_null().to_numpy()]

    def ndcg(self, scores: Float64, lists: Any) -> float:
        """The mean NDCG of the clicks on some lists, sorted by score; lists without clicks do not count."""
        rows = np.flatnonzero(np.isin(self.list, lists))
        scores = np.where(self.known, scores, -np.inf)
        ideal, own = (
            self._dcg(rows[np.lexsort((-key[rows], self.list[rows]))])
            for key in (self.clicked.astype(np.float64), scores)
        )
        clicked = ideal > 0
        return float((own[clicked] / ideal[clicked]).mean())

    def _dcg(self, rows: Any) -> Float64:
        """DCG by list of rows in the order in which they are shown."""
        starts = np.flatnonzero(np.diff(self.list[rows], prepend=-1))
        rank = np.arange(len(rows)) - np.repeat(starts, np.diff(np.append(starts, len(rows))))
        gain = np.where(rank < DEPTH, self.clicked[rows] / np.log2(rank + 2.0), 0.0)
        return np.bincount(self.list[rows], gain, minlength=len(self.names))

    def part(self, lists: Any, out: Path) -> Path:
        """Write the log of some lists."""
        out.mkdir()
        names = pa.array([self.names[number] for number in lists])
        for table in ("impressions.parquet", "features.parquet"):
            rows = pq.read_table(self.folder / table)
            pq.write_table(rows.filter(pc.is_in(rows["query_id"], value_set=names)), out / table)
        return out


def fitted(lists: Lists, train: Any, seed: int) -> Float64:
    """The scores of `rankloop fit`, with everything estimated from the training lists."""
    with tempfile.TemporaryDirectory() as folder:
        log = open_log(lists.part(train, Path(folder) / "log"))
        bias = log.estimate_bias(BiasOptions(resamples=0, held_out=False), seed=seed)
        return log.fit("lightgbm", bias=bias, judge="none", seed=seed).model.scores(lists.features)


def lambdarank(lists: Lists, train: Any, seed: int) -> Float64:
    """The scores of LightGBM's lambdarank on clicks."""
    stop = np.random.default_rng([seed, 1]).choice(train, round(HELD_OUT * len(train)), replace=False)

    def rows(chosen: Any) -> dict[str, Any]:
        inside = np.flatnonzero(lists.known & np.isin(lists.list, chosen))
        # In random order: LightGBM's NDCG leaves ties as they are, and they are sorted by position.
        order = np.random.default_rng([seed, 2]).random(len(inside))
        inside = inside[np.lexsort((order, lists.list[inside]))]
        sizes = np.bincount(lists.list[inside])
        return {"data": lists.features[inside], "label": lists.clicked[inside], "group": sizes[sizes > 0]}

    data = lightgbm.Dataset(**rows(np.setdiff1d(train, stop)))
    booster = lightgbm.train(
        {**LAMBDARANK, "seed": seed, "num_threads": 1},
        data,
        num_boost_round=TREES.rounds,
        valid_sets=[lightgbm.Dataset(**rows(stop), reference=data)],
        callbacks=[lightgbm.early_stopping(TREES.patience, verbose=False)],
    )
    return np.asarray(booster.predict(lists.features, num_iteration=booster.best_iteration))


METHODS = {
    "as logged": lambda lists, _train, _seed: -lists.position.astype(np.float64),
    "LightGBM's lambdarank on clicks": lambdarank,
    "`rankloop fit`": fitted,
}


def run(events: Path, first: int, last: int, path: Path) -> None:
    """Run what is missing, and add it to the file."""
    done = {(row["method"], row["division"]) for row in read_rows(path)}
    missing = [
        (number, name) for number in range(first, last + 1) for name in METHODS if (name, number) not in done
    ]
    if not missing:
        return
    with tempfile.TemporaryDirectory() as folder:
        import_metarank(events, Path(folder) / "log", policy="production")
        lists = Lists(Path(folder) / "log")
        for number, method in missing:
            order = np.random.default_rng([number, 0]).permutation(len(lists.names))
            size = round(TEST * len(order))
            begun = time.process_time()
            scores = METHODS[method](lists, np.sort(order[size:]), number)  # type: ignore[no-untyped-call]
            seconds = time.process_time() - begun
            row = {
                "method": method,
                "division": number,
                "ndcg": lists.ndcg(scores, order[:size]),
                "seconds": seconds,
            }
            with path.open("a") as file:
                file.write(json.dumps(row) + "\n")


def table(path: Path) -> str:
    """Means over divisions, and differences from `rankloop fit`, as a table in Markdown."""
    by_method: dict[str, dict[int, dict[str, Any]]] = {method: {} for method in METHODS}
    for row in read_rows(path):
        by_method[row["method"]][row["division"]] = row
    own = by_method["`rankloop fit`"]
    lines = [
        f"| | NDCG@{DEPTH} | `rankloop fit` − this | CPU seconds | divisions |",
        "|---|---|---|---|---|",
    ]
    for method, rows in by_method.items():
        gains = [own[number]["ndcg"] - row["ndcg"] for number, row in rows.items() if number in own]
        gain = "" if rows is own else "{:.4f} ± {:.4f}".format(*interval(gains))
        mean, width = interval([row["ndcg"] for row in rows.values()])
        seconds = np.median([row["seconds"] for row in rows.values()])
        lines.append(f"| {method} | {mean:.4f} ± {width:.4f} | {gain} | {seconds:.0f} | {len(rows)} |")
    return "\n".join(lines)


def interval(values: list[float]) -> tuple[float, float]:
    """The mean over divisions and half the width of its 90 % interval, for tests that overlap."""
    number = len(values)
    variance = np.var(values, ddof=1) * (1 / number + TEST / (1 - TEST))
    return float(np.mean(values)), student_quantile(number - 1, 0.05) * float(np.sqrt(variance))


if __name__ == "__main__":
    if sys.argv[1] == "run":
        source, begin, end, file_name = sys.argv[2:]
        run(Path(source), int(begin), int(end), Path(file_name))
    else:
        print(table(Path(sys.argv[2])))
