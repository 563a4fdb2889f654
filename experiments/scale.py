"""What commands cost as a log grows: time, CPU time and peak memory from 10⁶ to 10⁸ rows.

    python -m experiments.scale FOLDER [--rows 1000000 --rows 10000000] [--only check]

Writes a log of another program as Parquet (and as CSV up to 10⁶ rows), and puts it to the commands one after
the other. Queries have a long tail: there is one for every hundred rows, and most of them come a few times.
Two policies, which draw lists of ten from twenty candidates, serve at the same time; documents have ten
features. Results are rows of ``FOLDER/scale.jsonl``; a command that has one is not repeated. A command that
takes more memory than the limit is ended, and its row says so.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq
from numpy.typing import NDArray

from experiments.command import run
from experiments.rows import Row, append_row, read_rows
from rankloop.types import Float64, Int64

SIZES = (10**6, 10**7, 10**8)
CSV_ROWS = 10**6
ROWS_PER_QUERY, RANKS, CANDIDATES, FEATURES = 100, 10, 20, 10
# Impressions that are simulated and written at a time.
BLOCK = 250_000
# Exponent of the long tail of queries.
TAIL = 0.8
POLICIES = ("old", "new")
ALPHA = 0.35 / np.sqrt(np.arange(1, RANKS + 1))
BETA = 0.15 / np.arange(1, RANKS + 1)
BEGINNING = np.datetime64("2024-01-01T00:00:00", "us")
DAYS = 30
# Memory of a command; beyond it the command is ended.
LIMIT_GB = 12.0
SEED = 34


class World:
    """Queries, documents with features, and two policies, all computed from numbers rather than held.

    Args:
        rows: how many rows the log is to have.
    """

    def __init__(self, rows: int) -> None:
        self.impressions, self.queries = rows // RANKS, rows // ROWS_PER_QUERY
        self.documents = 2 * self.queries
        rng = np.random.default_rng(SEED)
        self.features = rng.normal(size=(self.documents, FEATURES)).astype(np.float32)
        share = np.arange(1, self.queries + 1) ** -TAIL
        self.cumulated = np.cumsum(share) / share.sum()
        # A query's candidates are a first document and steps from it.
        self.first = rng.integers(self.documents, size=self.queries)
        self.steps = np.cumsum(rng.integers(1, self.documents // CANDIDATES, size=CANDIDATES))
        self.tastes = rng.normal(size=(self.queries, 2)).astype(np.float32)

    def blocks(self) -> Iterator[pa.Table]:
        """The rows of the log, in the order of time."""
        for number, start in enumerate(range(0, self.impressions, BLOCK)):
            yield self._block(
                start, min(BLOCK, self.impressions - start), np.random.default_rng([SEED, number])
            )

    def _block(self, start: int, count: int, rng: np.random.Generator) -> pa.Table:
        queries = np.searchsorted(self.cumulated, rng.random(count))
        documents = (self.first[queries, None] + self.steps) % self.documents
        policy = rng.integers(2, size=count)
        scores = self._scores(documents, policy) + rng.gumbel(size=documents.shape)
        top = np.argsort(-scores, axis=1)[:, :RANKS]
        shown = np.take_along_axis(documents, top, axis=1)
        clicked = rng.random(shown.shape) < ALPHA * self._relevance(queries, shown) + BETA
        impression = np.arange(start, start + count)
        times = BEGINNING + (impression * (DAYS * 86_400_000_000 // self.impressions)).astype(
            "timedelta64[us]"
        )
        row = np.repeat(np.arange(count), RANKS)
        return pa.table(
            {
                "impression_id": _ids("i", impression).take(pa.array(row)),
                "timestamp": pa.array(times[row]).cast(pa.timestamp("us", "UTC")),
                "query_id": _ids("q", queries).take(pa.array(row)),
                "policy_id": pa.array(np.array(POLICIES)[policy]).take(pa.array(row)),
                "position": pa.array(np.tile(np.arange(1, RANKS + 1, dtype=np.int32), count)),
                "doc_id": _ids("d", shown.ravel()),
                "clicked": pa.array(clicked.ravel()),
            }
        )

    def _relevance(self, queries: Int64, documents: Int64) -> Float64:
        features, taste = self.features[documents], self.tastes[queries]
        score = features[..., 0] + features[..., 1] * features[..., 2] + features[..., 3] * taste[:, :1]
        return np.asarray(1.0 / (1.0 + np.exp(1.0 - score)), np.float64)

    def _scores(self, documents: Int64, policy: NDArray[np.int64]) -> Float64:
        features = self.features[documents]
        return np.where(policy[:, None] == 0, features[..., 0], features[..., 0] + 0.5 * features[..., 4])

    def document_table(self) -> pa.Table:
        """The features of documents."""
        columns = {f"feature_{number}": self.features[:, number] for number in range(FEATURES)}
        return pa.table({"doc_id": _ids("d", np.arange(self.documents)), **columns})


def _ids(letter: str, numbers: Int64) -> pa.Array:
    return pc.binary_join_element_wise(letter, pa.array(numbers).cast(pa.string()), "")


def write(folder: Path, rows: int) -> None:
    """Write the rows as another program would: Parquet, CSV if they are not too many, and the features."""
    if (folder / "features.parquet").exists():
        return
    folder.mkdir(parents=True, exist_ok=True)
    world = World(rows)
    parquet, text = None, None
    for block in world.blocks():
        parquet = parquet or pq.ParquetWriter(folder / "rows.parquet", block.schema)
        parquet.write_table(block)
        if rows <= CSV_ROWS:
            text = text or pyarrow.csv.CSVWriter(folder / "rows.csv", block.schema)
            text.write_table(block)
    for file in filter(None, (parquet, text)):
        file.close()
    pq.write_table(world.document_table(), folder / "features.parquet")


def commands(folder: Path, rows: int) -> dict[str, list[str]]:
    """The commands in their order, by name."""
    log, bias = str(folder / "log"), str(folder / "bias.json")
    features = ["--features", str(folder / "features.parquet"), "--overwrite"]
    found = {}
    if rows <= CSV_ROWS:
        found["import csv"] = ["import", "columns", str(folder / "rows.csv"), "--out", log, *features]
    found["import parquet"] = ["import", "columns", str(folder / "rows.parquet"), "--out", log, *features]
    found["check"] = ["check", log]
    found["bias"] = ["bias", log, "--out", bias]
    fitted = str(folder / "policy")
    found["fit"] = ["fit", log, "--bias", bias, "--judge", "split", "--out", fitted]
    evaluation = ["--bias", bias, "--out", str(folder / "evaluation.html")]
    found["evaluate policies"] = ["evaluate", log, "--policy", "new", "--against", "old", *evaluation]
    found["evaluate fit"] = ["evaluate", log, "--policy", fitted, "--against", "old", *evaluation]
    return found


def measure(words: list[str], output: Path, limit_gb: float) -> Row:
    """Run a command; seconds, CPU seconds and the peak of its memory."""
    begin = time.perf_counter()
    with output.open("w") as file:
        child = subprocess.Popen(
            [sys.executable, "-m", "rankloop", *words],
            stdout=file,
            stderr=subprocess.STDOUT,
            cwd=output.parent,
        )
        ended: list[float] = []
        watch = threading.Thread(target=_end_beyond, args=(child.pid, limit_gb, ended), daemon=True)
        watch.start()
        _, status, used = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
    return {
        "seconds": round(time.perf_counter() - begin, 1),
        "cpu": round(used.ru_utime + used.ru_stime, 1),
        "peak_gb": round(max([used.ru_maxrss * 1024 / 1e9, *ended]), 2),
        "result": "too much memory" if ended else child.returncode,
    }


def _end_beyond(process: int, limit_gb: float, ended: list[float]) -> None:
    """End a process that holds more memory than this."""
    statistics, page = Path(f"/proc/{process}/statm"), resource.getpagesize()
    while True:
        try:
            resident = int(statistics.read_text().split()[1]) * page / 1e9
        except (OSError, IndexError):
            return
        if resident > limit_gb:
            ended.append(resident)
            os.kill(process, 9)
            return
        time.sleep(0.2)


def table(rows: list[Row]) -> str:
    """The measurements in Markdown: one line per command, time and memory by the size of the log."""
    sizes = sorted({row["rows"] for row in rows})
    head = "".join(f" {size:,} rows |" for size in sizes)
    lines = [f"| command |{head} growth |", "|---" * (len(sizes) + 2) + "|"]
    for name in dict.fromkeys(row["command"] for row in rows):
        own = {row["rows"]: row for row in rows if row["command"] == name}
        done = [size for size in sizes if size in own and own[size]["result"] == 0]
        growth = f"{own[done[-1]]['cpu'] / own[done[0]]['cpu']:.1f} times" if done else "–"
        cells = "".join(f" {_cell(own.get(size))} |" for size in sizes)
        lines.append(f"| {name} |{cells} {growth} |")
    return "\n".join(lines)


def _cell(row: Row | None) -> str:
    if row is None:
        return "–"
    failed = "" if row["result"] == 0 else f" ({row['result']})"
    return f"{row['seconds']:,.0f} s, CPU {row['cpu']:,.0f} s, {row['peak_gb']:.1f} GB{failed}"


def main() -> None:
    """Measure what has not been measured, and print the table."""
    parser = argparse.ArgumentParser(
        prog="python -m experiments.scale", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--rows", type=int, action="append", help="size of a log; by default three of them")
    parser.add_argument("--only", action="append", help="a command; by default all of them")
    parser.add_argument("--limit", type=float, default=LIMIT_GB, help="gigabytes of a command")
    given = parser.parse_args()
    results = given.folder / "scale.jsonl"
    for rows in given.rows or SIZES:
        folder = (given.folder / f"{rows}").absolute()
        write(folder, rows)
        for name, words in commands(folder, rows).items():
            known = {(row["rows"], row["command"]) for row in read_rows(results)}
            if (rows, name) in known or (given.only and name not in given.only):
                continue
            found = measure(words, folder / f"{name.replace(' ', '-')}.txt", given.limit)
            append_row(results, {"rows": rows, "command": name, **found})
            print(rows, name, found, flush=True)
    print(table(read_rows(results)))


if __name__ == "__main__":
    run(main)
