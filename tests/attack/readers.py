"""Readers of files: the library's own error, or exactly what an independent simple reader gives."""

from __future__ import annotations

import csv
import gzip
import io
import json
import math
import random
import shutil
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import rankloop
from rankloop import online
from rankloop.bias.storage import bias_from_text, save_bias
from rankloop.data.svmlight import read_svmlight
from rankloop.errors import DataError, RankloopError
from rankloop.experiments.results import read_result
from rankloop.logs import ImportOptions, import_columns
from rankloop.logs.importers.files import SourceFiles
from rankloop.logs.problems import ProblemCounter
from rankloop.loop.events import LoopState
from rankloop.models import model_from_bytes
from rankloop.models.lightgbm import boost
from rankloop.models.optimisers import Adam, OptimiserState
from rankloop.offline.scores import read_scores
from rankloop.statistics import Statistics, statistics_from_bytes, statistics_to_bytes
from rankloop.types import Bias
from tests.attack.accounting import unbalanced
from tests.attack.campaign import Attack, campaign
from tests.attack.mutations import BINARY, FILES, TEXT, mutate

HEADER = "impression_id,timestamp,query_id,policy_id,position,doc_id,clicked"
# Larger features are read as this one.
LARGEST = float(np.finfo(np.float32).max)
# The share of opened logs that are counted, too.
COUNTED = 0.02


def unlike(one: Any, other: Any) -> bool:
    """Whether two arrays differ, to the bit of their values."""
    a, b = np.asarray(one), np.asarray(other)
    return a.shape != b.shape or not np.array_equal(a, b)


@campaign("letor", inputs=400)
def attack_letor(folder: Path) -> Attack:
    """Ranking collections, plain and gzipped."""
    chosen = random.Random(0)
    lines = [
        f"{chosen.randrange(5)} qid:{query} "
        + " ".join(f"{index}:{chosen.uniform(-2, 2):.4g}" for index in range(1, 5))
        + (f" # docid = d{document}" if chosen.random() < 0.9 else "")
        for query in range(4)
        for document in range(3)
    ]
    good, path = ("\n".join(lines) + "\n").encode(), folder / "train.txt"

    def attack(chosen: random.Random) -> str | None:
        path.write_bytes(mutate(good, chosen, FILES))
        try:
            split = read_svmlight(path)
        except DataError as error:
            return None if str(path) in str(error) else f"an error without the file: {error}"
        expected = _simple_letor(path)
        if expected is None:
            return "a file was read that the simple reader refuses"
        labels, queries, rows = expected
        width = split.n_features
        matrix = np.zeros((len(rows), width))
        for number, row in enumerate(rows):
            for index, value in row.items():
                matrix[number, index - 1] = min(max(value, -LARGEST), LARGEST)
        found = np.repeat(split.query_ids, split.sizes).tolist()
        if (
            unlike(split.labels, labels)
            or unlike(split.features, matrix.astype(np.float32))
            or found != queries
        ):
            return "other values than those of the simple reader"
        return None

    return attack


def _simple_letor(path: Path) -> tuple[list[float], list[str], list[dict[int, float]]] | None:
    data = path.read_bytes()
    try:
        content = gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data
        labels, queries, rows = [], [], []
        for line in content.split(b"\n"):
            words = line.split(b"#", 1)[0].split()
            if not words:
                continue
            labels.append(float(words[0]))
            if not words[1].startswith(b"qid:"):
                return None
            queries.append(words[1][4:].decode("utf-8", "backslashreplace"))
            pairs = [word.split(b":") for word in words[2:]]
            row = {int(index): float(value) for index, value in pairs}
            if len(row) != len(pairs) or min(row, default=1) < 1:
                return None
            rows.append(row)
    except (ValueError, IndexError, OSError, EOFError, zlib.error):
        return None
    finite = all(math.isfinite(value) for value in [*labels, *(v for row in rows for v in row.values())])
    return (labels, queries, rows) if finite else None


@campaign("csv", inputs=300)
def attack_csv(folder: Path) -> Attack:
    """Rows of CSV: every line is part of a record or counted as broken."""
    rows = [f'i{n},{n},query {n % 3},p,{n % 2 + 1},"d,{n}",{n % 2}' for n in range(12)]
    good, path = ("\n".join([HEADER, *rows]) + "\n").encode(), folder / "rows.csv"

    def attack(chosen: random.Random) -> str | None:
        path.write_bytes(mutate(good, chosen, TEXT))
        files = SourceFiles(ProblemCounter())
        found = [(record.place & 0xFFFFFFFFFF, record.values) for record in files.records(path, "rows")]
        lines = path.read_bytes().split(b"\n")
        for number, values in found:
            simple = _simple_row(lines, number, list(values))
            if simple is not None and simple != values:
                return f"line {number}: other values than those of the simple reader"
        spanned = {number for number, _ in found}
        # With the first one: it may be a row of a table without names, or of another format.
        filled = sum(bool(line.strip(b"\r")) for line in lines)
        # A quoted field may span lines, so there are at most as many records as lines.
        if len(found) + files.unreadable > filled or len(spanned) < len(found):
            return "more records than lines"
        return None

    return attack


def _simple_row(lines: list[bytes], number: int, names: list[str]) -> dict[str, str] | None:
    """The values of a line without quotes; None if it has any."""
    try:
        text = lines[number - 1].decode().removesuffix("\r")
    except UnicodeDecodeError:
        return None
    if '"' in text or "\r" in text:
        return None
    return dict(zip(names, text.split(","), strict=False)) if text.count(",") == len(names) - 1 else None


@campaign("json lines", inputs=300)
def attack_json(folder: Path) -> Attack:
    """Records of JSON lines: those that Python's own parser reads, and all others counted."""
    rows = [json.dumps({"query_id": f"i{n}", "n": n, "hits": ["x", "y"], "é": None}) for n in range(10)]
    good, path = ("\n".join(rows) + "\n").encode(), folder / "rows.jsonl"

    def attack(chosen: random.Random) -> str | None:
        # The first line tells the format of the file; it stays.
        path.write_bytes(good[: len(rows[0]) + 1] + mutate(good[len(rows[0]) + 1 :], chosen, TEXT))
        files = SourceFiles(ProblemCounter())
        found = [record.values for record in files.records(path, "rows")]
        expected, broken = [], 0
        for line in path.read_bytes().split(b"\n"):
            if not line.strip():
                continue
            try:
                value = json.loads(line.rstrip())
            except (ValueError, RecursionError):
                broken += 1
                continue
            elements = list(_flattened(value))
            expected += [element for element in elements if isinstance(element, dict)]
            broken += sum(not isinstance(element, dict) for element in elements)
        if repr(found) != repr(expected):
            return "other records than those of Python's parser"
        return None if files.unreadable == broken else f"{files.unreadable} broken lines, not {broken}"

    return attack


def _flattened(value: Any) -> Any:
    for element in value if isinstance(value, list) else []:
        yield from _flattened(element)
    if not isinstance(value, list):
        yield value


@campaign("import", inputs=3)
def attack_import(folder: Path) -> Attack:
    """Whole imports of damaged files: rows read = kept + left out, and a log that can be counted."""
    rows = [f"i{n // 2},{n // 2},q{n % 3},p,{n % 2 + 1},d{n % 4},{n % 3 == 0}" for n in range(40)]
    good, path, log = ("\n".join([HEADER, *rows]) + "\n").encode(), folder / "rows.csv", folder / "log"

    def attack(chosen: random.Random) -> str | None:
        path.write_bytes(mutate(good, chosen, FILES))
        shutil.rmtree(log, ignore_errors=True)
        try:
            report = import_columns(path, log, options=ImportOptions(max_loss=1.0))
        except RankloopError:
            return None if not log.exists() else "a refused import left a log"
        counted = rankloop.open_log(log).count()
        if counted.rows != report.rows:
            return f"{counted.rows} rows in the log, {report.rows} in the report"
        return unbalanced(report)

    return attack


@campaign("parquet log", inputs=40)
def attack_parquet(folder: Path) -> Attack:
    """Files of a log with checksums: refused, or the same counts."""
    source, log = folder / "rows.csv", folder / "log"
    rows = [f"i{n},{n},q{n % 3},p,{n % 2 + 1},d{n % 4},{n % 2}" for n in range(60)]
    source.write_text("\n".join([HEADER, *rows]) + "\n")
    import_columns(source, log)
    whole = {path.name: path.read_bytes() for path in log.iterdir()}
    known = rankloop.open_log(log).fingerprint

    def attack(chosen: random.Random) -> str | None:
        name = chosen.choice([*whole, "impressions.parquet"])
        (log / name).write_bytes(mutate(whole[name], chosen, BINARY))
        try:
            opened = rankloop.open_log(log)
            read = {path.name: path.read_bytes() for path in log.glob("*.parquet")}
            if any(whole[table] != content for table, content in read.items()):
                return f"a change in {name} was not noticed"
            # Counting takes a hundred times as long as opening.
            same = chosen.random() > COUNTED or opened.fingerprint == known
            return None if same else f"other counts after a change in {name}"
        finally:
            (log / name).write_bytes(whole[name])

    return attack


@campaign("bias", inputs=500)
def attack_bias(folder: Path) -> Attack:
    """Bias files: refused, or the numbers that Python's own parser reads."""
    bias = Bias(alpha=[0.5, 0.4, 0.3], beta=[0.1, 0.05, 0.0], examination=[1.0, 0.8, 0.6])
    good = save_bias(bias, folder / "bias.json").read_bytes()

    def attack(chosen: random.Random) -> str | None:
        text = mutate(good, chosen).decode(errors="replace")
        found, _ = bias_from_text(text, "bias.json")
        content = json.loads(text)
        for name in ("alpha", "beta", "examination"):
            if unlike(getattr(found, name), np.array(content[name], dtype=np.float64)):
                return f"another {name} than in the file"
        return None

    return attack


def _containers() -> dict[str, tuple[bytes, Any]]:
    """Bytes of everything that is stored with a fingerprint, and the function that reads them."""
    rng = np.random.default_rng(0)
    mlp = rankloop.models.MLP.initialise(3, rng, hidden=(4,))
    linear = rankloop.models.Linear.initialise(3, rng)
    features = rng.normal(size=(120, 3)).astype(np.float32)
    trees = boost(features, lambda scores: (features[:, 0] - scores, np.ones(120)), rounds=2)
    adam = Adam().state(np.zeros(5, np.float32))
    pdgd = online.MethodState.start(online.method("pdgd"), linear, rng)
    empty = Statistics.empty(np.array([0, 2, 5]), 2)
    state = LoopState(1, "trained", empty, mlp, linear, 0.5)
    return {
        "mlp": (mlp.to_bytes(), model_from_bytes),
        "linear": (linear.to_bytes(), model_from_bytes),
        "trees": (trees.to_bytes(), model_from_bytes),
        "optimiser": (adam.to_bytes(), OptimiserState.from_bytes),
        "online": (pdgd.to_bytes(), online.MethodState.from_bytes),
        "statistics": (statistics_to_bytes(empty), statistics_from_bytes),
        "checkpoint": (state.to_bytes("run"), lambda data: LoopState.from_bytes(data, "run")),
    }


@campaign("containers", inputs=1500)
def attack_containers(folder: Path) -> Attack:
    """Models, checkpoints and statistics: refused, or written back to the bytes that were damaged."""
    del folder
    containers = _containers()

    def attack(chosen: random.Random) -> str | None:
        name = chosen.choice(list(containers))
        good, read = containers[name]
        damaged = mutate(good, chosen, TEXT if name == "trees" else BINARY)
        found = read(damaged)
        if name == "trees" and b"rankloop:" not in damaged:
            return None  # exactly the line of rankloop is lost: a model of LightGBM's own, without a checksum
        if isinstance(found, LoopState):
            again = found.to_bytes("run")
        else:
            again = statistics_to_bytes(found) if isinstance(found, Statistics) else found.to_bytes()
        return None if again == good else f"damaged {name} was read as something else"

    return attack


@campaign("run folder", inputs=300)
def attack_run_folder(folder: Path) -> Attack:
    """Folders of runs: refused, or the same result."""
    from tests.experiments.runs import written

    place = written(folder / "run")
    (place / "learned.rankloop").touch()  # as after its end
    whole = {path.name: path.read_bytes() for path in place.iterdir()}
    known = read_result(place)

    def attack(chosen: random.Random) -> str | None:
        name = chosen.choice(list(whole))
        (place / name).write_bytes(mutate(whole[name], chosen))
        try:
            found = read_result(place)
        finally:
            (place / name).write_bytes(whole[name])
        if name == "timing.json":  # no result depends on it
            return None
        return (
            None if found.spec == known.spec and _is_prefix(found, known) else f"another result from {name}"
        )

    return attack


def _is_prefix(found: Any, known: Any) -> bool:
    return found.facts == known.facts and found.rows == known.rows[: len(found.rows)]


@campaign("score table", inputs=200)
def attack_scores(folder: Path) -> Attack:
    """Tables of scores as CSV and Parquet: refused, or what the csv module reads."""
    text = "policy_id,query_id,doc_id,score\n" + "".join(f"p,q{n % 3},d{n},{n / 7:.3f}\n" for n in range(12))
    columns = list(zip(*(line.split(",") for line in text.splitlines()[1:]), strict=True))
    names = ["policy_id", "query_id", "doc_id", "score"]
    table = pa.table([*map(pa.array, columns[:3]), pa.array(list(map(float, columns[3])))], names=names)
    pq.write_table(table, folder / "scores.parquet")
    packed = (folder / "scores.parquet").read_bytes()

    def attack(chosen: random.Random) -> str | None:
        if chosen.random() < 0.3:
            (folder / "scores.parquet").write_bytes(mutate(packed, chosen, BINARY))
            read_scores(folder / "scores.parquet")
            return None
        path = folder / "scores.csv"
        path.write_bytes(mutate(text.encode(), chosen, TEXT))
        found = read_scores(path)
        rows = list(csv.DictReader(io.StringIO(path.read_bytes().decode(errors="replace"), newline="")))
        try:
            expected = sorted(float(row["score"]) for row in rows if any(row.values()))
        except (ValueError, TypeError, KeyError):
            return None
        values = sorted(np.asarray(found.scores, dtype=np.float64).tolist())
        return None if values == expected else "other scores than those of the csv module"

    return attack
